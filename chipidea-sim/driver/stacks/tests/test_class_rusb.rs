//! `usb_device::test_class::TestClass`, driven by unmodified rusb: the facts that `test_class_host` checks on a board
//! at a cable, on the virtual bus.
//!
//! Its sizes are fixed when `usb-device` is compiled, so this runs twice: without and with feature
//! `test-class-high-speed`. Every test has a bus number of its own: all tests of a program share what libusb sees.
#![cfg(target_os = "linux")]

use std::thread;
use std::time::Duration;

use chipidea_driver::Config;
use chipidea_stacks::{ChipideaBus, Firmware, NoGadget};
use rusb::{Context, Device, DeviceHandle, Direction, Error, Language, SyncType, TransferType, UsageType, UsbContext};
use scenarios::{Bench, Speed, VirtualBoard, VirtualBus};
use usb::gadget::UdcError;
use usb_device::bus::UsbBusAllocator;
use usb_device::device::CONFIGURATION_VALUE;
use usb_device::test_class::{
    CUSTOM_STRING, INTERFACE_STRING, LONG_DATA, MANUFACTURER, PID, PRODUCT, REQ_READ_BUFFER, REQ_READ_LONG_DATA,
    REQ_SET_BENCH_ENABLED, REQ_STORE_REQUEST, REQ_UNKNOWN, REQ_WRITE_BUFFER, SERIAL_NUMBER, TestClass, VID,
};

/// Nothing here takes that long; a test that would hang fails.
const LONG: Duration = Duration::from_secs(60);
/// For what never comes.
const SHORT: Duration = Duration::from_millis(50);

const HIGH_SPEED: bool = cfg!(feature = "test-class-high-speed");
const SPEED: Speed = if HIGH_SPEED { Speed::High } else { Speed::Full };
/// Sizes of the class's buffers and packets.
const BUFFER: usize = if HIGH_SPEED { 2048 } else { 256 };
const BULK: usize = if HIGH_SPEED { 512 } else { 64 };
const INTERRUPT: usize = if HIGH_SPEED { 1024 } else { 31 };
const CONTROL: u8 = if HIGH_SPEED { 64 } else { 8 };
/// A stack holds as many bytes of control data.
const CONTROL_BUFFER: usize = 128;

const INTERFACE: u8 = 0;
const BULK_OUT: u8 = 0x01;
const BULK_IN: u8 = 0x81;
const INTERRUPT_OUT: u8 = 0x02;
const INTERRUPT_IN: u8 = 0x82;

/// `bmRequestType` of the class's requests.
const VENDOR_OUT: u8 = 0x40;
const VENDOR_IN: u8 = 0xc0;

/// A board that runs the class, as a rusb program has it. The fields go in this order.
struct Host {
    handle: DeviceHandle<Context>,
    device: Device<Context>,
    board: VirtualBoard,
    _bus: VirtualBus,
}

/// A board whose controller can do high speed, at a port of the class's speed.
fn bench(port: &str) -> Bench {
    let bench = Bench::new().speed(SPEED).port(port.parse().expect("a port"));
    bench.driver("chipidea-stacks (usb-device)", |side| {
        let bus = ChipideaBus::probe(side.mmio, side.dma, Config::default()).map_err(UdcError::from)?;
        // The firmware of a board owns its allocator for ever.
        let allocator = Box::leak(Box::new(UsbBusAllocator::new(bus.clone())));
        let mut class = TestClass::new(allocator);
        let mut device = class.make_device(allocator);
        let poll = move || {
            device.poll(&mut [&mut class]);
            class.poll();
        };
        Ok(Box::new(Firmware::new(&bus, poll)))
    })
}

impl Host {
    fn plugged(port: &str) -> Self {
        let bus = VirtualBus::start().expect("a bus");
        let board = bus.plug(bench(port), NoGadget).expect("the board is set up");
        let place = board.wait(LONG).expect("the device comes");
        let devices = Context::new().expect("libusb starts").devices().expect("libusb lists devices");
        let device = devices.iter().find(|device| (device.bus_number(), device.address()) == place);
        let device = device.expect("rusb lists the device");
        let handle = device.open().expect("the device opens");
        Self { handle, device, board, _bus: bus }
    }

