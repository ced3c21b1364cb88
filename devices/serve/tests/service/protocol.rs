//! Negotiation, information, registers, reset, the next client.

use serve::Event;

use crate::board::{Board, ID, ID_VALUE, SCRATCH};
use crate::client::{
    CONFIG, EINVAL, EOPNOTSUPP, GET_INFO, GET_IRQ_INFO, GET_REGION_INFO, GET_REGION_IO_FDS, NO_REPLY, REGION_READ,
    REGION_WRITE, REGION_WRITE_MULTI, RESET, VERSION, access, longs, version, words,
};

#[test]
fn a_client_learns_what_the_device_is() {
    let board = Board::new();
    let mut client = board.client();
    // Reset works, PCI; nine regions, five kinds of interrupts.
    assert_eq!(client.request(GET_INFO, &words(&[16, 0, 0, 0]), &[]), Ok(words(&[16, 3, 9, 5])));
    let mut sizes = Vec::new();
    for index in 0..9 {
        let request = [&words(&[32, 0, index, 0])[..], &longs(&[0, 0])].concat();
        let info = client.request(GET_REGION_INFO, &request, &[]).expect("a region");
        let size = u64::from_le_bytes(info[16..24].try_into().unwrap());
        let flags = u32::from(size > 0) * 3;
        assert_eq!(info, [&words(&[32, flags, index, 0])[..], &longs(&[size, 0])].concat());
        sizes.push(size);
    }
    assert_eq!(sizes, [0x1000, 0, 0x1000, 0, 0, 0, 0, 256, 0]);
    let mut irqs = Vec::new();
    for index in [0, 1, 2, 4] {
        let info = client.request(GET_IRQ_INFO, &words(&[16, 0, index, 0]), &[]).expect("interrupts");
        irqs.push((info[4], info[12]));
    }
    // INTx is maskable and masks itself, MSI does not grow.
    assert_eq!(irqs, [(7, 1), (9, 4), (1, 4), (1, 0)]);
    for index in [3, 5] {
        assert_eq!(
            client.request(GET_IRQ_INFO, &words(&[16, 0, index, 0]), &[]),
            Err(EINVAL),
            "PCI Express only, none"
        );
    }
    assert_eq!(client.request(GET_INFO, &words(&[8, 0, 0, 0]), &[]), Err(EINVAL), "no room for the reply");
}

