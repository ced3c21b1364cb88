//! A socket, and one client after another.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use devices::pci::PciFunction;
use parking_lot::Mutex;

use crate::connection::Connection;
use crate::error::{End, ServeError};
use crate::event::{Event, Events};
use crate::irqs::Irqs;
use crate::memory::ClientMemory;
use crate::requests::Worker;
use crate::wire::Alarm;

/// A pause after the operating system had no descriptor or thread for a client.
const PAUSE: Duration = Duration::from_millis(100);

/// A function that is served. Dropping it ends its connection and threads, and removes the socket.
pub struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    socket: SocketFile,
}

struct Shared {
    function: Arc<PciFunction>,
    memory: Arc<ClientMemory>,
    events: Events,
    began: Instant,
    stop: Alarm,
    /// The client, and whether there will be no other.
    current: Mutex<(Option<Arc<Connection>>, bool)>,
}

impl Service {
    /// Serves `function`, whose device reaches its memory by `memory`, at the socket `path`.
    ///
    /// A socket that nobody listens on is replaced. There is one client at a time; others wait.
    ///
    /// `events` is called from the service's threads, and from those that access memory for the device, with the device's
    /// lock held: it must not access the device, nor wait.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn start(
        path: impl AsRef<Path>,
        function: Arc<PciFunction>,
        memory: Arc<ClientMemory>,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let stop = Alarm::new().map_err(io::Error::from)?;
        let (listener, socket) = SocketFile::bind(path.as_ref())?;
        let shared = Arc::new(Shared {
            function,
            memory,
            events: Arc::new(events),
            began: Instant::now(),
            stop,
            current: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new().name("vfio-user".to_owned()).spawn(move || serving.accept(&listener))?;
        Ok(Self { shared, thread: Some(thread), socket })
    }

    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.stop.ring();
        let connection = {
            let mut current = self.shared.current.lock();
            current.1 = true;
            current.0.clone()
        };
        if let Some(connection) = connection {
            connection.end(End::Stopped);
        }
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(&self, listener: &UnixListener) {
        loop {
            match self.stop.or_readable(listener.as_fd(), None) {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => return (self.events)(Event::Refused(format!("poll: {error}"))),
            }
            match listener.accept() {
                Ok((client, _)) => {
                    if let Err(end) = self.serve(client) {
                        (self.events)(Event::Refused(end.to_string()));
                        let _ = self.stop.wait(PAUSE);
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // Gone before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    (self.events)(Event::Refused(error.to_string()));
                    let _ = self.stop.wait(PAUSE);
                }
            }
        }
    }

    /// One client, until it is gone.
    fn serve(&self, client: UnixStream) -> Result<(), End> {
        let connection = Arc::new(Connection::new(client)?);
        {
            let mut current = self.current.lock();
            if current.1 {
                return Ok(());
            }
            current.0 = Some(Arc::clone(&connection));
        }
        let served = self.converse(&connection);
        self.current.lock().0 = None;
        served
    }

    fn converse(&self, connection: &Arc<Connection>) -> Result<(), End> {
        let irqs = Arc::new(Irqs::new(&self.function));
        let worker = Worker {
            connection: Arc::clone(connection),
            function: Arc::clone(&self.function),
            memory: Arc::clone(&self.memory),
            irqs,
            events: Arc::clone(&self.events),
            began: self.began,
            negotiated: false,
        };
        let guard = EndOnPanic(Arc::clone(connection));
        let worker = thread::Builder::new().name("vfio-user-worker".to_owned()).spawn(move || {
            let _guard = guard;
            worker.run()
        })?;
        connection.receive();
        // A worker that panicked had a client.
        let greeted = worker.join().unwrap_or(true);
        self.function.set_interrupt_output(None);
        self.memory.disconnect();
        if greeted {
            self.function.power_on();
        }
        let end = connection.take_end().map_or_else(String::new, |end| end.to_string());
        (self.events)(if greeted { Event::Disconnected(end) } else { Event::Refused(end) });
        Ok(())
    }
}

/// The client of a worker that panics must not wait for answers.
struct EndOnPanic(Arc<Connection>);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(End::Panicked);
        }
    }
}

/// A socket in the file system, removed with this.
struct SocketFile {
    path: PathBuf,
    /// Device and inode: another file at the same path is not ours.
    identity: (u64, u64),
}

impl SocketFile {
    fn bind(path: &Path) -> Result<(UnixListener, Self), ServeError> {
        let failed = |error: io::Error| ServeError::Socket { path: path.to_owned(), error };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(there) if !there.file_type().is_socket() => return Err(ServeError::NotASocket(path.to_owned())),
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(ServeError::InUse(path.to_owned())),
                // Whoever listened there is dead.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            },
        }
        let listener = UnixListener::bind(path).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => ServeError::InUse(path.to_owned()),
            _ => failed(error),
        })?;
        let identity = identity(path).map_err(failed)?;
        let socket = Self { path: path.to_owned(), identity };
        listener.set_nonblocking(true).map_err(failed)?;
        Ok((listener, socket))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // It may go at this moment.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("path", &self.path()).finish_non_exhaustive()
    }
}
