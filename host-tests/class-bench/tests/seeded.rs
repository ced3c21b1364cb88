//! Defects that were put into a class: each is caught by the check that is there for it.

use std::time::Duration;

use usb_class_bench::ch9::{Outcome, Report};
use usb_class_bench::{Bench, BenchBus};
use usb_device::LangID;
use usb_device::bus::{InterfaceNumber, StringIndex, UsbBusAllocator};
use usb_device::class::{ControlIn, ControlOut, UsbClass};
use usb_device::control::{Recipient, Request, RequestType};
use usb_device::descriptor::DescriptorWriter;
use usb_device::device::{StringDescriptors, UsbDeviceState};
use usb_device::endpoint::{EndpointIn, EndpointOut};
use usb_device::prelude::{UsbDeviceBuilder, UsbVidPid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// Accepts CLEAR_FEATURE(ENDPOINT_HALT) and forgets to do it.
    ClearsNoHalt,
    /// Accepts CLEAR_FEATURE(ENDPOINT_HALT) without work when nothing is halted: the toggle stays.
    ClearsHaltedOnly,
    /// Accepts SET_FEATURE(ENDPOINT_HALT) and does not halt.
    SetsNoHalt,
    /// Always says that it is configured.
    AlwaysConfigured,
    /// Says that it wants to wake the host.
    StatusForever,
    /// Serves a request that there is not.
    ServesTheUndefined,
    /// Takes every configuration.
    TakesEveryConfiguration,
    /// Takes every alternate setting.
    TakesEverySetting,
    /// Serves GET_DESCRIPTOR(INTERFACE).
    ServesInterfaceDescriptor,
    /// Pads the device descriptor.
    LongDeviceDescriptor,
    /// Takes a rest in the middle of a long answer.
    Slow,
    /// Describes an endpoint that was never allocated.
    InventedEndpoint,
    /// Describes another packet size than was allocated.
    OtherMaxPacket,
    /// Describes its endpoint twice.
    SameEndpointTwice,
    /// Begins its interfaces at 1.
    InterfaceOne,
    /// Has an alternate setting 2 and no 1.
    GapInSettings,
    /// Names a string that it does not have.
    MissingString,
    /// Describes other things once it is configured.
    Changes,
    /// A polling interval of 0.
    NoInterval,
    /// Signals resume without permission.
    WakesAtOnce,
}

/// A loopback class with a defect.
struct Seeded<'a> {
    defect: Defect,
    interface: InterfaceNumber,
    name: StringIndex,
    bulk_in: EndpointIn<'a, BenchBus>,
    bulk_out: EndpointOut<'a, BenchBus>,
    notify: EndpointIn<'a, BenchBus>,
    configured: bool,
    resting: bool,
    /// The endpoints that the host halted.
    halted: Vec<u16>,
}

impl<'a> Seeded<'a> {
    fn new(allocator: &'a UsbBusAllocator<BenchBus>, defect: Defect) -> Self {
        if defect == Defect::InterfaceOne {
            allocator.interface();
        }
        Self {
            defect,
            interface: allocator.interface(),
            name: allocator.string(),
            bulk_in: allocator.bulk(64),
            bulk_out: allocator.bulk(64),
            notify: allocator.interrupt(8, if defect == Defect::NoInterval { 0 } else { 10 }),
            configured: false,
            resting: false,
            halted: Vec::new(),
        }
    }
}

impl UsbClass<BenchBus> for Seeded<'_> {
    fn get_configuration_descriptors(&self, writer: &mut DescriptorWriter<'_>) -> usb_device::Result<()> {
        writer.interface_alt(self.interface, 0, 0xff, 0, 0, Some(self.name))?;
        writer.endpoint(&self.bulk_in)?;
        writer.endpoint(&self.bulk_out)?;
        writer.endpoint(&self.notify)?;
        match self.defect {
            Defect::InventedEndpoint => writer.write(5, &[0x8e, 2, 64, 0, 0])?,
            Defect::OtherMaxPacket => writer.write(5, &[0x02, 2, 32, 0, 0])?,
            Defect::SameEndpointTwice => writer.endpoint(&self.bulk_in)?,
            Defect::GapInSettings => writer.interface_alt(self.interface, 2, 0xff, 0, 0, None)?,
            Defect::Changes if self.configured => writer.write(0x24, &[1])?,
            _ => {}
        }
        Ok(())
    }

    fn get_string(&self, index: StringIndex, _: LangID) -> Option<&str> {
        (index == self.name && self.defect != Defect::MissingString).then_some("Loopback")
    }

    fn set_alt_setting(&mut self, _: InterfaceNumber, _: u8) -> bool {
        self.defect == Defect::TakesEverySetting
    }

    fn control_in(&mut self, xfer: ControlIn<'_, '_, '_, BenchBus>) {
        let request = *xfer.request();
        if request.request_type != RequestType::Standard {
            return;
        }
        let answer: &[u8] = match (self.defect, request.recipient, request.request) {
            (Defect::AlwaysConfigured, Recipient::Device, Request::GET_CONFIGURATION) => &[1],
            (Defect::StatusForever, Recipient::Device, Request::GET_STATUS) => &[2, 0],
            (Defect::ServesTheUndefined, _, 13) => &[0, 0],
            (Defect::ServesInterfaceDescriptor, _, Request::GET_DESCRIPTOR) if request.value == 0x0400 => &[9, 4],
            (Defect::LongDeviceDescriptor, _, Request::GET_DESCRIPTOR) if request.value == 0x0100 => {
                &[19, 1, 0, 2, 0xff, 0, 0, 8, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0]
            }
            (Defect::Slow, _, Request::GET_DESCRIPTOR) if self.configured && request.length == 4096 => {
                self.resting = true;
                return;
            }
            _ => return,
        };
        xfer.accept_with(answer).unwrap();
    }

    fn control_out(&mut self, xfer: ControlOut<'_, '_, '_, BenchBus>) {
        let request = *xfer.request();
        if request.request_type != RequestType::Standard {
            return;
        }
        if request.request == Request::SET_CONFIGURATION {
            self.configured = request.value != 0;
        }
        if request.recipient == Recipient::Endpoint && request.request == Request::SET_FEATURE {
            self.halted.push(request.index);
        }
        let served = match (self.defect, request.recipient, request.request) {
            (Defect::ClearsNoHalt, Recipient::Endpoint, Request::CLEAR_FEATURE) => true,
            (Defect::ClearsHaltedOnly, Recipient::Endpoint, Request::CLEAR_FEATURE) => {
                let halted = self.halted.contains(&request.index);
                self.halted.retain(|&endpoint| endpoint != request.index);
                !halted
            }
            (Defect::SetsNoHalt, Recipient::Endpoint, Request::SET_FEATURE) => true,
            (Defect::TakesEveryConfiguration, Recipient::Device, Request::SET_CONFIGURATION) => request.value > 1,
            _ => false,
        };
        if served {
            xfer.accept().unwrap();
        }
    }

    fn reset(&mut self) {
        self.configured = false;
        self.halted.clear();
    }
}