#[test]
fn the_version_is_agreed_on() {
    let board = Board::new();
    let mut client = board.stranger();
    let reply = client.request(VERSION, &version(0, 1, r#"{"capabilities":{"max_msg_fds":8}}"#), &[]).expect("0.1");
    assert_eq!(reply, version(0, 1, r#"{"capabilities":{"max_msg_fds":8}}"#));
    drop(client);
    let mut client = board.stranger();
    assert_eq!(client.request(VERSION, &[0, 0, 9, 0], &[]).expect("without capabilities"), [0, 0, 1, 0]);
    drop(client);
    let mut client = board.stranger();
    assert_eq!(client.request(VERSION, &version(1, 0, "{}"), &[]), Err(EINVAL), "another major version is told so");
    client.ended();
}

#[test]
fn registers_are_reached_in_every_width() {
    let board = Board::new();
    let mut client = board.client();
    assert_eq!(client.read32(ID), ID_VALUE);
    client.write32(SCRATCH, 0x11223344);
    assert_eq!(board.toy.scratch(), 0x11223344);
    assert_eq!(client.read(0, SCRATCH, 4), Ok(vec![0x44, 0x33, 0x22, 0x11]));
    assert_eq!(client.read(0, 0xffc, 4), Ok(vec![0; 4]), "no register");
    assert_eq!(client.read(0, 0xffe, 4), Err(EINVAL), "beyond the BAR");
    assert_eq!(client.read(0, u64::MAX, 4), Err(EINVAL));
    assert_eq!(client.read(1, 0, 1), Err(EINVAL), "no such BAR");
    assert_eq!(client.read(99, 0, 1), Err(EINVAL), "no such region");
    assert_eq!(client.write(CONFIG, 0x100, &[0]), Err(EINVAL));
    let config = client.read(CONFIG, 0, 256).expect("all of it");
    assert_eq!(config[..4], [0x3f, 0x15, 0x06, 0x10]);
    client.config_write(0x04, &[0, 0]);
    assert_eq!(client.read32(ID), !0, "not decoded");
}

#[test]
fn a_read_of_everything_is_not_allocated() {
    let board = Board::new();
    let mut client = board.client();
    assert_eq!(client.request(REGION_READ, &access(0, 0, u32::MAX), &[]), Err(EINVAL));
    assert_eq!(client.read32(ID), ID_VALUE);
}

#[test]
fn posted_writes_are_done_in_order() {
    let board = Board::new();
    let mut client = board.client();
    for value in 1..=3000_u32 {
        let write = [&access(0, SCRATCH, 4)[..], &value.to_le_bytes()].concat();
        client.post(REGION_WRITE, NO_REPLY, &write, &[]);
    }
    assert_eq!(client.read32(SCRATCH), 3000);
    let one = |value: u32| [&access(0, SCRATCH, 4)[..], &value.to_le_bytes(), &[0; 4]].concat();
    let multi = [&longs(&[2])[..], &one(7), &one(8)].concat();
    assert_eq!(client.request(REGION_WRITE_MULTI, &multi, &[]), Ok(longs(&[2])));
    assert_eq!(client.read32(SCRATCH), 8);
    let nine = [&longs(&[1])[..], &access(0, SCRATCH, 9), &[0; 8]].concat();
    assert_eq!(client.request(REGION_WRITE_MULTI, &nine, &[]), Err(EINVAL));
}

#[test]
fn an_unknown_command_is_refused_with_all_its_bytes() {
    let board = Board::new();
    let mut client = board.client();
    for command in [GET_REGION_IO_FDS, 14, 16, 17, 18, 200, u16::MAX] {
        assert_eq!(client.request(command, &[0x55; 5000], &[]), Err(EOPNOTSUPP), "command {command}");
    }
    assert_eq!(client.read32(ID), ID_VALUE);
}

#[test]
fn a_reset_is_power_on() {
    let board = Board::new();
    let mut client = board.client();
    client.write32(SCRATCH, 5);
    client.config_write(0x10, &[0, 0, 0, 0xe0]);
    assert_eq!(client.request(RESET, &[], &[]), Ok(Vec::new()));
    assert_eq!(board.event(), Event::Reset);
    assert_eq!(client.read(CONFIG, 0x04, 2), Ok(vec![0, 0]));
    assert_eq!(client.read(CONFIG, 0x10, 4), Ok(vec![0; 4]));
    client.config_write(0x04, &[2, 0]);
    assert_eq!(client.read32(SCRATCH), 0);
}

#[test]
fn the_next_client_finds_a_device_as_new() {
    let board = Board::new();
    let mut client = board.client();
    client.write32(SCRATCH, 5);
    drop(client);
    assert_eq!(board.event(), Event::Disconnected("the client is gone".to_owned()));
    assert_eq!(board.toy.scratch(), 0, "a machine that is gone gives no power");
    let mut client = board.client();
    assert_eq!(client.read32(SCRATCH), 0);
}

#[test]
fn a_second_client_waits_for_the_first() {
    let board = Board::new();
    let mut first = board.client();
    let mut second = board.stranger();
    second.post(VERSION, 0, &version(0, 0, "{}"), &[]);
    assert_eq!(first.read32(ID), ID_VALUE);
    drop(first);
    assert!(second.receive().is_some_and(|reply| reply.command == VERSION), "its turn");
}

#[test]
fn a_model_that_panics_costs_the_connection() {
    let board = Board::new();
    let mut client = board.client();
    let write = [&access(0, crate::board::PANIC, 4)[..], &[0; 4]].concat();
    client.post(REGION_WRITE, 0, &write, &[]);
    client.ended();
    assert_eq!(board.event(), Event::Disconnected("the device model panicked".to_owned()));
    assert_eq!(board.client().read32(ID), ID_VALUE);
}
