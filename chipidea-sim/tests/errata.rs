//! Errata as switches: what a controller with one does beside what every controller does.

mod mock;

use std::num::NonZeroU32;

use bus::{DmaAddr, Mmio};
use chipidea_sim::{Chipidea, Config, Errata, LostAppends, Revision, Struck};
use mock::*;
use usb::wire::DataPid::{self, Data0, Data1};
use usb::wire::{Handshake, HostAck, InReply, Target};
use usb::{EndpointAddress, Speed, UsbPort};

fn config(errata: Errata) -> Config {
    Config { errata, ..Config::default() }
}

fn losing(every: u32) -> Board {
    let every = NonZeroU32::new(every).expect("not 0");
    let lost_appends = Some(LostAppends { revision: Revision::R24, every });
    Board::running(config(Errata { lost_appends, ..Errata::default() }), Speed::High)
}

fn struck(sim: &Chipidea) -> Vec<String> {
    sim.struck().iter().map(Struck::to_string).collect()
}

/// Primes dTD `first` of endpoint 1 IN, adds the one behind it, and takes the first packet.
fn append_and_take(board: &Board, first: u32, pid: DataPid) {
    let at = board.dtd(first, BUFFERS, 4, IOC);
    board.prime(3, at);
    board.dtd(first + 1, BUFFERS, 5, IOC);
    board.link(first, first + 1);
    assert_eq!(board.input(1).0, data(pid, 4));
}

#[test]
fn a_dtd_that_is_added_is_ignored_and_the_endpoint_is_not_primed() {
    let board = losing(1);
    board.bulk(1, 512);
    append_and_take(&board, 0, Data0);
    assert_eq!((board.r(R::Stat), board.input(1).0), (0, InReply::Nak));
    assert_eq!(board.token(1) & ACTIVE, ACTIVE, "nobody has seen it");
    assert_eq!(board.peek(HEADS + 3 * 64 + 4), dtd(0), "the current dTD is the one before");
    let endpoint = EndpointAddress::r#in(1);
    let lost = Struck::LostAppend { endpoint, dtd: DmaAddr(dtd(1).into()), revision: Revision::R24 };
    assert_eq!(board.sim.struck(), [lost]);
    let text = lost.to_string();
    assert!(text.starts_with("prime of ep1 IN was lost: the dTD at 0x80002040"), "{text}");
    assert!(text.ends_with("(erratum of revision 2.4)"), "{text}");
    // A prime makes up for it.
    board.prime(3, dtd(1));
    assert_eq!(board.input(1).0, data(Data1, 5));
}

#[test]
fn it_strikes_each_time_that_it_could_for_so_many_times() {
    let board = losing(3);
    board.bulk(1, 512);
    let mut pid = Data0;
    for round in 1..=7 {
        append_and_take(&board, 2 * round, pid);
        let lost = round % 3 == 0;
        assert_eq!(board.r(R::Stat) == 0, lost, "round {round}");
        if lost {
            pid = pid.toggled();
        } else {
            assert_eq!(board.input(1).0, data(pid.toggled(), 5));
        }
    }
    assert_eq!(board.sim.struck().len(), 2);
}

#[test]
fn what_was_linked_before_the_controller_came_to_it_is_never_lost() {
    let board = losing(1);
    board.bulk(1, 512);
    board.dtd(0, BUFFERS, 4, IOC);
    board.dtd(1, BUFFERS, 5, IOC);
    board.link(0, 1);
    board.prime(3, dtd(0));
    assert_eq!(board.input(1).0, data(Data0, 4));
    assert_eq!(board.input(1).0, data(Data1, 5));
    // Nor what is added as two.
    board.dtd(2, BUFFERS, 6, IOC);
    board.prime(3, dtd(2));
    board.dtd(3, BUFFERS, 7, 0);
    board.dtd(4, BUFFERS, 8, IOC);
    board.link(3, 4);
    board.link(2, 3);
    for (pid, len) in [(Data0, 6), (Data1, 7), (Data0, 8)] {
        assert_eq!(board.input(1).0, data(pid, len));
    }
    assert_eq!(struck(&board.sim), [""; 0]);
}

