//! Random lists of dTDs: bursts do what single packets do, and the bytes are where the pages say.

mod mock;

use std::cell::Cell;

use mock::*;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use usb::UsbPort;
use usb::wire::DataPid::Data0;
use usb::wire::{Handshake, InReply};

/// A dTD: bytes, offset in its first page, pages in use as numbers, IOC.
type Plan = (u32, u32, [u32; 5], bool);

fn plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![0..0x5000_u32, (0..10_u32).prop_map(|packets| 512 * packets)];
    (len, 0..0x1000_u32, prop::array::uniform5(0..0xc0_u32), any::<bool>())
}

fn prepare(plans: &[Plan], slot: u32, zlt: bool) -> Board {
    let board = Board::unwatched(chipidea_sim::Config::default()).started(usb::Speed::High);
    board.bulk(1, 512);
    board.poke(HEADS + 64 * slot, 512 << 16 | if zlt { ZLT } else { 0 });
    for (i, (len, offset, pages, ioc)) in (0_u32..).zip(plans) {
        let at = board.dtd(i, 0, 0, 0);
        let len = (*len).min(0x5000 - offset);
        board.poke(at + 4, len << 16 | ACTIVE | if *ioc { IOC } else { 0 });
        for (n, page) in (0_u32..).zip(pages) {
            board.poke(at + 8 + 4 * n, BUFFERS + 0x1000 * page + if n == 0 { *offset } else { 0 });
        }
        if i > 0 {
            board.link(i - 1, i);
        }
    }
    board.prime(slot, dtd(0));
    board
}

/// The bytes of a dTD's buffer, page by page.
fn buffer(board: &Board, (_, offset, pages, _): &Plan, len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in *offset..offset + len {
        bytes.extend(board.bytes(BUFFERS + 0x1000 * pages[(i / 0x1000) as usize] + i % 0x1000, 1));
    }
    bytes
}

fn same(one: &Board, other: &Board, slot: u32) {
    for register in [R::Stat, R::Complete, R::Sts, R::Cmd] {
        assert_eq!(one.r(register), other.r(register), "{register:?}");
    }
    if one.r(R::Stat) == 0 {
        // How far the pages in the overlay came before the last burst: nobody's business once the dTD is retired.
        for board in [one, other] {
            board.fill(HEADS + 64 * slot + 16, &[0; 20]);
        }
    }
    assert!(one.bytes(BASE, 0x10_0000) == other.bytes(BASE, 0x10_0000), "memory");
}

fn runner(cases: u32) -> TestRunner {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &[7; 16]))
}

#[test]
fn out_bursts_are_single_packets() {
    let moved = Cell::new(0);
    let strategy = (prop::collection::vec(plan(), 1..5), any::<bool>(), 0..40_000_usize);
    let result = runner(150).run(&strategy, |(plans, zlt, len)| {
        let sent: Vec<u8> = (0..len).map(|i| (i * 31 + i / 509) as u8).collect();
        let (single, burst) = (prepare(&plans, 2, zlt), prepare(&plans, 2, zlt));
        let (mut pid, mut taken) = (Data0, 0);
        for packet in sent.chunks(512) {
            if single.out(1, pid, packet) != Handshake::Ack {
                break;
            }
            pid = pid.toggled();
            taken += packet.len();
        }
        let mut burst_pid = Data0;
        let done = burst.sim.burst_out(ep(1), &mut burst_pid, 512, &sent);
        prop_assert_eq!((done.bytes, burst_pid), (taken, pid));
        same(&single, &burst, 2);
        moved.set(moved.get() + taken);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(moved.get() > 1 << 18);
}

#[test]
fn in_bursts_are_single_packets_and_carry_the_buffers() {
    let moved = Cell::new(0);
    let strategy = (prop::collection::vec(plan(), 1..5), any::<bool>());
    let result = runner(100).run(&strategy, |(plans, zlt)| {
        let (single, burst) = (prepare(&plans, 3, zlt), prepare(&plans, 3, zlt));
        let pattern: Vec<u8> = (0..0xc_0000).map(|i: usize| (i * 13 + i / 4093) as u8).collect();
        for board in [&single, &burst] {
            board.fill(BUFFERS, &pattern);
        }
        let expected: Vec<u8> =
            plans.iter().flat_map(|plan| buffer(&single, plan, plan.0.min(0x5000 - plan.1))).collect();
        let mut got = Vec::new();
        loop {
            let (reply, bytes) = single.input(1);
            if reply == InReply::Nak {
                break;
            }
            prop_assert!(matches!(reply, InReply::Data { .. }), "{:?}", reply);
            got.extend(bytes);
        }
        prop_assert!(got == expected);
        let (mut pid, mut room, mut at) = (Data0, vec![0; 5 * 0x5000], 0);
        loop {
            let done = burst.sim.burst_in(ep(1), &mut pid, 512, &mut room[at..]);
            at += done.bytes;
            if done.packets == 0 {
                break;
            }
        }
        prop_assert!(room[..at] == expected);
        same(&single, &burst, 3);
        moved.set(moved.get() + at);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(moved.get() > 1 << 18);
}
