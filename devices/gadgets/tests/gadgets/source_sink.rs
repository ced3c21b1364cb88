//! Gadget Zero.

use gadgets::source_sink::{Pattern, SourceSinkConfig, SourceSinkGadget, Transferred};
use usb::ch9::DescriptorType;
use usb::gadget::{Completion, RequestError, Stall};
use usb::{EndpointAddress, SetupPacket, Speed};

use crate::host::Host;

const OUT: EndpointAddress = EndpointAddress::out(1);
const IN: EndpointAddress = EndpointAddress::r#in(1);

fn gadget(pattern: Pattern, speed: Speed) -> Host<SourceSinkGadget> {
    let config = SourceSinkConfig { pattern, buflen: 1000, qlen: 3, ..SourceSinkConfig::default() };
    let mut host = Host::new(SourceSinkGadget::new(config), speed);
    host.set_configuration(3).unwrap();
    host
}

#[test]
fn it_looks_like_gadget_zero_s_source_and_sink() {
    let mut host = Host::new(SourceSinkGadget::new(SourceSinkConfig::default()), Speed::Full);
    let device = host.control(SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 18), &[]).unwrap();
    assert_eq!(device, [18, 1, 0, 2, 0xff, 0, 0, 64, 0x25, 0x05, 0xa0, 0xa4, 2, 6, 1, 2, 3, 1]);
    let configuration = SetupPacket::get_descriptor(DescriptorType::Configuration, 0, 0, 255);
    let header = [9, 2, 32, 0, 1, 3, 4, 0xc0, 0, 9, 4, 0, 0, 2, 0xff, 0, 0, 0];
    let full = [7, 5, 0x01, 2, 64, 0, 0, 7, 5, 0x81, 2, 64, 0, 0];
    assert_eq!(host.control(configuration, &[]).unwrap(), [&header[..], &full].concat());
    host.reset(Speed::High);
    let high = [7, 5, 0x81, 2, 0, 2, 0, 7, 5, 0x01, 2, 0, 2, 0];
    assert_eq!(host.control(configuration, &[]).unwrap(), [&header[..], &high].concat());
}

#[test]
fn the_queues_stay_full() {
    let mut host = gadget(Pattern::Zeros, Speed::High);
    for _ in 0..10 {
        assert_eq!(host.receive(1).unwrap(), [0; 1024], "the request is rounded up to packets");
        assert!(host.send(1, &[0; 1024]));
        assert_eq!((host.udc.depth(IN), host.udc.depth(OUT)), (3, 3));
    }
    let expected = Transferred { sourced: 10240, sunk: 10240, ..Transferred::default() };
    assert_eq!(host.gadget.transferred(), expected);
    host.set_configuration(3).unwrap();
    assert_eq!((host.udc.depth(IN), host.udc.depth(OUT)), (3, 3));
    host.set_configuration(0).unwrap();
    assert_eq!(host.udc.memory(), 0);
    assert_eq!(host.udc.violations, [""; 0]);
}

#[test]
fn the_pattern_is_checked() {
    let mut host = gadget(Pattern::Mod63, Speed::Full);
    let data = host.receive(1).unwrap();
    assert_eq!(data.len(), 1024);
    assert_eq!((data[62], data[63], data[64], data[127]), (62, 0, 0, 0));
    assert!(host.send(1, &data[..700]));
    assert_eq!(host.gadget.transferred().mismatches, 0);
    assert!(host.send(1, &data[1..]));
    assert_eq!(host.gadget.transferred().mismatches, 1);
    let mut host = gadget(Pattern::Unchecked, Speed::Full);
    assert!(host.send(1, &data));
    assert_eq!(host.gadget.transferred().mismatches, 0);
}

#[test]
fn a_failed_request_is_queued_in_the_next_step_only() {
    let mut host = gadget(Pattern::Zeros, Speed::Full);
    let request = host.udc.queued.get_mut(&OUT).unwrap().pop_front().unwrap();
    host.udc.back.push_back(Completion { endpoint: OUT, request, status: Err(RequestError::Halted) });
    host.deliver();
    assert_eq!(host.udc.depth(OUT), 2);
    host.step();
    assert_eq!(host.udc.depth(OUT), 3);
    assert_eq!(host.gadget.transferred().errors, 1);
}

#[test]
fn the_control_buffer_gives_back_what_it_got() {
    let mut host = gadget(Pattern::Zeros, Speed::Full);
    let write = |length| SetupPacket::new(0x40, 0x5b, 0, 0, length);
    let read = |length| SetupPacket::new(0xc0, 0x5c, 0, 0, length);
    host.control(write(5), b"hello").unwrap();
    assert_eq!(host.control(read(3), &[]).unwrap(), b"hel");
    assert_eq!(host.control(read(7), &[]).unwrap(), b"hello\0\0");
    assert_eq!(host.control(SetupPacket::new(0xc0, 0x5c, 1, 0, 3), &[]), Err(Stall));
    assert_eq!(host.control(SetupPacket::new(0xc0, 0x5b, 0, 0, 3), &[]), Err(Stall));
    assert_eq!(host.control(SetupPacket::new(0x40, 0x5b, 0, 0, 4097), &[]), Err(Stall));
}

#[test]
fn what_comes_back_from_an_earlier_configuration_is_over() {
    let mut host = gadget(Pattern::Zeros, Speed::Full);
    host.hold_back(OUT, 1024);
    host.hold_back(IN, 1024);
    host.set_configuration(3).unwrap();
    host.step();
    assert_eq!((host.udc.depth(OUT), host.udc.depth(IN)), (3, 3));
    assert_eq!(host.gadget.transferred(), Transferred::default());
}