    /// Runs `check` on the device as the class's own host does: after a reset.
    fn check(&self, check: fn(&Self)) {
        self.handle.reset().expect("the device is reset");
        self.handle.set_active_configuration(CONFIGURATION_VALUE).expect("the configuration is selected");
        self.handle.claim_interface(INTERFACE).expect("the interface is free");
        check(self);
        self.handle.release_interface(INTERFACE).expect("the interface was claimed");
        let log: Vec<_> = self.board.log().into_iter().map(|line| line.text).collect();
        assert!(!log.iter().any(|line| line.contains("error")), "{log:#?}");
    }

    fn vendor_out(&self, request: u8, value: u16, index: u16, data: &[u8]) -> rusb::Result<usize> {
        self.handle.write_control(VENDOR_OUT, request, value, index, data, LONG)
    }

    fn vendor_in(&self, request: u8, length: usize) -> rusb::Result<Vec<u8>> {
        let mut data = vec![0; length];
        let count = self.handle.read_control(VENDOR_IN, request, 0, 0, &mut data, LONG)?;
        data.truncate(count);
        Ok(data)
    }

    /// Writes `data` and what tells the class that it has ended: a packet that is not full (USB 2.0 §5.8.3).
    fn write_bulk(&self, data: &[u8]) {
        assert_eq!(self.handle.write_bulk(BULK_OUT, data, LONG), Ok(data.len()), "bulk write");
        if !data.is_empty() && data.len().is_multiple_of(BULK) {
            assert_eq!(self.handle.write_bulk(BULK_OUT, &[], LONG), Ok(0), "empty bulk write of {}", data.len());
        }
    }

    fn read_bulk(&self, length: usize) -> rusb::Result<Vec<u8>> {
        let mut data = vec![0; length];
        let count = self.handle.read_bulk(BULK_IN, &mut data, LONG)?;
        data.truncate(count);
        Ok(data)
    }

    fn bulk_loopback(&self, data: &[u8]) {
        self.write_bulk(data);
        assert_eq!(self.read_bulk(data.len().max(1)).as_deref(), Ok(data), "{} bytes of bulk data", data.len());
    }

    fn interrupt_loopback(&self, data: &[u8]) {
        assert_eq!(self.handle.write_interrupt(INTERRUPT_OUT, data, LONG), Ok(data.len()), "interrupt write");
        let mut seen = vec![0; data.len().max(1)];
        let count = self.handle.read_interrupt(INTERRUPT_IN, &mut seen, LONG);
        assert_eq!(count.map(|count| &seen[..count]), Ok(data), "{} bytes of interrupt data", data.len());
    }

    fn english(&self) -> Language {
        let languages = self.handle.read_languages(LONG).expect("string descriptor 0");
        assert_eq!(languages.iter().map(|language| language.lang_id()).collect::<Vec<_>>(), [0x0409]);
        languages[0]
    }

    fn string(&self, index: u8) -> rusb::Result<String> {
        self.handle.read_string_descriptor(self.english(), index, LONG)
    }
}

/// Bytes that show where they belong, and others with the next `seed`.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ seed.wrapping_mul(0x9d) ^ seed >> 8) as u8).collect()
}

fn device_descriptor(host: &Host) {
    assert_eq!(host.device.speed(), if HIGH_SPEED { rusb::Speed::High } else { rusb::Speed::Full });
    assert_eq!(host.device.port_numbers(), Ok(vec![1, 3]));
    let descriptor = host.device.device_descriptor().expect("a device descriptor");
    assert_eq!((descriptor.vendor_id(), descriptor.product_id()), (VID, PID));
    assert_eq!((descriptor.max_packet_size(), descriptor.num_configurations()), (CONTROL, 1));
    assert_eq!(host.handle.active_configuration(), Ok(CONFIGURATION_VALUE));
}

fn string_descriptors(host: &Host) {
    let descriptor = host.device.device_descriptor().expect("a device descriptor");
    let english = host.english();
    let product = host.handle.read_product_string(english, &descriptor, LONG);
    assert_eq!(product.as_deref(), Ok(PRODUCT));
    let manufacturer = host.handle.read_manufacturer_string(english, &descriptor, LONG);
    assert_eq!(manufacturer.as_deref(), Ok(MANUFACTURER));
    let serial = host.handle.read_serial_number_string(english, &descriptor, LONG);
    assert_eq!(serial.as_deref(), Ok(SERIAL_NUMBER));
    assert_eq!(host.string(4).as_deref(), Ok(CUSTOM_STRING));
    assert_eq!(host.string(99), Err(Error::Pipe), "a string that is not there");
}

