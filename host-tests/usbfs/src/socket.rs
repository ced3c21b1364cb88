//! Writing to a socket whose other end may be gone, and a client's socket, which is not the program's.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::own::Own;

/// Writes without SIGPIPE: the program that this crate is preloaded into did not ask for a socket.
pub(crate) struct Quiet<'a>(pub(crate) &'a UnixStream);

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: as many bytes as the slice has.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client's end of a connection.
pub(crate) struct Connection(Own);

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        Own::new(stream.into()).map(Self)
    }

    /// Whether the program has left it alone.
    pub(crate) fn is_there(&self) -> bool {
        self.0.with(|_| ()).is_ok()
    }

    /// Moves bytes as soon as some can be: the call is made with the socket's number, and must not block.
    fn when(&self, event: i16, mut call: impl FnMut(RawFd) -> isize) -> io::Result<usize> {
        loop {
            let moved = self.0.with(|number| {
                let moved = call(number);
                usize::try_from(moved).map_err(|_| io::Error::last_os_error())
            })?;
            match moved {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.0.wait(event) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                    _ => {}
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                moved => return moved,
            }
        }
    }
}

impl Read for &Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: as much room as the slice has.
        let receive =
            |number| unsafe { libc::recv(number, bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
        self.when(libc::POLLIN, receive)
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: as many bytes as the slice has.
        let send = |number| unsafe { libc::send(number, bytes.as_ptr().cast(), bytes.len(), FLAGS) };
        self.when(libc::POLLOUT, send)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
