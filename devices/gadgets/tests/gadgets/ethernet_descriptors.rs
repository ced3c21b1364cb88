//! The Ethernet gadget's descriptors and standard requests.

use crate::host::Host;
use gadgets::ethernet::{EthernetConfig, EthernetGadget};
use usb::ch9::{DescriptorType, string_text};
use usb::gadget::Stall;
use usb::{EndpointAddress, Gadget, SetupPacket, Speed};

/// Read from a running board, configuration value 2, full speed (usb-host notes of the recorded session).
const RECORDED_RNDIS: &str = "09 02 4b 00 02 02 00 c0 00 | 08 0b 00 02 02 06 00 06 | 09 04 00 00 01 02 02 ff 04 | \
    05 24 00 10 01 | 05 24 01 00 01 | 04 24 02 00 | 05 24 06 00 01 | 07 05 82 03 08 00 20 | 09 04 01 00 02 0a 00 00 05 | \
    07 05 81 02 40 00 00 | 07 05 01 02 40 00 00";

/// Read from stock kernels 6.1, 6.12 and 7.3 on a modelled controller, configuration value 1, full speed.
const ECM: &str = "09 02 58 00 02 01 00 c0 00 | 08 0b 00 02 02 06 00 0b | 09 04 00 00 01 02 06 00 08 | 05 24 00 10 01 | \
    05 24 06 00 01 | 0d 24 0f 09 00 00 00 00 ea 05 00 00 00 | 07 05 82 03 10 00 20 | 09 04 01 00 00 0a 00 00 00 | \
    09 04 01 01 02 0a 00 00 0a | 07 05 81 02 40 00 00 | 07 05 01 02 40 00 00";

fn bytes(text: &str) -> Vec<u8> {
    text.split_whitespace().filter(|word| *word != "|").map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect()
}

fn gadget() -> EthernetGadget {
    EthernetGadget::new(EthernetConfig::default())
}

fn read(host: &mut Host<EthernetGadget>, kind: DescriptorType, index: u8) -> Result<Vec<u8>, Stall> {
    let language = if kind == DescriptorType::String && index != 0 { 0x0409 } else { 0 };
    host.control(SetupPacket::get_descriptor(kind, index, language, 255), &[])
}

/// The full speed bytes at high speed: larger bulk packets, and the interval as an exponent.
fn at_high_speed(full: &[u8]) -> Vec<u8> {
    let mut high = full.to_vec();
    let mut at = 0;
    while at < high.len() {
        let length = usize::from(high[at]);
        if high[at + 1] == 5 {
            match high[at + 3] {
                2 => high[at + 4..at + 6].copy_from_slice(&512u16.to_le_bytes()),
                _ => high[at + 6] = 9,
            }
        }
        at += length;
    }
    high
}

#[test]
fn the_rndis_configuration_is_the_recorded_one() {
    let mut host = Host::new(gadget(), Speed::Full);
    let configuration = read(&mut host, DescriptorType::Configuration, 0).unwrap();
    assert_eq!(configuration, bytes(RECORDED_RNDIS));
    assert_eq!(configuration.len(), 75);
}

#[test]
fn the_ecm_configuration_is_linux_s() {
    let mut host = Host::new(gadget(), Speed::Full);
    assert_eq!(read(&mut host, DescriptorType::Configuration, 1).unwrap(), bytes(ECM));
}

#[test]
fn high_speed_changes_packets_and_intervals_only() {
    let mut host = Host::new(gadget(), Speed::High);
    for (index, full) in [(0, RECORDED_RNDIS), (1, ECM)] {
        let full = bytes(full);
        assert_eq!(read(&mut host, DescriptorType::Configuration, index).unwrap(), at_high_speed(&full));
        let mut other = full;
        other[1] = 7;
        assert_eq!(read(&mut host, DescriptorType::OtherSpeedConfiguration, index).unwrap(), other);
    }
    host.reset(Speed::Full);
    let mut other = at_high_speed(&bytes(RECORDED_RNDIS));
    other[1] = 7;
    assert_eq!(read(&mut host, DescriptorType::OtherSpeedConfiguration, 0).unwrap(), other);
}