#[test]
fn the_id_register_says_the_revision_that_has_the_erratum() {
    // ID lies at the window's begin.
    let id = |errata| Board::new(config(errata)).sim.read32(0);
    let lost =
        |revision| Errata { lost_appends: Some(LostAppends { revision, every: NonZeroU32::MIN }), ..Errata::default() };
    let version_and_revision = |id: u32| (id >> 25 & 0xf, id >> 21 & 0xf);
    assert_eq!(version_and_revision(id(lost(Revision::R22))), (2, 2));
    assert_eq!(version_and_revision(id(lost(Revision::R24))), (2, 4));
    assert_eq!(version_and_revision(id(Errata { foreign_in_unprimes: true, ..Errata::default() })), (2, 5));
    assert_eq!(id(lost(Revision::R22)) & !(0xff << 21), id(Errata::default()) & !(0xff << 21), "the rest stays");
}

/// Endpoint 2 IN is isochronous, endpoints 1 and 3 OUT are primed; the device has address 5.
fn isochronous(errata: Errata) -> Board {
    let board = Board::running(config(errata), Speed::High);
    board.bulk(1, 512);
    board.bulk(3, 512);
    board.head(5, ZLT | 64 << 16 | 1 << 30);
    board.w(R::Ctrl(2), 0x0084_0000);
    board.w(R::Addr, 5 << 25);
    for (index, slot) in [(0, 2), (1, 6)] {
        let at = board.dtd(index, BUFFERS, 512, IOC);
        board.prime(slot, at);
    }
    board
}

fn in_token(board: &Board, address: u8, endpoint: u8) -> InReply {
    board.sim.data_in(Target { address, endpoint }, &mut [0; 64], HostAck::Sent)
}

const ERR050101: Errata = Errata { lost_appends: None, foreign_in_unprimes: true };

#[test]
fn an_in_token_for_another_device_unprimes_the_lowest_out_endpoint() {
    let board = isochronous(ERR050101);
    assert_eq!(in_token(&board, 7, 2), InReply::Silence);
    assert_eq!(board.r(R::Stat), bit(6), "endpoint 1 is primed no more");
    assert_eq!((board.r(R::Sts), board.r(R::Complete)), (0, 0), "in silence");
    let to = Target { address: 5, endpoint: 1 };
    assert_eq!(board.sim.data_out(to, Data0, &[1; 512]), Handshake::Nak);
    let told = "ep1 OUT was unprimed by an IN token to addr 7 ep2, another device (ERR050101)";
    assert_eq!(struck(&board.sim), [told]);
    assert_eq!(in_token(&board, 7, 2), InReply::Silence);
    assert_eq!(board.r(R::Stat), 0, "then endpoint 3");
    assert_eq!(in_token(&board, 7, 2), InReply::Silence);
    assert_eq!(struck(&board.sim).len(), 2, "nothing is left to unprime");
}

#[test]
fn other_tokens_and_other_parts_unprime_nothing() {
    let both = bit(2) | bit(6);
    let board = isochronous(ERR050101);
    in_token(&board, 7, 1);
    in_token(&board, 5, 2);
    board.sim.data_out(Target { address: 7, endpoint: 2 }, Data0, &[0; 8]);
    board.sim.setup(Target { address: 7, endpoint: 0 }, &[0; 8]);
    assert_eq!(board.r(R::Stat), both, "another endpoint, its own address, OUT and SETUP");
    board.sim.suspend();
    in_token(&board, 7, 2);
    board.sim.resume();
    assert_eq!(board.r(R::Stat), both, "a bus that is asleep carries no token");
    board.w(R::Ctrl(2), 0x0088_0000);
    in_token(&board, 7, 2);
    assert_eq!(board.r(R::Stat), both, "a bulk endpoint");
    board.w(R::Ctrl(2), 0x0004_0000);
    in_token(&board, 7, 2);
    assert_eq!(board.r(R::Stat), both, "disabled");
    let board = isochronous(Errata::default());
    in_token(&board, 7, 2);
    assert_eq!((board.r(R::Stat), struck(&board.sim).len()), (both, 0), "a part without the erratum");
}
