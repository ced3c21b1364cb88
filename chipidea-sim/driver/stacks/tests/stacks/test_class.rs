//! `usb_device::test_class::TestClass`, driven over usb-host: what `test_class_host` checks by rusb.
//!
//! Its sizes are fixed when `usb-device` is compiled, so this runs twice: without and with feature
//! `test-class-high-speed`.

use scenarios::{Bench, Failure, Session, expect_equal};
use usb::ch9::Recipient;
use usb::urb::UrbError;
use usb::{EndpointAddress, SetupPacket, Speed, TransferType};
use usb_device::test_class::{
    CUSTOM_STRING, INTERFACE_STRING, LONG_DATA, MANUFACTURER, PID, PRODUCT, REQ_READ_BUFFER, REQ_READ_LONG_DATA,
    REQ_SET_BENCH_ENABLED, REQ_STORE_REQUEST, REQ_UNKNOWN, REQ_WRITE_BUFFER, SERIAL_NUMBER, TestClass, VID,
};
use usb_host::Device;

use crate::board::{TIMEOUT, bench, expect_bytes, failed, interrupt_out, pattern, run};

const HIGH_SPEED: bool = cfg!(feature = "test-class-high-speed");
const SPEED: Speed = if HIGH_SPEED { Speed::High } else { Speed::Full };
/// Sizes of the class's buffers and packets.
const BUFFER: usize = if HIGH_SPEED { 2048 } else { 256 };
const BULK: usize = if HIGH_SPEED { 512 } else { 64 };
const INTERRUPT: usize = if HIGH_SPEED { 1024 } else { 31 };

/// `bmRequestType` of the class's requests.
const VENDOR_OUT: u8 = 0x40;
const VENDOR_IN: u8 = 0xc0;

fn test_class(pool: &str) -> Bench {
    bench(SPEED, pool, |allocator, _, _| {
        let mut class = TestClass::new(allocator);
        let mut device = class.make_device(allocator);
        Box::new(move || {
            device.poll(&mut [&mut class]);
            class.poll();
        })
    })
}

/// Runs `check` on a device that was reset, as the class's own host does before each of its tests.
fn check(check: impl AsyncFnOnce(&Session, &Device) -> Result<(), Failure>) {
    run(&test_class("linked"), async |session, device| {
        device.reset().await.map_err(|error| Failure::new(error.to_string()))?;
        device.set_configuration(1).await.map_err(failed("SET_CONFIGURATION"))?;
        check(session, &device).await
    });
}

async fn vendor_out(device: &Device, request: u8, value: u16, index: u16, data: &[u8]) -> Result<(), UrbError> {
    let setup = SetupPacket::new(VENDOR_OUT, request, value, index, data.len() as u16);
    device.control_out(setup, data, TIMEOUT).await
}

async fn vendor_in(device: &Device, request: u8, length: u16) -> Result<Vec<u8>, Failure> {
    let setup = SetupPacket::new(VENDOR_IN, request, 0, 0, length);
    device.control_in(setup, TIMEOUT).await.map_err(failed("control read"))
}

#[test]
fn it_enumerates_at_its_speed() {
    check(async |_, device| {
        expect_equal("speed", &device.speed(), &SPEED)?;
        let descriptor = device.descriptor();
        expect_equal("ids", &(descriptor.vendor.get(), descriptor.product.get()), &(VID, PID))?;
        expect_equal("endpoint 0", &descriptor.max_packet_size0, &if HIGH_SPEED { 64 } else { 8 })
    });
}

#[test]
fn control_request() {
    check(async |_, device| {
        for (value, index, length) in [(0, 0, 0), (0xffff, 0xffff, 15), (0x1234, 0xabcd, 8), (1, 2, 1)] {
            let data = pattern(usize::from(value), length);
            vendor_out(device, REQ_STORE_REQUEST, value, index, &data).await.map_err(failed("control write"))?;
            let expected = SetupPacket::new(VENDOR_OUT, REQ_STORE_REQUEST, value, index, length as u16);
            let seen = vendor_in(device, REQ_READ_BUFFER, 8).await?;
            expect_bytes("the request as the class saw it", &seen, &expected.to_bytes())?;
        }
        Ok(())
    });
}

#[test]
fn control_data_both_ways() {
    check(async |_, device| {
        // A stack holds 128 bytes of control data.
        for length in 0..=128 {
            let data = pattern(length, length);
            vendor_out(device, REQ_WRITE_BUFFER, 0, 0, &data).await.map_err(failed("control write"))?;
            let seen = vendor_in(device, REQ_READ_BUFFER, length as u16).await?;
            expect_equal(&format!("{length} bytes of control data"), &seen, &data)?;
        }
        Ok(())
    });
}

#[test]
fn control_data_static() {
    check(async |_, device| {
        for length in [LONG_DATA.len(), 256, 65, 64, 8, 1] {
            let seen = vendor_in(device, REQ_READ_LONG_DATA, length as u16).await?;
            expect_bytes("long data", &seen, &LONG_DATA[..length])?;
        }
        // More than there is: it ends early.
        let seen = vendor_in(device, REQ_READ_LONG_DATA, 1000).await?;
        expect_bytes("long data, more asked for", &seen, LONG_DATA)
    });
}

#[test]
fn control_error() {
    check(async |_, device| {
        for data in [&[][..], &[1, 2, 3]] {
            let refused = vendor_out(device, REQ_UNKNOWN, 0, 0, data).await;
            expect_equal("an unknown request", &refused, &Err(UrbError::Stall))?;
            // The next SETUP ends the stall.
            vendor_out(device, REQ_STORE_REQUEST, 7, 0, &[]).await.map_err(failed("control write"))?;
            vendor_in(device, REQ_READ_BUFFER, 8).await?;
        }
        Ok(())
    });
}

