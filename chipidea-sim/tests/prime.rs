//! Priming, retiring and walking lists of dTDs.

mod mock;

use mock::*;
use usb::UsbPort;
use usb::wire::DataPid::{Data0, Data1};
use usb::wire::{Handshake, InReply};

#[test]
fn prime_names_the_current_dtd_and_copies_it_into_the_overlay() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(3, BUFFERS + 0x123, 700, IOC);
    board.prime(3, at);
    let head = HEADS + 3 * 64;
    assert_eq!(board.peek(head + 4), at, "current dTD");
    assert_eq!(board.bytes(head + 8, 28), board.bytes(at, 28), "overlay");
    assert_eq!(board.r(R::Stat), bit(3));
}

#[test]
fn the_driver_writes_flag_bits_into_the_link() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 4, IOC);
    // Bits 4:1 of a link are reserved.
    board.prime(3, at | 0x1e);
    assert_eq!((board.peek(HEADS + 3 * 64 + 4), board.r(R::Stat)), (at, bit(3)));
}

#[test]
fn without_active_no_stat() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 4, IOC);
    board.poke(at + 4, 4 << 16 | IOC);
    board.prime(3, at);
    assert_eq!((board.r(R::Stat), board.r(R::Sts)), (0, 0));
    assert_eq!(board.peek(HEADS + 3 * 64 + 4), at, "looked at all the same");
    assert_eq!(board.input(1).0, InReply::Nak);
}

#[test]
fn an_ended_list_is_not_primed() {
    let board = Board::high();
    board.bulk(1, 512);
    board.watch.take();
    board.prime(3, T);
    assert_eq!(board.watch.take(), ["Read 4 ep1 IN dQH next"]);
    assert_eq!(board.r(R::Stat), 0);
}

#[test]
fn priming_what_is_primed_changes_nothing() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 1000, IOC);
    board.prime(3, at);
    assert_eq!(board.input(1).0, data(Data0, 512));
    board.watch.take();
    board.w(R::Prime, bit(3));
    assert!(board.watch.take().is_empty());
    assert_eq!(board.input(1).0, data(Data1, 488));
}

#[test]
fn endpoints_that_are_not_there_are_not_primed() {
    let board = Board::high();
    board.w(R::Prime, 0xff00_ff00);
    assert_eq!((board.r(R::Stat), board.r(R::Sts)), (0, 0));
}

#[test]
fn retiring_writes_data_then_token_then_reads_next_then_interrupts() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 512, 0);
    board.dtd(1, BUFFERS + 0x1000, 512, IOC);
    board.link(0, 1);
    board.prime(2, at);
    board.watch.take();
    assert_eq!(board.out(1, Data0, &[7; 512]), Handshake::Ack);
    assert_eq!(
        board.watch.take(),
        [
            "Read 36 ep1 OUT dQH",
            "Write 512 ep1 OUT buffer",
            "Write 4 ep1 OUT dTD 0 token",
            "Write 4 ep1 OUT dQH overlay token",
            "Read 4 ep1 OUT dTD 0 next",
            "Write 4 ep1 OUT dQH current dTD",
            "Read 28 ep1 OUT dTD 1",
            "Write 28 ep1 OUT dQH overlay",
        ]
    );
    assert_eq!((board.token(0), board.r(R::Complete), board.r(R::Sts)), (0, 0, 0), "no IOC: in silence");
    assert_eq!(board.r(R::Stat), bit(2));
    board.out(1, Data1, &[8; 512]);
    assert_eq!((board.token(1), board.r(R::Complete), board.r(R::Sts)), (IOC, bit(2), UI));
    assert_eq!(board.r(R::Stat), 0, "T ended the list");
}

#[test]
fn next_is_read_again_when_a_dtd_is_retired() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 4, IOC);
    board.prime(3, at);
    // Appended as Linux does: the last dTD's next, in memory, with STAT set and no prime.
    board.dtd(1, BUFFERS + 0x1000, 5, IOC);
    board.link(0, 1);
    assert_eq!(board.input(1).0, data(Data0, 4));
    assert_eq!(board.r(R::Stat), bit(3));
    assert_eq!(board.input(1).0, data(Data1, 5));
    assert_eq!(board.r(R::Stat), 0);
}