#[test]
fn the_device_descriptor_is_g_ether_s() {
    let mut host = Host::new(gadget(), Speed::Full);
    let device = bytes("12 01 00 02 02 00 00 40 25 05 a2 a4 02 06 01 02 00 02");
    assert_eq!(read(&mut host, DescriptorType::Device, 0).unwrap(), device);
    // Linux's first read asks for 64 bytes, its old scheme for 8.
    for length in [64, 18, 8, 1, 0] {
        let setup = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, length);
        let expected = &device[..device.len().min(usize::from(length))];
        assert_eq!(host.control(setup, &[]).unwrap(), expected);
    }
    let config = EthernetConfig { bcd_device: 0x0601, ..EthernetConfig::default() };
    let mut host = Host::new(EthernetGadget::new(config), Speed::Full);
    assert_eq!(read(&mut host, DescriptorType::Device, 0).unwrap()[12..14], [0x01, 0x06]);
}

#[test]
fn a_device_qualifier_comes_from_a_controller_that_can_do_high_speed() {
    let mut host = Host::new(gadget(), Speed::Full);
    let qualifier = bytes("0a 06 00 02 02 00 00 40 02 00");
    assert_eq!(read(&mut host, DescriptorType::DeviceQualifier, 0).unwrap(), qualifier);
    host.udc.max_speed = Speed::Full;
    assert_eq!(read(&mut host, DescriptorType::DeviceQualifier, 0), Err(Stall));
    assert_eq!(read(&mut host, DescriptorType::OtherSpeedConfiguration, 0), Err(Stall));
}

#[test]
fn the_strings_are_the_recorded_ones() {
    let mut host = Host::new(gadget(), Speed::Full);
    assert_eq!(read(&mut host, DescriptorType::String, 0).unwrap(), [4, 3, 0x09, 0x04]);
    let expected = [
        "Linux 6.2.0-rc4 with ci_hdrc_msm",
        "RNDIS/Ethernet Gadget",
        "",
        "RNDIS Communications Control",
        "RNDIS Ethernet Data",
        "RNDIS",
        // The end of the RNDIS function's table.
        "",
        "CDC Ethernet Control Model (ECM)",
        "025050000001",
        "CDC Ethernet Data",
        "CDC ECM",
    ];
    for (index, text) in (1..).zip(expected).filter(|(index, _)| *index != 7) {
        assert_eq!(string_text(&read(&mut host, DescriptorType::String, index).unwrap()), text);
    }
    for index in [7, 12] {
        assert_eq!(read(&mut host, DescriptorType::String, index), Err(Stall));
    }
    let german = SetupPacket::get_descriptor(DescriptorType::String, 1, 0x0407, 255);
    assert_eq!(host.control(german, &[]), Err(Stall));
}

#[test]
fn an_answer_of_full_packets_that_is_shorter_than_asked_for_ends_with_an_empty_one() {
    let mut host = Host::new(gadget(), Speed::Full);
    // "Linux 6.2.0-rc with ci_hdrc_msm": 31 UTF-16 units and the header are 64 bytes.
    let config = EthernetConfig { release: "6.2.0-rc".to_owned(), ..EthernetConfig::default() };
    let mut exact = Host::new(EthernetGadget::new(config), Speed::Full);
    let string = |length| SetupPacket::get_descriptor(DescriptorType::String, 1, 0x0409, length);
    let request = exact.queued_answer(string(255)).unwrap();
    assert_eq!((request.data.len(), request.zero), (64, true));
    let request = exact.queued_answer(string(64)).unwrap();
    assert_eq!((request.data.len(), request.zero), (64, false));
    let request = host.queued_answer(string(255)).unwrap();
    assert_eq!((request.data.len(), request.zero), (66, false));
}

