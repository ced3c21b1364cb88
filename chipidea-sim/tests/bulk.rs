//! Data: packets, pages, short packets, toggles, halts.

mod mock;

use mock::*;
use usb::wire::DataPid::{Data0, Data1};
use usb::wire::{Burst, BurstEnd, Handshake, HostAck, InReply};
use usb::{Speed, UsbPort};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn a_short_out_packet_retires_the_dtd_and_the_next_one_goes_on() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 1024, 0);
    board.dtd(1, BUFFERS + 0x1000, 1024, IOC);
    board.link(0, 1);
    board.prime(2, at);
    assert_eq!(board.out(1, Data0, &pattern(100)), Handshake::Ack);
    assert_eq!((board.token(0), board.r(R::Complete), board.r(R::Sts)), (924 << 16, 0, 0), "no interrupt without IOC");
    assert_eq!(board.r(R::Stat), bit(2), "the request goes on with its next dTD");
    assert_eq!(board.out(1, Data1, &pattern(200)), Handshake::Ack);
    assert_eq!(board.bytes(BUFFERS + 0x1000, 200), pattern(200));
    assert_eq!((board.token(1), board.r(R::Sts)), (824 << 16 | IOC, UI));
}

#[test]
fn an_empty_out_packet_retires_a_dtd() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 1024, IOC);
    board.prime(2, at);
    board.out(1, Data0, &pattern(512));
    assert_eq!(board.r(R::Complete), 0);
    board.out(1, Data1, &[]);
    assert_eq!((board.token(0), board.r(R::Complete)), (512 << 16 | IOC, bit(2)));
}

#[test]
fn an_in_transfer_ends_with_its_last_byte_when_zlt_is_set() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 1024, IOC);
    board.prime(3, at);
    board.input(1);
    assert_eq!(board.input(1).0, data(Data1, 512));
    assert_eq!(board.input(1).0, InReply::Nak);
    assert_eq!(board.token(0), IOC);
}

#[test]
fn with_zlt_clear_a_full_last_packet_is_followed_by_an_empty_one() {
    let board = Board::high();
    board.bulk(1, 512);
    board.poke(HEADS + 3 * 64, 512 << 16);
    let at = board.dtd(0, BUFFERS, 1024, IOC);
    board.prime(3, at);
    board.input(1);
    board.input(1);
    assert_eq!(board.r(R::Complete), 0);
    assert_eq!(board.input(1).0, data(Data0, 0));
    assert_eq!((board.token(0), board.r(R::Complete)), (IOC, bit(3)));

    // A short one is not, and neither is one of no bytes.
    board.w(R::Ctrl(1), 0x00c8_0088);
    for (len, pid) in [(500, Data0), (0, Data1)] {
        board.w(R::Complete, !0);
        board.prime(3, board.dtd(0, BUFFERS, len, IOC));
        assert_eq!(board.input(1).0, data(pid, len as usize));
        assert_eq!(board.r(R::Complete), bit(3));
    }
}

#[test]
fn with_zlt_clear_an_out_dtd_that_is_full_waits_for_the_empty_packet() {
    let board = Board::high();
    board.bulk(1, 512);
    board.poke(HEADS + 2 * 64, 512 << 16);
    let at = board.dtd(0, BUFFERS, 512, IOC);
    board.prime(2, at);
    board.out(1, Data0, &pattern(512));
    assert_eq!(board.r(R::Complete), 0);
    assert_eq!(board.out(1, Data1, &[]), Handshake::Ack);
    assert_eq!((board.token(0), board.r(R::Complete)), (IOC, bit(2)));
}

#[test]
fn pages_are_walked_from_the_offset_and_need_not_be_adjacent() {
    let board = Board::high();
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS + 0xf81, 0x4000, IOC);
    let pages = [BUFFERS + 0xf81, BUFFERS + 0x9000, BUFFERS + 0x3000, BUFFERS + 0x4000, BUFFERS + 0x8000];
    for (i, page) in pages.into_iter().enumerate() {
        board.poke(at + 8 + 4 * i as u32, page);
    }
    board.prime(2, at);
    let sent = pattern(0x4000);
    let mut pid = Data0;
    for packet in sent.chunks(512) {
        assert_eq!(board.out(1, pid, packet), Handshake::Ack);
        pid = pid.toggled();
    }
    assert_eq!(board.token(0), IOC);
    let got = [
        board.bytes(BUFFERS + 0xf81, 0x7f),
        board.bytes(BUFFERS + 0x9000, 0x1000),
        board.bytes(BUFFERS + 0x3000, 0x2000),
        board.bytes(BUFFERS + 0x8000, 0xf81),
    ];
    assert!(got.concat() == sent);
}

