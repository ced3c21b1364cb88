//! A small device for the tests: chapter 9, bulk loopback, a silent, a halted and an interrupt endpoint, or fastboot.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use usb::ch9::{DescriptorType, Direction, RequestType, descriptors, language_descriptor, string_descriptor};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb::{EndpointAddress, SetupPacket, Speed};
use usbfs_shim::{Attached, Backend, DeviceInfo, Done};

pub(crate) const MANUFACTURER: &str = "Somebody";
pub(crate) const PRODUCT: &str = "Test device";
pub(crate) const VENDOR_ID: u16 = 0x1209;
pub(crate) const PRODUCT_ID: u16 = 0x0001;

/// Loopback: what goes out here comes back at [`LOOP_IN`], packet by packet. Interface 0.
pub(crate) const LOOP_OUT: u8 = 0x01;
pub(crate) const LOOP_IN: u8 = 0x81;
/// Never has data, unless a test pushes some. Interface 1, both alternate settings.
pub(crate) const SILENT_IN: u8 = 0x82;
/// Halted until cleared, then answers with [`AFTER_HALT`]. Interface 1, setting 0.
pub(crate) const HALTED_IN: u8 = 0x83;
pub(crate) const AFTER_HALT: &[u8] = b"cleared";
/// Interrupt. Interface 1, setting 0.
pub(crate) const EVENT_IN: u8 = 0x84;
pub(crate) const PACKET: usize = 512;

/// Vendor requests: keep OUT data, give them back, never answer.
pub(crate) const KEEP: u8 = 1;
pub(crate) const GIVE: u8 = 2;
pub(crate) const HANG: u8 = 3;

enum Function {
    Loopback,
    Fastboot { expected: usize, downloaded: Vec<u8> },
}

struct Inner {
    function: Function,
    descriptors: Vec<u8>,
    serial: String,
    pending: BTreeMap<u64, (Urb, usize, Done)>,
    next: u64,
    packets: BTreeMap<u8, VecDeque<Vec<u8>>>,
    halted: BTreeSet<u8>,
    kept: Vec<u8>,
    /// What the host did, in words.
    log: Vec<String>,
    /// Sizes of the packets of the last OUT transfer.
    out_packets: Vec<usize>,
    /// Nobody can talk to it.
    resetting: bool,
}

pub(crate) struct Bench(Mutex<Inner>, Mutex<()>);

type Finished = Vec<(Done, UrbDone)>;

impl Bench {
    pub(crate) fn loopback(serial: &str) -> Arc<Self> {
        Self::new(Function::Loopback, loopback_descriptors(), serial)
    }

    pub(crate) fn fastboot(serial: &str) -> Arc<Self> {
        Self::new(Function::Fastboot { expected: 0, downloaded: Vec::new() }, fastboot_descriptors(), serial)
    }

    fn new(function: Function, descriptors: Vec<u8>, serial: &str) -> Arc<Self> {
        let inner = Mutex::new(Inner {
            function,
            descriptors,
            serial: serial.to_owned(),
            pending: BTreeMap::new(),
            next: 1,
            packets: BTreeMap::new(),
            halted: BTreeSet::from([HALTED_IN]),
            kept: Vec::new(),
            log: Vec::new(),
            out_packets: Vec::new(),
            resetting: false,
        });
        Arc::new(Self(inner, Mutex::new(())))
    }

    pub(crate) fn info(&self, bus: u8, address: u8, ports: &[u8]) -> DeviceInfo {
        let inner = self.lock();
        let mut info = DeviceInfo::new(bus, address, ports, Speed::High, inner.descriptors.clone());
        info.manufacturer = Some(MANUFACTURER.to_owned());
        info.product = Some(PRODUCT.to_owned());
        info.serial = Some(inner.serial.clone());
        info
    }

    /// Attached at the third port of a hub, as `BUS-1.3`, with address 7.
    pub(crate) fn attach(self: &Arc<Self>, bus: u8) -> Attached {
        usbfs_shim::attach(self.info(bus, 7, &[1, 3]), self.clone()).unwrap()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// No reset ends until the guard is dropped.
    pub(crate) fn hold_resets(&self) -> MutexGuard<'_, ()> {
        self.1.lock().unwrap()
    }

    /// The endpoint has a packet to send.
    pub(crate) fn push(&self, endpoint: u8, packet: &[u8]) {
        let finished = {
            let mut inner = self.lock();
            inner.packets.entry(endpoint).or_default().push_back(packet.to_vec());
            inner.run()
        };
        finish(finished);
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.lock().log.clone()
    }

    pub(crate) fn out_packets(&self) -> Vec<usize> {
        self.lock().out_packets.clone()
    }

    pub(crate) fn pending(&self) -> usize {
        self.lock().pending.len()
    }