fn interface_descriptors(host: &Host) {
    let configuration = host.device.active_config_descriptor().expect("an active configuration");
    let interfaces: Vec<_> = configuration.interfaces().collect();
    assert_eq!(interfaces.iter().map(|interface| interface.number()).collect::<Vec<_>>(), [INTERFACE]);
    let settings: Vec<_> = interfaces[0].descriptors().collect();
    let classes: Vec<_> = settings
        .iter()
        .map(|setting| (setting.setting_number(), setting.class_code(), setting.sub_class_code()))
        .collect();
    assert_eq!(classes, [(0, 0xff, 0), (1, 0xff, 1)]);
    assert_eq!(settings[0].description_string_index(), None);
    let name = settings[1].description_string_index().expect("setting 1 has a name");
    assert_eq!(host.string(name).as_deref(), Ok(INTERFACE_STRING));
}

/// Address, type and packet size of the endpoints of a setting.
fn endpoints(host: &Host, setting: u8) -> Vec<(u8, TransferType, u16)> {
    let configuration = host.device.active_config_descriptor().expect("an active configuration");
    let settings = configuration.interfaces().flat_map(|interface| interface.descriptors().collect::<Vec<_>>());
    settings
        .filter(|descriptor| descriptor.setting_number() == setting)
        .flat_map(|descriptor| descriptor.endpoint_descriptors().collect::<Vec<_>>())
        .map(|endpoint| (endpoint.address(), endpoint.transfer_type(), endpoint.max_packet_size()))
        .collect()
}

fn endpoint_descriptors(host: &Host) {
    let expected = [
        (BULK_IN, TransferType::Bulk, BULK as u16),
        (BULK_OUT, TransferType::Bulk, BULK as u16),
        (INTERRUPT_IN, TransferType::Interrupt, INTERRUPT as u16),
        (INTERRUPT_OUT, TransferType::Interrupt, INTERRUPT as u16),
    ];
    // USB 2.0 §5.6.3: nothing isochronous in a default setting.
    assert_eq!(endpoints(host, 0), expected);
    assert_eq!(endpoints(host, 1), [(0x83, TransferType::Isochronous, 500)]);
    let configuration = host.device.active_config_descriptor().expect("an active configuration");
    let interface = configuration.interfaces().next().expect("an interface");
    let setting = interface.descriptors().nth(1).expect("setting 1");
    let isochronous = setting.endpoint_descriptors().next().expect("an endpoint");
    assert_eq!(isochronous.direction(), Direction::In);
    assert_eq!(isochronous.sync_type(), SyncType::Asynchronous);
    assert_eq!((isochronous.usage_type(), isochronous.interval()), (UsageType::FeedbackData, 1));
}

fn alternate_settings(host: &Host) {
    assert_eq!(host.handle.set_alternate_setting(INTERFACE, 0), Ok(()));
    // The class keeps no alternate setting, and the stack takes only the default one then. What libusb has no word for,
    // EPIPE of this call, is `Other`.
    assert_eq!(host.handle.set_alternate_setting(INTERFACE, 1), Err(Error::Other));
    // SET_INTERFACE and GET_INTERFACE (USB 2.0 §9.4.10, §9.4.4).
    assert_eq!(host.handle.write_control(0x01, 11, 1, 0, &[], LONG), Err(Error::Pipe));
    let mut setting = [0xff];
    assert_eq!(host.handle.read_control(0x81, 10, 0, 0, &mut setting, LONG), Ok(1));
    assert_eq!(setting, [0]);
    // A setting that is refused leaves the one of before.
    host.bulk_loopback(&pattern(1, 33));
    host.interrupt_loopback(&pattern(2, 31));
    // There is no setting 2: usbfs says so (EINVAL) without the device.
    assert_eq!(host.handle.set_alternate_setting(INTERFACE, 2), Err(Error::NotFound));
}

fn control_request(host: &Host) {
    for (value, index, length) in [(0, 0, 0), (0xffff, 0xffff, 15), (0x1234, 0xabcd, 8), (1, 2, 1)] {
        let data = pattern(usize::from(value), length);
        assert_eq!(host.vendor_out(REQ_STORE_REQUEST, value, index, &data), Ok(length));
        let mut expected = vec![VENDOR_OUT, REQ_STORE_REQUEST];
        for word in [value, index, length as u16] {
            expected.extend(word.to_le_bytes());
        }
        assert_eq!(host.vendor_in(REQ_READ_BUFFER, 8), Ok(expected), "the request as the class saw it");
    }
}

