//! The bus for other processes: one connection each, over a socket in the bus's folder.
//!
//! Nothing that a client sends or fails to send stops the bus: a client that breaks the protocol, dies or does not read is
//! dropped, its transfers are taken back and its claims released.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::memory::Limit;
use crate::program::{loadable, reachable};
use crate::root::{self, ROOT_VARIABLE};
use crate::session::Session;
use crate::{AttachError, CommandError, takeover};

/// The environment variable with the path of this crate's shared library, if it does not lie beside the executable.
pub const LIBRARY_VARIABLE: &str = "USBFS_SHIM_LIBRARY";

/// Connections at a time; a further one takes the place of the oldest that has said nothing, or is closed at once.
const MOST_CLIENTS: usize = 256;
/// The most bytes of all clients' transfers, in flight and on their way back: more is ENOMEM.
const MOST_TOGETHER: usize = 1 << 30;

/// The served bus. Dropping it ends every connection: clients see ENODEV.
pub struct Server {
    root: PathBuf,
    socket: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    ended: AtomicBool,
    /// The oldest first.
    clients: Mutex<Vec<Weak<Session>>>,
    memory: Arc<Limit>,
}

/// Serves this process's bus to programs of other processes, until the server is dropped.
///
/// # Errors
/// The bus is another process's, is served already, or its socket cannot be made.
pub fn serve() -> Result<Server, AttachError> {
    takeover::keep();
    let root = root::host()?;
    let socket = root.socket();
    let listener = UnixListener::bind(&socket).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => AttachError::Served,
        _ => AttachError::Files(error),
    })?;
    let (ended, clients, memory) = (AtomicBool::new(false), Mutex::default(), Limit::new(MOST_TOGETHER));
    let shared = Arc::new(Shared { ended, clients, memory });
    let accepting = {
        let shared = shared.clone();
        thread::Builder::new().name("usbfs accept".to_owned()).spawn(move || accept(&listener, &shared))?
    };
    Ok(Server { root: root.path.clone(), socket, shared, accepting: Some(accepting) })
}

impl Server {
    /// The bus's folder: the value of [`ROOT_VARIABLE`] for its clients.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What a program needs in its environment to see the bus and nothing else of USB: the bus's folder and the preloaded
    /// library, before what is preloaded already. And AddressSanitizer must not insist on being the first library: its
    /// functions come next, where this library's pass a call on.
    ///
    /// # Errors
    /// The shared library was not found; see [`library`].
    pub fn environment(&self) -> io::Result<[(OsString, OsString); 3]> {
        let mut preload = library()?.into_os_string();
        if preload.as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
            let text = format!("{} holds a space or a colon, which {PRELOAD} cannot carry", preload.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut sanitizer = std::env::var_os(SANITIZER).filter(|options| !options.is_empty()).unwrap_or_default();
        if !sanitizer.is_empty() {
            sanitizer.push(":");
        }
        sanitizer.push("verify_asan_link_order=0");
        let root = self.root.clone().into();
        Ok([(ROOT_VARIABLE.into(), root), (PRELOAD.into(), preload), (SANITIZER.into(), sanitizer)])
    }

    /// A command that runs with the bus in its view.
    ///
    /// # Errors
    /// [`CommandError`]: the program would not see it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, CommandError> {
        let mut command = Command::new(reachable(program.as_ref())?);
        // It may look at the name that it was called by.
        command.arg0(program);
        command.envs(self.environment()?);
        Ok(command)
    }
}

const PRELOAD: &str = "LD_PRELOAD";
const SANITIZER: &str = "ASAN_OPTIONS";
const LIBRARY: &str = "libusbfs_shim.so";

/// This crate's shared library: [`LIBRARY_VARIABLE`], else beside the executable, where cargo puts it when it builds a
/// package that depends on this one.
///
/// # Errors
/// It is in none of these places.
pub fn library() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        // A path that leads nowhere must not start a program without the bus: it would see the machine's own.
        let library = std::fs::canonicalize(&path).and_then(|path| loadable(&path).map(|()| path));
        let told = |error: io::Error| format!("{LIBRARY_VARIABLE}: {}: {error}", Path::new(&path).display());
        return library.map_err(|error| io::Error::new(error.kind(), told(error)));
    }
    let executable = std::env::current_exe()?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // What cargo builds for a package that depends on this one lies in `deps`; a copy beside an installed program.
    let places = ["deps", "../deps", ""].map(|place| folder.join(place).join(LIBRARY));
    places.into_iter().find(|path| path.exists()).ok_or_else(|| {
        let text = format!("{LIBRARY} is not beside {}: set {LIBRARY_VARIABLE} to its path", executable.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = UnixStream::connect(&self.socket);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let _ = std::fs::remove_file(&self.socket);
        for client in self.shared.clients.lock().iter().filter_map(Weak::upgrade) {
            client.end();
        }
    }
}

fn accept(listener: &UnixListener, shared: &Shared) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for stream in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, until some client leaves.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let mut clients = shared.clients.lock();
        clients.retain(|client| client.strong_count() > 0);
        if clients.len() >= MOST_CLIENTS {
            let silent = |client: &Weak<Session>| client.upgrade().filter(|client| !client.spoke());
            let Some((at, oldest)) = clients.iter().enumerate().find_map(|(at, client)| Some((at, silent(client)?)))
            else {
                continue;
            };
            oldest.end();
            clients.remove(at);
        }
        let session = Session::new(NEXT.fetch_add(1, Ordering::Relaxed), stream, shared.memory.clone());
        clients.push(Arc::downgrade(&session));
        // Without a thread there is no connection: the client sees it closed.
        let _ = thread::Builder::new().name("usbfs client".to_owned()).spawn(move || session.run());
    }
}
