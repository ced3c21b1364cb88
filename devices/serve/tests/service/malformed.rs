//! Whatever a client sends, the next one is served.

use std::os::fd::BorrowedFd;

use proptest::prelude::*;
use serve::Event;

use crate::board::{Board, ID, ID_VALUE};
use crate::client::{
    Bell, DMA_MAP, DMA_UNMAP, GET_INFO, GET_IRQ_INFO, GET_REGION_INFO, QEMU, REGION_READ, REGION_WRITE,
    REGION_WRITE_MULTI, RESET, SET_IRQS, VERSION, access, frame, longs, version, words,
};

/// The board serves a client as if nothing had been.
fn serves(board: &Board) {
    let mut client = board.stranger();
    client.negotiate();
    client.config_write(0x04, &[6, 0]);
    assert_eq!(client.read32(ID), ID_VALUE);
}

/// Sends bytes after a version; the connection ends, for this reason.
fn ends(board: &Board, bytes: &[u8], why: &str) {
    let mut client = board.client();
    client.send(bytes, &[]);
    client.ended();
    assert_eq!(board.event(), Event::Disconnected(why.to_owned()));
}

#[test]
fn a_malformed_message_ends_its_connection() {
    let board = Board::new();
    let size = |size: u32| words(&[1 << 16, size, 0, 0]);
    ends(&board, &size(15), "malformed message: message size 15: expected 16 to 1052672");
    ends(&board, &size(0), "malformed message: message size 0: expected 16 to 1052672");
    ends(&board, &size(u32::MAX), "malformed message: message size 4294967295: expected 16 to 1052672");
    ends(&board, &frame(1, GET_INFO, 2, &[]), "malformed message: message flags 0x2: neither a command nor a reply");
    ends(&board, &frame(1, 11, 1, &[0; 16]), "malformed message: a reply to message 1, which was never sent");
    ends(&board, &frame(1, VERSION, 0, &version(0, 0, QEMU)), "malformed message: a second version");
    for (command, payload, expected) in [
        (GET_INFO, 15, 16),
        (GET_REGION_INFO, 31, 32),
        (GET_IRQ_INFO, 0, 16),
        (SET_IRQS, 19, 20),
        (DMA_MAP, 33, 32),
        (DMA_UNMAP, 0, 24),
        (REGION_READ, 17, 16),
        (REGION_WRITE, 15, 16),
        (REGION_WRITE_MULTI, 7, 8),
        (RESET, 1, 0),
    ] {
        let why = format!("malformed message: command {command} with {payload} bytes: expected {expected}");
        ends(&board, &frame(1, command, 0, &vec![0; payload]), &why);
    }
    let write = [access(0, 0, 4), vec![0; 5]].concat();
    ends(&board, &frame(1, REGION_WRITE, 0, &write), "malformed message: command 10 with 5 bytes: expected 4");
    let many = frame(1, REGION_WRITE_MULTI, 0, &longs(&[u64::MAX / 24 + 2]));
    ends(&board, &many, "malformed message: command 15 with 0 bytes: expected 18446744073709551615");
    serves(&board);
}

#[test]
fn the_first_message_is_a_version() {
    let board = Board::new();
    for (bytes, why) in [
        (frame(1, GET_INFO, 0, &[0; 16]), "malformed message: command 4 before the version"),
        (frame(1, VERSION, 0, &[0; 3]), "malformed message: command 1 with 3 bytes: expected 4"),
        (
            frame(1, VERSION, 0, &version(0, 0, "x")),
            "malformed message: capabilities: expected value at line 1 column 1",
        ),
    ] {
        let mut client = board.stranger();
        client.send(&bytes, &[]);
        client.ended();
        assert_eq!(board.event(), Event::Refused(why.to_owned()));
    }
    serves(&board);
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_message_is_gone() {
    let board = Board::new();
    let message = frame(1, REGION_READ, 0, &access(0, 0, 4));
    for cut in 0..message.len() {
        let client = board.client();
        client.send(&message[..cut], &[]);
        drop(client);
        assert!(matches!(board.event(), Event::Disconnected(_)), "{cut}");
    }
    serves(&board);
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let board = Board::new();
    let mut client = board.client();
    for byte in frame(9, REGION_READ, 0, &access(0, ID, 4)) {
        client.send(&[byte], &[]);
    }
    assert_eq!(client.receive().expect("an answer").payload[16..], ID_VALUE.to_le_bytes());
}

#[test]
fn more_descriptors_than_agreed_end_the_connection() {
    let board = Board::new();
    let mut client = board.client();
    let bell = Bell::new();
    let fds: Vec<BorrowedFd<'_>> = (0..17).map(|_| bell.fd()).collect();
    client.send(&frame(1, SET_IRQS, 0, &words(&[20, 0x24, 2, 0, 17])), &fds);
    client.ended();
    let why = "malformed message: more than 16 file descriptors in one message";
    assert_eq!(board.event(), Event::Disconnected(why.to_owned()));
    // With messages that want none they are closed.
    let mut client = board.client();
    client.send(&frame(1, GET_INFO, 0, &words(&[16, 0, 0, 0])), &fds[..16]);
    assert!(client.receive().is_some());
    drop(client);
    serves(&board);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes_end_a_connection_and_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let board = Board::new();
        let client = board.stranger();
        client.send(&bytes, &[]);
        client.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        drop(client);
        serves(&board);
    }

    #[test]
    fn random_commands_end_a_connection_at_most(
        commands in prop::collection::vec((0..20_u16, prop::collection::vec(any::<u8>(), 0..64), any::<bool>()), 1..20),
    ) {
        let board = Board::new();
        let mut client = board.client();
        for (command, payload, posted) in commands {
            // It may have ended by the one before.
            let _ = std::io::Write::write(&mut &client.stream, &frame(1, command, u32::from(posted) * 0x10, &payload));
        }
        client.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        client.ended();
        drop(client);
        serves(&board);
    }
}
