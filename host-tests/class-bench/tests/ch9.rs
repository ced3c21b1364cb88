//! The chapter 9 check on sound classes.

use usb_class_bench::ch9::{Outcome, Report};
use usb_class_bench::{Bench, Limits};
use usb_device::bus::UsbBusAllocator;
use usb_device::class::UsbClass;
use usb_device::device::{StringDescriptors, UsbRev};
use usb_device::prelude::{UsbDeviceBuilder, UsbVidPid};
use usb_device::test_class::TestClass;
use usbd_hid::descriptor::{MouseReport, SerializedDescriptor};
use usbd_hid::hid_class::HIDClass;
use usbd_serial::{SerialPort, USB_CLASS_CDC};

fn serial(bench: &Bench, wakeup: bool) -> Report {
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut serial = SerialPort::new(&allocator);
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27dd))
        .strings(&[StringDescriptors::default().manufacturer("Somebody").product("Serial port").serial_number("1")])
        .unwrap()
        .device_class(USB_CLASS_CDC)
        .supports_remote_wakeup(wakeup)
        .build();
    let run = bench.run(
        || {
            device.poll(&mut [&mut serial]);
        },
        async |host| {
            let report = host.ch9().await;
            assert!(host.device().await.unwrap().active_configuration().is_some());
            report
        },
    );
    run.unwrap()
}

#[test]
fn a_serial_port_passes_and_the_deviations_are_told() {
    let report = serial(&Bench::new(), false);
    assert!(report.is_clean(), "{report}");
    assert!(report.checks.len() > 250, "{}", report.checks.len());
    let outcome = |name: &str| report.check(name).unwrap_or_else(|| panic!("no check {name}")).outcome;
    assert_eq!(outcome("default.get_descriptor.device"), Outcome::Passed);
    assert_eq!(outcome("resumed.get_configuration"), Outcome::Passed);
    assert_eq!(outcome("toggle.clear_feature.not_halted.ep1out"), Outcome::Passed);
    assert!(matches!(outcome("toggle.set_configuration"), Outcome::KnownDeviation(_)));
    assert!(matches!(outcome("address.get_status.endpoint"), Outcome::KnownDeviation(_)));
    assert!(matches!(outcome("configured.set_feature.remote_wakeup"), Outcome::KnownDeviation(_)));
    assert!(matches!(outcome("configured.set_descriptor"), Outcome::Refused(_)));
    assert!(matches!(outcome("configured.remote_wakeup.status"), Outcome::Skipped(_)));
    let mut names: Vec<_> = report.checks.iter().map(|check| &check.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "names are unique");
    assert!(report.checks.iter().all(|check| check.citation.starts_with("USB ")));
}

#[test]
fn a_device_that_wakes_its_host_passes() {
    let report = serial(&Bench::new(), true);
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.check("configured.remote_wakeup.status").unwrap().outcome, Outcome::Passed);
    assert_eq!(report.check("configured.set_feature.remote_wakeup").unwrap().outcome, Outcome::Passed);
}

#[test]
fn a_mouse_passes() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut mouse = HIDClass::new(&allocator, MouseReport::desc(), 10);
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27da)).usb_rev(UsbRev::Usb200).build();
    let run = bench.run(
        || {
            device.poll(&mut [&mut mouse]);
            let _ = mouse.push_input(&MouseReport { buttons: 0, x: 5, y: -3, wheel: 0, pan: 0 });
        },
        async |host| host.ch9().await,
    );
    let report = run.unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.check("toggle.clear_feature.halted.ep1in").unwrap().outcome, Outcome::Passed);
}

#[test]
fn test_class_passes_at_either_time_for_its_address() {
    let limits = if cfg!(feature = "test-class-high-speed") { Limits::high_speed() } else { Limits::full_speed() };
    let bench = Bench::new().limits(limits.clone());
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = TestClass::new(&allocator);
    let mut device = class.make_device(&allocator);
    let run = bench.ch9(|| {
        device.poll(&mut [&mut class as &mut dyn UsbClass<_>]);
        class.poll();
    });
    let report = run.unwrap();
    assert!(report.is_clean(), "{report}");

    let bench = Bench::new().limits(limits);
    let allocator = UsbBusAllocator::new(bench.bus_with_early_address());
    let mut class = TestClass::new(&allocator);
    let mut device = class.make_device(&allocator);
    let run = bench.ch9(|| {
        device.poll(&mut [&mut class as &mut dyn UsbClass<_>]);
        class.poll();
    });
    let early = run.unwrap();
    assert_eq!(early, report);
}

#[test]
fn two_checks_are_equal_and_go_to_junit() {
    let report = serial(&Bench::new(), false);
    assert_eq!(report, serial(&Bench::new(), false));
    let xml = report.junit("usbd-serial");
    assert_eq!(xml, serial(&Bench::new(), false).junit("usbd-serial"));
    assert!(xml.contains(&format!("tests=\"{}\"", report.checks.len())), "{xml}");
    assert!(xml.contains("failures=\"0\""));
    assert!(xml.contains("known deviation"));
    assert!(xml.contains("USB 2.0 §9.4.5"));
    // `{:#}` shows all.
    assert_eq!(format!("{report:#}").lines().count(), report.checks.len() + 1);
}

/// Names of the deviations without their state.
fn deviations(report: &Report) -> Vec<String> {
    let states = ["default.", "address.", "configured.", "resumed."];
    let short = |name: &str| states.iter().find_map(|state| name.strip_prefix(state)).unwrap_or(name).to_owned();
    let mut names: Vec<String> = report.deviations().map(|check| short(&check.name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn the_deviations_are_these() {
    let mut expected = vec![
        "clear_feature.halt.endpoint",
        "clear_feature.halt.no_endpoint",
        "clear_feature.remote_wakeup",
        "endpoints_silent",
        "get_descriptor.configuration.no_such",
        "get_interface",
        "get_interface.no_interface",
        "get_status.endpoint",
        "get_status.interface",
        "get_status.no_endpoint",
        "get_status.no_interface",
        "halt.set_configuration",
        "set_address.zero",
        "set_feature.halt.endpoint",
        "set_feature.halt.no_endpoint",
        "set_feature.remote_wakeup",
        "set_interface.default",
        "set_interface.no_interface",
        "toggle.set_configuration",
        "toggle.set_interface",
    ];
    assert_eq!(deviations(&serial(&Bench::new(), false)), expected);

    // At high speed there are these too.
    let bench = Bench::new().limits(Limits::high_speed());
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut port = usbd_serial::CdcAcmClass::new(&allocator, 512);
    let builder = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27dd)).device_class(USB_CLASS_CDC);
    let mut device = builder.max_packet_size_0(64).unwrap().build();
    let run = bench.ch9(|| {
        device.poll(&mut [&mut port]);
    });
    let report = run.unwrap();
    // usbd-serial gives its notifications an interval of 255, which high speed does not have (§9.6.6).
    let failures: Vec<_> = report.failures().map(|check| check.name.as_str()).collect();
    assert_eq!(failures, ["descriptors.endpoint.interval"], "{report}");
    expected.extend(["get_descriptor.other_speed", "get_descriptor.qualifier", "set_feature.test_mode"]);
    expected.sort_unstable();
    assert_eq!(deviations(&report), expected);
}
