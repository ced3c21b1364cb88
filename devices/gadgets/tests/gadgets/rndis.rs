//! RNDIS control messages.

use gadgets::ethernet::{CommandError, EthernetConfig, EthernetGadget};
use usb::gadget::{Completion, Request, Stall};
use usb::{EndpointAddress, SetupPacket, Speed};

use crate::host::Host;
use crate::network_host::rndis_message;

const INITIALIZE: u32 = 2;
const HALT: u32 = 3;
const QUERY: u32 = 4;
const SET: u32 = 5;
const RESET: u32 = 6;
const KEEPALIVE: u32 = 8;

fn rndis() -> Host<EthernetGadget> {
    let mut host = Host::new(EthernetGadget::new(EthernetConfig::default()), Speed::Full);
    host.set_configuration(2).unwrap();
    host
}

fn send(host: &mut Host<EthernetGadget>, message: &[u8]) {
    host.control(SetupPacket::new(0x21, 0, 0, 0, message.len() as u16), message).unwrap();
}

fn response(host: &mut Host<EthernetGadget>) -> Result<Vec<u8>, Stall> {
    host.control(SetupPacket::new(0xa1, 1, 0, 0, 1025), &[])
}

/// A command and the words of its answer, after the notification that announces it.
fn transact(host: &mut Host<EthernetGadget>, message: &[u8]) -> Vec<u32> {
    send(host, message);
    assert_eq!(host.receive(2).unwrap(), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(host.receive(2), None, "one notification for one answer");
    let answer = response(host).unwrap();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    assert_eq!(word(&answer[4..8]) as usize, answer.len());
    answer.chunks_exact(4).map(word).collect()
}

#[test]
fn the_host_s_handshake_succeeds() {
    let mut host = rndis();
    let answer = transact(&mut host, &rndis_message(INITIALIZE, &[1, 1, 0, 0x4000]));
    assert_eq!(answer, [0x80000002, 52, 1, 0, 1, 0, 1, 0, 1, 1580, 0, 0, 0]);
    let answer = transact(&mut host, &rndis_message(QUERY, &[2, 0x00010202, 0, 20, 0]));
    assert_eq!(answer, [0x80000004, 28, 2, 0, 4, 16, 0]);

    // The Linux host announces room of 48 bytes and sends it along.
    let query = [&[3, 0x01010101, 48, 20, 0][..], &[0; 12]].concat();
    send(&mut host, &rndis_message(QUERY, &query));
    let answer = response(&mut host).unwrap();
    assert_eq!(answer.len(), 30);
    assert_eq!(answer[16..], [6, 0, 0, 0, 16, 0, 0, 0, 0x02, 0x50, 0x50, 0, 0, 0x01]);
    host.receive(2).unwrap();

    let answer = transact(&mut host, &rndis_message(SET, &[4, 0x0001010e, 4, 20, 0, 0x2d]));
    assert_eq!(answer, [0x80000005, 16, 4, 0]);
    let answer = transact(&mut host, &rndis_message(QUERY, &[5, 0x0001010e, 0, 0, 0]));
    assert_eq!(answer[6], 0x2d);
    let answer = transact(&mut host, &rndis_message(KEEPALIVE, &[6]));
    assert_eq!(answer, [0x80000008, 16, 6, 0]);
    let answer = transact(&mut host, &rndis_message(RESET, &[0]));
    assert_eq!(answer, [0x80000006, 16, 0, 1]);
    send(&mut host, &rndis_message(HALT, &[7]));
    assert_eq!(response(&mut host), Err(Stall), "HALT has no answer");
    assert_eq!(host.receive(2), None);
    assert_eq!(host.gadget.statistics().bad_commands, 0);
}

#[test]
fn every_object_in_the_list_can_be_queried() {
    let mut host = rndis();
    let list = transact(&mut host, &rndis_message(QUERY, &[1, 0x00010101, 0, 0, 0]));
    assert_eq!(list.len(), 6 + 28);
    for &object in &list[6..] {
        send(&mut host, &rndis_message(QUERY, &[2, object, 0, 0, 0]));
        let answer = response(&mut host).unwrap();
        assert_eq!(answer[12..16], [0; 4], "{object:#010x}");
        assert!(answer.len() > 24);
        host.receive(2).unwrap();
    }
    let value =
        |host: &mut Host<EthernetGadget>, object| transact(host, &rndis_message(QUERY, &[3, object, 0, 0, 0]))[6];
    assert_eq!(value(&mut host, 0x00010106), 1500);
    assert_eq!(value(&mut host, 0x00010107), 97_280, "units of 100 bits a second");
    assert_eq!(value(&mut host, 0x00010111), 1558);
}

#[test]
fn what_is_not_supported_says_so() {
    let mut host = rndis();
    let answer = transact(&mut host, &rndis_message(QUERY, &[9, 0xfd010100, 0, 0, 0]));
    assert_eq!(answer, [0x80000004, 24, 9, 0xc00000bb, 0, 0]);
    let answer = transact(&mut host, &rndis_message(SET, &[9, 0xfd010100, 0, 0, 0]));
    assert_eq!(answer, [0x80000005, 16, 9, 0xc00000bb]);
    // A filter that is not there, or only half of it.
    for (length, offset) in [(0, 20), (4, 24), (2, 20), (4, 1500), (1558, 20)] {
        let answer = transact(&mut host, &rndis_message(SET, &[9, 0x0001010e, length, offset, 0, 0x2d]));
        assert_eq!(answer, [0x80000005, 16, 9, 0xc0010015], "{length} at {offset}");
    }
}

#[test]
fn broken_commands_are_ignored_with_a_reason() {
    let mut host = rndis();
    let mut long = rndis_message(INITIALIZE, &[1, 1, 0, 0x4000]);
    long[4] = 25;
    let cases = [
        (Vec::new(), CommandError::Short { actual: 0, needed: 8 }),
        (vec![2, 0, 0, 0], CommandError::Short { actual: 4, needed: 8 }),
        (rndis_message(INITIALIZE, &[1]), CommandError::Short { actual: 12, needed: 24 }),
        (rndis_message(QUERY, &[1, 0x00010101]), CommandError::Short { actual: 16, needed: 28 }),
        (rndis_message(KEEPALIVE, &[]), CommandError::Short { actual: 8, needed: 12 }),
        (long, CommandError::Length { claimed: 25, actual: 24 }),
        (rndis_message(7, &[1]), CommandError::Unknown(7)),
        (rndis_message(0x80000002, &[1]), CommandError::Unknown(0x80000002)),
        (
            rndis_message(SET, &[1, 0x0001010e, 4, u32::MAX, 0, 0]),
            CommandError::Information { offset: u32::MAX, length: 4 },
        ),
        (
            rndis_message(QUERY, &[1, 0x00010101, u32::MAX, 20, 0]),
            CommandError::Information { offset: 20, length: u32::MAX },
        ),
        (rndis_message(QUERY, &[1, 0x00010101, 0, 1550, 0]), CommandError::Information { offset: 1550, length: 0 }),
    ];
    for (count, (message, error)) in (1..).zip(cases) {
        send(&mut host, &message);
        assert_eq!(host.gadget.last_command_error(), Some(error));
        assert_eq!(host.gadget.statistics().bad_commands, count);
        assert_eq!(host.receive(2), None, "{error}");
        assert_eq!(response(&mut host), Err(Stall), "{error}");
    }
}

#[test]
fn answers_that_nobody_reads_have_a_limit() {
    let mut host = rndis();
    for request in 0..40 {
        send(&mut host, &rndis_message(KEEPALIVE, &[request]));
    }
    assert_eq!(host.gadget.last_command_error(), Some(CommandError::Unread(16)));
    let answers = std::iter::from_fn(|| response(&mut host).ok()).count();
    assert_eq!(answers, 16);
    let notifications = std::iter::from_fn(|| host.receive(2)).count();
    assert_eq!(notifications, 16);
    transact(&mut host, &rndis_message(KEEPALIVE, &[99]));
}

#[test]
fn the_answer_is_cut_to_what_the_host_asks_for() {
    let mut host = rndis();
    send(&mut host, &rndis_message(INITIALIZE, &[1, 1, 0, 0x4000]));
    let answer = host.control(SetupPacket::new(0xa1, 1, 0, 0, 10), &[]).unwrap();
    assert_eq!(answer, [2, 0, 0, 0x80, 52, 0, 0, 0, 1, 0]);
}

#[test]
fn requests_to_other_interfaces_are_refused() {
    let mut host = rndis();
    for setup in [
        SetupPacket::new(0x21, 0, 0, 1, 24),
        SetupPacket::new(0x21, 0, 1, 0, 24),
        SetupPacket::new(0xa1, 1, 0, 1, 64),
        SetupPacket::new(0x21, 0x43, 0, 0, 0),
        SetupPacket::new(0xa1, 1, 0, 0, 64),
    ] {
        assert_eq!(host.control(setup, &[]), Err(Stall), "{setup}");
    }
}

#[test]
fn a_bus_reset_forgets_answers_and_notifications() {
    let mut host = rndis();
    send(&mut host, &rndis_message(INITIALIZE, &[1, 1, 0, 0x4000]));
    assert_eq!(host.udc.depth(EndpointAddress::r#in(2)), 1);
    host.reset(Speed::High);
    host.set_configuration(2).unwrap();
    assert_eq!(host.receive(2), None);
    assert_eq!(response(&mut host), Err(Stall));
    transact(&mut host, &rndis_message(INITIALIZE, &[1, 1, 0, 0x4000]));
    assert_eq!(host.udc.violations, [""; 0]);
}

#[test]
fn a_setup_in_the_middle_of_a_command_drops_it() {
    // The next SETUP may be answered or refused.
    for next in [SetupPacket::new(0x80, 8, 0, 0, 1), SetupPacket::new(0xa1, 1, 0, 0, 1025)] {
        let mut host = rndis();
        let message = rndis_message(KEEPALIVE, &[1]);
        let stale = host.queued_answer(SetupPacket::new(0x21, 0, 0, 0, message.len() as u16)).unwrap();
        let answered = host.control(next, &[]).is_ok();
        assert_eq!(answered, next.request == 8);
        let completion = Completion {
            endpoint: EndpointAddress::out(0),
            request: Request { data: message, ..stale },
            status: Ok(12),
        };
        host.udc.back.push_back(completion);
        host.deliver();
        assert_eq!(response(&mut host), Err(Stall));
    }
}

#[test]
fn reset_drops_the_answers_that_wait() {
    let mut host = rndis();
    send(&mut host, &rndis_message(KEEPALIVE, &[1]));
    send(&mut host, &rndis_message(RESET, &[0]));
    let answer = response(&mut host).unwrap();
    assert_eq!(answer[..4], [6, 0, 0, 0x80]);
    assert_eq!(response(&mut host), Err(Stall));
}
