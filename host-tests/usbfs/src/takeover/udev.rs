//! The functions of libudev that libusb calls. What is not about the bus goes to the real library.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr;

use libc::{c_char, c_int};
use parking_lot::Mutex;

use super::{Definition, next, uncancelled};
use crate::own::Own;
use crate::{root, uevents};

const DEVICES: &str = "/sys/bus/usb/devices";

/// An entry of a list that we made. The next one follows it in memory, unless it is the last.
struct Entry {
    name: CString,
    last: bool,
}

/// A device that we made.
struct Device {
    sysname: CString,
    node: CString,
    action: CString,
}

/// What libudev's objects are to us, by their address.
struct Objects {
    /// Enumerations of USB devices, with what they found.
    enumerations: BTreeMap<usize, Box<[Entry]>>,
    devices: BTreeMap<usize, Box<Device>>,
    monitors: BTreeMap<usize, Own>,
}

static OBJECTS: Mutex<Objects> =
    Mutex::new(Objects { enumerations: BTreeMap::new(), devices: BTreeMap::new(), monitors: BTreeMap::new() });

/// # Safety
/// `text` is null or a terminated string.
unsafe fn is_usb(text: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    !text.is_null() && unsafe { CStr::from_ptr(text) } == c"usb" && root::root().is_some()
}

fn found() -> Box<[Entry]> {
    let Some(root) = root::root() else { return Box::default() };
    let folder = root.path.join(&DEVICES[1..]);
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.contains(':'));
    // Root hubs first, then by depth: a parent before its children.
    names.sort_by_key(|name| (!name.starts_with("usb"), name.matches('.').count(), name.clone()));
    let last = names.len().saturating_sub(1);
    let entry = |(at, name): (usize, String)| {
        Some(Entry { name: CString::new(format!("{DEVICES}/{name}")).ok()?, last: at == last })
    };
    names.into_iter().enumerate().filter_map(entry).collect()
}

/// Runs on an entry if it is one of ours.
fn with_entry<R>(entry: *const c_void, run: impl FnOnce(&Entry) -> R) -> Option<R> {
    let objects = OBJECTS.lock();
    let ours = objects.enumerations.values().flat_map(|list| list.iter());
    ours.into_iter().find(|ours| ptr::from_ref(*ours).cast() == entry).map(run)
}

fn new_device(sysname: &str, bus: u8, address: u8, action: &str) -> Option<*mut c_void> {
    let device = Box::new(Device {
        sysname: CString::new(sysname).ok()?,
        node: CString::new(format!("/dev/bus/usb/{bus:03}/{address:03}")).ok()?,
        action: CString::new(action).ok()?,
    });
    let address = ptr::from_ref(&*device) as usize;
    OBJECTS.lock().devices.insert(address, device);
    Some(address as *mut c_void)
}

fn device_text(device: *mut c_void, text: impl FnOnce(&Device) -> &CString) -> Option<*const c_char> {
    OBJECTS.lock().devices.get(&(device as usize)).map(|device| text(device).as_ptr())
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_enumerate_add_match_subsystem(enumerate: *mut c_void, subsystem: *const c_char) -> c_int {
    // SAFETY: the caller's promise to libudev.
    unsafe {
        if is_usb(subsystem) {
            OBJECTS.lock().enumerations.insert(enumerate as usize, Box::default());
        }
        next!(udev_enumerate_add_match_subsystem(enumerate => *mut c_void, subsystem => *const c_char) -> c_int,
            else -libc::ENOSYS)
    }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_enumerate_scan_devices(enumerate: *mut c_void) -> c_int {
    if let Some(list) = OBJECTS.lock().enumerations.get_mut(&(enumerate as usize)) {
        *list = found();
        return 0;
    }
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_enumerate_scan_devices(enumerate => *mut c_void) -> c_int, else -libc::ENOSYS) }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_enumerate_get_list_entry(enumerate: *mut c_void) -> *mut c_void {
    if let Some(list) = OBJECTS.lock().enumerations.get(&(enumerate as usize)) {
        return list.first().map_or(ptr::null_mut(), |entry| ptr::from_ref(entry).cast_mut().cast());
    }
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_enumerate_get_list_entry(enumerate => *mut c_void) -> *mut c_void, else ptr::null_mut()) }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_enumerate_unref(enumerate: *mut c_void) -> *mut c_void {
    OBJECTS.lock().enumerations.remove(&(enumerate as usize));
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_enumerate_unref(enumerate => *mut c_void) -> *mut c_void, else ptr::null_mut()) }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_list_entry_get_next(entry: *mut c_void) -> *mut c_void {
    match with_entry(entry, |entry| entry.last) {
        Some(true) => ptr::null_mut(),
        // SAFETY: an entry that is not the last is followed by another in the same list.
        Some(false) => unsafe { entry.cast::<Entry>().add(1).cast() },
        // SAFETY: the caller's promise to libudev.
        None => unsafe { next!(udev_list_entry_get_next(entry => *mut c_void) -> *mut c_void, else ptr::null_mut()) },
    }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_list_entry_get_name(entry: *mut c_void) -> *const c_char {
    if let Some(name) = with_entry(entry, |entry| entry.name.as_ptr()) {
        return name;
    }
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_list_entry_get_name(entry => *mut c_void) -> *const c_char, else ptr::null()) }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_device_new_from_syspath(udev: *mut c_void, path: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise to libudev.
    unsafe {
        if !path.is_null()
            && let Ok(text) = CStr::from_ptr(path).to_str()
            && let Some(name) = text.strip_prefix(DEVICES).and_then(|rest| rest.strip_prefix('/'))
            && let Some(root) = root::root()
        {
            let folder = root.path.join(&text[1..]);
            let number = |file| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok();
            let device = number("busnum").zip(number("devnum"));
            let device = device.and_then(|(bus, address)| new_device(name, bus, address, ""));
            return device.unwrap_or(ptr::null_mut());
        }
        next!(udev_device_new_from_syspath(udev => *mut c_void, path => *const c_char) -> *mut c_void,
            else ptr::null_mut())
    }
}

