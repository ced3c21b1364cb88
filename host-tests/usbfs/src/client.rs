//! A bus that another process serves.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::{Condvar, Mutex};
use usb::Direction;
use usb::urb::{Urb, UrbDone};
use zerocopy::IntoBytes;

use crate::DeviceInfo;
use crate::backend::Done;
use crate::error::Errno;
use crate::node::{Answer, Call, Holder, Node, NodeRef};
use crate::process::PerProcess;
use crate::protocol::{
    CallPayload, CompletePayload, Frame, Hello, Kind, MOST_IN_FLIGHT, Operation, Received, ReplyPayload, SubmitPayload,
    URB_BYTES, decode_device, decode_selection, urb_status,
};
use crate::root;
use crate::settings::Settings;
use crate::socket::Connection;
use crate::uevents::{self, Action};

/// The connection.
static CLIENT: PerProcess<Mutex<Option<Arc<Client>>>> = PerProcess::new(Mutex::default);

/// The connection to the bus; a new one if there is none, it broke, or the program has closed it.
pub(crate) fn connect() -> Result<Arc<Client>, Errno> {
    let mut current = CLIENT.get().lock();
    if let Some(client) = current.as_ref() {
        if !client.connection.is_there() {
            client.end();
        }
        if !client.state.lock().ended {
            return Ok(client.clone());
        }
    }
    let client = Client::connect().map_err(|_| Errno(libc::ENODEV))?;
    *current = Some(client.clone());
    Ok(client)
}

/// The device with a node's bus and address.
pub(crate) fn find(bus: u8, address: u8) -> Result<NodeRef, Errno> {
    let client = connect()?;
    let state = client.state.lock();
    let found = state.devices.values().find(|device| (device.info.bus, device.info.address) == (bus, address));
    found.map(|device| device.clone() as NodeRef).ok_or(Errno(libc::ENOENT))
}

#[derive(Default)]
struct Waiting {
    answer: Mutex<Option<Result<Answer, Errno>>>,
    changed: Condvar,
}

struct InFlight {
    buffer: Vec<u8>,
    bytes: usize,
    direction: Direction,
    done: Done,
}

#[derive(Default)]
struct State {
    devices: BTreeMap<u64, Arc<RemoteDevice>>,
    calls: BTreeMap<u64, Arc<Waiting>>,
    urbs: BTreeMap<u64, InFlight>,
    bytes: usize,
    listed: bool,
    ended: bool,
}

pub(crate) struct Client {
    connection: Arc<Connection>,
    /// Locked by who writes a frame.
    writing: Mutex<()>,
    state: Mutex<State>,
    listed: Condvar,
    next: AtomicU64,
}

impl Client {
    fn connect() -> io::Result<Arc<Self>> {
        let root = root::root().ok_or(io::ErrorKind::NotFound)?;
        let connection = Arc::new(Connection::new(UnixStream::connect(root.socket())?)?);
        (&*connection).write_all(Hello::new().as_bytes())?;
        Hello::read(&mut &*connection)?;
        let client = Arc::new(Self {
            connection: connection.clone(),
            writing: Mutex::new(()),
            state: Mutex::default(),
            listed: Condvar::new(),
            next: AtomicU64::new(1),
        });
        let reading = client.clone();
        let quiet = BlockedSignals::new();
        let thread = thread::Builder::new().name("usbfs".to_owned()).spawn(move || {
            let mut reader = BufReader::with_capacity(64 << 10, &*connection);
            // The connection ends with its first error: every device is gone then.
            let _ = reading.read(&mut reader);
            reading.end();
        });
        drop(quiet);
        thread?;
        let mut state = client.state.lock();
        while !state.listed && !state.ended {
            client.listed.wait(&mut state);
        }
        drop(state);
        Ok(client)
    }

    fn send(&self, frame: &Frame) -> io::Result<()> {
        let _whole = self.writing.lock();
        frame.write(&mut &*self.connection)
    }

