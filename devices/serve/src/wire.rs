//! A connection's bytes: whole messages in, whole messages out, and nothing that blocks for ever.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::error::{End, Malformed};
use crate::protocol::{Header, MAX_DESCRIPTORS, MAX_MESSAGE, flags};

/// How long a client may take no byte of a message to it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A message from the client.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// A flag that a thread in [`poll`] sees.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> Result<Self, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self)
    }

    /// Rings for ever.
    pub(crate) fn ring(&self) {
        // A counter that is full rings already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until `other` can be read, or for the alarm, which is told by `true`.
    pub(crate) fn or_readable(&self, other: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<bool, Errno> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::IN)];
        poll_for(&mut fds, timeout)?;
        Ok(!fds[0].revents().is_empty())
    }

    /// Waits for the alarm only; `true` if it came.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, Errno> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll_for(&mut fds, Some(timeout)).map(|ready| ready > 0)
    }
}

/// `poll`, where a signal is no event.
fn poll_for(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    // Longer times than fit are as good as none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        Err(Errno::INTR) => Ok(0),
        other => other,
    }
}

/// Both directions of a connection. Any thread may send; one receives.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: UnixStream,
    sending: Mutex<()>,
}

impl Wire {
    pub(crate) fn new(socket: UnixStream) -> Result<Self, End> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, sending: Mutex::default() })
    }

    /// Ends both directions: who waits for bytes or for room returns.
    pub(crate) fn shut(&self) {
        // It may have ended by itself.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// The next message, however its bytes arrive.
    pub(crate) fn receive(&self, alarm: &Alarm) -> Result<Message, End> {
        let mut descriptors = Vec::new();
        let mut header = Header::new_zeroed();
        self.fill(header.as_mut_bytes(), &mut descriptors, alarm, true)?;
        let size = header.size.get();
        let length = (size as usize).checked_sub(Header::SIZE).filter(|_| size as usize <= MAX_MESSAGE);
        let length = length.ok_or(Malformed::Size(size))?;
        if ![flags::COMMAND, flags::REPLY].contains(&(header.flags.get() & flags::TYPE)) {
            return Err(Malformed::Type(header.flags.get()).into());
        }
        let mut payload = vec![0; length];
        self.fill(&mut payload, &mut descriptors, alarm, false)?;
        Ok(Message { header, payload, descriptors })
    }

    /// Fills `buffer`. At the `first` byte of a message the client may be gone in peace.
    fn fill(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>, alarm: &Alarm, first: bool) -> Result<(), End> {
        let mut filled = 0;
        while filled < buffer.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut iov = [IoSliceMut::new(&mut buffer[filled..])];
            let received = recvmsg(&self.socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    descriptors.extend(rights);
                }
            }
            match received {
                Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => return Err(Malformed::Descriptors.into()),
                Ok(_) if descriptors.len() > MAX_DESCRIPTORS => return Err(Malformed::Descriptors.into()),
                Ok(message) if message.bytes == 0 => {
                    let peaceful = first && filled == 0;
                    let missing = buffer.len() - filled;
                    return Err(if peaceful { End::Closed } else { Malformed::Truncated { missing }.into() });
                }
                Ok(message) => filled += message.bytes,
                Err(Errno::AGAIN) => {
                    if alarm.or_readable(self.socket.as_fd(), None)? {
                        return Err(End::Stopped);
                    }
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sends a whole message. QEMU wants a header in one piece, which it is: a socket takes more than 16 bytes or none.
    pub(crate) fn send(&self, header: &Header, parts: &[&[u8]]) -> Result<(), End> {
        let mut bytes = header.as_bytes().to_vec();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let _turn = self.sending.lock();
        let mut left = &bytes[..];
        let mut since = Instant::now();
        while !left.is_empty() {
            let mut control = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &[IoSlice::new(left)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    left = &left[sent..];
                    since = Instant::now();
                }
                Err(Errno::AGAIN) => {
                    let rest = PATIENCE.checked_sub(since.elapsed()).ok_or(End::Stalled)?;
                    poll_for(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(rest))?;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The structure at the begin of `payload`, and what follows it.
pub(crate) fn split<T: FromBytes>(command: u16, payload: &[u8]) -> Result<(T, &[u8]), Malformed> {
    let size = payload.len();
    T::read_from_prefix(payload).map_err(|_| Malformed::Payload { command, size, expected: size_of::<T>() })
}
