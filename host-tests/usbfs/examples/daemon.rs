//! A program that treats descriptors as daemons do, knowing nothing of any virtual bus: what the tests preload the library
//! into.
//!
//! `daemon HOW BUS ADDRESS`: it opens the node, closes every descriptor but the first three (`close`, `close_range`,
//! `closefrom`) or puts a file of its own behind every number (`dup2`), opens files of its own, and the node again. With
//! `fork` it is a child that closes the node it has from its parent, and opens it again.

#![allow(clippy::print_stdout, reason = "its output is what the tests read")]

use std::ffi::{CString, c_void};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use libc::{c_int, c_uint};

const CLAIM: u64 = 0x8004550f;
const CONTROL: u64 = 0xc0185500;

/// More than any number that the library uses under the usual limit of 1024.
const MOST: RawFd = 1024;

#[repr(C)]
struct Control {
    setup: [u8; 8],
    timeout: u32,
    data: *mut u8,
}

unsafe extern "C" {
    fn closefrom(least: c_int);
}

fn open(path: &CString) -> io::Result<RawFd> {
    // SAFETY: a terminated path.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

fn ioctl<T>(fd: RawFd, request: u64, argument: &mut T) -> io::Result<c_int> {
    // SAFETY: each caller passes what the request asks for.
    let value = unsafe { libc::ioctl(fd, request, (&raw mut *argument).cast::<c_void>()) };
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Claims an interface and reads the device descriptor.
fn use_node(fd: RawFd, interface: c_uint) -> io::Result<c_int> {
    ioctl(fd, CLAIM, &mut { interface })?;
    let mut data = [0; 18];
    let setup = [0x80, 6, 0, 1, 0, 0, 18, 0];
    ioctl(fd, CONTROL, &mut Control { setup, timeout: 60_000, data: data.as_mut_ptr() })
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [how, bus, address] = &arguments[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
    let number = |text: &String| text.parse::<u8>().map_err(io::Error::other);
    let node = CString::new(format!("/dev/bus/usb/{:03}/{:03}", number(bus)?, number(address)?))?;
    let fd = open(&node)?;
    println!("{:?}", use_node(fd, 0));
    if how == "fork" {
        return forked(&node, fd);
    }
    // SAFETY: this program owns no descriptor above 2 that it still uses.
    unsafe {
        match how.as_str() {
            "close" => (3..MOST).for_each(|fd| _ = libc::close(fd)),
            "close_range" => _ = libc::close_range(3, c_uint::MAX, 0),
            "closefrom" => closefrom(3),
            "dup2" => (3..MOST).for_each(|fd| _ = libc::dup2(0, fd)),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    if how == "dup2" {
        // Room for the node.
        // SAFETY: made above.
        unsafe { libc::close_range(3, 63, 0) };
    }
    let mut pairs = (0..8).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>()?;
    println!("{:?}", use_node(open(&node)?, 0));
    for (one, other) in &mut pairs {
        one.write_all(b"own")?;
        other.write_all(b"own")?;
        for end in [one, other] {
            let mut read = [0; 16];
            let length = end.read(&mut read)?;
            assert_eq!(&read[..length], b"own", "nobody else's bytes");
        }
    }
    println!("own files are whole");
    Ok(())
}

/// A child of fork, which must not take anything from its parent.
fn forked(node: &CString, fd: RawFd) -> io::Result<()> {
    // SAFETY: the program has one thread of its own; the child uses what it opens.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let another = open(node)?;
        println!("{:?}", use_node(another, 1));
        // SAFETY: the parent's node, and the number's next file.
        let (next, mut pending) = unsafe {
            libc::close(fd);
            (OwnedFd::from_raw_fd(libc::dup(0)), 0)
        };
        println!("{:?}", ioctl(fd, libc::FIONREAD, &mut pending).map_err(|error| error.raw_os_error()));
        drop(next);
        println!("{:?}", open(node).map(|again| again == fd));
        return Ok(());
    }
    let mut status = 0;
    // SAFETY: room for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("{status} {:?}", use_node(fd, 0));
    println!("{:?}", use_node(open(node)?, 0).map_err(|error| error.raw_os_error()));
    Ok(())
}