    fn read(self: &Arc<Self>, reader: &mut impl Read) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        loop {
            let received = Received::read(reader)?;
            let number = received.number;
            match received.kind {
                Kind::Attached => self.attached(number, &received.bytes(reader)?).ok_or_else(invalid)?,
                Kind::Listed => {
                    received.bytes(reader)?;
                    self.state.lock().listed = true;
                    self.listed.notify_all();
                }
                Kind::Detached => {
                    received.bytes(reader)?;
                    self.detached(number);
                }
                Kind::Selected => {
                    let bytes = received.bytes(reader)?;
                    let (active, alternates) = decode_selection(&bytes).ok_or_else(invalid)?;
                    let device = self.state.lock().devices.get(&number).cloned();
                    if let Some(device) = device {
                        let mut settings = device.settings.lock();
                        (settings.active, settings.alternates) = (active, alternates);
                    }
                }
                Kind::Lost => {
                    let interface = *received.bytes(reader)?.first().ok_or_else(invalid)?;
                    self.lost(number, interface);
                }
                Kind::Reply => {
                    let (reply, driver) = received.payload::<ReplyPayload>(reader)?;
                    let answer = match reply.error.get() {
                        0 => Ok(Answer { value: reply.value, driver: String::from_utf8_lossy(&driver).into_owned() }),
                        error => Err(Errno(error)),
                    };
                    let waiting = self.state.lock().calls.remove(&number);
                    if let Some(waiting) = waiting {
                        waiting.finish(answer);
                    }
                }
                Kind::Complete => {
                    let (payload, data) = received.payload::<CompletePayload>(reader)?;
                    self.complete(number, &payload, data);
                }
                _ => return Err(invalid()),
            }
        }
    }

    fn attached(self: &Arc<Self>, number: u64, bytes: &[u8]) -> Option<()> {
        let (info, (active, alternates)) = decode_device(bytes)?;
        let mut settings = Settings::parse(&info).ok()?;
        (settings.active, settings.alternates) = (active, alternates);
        let settings = Mutex::new(settings);
        let client = Arc::downgrade(self);
        let device = Arc::new(RemoteDevice { number, info, settings, opens: Mutex::default(), client });
        let listed = {
            let mut state = self.state.lock();
            state.devices.insert(number, device.clone());
            state.listed
        };
        if listed {
            uevents::send(Action::Add, &device.info, &device.settings.lock());
        }
        Some(())
    }

    fn detached(&self, number: u64) {
        let device = self.state.lock().devices.remove(&number);
        if let Some(device) = device {
            device.gone();
        }
    }

    fn lost(&self, open: u64, interface: u8) {
        let devices: Vec<Arc<RemoteDevice>> = self.state.lock().devices.values().cloned().collect();
        for device in devices {
            let holder = device.opens.lock().get(&open).and_then(Weak::upgrade);
            if let Some(holder) = holder {
                holder.lost(open, interface);
            }
        }
    }

    fn complete(&self, number: u64, payload: &CompletePayload, data: Vec<u8>) {
        let urb = {
            let mut state = self.state.lock();
            let Some(urb) = state.urbs.remove(&number) else { return };
            state.bytes -= URB_BYTES + urb.bytes;
            urb
        };
        // Never more than was asked for, whatever the other side says.
        let mut actual = (payload.actual.get() as usize).min(urb.bytes);
        let mut buffer = urb.buffer;
        if urb.direction == Direction::In {
            buffer = data;
            buffer.truncate(urb.bytes);
            actual = actual.min(buffer.len());
        }
        (urb.done)(UrbDone { buffer, actual, status: urb_status(payload.status.get()) });
    }

    /// The bus is gone, and every device with it.
    fn end(&self) {
        let (devices, calls, urbs) = {
            let mut state = self.state.lock();
            state.ended = true;
            let State { devices, calls, urbs, .. } = &mut *state;
            (std::mem::take(devices), std::mem::take(calls), std::mem::take(urbs))
        };
        self.listed.notify_all();
        for device in devices.into_values() {
            device.gone();
        }
        for waiting in calls.into_values() {
            waiting.finish(Err(Errno(libc::ENODEV)));
        }
        drop(urbs);
    }

    fn call(&self, device: u64, open: u64, operation: Operation) -> Result<Answer, Errno> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let waiting = Arc::new(Waiting::default());
        {
            let mut state = self.state.lock();
            if state.ended {
                return Err(Errno(libc::ENODEV));
            }
            state.calls.insert(number, waiting.clone());
        }
        let payload = CallPayload::new(device, open, operation);
        if self.send(&Frame::new(Kind::Call, number, payload.as_bytes(), Vec::new())).is_err() {
            self.state.lock().calls.remove(&number);
            return Err(Errno(libc::ENODEV));
        }
        let mut answer = waiting.answer.lock();
        loop {
            match answer.take() {
                Some(answer) => return answer,
                None => waiting.changed.wait(&mut answer),
            }
        }
    }
}

