//! What a peripheral refuses, low speed, and isochronous endpoints.

use usb_class_bench::{Bench, BenchBus, Limits, Speed};
use usb_device::bus::{InterfaceNumber, UsbBus, UsbBusAllocator};
use usb_device::class::UsbClass;
use usb_device::descriptor::DescriptorWriter;
use usb_device::endpoint::{
    EndpointIn, EndpointOut, EndpointType, IsochronousSynchronizationType, IsochronousUsageType,
};
use usb_device::prelude::{UsbDeviceBuilder, UsbVidPid};
use usb_device::{UsbDirection, UsbError};

const ISOCHRONOUS: EndpointType = EndpointType::Isochronous {
    synchronization: IsochronousSynchronizationType::Asynchronous,
    usage: IsochronousUsageType::Data,
};

fn allocate(limits: Limits, asks: &[(UsbDirection, Option<u8>, EndpointType, u16)]) -> Vec<Result<u8, UsbError>> {
    let mut bus = Bench::new().limits(limits).bus();
    let address = |&(direction, wanted, kind, size): &(UsbDirection, Option<u8>, EndpointType, u16)| {
        bus.alloc_ep(direction, wanted.map(Into::into), kind, size, 1).map(Into::into)
    };
    asks.iter().map(address).collect()
}

#[test]
fn endpoints_are_given_in_order_or_as_asked_for() {
    use EndpointType::{Bulk, Interrupt};
    use UsbDirection::{In, Out};
    let asks = [
        (In, None, Bulk, 64),
        (In, Some(0x82), Bulk, 64),
        (In, None, Interrupt, 64),
        (Out, None, Bulk, 64),
        (In, Some(0x81), Bulk, 64),
        (In, Some(0x01), Bulk, 64),
        (In, Some(0x8f), Bulk, 64),
        (In, None, Bulk, 65),
        (In, None, ISOCHRONOUS, 1023),
    ];
    let expected = [
        Ok(0x81),
        Ok(0x82),
        Ok(0x83),
        Ok(0x01),
        Err(UsbError::InvalidEndpoint),
        Err(UsbError::InvalidEndpoint),
        Err(UsbError::EndpointOverflow),
        Err(UsbError::EndpointMemoryOverflow),
        Ok(0x84),
    ];
    assert_eq!(allocate(Limits { endpoints_in: 8, ..Limits::full_speed() }, &asks), expected);
}

#[test]
fn one_register_for_both_directions_keeps_their_types_equal() {
    use EndpointType::{Bulk, Interrupt};
    use UsbDirection::{In, Out};
    let asks = [(In, None, Interrupt, 8), (Out, None, Bulk, 64), (In, None, Bulk, 64)];
    let shared = Limits { one_type_per_number: true, ..Limits::full_speed() };
    assert_eq!(allocate(shared, &asks), [Ok(0x81), Ok(0x02), Ok(0x82)]);
    assert_eq!(allocate(Limits::full_speed(), &asks), [Ok(0x81), Ok(0x01), Ok(0x82)]);
}

#[test]
fn a_peripheral_without_isochronous_endpoints_has_none() {
    let none = Limits { max_packet_isochronous: 0, ..Limits::full_speed() };
    assert_eq!(allocate(none, &[(UsbDirection::In, None, ISOCHRONOUS, 0)]), [Err(UsbError::Unsupported)]);
}

/// Sends back the last isochronous packet.
struct Microphone<'a> {
    interface: InterfaceNumber,
    iso_in: EndpointIn<'a, BenchBus>,
    iso_out: EndpointOut<'a, BenchBus>,
}

impl UsbClass<BenchBus> for Microphone<'_> {
    fn get_configuration_descriptors(&self, writer: &mut DescriptorWriter<'_>) -> usb_device::Result<()> {
        writer.interface(self.interface, 0xff, 0, 0)?;
        writer.interface_alt(self.interface, 1, 0xff, 0, 0, None)?;
        writer.endpoint(&self.iso_in)?;
        writer.endpoint(&self.iso_out)
    }

    fn set_alt_setting(&mut self, _: InterfaceNumber, alternate: u8) -> bool {
        alternate < 2
    }

    fn endpoint_out(&mut self, _: usb_device::endpoint::EndpointAddress) {
        let mut packet = [0; 192];
        let length = self.iso_out.read(&mut packet).unwrap();
        self.iso_in.write(&packet[..length]).unwrap();
    }
}

#[test]
fn isochronous_packets_come_without_handshake_and_the_latest_counts() {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Microphone {
        interface: allocator.interface(),
        iso_in: allocator.alloc(None, ISOCHRONOUS, 192, 1).unwrap(),
        iso_out: allocator.alloc(None, ISOCHRONOUS, 192, 1).unwrap(),
    };
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x05dc)).build();
    let run = bench.run(
        || {
            device.poll(&mut [&mut class]);
        },
        async |host| {
            host.device().await?.set_interface(0, 1).await?;
            host.isochronous_out(1, &[1; 100]).await?;
            host.isochronous_out(1, &[2; 192]).await?;
            // Nobody keeps a packet that is too long.
            host.isochronous_out(1, &[3; 193]).await?;
            host.sleep(std::time::Duration::from_millis(1)).await;
            assert_eq!(host.isochronous_in(1).await?, Some(vec![2; 192]));
            assert_eq!(host.isochronous_in(1).await?, Some(Vec::new()));
            let report = host.ch9().await;
            assert!(report.is_clean(), "{report}");
            Ok::<_, usb_class_bench::BenchError>(())
        },
    );
    run.unwrap().unwrap();
    assert_eq!(bench.mistakes(), []);
}

#[test]
fn a_low_speed_peripheral_runs_at_low_speed() {
    let bench =
        Bench::new().limits(Limits { speed: Speed::Low, max_packet0: 8, max_packet: 8, ..Limits::full_speed() });
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x05dc)).build();
    let run = bench.run(
        || {
            device.poll(&mut []);
        },
        async |host| host.device().await.unwrap().speed(),
    );
    assert_eq!(run.unwrap(), Speed::Low);
}
