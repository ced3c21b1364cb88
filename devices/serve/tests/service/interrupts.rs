//! INTx, MSI and MSI-X by eventfd.

use std::os::fd::{AsFd, BorrowedFd};

use crate::board::{Board, LINES, MESSAGE, MSI_CONTROL, MSIX_CONTROL, TIMER};
use crate::client::{Bell, Client, EINVAL, EOPNOTSUPP};

const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;

const NONE: u32 = 1;
const BOOL: u32 = 2;
const EVENTFD: u32 = 4;
const MASK: u32 = 8;
const UNMASK: u32 = 16;
const TRIGGER: u32 = 32;

fn assign(client: &mut Client, index: u32, start: u32, bells: &[&Bell]) {
    let fds: Vec<BorrowedFd<'_>> = bells.iter().map(|bell| bell.fd()).collect();
    client.set_irqs(index, EVENTFD | TRIGGER, (start, fds.len() as u32), &[], &fds).expect("assigned");
}

#[test]
fn intx_is_a_level_that_masks_itself() {
    let board = Board::new();
    let mut client = board.client();
    let bell = Bell::new();
    assign(&mut client, INTX, 0, &[&bell]);
    assert_eq!(bell.count(), 0);
    client.write32(LINES, 1);
    assert_eq!(bell.count(), 1);
    client.write32(LINES, 0);
    client.write32(LINES, 1);
    assert_eq!(bell.count(), 0, "masked by the first");
    client.set_irqs(INTX, NONE | UNMASK, (0, 1), &[], &[]).expect("unmasked");
    assert_eq!(bell.count(), 1, "still up");
    client.write32(LINES, 0);
    client.set_irqs(INTX, NONE | UNMASK, (0, 1), &[], &[]).expect("unmasked");
    assert_eq!(bell.count(), 0, "down");
    client.write32(LINES, 2);
    assert_eq!(bell.count(), 1, "every line of the device shows");
}

#[test]
fn intx_is_masked_by_the_client() {
    let board = Board::new();
    let mut client = board.client();
    let bell = Bell::new();
    assign(&mut client, INTX, 0, &[&bell]);
    client.set_irqs(INTX, BOOL | MASK, (0, 1), &[0], &[]).expect("not chosen");
    client.set_irqs(INTX, BOOL | MASK, (0, 1), &[1], &[]).expect("masked");
    client.write32(LINES, 1);
    assert_eq!(bell.count(), 0);
    client.set_irqs(INTX, BOOL | UNMASK, (0, 1), &[1], &[]).expect("unmasked");
    assert_eq!(bell.count(), 1);
}

#[test]
fn a_level_from_before_the_eventfd_is_not_lost() {
    let board = Board::new();
    let mut client = board.client();
    client.write32(LINES, 1);
    let bell = Bell::new();
    assign(&mut client, INTX, 0, &[&bell]);
    assert_eq!(bell.count(), 1);
    client.set_irqs(INTX, NONE | TRIGGER, (0, 0), &[], &[]).expect("disabled");
    client.write32(LINES, 0);
    client.write32(LINES, 1);
    assert_eq!(bell.count(), 0);
    assign(&mut client, INTX, 0, &[&bell]);
    assert_eq!(bell.count(), 1, "unmasked with its eventfd");
    client.set_irqs(INTX, EVENTFD | TRIGGER, (0, 1), &[], &[]).expect("no descriptors disable");
    client.set_irqs(INTX, NONE | UNMASK, (0, 1), &[], &[]).expect("unmasked");
    assert_eq!(bell.count(), 0);
}

#[test]
fn interrupt_disable_in_configuration_space_holds() {
    let board = Board::new();
    let mut client = board.client();
    let bell = Bell::new();
    assign(&mut client, INTX, 0, &[&bell]);
    client.config_write(0x04, &[6, 4]);
    client.write32(LINES, 1);
    assert_eq!(bell.count(), 0);
    assert_eq!(client.read(7, 0x06, 1), Ok(vec![0x18]), "interrupt status shows it");
    client.config_write(0x04, &[6, 0]);
    assert_eq!(bell.count(), 1);
}

#[test]
fn msix_vectors_come_one_by_one() {
    let board = Board::new();
    let mut client = board.client();
    client.config_write(MSIX_CONTROL, &[0, 0x80]);
    // As QEMU enables it: the first vector without an eventfd.
    client.set_irqs(MSIX, EVENTFD | TRIGGER, (0, 1), &[], &[]).expect("enabled");
    let bells = [Bell::new(), Bell::new(), Bell::new()];
    for (vector, bell) in (0..).zip(&bells) {
        assign(&mut client, MSIX, vector, &[bell]);
    }
    client.write32(MESSAGE, 1);
    client.write32(MESSAGE, 2);
    client.write32(MESSAGE, 2);
    assert_eq!(bells.each_ref().map(Bell::count), [0, 1, 2]);
    client.write32(LINES, 1);
    assert_eq!(bells[0].count(), 1, "a line that rises is a message");
    client.write32(MESSAGE, 3);
    let late = Bell::new();
    assign(&mut client, MSIX, 3, &[&late]);
    assert_eq!(late.count(), 1, "it waited for its eventfd");
    // The function's mask holds messages back.
    client.config_write(MSIX_CONTROL, &[0, 0xc0]);
    client.write32(MESSAGE, 1);
    assert_eq!(bells[1].count(), 0);
    client.config_write(MSIX_CONTROL, &[0, 0x80]);
    assert_eq!(bells[1].count(), 1);
}