impl Waiting {
    fn finish(&self, answer: Result<Answer, Errno>) {
        *self.answer.lock() = Some(answer);
        self.changed.notify_all();
    }
}

/// A device behind the socket.
struct RemoteDevice {
    number: u64,
    info: DeviceInfo,
    settings: Mutex<Settings>,
    opens: Mutex<BTreeMap<u64, Weak<dyn Holder>>>,
    client: Weak<Client>,
}

impl RemoteDevice {
    fn client(&self) -> Result<Arc<Client>, Errno> {
        self.client.upgrade().ok_or(Errno(libc::ENODEV))
    }

    fn gone(&self) {
        let opens = std::mem::take(&mut *self.opens.lock());
        for (open, holder) in opens {
            if let Some(holder) = holder.upgrade() {
                holder.gone(open);
            }
        }
        uevents::send(Action::Remove, &self.info, &self.settings.lock());
    }
}

impl Node for RemoteDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn settings(&self) -> &Mutex<Settings> {
        &self.settings
    }

    fn open(&self, open: u64, holder: Weak<dyn Holder>) -> Result<(), Errno> {
        let client = self.client()?;
        self.opens.lock().insert(open, holder);
        let result = client.call(self.number, open, Operation::Open);
        if result.is_err() {
            self.opens.lock().remove(&open);
        }
        result.map(|_| ())
    }

    fn close(&self, open: u64) {
        self.opens.lock().remove(&open);
        if let Ok(client) = self.client() {
            // Closed in any case: a bus that is gone holds no claims.
            let _ = client.call(self.number, open, Operation::Close);
        }
    }

    fn call(&self, open: u64, call: Call) -> Result<Answer, Errno> {
        self.client()?.call(self.number, open, Operation::Call(call))
    }

    fn submit(&self, mut urb: Urb, done: Done) -> Result<u64, Errno> {
        let client = self.client()?;
        let number = client.next.fetch_add(1, Ordering::Relaxed);
        let payload = SubmitPayload::new(self.number, &urb);
        let (bytes, direction) = (urb.buffer.len(), urb.endpoint.direction);
        let data = if direction == Direction::Out { std::mem::take(&mut urb.buffer) } else { Vec::new() };
        {
            let mut state = client.state.lock();
            if state.ended {
                return Err(Errno(libc::ENODEV));
            }
            if state.bytes + URB_BYTES + bytes > MOST_IN_FLIGHT {
                return Err(Errno(libc::ENOMEM));
            }
            state.bytes += URB_BYTES + bytes;
            state.urbs.insert(number, InFlight { buffer: Vec::new(), bytes, direction, done });
        }
        // If it cannot be sent, the reader finds the connection broken and ends every transfer.
        let _ = client.send(&Frame::new(Kind::Submit, number, payload.as_bytes(), data));
        Ok(number)
    }

    fn cancel(&self, id: u64) {
        if let Ok(client) = self.client() {
            // As above.
            let _ = client.send(&Frame::new(Kind::Cancel, id, &[], Vec::new()));
        }
    }
}

/// Signals of the program are the program's: a thread that starts now takes none.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: both sets are filled by the calls before they are read.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut old = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
            Self(old)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set that `new` was given.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