fn control_data(host: &Host) {
    for length in 0..=CONTROL_BUFFER {
        let data = pattern(length, length);
        assert_eq!(host.vendor_out(REQ_WRITE_BUFFER, 0, 0, &data), Ok(length));
        assert_eq!(host.vendor_in(REQ_READ_BUFFER, length), Ok(data), "{length} bytes of control data");
    }
    // What is more the stack neither takes nor stalls; the next SETUP ends it.
    let more = vec![0; CONTROL_BUFFER + 1];
    let refused = host.handle.write_control(VENDOR_OUT, REQ_WRITE_BUFFER, 0, 0, &more, SHORT);
    assert_eq!(refused, Err(Error::Timeout));
    let whole = host.vendor_in(REQ_READ_BUFFER, CONTROL_BUFFER);
    assert_eq!(whole, Ok(pattern(CONTROL_BUFFER, CONTROL_BUFFER)), "the data of before");
}

fn control_data_static(host: &Host) {
    for length in [LONG_DATA.len(), 256, 65, 64, 8, 1] {
        assert_eq!(host.vendor_in(REQ_READ_LONG_DATA, length).as_deref(), Ok(&LONG_DATA[..length]));
    }
    assert_eq!(host.vendor_in(REQ_READ_LONG_DATA, 1000).as_deref(), Ok(LONG_DATA), "more asked for than there is");
}

fn control_error(host: &Host) {
    for data in [&[][..], &[1, 2, 3]] {
        assert_eq!(host.vendor_out(REQ_UNKNOWN, 0, 0, data), Err(Error::Pipe));
        assert_eq!(host.vendor_in(REQ_UNKNOWN, 8), Err(Error::Pipe));
        // The next SETUP ends the stall.
        assert_eq!(host.vendor_out(REQ_STORE_REQUEST, 7, 0, &[]), Ok(0));
        assert_eq!(host.vendor_in(REQ_READ_BUFFER, 8), Ok(vec![VENDOR_OUT, REQ_STORE_REQUEST, 7, 0, 0, 0, 0, 0]));
    }
}

fn bulk_loopback(host: &Host) {
    for length in 0..=BUFFER {
        host.bulk_loopback(&pattern(length, length));
    }
}

fn bulk_ends(host: &Host) {
    // A short packet ends a read that asked for more, and so does an empty one.
    for length in [0, 1, BULK - 1, BULK + 1, 2 * BULK + 7] {
        host.write_bulk(&pattern(length, length));
        assert_eq!(host.read_bulk(BUFFER), Ok(pattern(length, length)));
    }
    // The class ends whole packets without an empty one: nothing follows the data, which is not lost with the timeout.
    for length in [BULK, 2 * BULK] {
        host.bulk_loopback(&pattern(length, length));
        let mut more = [0; BULK];
        assert_eq!(host.handle.read_bulk(BULK_IN, &mut more, SHORT), Err(Error::Timeout));
        host.write_bulk(&pattern(length, length));
        let mut all = vec![0; BUFFER];
        assert_eq!(host.handle.read_bulk(BULK_IN, &mut all, SHORT), Ok(length));
        assert_eq!(all[..length], pattern(length, length));
    }
    host.bulk_loopback(&pattern(1, 33));
}

fn waiting_reads(host: &Host) {
    for round in 1..=50 {
        // Never whole packets: they would not end the read.
        let (bulk, interrupt) = (pattern(round, BULK + round), pattern(round, round.min(INTERRUPT)));
        thread::scope(|scope| {
            let reader = scope.spawn(|| host.read_bulk(BUFFER));
            scope.spawn(|| host.interrupt_loopback(&interrupt));
            host.write_bulk(&bulk);
            assert_eq!(reader.join().expect("the reader ends").as_ref(), Ok(&bulk));
        });
    }
}

fn interrupt_loopback(host: &Host) {
    for length in 0..=INTERRUPT {
        host.interrupt_loopback(&pattern(length, length));
    }
}

