//! Control transfers on endpoint 0.

mod mock;

use mock::*;
use usb::wire::DataPid::{Data0, Data1};
use usb::wire::{Handshake, HostAck, InReply, Target};
use usb::{Speed, UsbPort};

const GET_DESCRIPTOR: [u8; 8] = [0x80, 6, 0, 1, 0, 0, 64, 0];
const SET_ADDRESS: [u8; 8] = [0, 5, 7, 0, 0, 0, 0, 0];

#[test]
fn a_control_read_in_three_stages() {
    let board = Board::high();
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack);
    assert_eq!(board.bytes(HEADS + 40, 8), GET_DESCRIPTOR, "eight bytes at dQH + 40");
    assert_eq!((board.r(R::SetupStat), board.r(R::Sts), board.level()), (1, UI, true));
    board.w(R::Sts, UI);
    board.w(R::SetupStat, 1);
    assert_eq!((board.r(R::SetupStat), board.level()), (0, false));

    assert_eq!(board.input(0).0, InReply::Nak, "nothing primed");
    board.fill(BUFFERS, b"eighteen bytes....");
    let at = board.dtd(0, BUFFERS, 18, IOC);
    board.prime(1, at);
    assert_eq!(board.r(R::Stat), bit(1));
    assert_eq!(board.input(0), (data(Data1, 18), b"eighteen bytes....".to_vec()));
    assert_eq!(board.token(0), IOC, "retired: not active, nothing left");
    assert_eq!((board.r(R::Stat), board.r(R::Complete), board.r(R::Sts)), (0, bit(1), UI));

    board.w(R::Complete, bit(1));
    let at = board.dtd(1, 0, 0, IOC);
    board.prime(0, at);
    assert_eq!(board.out(0, Data1, &[]), Handshake::Ack, "status stage");
    assert_eq!((board.token(1), board.r(R::Complete)), (IOC, bit(0)));
}

#[test]
fn set_address_after_the_status_stage() {
    let board = Board::high();
    board.setup(SET_ADDRESS);
    board.w(R::SetupStat, 1);
    let at = board.dtd(0, 0, 0, IOC);
    board.prime(1, at);
    assert_eq!(board.input(0), (data(Data1, 0), vec![]));
    board.w(R::Addr, 7 << 25);
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Silence, "address 0 is no more");
    assert_eq!(board.sim.setup(Target { address: 7, endpoint: 0 }, &GET_DESCRIPTOR), Handshake::Ack);
}

#[test]
fn usbadra_latches_the_address_at_the_next_in() {
    let board = Board::high();
    board.setup(SET_ADDRESS);
    board.w(R::SetupStat, 1);
    board.w(R::Addr, 7 << 25 | 1 << 24);
    assert_eq!(board.r(R::Addr), 1 << 24, "staged, not in force");
    let at = board.dtd(0, 0, 0, IOC);
    board.prime(1, at);
    let mut none = [];
    assert_eq!(board.sim.data_in(ep(0), &mut none, HostAck::Lost), data(Data1, 0));
    assert_eq!(board.r(R::Addr), 1 << 24, "the host did not acknowledge");
    assert_eq!(board.sim.data_in(ep(0), &mut none, HostAck::Sent), data(Data1, 0));
    assert_eq!(board.r(R::Addr), 7 << 25);
}

#[test]
fn a_setup_drops_a_staged_address() {
    let board = Board::high();
    board.w(R::Addr, 7 << 25 | 1 << 24);
    board.setup(GET_DESCRIPTOR);
    assert_eq!(board.r(R::Addr), 0);
}

#[test]
fn an_address_written_at_once_replaces_a_staged_one() {
    let board = Board::high();
    board.w(R::Addr, 7 << 25 | 1 << 24);
    board.w(R::Addr, 0);
    let at = board.dtd(0, 0, 0, IOC);
    board.prime(1, at);
    assert_eq!(board.input(0).0, data(Data0, 0));
    assert_eq!(board.r(R::Addr), 0);
}

#[test]
fn without_ios_a_setup_raises_no_interrupt() {
    let board = Board::high();
    board.poke(HEADS, ZLT | 64 << 16);
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack);
    assert_eq!((board.r(R::SetupStat), board.r(R::Sts), board.level()), (1, 0, false));
}

#[test]
fn a_setup_clears_sutw_so_that_the_tripwire_loop_reads_again() {
    let board = Board::high();
    board.setup(GET_DESCRIPTOR);
    let mut rounds = 0;
    let read = loop {
        rounds += 1;
        board.w(R::Cmd, board.r(R::Cmd) | SUTW);
        let mut read = board.bytes(HEADS + 40, 4);
        if rounds == 1 {
            // In the middle of the driver's reads.
            board.setup(SET_ADDRESS);
        }
        read.extend(board.bytes(HEADS + 44, 4));
        if board.r(R::Cmd) & SUTW != 0 {
            break read;
        }
    };
    assert_eq!((rounds, read.as_slice()), (2, SET_ADDRESS.as_slice()));
}

