//! Firmware that does what it should not: the bench says so, and always ends.

use std::cell::RefCell;
use std::time::Duration;

use usb_class_bench::{Bench, BenchBus, BenchError, EndpointAddress, HubError, Mistake, UrbError};
use usb_device::UsbError;
use usb_device::bus::{InterfaceNumber, UsbBusAllocator};
use usb_device::class::UsbClass;
use usb_device::descriptor::DescriptorWriter;
use usb_device::endpoint::{EndpointIn, EndpointOut};
use usb_device::prelude::{UsbDevice, UsbDeviceBuilder, UsbVidPid};

const LONG: Duration = Duration::from_secs(1);

struct Plain<'a> {
    interface: InterfaceNumber,
    bulk_in: EndpointIn<'a, BenchBus>,
    bulk_out: EndpointOut<'a, BenchBus>,
    /// Bytes of class descriptors.
    padding: usize,
    panics: bool,
}

impl<'a> Plain<'a> {
    fn new(allocator: &'a UsbBusAllocator<BenchBus>) -> Self {
        let interface = allocator.interface();
        Self { interface, bulk_in: allocator.bulk(64), bulk_out: allocator.bulk(64), padding: 0, panics: false }
    }
}

impl UsbClass<BenchBus> for Plain<'_> {
    fn get_configuration_descriptors(&self, writer: &mut DescriptorWriter<'_>) -> usb_device::Result<()> {
        assert!(!self.panics, "the class's own panic");
        writer.interface(self.interface, 0xff, 0, 0)?;
        writer.write(0x24, &vec![0; self.padding])?;
        writer.endpoint(&self.bulk_in)?;
        writer.endpoint(&self.bulk_out)
    }
}

fn device(allocator: &UsbBusAllocator<BenchBus>) -> UsbDevice<'_, BenchBus> {
    UsbDeviceBuilder::new(allocator, UsbVidPid(0x16c0, 0x05dc)).build()
}

#[test]
fn without_a_device_nothing_is_attached() {
    let bench = Bench::new();
    assert_eq!(bench.run(|| {}, async |host| host.device().await.unwrap_err()), Ok(BenchError::NotAttached));
}

#[test]
fn firmware_that_never_polls_is_not_enumerated() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let _class = Plain::new(&allocator);
    let _device = device(&allocator);
    let error = bench.run(|| {}, async |host| host.device().await.unwrap_err()).unwrap();
    let BenchError::NotEnumerated { errors, seen } = &error else { panic!("{error}") };
    assert_eq!(errors.len(), 4);
    assert!(seen.log.iter().any(|line| line.text.contains("device descriptor read/64, error -71")), "{error}");
    assert!(error.to_string().contains("Silence"), "{error}");
    // The check says it too, and ends.
    let report = bench.run(|| {}, async |host| host.ch9().await).unwrap();
    assert!(!report.is_clean());
}

#[test]
fn firmware_that_stops_polling_runs_into_the_hosts_timeout() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Plain::new(&allocator);
    let mut device = device(&allocator);
    let polls = RefCell::new(true);
    let run = bench.run(
        || {
            if *polls.borrow() {
                device.poll(&mut [&mut class]);
            }
        },
        async |host| {
            let device = host.device().await.unwrap();
            polls.replace(false);
            let begin = host.now();
            assert_eq!(device.status().await, Err(UrbError::TimedOut));
            assert_eq!(host.now() - begin, Duration::from_secs(5));
        },
    );
    run.unwrap();
}

#[test]
fn a_configuration_beyond_the_stacks_buffer_times_out() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Plain { padding: 100, ..Plain::new(&allocator) };
    let mut device = device(&allocator);
    let error = bench.run(
        || {
            device.poll(&mut [&mut class]);
        },
        async |host| host.device().await.unwrap_err(),
    );
    let error = error.unwrap();
    assert!(error.to_string().contains("unable to read config index 0 descriptor/start: -110"), "{error}");
    assert!(
        matches!(&error, BenchError::NotEnumerated { errors, .. } if errors.contains(&HubError::Urb(UrbError::TimedOut)))
    );
}

#[test]
fn writes_and_reads_of_the_wrong_length_are_mistakes() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let class = RefCell::new(Plain::new(&allocator));
    let mut device = device(&allocator);
    let run = bench.run(
        || {
            device.poll(&mut [&mut *class.borrow_mut()]);
        },
        async |host| {
            let device = host.device().await.unwrap();
            assert_eq!(class.borrow().bulk_in.write(&[0; 65]), Err(UsbError::BufferOverflow));
            device.bulk_out(1, vec![7; 10], LONG).await.unwrap();
            assert_eq!(class.borrow().bulk_out.read(&mut [0; 9]), Err(UsbError::BufferOverflow));
            assert_eq!(class.borrow().bulk_out.read(&mut [0; 10]), Ok(10));
            assert_eq!(class.borrow().bulk_out.read(&mut [0; 10]), Err(UsbError::WouldBlock));
            assert_eq!(class.borrow().bulk_in.write(&[1]), Ok(1));
            assert_eq!(class.borrow().bulk_in.write(&[2]), Err(UsbError::WouldBlock));
            assert_eq!(device.bulk_in(1, 64, LONG).await, Ok(vec![1]));
            host.mistakes()
        },
    );
    let expected = [
        Mistake::WriteTooLong { endpoint: EndpointAddress::r#in(1), len: 65, max_packet: 64 },
        Mistake::ReadTooShort { endpoint: EndpointAddress::out(1), len: 10, room: 9 },
    ];
    assert_eq!(run.unwrap(), expected);
}

