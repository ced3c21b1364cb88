//! Memory with a file descriptor.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use bus::DmaAddr;
use devices::DmaMemory;

use crate::board::{ADDRESS, Board, COMMAND, LENGTH, LOAD, READ, SCRATCH, STATUS, STORE, WRITE};
use crate::client::{Bell, Client, EEXIST, EINVAL, ENOENT, memfd};

const BASE: u64 = 0x4000_0000;
const READ_WRITE: u32 = 3;

fn bytes_of(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).expect("memory");
    bytes
}

/// Has the device do `command`; whether it succeeded.
fn dma(client: &mut Client, command: u32, address: u64, length: u32) -> bool {
    client.write64(ADDRESS, address);
    client.write32(LENGTH, length);
    client.write32(COMMAND, command);
    client.read32(STATUS) == 0
}

#[test]
fn the_device_reads_and_writes_across_borders() {
    let board = Board::new();
    let mut client = board.client();
    // Two regions that touch, of one file, in the opposite order.
    let file = memfd(&(0..0x3000).map(|at| (at / 16) as u8).collect::<Vec<_>>());
    client.map(BASE, 0x1000, READ_WRITE, Some((file.as_fd(), 0x2000))).expect("mapped");
    client.map(BASE + 0x1000, 0x1000, READ_WRITE, Some((file.as_fd(), 0x1000))).expect("mapped");
    let expected = [bytes_of(&file, 0x2ff0, 16), bytes_of(&file, 0x1000, 16)].concat();
    assert!(dma(&mut client, READ, BASE + 0xff0, 32));
    assert!(dma(&mut client, WRITE, BASE + 0x1800 - 16, 0));
    assert_eq!(bytes_of(&file, 0x1800 - 16, 32), expected);
    assert!(dma(&mut client, WRITE, BASE + 0x1000 - 8, 0));
    assert_eq!([bytes_of(&file, 0x3000 - 8, 8), bytes_of(&file, 0x1000, 24)].concat(), expected);
    assert!(!dma(&mut client, READ, BASE + 0x1ff0, 32), "beyond the end");
    assert!(!dma(&mut client, READ, BASE - 1, 4), "before the begin");
    assert!(!dma(&mut client, READ, u64::MAX - 1, 8), "around the end of addresses");
    assert!(dma(&mut client, READ, BASE + 0x1fff, 1));
}

#[test]
fn words_are_accessed_whole() {
    let board = Board::new();
    let mut client = board.client();
    let file = memfd(&[0; 0x1000]);
    client.map(BASE, 0x1000, READ_WRITE, Some((file.as_fd(), 0))).expect("mapped");
    client.write32(SCRATCH, 0xcafe_f00d);
    assert!(dma(&mut client, STORE, BASE + 8, 0));
    assert_eq!(bytes_of(&file, 8, 4), 0xcafe_f00d_u32.to_le_bytes());
    file.write_all_at(&[1, 2, 3, 4], 0x10).expect("memory");
    assert!(dma(&mut client, LOAD, BASE + 0x10, 0));
    assert_eq!(client.read32(SCRATCH), 0x0403_0201);
    assert!(!dma(&mut client, LOAD, BASE + 2, 0), "not aligned");
    assert!(!dma(&mut client, LOAD, BASE + 0x1000, 0), "not there");
}

