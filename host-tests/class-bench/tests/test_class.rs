//! usb-device's own conformance class on the bench: the tests of its host program, with a host in virtual time.

use std::time::Duration;

use usb_class_bench::{Bench, ClassHost, Device, Limits, SetupPacket, Speed, UrbError, every};
use usb_class_bench::{Fault, Token};
use usb_device::bus::UsbBus;
use usb_device::bus::UsbBusAllocator;
use usb_device::class::UsbClass;
use usb_device::prelude::UsbDevice;
use usb_device::test_class::{
    CUSTOM_STRING, INTERFACE_STRING, LONG_DATA, MANUFACTURER, PRODUCT, REQ_READ_BUFFER, REQ_READ_LONG_DATA,
    REQ_SET_BENCH_ENABLED, REQ_STORE_REQUEST, REQ_UNKNOWN, REQ_WRITE_BUFFER, SERIAL_NUMBER, TestClass,
};

const LONG: Duration = Duration::from_secs(1);
const VENDOR_OUT: u8 = 0x40;
const VENDOR_IN: u8 = 0xc0;

fn limits() -> Limits {
    if cfg!(feature = "test-class-high-speed") { Limits::high_speed() } else { Limits::full_speed() }
}

fn drive<B: UsbBus>(device: &mut UsbDevice<'_, B>, class: &mut TestClass<'_, B>) {
    device.poll(&mut [class as &mut dyn UsbClass<B>]);
    class.poll();
}

/// Runs `act` with an enumerated TestClass.
fn with_test_class<T>(bench: &Bench, act: impl AsyncFnOnce(&ClassHost, &Device) -> T) -> T {
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = TestClass::new(&allocator);
    let mut device = class.make_device(&allocator);
    let result = bench.run(
        || drive(&mut device, &mut class),
        async |host| {
            let device = host.device().await.unwrap();
            act(host, &device).await
        },
    );
    assert_eq!(bench.mistakes(), []);
    result.unwrap()
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + len) as u8).collect()
}

#[test]
fn a_request_arrives_as_it_was_sent() {
    with_test_class(&Bench::new().limits(limits()), async |_, device| {
        for len in [0, 1, 7, 8, 15] {
            let setup = SetupPacket::new(VENDOR_OUT, REQ_STORE_REQUEST, 0x1234, 0xabcd, len);
            device.control_out(setup, &data(len.into()), LONG).await.unwrap();
            let read = SetupPacket::new(VENDOR_IN, REQ_READ_BUFFER, 0, 0, 8);
            assert_eq!(device.control_in(read, LONG).await.unwrap(), setup.to_bytes());
        }
    });
}

async fn control_data(device: &Device) {
    for len in [0, 7, 8, 9, 15, 16, 17, 63, 64, 65, 128] {
        let write = SetupPacket::new(VENDOR_OUT, REQ_WRITE_BUFFER, 0, 0, len);
        device.control_out(write, &data(len.into()), LONG).await.unwrap();
        let read = SetupPacket::new(VENDOR_IN, REQ_READ_BUFFER, 0, 0, len);
        assert_eq!(device.control_in(read, LONG).await.unwrap(), data(len.into()), "{len} bytes");
    }
    let read = SetupPacket::new(VENDOR_IN, REQ_READ_LONG_DATA, 0, 0, 257);
    assert_eq!(device.control_in(read, LONG).await.unwrap(), LONG_DATA);
}

#[test]
fn control_data_of_every_length_comes_back() {
    with_test_class(&Bench::new().limits(limits()), async |_, device| control_data(device).await);
}

#[test]
fn an_unknown_request_is_stalled_and_the_next_one_is_served() {
    with_test_class(&Bench::new().limits(limits()), async |_, device| {
        for kind in [VENDOR_OUT, VENDOR_IN] {
            let setup = SetupPacket::new(kind, REQ_UNKNOWN, 0, 0, 0);
            assert_eq!(device.control_out(setup, &[], LONG).await, Err(UrbError::Stall));
        }
        assert_eq!(device.status().await, Ok(0));
    });
}

#[test]
fn strings_and_alternate_settings_are_read() {
    with_test_class(&Bench::new().limits(limits()), async |_, device| {
        let strings = device.strings();
        assert_eq!(strings.product.as_deref(), Some(PRODUCT));
        assert_eq!(strings.manufacturer.as_deref(), Some(MANUFACTURER));
        assert_eq!(strings.serial.as_deref(), Some(SERIAL_NUMBER));
        assert_eq!(device.string(4).await.as_deref(), Some(CUSTOM_STRING));
        let interface = device.configurations()[0].interface(0).unwrap();
        let second = &interface.alternate(1).unwrap();
        assert_eq!(device.string(second.descriptor.string_index).await.as_deref(), Some(INTERFACE_STRING));
        assert!(
            interface.alternate(0).unwrap().endpoints.iter().all(|endpoint| endpoint.descriptor.attributes & 3 != 1)
        );
        assert_eq!(second.endpoints[0].descriptor.attributes & 3, 1);
        assert_eq!(second.endpoints[0].descriptor.max_packet(), 500);
    });
}