macro_rules! device_texts {
    ($($name:ident: $field:ident),*) => {
        $(
            /// # Safety
            /// As libudev's.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(device: *mut c_void) -> *const c_char {
                if let Some(text) = device_text(device, |device| &device.$field) {
                    return text;
                }
                // SAFETY: the caller's promise to libudev.
                unsafe { next!($name(device => *mut c_void) -> *const c_char, else ptr::null()) }
            }
        )*
        const DEVICE_TEXTS: &[Definition] = &[$(Definition($name as *const c_void),)*];
    };
}

device_texts!(udev_device_get_sysname: sysname, udev_device_get_devnode: node, udev_device_get_action: action);

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_device_unref(device: *mut c_void) -> *mut c_void {
    if OBJECTS.lock().devices.remove(&(device as usize)).is_some() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_device_unref(device => *mut c_void) -> *mut c_void, else ptr::null_mut()) }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_monitor_filter_add_match_subsystem_devtype(
    monitor: *mut c_void,
    subsystem: *const c_char,
    devtype: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise to libudev.
    unsafe {
        if is_usb(subsystem)
            && let Ok(listener) = uevents::listen().and_then(Own::new)
        {
            uncancelled(crate::bus::connect);
            OBJECTS.lock().monitors.insert(monitor as usize, listener);
        }
        next!(udev_monitor_filter_add_match_subsystem_devtype(monitor => *mut c_void, subsystem => *const c_char,
            devtype => *const c_char) -> c_int, else -libc::ENOSYS)
    }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_monitor_get_fd(monitor: *mut c_void) -> c_int {
    if let Some(listener) = OBJECTS.lock().monitors.get(&(monitor as usize)) {
        return listener.with(|number| number).unwrap_or(-libc::EBADF);
    }
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_monitor_get_fd(monitor => *mut c_void) -> c_int, else -libc::ENOSYS) }
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_monitor_receive_device(monitor: *mut c_void) -> *mut c_void {
    let mut packet = [0u8; 2048];
    let received = OBJECTS.lock().monitors.get(&(monitor as usize)).map(|listener| {
        // SAFETY: the packet's room, from a descriptor of ours that does not block.
        listener.with(|number| unsafe { libc::recv(number, packet.as_mut_ptr().cast(), packet.len(), 0) })
    });
    let Some(received) = received else {
        // SAFETY: the caller's promise to libudev.
        return unsafe {
            next!(udev_monitor_receive_device(monitor => *mut c_void) -> *mut c_void, else ptr::null_mut())
        };
    };
    let packet = &packet[..received.ok().and_then(|length| usize::try_from(length).ok()).unwrap_or(0)];
    let variable = |name| uevents::variable(packet, name);
    let number = |name| variable(name)?.parse().ok();
    let name = variable("DEVPATH").and_then(|path| path.rsplit('/').next());
    let device = name.zip(variable("ACTION")).zip(number("BUSNUM").zip(number("DEVNUM")));
    device
        .and_then(|((name, action), (bus, address))| new_device(name, bus, address, action))
        .unwrap_or(ptr::null_mut())
}

/// # Safety
/// As libudev's.
#[unsafe(no_mangle)]
unsafe extern "C" fn udev_monitor_unref(monitor: *mut c_void) -> *mut c_void {
    let monitor_of_ours = OBJECTS.lock().monitors.remove(&(monitor as usize));
    drop(monitor_of_ours);
    // SAFETY: the caller's promise to libudev.
    unsafe { next!(udev_monitor_unref(monitor => *mut c_void) -> *mut c_void, else ptr::null_mut()) }
}

const OTHERS: &[Definition] = &[
    Definition(udev_enumerate_add_match_subsystem as *const c_void),
    Definition(udev_enumerate_scan_devices as *const c_void),
    Definition(udev_enumerate_get_list_entry as *const c_void),
    Definition(udev_enumerate_unref as *const c_void),
    Definition(udev_list_entry_get_next as *const c_void),
    Definition(udev_list_entry_get_name as *const c_void),
    Definition(udev_device_new_from_syspath as *const c_void),
    Definition(udev_device_unref as *const c_void),
    Definition(udev_monitor_filter_add_match_subsystem_devtype as *const c_void),
    Definition(udev_monitor_get_fd as *const c_void),
    Definition(udev_monitor_receive_device as *const c_void),
    Definition(udev_monitor_unref as *const c_void),
];

pub(super) static KEEP: &[&[Definition]] = &[DEVICE_TEXTS, OTHERS];
