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

/// A path that this crate answers for, in its shortest form; `None` for every other path.
///
/// Names are taken as they stand, without a look at links: `..` is resolved only up to where ours begin. What lies below a
/// device's folder is reached over links, and is the kernel's to resolve in the bus's folder.
pub(crate) fn ours(path: &[u8]) -> Option<Vec<u8>> {
    // Every path of the program comes by here, and most are none.
    if path.first() != Some(&b'/') || !path.windows(3).any(|text| text == b"usb") {
        return None;
    }
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if !is_device_s(&names) => _ = names.pop(),
            name => names.push(name),
        }
    }
    let bus = matches!(names[..], [b"sys" | b"dev", b"bus", b"usb", ..]);
    if !bus && !is_device_s(&names) {
        return None;
    }
    let mut normal = Vec::with_capacity(path.len());
    for name in names {
        normal.extend([b"/", name].concat());
    }
    // Only a folder may be named so.
    if path.ends_with(b"/") || path.ends_with(b"/.") {
        normal.push(b'/');
    }
    Some(normal)
}

/// Whether names lead to a device's folder or below it, by a link or where the link leads.
fn is_device_s(names: &[&[u8]]) -> bool {
    match names {
        [b"sys", b"bus", b"usb", b"devices", _, ..] => true,
        [b"sys", b"devices", b"platform", controller, ..] => controller.starts_with(b"usbfs-shim."),
        _ => false,
    }
}

/// Bus and address of a device node's path.
pub(crate) fn node_of(path: &[u8]) -> Option<(u8, u8)> {
    let path = ours(path)?;
    let (bus, address) = std::str::from_utf8(&path).ok()?.strip_prefix("/dev/bus/usb/")?.split_once('/')?;
    let number = |text: &str| (text.len() == 3).then(|| text.parse().ok()).flatten();
    Some((number(bus)?, number(address)?))
}

/// The path below the bus's folder that stands for one of ours.
pub(crate) fn place(root: &Path, path: &[u8]) -> Option<CString> {
    CString::new([root.as_os_str().as_bytes(), &ours(path)?].concat()).ok()
}

/// The path in the program's view of what lies below the bus's folder.
pub(crate) fn view(root: &Path, place: &[u8]) -> Option<CString> {
    // The folder for temporary files may itself be reached over links.
    let root = fs::canonicalize(root).ok()?;
    CString::new(place.strip_prefix(root.as_os_str().as_bytes())?).ok()
}

#[cfg(test)]
mod tests {
    use super::{node_of, ours};

    #[test]
    fn only_the_two_folders_and_their_devices_are_ours() {
        for path in [
            "/sys/bus/usb",
            "/sys/bus/usb/devices/5-1.3/descriptors",
            "/sys/devices/platform/usbfs-shim.5/usb5/speed",
            "/dev/bus/usb",
            "/dev/bus/usb/005/003",
            "/dev/bus/usb/005/003/",
        ] {
            assert_eq!(ours(path.as_bytes()).as_deref(), Some(path.as_bytes()), "{path}");
        }
        for path in [
            "/sys/bus/usb-serial",
            "/dev/bus/usbx",
            "/sys/bus",
            "dev/bus/usb",
            "",
            "/dev/null",
            "/sys/devices/platform/usb",
            "/dev/bus/usb/../../null",
            "/dev/bus/usb/..",
            "/sys/bus/usb/devices/..//../../kernel/usb",
        ] {
            assert_eq!(ours(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn names_that_say_nothing_are_left_out() {
        for (path, normal) in [
            ("//dev//bus/./usb/005//003", "/dev/bus/usb/005/003"),
            ("/dev/bus/usb/../usb/005/003", "/dev/bus/usb/005/003"),
            ("/../tmp/../sys/bus/usb/.", "/sys/bus/usb/"),
            // A link lies between: where it leads is the kernel's to say.
            ("/sys/bus/usb/devices/./5-1.3/../speed", "/sys/bus/usb/devices/5-1.3/../speed"),
            ("/sys/bus/usb/devices/../drivers", "/sys/bus/usb/drivers"),
        ] {
            assert_eq!(ours(path.as_bytes()).as_deref(), Some(normal.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_node_has_three_digits_twice() {
        assert_eq!(node_of(b"/dev/bus/usb/005/017"), Some((5, 17)));
        assert_eq!(node_of(b"/dev/bus/usb//./005/017"), Some((5, 17)));
        for path in ["/dev/bus/usb/5/17", "/dev/bus/usb/005", "/dev/bus/usb/005/999", "/dev/bus/usb/005/003/x"] {
            assert_eq!(node_of(path.as_bytes()), None, "{path}");
        }
    }
}