#[test]
fn setup_lockout_holds_until_setupstat_is_cleared() {
    let board = Board::new(chipidea_sim::Config::default());
    board.sim.set_vbus(true);
    board.start();
    board.w(R::Mode, 2);
    board.bus_reset(Speed::High);
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack);
    assert_eq!(board.setup(SET_ADDRESS), Handshake::Silence, "SLOM = 0");
    assert_eq!(board.bytes(HEADS + 40, 8), GET_DESCRIPTOR);
    board.w(R::SetupStat, 1);
    assert_eq!(board.setup(SET_ADDRESS), Handshake::Ack);
    board.w(R::Mode, 2 | 8);
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack, "SLOM = 1: overwritten");
    assert_eq!(board.bytes(HEADS + 40, 8), GET_DESCRIPTOR);
}

#[test]
fn a_setup_over_a_pending_transfer_keeps_it_from_answering() {
    let board = Board::high();
    board.setup(GET_DESCRIPTOR);
    board.w(R::SetupStat, 1);
    let at = board.dtd(0, BUFFERS, 18, IOC);
    board.prime(1, at);
    assert_eq!(board.setup(SET_ADDRESS), Handshake::Ack, "always");
    assert_eq!(board.input(0).0, InReply::Nak, "the primed data belongs to the transfer before");
    assert_eq!(board.r(R::Stat), bit(1), "the driver flushes it");
    let at = board.dtd(1, 0, 0, IOC);
    board.prime(0, at);
    assert_eq!(board.r(R::Stat), bit(1), "a prime fails while SETUPSTAT is set");
    board.w(R::Flush, bit(1));
    board.w(R::SetupStat, 1);
    let at = board.dtd(2, 0, 0, IOC);
    board.prime(1, at);
    assert_eq!(board.input(0).0, data(Data1, 0), "the new transfer's status");
}

#[test]
fn a_setup_clears_a_stall_and_one_set_too_late() {
    let board = Board::high();
    board.setup(GET_DESCRIPTOR);
    board.w(R::SetupStat, 1);
    board.w(R::Ctrl(0), 0x0001_0001);
    assert_eq!((board.input(0).0, board.out(0, Data1, &[])), (InReply::Stall, Handshake::Stall));
    assert_eq!(board.setup(SET_ADDRESS), Handshake::Ack);
    assert_eq!(board.r(R::Ctrl(0)), 0x0080_0080, "endpoint 0 is always enabled");

    // The driver refuses the first request while the second is already there.
    board.w(R::Ctrl(0), 0x0001_0000);
    assert_eq!(board.input(0).0, InReply::Nak);
    board.w(R::SetupStat, 1);
    assert_eq!(board.input(0).0, InReply::Nak, "the stall went with the request it was for");
}

#[test]
fn a_setup_to_another_control_endpoint_uses_its_own_slot() {
    let board = Board::high();
    board.head(6, IOS | ZLT | 64 << 16);
    board.w(R::Ctrl(3), 0x0080_0080);
    assert_eq!(board.sim.setup(ep(3), &GET_DESCRIPTOR), Handshake::Ack);
    assert_eq!(board.bytes(HEADS + 6 * 64 + 40, 8), GET_DESCRIPTOR, "slot 2n");
    assert_eq!(board.r(R::SetupStat), 1 << 3);
    board.bulk(4, 512);
    assert_eq!(board.sim.setup(ep(4), &GET_DESCRIPTOR), Handshake::Silence, "a bulk endpoint");
    assert_eq!(board.sim.setup(ep(5), &GET_DESCRIPTOR), Handshake::Silence, "not enabled");
    assert_eq!(board.sim.setup(ep(8), &GET_DESCRIPTOR), Handshake::Silence, "not there");
}

#[test]
fn a_control_write_starts_with_data1() {
    let board = Board::high();
    board.setup([0x21, 0, 0, 0, 0, 0, 100, 0]);
    board.w(R::SetupStat, 1);
    let at = board.dtd(0, BUFFERS, 100, IOC);
    board.prime(0, at);
    assert_eq!(board.out(0, Data1, &[1; 64]), Handshake::Ack);
    assert_eq!(board.out(0, Data1, &[9; 64]), Handshake::Ack, "repeated: acknowledged and dropped");
    assert_eq!(board.out(0, Data0, &[2; 36]), Handshake::Ack);
    assert_eq!(board.token(0), IOC);
    assert_eq!(board.bytes(BUFFERS, 100), [vec![1; 64], vec![2; 36]].concat());
}

#[test]
fn toggles_of_endpoint_0_are_not_the_drivers_business() {
    let board = Board::high();
    board.setup(GET_DESCRIPTOR);
    board.w(R::SetupStat, 1);
    board.w(R::Ctrl(0), 0x0040_0040);
    let at = board.dtd(0, BUFFERS, 18, IOC);
    board.prime(1, at);
    assert_eq!(board.input(0).0, data(Data1, 18), "TXR is reserved there");
}

#[test]
fn setupstat_of_an_endpoint_that_is_control_no_more() {
    let board = Board::high();
    board.head(6, IOS | ZLT | 64 << 16);
    board.w(R::Ctrl(3), 0x0080_0080);
    board.sim.setup(ep(3), &GET_DESCRIPTOR);
    board.w(R::Ctrl(3), 0x0089_0089);
    board.w(R::SetupStat, 1 << 3);
    assert_eq!((board.r(R::Ctrl(3)), board.input(3).0), (0x0089_0089, InReply::Stall), "a bulk endpoint's stall");
}
