//! The bus for other processes: one connection each, over a socket in the bus's folder.
//!
//! Nothing that a client sends or fails to send stops the bus: a client that breaks the protocol, dies or does not read is
//! dropped, its transfers are taken back and its claims released.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use usb::urb::UrbDone;
use usb::{Direction, UrbError};
use zerocopy::IntoBytes;

use crate::bus::{self, Watcher};
use crate::error::Errno;
use crate::host_device::{HostDevice, Owner};
use crate::node::{Answer, Holder, Node};
use crate::outgoing::Outgoing;
use crate::program::{loadable, reachable};
use crate::protocol::{
    CallPayload, CompletePayload, Frame, Hello, Kind, MOST_IN_FLIGHT, Operation, Received, ReplyPayload, SubmitPayload,
    encode_device, encode_selection,
};
use crate::root::{self, ROOT_VARIABLE};
use crate::socket::Quiet;
use crate::{AttachError, CommandError, takeover};

/// The environment variable with the path of this crate's shared library, if it does not lie beside the executable.
pub const LIBRARY_VARIABLE: &str = "USBFS_SHIM_LIBRARY";

/// Connections at a time; a further one is closed at once.
const MOST_CLIENTS: usize = 256;

/// The served bus. Dropping it ends every connection: clients see ENODEV.
pub struct Server {
    root: PathBuf,
    socket: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    clients: Mutex<Vec<Weak<Session>>>,
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
    let shared = Arc::new(Shared::default());
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
    /// library, before what is preloaded already.
    ///
    /// # Errors
    /// The shared library was not found; see [`library`].
    pub fn environment(&self) -> io::Result<[(OsString, OsString); 2]> {
        let mut preload = library()?.into_os_string();
        if preload.as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
            let text = format!("{} holds a space or a colon, which {PRELOAD} cannot carry", preload.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        Ok([(ROOT_VARIABLE.into(), self.root.clone().into()), (PRELOAD.into(), preload)])
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
            continue;
        }
        let session = Arc::new_cyclic(|this| Session {
            client: NEXT.fetch_add(1, Ordering::Relaxed),
            stream,
            outgoing: Outgoing::default(),
            state: Mutex::default(),
            this: this.clone(),
        });
        clients.push(Arc::downgrade(&session));
        // Without a thread there is no connection: the client sees it closed.
        let _ = thread::Builder::new().name("usbfs client".to_owned()).spawn(move || session.run());
    }
}

struct InFlight {
    device: u64,
    node: Arc<HostDevice>,
    bytes: usize,
    id: Option<u64>,
    cancelled: bool,
}

#[derive(Default)]
struct State {
    devices: BTreeMap<u64, Arc<HostDevice>>,
    /// Open files, with their devices.
    opens: BTreeMap<u64, (u64, Arc<HostDevice>)>,
    urbs: BTreeMap<u64, InFlight>,
    bytes: usize,
    ended: bool,
}

/// One connection.
struct Session {
    client: u64,
    stream: UnixStream,
    outgoing: Outgoing,
    state: Mutex<State>,
    this: Weak<Session>,
}

impl Session {
    fn run(self: Arc<Self>) {
        // The connection ends with its first error, whatever it is: there is nobody to tell.
        let _ = self.serve();
        self.end();
        let (urbs, opens) = {
            let mut state = self.state.lock();
            state.ended = true;
            state.devices.clear();
            (std::mem::take(&mut state.urbs), std::mem::take(&mut state.opens))
        };
        for urb in urbs.into_values() {
            if let Some(id) = urb.id {
                urb.node.cancel(id);
            }
        }
        for (open, (_, device)) in opens {
            device.close_as(Owner { client: self.client, open });
        }
    }