#[test]
fn string_descriptors() {
    check(async |_, device| {
        let descriptor = device.descriptor();
        for (index, expected) in [
            (descriptor.product_index, PRODUCT),
            (descriptor.manufacturer_index, MANUFACTURER),
            (descriptor.serial_index, SERIAL_NUMBER),
            (4, CUSTOM_STRING),
        ] {
            expect_equal("string", &device.string(index).await.as_deref(), &Some(expected))?;
        }
        expect_equal("a string that is not there", &device.string(99).await, &None)
    });
}

#[test]
fn interface_descriptor() {
    check(async |_, device| {
        let interface = device.configurations()[0].interface(0).ok_or_else(|| Failure::new("no interface 0"))?;
        let classes: Vec<_> = interface
            .alternates
            .iter()
            .map(|alternate| {
                (alternate.descriptor.alternate, alternate.descriptor.class, alternate.descriptor.sub_class)
            })
            .collect();
        expect_equal("alternate settings", &classes, &vec![(0, 0xff, 0), (1, 0xff, 1)])?;
        let strings: Vec<_> = interface.alternates.iter().map(|alternate| alternate.descriptor.string_index).collect();
        expect_equal("string of setting 0", &strings[0], &0)?;
        expect_equal("string of setting 1", &device.string(strings[1]).await.as_deref(), &Some(INTERFACE_STRING))
    });
}

#[test]
fn isochronous_endpoint_descriptors() {
    check(async |_, device| {
        let interface = device.configurations()[0].interface(0).ok_or_else(|| Failure::new("no interface 0"))?;
        let isochronous = |number: u8| {
            let alternate = interface.alternate(number).into_iter();
            let endpoints = alternate.flat_map(|alternate| &alternate.endpoints);
            let isochronous =
                endpoints.filter(|endpoint| endpoint.descriptor.transfer_type() == TransferType::Isochronous);
            isochronous.map(|endpoint| (endpoint.address(), endpoint.descriptor.max_packet())).collect::<Vec<_>>()
        };
        // USB 2.0 §5.6.3: none in a default setting.
        expect_equal("isochronous endpoints of setting 0", &isochronous(0), &vec![])?;
        let expected = vec![(EndpointAddress::r#in(3), 500)];
        expect_equal("isochronous endpoints of setting 1", &isochronous(1), &expected)?;
        // The class keeps no alternate setting, and the stack takes only the default one then.
        let setup = |alternate| SetupPacket::new(Recipient::Interface.0, 11, alternate, 0, 0);
        expect_equal("SET_INTERFACE(0)", &device.control_out(setup(0), &[], TIMEOUT).await, &Ok(()))?;
        expect_equal("SET_INTERFACE(1)", &device.control_out(setup(1), &[], TIMEOUT).await, &Err(UrbError::Stall))
    });
}

#[test]
fn bulk_loopback_of_every_length() {
    check(async |_, device| {
        for length in 0..=BUFFER {
            let data = pattern(length, length);
            device.bulk_out(1, data.clone(), TIMEOUT).await.map_err(failed("bulk write"))?;
            if length > 0 && length.is_multiple_of(BULK) {
                device.bulk_out(1, Vec::new(), TIMEOUT).await.map_err(failed("empty bulk write"))?;
            }
            let seen = device.bulk_in(1, length.max(1), TIMEOUT).await.map_err(failed("bulk read"))?;
            expect_equal(&format!("{length} bytes of bulk data"), &seen, &data)?;
        }
        Ok(())
    });
}

#[test]
fn interrupt_loopback_of_every_length() {
    check(async |_, device| {
        for length in 0..=INTERRUPT {
            let data = pattern(length, length);
            interrupt_out(device, 2, data.clone()).await?;
            let seen = device.interrupt_in(2, length.max(1), TIMEOUT).await.map_err(failed("interrupt read"))?;
            expect_equal(&format!("{length} bytes of interrupt data"), &seen, &data)?;
        }
        Ok(())
    });
}

/// Bytes of a transfer of a bench, and transfers.
const BENCH: (usize, usize) = (64 << 10, 16);

#[test]
fn bench_bulk_write() {
    check(async |_, device| {
        vendor_out(device, REQ_SET_BENCH_ENABLED, 1, 0, &[]).await.map_err(failed("bench"))?;
        for n in 0..BENCH.1 {
            device.bulk_out(1, pattern(n, BENCH.0), 10 * TIMEOUT).await.map_err(failed("bulk write"))?;
        }
        Ok(())
    });
}

#[test]
fn bench_bulk_read() {
    check(async |_, device| {
        vendor_out(device, REQ_SET_BENCH_ENABLED, 1, 0, &[]).await.map_err(failed("bench"))?;
        for _ in 0..BENCH.1 {
            let seen = device.bulk_in(1, BENCH.0, 10 * TIMEOUT).await.map_err(failed("bulk read"))?;
            expect_equal("bytes read", &seen.len(), &BENCH.0)?;
        }
        Ok(())
    });
}

#[test]
fn every_sane_pool_will_do() {
    for policy in pool::policy::table().into_iter().filter(|policy| policy.name != "linked-descending") {
        run(&test_class(&policy.name), async |_, device| {
            device.bulk_out(1, pattern(1, 33), TIMEOUT).await.map_err(failed("bulk write"))?;
            let seen = device.bulk_in(1, 64, TIMEOUT).await.map_err(failed("bulk read"))?;
            expect_equal("bulk data", &seen, &pattern(1, 33))
        });
    }
}