#[test]
fn twenty_kib_from_a_page_aligned_buffer() {
    let board = Board::high();
    board.bulk(1, 512);
    let sent = pattern(20 << 10);
    board.fill(BUFFERS, &sent);
    let at = board.dtd(0, BUFFERS, 20 << 10, IOC);
    board.prime(3, at);
    let (mut pid, mut got) = (Data0, vec![0; 20 << 10]);
    let burst = board.sim.burst_in(ep(1), &mut pid, 512, &mut got);
    assert_eq!(burst, Burst { bytes: 20 << 10, packets: 40, end: BurstEnd::Done });
    assert!(got == sent);
    assert_eq!(board.token(0), IOC);
}

#[test]
fn a_burst_gives_the_packets_and_the_memory_that_single_packets_give() {
    let sent = pattern(3 * 2048 + 77);
    let prepare = || {
        let board = Board::high();
        board.bulk(1, 512);
        for i in 0..4 {
            board.dtd(i, BUFFERS + 0x1000 * i + 0x10, 2048, if i == 2 { IOC } else { 0 });
            if i > 0 {
                board.link(i - 1, i);
            }
        }
        board.prime(2, dtd(0));
        board
    };
    let (single, burst) = (prepare(), prepare());
    let mut pid = Data0;
    for packet in sent.chunks(512) {
        assert_eq!(single.out(1, pid, packet), Handshake::Ack);
        pid = pid.toggled();
    }
    let mut burst_pid = Data0;
    let done = burst.sim.burst_out(ep(1), &mut burst_pid, 512, &sent);
    assert_eq!(done, Burst { bytes: sent.len(), packets: 13, end: BurstEnd::Done });
    assert_eq!(pid, burst_pid);
    for register in [R::Stat, R::Complete, R::Sts] {
        assert_eq!(single.r(register), burst.r(register));
    }
    assert!(single.bytes(BASE, 0x10_0000) == burst.bytes(BASE, 0x10_0000));
}

#[test]
fn a_burst_loads_the_overlay_once_and_puts_it_back_once() {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(3, board.dtd(0, BUFFERS, 4096, IOC));
    board.watch.take();
    let (mut pid, mut got) = (Data0, vec![0; 2048]);
    assert_eq!(board.sim.burst_in(ep(1), &mut pid, 512, &mut got).packets, 4);
    let seen = board.watch.take();
    assert_eq!(seen.first().map(String::as_str), Some("Read 36 ep1 IN dQH"));
    assert_eq!(seen.last().map(String::as_str), Some("Write 28 ep1 IN dQH overlay"));
    assert_eq!(seen[1..5], ["Read 512 ep1 IN buffer"; 4]);
    assert_eq!(seen.len(), 6);
}

#[test]
fn a_repeated_packet_is_acknowledged_and_dropped() {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(2, board.dtd(0, BUFFERS, 1024, IOC));
    board.out(1, Data0, &[1; 512]);
    assert_eq!(board.out(1, Data0, &[2; 512]), Handshake::Ack);
    assert_eq!(board.bytes(BUFFERS + 512, 1), [0]);
    board.out(1, Data1, &[3; 512]);
    assert_eq!(board.bytes(BUFFERS, 1024), [[1; 512], [3; 512]].concat());
}

#[test]
fn a_packet_whose_ack_was_lost_is_sent_again() {
    let board = Board::high();
    board.bulk(1, 512);
    board.fill(BUFFERS, &pattern(10));
    board.prime(3, board.dtd(0, BUFFERS, 10, IOC));
    let mut buffer = [0; 512];
    for _ in 0..2 {
        assert_eq!(board.sim.data_in(ep(1), &mut buffer, HostAck::Lost), data(Data0, 10));
        assert_eq!((board.r(R::Stat), board.token(0)), (bit(3), 10 << 16 | ACTIVE | IOC));
    }
    assert_eq!(board.input(1), (data(Data0, 10), pattern(10)));
    assert_eq!(board.r(R::Stat), 0);
}

