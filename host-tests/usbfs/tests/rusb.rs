//! Unmodified rusb in this process: everything that a program does with a device.

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{
    AFTER_HALT, Bench, EVENT_IN, GIVE, HALTED_IN, HANG, KEEP, LOOP_IN, LOOP_OUT, MANUFACTURER, PACKET, PRODUCT,
    SILENT_IN, new_bus,
};
use rusb::{Context, Device, DeviceHandle, Error, UsbContext};
use usbfs_shim::Attached;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

fn find(bus: u8, address: u8) -> Option<Device<Context>> {
    let devices = Context::new().unwrap().devices().unwrap();
    devices.iter().find(|device| device.bus_number() == bus && device.address() == address)
}

fn open(attached: &Attached) -> DeviceHandle<Context> {
    find(attached.bus(), attached.address()).expect("listed").open().unwrap()
}

fn plugged() -> (Arc<Bench>, Attached, DeviceHandle<Context>) {
    let bench = Bench::loopback("1");
    let attached = bench.attach(new_bus());
    let handle = open(&attached);
    (bench, attached, handle)
}

#[test]
fn a_device_is_listed_with_its_place_and_descriptors() {
    let (_bench, attached, handle) = plugged();
    let device = handle.device();
    assert_eq!(attached.name(), format!("{}-1.3", attached.bus()));
    assert_eq!(device.port_numbers().unwrap(), [1, 3]);
    assert_eq!(device.speed(), rusb::Speed::High);
    let descriptor = device.device_descriptor().unwrap();
    assert_eq!((descriptor.vendor_id(), descriptor.product_id()), (common::VENDOR_ID, common::PRODUCT_ID));
    assert_eq!(handle.read_manufacturer_string_ascii(&descriptor).unwrap(), MANUFACTURER);
    assert_eq!(handle.read_product_string_ascii(&descriptor).unwrap(), PRODUCT);
    let configuration = device.active_config_descriptor().unwrap();
    assert_eq!((configuration.number(), configuration.num_interfaces()), (1, 2));
    let hub = device.get_parent().expect("a hub");
    assert_eq!(hub.device_descriptor().unwrap().class_code(), 9);
    let root = hub.get_parent().expect("a root hub");
    assert_eq!((root.address(), root.bus_number(), root.port_number()), (1, attached.bus(), 0));
}

#[test]
fn control_transfers_move_data_and_stall() {
    let (_bench, _attached, handle) = plugged();
    let mut buffer = [0; 64];
    assert_eq!(handle.read_control(0x80, 6, 0x0100, 0, &mut buffer, LONG).unwrap(), 18);
    assert_eq!(handle.write_control(0x40, KEEP, 0, 0, b"kept", LONG).unwrap(), 4);
    assert_eq!(handle.read_control(0xc0, GIVE, 0, 0, &mut buffer, LONG).unwrap(), 4);
    assert_eq!(&buffer[..4], b"kept");
    assert_eq!(handle.read_control(0xc0, 99, 0, 0, &mut buffer, LONG), Err(Error::Pipe));
    assert_eq!(handle.read_control(0xc0, HANG, 0, 0, &mut buffer, SHORT), Err(Error::Timeout));
    assert_eq!(handle.write_control(0x40, KEEP, 0, 0, &[], LONG).unwrap(), 0);
}

#[test]
fn bulk_of_any_size_comes_back() {
    let (bench, _attached, handle) = plugged();
    handle.claim_interface(0).unwrap();
    for size in [1, 511, 512, 513, 16 << 10, (16 << 10) + 1, 1 << 20, (3 << 20) + 7] {
        let sent: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut received = vec![0; size];
        assert_eq!(handle.write_bulk(LOOP_OUT, &sent, LONG).unwrap(), size);
        assert_eq!(handle.read_bulk(LOOP_IN, &mut received, LONG).unwrap(), size);
        assert!(sent == received, "{size} bytes");
        assert_eq!(bench.out_packets().len(), size.div_ceil(PACKET));
    }
    // A full last packet and nothing after it: the empty one is the sender's business, here a transfer of its own.
    assert_eq!(handle.write_bulk(LOOP_OUT, &[], LONG).unwrap(), 0);
    assert_eq!(bench.out_packets(), [0]);
    assert_eq!(handle.read_bulk(LOOP_IN, &mut [0; 64], LONG).unwrap(), 0);
}