    /// What fastboot downloaded.
    pub(crate) fn downloaded(&self) -> Vec<u8> {
        match &self.lock().function {
            Function::Fastboot { downloaded, .. } => downloaded.clone(),
            Function::Loopback => Vec::new(),
        }
    }
}

/// A bus number for each test: all tests of a binary share one bus.
pub(crate) fn new_bus() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn finish(finished: Finished) {
    for (done, how) in finished {
        done(how);
    }
}

impl Inner {
    /// Offers every transfer to the device until nothing moves: an accepted OUT may have made an IN ready.
    fn run(&mut self) -> Finished {
        let mut finished = Vec::new();
        loop {
            let mut blocked = BTreeSet::new();
            let mut ended = None;
            let ids: Vec<u64> = self.pending.keys().copied().collect();
            for id in ids {
                let Some((mut urb, mut actual, done)) = self.pending.remove(&id) else { continue };
                let endpoint = (urb.endpoint, matches!(urb.transfer, Transfer::Control(_)));
                let status = if blocked.contains(&endpoint.0) { None } else { self.transfer(&mut urb, &mut actual) };
                match status {
                    Some(status) => {
                        ended = Some((done, UrbDone { buffer: urb.buffer, actual, status }));
                        break;
                    }
                    None => {
                        if !endpoint.1 {
                            blocked.insert(endpoint.0);
                        }
                        self.pending.insert(id, (urb, actual, done));
                    }
                }
            }
            match ended {
                Some(ended) => finished.push(ended),
                None => return finished,
            }
        }
    }

    fn transfer(&mut self, urb: &mut Urb, actual: &mut usize) -> Option<Result<(), UrbError>> {
        if self.resetting {
            return Some(Err(UrbError::Protocol));
        }
        if let Transfer::Control(setup) = urb.transfer {
            return self.control(&setup, urb, actual);
        }
        let address = urb.endpoint.to_byte();
        if self.halted.contains(&address) {
            return Some(Err(UrbError::Stall));
        }
        if urb.endpoint.direction == Direction::Out {
            *actual = urb.buffer.len();
            self.out(&urb.buffer, urb.zero_packet);
            return Some(Ok(()));
        }
        let queue = self.packets.entry(address).or_default();
        while *actual < urb.buffer.len() {
            let packet = queue.pop_front()?;
            if packet.len() > urb.buffer.len() - *actual {
                return Some(Err(UrbError::Overflow));
            }
            urb.buffer[*actual..*actual + packet.len()].copy_from_slice(&packet);
            *actual += packet.len();
            if packet.len() < PACKET {
                let short = *actual < urb.buffer.len() && urb.short_not_ok;
                return Some(if short { Err(UrbError::ShortPacket) } else { Ok(()) });
            }
        }
        Some(Ok(()))
    }

    fn out(&mut self, data: &[u8], zero_packet: bool) {
        let mut packets: Vec<Vec<u8>> = data.chunks(PACKET).map(<[u8]>::to_vec).collect();
        if data.is_empty() || (zero_packet && data.len().is_multiple_of(PACKET)) {
            packets.push(Vec::new());
        }
        self.out_packets = packets.iter().map(Vec::len).collect();
        let answer = match &mut self.function {
            Function::Loopback => {
                self.packets.entry(LOOP_IN).or_default().extend(packets);
                return;
            }
            Function::Fastboot { expected, downloaded } if *expected > 0 => {
                downloaded.extend(data);
                *expected = expected.saturating_sub(data.len());
                if *expected > 0 {
                    return;
                }
                "OKAY".to_owned()
            }
            Function::Fastboot { expected, downloaded } => {
                let command = String::from_utf8_lossy(data).into_owned();
                match command.split_once(':') {
                    Some(("getvar", "product")) => "OKAYbench".to_owned(),
                    Some(("getvar", "max-download-size")) => "OKAY0x10000000".to_owned(),
                    Some(("getvar", _)) => "OKAY".to_owned(),
                    Some(("download", size)) => {
                        *expected = usize::from_str_radix(size, 16).unwrap_or(0);
                        downloaded.clear();
                        format!("DATA{size}")
                    }
                    Some(("flash", _)) => "OKAY".to_owned(),
                    _ => "FAILunknown command".to_owned(),
                }
            }
        };
        self.packets.entry(LOOP_IN).or_default().push_back(answer.into_bytes());
    }

    fn control(&mut self, setup: &SetupPacket, urb: &mut Urb, actual: &mut usize) -> Option<Result<(), UrbError>> {
        let data = match (setup.kind(), setup.request) {
            (RequestType::Vendor, HANG) => return None,
            (RequestType::Vendor, KEEP) if setup.direction() == Direction::Out => {
                self.kept.clone_from(&urb.buffer);
                *actual = urb.buffer.len();
                return Some(Ok(()));
            }
            (RequestType::Vendor, GIVE) => self.kept.clone(),
            (RequestType::Standard, 0) => vec![0, 0],
            (RequestType::Standard, 6) => match self.descriptor(setup.value.get()) {
                Some(descriptor) => descriptor,
                None => return Some(Err(UrbError::Stall)),
            },
            (RequestType::Standard, 8) => vec![1],
            _ => return Some(Err(UrbError::Stall)),
        };
        *actual = data.len().min(urb.buffer.len());
        urb.buffer[..*actual].copy_from_slice(&data[..*actual]);
        Some(Ok(()))
    }

