//! usbd-hid on the bench.

use std::time::Duration;

use usb_class_bench::{Bench, DescriptorType, SetupPacket};
use usb_device::bus::UsbBusAllocator;
use usb_device::prelude::{UsbDeviceBuilder, UsbVidPid};
use usbd_hid::descriptor::{MouseReport, SerializedDescriptor};
use usbd_hid::hid_class::HIDClass;

const LONG: Duration = Duration::from_secs(1);

#[test]
fn a_mouse_moves() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut mouse = HIDClass::new(&allocator, MouseReport::desc(), 10);
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27da)).build();
    bench
        .run(
            || {
                device.poll(&mut [&mut mouse]);
                let report = MouseReport { buttons: 0, x: 5, y: -3, wheel: 0, pan: 0 };
                let _ = mouse.push_input(&report);
            },
            async |host| {
                let device = host.device().await?;
                let interface = &device.active_configuration().unwrap().interfaces[0].alternates[0];
                assert_eq!(interface.descriptor.class, 3);
                let report = SetupPacket::new(0x81, 6, 0x2200, 0, 512);
                assert_eq!(device.control_in(report, LONG).await?, MouseReport::desc());
                let endpoint = interface.endpoints[0].address();
                for _ in 0..3 {
                    assert_eq!(device.interrupt_in(endpoint.number, 64, LONG).await?, [0, 5, 0xfd, 0, 0]);
                }
                assert_eq!(host.descriptor(DescriptorType::Device, 0, 18).await?.len(), 18);
                Ok::<_, usb_class_bench::BenchError>(())
            },
        )
        .unwrap()
        .unwrap();
    assert_eq!(bench.mistakes(), []);
}