#[test]
fn regions_come_and_go() {
    let board = Board::new();
    let mut client = board.client();
    let file = memfd(&[7; 0x2000]);
    let map = |client: &mut Client, address, size| client.map(address, size, READ_WRITE, Some((file.as_fd(), 0)));
    map(&mut client, BASE, 0x2000).expect("mapped");
    for (address, size) in [(BASE, 0x2000), (BASE + 0x1000, 0x1000), (BASE - 0x1000, 0x2000), (BASE - 0x1000, 0x1001)] {
        assert_eq!(map(&mut client, address, size), Err(EEXIST), "{address:#x}");
    }
    assert_eq!(map(&mut client, BASE + 0x8000, 0), Err(EINVAL));
    assert_eq!(map(&mut client, u64::MAX - 0xfff, 0x1001), Err(EINVAL));
    map(&mut client, u64::MAX - 0xfff, 0x1000).expect("the last page of all");
    assert_eq!(client.unmap(BASE, 0x1000, 0), Err(ENOENT), "not a whole region");
    client.unmap(BASE, 0x2000, 0).expect("unmapped");
    assert!(!dma(&mut client, READ, BASE, 4));
    map(&mut client, BASE, 0x1000).expect("mapped again");
    assert!(dma(&mut client, READ, BASE, 4));
    client.unmap(0, 0, 2).expect("all unmapped");
    assert!(!dma(&mut client, READ, BASE, 4));
    drop(client);
    let mut client = board.stranger();
    client.negotiate();
    assert!(board.memory.read(DmaAddr(BASE), &mut [0]).is_err(), "the client's memory went with it");
}

#[test]
fn what_a_region_does_not_take_is_a_bus_error() {
    let board = Board::new();
    let mut client = board.client();
    let file = memfd(&[7; 0x2000]);
    client.map(BASE, 0x1000, 1, Some((file.as_fd(), 0))).expect("read only");
    client.map(BASE + 0x1000, 0x1000, 2, Some((file.as_fd(), 0x1000))).expect("write only");
    assert!(dma(&mut client, READ, BASE, 16));
    assert!(!dma(&mut client, WRITE, BASE, 0));
    assert!(!dma(&mut client, STORE, BASE, 0));
    assert!(dma(&mut client, WRITE, BASE + 0x1000, 0));
    assert!(!dma(&mut client, READ, BASE + 0x1000, 4));
    assert!(!dma(&mut client, LOAD, BASE + 0x1000, 0));
    assert_eq!(bytes_of(&file, 0, 16), [7; 16]);
}

#[test]
fn without_bus_mastering_there_is_no_memory() {
    let board = Board::new();
    let mut client = board.client();
    let file = memfd(&[7; 0x1000]);
    client.map(BASE, 0x1000, READ_WRITE, Some((file.as_fd(), 0))).expect("mapped");
    client.config_write(0x04, &[2, 0]);
    assert!(!dma(&mut client, READ, BASE, 4));
    client.config_write(0x04, &[6, 0]);
    assert!(dma(&mut client, READ, BASE, 4));
}

#[test]
fn a_file_that_is_no_memory_is_refused() {
    let board = Board::new();
    let mut client = board.client();
    let short = memfd(&[0; 0xfff]);
    assert_eq!(client.map(BASE, 0x1000, READ_WRITE, Some((short.as_fd(), 0))), Err(EINVAL), "too short");
    assert_eq!(client.map(BASE, 0x1000, READ_WRITE, Some((short.as_fd(), u64::MAX))), Err(EINVAL));
    let bell = Bell::new();
    assert_eq!(client.map(BASE, 0x1000, READ_WRITE, Some((bell.fd(), 0))), Err(EINVAL), "an eventfd");
    let (pipe, _other) = rustix_pipe();
    assert_eq!(client.map(BASE, 0x1000, READ_WRITE, Some((pipe.as_fd(), 0))), Err(EINVAL), "a socket");
    let folder = File::open("/").expect("the root folder");
    assert_eq!(client.map(BASE, 0x1000, READ_WRITE, Some((folder.as_fd(), 0))), Err(EINVAL), "a folder");
    let file = memfd(&[0; 0x3000]);
    assert_eq!(client.map(BASE, 0x1000, READ_WRITE, Some((file.as_fd(), 1))), Err(EINVAL), "not a page");
    assert_eq!(client.map(BASE, 0x1000, 0, Some((file.as_fd(), 0))), Err(EINVAL), "for nothing");
    client.map(BASE, 0x1000, READ_WRITE, Some((file.as_fd(), 0))).expect("mapped");
}

fn rustix_pipe() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
    std::os::unix::net::UnixStream::pair().expect("a pair of sockets")
}