#[test]
fn standard_requests_that_make_no_sense_are_refused() {
    let mut host = Host::new(gadget(), Speed::Full);
    let refused = [
        SetupPacket::new(0x80, 6, 0x0202, 0, 9),    // configuration of index 2
        SetupPacket::new(0x80, 6, 0x0f00, 0, 5),    // BOS
        SetupPacket::new(0x80, 6, 0x0400, 0, 9),    // interface
        SetupPacket::new(0x81, 6, 0x0100, 0, 18),   // of an interface
        SetupPacket::new(0x00, 6, 0x0100, 0, 18),   // the wrong way
        SetupPacket::new(0x00, 7, 0x0100, 0, 18),   // SET_DESCRIPTOR
        SetupPacket::new(0x00, 9, 3, 0, 0),         // no such configuration
        SetupPacket::new(0x00, 9, 0x0101, 0, 0),    // its low byte exists
        SetupPacket::new(0x00, 9, 1, 0, 2),         // with data
        SetupPacket::new(0x80, 9, 1, 0, 0),         // the wrong way
        SetupPacket::new(0x01, 11, 0, 0, 0),        // SET_INTERFACE, not configured
        SetupPacket::new(0x81, 10, 0, 0, 1),        // GET_INTERFACE, not configured
        SetupPacket::new(0x81, 0, 0, 0, 2),         // GET_STATUS, not configured
        SetupPacket::new(0x21, 0x43, 0, 0, 0),      // a class request, not configured
        SetupPacket::new(0x00, 0xff, 0, 0, 0xffff), // longer than any buffer
    ];
    for setup in refused {
        assert_eq!(host.control(setup, &[]), Err(Stall), "{setup}");
    }
    host.set_configuration(1).unwrap();
    let refused = [
        SetupPacket::new(0x01, 11, 2, 1, 0),      // no such alternate
        SetupPacket::new(0x01, 11, 1, 0, 0),      // of the control interface
        SetupPacket::new(0x01, 11, 0, 2, 0),      // no such interface
        SetupPacket::new(0x01, 11, 0x0101, 1, 0), // its low byte exists
        SetupPacket::new(0x81, 10, 0, 2, 1),
        SetupPacket::new(0x21, 0x43, 0, 1, 0),  // the data interface has no filter
        SetupPacket::new(0x21, 0x43, 0, 0, 1),  // a filter has no data
        SetupPacket::new(0xa1, 0x01, 0, 0, 64), // RNDIS in ECM
        SetupPacket::new(0xc0, 1, 0, 0, 64),    // a vendor's
        SetupPacket::new(0x82, 12, 0, 0x81, 2), // SYNCH_FRAME
    ];
    for setup in refused {
        assert_eq!(host.control(setup, &[]), Err(Stall), "{setup}");
    }
    assert_eq!(host.gadget.configuration(), 1, "a refused request changes nothing");
}

