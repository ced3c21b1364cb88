//! usbd-serial on the bench.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use usb_class_bench::{Bench, BenchBus, ClassHost, Fault, Limits, SetupPacket, UrbError, every};
use usb_device::bus::UsbBusAllocator;
use usb_device::prelude::{UsbDevice, UsbDeviceBuilder, UsbDeviceState, UsbVidPid};
use usbd_serial::{SerialPort, USB_CLASS_CDC};

const LONG: Duration = Duration::from_secs(1);

/// Sends back what comes.
fn echo(device: &mut UsbDevice<'_, BenchBus>, serial: &mut SerialPort<'_, BenchBus>) {
    if device.poll(&mut [serial]) {
        let mut buffer = [0; 64];
        if let Ok(count) = serial.read(&mut buffer) {
            assert_eq!(serial.write(&buffer[..count]), Ok(count));
        }
    }
    let _ = serial.flush();
}

fn builder(allocator: &UsbBusAllocator<BenchBus>) -> UsbDeviceBuilder<'_, BenchBus> {
    UsbDeviceBuilder::new(allocator, UsbVidPid(0x16c0, 0x27dd)).device_class(USB_CLASS_CDC)
}

#[test]
fn a_line_comes_back() {
    lines_come_back(Bench::new());
}

#[test]
fn a_line_comes_back_over_a_bad_wire() {
    for fault in [Fault::LostPacket, Fault::LostHandshake, Fault::Repeated] {
        for period in [3, 4, 5] {
            let mut faults = every(period, fault);
            let to_bulk = move |transaction: usb_class_bench::Transaction| {
                let fault = faults(transaction);
                if transaction.target.endpoint == 0 { Fault::None } else { fault }
            };
            lines_come_back(Bench::new().faults(to_bulk));
        }
    }
}

fn lines_come_back(bench: Bench) {
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut serial = SerialPort::new(&allocator);
    let mut device = builder(&allocator).build();
    let baud = Cell::new(0);
    bench
        .run(
            || {
                echo(&mut device, &mut serial);
                baud.set(serial.line_coding().data_rate());
            },
            async |host| {
                let device = host.device().await?;
                let coding = [0x00, 0xc2, 0x01, 0x00, 0, 0, 8];
                device.control_out(SetupPacket::new(0x21, 0x20, 0, 0, 7), &coding, LONG).await?;
                assert_eq!(baud.get(), 115_200);
                for len in [1, 63, 65, 100] {
                    let line = vec![b'x'; len];
                    device.bulk_out(1, line.clone(), LONG).await?;
                    let mut back = Vec::new();
                    while back.len() < len {
                        back.extend(device.bulk_in(2, 64, LONG).await?);
                    }
                    assert_eq!(back, line);
                }
                Ok::<_, usb_class_bench::BenchError>(())
            },
        )
        .unwrap()
        .unwrap();
    assert_eq!(bench.mistakes(), []);
}

/// Reads a packet each time it is polled.
fn counted(act: impl AsyncFnOnce(&ClassHost, &Cell<usize>)) -> usize {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    // A buffer of a packet: what is not read blocks the endpoint.
    let mut serial = SerialPort::new_with_store(&allocator, [0_u8; 64], [0_u8; 64]);
    let mut device = builder(&allocator).build();
    let sum = Cell::new(0);
    let firmware = || {
        if device.poll(&mut [&mut serial]) {
            let mut buffer = [0; 64];
            sum.set(sum.get() + serial.read(&mut buffer).unwrap_or(0));
        }
    };
    bench.run(firmware, async |host| act(host, &sum).await).unwrap();
    assert_eq!(bench.mistakes(), []);
    sum.get()
}

#[test]
fn every_packet_that_was_taken_reaches_the_class_before_the_host_goes_on() {
    let sum = counted(async |host, sum| {
        let device = host.device().await.unwrap();
        for count in 1..=50 {
            device.bulk_out(1, vec![1; 64], LONG).await.unwrap();
            assert_eq!(sum.get(), count * 64);
        }
    });
    assert_eq!(sum, 3200);
}