    fn descriptor(&self, value: u16) -> Option<Vec<u8>> {
        let [index, kind] = value.to_le_bytes();
        match DescriptorType(kind) {
            DescriptorType::Device => Some(self.descriptors[..18].to_vec()),
            DescriptorType::Configuration if index == 0 => Some(self.descriptors[18..].to_vec()),
            DescriptorType::DeviceQualifier => Some(vec![10, 6, 0, 2, 0, 0, 0, 64, 1, 0]),
            DescriptorType::String => match index {
                0 => Some(language_descriptor(&[0x0409])),
                1 => Some(string_descriptor(MANUFACTURER)),
                2 => Some(string_descriptor(PRODUCT)),
                3 => Some(string_descriptor(&self.serial)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Backend for Bench {
    fn submit(&self, urb: Urb, done: Done) -> u64 {
        let (id, finished) = {
            let mut inner = self.lock();
            let id = inner.next;
            inner.next += 1;
            inner.pending.insert(id, (urb, 0, done));
            (id, inner.run())
        };
        finish(finished);
        id
    }

    fn cancel(&self, id: u64) {
        let taken = self.lock().pending.remove(&id);
        if let Some((urb, actual, done)) = taken {
            done(UrbDone { buffer: urb.buffer, actual, status: Err(UrbError::Unlinked) });
        }
    }

    fn set_configuration(&self, value: u8) -> Result<(), UrbError> {
        self.lock().log.push(format!("configuration {value}"));
        Ok(())
    }

    fn set_interface(&self, interface: u8, alternate: u8) -> Result<(), UrbError> {
        self.lock().log.push(format!("interface {interface} setting {alternate}"));
        Ok(())
    }

    fn clear_halt(&self, endpoint: EndpointAddress) -> Result<(), UrbError> {
        let mut inner = self.lock();
        inner.log.push(format!("clear {:#04x}", endpoint.to_byte()));
        if inner.halted.remove(&endpoint.to_byte()) {
            inner.packets.entry(endpoint.to_byte()).or_default().push_back(AFTER_HALT.to_vec());
        }
        Ok(())
    }

    fn reset(&self) -> Result<(), UrbError> {
        {
            let mut inner = self.lock();
            inner.log.push("reset".to_owned());
            inner.resetting = true;
        }
        drop(self.1.lock().unwrap());
        let mut inner = self.lock();
        inner.resetting = false;
        inner.packets.clear();
        inner.halted = BTreeSet::from([HALTED_IN]);
        Ok(())
    }
}

fn device(class: u8) -> Vec<u8> {
    let [vendor, product] = [VENDOR_ID.to_le_bytes(), PRODUCT_ID.to_le_bytes()];
    let mut bytes = vec![18, 1, 0x00, 0x02, class, 0, 0, 64];
    bytes.extend([vendor, product].concat());
    bytes.extend([0x00, 0x01, 1, 2, 3, 1]);
    bytes
}

fn endpoint(address: u8, attributes: u8, max_packet: u16) -> Vec<u8> {
    let [low, high] = max_packet.to_le_bytes();
    vec![7, 5, address, attributes, low, high, 4]
}

fn configuration(interfaces: u8, body: &[u8]) -> Vec<u8> {
    let [low, high] = (9 + body.len() as u16).to_le_bytes();
    [&[9, 2, low, high, interfaces, 1, 0, 0x80, 50], body].concat()
}

fn loopback_descriptors() -> Vec<u8> {
    let body = [
        vec![9, 4, 0, 0, 2, 0xff, 0, 0, 0],
        endpoint(LOOP_OUT, 2, 512),
        endpoint(LOOP_IN, 2, 512),
        vec![9, 4, 1, 0, 3, 0xff, 0, 0, 0],
        endpoint(SILENT_IN, 2, 512),
        endpoint(HALTED_IN, 2, 512),
        endpoint(EVENT_IN, 3, 8),
        vec![9, 4, 1, 1, 1, 0xff, 0, 1, 0],
        endpoint(SILENT_IN, 2, 512),
    ];
    let bytes = [device(0), configuration(2, &body.concat())].concat();
    assert_eq!(descriptors(&bytes).count(), 11);
    bytes
}

fn fastboot_descriptors() -> Vec<u8> {
    let body = [vec![9, 4, 0, 0, 2, 0xff, 0x42, 0x03, 0], endpoint(LOOP_OUT, 2, 512), endpoint(LOOP_IN, 2, 512)];
    [device(0), configuration(1, &body.concat())].concat()
}
