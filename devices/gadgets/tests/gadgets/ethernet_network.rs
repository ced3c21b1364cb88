//! Frames in both framings, and the network behind them.

use gadgets::ethernet::rndis_wire::write_packet_header;
use gadgets::ethernet::services::{Checksum, DISCARD_PORT, ECHO_PORT, SOURCE_PORT, pattern};
use gadgets::ethernet::{EthernetConfig, EthernetGadget, Framing};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::icmp;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr};
use usb::gadget::{Completion, RequestError};
use usb::{EndpointAddress, Gadget, SetupPacket, Speed};

use crate::host::Host;
use crate::network_host::{BOARD, Frames, NetworkHost, rndis_message};

const OUT: EndpointAddress = EndpointAddress::out(1);
const IN: EndpointAddress = EndpointAddress::r#in(1);

fn everywhere(test: impl Fn(NetworkHost)) {
    for framing in [Framing::Rndis, Framing::Ecm] {
        for speed in [Speed::Full, Speed::High] {
            test(NetworkHost::new(framing, speed));
        }
    }
}

/// Pings with `length` bytes and checks that they come back.
fn ping(host: &mut NetworkHost, length: usize) {
    const IDENT: u16 = 0x22b;
    let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 8192]);
    let handle = host.sockets.add(icmp::Socket::new(buffer(), buffer()));
    let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
    let socket = host.sockets.get_mut::<icmp::Socket<'static>>(handle);
    socket.bind(icmp::Endpoint::Ident(IDENT)).unwrap();
    let request = Icmpv4Repr::EchoRequest { ident: IDENT, seq_no: 7, data: &payload };
    let bytes = socket.send(request.buffer_len(), BOARD).unwrap();
    request.emit(&mut Icmpv4Packet::new_unchecked(bytes), &ChecksumCapabilities::default());
    host.turn_until("an answer to the ping", |host| host.sockets.get_mut::<icmp::Socket<'static>>(handle).can_recv());
    let (bytes, from) = host.sockets.get_mut::<icmp::Socket<'static>>(handle).recv().unwrap();
    assert_eq!(from, BOARD);
    let packet = Icmpv4Packet::new_checked(bytes).unwrap();
    let reply = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).unwrap();
    assert_eq!(reply, Icmpv4Repr::EchoReply { ident: IDENT, seq_no: 7, data: &payload });
}

#[test]
fn the_board_answers_ping() {
    everywhere(|mut host| {
        // 42 bytes of headers: frame sizes around full packets, with and without the RNDIS header.
        for length in [0, 1, 21, 22, 23, 42, 56, 86, 170, 426, 470, 938, 982, 1450, 1472] {
            ping(&mut host, length);
        }
        assert_eq!(host.usb.udc.violations, [""; 0]);
        assert_eq!(host.usb.gadget.statistics().rx_errors, 0);
    });
}

#[test]
fn a_mebibyte_each_way_arrives_intact() {
    const MIB: usize = 1 << 20;
    everywhere(|mut host| {
        let data: Vec<u8> = (0..MIB as u64).map(pattern).collect();
        let discard = host.connect(DISCARD_PORT, 50000);
        host.write(discard, &data);
        host.tcp(discard).close();
        let line = String::from_utf8(host.read(discard, usize::MAX)).unwrap();
        assert_eq!(line, Checksum::of(&data).line());
        assert_eq!(host.usb.gadget.discarded().next(), Some(&Checksum::of(&data)));

        let source = host.connect(SOURCE_PORT, 50001);
        host.write(source, format!("{MIB}\n").as_bytes());
        assert!(host.read(source, MIB) == data, "the source's data");
        host.write(source, b"10\r\n");
        assert_eq!(host.read(source, 10), data[..10]);
        host.tcp(source).close();
        assert_eq!(host.read(source, usize::MAX), [0; 0]);

        let statistics = host.usb.gadget.statistics();
        assert_eq!((statistics.rx_errors, statistics.tx_errors, statistics.tx_dropped), (0, 0, 0));
        assert_eq!(host.usb.udc.violations, [""; 0]);
    });
}

#[test]
fn echo_gives_everything_back() {
    everywhere(|mut host| {
        for round in 0..5u8 {
            let echo = host.connect(ECHO_PORT, 50000 + u16::from(round));
            let data: Vec<u8> = (0..30000u32).map(|at| (at * 7) as u8 ^ round).collect();
            host.write(echo, &data);
            host.tcp(echo).close();
            assert!(host.read(echo, usize::MAX) == data);
        }
    });
}