#[test]
fn a_split_transfer_ends_with_its_short_packet() {
    let bench = Bench::loopback("split");
    let mut info = bench.info(new_bus(), 7, &[1]);
    info.scatter_gather = false;
    let attached = usbfs_shim::attach(info, bench.clone()).unwrap();
    let handle = open(&attached);
    handle.claim_interface(0).unwrap();
    for size in [100, 16 << 10, (40 << 10) + 3, 256 << 10] {
        let sent = vec![size as u8; size];
        let mut received = vec![0; 512 << 10];
        assert_eq!(handle.write_bulk(LOOP_OUT, &sent, LONG).unwrap(), size);
        if size.is_multiple_of(PACKET) {
            handle.write_bulk(LOOP_OUT, &[], LONG).unwrap();
        }
        assert_eq!(handle.read_bulk(LOOP_IN, &mut received, LONG).unwrap(), size);
        assert!(received[..size] == sent);
        assert_eq!(bench.pending(), 0, "the rest of the split transfer was taken back");
    }
}

#[test]
fn interrupt_endpoint_wakes_its_reader() {
    let (bench, _attached, handle) = plugged();
    handle.claim_interface(1).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut buffer = [0; 8];
            handle.read_interrupt(EVENT_IN, &mut buffer, LONG).map(|length| buffer[..length].to_vec())
        });
        while bench.pending() == 0 {
            thread::yield_now();
        }
        bench.push(EVENT_IN, b"event");
        assert_eq!(reader.join().unwrap().unwrap(), b"event");
    });
}

#[test]
fn a_timeout_takes_the_transfer_back() {
    let (bench, _attached, handle) = plugged();
    handle.claim_interface(1).unwrap();
    assert_eq!(handle.read_bulk(SILENT_IN, &mut [0; 64], SHORT), Err(Error::Timeout));
    assert_eq!(bench.pending(), 0);
    // What comes later belongs to the next reader; what came before the time was up is not lost.
    bench.push(SILENT_IN, &[7; PACKET]);
    let mut buffer = vec![0; 4 * PACKET];
    assert_eq!(handle.read_bulk(SILENT_IN, &mut buffer, SHORT).unwrap(), PACKET);
    assert_eq!(buffer[..PACKET], [7; PACKET]);
}

#[test]
fn more_data_than_room_is_an_overflow() {
    let (_bench, _attached, handle) = plugged();
    handle.claim_interface(0).unwrap();
    handle.write_bulk(LOOP_OUT, &[1; 64], LONG).unwrap();
    assert_eq!(handle.read_bulk(LOOP_IN, &mut [0; 16], LONG), Err(Error::Overflow));
}

#[test]
fn a_halted_endpoint_stalls_until_it_is_cleared() {
    let (bench, _attached, handle) = plugged();
    handle.claim_interface(1).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(handle.read_bulk(HALTED_IN, &mut buffer, LONG), Err(Error::Pipe));
    handle.clear_halt(HALTED_IN).unwrap();
    assert_eq!(bench.log(), ["clear 0x83"]);
    let length = handle.read_bulk(HALTED_IN, &mut buffer, LONG).unwrap();
    assert_eq!(&buffer[..length], AFTER_HALT);
}

#[test]
fn claims_of_two_opens_conflict() {
    let (_bench, attached, first) = plugged();
    let second = open(&attached);
    first.claim_interface(0).unwrap();
    first.claim_interface(0).unwrap();
    assert_eq!(second.claim_interface(0), Err(Error::Busy));
    assert_eq!(second.write_bulk(LOOP_OUT, b"x", LONG), Err(Error::Io));
    assert_eq!(second.set_active_configuration(1), Err(Error::Busy));
    assert_eq!(first.claim_interface(9), Err(Error::NotFound));
    first.release_interface(0).unwrap();
    assert_eq!(first.release_interface(0), Err(Error::NotFound));
    second.claim_interface(0).unwrap();
    assert_eq!(first.claim_interface(0), Err(Error::Busy));
    drop(second);
    first.claim_interface(0).unwrap();
}

#[test]
fn settings_are_selected_and_left() {
    let (bench, _attached, handle) = plugged();
    handle.claim_interface(1).unwrap();
    handle.set_alternate_setting(1, 1).unwrap();
    assert_eq!(handle.read_bulk(HALTED_IN, &mut [0; 8], LONG), Err(Error::Io), "setting 1 has no such endpoint");
    assert_eq!(handle.read_bulk(SILENT_IN, &mut [0; 8], SHORT), Err(Error::Timeout));
    assert_eq!(handle.set_alternate_setting(1, 7), Err(Error::NotFound));
    handle.release_interface(1).unwrap();
    handle.set_active_configuration(1).unwrap();
    assert_eq!(bench.log(), ["interface 1 setting 1", "interface 1 setting 0", "configuration 1"]);
    handle.unconfigure().unwrap();
    assert_eq!(handle.active_configuration().unwrap(), 0);
    handle.set_active_configuration(1).unwrap();
    assert_eq!(handle.active_configuration().unwrap(), 1);
    assert_eq!(handle.set_active_configuration(9), Err(Error::NotFound));
}