#[test]
fn rxr_and_txr_reset_the_toggles() {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(2, board.dtd(0, BUFFERS, 512, 0));
    board.prime(3, board.dtd(1, BUFFERS, 512, 0));
    board.out(1, Data0, &[1; 512]);
    assert_eq!(board.input(1).0, data(Data0, 512));
    board.w(R::Ctrl(1), 0x0088_00c8);
    assert_eq!(board.r(R::Ctrl(1)), 0x0088_0088, "the reset bit reads as 0");
    board.prime(2, board.dtd(0, BUFFERS, 512, 0));
    board.prime(3, board.dtd(1, BUFFERS, 512, 0));
    assert_eq!(board.input(1).0, data(Data1, 512), "only RX was reset");
    assert_eq!(board.out(1, Data0, &[5; 512]), Handshake::Ack);
    assert_eq!((board.token(0), board.bytes(BUFFERS, 1)), (0, vec![5]));
}

#[test]
fn a_host_that_babbles_halts_the_endpoint() {
    for (total, len) in [(600, 512), (1024, 513)] {
        let board = Board::high();
        board.bulk(1, 512);
        board.fill(BUFFERS, &[0xee; 2048]);
        let at = board.dtd(0, BUFFERS, total, 0);
        board.dtd(1, BUFFERS + 0x1000, 512, IOC);
        board.link(0, 1);
        board.prime(2, at);
        if total == 600 {
            assert_eq!(board.out(1, Data0, &[1; 512]), Handshake::Ack);
        }
        let pid = if total == 600 { Data1 } else { Data0 };
        assert_eq!(board.out(1, pid, &vec![2; len]), Handshake::Nak);
        let left = if total == 600 { 0 } else { 1024 - 513 };
        assert_eq!(board.token(0), left << 16 | HALTED | DT_ERR);
        assert_eq!(board.peek(HEADS + 2 * 64 + 12), board.token(0), "the overlay says so too");
        assert_eq!(board.bytes(BUFFERS + total - left, 1), [0xee], "nothing beyond the room");
        assert_eq!(board.r(R::Stat), 0, "the rest of the list is not carried out");
        assert_eq!((board.r(R::Sts), board.r(R::Complete)), (UEI, bit(2)), "UI only with IOC");
        assert_eq!(board.out(1, pid, &[3; 512]), Handshake::Nak);
    }
}

#[test]
fn a_stalled_endpoint_says_so_until_the_driver_clears_it() {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(2, board.dtd(0, BUFFERS, 512, IOC));
    board.w(R::Ctrl(1), 0x0089_0089);
    assert_eq!((board.out(1, Data0, &[1; 512]), board.input(1).0), (Handshake::Stall, InReply::Stall));
    assert_eq!(board.r(R::Stat), bit(2));
    board.w(R::Ctrl(1), 0x00c8_00c8);
    assert_eq!((board.out(1, Data0, &[1; 512]), board.input(1).0), (Handshake::Ack, InReply::Nak));
}

#[test]
fn an_endpoint_that_is_not_enabled_is_silent() {
    let board = Board::high();
    board.bulk(1, 512);
    board.w(R::Ctrl(1), 0x0088_0008);
    assert_eq!((board.out(1, Data0, &[1]), board.input(1).0), (Handshake::Silence, InReply::Nak));
    assert_eq!((board.out(2, Data0, &[1]), board.input(2).0), (Handshake::Silence, InReply::Silence));
    assert_eq!((board.out(200, Data0, &[1]), board.input(200).0), (Handshake::Silence, InReply::Silence));
}

#[test]
fn a_max_packet_of_0_moves_nothing_and_ends() {
    let board = Board::high();
    board.bulk(1, 0);
    board.prime(3, board.dtd(0, BUFFERS, 100, IOC));
    let (mut pid, mut buffer) = (Data0, [0; 512]);
    let burst = board.sim.burst_in(ep(1), &mut pid, 0, &mut buffer);
    assert_eq!(burst, Burst { bytes: 0, packets: 1, end: BurstEnd::Short });
    assert_eq!(board.r(R::Stat), bit(3), "the dTD is never done");
    board.prime(2, board.dtd(1, BUFFERS, 100, IOC));
    assert_eq!(board.out(1, Data0, &[]), Handshake::Ack, "an empty packet is a short one");
    board.prime(2, board.dtd(1, BUFFERS, 100, IOC));
    assert_eq!(board.out(1, Data1, &[1]), Handshake::Nak);
    assert_eq!(board.token(1), 99 << 16 | IOC | HALTED | DT_ERR);
}