#[test]
fn a_line_without_a_number_ends_the_connection() {
    for line in ["x\n", "\n", "-1\n", "99999999999999999999\n"] {
        let mut host = NetworkHost::new(Framing::Ecm, Speed::High);
        let source = host.connect(SOURCE_PORT, 50000);
        host.write(source, line.as_bytes());
        assert_eq!(host.read(source, 1), [0; 0], "{line:?}");
        let source = host.connect(SOURCE_PORT, 50001);
        host.write(source, b"3\n");
        assert_eq!(host.read(source, 3).len(), 3);
    }
}

#[test]
fn two_runs_are_the_same() {
    let run = || {
        let mut host = NetworkHost::new(Framing::Rndis, Speed::Full);
        let source = host.connect(SOURCE_PORT, 50000);
        host.write(source, b"100000\n");
        host.read(source, 100_000);
        (host.usb.now, host.usb.gadget.statistics())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_replug_starts_the_network_anew() {
    let mut host = NetworkHost::new(Framing::Ecm, Speed::High);
    let source = host.connect(SOURCE_PORT, 50000);
    host.write(source, b"1000000\n");
    host.read(source, 1000);
    host.usb.reset(Speed::High);
    assert!(!host.usb.gadget.is_link_up());
    assert_eq!(host.usb.udc.memory(), 0);
    host.usb.set_configuration(1).unwrap();
    host.usb.set_interface(1, 1).unwrap();
    host.sockets.remove(source);
    // The host's network interface is a new one as well.
    host.frames = Frames::default();
    host.interface.update_ip_addrs(|_| {});
    ping(&mut host, 56);
    assert_eq!(host.usb.udc.depth(OUT), 10);
}

#[test]
fn a_host_that_does_not_read_costs_bounded_memory() {
    for framing in [Framing::Rndis, Framing::Ecm] {
        let mut host = NetworkHost::new(framing, Speed::Full);
        ping(&mut host, 56);
        let payload = vec![0; 1400];
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 8192]);
        let handle = host.sockets.add(icmp::Socket::new(buffer(), buffer()));
        host.sockets.get_mut::<icmp::Socket<'static>>(handle).bind(icmp::Endpoint::Ident(1)).unwrap();
        for seq_no in 0..500 {
            let request = Icmpv4Repr::EchoRequest { ident: 1, seq_no, data: &payload };
            let socket = host.sockets.get_mut::<icmp::Socket<'static>>(handle);
            let bytes = socket.send(request.buffer_len(), BOARD).unwrap();
            request.emit(&mut Icmpv4Packet::new_unchecked(bytes), &ChecksumCapabilities::default());
            host.interface.poll(smoltcp::time::Instant::ZERO, &mut host.frames, &mut host.sockets);
            let frame = host.frames.to_board.pop_front().unwrap();
            let transfer = match framing {
                Framing::Ecm => frame,
                Framing::Rndis => {
                    let mut packet = vec![0; 44];
                    packet.extend(frame);
                    write_packet_header(&mut packet);
                    packet
                }
            };
            assert!(host.usb.send(1, &transfer));
            assert_eq!(host.usb.step(), None, "only a completion can help");
            assert_eq!(host.usb.udc.depth(OUT), 2);
            assert!(host.usb.udc.depth(IN) <= 2);
        }
        // 2 with the controller and 64 behind it wait; the rest was dropped.
        assert_eq!(host.usb.gadget.statistics().tx_dropped, 500 - 66);
        let waiting = std::iter::from_fn(|| host.usb.receive(1)).count();
        assert_eq!(waiting, 66);
    }
}

#[test]
fn broadcasts_wait_for_the_rndis_filter() {
    let mut host = Host::new(EthernetGadget::new(EthernetConfig::default()), Speed::Full);
    host.set_configuration(2).unwrap();
    // A ping from an address that the board does not know makes it ask for the address, by broadcast.
    let mut packet = vec![0; 44 + 42];
    packet[44..50].copy_from_slice(&[0x02, 0x50, 0x50, 0, 0, 0x02]);
    packet[50..56].copy_from_slice(&[0x02, 0x50, 0x50, 0, 0, 0x01]);
    packet[56..58].copy_from_slice(&[0x08, 0x00]);
    packet[58..78].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0xeb, 0x8d, 192, 168, 7, 1, 192, 168, 7, 2]);
    packet[78..86].copy_from_slice(&[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]);
    write_packet_header(&mut packet);
    assert!(host.send(1, &packet));
    host.step();
    assert_eq!(host.receive(1), None);
    assert_eq!(host.gadget.statistics().tx_dropped, 1);
    let set = rndis_message(5, &[2, 0x0001010e, 4, 20, 0, 0x2d]);
    host.control(SetupPacket::new(0x21, 0, 0, 0, set.len() as u16), &set).unwrap();
    host.now = std::time::Duration::from_secs(5);
    assert!(host.send(1, &packet));
    host.step();
    let arp = host.receive(1).expect("the board asks");
    assert_eq!(arp[44..50], [0xff; 6]);
    assert_eq!(arp[56..58], [0x08, 0x06]);
}

