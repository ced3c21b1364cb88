//! Nothing that a host sends makes a gadget panic, grow without bound or break its promises to the controller.

use gadgets::ethernet::{EthernetConfig, EthernetGadget};
use gadgets::fastboot::{FastbootConfig, FastbootGadget};
use gadgets::source_sink::{SourceSinkConfig, SourceSinkGadget};
use proptest::collection::vec;
use proptest::prelude::*;
use usb::{Gadget, SetupPacket, Speed};

use crate::host::Host;
use crate::network_host::rndis_message;

/// What a host may do.
#[derive(Clone, Debug)]
enum Action {
    Control([u8; 8], Vec<u8>),
    Configure(u16),
    Alternate(u16, u16),
    Send(Vec<u8>),
    Receive(u8),
    Reset(bool),
    Disconnect,
    Exhaust(bool),
    Step,
}

fn setup() -> impl Strategy<Value = [u8; 8]> {
    // Mostly what a gadget could know, so that its deeper parts are reached.
    let request_type = prop_oneof![any::<u8>(), prop::sample::select(vec![0x00u8, 0x80, 0x01, 0x81, 0x21, 0xa1])];
    let request = prop_oneof![any::<u8>(), 0u8..13, Just(0x43u8), Just(0x5bu8), Just(0x5cu8)];
    let value = prop_oneof![any::<u16>(), 0u16..4, (1u16..8).prop_map(|kind| kind << 8)];
    let index = prop_oneof![any::<u16>(), 0u16..3, Just(0x0409u16)];
    let length = prop_oneof![any::<u16>(), 0u16..70, Just(4096u16)];
    (request_type, request, value, index, length).prop_map(|(kind, request, value, index, length)| {
        SetupPacket::new(kind, request, value, index, length).to_bytes()
    })
}

/// RNDIS messages with a few sensible words among the random ones.
fn rndis() -> impl Strategy<Value = Vec<u8>> {
    let word = || prop_oneof![any::<u32>(), 0u32..64, Just(0x0001010eu32), Just(0x01010101u32), Just(u32::MAX - 7)];
    let message = (0u32..10, vec(word(), 0..12)).prop_map(|(kind, words)| rndis_message(kind, &words));
    (message, any::<Option<u32>>()).prop_map(|(mut message, length)| {
        if let Some(length) = length {
            message[4..8].copy_from_slice(&length.to_le_bytes());
        }
        message
    })
}

/// An Ethernet header that reaches the network, and anything behind it.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![[0x08, 0x00], [0x08, 0x06], [0x86, 0xdd]]);
    (kind, vec(any::<u8>(), 0..200), any::<bool>()).prop_map(|(kind, rest, rndis)| {
        let mut transfer = if rndis { vec![0; 44] } else { Vec::new() };
        transfer.extend([0x02, 0x50, 0x50, 0, 0, 0x02, 0x02, 0x50, 0x50, 0, 0, 0x01]);
        transfer.extend(kind);
        if kind == [0x08, 0x00] {
            transfer.extend([0x45, 0]);
        }
        transfer.extend(rest);
        if rndis {
            gadgets::ethernet::rndis_wire::write_packet_header(&mut transfer);
        }
        transfer
    })
}

fn fastboot() -> impl Strategy<Value = Vec<u8>> {
    let command =
        prop::sample::select(vec!["getvar:", "getvar:all", "download:", "flash:", "erase:", "boot", "reboot"]);
    let argument = prop_oneof!["[0-9a-f]{8}", "0000[0-9a-f]{4}", "boot|aboot|version", "\\PC{0,8}"];
    (command, argument, any::<bool>()).prop_map(|(command, argument, with)| {
        let argument = if with { argument } else { String::new() };
        format!("{command}{argument}").into_bytes()
    })
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..600), rndis(), frame(), fastboot()]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (setup(), vec(any::<u8>(), 0..64)).prop_map(|(setup, data)| Action::Control(setup, data)),
        2 => rndis().prop_map(|message| {
            Action::Control(SetupPacket::new(0x21, 0, 0, 0, message.len() as u16).to_bytes(), message)
        }),
        2 => prop_oneof![0u16..4, any::<u16>()].prop_map(Action::Configure),
        2 => (0u16..3, 0u16..3).prop_map(|(interface, alternate)| Action::Alternate(interface, alternate)),
        6 => data().prop_map(Action::Send),
        4 => (1u8..3).prop_map(Action::Receive),
        1 => any::<bool>().prop_map(Action::Reset),
        1 => Just(Action::Disconnect),
        1 => any::<bool>().prop_map(Action::Exhaust),
        3 => Just(Action::Step),
    ]
}

/// Plays the actions after `configure`, and checks after each what must always hold.
fn survive<G: Gadget>(gadget: G, configure: &[Action], actions: &[Action]) {
    let mut host = Host::new(gadget, Speed::Full);
    for action in configure.iter().chain(actions) {
        match action {
            // An answer or a refusal; the host checks lengths.
            Action::Control(setup, data) => drop(host.control(SetupPacket::from_bytes(*setup), data)),
            Action::Configure(value) => drop(host.set_configuration(*value)),
            Action::Alternate(interface, alternate) => drop(host.set_interface(*interface, *alternate)),
            Action::Send(data) => drop(host.send(1, data)),
            Action::Receive(number) => drop(host.receive(*number)),
            Action::Reset(high) => host.reset(if *high { Speed::High } else { Speed::Full }),
            Action::Disconnect => host.gadget.disconnect(&mut host.udc),
            Action::Exhaust(exhausted) => host.udc.exhausted = *exhausted,
            Action::Step => {
                host.now += std::time::Duration::from_millis(50);
                let again = host.step();
                assert!(again.is_none_or(|at| at > host.now), "asks to be called at once for ever");
            }
        }
        host.deliver();
        assert_eq!(host.udc.violations, [""; 0]);
        assert!(host.udc.memory() <= 4 << 20, "{} bytes queued", host.udc.memory());
    }
    host.reset(Speed::High);
    assert_eq!(host.udc.memory(), 0, "something is queued after a bus reset");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ethernet_gadget_survives(ecm: bool, actions in vec(action(), 0..40)) {
        let configure: &[Action] =
            if ecm { &[Action::Configure(1), Action::Alternate(1, 1)] } else { &[Action::Configure(2)] };
        survive(EthernetGadget::new(EthernetConfig::default()), configure, &actions);
    }

    #[test]
    fn the_bootloader_survives(actions in vec(action(), 0..40)) {
        survive(FastbootGadget::new(FastbootConfig::default()), &[Action::Configure(1)], &actions);
    }

    #[test]
    fn the_source_and_sink_survives(actions in vec(action(), 0..40)) {
        survive(SourceSinkGadget::new(SourceSinkConfig::default()), &[Action::Configure(3)], &actions);
    }
}
