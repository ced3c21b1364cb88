//! Hot-plug: the kernel's uevents to whoever listens in this process.
//!
//! A listener that binds a netlink socket to the kernel's uevents, as libusb without libudev does, gets one end of a
//! socket pair in its place; so does each libudev monitor. The kernel's own uevents do not come through it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::DeviceInfo;
use crate::own::Own;
use crate::process::PerProcess;
use crate::settings::Settings;
use crate::sysfs;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The device appeared.
    Add,
    /// It is gone.
    Remove,
}

/// Our ends of the listeners' sockets.
static LISTENERS: PerProcess<Mutex<Vec<Own>>> = PerProcess::new(Mutex::default);

/// A new listener's end. It does not block, and is closed on exec.
pub(crate) fn listen() -> io::Result<OwnedFd> {
    // A sequence of packets, as netlink; the end of a closed listener is noticed by the next packet.
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just made and belong to nobody else.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    LISTENERS.get().lock().push(Own::new(ours)?);
    Ok(theirs)
}

/// Tells every listener. One that reads too slowly misses events, as with netlink.
pub(crate) fn send(action: Action, info: &DeviceInfo, settings: &Settings) {
    let packet = packet(action, info, settings);
    let Some(listeners) = LISTENERS.find() else { return };
    listeners.lock().retain(|listener| {
        let sent = listener.with(|listener| {
            // SAFETY: the packet's bytes, to a descriptor of ours that does not block.
            let sent = unsafe { libc::send(listener, packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL) };
            sent >= 0 || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
        });
        sent.unwrap_or(false)
    });
}

/// As the kernel writes it (lib/kobject_uevent.c): `add@/devices/…`, then variables, each ended by a zero byte.
fn packet(action: Action, info: &DeviceInfo, settings: &Settings) -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let action = match action {
        Action::Add => "add",
        Action::Remove => "remove",
    };
    let path = format!("/{}", sysfs::devpath_in_sys(info).display());
    let mut lines = vec![format!("{action}@{path}"), format!("ACTION={action}"), format!("DEVPATH={path}")];
    lines.push("SUBSYSTEM=usb".to_owned());
    lines.extend(sysfs::uevent(info, settings));
    lines.push(format!("SEQNUM={}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    lines.iter().flat_map(|line| line.bytes().chain([0])).collect()
}

/// A variable of a packet.
pub(crate) fn variable<'a>(packet: &'a [u8], name: &str) -> Option<&'a str> {
    packet.split(|byte| *byte == 0).find_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        line.strip_prefix(name)?.strip_prefix('=')
    })
}
