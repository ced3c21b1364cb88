//! A client: its messages, sorted into requests for the device and answers to our own, and its end.

use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use zerocopy::little_endian::{U16, U32};

use crate::error::{End, Malformed};
use crate::protocol::{Header, MAX_TRANSFER, flags};
use crate::wire::{Alarm, Message, Wire};

/// Requests that wait for the device. A client that posts more waits too.
const MOST_REQUESTS: usize = 1024;
/// Their bytes.
const MOST_BYTES: usize = 16 << 20;

/// A connection. One thread receives, one works requests off, any may call the client.
pub(crate) struct Connection {
    wire: Wire,
    alarm: Alarm,
    queue: Mutex<Queue>,
    arrived: Condvar,
    taken: Condvar,
    calls: Mutex<Calls>,
    answered: Condvar,
    /// Most data in one message to the client.
    max_transfer: AtomicUsize,
    end: Mutex<Option<End>>,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Message>,
    bytes: usize,
    closed: bool,
}

#[derive(Default)]
struct Calls {
    next: u16,
    /// `None` while the answer is waited for.
    waiting: HashMap<u16, Option<Message>>,
    /// Whoever called them waits no more.
    given_up: Vec<u16>,
    closed: bool,
}

/// Why a call gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The client refuses.
    Errno(u32),
    /// Nothing came in time.
    NoAnswer,
    /// There is no client any more.
    Closed,
}

/// What a worker does next.
pub(crate) enum Next {
    Request(Message),
    Timeout,
    Closed,
}

impl Connection {
    pub(crate) fn new(socket: UnixStream) -> Result<Self, End> {
        Ok(Self {
            wire: Wire::new(socket)?,
            alarm: Alarm::new()?,
            queue: Mutex::default(),
            arrived: Condvar::new(),
            taken: Condvar::new(),
            calls: Mutex::default(),
            answered: Condvar::new(),
            max_transfer: AtomicUsize::new(MAX_TRANSFER),
            end: Mutex::default(),
        })
    }

    pub(crate) fn max_transfer(&self) -> usize {
        self.max_transfer.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_transfer(&self, bytes: usize) {
        self.max_transfer.store(bytes.clamp(1, MAX_TRANSFER), Ordering::Relaxed);
    }

    /// Receives until the connection ends.
    pub(crate) fn receive(&self) {
        let end = loop {
            match self.wire.receive(&self.alarm) {
                Ok(message) if message.header.is_reply() => {
                    if let Err(malformed) = self.answer(message) {
                        break malformed.into();
                    }
                }
                Ok(message) => self.enqueue(message),
                Err(end) => break end,
            }
        };
        self.end(end);
    }

    /// Ends the connection; the first reason stays. Everybody who waits for it returns.
    pub(crate) fn end(&self, end: End) {
        self.end.lock().get_or_insert(end);
        self.alarm.ring();
        self.wire.shut();
        self.queue.lock().closed = true;
        self.arrived.notify_all();
        self.taken.notify_all();
        self.calls.lock().closed = true;
        self.answered.notify_all();
    }

    /// Why it ended, taken out.
    pub(crate) fn take_end(&self) -> Option<End> {
        self.end.lock().take()
    }

    fn enqueue(&self, message: Message) {
        let mut queue = self.queue.lock();
        while !queue.closed && (queue.requests.len() >= MOST_REQUESTS || queue.bytes >= MOST_BYTES) {
            self.taken.wait(&mut queue);
        }
        if !queue.closed {
            queue.bytes += message.payload.len();
            queue.requests.push_back(message);
            self.arrived.notify_one();
        }
    }

    /// The next request; waits for one.
    pub(crate) fn next(&self, timeout: Duration) -> Next {
        let until = Instant::now() + timeout;
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return Next::Closed;
            }
            if let Some(message) = queue.requests.pop_front() {
                queue.bytes -= message.payload.len();
                self.taken.notify_one();
                return Next::Request(message);
            }
            if self.arrived.wait_until(&mut queue, until).timed_out() {
                return Next::Timeout;
            }
        }
    }

    /// Answers a request, unless it wants no answer.
    pub(crate) fn reply(&self, request: &Header, answer: Result<&[&[u8]], Errno>) -> Result<(), End> {
        if !request.wants_reply() {
            return Ok(());
        }
        let (parts, kind, error) = match answer {
            Ok(parts) => (parts, flags::REPLY, 0),
            // Numbers of errors are small and positive.
            Err(errno) => (&[][..], flags::REPLY | flags::ERROR, errno.raw_os_error() as u32),
        };
        let header = header(request.id.get(), request.command.get(), parts, kind, error);
        self.wire.send(&header, parts)
    }

    fn answer(&self, message: Message) -> Result<(), Malformed> {
        let id = message.header.id.get();
        let mut calls = self.calls.lock();
        if let Some(place @ None) = calls.waiting.get_mut(&id) {
            *place = Some(message);
            self.answered.notify_all();
            return Ok(());
        }
        match calls.given_up.iter().position(|late| *late == id) {
            Some(late) => {
                calls.given_up.swap_remove(late);
                Ok(())
            }
            None => Err(Malformed::Reply(id)),
        }
    }

    /// Sends the client a command and waits for its answer: the payload.
    pub(crate) fn call(&self, command: u16, parts: &[&[u8]], patience: Duration) -> Result<Vec<u8>, CallError> {
        let id = {
            let mut calls = self.calls.lock();
            if calls.closed {
                return Err(CallError::Closed);
            }
            let used = |calls: &Calls, id| calls.waiting.contains_key(&id) || calls.given_up.contains(&id);
            let id = (0..=u16::MAX).map(|step| calls.next.wrapping_add(step)).find(|id| !used(&calls, *id));
            let id = id.ok_or(CallError::NoAnswer)?;
            calls.next = id.wrapping_add(1);
            calls.waiting.insert(id, None);
            id
        };
        if let Err(end) = self.wire.send(&header(id, command, parts, flags::COMMAND, 0), parts) {
            self.end(end);
        }
        let until = Instant::now() + patience;
        let mut calls = self.calls.lock();
        loop {
            if let Some(Some(_)) = calls.waiting.get(&id) {
                break;
            }
            if calls.closed {
                calls.waiting.remove(&id);
                return Err(CallError::Closed);
            }
            if self.answered.wait_until(&mut calls, until).timed_out()
                && !matches!(calls.waiting.get(&id), Some(Some(_)))
            {
                calls.waiting.remove(&id);
                calls.given_up.push(id);
                return Err(CallError::NoAnswer);
            }
        }
        let message = calls.waiting.remove(&id).flatten().ok_or(CallError::NoAnswer)?;
        if message.header.flags.get() & flags::ERROR != 0 {
            return Err(CallError::Errno(message.header.error.get()));
        }
        Ok(message.payload)
    }
}

fn header(id: u16, command: u16, parts: &[&[u8]], flags: u32, error: u32) -> Header {
    let size = Header::SIZE + parts.iter().map(|part| part.len()).sum::<usize>();
    Header {
        id: U16::new(id),
        command: U16::new(command),
        // No message is longer than `MAX_MESSAGE`.
        size: U32::new(size as u32),
        flags: U32::new(flags),
        error: U32::new(error),
    }
}