    fn serve(self: &Arc<Self>) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(64 << 10, &self.stream);
        Quiet(&self.stream).write_all(Hello::new().as_bytes())?;
        Hello::read(&mut reader)?;
        let watcher: Arc<dyn Watcher> = self.clone();
        bus::watch(&watcher);
        drop(watcher);
        self.send(Frame::new(Kind::Listed, 0, &[], Vec::new()));
        let (calls, to_answer) = mpsc::sync_channel(1024);
        thread::scope(|scope| {
            scope.spawn(|| self.write());
            scope.spawn(move || self.answer(&to_answer));
            let result = self.read(&mut reader, |call| calls.send(call).is_ok());
            drop(calls);
            self.end();
            result
        })
    }

    fn end(&self) {
        self.outgoing.end();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn send(&self, frame: Frame) {
        if !self.outgoing.push(frame) {
            // It does not read: it is dropped.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    fn write(&self) {
        while let Some(frame) = self.outgoing.next() {
            if frame.write(&mut Quiet(&self.stream)).is_err() {
                self.end();
                return;
            }
        }
    }

    fn read(
        &self,
        reader: &mut BufReader<&UnixStream>,
        mut call: impl FnMut((u64, CallPayload)) -> bool,
    ) -> io::Result<()> {
        loop {
            let received = Received::read(reader)?;
            match received.kind {
                Kind::Call => {
                    let (payload, _) = received.payload::<CallPayload>(reader)?;
                    if !call((received.number, payload)) {
                        return Ok(());
                    }
                }
                Kind::Submit => {
                    let (payload, data) = received.payload::<SubmitPayload>(reader)?;
                    self.submit(received.number, &payload, data)?;
                }
                Kind::Cancel => {
                    received.bytes(reader)?;
                    self.cancel(received.number);
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Calls may block until the device has answered: they have a thread of their own, so that transfers go on.
    fn answer(&self, calls: &Receiver<(u64, CallPayload)>) {
        for (number, payload) in calls {
            let result = self.call(&payload);
            let (error, answer) = match result {
                Ok(answer) => (0, answer),
                Err(error) => (error.0, Answer::default()),
            };
            let reply = ReplyPayload { error: error.into(), value: answer.value, reserved: [0; 3] };
            self.send(Frame::new(Kind::Reply, number, reply.as_bytes(), answer.driver.into_bytes()));
        }
    }

    fn call(&self, payload: &CallPayload) -> Result<Answer, Errno> {
        let (device, open) = (payload.device.get(), payload.open.get());
        let owner = Owner { client: self.client, open };
        let operation = payload.operation().ok_or(Errno(libc::ENOTTY))?;
        let found = {
            let state = self.state.lock();
            match operation {
                Operation::Open if state.opens.contains_key(&open) => return Err(Errno(libc::EBUSY)),
                Operation::Open => state.devices.get(&device).cloned(),
                Operation::Close | Operation::Call(_) => {
                    state.opens.get(&open).filter(|(of, _)| *of == device).map(|(_, node)| node.clone())
                }
            }
        };
        let node = found.ok_or(Errno(libc::ENODEV))?;
        match operation {
            Operation::Open => {
                let holder: Weak<dyn Holder> = self.this.clone();
                node.open_as(owner, holder)?;
                self.state.lock().opens.insert(open, (device, node));
                Ok(Answer::default())
            }
            Operation::Close => {
                self.state.lock().opens.remove(&open);
                node.close_as(owner);
                Ok(Answer::default())
            }
            Operation::Call(call) => node.call_as(owner, call),
        }
    }

    fn submit(&self, number: u64, payload: &SubmitPayload, data: Vec<u8>) -> io::Result<()> {
        let device = payload.device.get();
        let Some(node) = self.state.lock().devices.get(&device).cloned() else {
            // Unplugged meanwhile.
            let done = UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::NoDevice) };
            self.send_complete(number, Direction::Out, done);
            return Ok(());
        };
        let urb = payload.urb(node.info().address, data).ok_or(io::ErrorKind::InvalidData)?;
        let bytes = urb.buffer.len();
        {
            let mut state = self.state.lock();
            // A client of ours keeps to half of it.
            if state.urbs.contains_key(&number) || state.bytes + bytes > 2 * MOST_IN_FLIGHT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            state.bytes += bytes;
            state.urbs.insert(number, InFlight { device, node: node.clone(), bytes, id: None, cancelled: false });
        }
        let direction = urb.endpoint.direction;
        let this = self.this.clone();
        let done = move |done| {
            if let Some(session) = this.upgrade() {
                session.complete(number, direction, done);
            }
        };
        let Ok(id) = node.submit(urb, Box::new(done)) else {
            let done = UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::NoDevice) };
            self.complete(number, direction, done);
            return Ok(());
        };
        let cancelled = self.state.lock().urbs.get_mut(&number).is_some_and(|urb| {
            urb.id = Some(id);
            urb.cancelled
        });
        if cancelled {
            node.cancel(id);
        }
        Ok(())
    }

    fn cancel(&self, number: u64) {
        let found = self.state.lock().urbs.get_mut(&number).and_then(|urb| {
            urb.cancelled = true;
            Some((urb.node.clone(), urb.id?))
        });
        if let Some((node, id)) = found {
            node.cancel(id);
        }
    }

    fn complete(&self, number: u64, direction: Direction, done: UrbDone) {
        {
            let mut state = self.state.lock();
            let Some(urb) = state.urbs.remove(&number) else { return };
            state.bytes -= urb.bytes;
        }
        self.send_complete(number, direction, done);
    }

    fn send_complete(&self, number: u64, direction: Direction, done: UrbDone) {
        let UrbDone { mut buffer, actual, status } = done;
        let actual = if direction == Direction::In { actual.min(buffer.len()) } else { actual };
        buffer.truncate(if direction == Direction::In { actual } else { 0 });
        let status = status.map_or_else(UrbError::errno, |()| 0);
        let payload = CompletePayload { status: status.into(), actual: (actual as u32).into() };
        self.send(Frame::new(Kind::Complete, number, payload.as_bytes(), buffer));
    }
}

impl Watcher for Session {
    fn attached(&self, number: u64, device: &Arc<HostDevice>) {
        {
            let mut state = self.state.lock();
            if state.ended {
                return;
            }
            state.devices.insert(number, device.clone());
        }
        let bytes = encode_device(device.info(), &device.settings().lock());
        self.send(Frame::new(Kind::Attached, number, &bytes, Vec::new()));
    }

    fn detached(&self, number: u64) {
        self.state.lock().devices.remove(&number);
        self.send(Frame::new(Kind::Detached, number, &[], Vec::new()));
    }

    fn selected(&self, number: u64, device: &HostDevice) {
        let bytes = encode_selection(&device.settings().lock());
        self.send(Frame::new(Kind::Selected, number, &bytes, Vec::new()));
    }
}

impl Holder for Session {
    fn lost(&self, open: u64, interface: u8) {
        self.send(Frame::new(Kind::Lost, open, &[interface], Vec::new()));
    }

    /// The client ends its transfers itself; here they are only taken back.
    fn gone(&self, open: u64) {
        let urbs: Vec<InFlight> = {
            let mut state = self.state.lock();
            let Some((device, _)) = state.opens.remove(&open) else { return };
            let numbers: Vec<u64> =
                state.urbs.iter().filter(|(_, urb)| urb.device == device).map(|(number, _)| *number).collect();
            let urbs: Vec<InFlight> = numbers.iter().filter_map(|number| state.urbs.remove(number)).collect();
            state.bytes -= urbs.iter().map(|urb| urb.bytes).sum::<usize>();
            urbs
        };
        for urb in urbs {
            if let Some(id) = urb.id {
                urb.node.cancel(id);
            }
        }
    }
}