#[test]
fn msi_vectors_come_together() {
    let board = Board::new();
    let mut client = board.client();
    let bells = [Bell::new(), Bell::new(), Bell::new(), Bell::new()];
    assign(&mut client, MSI, 0, &bells.each_ref());
    client.write32(MESSAGE, 1);
    assert_eq!(bells[1].count(), 0, "the function has not enabled it");
    client.config_write(MSI_CONTROL, &[0x21, 0]);
    client.write32(MESSAGE, 3);
    client.write32(LINES, 1);
    assert_eq!(bells.each_ref().map(Bell::count), [1, 0, 0, 1]);
    client.config_write(MSI_CONTROL, &[0x01, 0]);
    client.write32(MESSAGE, 3);
    assert_eq!(bells[0].count(), 1, "one vector for all");
    client.set_irqs(MSI, NONE | TRIGGER, (0, 0), &[], &[]).expect("disabled");
    client.write32(MESSAGE, 0);
    assert_eq!(bells[0].count(), 0);
}

#[test]
fn the_client_triggers_by_itself() {
    let board = Board::new();
    let mut client = board.client();
    let bells = [Bell::new(), Bell::new(), Bell::new()];
    assign(&mut client, MSIX, 0, &bells.each_ref());
    client.set_irqs(MSIX, NONE | TRIGGER, (0, 3), &[], &[]).expect("triggered");
    client.set_irqs(MSIX, BOOL | TRIGGER, (0, 3), &[1, 0, 1], &[]).expect("triggered");
    assert_eq!(bells.each_ref().map(Bell::count), [2, 1, 2]);
}

#[test]
fn nonsense_is_refused() {
    let board = Board::new();
    let mut client = board.client();
    let bell = Bell::new();
    let fds = [bell.fd()];
    let two = [bell.fd(), bell.fd()];
    for (index, flags, range, data, fds) in [
        (5, NONE | TRIGGER, (0, 1), &[][..], &[][..]),
        (INTX, NONE | TRIGGER, (0, 2), &[], &[]),
        (INTX, NONE | TRIGGER, (1, 1), &[], &[]),
        (MSIX, NONE | TRIGGER, (u32::MAX, 2), &[], &[]),
        (INTX, 0, (0, 1), &[], &[]),
        (INTX, NONE | BOOL | TRIGGER, (0, 1), &[1], &[]),
        (INTX, NONE | MASK | UNMASK, (0, 1), &[], &[]),
        (INTX, 0x40 | NONE | TRIGGER, (0, 1), &[], &[]),
        (INTX, NONE | MASK, (0, 0), &[], &[]),
        (INTX, BOOL | MASK, (0, 1), &[1, 1], &[]),
        (INTX, EVENTFD | TRIGGER, (0, 1), &[], &two),
        (INTX, NONE | TRIGGER, (0, 1), &[], &fds),
        (MSIX, NONE | MASK, (0, 1), &[], &[]),
    ] {
        assert_eq!(client.set_irqs(index, flags, range, data, fds), Err(EINVAL), "{index} {flags:#x} {range:?}");
    }
    assert_eq!(client.set_irqs(INTX, EVENTFD | UNMASK, (0, 1), &[], &fds), Err(EOPNOTSUPP), "KVM's shortcut");
}

#[test]
fn an_eventfd_that_is_none_blocks_nobody() {
    let board = Board::new();
    let mut client = board.client();
    let (full, _other) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    full.set_nonblocking(true).expect("a socket");
    while std::io::Write::write(&mut &full, &[0; 4096]).is_ok() {}
    full.set_nonblocking(false).expect("a socket");
    client.set_irqs(INTX, EVENTFD | TRIGGER, (0, 1), &[], &[full.as_fd()]).expect("nobody knows");
    client.write32(LINES, 1);
    assert_eq!(client.read32(LINES), 1);
}

#[test]
fn the_device_is_told_the_time_when_it_waits_for_it() {
    let board = Board::new();
    let mut client = board.client();
    let bell = Bell::new();
    assign(&mut client, INTX, 0, &[&bell]);
    client.write32(TIMER, 30);
    assert_eq!(bell.wait(), 1);
}
