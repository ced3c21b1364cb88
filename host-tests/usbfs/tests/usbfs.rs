//! usbfs itself, by ioctl: what libusb does not use, or not always.

mod common;

use std::ffi::{CString, c_void};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use common::{Bench, HALTED_IN, HANG, LOOP_IN, LOOP_OUT, PACKET, SILENT_IN, new_bus};
use libc::{c_int, c_uint};
use usbfs_shim::Attached;

#[repr(C)]
#[derive(Debug)]
struct Urb {
    kind: u8,
    endpoint: u8,
    status: c_int,
    flags: c_uint,
    buffer: *mut u8,
    buffer_length: c_int,
    actual_length: c_int,
    start_frame: c_int,
    number_of_packets: c_int,
    error_count: c_int,
    signr: c_uint,
    usercontext: *mut c_void,
}

impl Urb {
    fn new(kind: u8, endpoint: u8, flags: c_uint, buffer: &mut [u8]) -> Box<Self> {
        Box::new(Self {
            kind,
            endpoint,
            status: 99,
            flags,
            buffer: buffer.as_mut_ptr(),
            buffer_length: buffer.len() as c_int,
            actual_length: 0,
            start_frame: 0,
            number_of_packets: 0,
            error_count: 0,
            signr: 0,
            usercontext: std::ptr::null_mut(),
        })
    }
}

#[repr(C)]
struct Bulk {
    endpoint: c_uint,
    length: c_uint,
    timeout: c_uint,
    data: *mut u8,
}

#[repr(C)]
struct Control {
    setup: [u8; 8],
    timeout: u32,
    data: *mut u8,
}

const ISO: u8 = 0;
const CONTROL_URB: u8 = 2;
const BULK_URB: u8 = 3;
const SHORT_NOT_OK: c_uint = 1;
const CONTINUATION: c_uint = 4;
const ZERO_PACKET: c_uint = 0x40;

const CONTROL: u64 = 0xc0185500;
const BULK: u64 = 0xc0185502;
const SUBMITURB: u64 = 0x8038550a;
const DISCARDURB: u64 = 0x550b;
const REAPURB: u64 = 0x4008550c;
const REAPURBNDELAY: u64 = 0x4008550d;
const CLAIM: u64 = 0x8004550f;
const RELEASE: u64 = 0x80045510;
const RESET: u64 = 0x5514;
const CAPABILITIES: u64 = 0x8004551a;
const DROP_PRIVILEGES: u64 = 0x4004551e;
const GET_SPEED: u64 = 0x551f;
const CONNINFO_EX: u64 = 0x80185520;

/// An open node, closed by [`close`](libc::close).
struct Node(OwnedFd);

