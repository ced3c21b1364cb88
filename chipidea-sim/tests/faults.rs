//! Memory that does not answer.

mod mock;

use bus::{AccessKind, Trace};
use chipidea_sim::Config;
use devices::{DmaFault, FaultEffect};
use mock::*;
use usb::wire::DataPid::{Data0, Data1};
use usb::wire::{Handshake, InReply};
use usb::{Speed, UsbPort};

fn board(kind: &'static str, access: AccessKind, after: u32) -> Board {
    let effect = FaultEffect::BusError;
    let fault = DmaFault { kind: Some(kind), index: None, access: Some(access), after, times: 1, effect };
    let board = Board::build(Config::default(), vec![fault], Trace::off()).started(Speed::High);
    board.bulk(1, 512);
    board
}

#[test]
fn a_buffer_that_cannot_be_written_halts_an_out_endpoint() {
    let board = board("buffer", AccessKind::Write, 1);
    let at = board.dtd(0, BUFFERS, 1024, 0);
    board.dtd(1, BUFFERS, 512, IOC);
    board.link(0, 1);
    board.prime(2, at);
    assert_eq!(board.out(1, Data0, &[1; 512]), Handshake::Ack);
    assert_eq!(board.out(1, Data1, &[2; 512]), Handshake::Nak);
    assert_eq!(board.token(0), 512 << 16 | HALTED | DT_ERR);
    assert_eq!(board.peek(HEADS + 2 * 64 + 12), board.token(0));
    assert_eq!((board.r(R::Sts), board.r(R::Complete), board.r(R::Stat)), (SEI | UEI, bit(2), 0));
    assert!(board.level());
    // The driver clears the overlay's HALTED and primes again.
    board.prime(2, dtd(1));
    assert_eq!(board.out(1, Data1, &[2; 512]), Handshake::Ack);
}

#[test]
fn a_buffer_that_cannot_be_read_breaks_the_in_packet_off() {
    let board = board("buffer", AccessKind::Read, 0);
    board.prime(3, board.dtd(0, BUFFERS, 1024, IOC));
    assert_eq!(board.input(1).0, InReply::Silence);
    assert_eq!(board.token(0), 1024 << 16 | IOC | HALTED | DT_ERR);
    assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI | UI, 0));
    assert_eq!(board.input(1).0, InReply::Nak);
}

#[test]
fn a_dtd_that_cannot_be_read_is_not_primed() {
    let board = board("dTD", AccessKind::Read, 0);
    board.prime(3, board.dtd(0, BUFFERS, 1024, IOC));
    assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI, 0));
}

#[test]
fn a_link_into_nothing_is_a_system_error() {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(3, 0);
    assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI, 0));
    board.w(R::Sts, !0);
    let at = board.dtd(0, BUFFERS, 4, 0);
    board.poke(at, 0xdead_bee0);
    board.prime(3, at);
    assert_eq!(board.input(1).0, InReply::Data { pid: Data0, len: 4 }, "its data was good");
    assert_eq!((board.token(0), board.r(R::Sts), board.r(R::Stat)), (0, SEI | UEI, 0));
    assert_eq!(board.peek(HEADS + 3 * 64 + 12), HALTED | DT_ERR);
    assert_eq!(board.r(R::Complete), bit(3));
}

#[test]
fn a_token_that_cannot_be_written_shows_in_the_overlay() {
    let board = board("dTD", AccessKind::Write, 0);
    board.prime(2, board.dtd(0, BUFFERS, 4, IOC));
    assert_eq!(board.out(1, Data0, &[1; 4]), Handshake::Ack);
    assert_eq!(board.token(0), 4 << 16 | ACTIVE | IOC, "not written");
    assert_eq!(board.peek(HEADS + 2 * 64 + 12), IOC | HALTED | DT_ERR);
    assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI | UI, 0));
}

#[test]
fn a_dqh_that_cannot_be_read_ends_the_priming() {
    // The prime reads `next`, the token reads the dQH.
    let board = board("dQH", AccessKind::Read, 1);
    board.prime(3, board.dtd(0, BUFFERS, 4, IOC));
    assert_eq!(board.r(R::Stat), bit(3));
    assert_eq!(board.input(1).0, InReply::Silence);
    assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI, 0));
}

#[test]
fn a_setup_that_cannot_be_stored_is_not_acknowledged() {
    let board = board("dQH", AccessKind::Write, 0);
    assert_eq!(board.setup([1; 8]), Handshake::Silence);
    assert_eq!((board.r(R::Sts), board.r(R::SetupStat)), (SEI, 0));
    assert_eq!(board.setup([1; 8]), Handshake::Ack);
}

#[test]
fn an_overlay_that_cannot_be_put_back_halts() {
    // Writes of the dQH: current and overlay at the prime, then the overlay at the end of the burst.
    let board = board("dQH", AccessKind::Write, 2);
    board.prime(3, board.dtd(0, BUFFERS, 1024, IOC));
    assert_eq!(board.input(1).0, InReply::Data { pid: Data0, len: 512 });
    assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI | UI, 0));
    assert_eq!(board.token(0), 512 << 16 | IOC | HALTED | DT_ERR);
}

#[test]
fn with_the_table_outside_memory_everything_is_a_system_error_and_nothing_more() {
    let board = Board::high();
    for list in [0, 0xffff_ffff, 0x1000] {
        board.w(R::List, list);
        board.w(R::Sts, !0);
        assert_eq!(board.setup([0; 8]), Handshake::Silence);
        board.w(R::Prime, !0);
        assert_eq!((board.r(R::Sts), board.r(R::Stat)), (SEI | UEI, 0));
        assert_eq!((board.input(0).0, board.sim.attached()), (InReply::Nak, Some(Speed::Full)));
    }
}