#[test]
fn walking_the_list_clears_atdtw_so_that_the_append_loop_retries() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 4, IOC);
    board.prime(3, at);
    let mut rounds = 0;
    let primed = loop {
        rounds += 1;
        board.w(R::Cmd, board.r(R::Cmd) | ATDTW);
        let primed = board.r(R::Stat) & bit(3) != 0;
        if rounds == 1 {
            // The host takes the packet in between.
            assert_eq!(board.input(1).0, data(Data0, 4));
        }
        if board.r(R::Cmd) & ATDTW != 0 {
            break primed;
        }
    };
    assert_eq!((rounds, primed), (2, false));
}

#[test]
fn a_next_that_is_not_active_ends_the_walk() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 4, IOC);
    board.dtd(1, BUFFERS, 4, IOC);
    board.poke(dtd(1) + 4, 4 << 16 | IOC);
    board.link(0, 1);
    board.prime(3, at);
    board.input(1);
    assert_eq!((board.r(R::Stat), board.peek(HEADS + 3 * 64 + 4)), (0, dtd(1)));
}

#[test]
fn a_list_that_loops_ends_where_it_began() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 512, 0);
    board.dtd(1, BUFFERS, 512, 0);
    board.link(0, 1);
    board.link(1, 0);
    board.prime(3, at);
    let (mut pid, mut buffer) = (Data0, vec![0; 100 * 512]);
    let burst = board.sim.burst_in(ep(1), &mut pid, 512, &mut buffer);
    assert_eq!((burst.packets, burst.end), (2, usb::wire::BurstEnd::Nak), "the first one is not active any more");
    assert_eq!(board.r(R::Stat), 0);
}

#[test]
fn a_dtd_that_names_itself_and_overwrites_itself_is_bounded_by_the_wire() {
    // The buffer is the dTD: every packet makes it active again.
    let board = Board::high();
    board.bulk(1, 28);
    let at = board.dtd(0, dtd(0), 28, 0);
    board.poke(at, at);
    board.prime(2, at);
    let dtd_bytes = board.bytes(at, 28);
    let (mut pid, packets) = (Data0, dtd_bytes.repeat(1000));
    let burst = board.sim.burst_out(ep(1), &mut pid, 28, &packets);
    assert_eq!(burst.packets, 1, "the token is written after the data");
    assert_eq!(board.r(R::Stat), 0);
}

#[test]
fn flush_takes_stat_away_and_clears_itself() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 4, IOC);
    board.prime(3, at);
    let out = board.dtd(1, BUFFERS, 4, IOC);
    board.prime(2, out);
    board.w(R::Flush, bit(3));
    assert_eq!((board.r(R::Flush), board.r(R::Stat)), (0, bit(2)));
    assert_eq!((board.input(1).0, board.token(0)), (InReply::Nak, 4 << 16 | ACTIVE | IOC));
    board.w(R::Flush, !0);
    assert_eq!(board.r(R::Stat), 0);
    assert_eq!((board.r(R::Complete), board.r(R::Sts)), (0, 0));
}

#[test]
fn the_dqh_table_is_where_endptlistaddr_points_after_masking() {
    let board = Board::high();
    board.watch.take();
    board.w(R::List, HEADS + 0x7c0);
    assert_eq!(board.watch.take(), [format!("layout ENDPTLISTADDR {:#x} 16", HEADS + 0x7c0)], "before masking");
    assert_eq!(board.r(R::List), HEADS);
    board.w(R::List, HEADS + 0x2000);
    board.poke(HEADS + 0x2000, IOS | 64 << 16);
    board.setup([1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(board.bytes(HEADS + 0x2028, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(board.bytes(HEADS + 40, 8), [0; 8]);
}

#[test]
fn sixteen_endpoints() {
    let config = chipidea_sim::Config { endpoints: 16, ..Default::default() };
    let board = Board::running(config, usb::Speed::High);
    board.bulk(15, 512);
    let at = board.dtd(0, BUFFERS, 512, IOC);
    board.prime(31, at);
    assert_eq!(board.r(R::Stat), 1 << 31);
    assert_eq!(board.peek(HEADS + 31 * 64 + 4), at);
    assert_eq!(board.input(15).0, data(Data0, 512));
    assert_eq!(board.r(R::Complete), 1 << 31);
    board.w(R::List, HEADS);
    assert!(board.watch.take().contains(&format!("layout ENDPTLISTADDR {HEADS:#x} 32")));
}

#[test]
fn what_the_driver_damages_in_memory_is_what_the_controller_sees() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 1024, IOC);
    board.prime(3, at);
    assert_eq!(board.input(1).0, data(Data0, 512));
    board.fill(HEADS + 3 * 64, &[0; 64]);
    assert_eq!(board.input(1).0, InReply::Nak, "an overlay that is not active");
}