#[test]
fn the_last_packet_before_a_reset_reaches_the_class() {
    let check = async |host: &ClassHost| drop(host.ch9().await);
    let reset = async |host: &ClassHost| host.reset().await.unwrap();
    let unplug = async |host: &ClassHost| host.unplug().await;
    let then = async |sum: &Cell<usize>, host: &ClassHost, what: usize| {
        host.device().await.unwrap().bulk_out(1, vec![1; 64], LONG).await.unwrap();
        match what {
            0 => check(host).await,
            1 => reset(host).await,
            _ => unplug(host).await,
        }
        assert_eq!(sum.get(), 64);
    };
    for what in 0..3 {
        assert_eq!(counted(async |host, sum| then(sum, host, what).await), 64);
    }
}

#[test]
fn it_is_suspended_resumed_reset_and_replugged() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut serial = SerialPort::new(&allocator);
    let mut device = builder(&allocator).build();
    let state = Cell::new(UsbDeviceState::Default);
    bench
        .run(
            || {
                echo(&mut device, &mut serial);
                state.set(device.state());
            },
            async |host| {
                host.device().await.unwrap();
                assert_eq!(state.get(), UsbDeviceState::Configured);
                host.suspend().await.unwrap();
                assert!(host.is_suspended());
                assert_eq!(state.get(), UsbDeviceState::Suspend);
                host.resume().await.unwrap();
                assert_eq!(state.get(), UsbDeviceState::Configured);
                host.reset().await.unwrap();
                assert_eq!(state.get(), UsbDeviceState::Configured);
                host.unplug().await;
                host.plug();
                let device = host.device().await.unwrap();
                device.bulk_out(1, b"hello".to_vec(), LONG).await.unwrap();
                assert_eq!(device.bulk_in(2, 64, LONG).await.unwrap(), b"hello");
                // It has no more to say.
                assert_eq!(device.bulk_in(2, 64, LONG).await, Err(UrbError::TimedOut));
            },
        )
        .unwrap();
}

#[test]
fn a_device_wakes_its_host_if_it_may() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut serial = SerialPort::new(&allocator);
    let device = RefCell::new(builder(&allocator).supports_remote_wakeup(true).build());
    bench
        .run(
            || echo(&mut device.borrow_mut(), &mut serial),
            async |host| {
                host.device().await.unwrap();
                assert!(device.borrow().bus().remote_wakeup().is_err(), "the bus is awake");
                host.suspend().await.unwrap();
                assert!(device.borrow().remote_wakeup_enabled());
                device.borrow().bus().remote_wakeup().unwrap();
                host.sleep(LONG).await;
                assert!(!host.is_suspended());
                assert_eq!(device.borrow().state(), UsbDeviceState::Configured);
            },
        )
        .unwrap();
    assert_eq!(bench.mistakes(), [usb_class_bench::Mistake::WakeupAwake]);
}

#[test]
fn the_microcontrollers_limits_are_kept() {
    // 64 bytes in and out, 8 for notifications, 2 × 8 for endpoint 0.
    let needed = 64 + 64 + 8 + 2 * 8;
    let build = |limits| {
        let bench = Bench::new().limits(limits);
        let allocator = UsbBusAllocator::new(bench.bus());
        let _serial = SerialPort::new(&allocator);
        let _device = builder(&allocator).build();
    };
    let fits = Limits { packet_memory: Some(needed), endpoints_in: 3, endpoints_out: 3, ..Limits::full_speed() };
    build(fits.clone());
    for tight in [
        Limits { packet_memory: Some(needed - 1), ..fits.clone() },
        Limits { endpoints_in: 2, ..fits.clone() },
        Limits { endpoints_out: 1, ..fits.clone() },
        Limits { max_packet: 32, ..fits.clone() },
        Limits { max_packet0: 4, ..fits },
    ] {
        let panic = std::panic::catch_unwind(|| build(tight.clone())).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("Overflow"), "{tight:?}: {text}");
    }
}