#[test]
fn the_ecm_filter_holds_back_broadcasts() {
    let mut host = NetworkHost::new(Framing::Ecm, Speed::Full);
    host.usb.control(SetupPacket::new(0x21, 0x43, 0x04, 0, 0), &[]).unwrap();
    ping(&mut host, 56);
    assert_eq!(host.usb.gadget.statistics().tx_dropped, 0, "answers are directed");
}

#[test]
fn the_ecm_function_tells_connection_and_speed() {
    for (speed, rate) in [(Speed::Full, 9_728_000u32), (Speed::High, 425_984_000)] {
        let mut host = Host::new(EthernetGadget::new(EthernetConfig::default()), speed);
        host.set_configuration(1).unwrap();
        host.set_interface(1, 1).unwrap();
        let connection = |on| vec![0xa1, 0x00, on, 0, 0, 0, 0, 0];
        let mut change = vec![0xa1, 0x2a, 0, 0, 0, 0, 8, 0];
        change.extend([rate.to_le_bytes(), rate.to_le_bytes()].concat());
        // The first was in flight when the host chose the alternate.
        let told: Vec<_> = std::iter::from_fn(|| host.receive(2)).collect();
        assert_eq!(told, [connection(0), connection(1), change.clone()]);
        // Chosen again, the connection is told twice; and it stays, as in f_ecm.c, without its endpoints.
        host.set_interface(1, 1).unwrap();
        let told: Vec<_> = std::iter::from_fn(|| host.receive(2)).collect();
        assert_eq!(told, [connection(1), connection(1), change.clone()]);
        host.set_interface(1, 0).unwrap();
        let told: Vec<_> = std::iter::from_fn(|| host.receive(2)).collect();
        assert_eq!(told, [connection(1), change]);
    }
}

#[test]
fn failed_receives_are_queued_in_the_next_step_only() {
    let mut host = Host::new(EthernetGadget::new(EthernetConfig::default()), Speed::Full);
    host.set_configuration(2).unwrap();
    let request = host.udc.queued.get_mut(&OUT).unwrap().pop_front().unwrap();
    host.udc.back.push_back(Completion { endpoint: OUT, request, status: Err(RequestError::Protocol) });
    host.deliver();
    assert_eq!(host.udc.depth(OUT), 1);
    host.step();
    assert_eq!(host.udc.depth(OUT), 2);
    assert_eq!(host.gadget.statistics().rx_errors, 1);
}

#[test]
fn without_a_link_there_is_nothing_to_do() {
    let mut host = Host::new(EthernetGadget::new(EthernetConfig::default()), Speed::Full);
    assert_eq!(host.step(), None);
    host.set_configuration(1).unwrap();
    assert_eq!(host.step(), None);
    assert!(!host.gadget.is_link_up());
    host.gadget.suspend(&mut host.udc);
    host.gadget.resume(&mut host.udc);
    host.set_interface(1, 1).unwrap();
    assert!(host.gadget.is_link_up());
}

#[test]
fn a_controller_without_memory_is_asked_again_in_the_next_step() {
    let mut host = NetworkHost::new(Framing::Rndis, Speed::Full);
    while host.usb.receive(2).is_some() {}
    host.usb.udc.exhausted = true;
    let keepalive = rndis_message(8, &[1]);
    host.usb.control(SetupPacket::new(0x21, 0, 0, 0, 12), &keepalive).unwrap();
    assert!(host.usb.send(1, &[0; 64]));
    host.usb.step();
    assert_eq!((host.usb.udc.depth(EndpointAddress::r#in(2)), host.usb.udc.depth(OUT)), (0, 1));
    host.usb.udc.exhausted = false;
    host.usb.step();
    assert_eq!((host.usb.udc.depth(EndpointAddress::r#in(2)), host.usb.udc.depth(OUT)), (1, 2));

    let mut host = Host::new(EthernetGadget::new(EthernetConfig::default()), Speed::Full);
    host.udc.exhausted = true;
    host.set_configuration(1).unwrap();
    assert_eq!(host.receive(2), None);
    host.udc.exhausted = false;
    host.step();
    assert_eq!(host.receive(2).unwrap()[..2], [0xa1, 0x00]);
}
