//! Where the bus's files lie, and whether the bus is this process's own.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::AttachError;
use crate::folder;
use crate::process::this_process;

/// The environment variable with the folder of a bus that another process serves.
pub const ROOT_VARIABLE: &str = "USBFS_SHIM_ROOT";

/// What this process is to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has the devices.
    Host,
    /// Another process has them.
    Client,
}

/// The folder that stands for `/`.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) role: Role,
    /// The process that found it.
    pub(crate) process: libc::pid_t,
    /// Locked as long as the bus lives.
    _lock: Option<File>,
}

impl Root {
    /// The socket of the process that serves the bus.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }
}

static ROOT: OnceLock<Option<Root>> = OnceLock::new();

/// The bus's folder; `None` if this process has nothing to do with any bus: preloaded, and no folder named.
pub(crate) fn root() -> Option<&'static Root> {
    ROOT.get_or_init(|| match std::env::var_os(ROOT_VARIABLE) {
        Some(path) if !path.is_empty() => {
            Some(Root { path: path.into(), role: Role::Client, process: this_process(), _lock: None })
        }
        _ if linked_in() => create().ok(),
        _ => None,
    })
    .as_ref()
}

/// The folder of this process's own bus.
pub(crate) fn host() -> Result<&'static Root, AttachError> {
    if ROOT.get().is_none() {
        let created = create()?;
        if let Err(Some(unused)) = ROOT.set(Some(created)) {
            // Another thread was faster.
            let _ = fs::remove_dir_all(unused.path);
        }
    }
    match ROOT.get() {
        Some(Some(root)) if root.role == Role::Host => Ok(root),
        Some(Some(root)) => Err(AttachError::Client(root.path.display().to_string())),
        _ => Err(AttachError::Files(io::Error::from(io::ErrorKind::NotFound))),
    }
}

/// Whether this code is part of the executable, not of a preloaded library.
fn linked_in() -> bool {
    let base = |address: *const libc::c_void| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: dladdr takes any address and fills `info` when it returns non-zero.
        unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init().dli_fbase) }
    };
    // SAFETY: reads a number from the auxiliary vector: the address of the executable's program headers.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as *const libc::c_void;
    base(headers).is_some_and(|executable| base(linked_in as *const libc::c_void) == Some(executable))
}

fn create() -> io::Result<Root> {
    // A socket's path has 108 bytes: a deep temporary folder is no place for one. Neither is one that is another folder
    // once the program changes its own.
    const MOST_BYTES: usize = 64;
    let fits = |folder: &PathBuf| folder.is_absolute() && folder.as_os_str().len() <= MOST_BYTES;
    let named = std::env::var_os("TMPDIR").map(PathBuf::from).filter(fits);
    // Shared memory, as sysfs is in memory too, and where there is none, files.
    let folders = named.into_iter().chain(["/dev/shm".into(), "/tmp".into()]);
    let mut errors = Vec::new();
    for folder in folders {
        match make(&folder) {
            Ok(root) => return Ok(root),
            Err(error) => errors.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(io::Error::other(errors.join("; ")))
}

fn make(within: &Path) -> io::Result<Root> {
    /// A bus with some devices.
    const ROOM: u64 = 1 << 20;
    if folder::room(within)? < ROOM {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    let (path, lock) = folder::make(within)?;
    // libusb takes an empty /dev/bus/usb for a machine without USB: a bus without devices is a folder in it.
    for folder in ["dev/bus/usb/001", "sys/bus/usb/devices", "sys/bus/usb/drivers", "sys/devices"] {
        fs::create_dir_all(path.join(folder)).inspect_err(|_| {
            // No room: what could be made goes too, as far as it can.
            let _ = fs::remove_dir_all(&path);
        })?;
    }
    // SAFETY: the function stays as long as the process does.
    unsafe { libc::atexit(remove_at_exit) };
    Ok(Root { path, role: Role::Host, process: this_process(), _lock: Some(lock) })
}

extern "C" fn remove_at_exit() {
    let Some(Some(root)) = ROOT.get() else { return };
    // A child that forked without exec must not take its parent's bus away.
    if root.role == Role::Host && root.process == this_process() {
        // Nobody is left to tell.
        let _ = fs::remove_dir_all(&root.path);
    }
}

/// Bus and address of a device node's path.
pub(crate) fn node_of(path: &[u8]) -> Option<(u8, u8)> {
    let (bus, address) = std::str::from_utf8(path).ok()?.strip_prefix("/dev/bus/usb/")?.split_once('/')?;
    let number = |text: &str| (text.len() == 3).then(|| text.parse().ok()).flatten();
    Some((number(bus)?, number(address)?))
}

/// Whether a path is one of those that this crate answers for.
pub(crate) fn is_ours(path: &[u8]) -> bool {
    let below = |folder: &[u8]| path.strip_prefix(folder).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
    below(b"/sys/bus/usb") || below(b"/dev/bus/usb")
}

/// The path below the bus's folder that stands for `path`.
pub(crate) fn place(root: &Path, path: &[u8]) -> Option<CString> {
    CString::new([root.as_os_str().as_bytes(), path].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::{is_ours, node_of};

    #[test]
    fn only_the_two_folders_are_ours() {
        for path in ["/sys/bus/usb", "/sys/bus/usb/devices/5-1.3/descriptors", "/dev/bus/usb", "/dev/bus/usb/005/003"] {
            assert!(is_ours(path.as_bytes()), "{path}");
        }
        for path in ["/sys/bus/usb-serial", "/dev/bus/usbx", "/sys/bus", "dev/bus/usb", "", "/dev/null"] {
            assert!(!is_ours(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_node_has_three_digits_twice() {
        assert_eq!(node_of(b"/dev/bus/usb/005/017"), Some((5, 17)));
        for path in ["/dev/bus/usb/5/17", "/dev/bus/usb/005", "/dev/bus/usb/005/999", "/dev/bus/usb/005/003/x"] {
            assert_eq!(node_of(path.as_bytes()), None, "{path}");
        }
    }
}