#[test]
fn configurations_come_and_go_by_value() {
    let mut host = Host::new(gadget(), Speed::Full);
    let (bulk_in, bulk_out, notify) = (EndpointAddress::r#in(1), EndpointAddress::out(1), EndpointAddress::r#in(2));
    let get = SetupPacket::new(0x80, 8, 0, 0, 1);
    let interface = |number| SetupPacket::new(0x81, 10, 0, number, 1);
    assert_eq!(host.control(get, &[]).unwrap(), [0]);

    host.set_configuration(2).unwrap();
    assert_eq!(host.control(get, &[]).unwrap(), [2]);
    assert!(host.udc.self_powered);
    assert_eq!(host.udc.enabled.keys().copied().collect::<Vec<_>>(), [bulk_out, bulk_in, notify]);
    assert_eq!(host.udc.enabled[&notify].max_packet(), 8);
    assert_eq!(host.udc.depth(bulk_out), 2);
    assert_eq!(host.control(interface(1), &[]).unwrap(), [0]);
    assert_eq!(host.set_interface(1, 1), Err(Stall), "RNDIS has no alternate 1");

    host.set_configuration(1).unwrap();
    assert_eq!(host.control(get, &[]).unwrap(), [1]);
    assert_eq!(host.udc.enabled.keys().copied().collect::<Vec<_>>(), [notify]);
    assert_eq!(host.udc.enabled[&notify].max_packet(), 16);
    assert_eq!(host.control(interface(1), &[]).unwrap(), [0]);
    host.set_interface(1, 1).unwrap();
    assert_eq!(host.control(interface(1), &[]).unwrap(), [1]);
    assert_eq!(host.control(interface(0), &[]).unwrap(), [0]);
    assert_eq!(host.udc.enabled[&bulk_in].max_packet(), 64);
    assert_eq!(host.udc.depth(bulk_out), 2);
    assert_eq!(host.udc.queued[&bulk_out][0].data.len(), 1534);
    host.set_interface(1, 0).unwrap();
    assert_eq!(host.udc.enabled.keys().copied().collect::<Vec<_>>(), [notify]);

    host.set_configuration(2).unwrap();
    host.set_configuration(2).unwrap();
    assert_eq!(host.udc.queued[&bulk_out][0].data.len(), 1578, "room for the RNDIS header");
    host.set_configuration(0).unwrap();
    assert_eq!(host.control(get, &[]).unwrap(), [0]);
    assert_eq!(host.udc.enabled.len(), 0);
    assert_eq!(host.udc.violations, [""; 0]);
}

#[test]
fn high_speed_has_deeper_queues() {
    let mut host = Host::new(gadget(), Speed::High);
    host.set_configuration(2).unwrap();
    assert_eq!(host.udc.depth(EndpointAddress::out(1)), 10);
    assert_eq!(host.udc.enabled[&EndpointAddress::out(1)].max_packet(), 512);
}

#[test]
fn an_endpoint_that_the_controller_refuses_leaves_the_gadget_unconfigured() {
    for refuse in [EndpointAddress::out(1), EndpointAddress::r#in(1), EndpointAddress::r#in(2)] {
        let mut host = Host::new(gadget(), Speed::Full);
        host.udc.refuse = Some(refuse);
        assert_eq!(host.set_configuration(2), Err(Stall));
        host.deliver();
        assert_eq!(host.udc.enabled.len(), 0, "{refuse}");
        assert_eq!(host.gadget.configuration(), 0);
        host.udc.refuse = None;
        host.set_configuration(2).unwrap();
    }
}

#[test]
fn a_bus_reset_or_a_pulled_cable_ends_everything_once() {
    for state in 0..5 {
        let mut host = Host::new(gadget(), Speed::High);
        match state {
            0 => {}
            1 => host.set_configuration(2).unwrap(),
            2 => host.set_configuration(1).unwrap(),
            3 => {
                host.set_configuration(1).unwrap();
                host.set_interface(1, 1).unwrap();
            }
            _ => {
                host.set_configuration(2).unwrap();
                host.queued_answer(SetupPacket::new(0x21, 0, 0, 0, 24)).unwrap();
            }
        }
        host.reset(Speed::Full);
        assert_eq!(host.udc.memory(), 0);
        assert_eq!(host.gadget.configuration(), 0);
        host.set_configuration(2).unwrap();
        assert_eq!(host.udc.depth(EndpointAddress::out(1)), 2, "state {state}");
        host.gadget.disconnect(&mut host.udc);
        host.gadget.disconnect(&mut host.udc);
        host.deliver();
        assert_eq!((host.udc.enabled.len(), host.udc.memory()), (0, 0));
        assert_eq!(host.udc.violations, [""; 0]);
    }
}

#[test]
fn what_comes_back_from_an_earlier_configuration_is_over() {
    let (bulk_in, bulk_out) = (EndpointAddress::r#in(1), EndpointAddress::out(1));
    for (value, alternate) in [(2, 0), (1, 1)] {
        let mut host = Host::new(gadget(), Speed::Full);
        for _ in 0..2 {
            host.set_configuration(value).unwrap();
            host.set_interface(1, alternate).unwrap();
            host.hold_back(bulk_out, 60);
            host.set_interface(1, alternate).unwrap();
            host.step();
            assert_eq!((host.udc.depth(bulk_out), host.udc.depth(bulk_in)), (2, 0));
        }
        assert_eq!(host.gadget.statistics().rx_errors, 0);
        assert_eq!(host.udc.violations, [""; 0]);
    }
}

#[test]
fn a_notification_of_an_earlier_configuration_does_not_hold_up_the_next() {
    let mut host = Host::new(gadget(), Speed::Full);
    for _ in 0..3 {
        host.set_configuration(1).unwrap();
        assert_eq!(host.udc.depth(EndpointAddress::r#in(2)), 1);
    }
    assert_eq!(host.receive(2).unwrap()[..2], [0xa1, 0x00]);
    assert_eq!(host.receive(2).unwrap()[..2], [0xa1, 0x2a]);
    assert_eq!(host.receive(2), None);
}