#[test]
fn a_class_that_never_reads_gets_one_packet() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Plain::new(&allocator);
    let mut device = device(&allocator);
    let run = bench.run(
        || {
            device.poll(&mut [&mut class]);
        },
        async |host| {
            let device = host.device().await.unwrap();
            assert_eq!(device.bulk_out(1, vec![0; 64], LONG).await.unwrap().len(), 64);
            assert_eq!(device.bulk_out(1, vec![0; 64], LONG).await, Err(UrbError::TimedOut));
            // The rest of the device goes on.
            assert_eq!(device.status().await, Ok(0));
        },
    );
    run.unwrap();
}

#[test]
fn a_halted_endpoint_is_stalled_until_the_host_clears_it() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let class = RefCell::new(Plain::new(&allocator));
    let mut device = device(&allocator);
    let run = bench.run(
        || {
            device.poll(&mut [&mut *class.borrow_mut()]);
        },
        async |host| {
            let device = host.device().await.unwrap();
            class.borrow().bulk_in.write(b"before").unwrap();
            assert_eq!(device.bulk_in(1, 64, LONG).await.unwrap(), b"before");
            class.borrow().bulk_in.stall();
            assert_eq!(device.bulk_in(1, 64, LONG).await, Err(UrbError::Stall));
            device.clear_halt(EndpointAddress::r#in(1)).await.unwrap();
            class.borrow().bulk_in.write(b"after").unwrap();
            assert_eq!(device.bulk_in(1, 64, LONG).await.unwrap(), b"after");
        },
    );
    run.unwrap();
}

#[test]
fn a_panic_is_the_classs_own() {
    let panic = std::panic::catch_unwind(|| {
        let bench = Bench::new();
        let allocator = UsbBusAllocator::new(bench.bus());
        let mut class = Plain { panics: true, ..Plain::new(&allocator) };
        let mut device = device(&allocator);
        bench.run(
            || {
                device.poll(&mut [&mut class]);
            },
            async |host| host.device().await.map(|_| ()),
        )
    });
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"the class's own panic"));
}

#[test]
fn firmware_that_is_always_busy_does_not_stop_time() {
    let bench = Bench::new().patience(Duration::from_secs(2));
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Plain::new(&allocator);
    let mut device = device(&allocator);
    let mut turn = false;
    let run = bench.run(
        || {
            device.poll(&mut [&mut class]);
            turn = !turn;
            if turn { class.bulk_in.stall() } else { class.bulk_in.unstall() }
        },
        async |host| host.device().await.map(|device| device.number()),
    );
    assert_eq!(run.unwrap(), Ok(2));
}

#[test]
fn a_run_that_waits_for_ever_ends() {
    let bench = Bench::new().patience(Duration::from_secs(3));
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Plain::new(&allocator);
    let mut device = device(&allocator);
    let run = bench.run(
        || {
            device.poll(&mut [&mut class]);
        },
        async |_| std::future::pending::<()>().await,
    );
    assert!(matches!(run, Err(BenchError::NoEnd { patience, .. }) if patience == Duration::from_secs(3)));
    assert_eq!(bench.now(), Duration::from_secs(3));
}

#[test]
fn a_bench_runs_more_than_once_and_not_inside_another() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let class = RefCell::new(Plain::new(&allocator));
    let device = RefCell::new(device(&allocator));
    let firmware = || {
        device.borrow_mut().poll(&mut [&mut *class.borrow_mut()]);
    };
    for _ in 0..3 {
        let vendor = bench.run(firmware, async |host| host.device().await.unwrap().descriptor().vendor.get());
        assert_eq!(vendor, Ok(0x16c0));
    }
    let inner = bench.run(firmware, async |_| Bench::new().run(|| {}, async |_| ()));
    assert_eq!(inner, Ok(Err(BenchError::InsideRuntime)));
}

#[test]
fn a_forced_reset_makes_the_host_enumerate_again() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Plain::new(&allocator);
    let device = RefCell::new(device(&allocator));
    let run = bench.run(
        || {
            device.borrow_mut().poll(&mut [&mut class]);
        },
        async |host| {
            let first = host.device().await.unwrap();
            device.borrow_mut().force_reset().unwrap();
            first.disconnected().await;
            let second = host.device().await.unwrap();
            assert_ne!(first.number(), second.number());
        },
    );
    run.unwrap();
}