#[test]
fn an_in_packet_longer_than_the_hosts_buffer_is_not_taken() {
    let board = Board::high();
    board.bulk(1, 512);
    board.fill(BUFFERS, &pattern(512));
    board.prime(3, board.dtd(0, BUFFERS, 512, IOC));
    let mut small = [0; 8];
    assert_eq!(board.sim.data_in(ep(1), &mut small, HostAck::Sent), data(Data0, 512));
    assert_eq!((small.as_slice(), board.r(R::Stat)), (&pattern(8)[..], bit(3)));
    let mut pid = Data0;
    assert_eq!(board.sim.burst_in(ep(1), &mut pid, 512, &mut small).end, BurstEnd::Babble);
    let mut large = [0; 1024];
    assert_eq!(board.sim.burst_in(ep(1), &mut pid, 64, &mut large).end, BurstEnd::Babble, "longer than its packets");
    assert_eq!(board.r(R::Stat), bit(3));
}

#[test]
fn full_speed_packets() {
    let board = Board::running(chipidea_sim::Config::default(), Speed::Full);
    board.bulk(1, 64);
    board.prime(3, board.dtd(0, BUFFERS, 130, IOC));
    let lens = [board.input(1).0, board.input(1).0, board.input(1).0];
    assert_eq!(lens, [data(Data0, 64), data(Data1, 64), data(Data0, 2)]);
}

#[test]
fn an_isochronous_dtd_has_mult_packets() {
    let board = Board::high();
    board.w(R::Ctrl(1), 0x0084_0084);
    for (slot, capabilities) in [(2, 2 << 30 | ZLT | 512 << 16), (3, 3 << 30 | ZLT | 512 << 16)] {
        board.head(slot, capabilities);
    }
    assert_eq!(board.input(1).0, data(Data0, 0), "not primed: an empty packet, never NAK");
    assert_eq!(board.out(1, Data0, &[0; 512]), Handshake::Silence);
    board.prime(2, board.dtd(0, BUFFERS, 4096, IOC));
    for pid in [Data0, Data0] {
        // No toggle is checked: there is no repetition to find.
        board.out(1, pid, &[1; 512]);
    }
    assert_eq!((board.token(0), board.r(R::Stat)), (3072 << 16 | IOC, 0), "Mult of the dQH");
    board.prime(3, board.dtd(1, BUFFERS, 2048, IOC | 2 << 10));
    board.input(1);
    board.input(1);
    assert_eq!(board.token(1), 1024 << 16 | IOC | 2 << 10 | TR_ERR, "MultO of the dTD, and not fulfilled");
    board.prime(3, board.dtd(1, BUFFERS, 1000, IOC));
    board.input(1);
    assert_eq!(board.input(1).0, data(Data0, 488));
    assert_eq!(board.token(1), IOC);
}

#[test]
fn hints_come_once_for_an_endpoint_that_made_the_host_wait() {
    let board = Board::high();
    board.bulk(1, 512);
    let hints = std::sync::Arc::new(Log::default());
    board.sim.set_listener(Some(hints.clone()));
    board.prime(2, board.dtd(0, BUFFERS, 512, 0));
    assert!(hints.take().is_empty(), "nobody waits");
    let mut pid = Data1;
    let mut buffer = [0; 512];
    board.sim.burst_in(ep(1), &mut pid, 512, &mut buffer);
    board.prime(3, board.dtd(1, BUFFERS, 512, 0));
    assert_eq!(hints.take(), ["ready ep1 IN"]);
    board.out(1, Data0, &[1; 512]);
    board.out(1, Data1, &[1; 512]);
    board.w(R::Ctrl(1), 0x0088_0089);
    assert_eq!(hints.take(), ["ready ep1 OUT"], "a stall is an answer too");
    board.setup([0; 8]);
    board.input(0);
    board.w(R::SetupStat, 1);
    assert_eq!(hints.take(), ["ready ep0 IN"]);
}
