//! TCP services on the board, made for tests: every byte can be checked in both directions.
//!
//! | port | service |
//! |---|---|
//! | 7 | echo (RFC 862) |
//! | 9 | discard (RFC 863); at the end of the host's stream it answers one line, length and checksum, and closes |
//! | 19 | source: for each line with a decimal number, that many bytes of [`pattern`], each time from offset 0 |

use std::collections::VecDeque;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Duration;

/// Port of the echo service.
pub const ECHO_PORT: u16 = 7;
/// Port of the discard service.
pub const DISCARD_PORT: u16 = 9;
/// Port of the source service.
pub const SOURCE_PORT: u16 = 19;

/// Connections that each service can have at a time.
const CONNECTIONS: usize = 2;
/// Buffer of a connection in each direction, in bytes.
const BUFFER: usize = 64 * 1024;
/// A connection whose peer went away ends after this time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Finished streams that are remembered.
const REMEMBERED: usize = 64;
/// Longest number that the source service reads.
const MOST_DIGITS: usize = 19;

/// Byte `offset` of the source service's data. Shifted, lost or repeated packets change the stream.
#[must_use]
pub const fn pattern(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16)) as u8
}

/// Fills `bytes` with the source service's data from `offset` on.
pub fn fill_pattern(mut offset: u64, mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        // Within 256 bytes only the lowest byte of the offset changes.
        let (low, rest) = (offset as u8, 256 - usize::from(offset as u8));
        let (run, behind) = bytes.split_at_mut(rest.min(bytes.len()));
        let upper = pattern(offset & !0xff);
        for (index, byte) in run.iter_mut().enumerate() {
            *byte = low.wrapping_add(index as u8) ^ upper;
        }
        offset += run.len() as u64;
        bytes = behind;
    }
}

/// A running 64-bit FNV-1a checksum with the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Bytes so far.
    pub length: u64,
    /// The checksum of them.
    pub value: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        Self { length: 0, value: 0xcbf29ce484222325 }
    }
}

impl Checksum {
    /// The checksum of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.value =
            bytes.iter().fold(self.value, |value, &byte| (value ^ u64::from(byte)).wrapping_mul(0x100000001b3));
    }

    /// The checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut checksum = Self::new();
        checksum.update(bytes);
        checksum
    }

    /// What the discard service says of a stream: `length` in decimal, `value` in 16 hex digits, a line feed.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {:016x}\n", self.length, self.value)
    }
}

/// Streams that the discard service took to their end, the last ones.
pub(super) type Discarded = VecDeque<Checksum>;

/// What a connection is for, with its state.
#[derive(Clone, Copy, Debug)]
enum Service {
    Echo,
    Discard(Checksum),
    Source { number: u64, digits: usize, offset: u64, end: u64 },
}

impl Service {
    const SOURCE: Self = Self::Source { number: 0, digits: 0, offset: 0, end: 0 };

    fn port(&self) -> u16 {
        match self {
            Self::Echo => ECHO_PORT,
            Self::Discard(_) => DISCARD_PORT,
            Self::Source { .. } => SOURCE_PORT,
        }
    }

    /// As for a new connection.
    fn fresh(&self) -> Self {
        match self {
            Self::Echo => Self::Echo,
            Self::Discard(_) => Self::Discard(Checksum::new()),
            Self::Source { .. } => Self::SOURCE,
        }
    }
}

/// All connections; none before the first segment of TCP comes, as their buffers cost more than the rest of an activation.
#[derive(Default)]
pub(super) struct Services {
    connections: Vec<(SocketHandle, Service)>,
    scratch: Vec<u8>,
}

impl Services {
    /// Listens on every port, from now on.
    pub(super) fn open(&mut self, sockets: &mut SocketSet<'static>) {
        if !self.connections.is_empty() {
            return;
        }
        for service in [Service::Echo, Service::Discard(Checksum::new()), Service::SOURCE] {
            for _ in 0..CONNECTIONS {
                let buffer = || SocketBuffer::new(vec![0; BUFFER]);
                let mut socket = Socket::new(buffer(), buffer());
                socket.set_timeout(Some(TIMEOUT));
                socket.set_nagle_enabled(false);
                socket.set_ack_delay(None);
                self.connections.push((sockets.add(socket), service));
            }
        }
        self.scratch = vec![0; BUFFER];
        // Opens the ports; nothing can have ended yet.
        self.serve(sockets, &mut Discarded::new());
    }