fn check(defect: Defect) -> Report {
    let bench = Bench::new();
    let allocator = UsbBusAllocator::new(bench.bus());
    let mut class = Seeded::new(&allocator, defect);
    let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x05dc))
        .strings(&[StringDescriptors::default().product("Loopback")])
        .unwrap()
        .device_class(0xff)
        .build();
    let mut rest = Duration::ZERO;
    let run = bench.run(
        || {
            if std::mem::take(&mut class.resting) {
                rest = bench.now() + Duration::from_millis(600);
            }
            if bench.now() < rest {
                return;
            }
            if device.poll(&mut [&mut class]) {
                let mut packet = [0; 64];
                if let Ok(length) = class.bulk_out.read(&mut packet) {
                    let _ = class.bulk_in.write(&packet[..length]);
                }
            }
            if defect == Defect::WakesAtOnce && device.state() == UsbDeviceState::Suspend {
                device.bus().remote_wakeup().unwrap();
            }
        },
        async |host| host.ch9().await,
    );
    run.unwrap()
}

#[test]
fn the_class_is_sound_without_a_defect() {
    let report = check(Defect::None);
    assert!(report.is_clean(), "{report}");
}

#[test]
fn every_defect_is_caught_by_its_check() {
    for (defect, name) in [
        (Defect::ClearsNoHalt, "halt.ep1in"),
        (Defect::ClearsNoHalt, "halt.ep1out"),
        (Defect::ClearsHaltedOnly, "toggle.clear_feature.not_halted.ep1out"),
        (Defect::SetsNoHalt, "halt.ep2in"),
        (Defect::AlwaysConfigured, "address.get_configuration"),
        (Defect::AlwaysConfigured, "configured.reset"),
        (Defect::AlwaysConfigured, "configured.set_configuration.follows"),
        (Defect::StatusForever, "configured.reset"),
        (Defect::ServesTheUndefined, "configured.undefined.request_13"),
        (Defect::TakesEveryConfiguration, "address.set_configuration.no_such"),
        (Defect::TakesEverySetting, "configured.set_interface.no_setting"),
        (Defect::ServesInterfaceDescriptor, "default.get_descriptor.interface"),
        (Defect::LongDeviceDescriptor, "descriptors.device"),
        (Defect::Slow, "configured.get_descriptor.configuration.long"),
        (Defect::InventedEndpoint, "descriptors.endpoint.allocated"),
        (Defect::InventedEndpoint, "descriptors.interface.endpoints"),
        (Defect::OtherMaxPacket, "descriptors.endpoint.allocated"),
        (Defect::SameEndpointTwice, "descriptors.endpoint.addresses"),
        (Defect::InterfaceOne, "descriptors.interface.numbers"),
        (Defect::GapInSettings, "descriptors.interface.alternates"),
        (Defect::MissingString, "descriptors.strings"),
        (Defect::Changes, "descriptors.stable"),
        (Defect::NoInterval, "descriptors.endpoint.interval"),
        (Defect::WakesAtOnce, "suspended.no_wakeup_unless_enabled"),
    ] {
        let report = check(defect);
        let found = report.check(name).unwrap_or_else(|| panic!("no check {name} in\n{report:#}"));
        assert_eq!(found.outcome, Outcome::Failed, "{defect:?}: {found}");
        assert!(!report.is_clean());
        assert!(report.to_string().contains("FAILED"));
        assert!(!found.packets.is_empty() && found.to_string().contains(&found.packets[0].to_string()));
        assert!(report.junit("seeded").contains("<failure"));
    }
}