fn halts(host: &Host) {
    let (mut data, odd) = ([0; BULK], pattern(1, 33));
    for _ in 0..2 {
        // One packet each way, so that the toggles would differ.
        host.bulk_loopback(&odd);
        host.interrupt_loopback(&odd[..31]);
        for endpoint in [BULK_OUT, BULK_IN, INTERRUPT_OUT, INTERRUPT_IN] {
            // SET_FEATURE(ENDPOINT_HALT) (USB 2.0 §9.4.9).
            assert_eq!(host.handle.write_control(0x02, 3, 0, endpoint.into(), &[], LONG), Ok(0));
        }
        assert_eq!(host.handle.write_bulk(BULK_OUT, &odd, LONG), Err(Error::Pipe));
        assert_eq!(host.handle.read_bulk(BULK_IN, &mut data, LONG), Err(Error::Pipe));
        assert_eq!(host.handle.write_interrupt(INTERRUPT_OUT, &odd[..31], LONG), Err(Error::Pipe));
        assert_eq!(host.handle.read_interrupt(INTERRUPT_IN, &mut data[..31], LONG), Err(Error::Pipe));
        for endpoint in [BULK_OUT, BULK_IN, INTERRUPT_OUT, INTERRUPT_IN] {
            assert_eq!(host.handle.clear_halt(endpoint), Ok(()));
        }
    }
    host.bulk_loopback(&odd);
    host.interrupt_loopback(&odd[..31]);
}

fn configuration_again(host: &Host) {
    let odd = pattern(1, 33);
    for _ in 0..2 {
        host.bulk_loopback(&odd);
        host.interrupt_loopback(&odd[..31]);
        // USB 2.0 §9.1.1.5: toggles start again. usbfs wants every interface to be free for it.
        assert_eq!(host.handle.set_active_configuration(CONFIGURATION_VALUE), Err(Error::Busy));
        host.handle.release_interface(INTERFACE).expect("the interface was claimed");
        assert_eq!(host.handle.set_active_configuration(CONFIGURATION_VALUE), Ok(()));
        host.handle.claim_interface(INTERFACE).expect("the interface is free");
    }
    host.bulk_loopback(&odd);
    host.interrupt_loopback(&odd[..31]);
}

/// Bytes of a transfer of a bench, and transfers.
const BENCH: (usize, usize) = (64 << 10, 16);

fn bench_bulk_write(host: &Host) {
    assert_eq!(host.vendor_out(REQ_SET_BENCH_ENABLED, 1, 0, &[]), Ok(0));
    for n in 0..BENCH.1 {
        assert_eq!(host.handle.write_bulk(BULK_OUT, &pattern(n, BENCH.0), LONG), Ok(BENCH.0));
    }
}

fn bench_bulk_read(host: &Host) {
    assert_eq!(host.vendor_out(REQ_SET_BENCH_ENABLED, 1, 0, &[]), Ok(0));
    for _ in 0..BENCH.1 {
        assert_eq!(host.read_bulk(BENCH.0).map(|data| data.len()), Ok(BENCH.0));
    }
}

/// A test for each check, on a bus of its own, and one that runs them all.
macro_rules! checks {
    ($($port:literal: $check:ident),+ $(,)?) => {
        mod alone {
            $(
                #[test]
                fn $check() {
                    super::Host::plugged($port).check(super::$check);
                }
            )+
        }

        /// As the class's own host runs them, and back: one device, a reset before each.
        #[test]
        fn one_device_passes_all_of_them_in_either_order() {
            let host = Host::plugged("30-1.3");
            let checks: &[fn(&Host)] = &[$($check),+];
            checks.iter().chain(checks.iter().rev()).for_each(|check| host.check(*check));
        }
    };
}

checks! {
    "31-1.3": device_descriptor,
    "32-1.3": string_descriptors,
    "33-1.3": interface_descriptors,
    "34-1.3": endpoint_descriptors,
    "35-1.3": alternate_settings,
    "36-1.3": control_request,
    "37-1.3": control_data,
    "38-1.3": control_data_static,
    "39-1.3": control_error,
    "40-1.3": bulk_loopback,
    "41-1.3": bulk_ends,
    "42-1.3": waiting_reads,
    "43-1.3": interrupt_loopback,
    "44-1.3": halts,
    "45-1.3": configuration_again,
    "46-1.3": bench_bulk_write,
    "47-1.3": bench_bulk_read,
}