#[test]
fn a_reset_keeps_the_claims_that_libusb_knows() {
    let (bench, _attached, handle) = plugged();
    handle.claim_interface(0).unwrap();
    handle.reset().unwrap();
    assert_eq!(bench.log(), ["reset"]);
    handle.write_bulk(LOOP_OUT, b"after", LONG).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(handle.read_bulk(LOOP_IN, &mut buffer, LONG).unwrap(), 5);
}

#[test]
fn a_kernel_driver_is_detached_and_comes_back() {
    let bench = Bench::loopback("driver");
    let mut info = bench.info(new_bus(), 7, &[2]);
    info.kernel_drivers = vec![(0, "rndis_host".to_owned())];
    let attached = usbfs_shim::attach(info, bench).unwrap();
    let handle = open(&attached);
    let link = format!("/sys/bus/usb/devices/{}:1.0/driver", attached.name());
    assert!(handle.kernel_driver_active(0).unwrap());
    assert_eq!(std::fs::read_link(&link).unwrap().file_name().unwrap(), "rndis_host");
    assert!(!handle.kernel_driver_active(1).unwrap());
    assert_eq!(handle.claim_interface(0), Err(Error::Busy));
    handle.detach_kernel_driver(0).unwrap();
    assert!(std::fs::read_link(&link).is_err());
    assert_eq!(handle.detach_kernel_driver(0), Err(Error::NotFound));
    handle.claim_interface(0).unwrap();
    assert_eq!(handle.attach_kernel_driver(0), Err(Error::Busy));
    handle.release_interface(0).unwrap();
    handle.attach_kernel_driver(0).unwrap();
    assert!(handle.kernel_driver_active(0).unwrap());
    handle.set_auto_detach_kernel_driver(true).unwrap();
    handle.claim_interface(0).unwrap();
    handle.release_interface(0).unwrap();
    assert!(handle.kernel_driver_active(0).unwrap());
}

#[test]
fn unplugging_ends_a_transfer_in_flight() {
    let (bench, attached, handle) = plugged();
    handle.claim_interface(1).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| handle.read_bulk(SILENT_IN, &mut [0; 64], LONG));
        while bench.pending() == 0 {
            thread::yield_now();
        }
        drop(attached);
        assert_eq!(reader.join().unwrap(), Err(Error::NoDevice));
    });
    assert_eq!(handle.read_bulk(SILENT_IN, &mut [0; 64], LONG), Err(Error::NoDevice));
    assert_eq!(handle.read_control(0x80, 6, 0x0100, 0, &mut [0; 18], LONG), Err(Error::NoDevice));
    assert_eq!(bench.pending(), 0);
}

#[test]
fn an_unplugged_device_is_no_longer_listed_and_its_place_is_free() {
    let bench = Bench::loopback("again");
    let attached = bench.attach(new_bus());
    let (bus, address) = (attached.bus(), attached.address());
    assert!(find(bus, address).is_some());
    assert!(usbfs_shim::attach(bench.info(bus, address, &[4]), bench.clone()).is_err());
    assert!(usbfs_shim::attach(bench.info(bus, 8, &[1, 3]), bench.clone()).is_err());
    drop(attached);
    assert!(find(bus, address).is_none());
    let attached = bench.attach(bus);
    assert!(find(bus, address).is_some());
    drop(attached);
}

#[test]
fn eight_devices_serve_two_threads_each() {
    let bus = new_bus();
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                let bench = Bench::loopback(&number.to_string());
                let info = bench.info(bus, 20 + number, &[2, number + 1]);
                let attached = usbfs_shim::attach(info, bench).unwrap();
                let handle = open(&attached);
                handle.claim_interface(0).unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        for round in 0..200u32 {
                            handle.write_bulk(LOOP_OUT, &[round as u8, number], LONG).unwrap();
                        }
                    });
                    for round in 0..200u32 {
                        let mut buffer = [0; 64];
                        assert_eq!(handle.read_bulk(LOOP_IN, &mut buffer, LONG).unwrap(), 2);
                        assert_eq!(buffer[..2], [round as u8, number]);
                    }
                });
            });
        }
    });
}
