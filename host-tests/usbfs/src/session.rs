//! One connection of the bus: a client of another process, its open files and transfers.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use usb::urb::UrbDone;
use usb::{Direction, UrbError};
use zerocopy::IntoBytes;

use crate::backend::Once;
use crate::bus::{self, Watcher};
use crate::error::Errno;
use crate::host_device::{HostDevice, Owner};
use crate::memory::{Charge, Limit, zeroed};
use crate::node::{Answer, Holder, Node};
use crate::outgoing::Outgoing;
use crate::protocol::{
    CallPayload, CompletePayload, Frame, Hello, Kind, MOST_IN_FLIGHT, Operation, Received, ReplyPayload, SubmitPayload,
    URB_BYTES, encode_device, encode_selection,
};
use crate::socket::Quiet;

/// How long a connection may say nothing before its first word.
const HELLO: Duration = Duration::from_secs(5);
/// Open files of one client.
const MOST_OPENS: usize = 4096;

struct InFlight {
    device: u64,
    node: Arc<HostDevice>,
    /// Of its data, and what it counts itself.
    bytes: usize,
    charge: Charge,
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
pub(crate) struct Session {
    client: u64,
    stream: UnixStream,
    spoke: AtomicBool,
    outgoing: Outgoing,
    state: Mutex<State>,
    memory: Arc<Limit>,
    this: Weak<Session>,
}

/// Ends a session when it is dropped.
struct Ends<'a>(&'a Session);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Session {
    pub(crate) fn new(client: u64, stream: UnixStream, memory: Arc<Limit>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            client,
            stream,
            spoke: AtomicBool::new(false),
            outgoing: Outgoing::default(),
            state: Mutex::default(),
            memory,
            this: this.clone(),
        })
    }

    /// Whether the client has said anything yet.
    pub(crate) fn spoke(&self) -> bool {
        self.spoke.load(Ordering::Relaxed)
    }

    pub(crate) fn run(self: Arc<Self>) {
        // The connection ends with its first error, whatever it is, or a backend's panic: there is nobody to tell.
        let _ = catch_unwind(AssertUnwindSafe(|| self.serve()));
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
        self.stream.set_read_timeout(Some(HELLO))?;
        Hello::read(&mut reader)?;
        self.stream.set_read_timeout(None)?;
        self.spoke.store(true, Ordering::Relaxed);
        let watcher: Arc<dyn Watcher> = self.clone();
        bus::watch(&watcher);
        drop(watcher);
        self.send(Frame::new(Kind::Listed, 0, &[], Vec::new()));
        let (calls, to_answer) = mpsc::sync_channel(1024);
        thread::scope(|scope| {
            // Whichever of the three ends first, by a panic too, or is not to be had: the others end with it.
            let _ends = Ends(self);
            // Dropped at the end, so that whoever answers them ends.
            let calls = calls;
            let named = |name: &str| thread::Builder::new().name(name.to_owned());
            named("usbfs write").spawn_scoped(scope, || {
                let _ends = Ends(self);
                self.write();
            })?;
            named("usbfs answer").spawn_scoped(scope, move || {
                let _ends = Ends(self);
                self.answer(&to_answer);
            })?;
            self.read(&mut reader, |call| calls.send(call).is_ok())
        })
    }

    pub(crate) fn end(&self) {
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

    fn read(&self, reader: &mut impl Read, mut call: impl FnMut((u64, CallPayload)) -> bool) -> io::Result<()> {
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
                    let payload = received.fixed::<SubmitPayload>(reader)?;
                    let out = received.rest::<SubmitPayload>()?;
                    self.submit(received.number, &payload, out, reader)?;
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
                Operation::Open if state.opens.len() >= MOST_OPENS => return Err(Errno(libc::EMFILE)),
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

    fn submit(&self, number: u64, payload: &SubmitPayload, out: usize, reader: &mut impl Read) -> io::Result<()> {
        let bytes = URB_BYTES + payload.length().max(out);
        let Some(charge) = self.memory.charge(bytes) else {
            return self.refuse(number, out, reader, UrbError::NoMemory);
        };
        let device = payload.device.get();
        let Some(node) = self.state.lock().devices.get(&device).cloned() else {
            // Unplugged meanwhile.
            return self.refuse(number, out, reader, UrbError::NoDevice);
        };
        let Some(mut data) = zeroed(out) else {
            return self.refuse(number, out, reader, UrbError::NoMemory);
        };
        reader.read_exact(&mut data)?;
        let urb = match payload.urb(node.info().address, data) {
            Ok(urb) => urb,
            Err(UrbError::NoMemory) => return self.refuse(number, 0, reader, UrbError::NoMemory),
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        {
            let mut state = self.state.lock();
            // A client of ours keeps to half of it.
            if state.urbs.contains_key(&number) || state.bytes + bytes > 2 * MOST_IN_FLIGHT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            state.bytes += bytes;
            let (node, id, cancelled) = (node.clone(), None, false);
            state.urbs.insert(number, InFlight { device, node, bytes, charge, id, cancelled });
        }
        let direction = urb.endpoint.direction;
        let this = self.this.clone();
        let once = Once::new(move |done| {
            if let Some(session) = this.upgrade() {
                session.complete(number, direction, done);
            }
        });
        let Ok(id) = node.submit(urb, Box::new(move |done| once.call(done))) else {
            self.complete(
                number,
                direction,
                UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::NoDevice) },
            );
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

    /// Ends a transfer that is not started. Its data are read all the same.
    fn refuse(&self, number: u64, out: usize, reader: &mut impl Read, status: UrbError) -> io::Result<()> {
        let passed = io::copy(&mut reader.take(out as u64), &mut io::sink())?;
        if passed < out as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let done = UrbDone { buffer: Vec::new(), actual: 0, status: Err(status) };
        self.send_complete(number, Direction::Out, done, None);
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
        let charge = {
            let mut state = self.state.lock();
            let Some(urb) = state.urbs.remove(&number) else { return };
            state.bytes -= urb.bytes;
            urb.charge
        };
        self.send_complete(number, direction, done, Some(charge));
    }

    fn send_complete(&self, number: u64, direction: Direction, done: UrbDone, charge: Option<Charge>) {
        let UrbDone { mut buffer, actual, status } = done;
        let actual = if direction == Direction::In { actual.min(buffer.len()) } else { actual };
        buffer.truncate(if direction == Direction::In { actual } else { 0 });
        let status = status.map_or_else(UrbError::errno, |()| 0);
        let payload = CompletePayload { status: status.into(), actual: (actual as u32).into() };
        self.send(Frame { charge, ..Frame::new(Kind::Complete, number, payload.as_bytes(), buffer) });
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