    /// Moves data on every connection. Returns whether the network has something new to do.
    pub(super) fn serve(&mut self, sockets: &mut SocketSet<'static>, discarded: &mut Discarded) -> bool {
        let mut moved = false;
        for (handle, service) in &mut self.connections {
            let socket = sockets.get_mut::<Socket<'static>>(*handle);
            if !socket.is_open() {
                *service = service.fresh();
                // A closed socket can listen on any port but 0.
                let _ = socket.listen(service.port());
                continue;
            }
            let before = progress(socket);
            match service {
                Service::Echo => echo(socket, &mut self.scratch),
                Service::Discard(checksum) => discard(socket, checksum, discarded),
                Service::Source { number, digits, offset, end } => source(socket, number, digits, offset, end),
            }
            moved |= progress(socket) != before;
        }
        moved
    }
}

fn progress(socket: &Socket<'_>) -> (State, usize, usize) {
    (socket.state(), socket.recv_queue(), socket.send_queue())
}

/// Whether the peer has sent its last byte and we have read it.
fn at_end(socket: &Socket<'_>) -> bool {
    socket.state() == State::CloseWait && socket.recv_queue() == 0
}

fn echo(socket: &mut Socket<'_>, scratch: &mut [u8]) {
    let room = socket.send_capacity().saturating_sub(socket.send_queue()).min(scratch.len());
    if room > 0
        && socket.may_send()
        && let Ok(length) = socket.recv_slice(&mut scratch[..room])
    {
        // It fits: the room was asked for before.
        let _ = socket.send_slice(&scratch[..length]);
    }
    if at_end(socket) {
        socket.close();
    }
}

fn discard(socket: &mut Socket<'_>, checksum: &mut Checksum, discarded: &mut Discarded) {
    let mut take = |bytes: &mut [u8]| {
        checksum.update(bytes);
        (bytes.len(), bytes.len())
    };
    while socket.can_recv() && socket.recv(&mut take).is_ok_and(|taken| taken > 0) {}
    if at_end(socket) {
        // The send buffer was never used and takes the line.
        let _ = socket.send_slice(checksum.line().as_bytes());
        socket.close();
        discarded.truncate(REMEMBERED - 1);
        discarded.push_front(*checksum);
    }
}

fn source(socket: &mut Socket<'_>, number: &mut u64, digits: &mut usize, offset: &mut u64, end: &mut u64) {
    loop {
        while *offset < *end && socket.can_send() {
            let sent = socket.send(|room| {
                let length = usize::try_from(*end - *offset).map_or(room.len(), |left| left.min(room.len()));
                fill_pattern(*offset, &mut room[..length]);
                (length, length)
            });
            match sent {
                Ok(length) if length > 0 => *offset += length as u64,
                _ => return,
            }
        }
        if *offset < *end || !socket.can_recv() {
            break;
        }
        let mut byte = [0];
        if socket.recv_slice(&mut byte) != Ok(1) {
            break;
        }
        match byte[0] {
            digit @ b'0'..=b'9' if *digits < MOST_DIGITS => {
                *number = *number * 10 + u64::from(digit - b'0');
                *digits += 1;
            }
            b'\r' => {}
            b'\n' if *digits > 0 => {
                (*offset, *end) = (0, *number);
                (*number, *digits) = (0, 0);
            }
            _ => {
                socket.abort();
                return;
            }
        }
    }
    if at_end(socket) && *offset == *end {
        socket.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(Checksum::of(b"").value, 0xcbf29ce484222325);
        assert_eq!(Checksum::of(b"foobar"), Checksum { length: 6, value: 0x85944171f73967e8 });
        let mut parts = Checksum::of(b"foo");
        parts.update(b"bar");
        assert_eq!(parts.line(), "6 85944171f73967e8\n");
    }

    #[test]
    fn the_pattern_is_filled_in_from_any_offset() {
        for (offset, length) in [(0, 0), (0, 70_000), (1, 255), (255, 1), (255, 600), (65_530, 20), (0x12_3456, 4097)] {
            let mut bytes = vec![0; length];
            fill_pattern(offset, &mut bytes);
            let expected: Vec<u8> = (offset..offset + length as u64).map(pattern).collect();
            assert_eq!(bytes, expected, "{offset} {length}");
        }
    }

    #[test]
    fn the_pattern_does_not_repeat_from_page_to_page() {
        let page = |n: u64| (n * 4096..(n + 1) * 4096).map(pattern).collect::<Vec<u8>>();
        assert!((1..16).all(|n| page(n) != page(0)));
    }
}