impl Node {
    fn open_as(attached: &Attached, flags: c_int) -> Self {
        let path = CString::new(format!("/dev/bus/usb/{:03}/{:03}", attached.bus(), attached.address())).unwrap();
        // SAFETY: a terminated path; the descriptor is new.
        let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: as above.
        Self(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn open(attached: &Attached) -> Self {
        Self::open_as(attached, libc::O_RDWR)
    }

    fn ioctl<T: ?Sized>(&self, request: u64, argument: *mut T) -> Result<c_int, c_int> {
        ioctl(self.0.as_raw_fd(), request, argument)
    }

    fn claim(&self, interface: c_uint) -> Result<c_int, c_int> {
        self.ioctl(CLAIM, &mut { interface })
    }

    fn submit(&self, urb: &mut Urb) -> Result<c_int, c_int> {
        self.ioctl(SUBMITURB, urb)
    }

    fn reap(&self, request: u64) -> Result<*mut Urb, c_int> {
        let mut urb: *mut Urb = std::ptr::null_mut();
        self.ioctl(request, &raw mut urb).map(|_| urb)
    }
}

/// The ioctl's value, or errno.
fn ioctl<T: ?Sized>(fd: RawFd, request: u64, argument: *mut T) -> Result<c_int, c_int> {
    // SAFETY: each test passes what the request asks for.
    let result = unsafe { libc::ioctl(fd, request, argument.cast::<c_void>()) };
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(result) }
}

/// High numbers need the limit raised, as far as it may be.
fn raise_limit() {
    // SAFETY: the structure is filled before it is read.
    unsafe {
        let mut limit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

fn plugged() -> (Arc<Bench>, Attached, Node) {
    let bench = Bench::loopback("raw");
    let attached = bench.attach(new_bus());
    let node = Node::open(&attached);
    (bench, attached, node)
}

fn poll(fd: RawFd) -> i16 {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, on the stack.
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents
}

#[test]
fn a_node_is_a_character_device_with_the_descriptors() {
    let (bench, attached, _node) = plugged();
    let path = format!("/dev/bus/usb/{:03}/007", attached.bus());
    let metadata = fs::metadata(&path).unwrap();
    assert!(metadata.file_type().is_char_device());
    assert_eq!(metadata.rdev(), libc::makedev(189, (u32::from(attached.bus()) - 1) * 128 + 6));
    assert_eq!(fs::read(&path).unwrap(), bench.info(1, 7, &[1]).descriptors);
    let devices = format!("/sys/bus/usb/devices/{}/descriptors", attached.name());
    assert_eq!(fs::read(devices).unwrap(), bench.info(1, 7, &[1]).descriptors);
    let reader = Node::open_as(&attached, libc::O_RDONLY);
    assert_eq!(reader.ioctl(CAPABILITIES, &mut 0u32), Err(libc::EPERM));
}

#[test]
fn paths_are_what_they_are_however_they_are_written() {
    let (_bench, attached, _node) = plugged();
    let (bus, name) = (attached.bus(), attached.name());
    for path in ["//dev/bus//usb", "/dev/bus/./usb", "/dev/bus/usb/../usb", "/tmp/../dev/bus/usb"] {
        let path = format!("{path}/{bus:03}//007");
        assert!(fs::metadata(&path).unwrap().file_type().is_char_device(), "{path}");
    }
    assert_eq!(
        fs::read_to_string(format!("/sys//bus/usb/devices/./{name}/../{name}/busnum")).unwrap(),
        format!("{bus}\n")
    );
    let real = fs::canonicalize(format!("/sys/bus/usb/devices/{name}")).unwrap();
    assert_eq!(real.to_str().unwrap(), format!("/sys/devices/platform/usbfs-shim.{bus}/usb{bus}/{bus}-1/{name}"));
    assert_eq!(fs::read_to_string(real.join("busnum")).unwrap(), format!("{bus}\n"));
    assert_eq!(fs::canonicalize("/dev/./null").unwrap().to_str(), Some("/dev/null"));
    let node = CString::new(format!("/dev/bus/usb/{bus:03}/007")).unwrap();
    for (flags, error) in [(libc::O_CREAT | libc::O_EXCL, libc::EEXIST), (libc::O_DIRECTORY, libc::ENOTDIR)] {
        // SAFETY: a terminated path, and no descriptor comes of it.
        assert_eq!(unsafe { libc::open(node.as_ptr(), libc::O_RDWR | flags, 0o600) }, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(error));
    }
}

#[test]
fn urbs_complete_and_poll_tells() {
    let (_bench, _attached, node) = plugged();
    assert_eq!(node.claim(0), Ok(0));
    assert_eq!(node.reap(REAPURBNDELAY), Err(libc::EAGAIN));
    assert_eq!(poll(node.0.as_raw_fd()), 0);
    let mut out = *b"hello";
    let mut input = [0; 64];
    let mut read = Urb::new(BULK_URB, LOOP_IN, 0, &mut input);
    node.submit(&mut read).unwrap();
    assert_eq!(poll(node.0.as_raw_fd()), 0);
    let mut write = Urb::new(BULK_URB, LOOP_OUT, 0, &mut out);
    node.submit(&mut write).unwrap();
    assert_eq!(poll(node.0.as_raw_fd()), libc::POLLOUT);
    let mut seen = [node.reap(REAPURB).unwrap(), node.reap(REAPURB).unwrap()];
    seen.sort();
    let mut both = [&raw mut *read, &raw mut *write];
    both.sort();
    assert_eq!(seen, both);
    assert_eq!((read.status, read.actual_length, write.status, write.actual_length), (0, 5, 0, 5));
    assert_eq!(&input[..5], b"hello");
    assert_eq!(poll(node.0.as_raw_fd()), 0);
}

#[test]
fn a_full_last_packet_is_followed_by_an_empty_one_on_demand() {
    let (bench, _attached, node) = plugged();
    node.claim(0).unwrap();
    let mut data = vec![1; 2 * PACKET];
    for (flags, packets) in [(0, vec![PACKET, PACKET]), (ZERO_PACKET, vec![PACKET, PACKET, 0])] {
        let mut urb = Urb::new(BULK_URB, LOOP_OUT, flags, &mut data);
        node.submit(&mut urb).unwrap();
        node.reap(REAPURB).unwrap();
        assert_eq!((urb.status, bench.out_packets()), (0, packets));
    }
}

#[test]
fn short_not_ok_cuts_the_continuations_off() {
    let (bench, _attached, node) = plugged();
    node.claim(0).unwrap();
    let mut buffers = vec![[0u8; PACKET]; 4];
    let flags = [SHORT_NOT_OK, SHORT_NOT_OK | CONTINUATION, CONTINUATION, CONTINUATION];
    let mut urbs: Vec<Box<Urb>> =
        buffers.iter_mut().zip(flags).map(|(buffer, flags)| Urb::new(BULK_URB, LOOP_IN, flags, buffer)).collect();
    for urb in &mut urbs[..3] {
        node.submit(urb).unwrap();
    }
    let mut data = vec![5; PACKET + 9];
    let mut write = Urb::new(BULK_URB, LOOP_OUT, 0, &mut data);
    node.submit(&mut write).unwrap();
    for _ in 0..4 {
        node.reap(REAPURB).unwrap();
    }
    let ends: Vec<(c_int, c_int)> = urbs.iter().map(|urb| (urb.status, urb.actual_length)).collect();
    assert_eq!(ends[..3], [(0, PACKET as c_int), (-libc::EREMOTEIO, 9), (-libc::ECONNRESET, 0)]);
    assert_eq!(bench.pending(), 0);
    assert_eq!(node.submit(&mut urbs[3]), Err(libc::EREMOTEIO));
    urbs[3].flags = 0;
    node.submit(&mut urbs[3]).unwrap();
    assert_eq!(node.ioctl(DISCARDURB, &raw mut *urbs[3]), Ok(0));
    node.reap(REAPURBNDELAY).unwrap();
    assert_eq!(urbs[3].status, -libc::ENOENT);
    assert_eq!(node.ioctl(DISCARDURB, &raw mut *urbs[3]), Err(libc::EINVAL));
}

#[test]
fn a_discarded_urb_keeps_what_it_had() {
    let (bench, _attached, node) = plugged();
    node.claim(1).unwrap();
    let mut input = vec![0; 4 * PACKET];
    let mut urb = Urb::new(BULK_URB, SILENT_IN, 0, &mut input);
    node.submit(&mut urb).unwrap();
    bench.push(SILENT_IN, &[3; PACKET]);
    assert_eq!(node.reap(REAPURBNDELAY), Err(libc::EAGAIN));
    node.ioctl(DISCARDURB, &raw mut *urb).unwrap();
    assert_eq!(node.reap(REAPURBNDELAY), Ok(&raw mut *urb));
    assert_eq!((urb.status, urb.actual_length), (-libc::ENOENT, PACKET as c_int));
    assert_eq!(input[..PACKET], [3; PACKET]);
}

#[test]
fn blocking_calls_time_out_and_end_with_the_device() {
    let (bench, attached, node) = plugged();
    let mut data = [0; 64];
    let mut bulk = Bulk { endpoint: SILENT_IN.into(), length: 64, timeout: 20, data: data.as_mut_ptr() };
    assert_eq!(node.ioctl(BULK, &mut bulk), Err(libc::ETIMEDOUT));
    let setup = [0xc0, HANG, 0, 0, 0, 0, 8, 0];
    let mut control = Control { setup, timeout: 20, data: data.as_mut_ptr() };
    assert_eq!(node.ioctl(CONTROL, &mut control), Err(libc::ETIMEDOUT));
    control.setup = [0x80, 6, 0, 1, 0, 0, 18, 0];
    assert_eq!(node.ioctl(CONTROL, &mut control), Ok(18));
    control.setup = [0x80, 6, 0, 9, 0, 0, 18, 0];
    assert_eq!(node.ioctl(CONTROL, &mut control), Err(libc::EPIPE));
    bulk.endpoint = HALTED_IN.into();
    assert_eq!(node.ioctl(BULK, &mut bulk), Err(libc::EPIPE));
    assert_eq!(bench.pending(), 0);
    let fd = node.0.as_raw_fd();
    let waiting = thread::spawn(move || {
        let mut data = [0u8; 64];
        let mut forever = Bulk { endpoint: SILENT_IN.into(), length: 64, timeout: 0, data: data.as_mut_ptr() };
        ioctl(fd, BULK, &mut forever)
    });
    let reaping = thread::spawn(move || ioctl(fd, REAPURB, &mut std::ptr::null_mut::<Urb>()));
    while bench.pending() == 0 {
        thread::yield_now();
    }
    drop(attached);
    assert_eq!(waiting.join().unwrap(), Err(libc::ENODEV));
    assert_eq!(reaping.join().unwrap(), Err(libc::ENODEV));
    assert_ne!(poll(fd) & libc::POLLERR, 0);
    assert_eq!(node.ioctl(GET_SPEED, std::ptr::null_mut::<c_void>()), Err(libc::ENODEV));
}

#[test]
fn what_makes_no_sense_is_refused_as_the_kernel_does() {
    let (_bench, _attached, node) = plugged();
    assert_eq!(node.claim(7), Err(libc::ENOENT));
    assert_eq!(node.claim(64), Err(libc::EINVAL));
    assert_eq!(node.ioctl(RELEASE, &mut 0u32), Err(libc::EINVAL));
    assert_eq!(node.ioctl(CLAIM, std::ptr::null_mut::<c_uint>()), Err(libc::EFAULT));
    assert_eq!(node.ioctl(0x5563, std::ptr::null_mut::<c_void>()), Err(libc::ENOTTY));
    let mut data = [0; 8];
    for (kind, endpoint, flags, error) in [
        (ISO, LOOP_IN, 0, libc::EINVAL),
        (BULK_URB, 0x8f, 0, libc::ENOENT),
        (BULK_URB, 0x31, 0, libc::EINVAL),
        (BULK_URB, LOOP_IN, 0x1000, libc::EINVAL),
        (9, LOOP_IN, 0, libc::EINVAL),
    ] {
        assert_eq!(node.submit(&mut Urb::new(kind, endpoint, flags, &mut data)), Err(error), "{kind} {endpoint:#x}");
    }
    let mut urb = Urb::new(BULK_URB, LOOP_OUT, 0, &mut data);
    urb.buffer_length = -1;
    assert_eq!(node.submit(&mut urb), Err(libc::EINVAL));
    urb.buffer_length = c_int::MAX;
    assert_eq!(node.submit(&mut urb), Err(libc::ENOMEM));
    (urb.buffer, urb.buffer_length) = (std::ptr::null_mut(), 8);
    assert_eq!(node.submit(&mut urb), Err(libc::EINVAL));
}

#[test]
fn a_reset_takes_interfaces_and_transfers_away() {
    let (bench, _attached, node) = plugged();
    node.claim(1).unwrap();
    let mut input = [0; 64];
    let mut urb = Urb::new(BULK_URB, SILENT_IN, 0, &mut input);
    node.submit(&mut urb).unwrap();
    node.ioctl(RESET, std::ptr::null_mut::<c_void>()).unwrap();
    assert_eq!(node.reap(REAPURB), Ok(&raw mut *urb));
    assert_eq!(urb.status, -libc::ENOENT);
    assert_eq!(node.ioctl(RELEASE, &mut 1u32), Err(libc::EINVAL));
    assert_eq!(bench.log(), ["reset"]);
}

/// As in the kernel, which holds the device's lock.
#[test]
fn what_is_asked_while_a_device_is_reset_waits_for_it() {
    let (bench, attached, node) = plugged();
    let other = Node::open(&attached);
    let mut data = [[0x80, 6, 0, 1, 0, 0, 18, 0].as_slice(), &[0; 18]].concat();
    let mut again = data.clone();
    let (mut urb, mut discarded) =
        (Urb::new(CONTROL_URB, 0x80, 0, &mut data), Urb::new(CONTROL_URB, 0x80, 0, &mut again));
    thread::scope(|scope| {
        let held = bench.hold_resets();
        let reset = scope.spawn(|| node.ioctl(RESET, std::ptr::null_mut::<c_void>()));
        while bench.log().is_empty() {
            thread::yield_now();
        }
        other.submit(&mut urb).unwrap();
        other.submit(&mut discarded).unwrap();
        assert_eq!(other.reap(REAPURBNDELAY), Err(libc::EAGAIN));
        other.ioctl(DISCARDURB, &raw mut *discarded).unwrap();
        assert_eq!(other.reap(REAPURBNDELAY), Ok(&raw mut *discarded));
        assert_eq!((discarded.status, bench.pending()), (-libc::ENOENT, 0));
        let claim = scope.spawn(|| other.claim(1));
        let mut data = [0; 18];
        let mut control = Control { setup: [0x80, 6, 0, 1, 0, 0, 18, 0], timeout: 0, data: data.as_mut_ptr() };
        let opens = scope.spawn(|| Node::open(&attached).ioctl(GET_SPEED, std::ptr::null_mut::<c_void>()));
        drop(held);
        assert_eq!(other.ioctl(CONTROL, &mut control), Ok(18));
        assert_eq!(reset.join().unwrap(), Ok(0));
        assert_eq!((claim.join().unwrap(), opens.join().unwrap()), (Ok(0), Ok(3)));
    });
    assert_eq!(other.reap(REAPURB), Ok(&raw mut *urb));
    assert_eq!((urb.status, urb.actual_length), (0, 18));
}

#[test]
fn what_waits_for_a_reset_ends_with_the_device() {
    let (bench, attached, node) = plugged();
    let other = Node::open(&attached);
    let mut data = [[0x80, 6, 0, 1, 0, 0, 18, 0].as_slice(), &[0; 18]].concat();
    let mut urb = Urb::new(CONTROL_URB, 0x80, 0, &mut data);
    thread::scope(|scope| {
        let held = bench.hold_resets();
        let reset = scope.spawn(|| node.ioctl(RESET, std::ptr::null_mut::<c_void>()));
        while bench.log().is_empty() {
            thread::yield_now();
        }
        other.submit(&mut urb).unwrap();
        drop(attached);
        assert_eq!(other.reap(REAPURB), Ok(&raw mut *urb));
        assert_eq!(urb.status, -libc::ESHUTDOWN);
        drop(held);
        assert_eq!(reset.join().unwrap(), Ok(0));
    });
    assert_eq!(bench.pending(), 0);
}

#[test]
fn information_and_privileges() {
    let (_bench, attached, node) = plugged();
    assert_eq!(node.ioctl(GET_SPEED, std::ptr::null_mut::<c_void>()), Ok(3));
    let mut information = [0u8; 24];
    node.ioctl(CONNINFO_EX, &mut information).unwrap();
    assert_eq!(information[..8], [24, 0, 0, 0, attached.bus(), 0, 0, 0]);
    assert_eq!(information[8..20], [7, 0, 0, 0, 3, 0, 0, 0, 2, 1, 3, 0]);
    let mut capabilities = 0u32;
    node.ioctl(CAPABILITIES, &mut capabilities).unwrap();
    assert_eq!(capabilities, 0xdd);
    node.ioctl(DROP_PRIVILEGES, &mut 0b10u32).unwrap();
    assert_eq!(node.claim(0), Err(libc::EACCES));
    assert_eq!(node.claim(1), Ok(0));
}

#[test]
fn copies_of_a_descriptor_are_one_open_and_the_last_ends_it() {
    let (bench, attached, node) = plugged();
    node.claim(1).unwrap();
    let mut input = [0; 64];
    let mut urb = Urb::new(BULK_URB, SILENT_IN, 0, &mut input);
    let high: RawFd = 5000;
    raise_limit();
    // SAFETY: calls on descriptors of this test.
    let (copy, moved) = unsafe {
        let copy = libc::fcntl(node.0.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0);
        (copy, libc::dup3(node.0.as_raw_fd(), high, libc::O_CLOEXEC))
    };
    assert!(copy > 2);
    assert_eq!(moved, high, "{}", io::Error::last_os_error());
    drop(node);
    assert_eq!(ioctl(copy, SUBMITURB, &raw mut *urb), Ok(0));
    assert_eq!(bench.pending(), 1);
    let other = Node::open(&attached);
    assert_eq!(other.claim(1), Err(libc::EBUSY));
    // SAFETY: closes what this test opened.
    unsafe { libc::close(copy) };
    assert_eq!(ioctl(high, CAPABILITIES, &mut 0u32), Ok(0));
    assert_eq!(other.claim(1), Err(libc::EBUSY));
    // SAFETY: as above.
    unsafe { libc::close(high) };
    assert_eq!(bench.pending(), 0, "closing waits for the end of its transfers");
    assert_eq!(other.claim(1), Ok(0));
}

#[test]
fn a_copy_that_fails_leaves_its_target_open() {
    let (_bench, attached, node) = plugged();
    let other = Node::open(&attached);
    node.claim(0).unwrap();
    let fd = node.0.as_raw_fd();
    // SAFETY: calls on descriptors of this test, and on none.
    unsafe {
        assert_eq!(libc::dup2(-1, fd), -1);
        assert_eq!(libc::dup3(other.0.as_raw_fd(), fd, 0x7777), -1);
    }
    assert_eq!(node.claim(1), Ok(0));
    assert_eq!(other.claim(0), Err(libc::EBUSY));
}

#[test]
fn close_range_releases_claims_and_leaves_the_library_s_own_descriptors() {
    let (_bench, attached, node) = plugged();
    let other = Node::open(&attached);
    node.claim(0).unwrap();
    let fd = node.0.into_raw_fd();
    // SAFETY: closes what this test opened.
    unsafe { assert_eq!(libc::close_range(fd as c_uint, fd as c_uint, 0), 0) };
    assert_eq!(other.claim(0), Ok(0));
    let mut data = *b"still";
    let mut urb = Urb::new(BULK_URB, LOOP_OUT, 0, &mut data);
    other.submit(&mut urb).unwrap();
    // The pipe by which it tells has a high number, where the limit allows it. No other test opens one of these.
    // SAFETY: as above.
    unsafe {
        assert_eq!(libc::close_range(700, 2000, 0), 0);
        assert!((700..2000).all(|fd| libc::close(fd) == -1));
    }
    other.reap(REAPURB).unwrap();
    assert_eq!(poll(other.0.as_raw_fd()), 0);
    urb.buffer_length = 0;
    other.submit(&mut urb).unwrap();
    assert_eq!(poll(other.0.as_raw_fd()), libc::POLLOUT);
}

#[test]
fn errno_is_left_alone_by_what_succeeds() {
    let (_bench, _attached, node) = plugged();
    let fd = node.0.into_raw_fd();
    let mut capabilities = 0u32;
    // SAFETY: this thread's errno; closes what this test opened.
    unsafe {
        *libc::__errno_location() = 123;
        assert_eq!(libc::ioctl(fd, CAPABILITIES, &raw mut capabilities), 0);
        assert_eq!(libc::close(fd), 0);
        assert_eq!(*libc::__errno_location(), 123);
    }
}

/// ioctl(2) is no cancellation point: a thread that is cancelled in one goes on until it returns.
#[test]
fn a_cancelled_thread_ends_after_its_ioctl() {
    let (bench, attached, node) = plugged();
    static THREAD: AtomicI32 = AtomicI32::new(0);
    extern "C" fn reap(node: *mut c_void) -> *mut c_void {
        // SAFETY: takes nothing and cannot fail; the test's node, which lives until this thread has ended.
        let _ = unsafe {
            THREAD.store(libc::gettid(), Ordering::Release);
            (*node.cast::<Node>()).reap(REAPURB)
        };
        std::ptr::null_mut()
    }
    let sleeps = || {
        let status = fs::read_to_string(format!("/proc/self/task/{}/stat", THREAD.load(Ordering::Acquire)));
        status.is_ok_and(|status| status.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")))
    };
    let mut input = [0; 64];
    node.claim(1).unwrap();
    let mut urb = Urb::new(BULK_URB, SILENT_IN, 0, &mut input);
    node.submit(&mut urb).unwrap();
    // SAFETY: the thread is joined before what it uses goes.
    unsafe {
        let mut reaping = std::mem::zeroed();
        let created =
            libc::pthread_create(&raw mut reaping, std::ptr::null(), reap, (&raw const node).cast_mut().cast());
        assert_eq!(created, 0);
        while !sleeps() {
            thread::yield_now();
        }
        libc::pthread_cancel(reaping);
        assert_eq!(bench.pending(), 1);
        drop(attached);
        libc::pthread_join(reaping, std::ptr::null_mut());
    }
}

#[test]
fn a_number_that_was_ours_is_not_ours_for_ever() {
    let (_bench, attached, node) = plugged();
    node.claim(0).unwrap();
    raise_limit();
    // A number that no other test gets.
    let fd: RawFd = 6000;
    // SAFETY: calls on descriptors of this test. The system call goes behind the library's back, as close_range would.
    unsafe {
        assert_eq!(libc::dup3(node.0.as_raw_fd(), fd, libc::O_CLOEXEC), fd);
        drop(node);
        let null = fs::File::open("/dev/null").unwrap();
        assert_eq!(libc::syscall(libc::SYS_dup3, i64::from(null.as_raw_fd()), i64::from(fd), libc::O_CLOEXEC), 6000);
    }
    assert_eq!(ioctl(fd, CAPABILITIES, &mut 0u32), Err(libc::ENOTTY));
    assert_eq!(Node::open(&attached).claim(0), Ok(0), "the claim went with the descriptor");
}

#[test]
fn a_forked_child_has_no_device_and_takes_nothing_from_its_parent() {
    let (_bench, _attached, node) = plugged();
    node.claim(0).unwrap();
    let fd = node.0.as_raw_fd();
    let (pipe, _writer) = io::pipe().unwrap();
    // SAFETY: the child calls ioctl, close, dup and _exit only.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut capabilities = 0u32;
            let dead = ioctl(fd, CAPABILITIES, &raw mut capabilities) == Err(libc::ENODEV) && libc::close(fd) == 0;
            // Something else at the number is a file like any other.
            let other = libc::dup(pipe.as_raw_fd());
            let moved = other == fd || libc::dup2(other, fd) == fd;
            let mut pending: c_int = -1;
            let reached = ioctl(fd, libc::FIONREAD, &raw mut pending) == Ok(0);
            libc::_exit(c_int::from(!(dead && moved && reached)));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert_eq!(status, 0);
    let mut data = *b"still";
    let mut bulk = Bulk { endpoint: LOOP_OUT.into(), length: 5, timeout: 0, data: data.as_mut_ptr() };
    assert_eq!(node.ioctl(BULK, &mut bulk), Ok(5));
}

#[test]
fn every_other_path_and_descriptor_goes_on_to_libc() {
    let mut pending = 7;
    let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(ioctl(one.as_raw_fd(), libc::FIONREAD, &mut pending), Ok(0));
    assert_eq!(pending, 0);
    assert_eq!(ioctl(-1, libc::FIONREAD, &mut pending), Err(libc::EBADF));
    assert!(fs::read_dir("/sys/bus").is_ok() || !fs::exists("/sys/bus").unwrap());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(!fs::exists("/dev/bus/usb/255/127").unwrap());
    let folder = std::env::temp_dir().join(format!("usbfs-shim-test.{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "text").unwrap();
    assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "text");
    fs::remove_dir_all(folder).unwrap();
}
