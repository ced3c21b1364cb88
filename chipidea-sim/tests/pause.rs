//! Retirements that are held up half done.

mod mock;

use devices::Device;
use mock::*;
use usb::wire::DataPid::{Data0, Data1};
use usb::wire::InReply;
use usb::{Speed, UsbPort};

/// A bulk IN endpoint 1 with one dTD of one packet primed, whose retirement will be held up at `place`.
fn board(place: &str) -> Board {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(3, board.dtd(0, BUFFERS, 512, IOC));
    let place = board.sim.pauses().iter().position(|name| *name == place).expect("such a place");
    board.sim.pause(place);
    assert_eq!(board.input(1).0, data(Data0, 512));
    board
}

#[test]
fn the_token_is_there_before_the_rest() {
    for place in ["next", "stat"] {
        let board = board(place);
        let seen = (board.token(0), board.r(R::Stat), board.r(R::Complete), board.r(R::Sts) & UI);
        assert_eq!(seen, (IOC, bit(3), 0, 0), "{place}");
        assert_eq!(board.input(1).0, InReply::Nak, "{place}: nothing else moves");
        board.sim.go_on();
        let seen = (board.r(R::Stat), board.r(R::Complete), board.r(R::Sts) & UI);
        assert_eq!(seen, (0, bit(3), UI), "{place}");
    }
}

#[test]
fn what_is_linked_before_next_is_read_is_gone_to_and_what_comes_later_is_not() {
    for (place, goes_on) in [("next", true), ("stat", false)] {
        let board = board(place);
        board.dtd(1, BUFFERS + 0x1000, 512, IOC);
        board.link(0, 1);
        board.sim.go_on();
        assert_eq!(board.r(R::Stat) == bit(3), goes_on, "{place}");
        let reply = if goes_on { data(Data1, 512) } else { InReply::Nak };
        assert_eq!(board.input(1).0, reply, "{place}");
    }
}

#[test]
fn the_append_tripwire_cannot_be_set_while_an_append_may_go_unnoticed() {
    for (place, stays) in [("next", true), ("stat", false)] {
        let board = board(place);
        let command = board.r(R::Cmd) | ATDTW;
        board.w(R::Cmd, command);
        assert_eq!(board.r(R::Cmd) & ATDTW != 0, stays, "{place}");
        board.sim.go_on();
        assert_eq!(board.r(R::Cmd) & ATDTW, 0, "{place}: the list was touched");
        board.w(R::Cmd, command);
        assert_eq!(board.r(R::Cmd) & ATDTW, ATDTW, "{place}: and is not any more");
    }
}

#[test]
fn flush_prime_and_bus_reset_wait_for_it() {
    let flush = |board: &Board| board.w(R::Flush, bit(3));
    let prime = |board: &Board| board.w(R::Prime, bit(3));
    let reset = |board: &Board| assert!(board.sim.reset(Speed::High).is_some());
    for act in [&flush as &dyn Fn(&Board), &prime, &reset] {
        for place in ["next", "stat"] {
            let board = board(place);
            act(&board);
            assert_eq!(board.r(R::Complete), bit(3), "{place}");
        }
    }
    let board = board("next");
    board.w(R::Flush, bit(2));
    assert_eq!(board.r(R::Complete), 0, "another slot's flush does not");
}

#[test]
fn a_controller_reset_forgets_it() {
    let board = board("next");
    board.w(R::Cmd, RST);
    board.sim.go_on();
    assert_eq!(board.r(R::Complete), 0);
}