#[test]
fn an_isochronous_endpoint_answers_without_data() {
    with_test_class(&Bench::new().limits(limits()), async |host, _| {
        assert_eq!(host.isochronous_in(3).await, Ok(Some(Vec::new())));
        assert_eq!(host.isochronous_in(4).await, Ok(None));
    });
}

async fn bulk_loopback(device: &Device) {
    let max_packet = usize::from(device.active_alternate(0).unwrap().endpoints[0].descriptor.max_packet());
    let mut lengths = vec![0, 1, 2, 32, 63, 64, 65, 127, 128, 129];
    if max_packet == 512 {
        lengths.extend([255, 256, 257, 511, 512, 513, 1023, 1024, 1025]);
    }
    for len in lengths {
        device.bulk_out(1, data(len), LONG).await.unwrap();
        if len > 0 && len % max_packet == 0 {
            device.bulk_out(1, Vec::new(), LONG).await.unwrap();
        }
        assert_eq!(device.bulk_in(1, len.max(1), LONG).await.unwrap(), data(len), "{len} bytes");
    }
}

async fn interrupt_loopback(host: &ClassHost, device: &Device) {
    for len in [0, 1, 2, 15, 31] {
        host.interrupt_out(2, &data(len), LONG).await.unwrap();
        assert_eq!(device.interrupt_in(2, len.max(1), LONG).await.unwrap(), data(len), "{len} bytes");
    }
}

#[test]
fn loopbacks_bring_every_length_back() {
    with_test_class(&Bench::new().limits(limits()), async |host, device| {
        bulk_loopback(device).await;
        interrupt_loopback(host, device).await;
    });
}

#[test]
fn a_mebibyte_goes_each_way() {
    with_test_class(&Bench::new().limits(limits()), async |_, device| {
        device.control_out(SetupPacket::new(VENDOR_OUT, REQ_SET_BENCH_ENABLED, 1, 0, 0), &[], LONG).await.unwrap();
        for _ in 0..16 {
            device.bulk_out(1, data(65536), LONG).await.unwrap();
            assert_eq!(device.bulk_in(1, 65536, LONG).await.unwrap().len(), 65536);
        }
    });
}

#[test]
fn it_runs_at_the_speed_that_both_sides_have() {
    let expected = if cfg!(feature = "test-class-high-speed") { Speed::High } else { Speed::Full };
    with_test_class(&Bench::new().limits(limits()), async |_, device| assert_eq!(device.speed(), expected));
    with_test_class(&Bench::new().limits(limits()).host_speed(Speed::Full), async |_, device| {
        assert_eq!(device.speed(), Speed::Full);
    });
}

#[test]
fn it_takes_its_address_early_too() {
    let bench = Bench::new().limits(limits());
    let allocator = UsbBusAllocator::new(bench.bus_with_early_address());
    let mut class = TestClass::new(&allocator);
    let mut device = class.make_device(&allocator);
    let run = bench.run(
        || drive(&mut device, &mut class),
        async |host| {
            let device = host.device().await?;
            control_data(&device).await;
            host.reset().await
        },
    );
    run.unwrap().unwrap();
}

#[test]
fn a_bad_wire_costs_tries_but_no_data() {
    for fault in [Fault::LostPacket, Fault::LostHandshake, Fault::Repeated] {
        for period in [5, 7, 11] {
            // A device that does not hear the last ACK of its answer is still busy with it: TestClass cannot bear that.
            let mut faults = every(period, fault);
            let bench = Bench::new().limits(limits()).faults(move |transaction| {
                let fault = faults(transaction);
                let spared = transaction.token == Token::In && fault == Fault::LostHandshake;
                if spared { Fault::None } else { fault }
            });
            with_test_class(&bench, async |host, device| {
                bulk_loopback(device).await;
                interrupt_loopback(host, device).await;
                control_data(device).await;
            });
            assert!(bench.trace().iter().any(|line| line.to_string().contains(&format!("{fault:?}"))));
        }
    }
}

#[test]
fn two_runs_leave_one_trace() {
    let run = || {
        let bench = Bench::new().limits(limits()).faults(every(13, Fault::LostPacket));
        with_test_class(&bench, async |host, device| {
            control_data(device).await;
            bulk_loopback(device).await;
            host.reset().await.unwrap();
        });
        bench.trace().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let first = run();
    assert!(first.len() > 300, "{}", first.len());
    assert_eq!(first, run());
}
