//! What the order of the dQHs does to the controller: the fault of January 2023, from the device's side.

mod mock;

use mock::*;
use usb::Speed;
use usb::wire::{Handshake, InReply};

const GET_DESCRIPTOR: [u8; 8] = [0x80, 6, 0, 1, 0, 0, 64, 0];
/// A page of 64 blocks, handed out from its end.
const PAGE: u32 = HEADS;

/// Where a descending pool puts the driver's `slot`.
fn descending(slot: u32) -> u32 {
    PAGE + 0xfc0 - 64 * slot
}

/// A driver with `endpoints` whose dQHs descend. The blocks that are left hold a link in their first word.
fn board(endpoints: u8, link: u32) -> Board {
    let board = Board::running(chipidea_sim::Config { endpoints, ..Default::default() }, Speed::Full);
    board.fill(PAGE, &[0; 0x1000]);
    for block in 0..64 {
        board.poke(PAGE + 64 * block, link);
    }
    for slot in 0..2 * u32::from(endpoints) {
        board.fill(descending(slot), &[0; 64]);
        board.poke(descending(slot) + 8, T);
    }
    for slot in [0, 1] {
        board.poke(descending(slot), IOS | ZLT | 64 << 16);
    }
    board.watch.take();
    board.w(R::List, descending(0));
    assert_eq!(board.r(R::List), PAGE + 0x800, "masked");
    let count = 2 * u32::from(endpoints);
    assert_eq!(board.watch.take()[0], format!("layout ENDPTLISTADDR {:#x} {count}", descending(0)));
    board
}

#[test]
fn sixteen_endpoints_a_zeroed_dqh_of_another_endpoint_takes_the_setup_in_silence() {
    let board = board(16, 0);
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack);
    assert_eq!(board.bytes(descending(31) + 40, 8), GET_DESCRIPTOR, "hardware's slot 0 is the driver's slot 31");
    assert_eq!(board.bytes(descending(0) + 40, 8), [0; 8]);
    assert_eq!((board.r(R::SetupStat), board.r(R::Sts), board.level()), (1, 0, false), "no IOS there: the host waits");
    assert_eq!(board.input(0).0, InReply::Nak);
}

#[test]
fn eight_endpoints_bit_15_of_a_free_blocks_link_decides() {
    for (link, interrupt) in [(0xffff_0040, 0), (0xffff_8040, UI)] {
        let board = board(8, link);
        assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack);
        assert_eq!(board.bytes(PAGE + 0x828, 8), GET_DESCRIPTOR, "into a free block");
        assert_eq!((board.r(R::Sts), board.level()), (interrupt, interrupt != 0));
        // The driver looks into its own dQH and refuses what it finds there.
        assert_eq!(board.bytes(descending(0) + 40, 8), [0; 8]);
        board.w(R::SetupStat, 1);
        board.w(R::Ctrl(0), 0x0001_0001);
        assert_eq!(board.input(0).0, InReply::Stall);
    }
}

#[test]
fn what_is_primed_damages_the_free_block() {
    let board = board(8, 0xffff_8040);
    let at = board.dtd(0, BUFFERS, 18, IOC);
    // The driver prepares its own dQH of ep0 IN; the controller looks at another block.
    board.poke(descending(1) + 8, at);
    board.poke(PAGE + 0x840 + 8, at);
    board.w(R::Prime, bit(1));
    assert_eq!(board.peek(PAGE + 0x840 + 4), at, "current dTD, over the upper half of the pool's link");
    assert_eq!(board.bytes(PAGE + 0x848, 28), board.bytes(at, 28));
}
