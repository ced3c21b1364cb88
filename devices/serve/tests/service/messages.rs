//! Memory without a file descriptor, which is reached by messages.

use serve::Event;

use crate::board::{ADDRESS, Board, COMMAND, LENGTH, LOAD, READ, SCRATCH, STATUS, STORE, WRITE};
use crate::client::{Client, DMA_READ, DmaLayout, QEMU, VERSION, version};

const BASE: u64 = 0x8000_0000;

fn client(board: &Board, layout: DmaLayout) -> Client {
    let mut client = board.client();
    client.layout = layout;
    client.memory = (BASE, (0..0x4000).map(|at| (at % 251) as u8).collect());
    client.map(BASE, 0x4000, 3, None).expect("without a file");
    client
}

fn dma(client: &mut Client, command: u32, address: u64, length: u32) -> bool {
    client.write64(ADDRESS, address);
    client.write32(LENGTH, length);
    client.write32(COMMAND, command);
    client.read32(STATUS) == 0
}

#[test]
fn memory_is_reached_in_the_middle_of_a_register_write() {
    for layout in [DmaLayout::Specified, DmaLayout::Qemu] {
        let board = Board::new();
        let mut client = client(&board, layout);
        assert!(dma(&mut client, READ, BASE + 1, 0x1000), "{layout:?}");
        assert_eq!(board.event(), Event::MemoryWithoutFile { address: BASE + 1 });
        assert!(dma(&mut client, WRITE, BASE + 0x2000, 0));
        assert_eq!(client.memory.1[0x2000..0x3000], client.memory.1[1..0x1001], "{layout:?}");
        assert!(dma(&mut client, LOAD, BASE + 4, 0));
        assert_eq!(client.read32(SCRATCH), 0x0706_0504);
        assert!(dma(&mut client, STORE, BASE, 0));
        assert_eq!(client.memory.1[..8], [4, 5, 6, 7, 4, 5, 6, 7]);
        assert!(!dma(&mut client, READ, BASE + 0x3ff0, 32), "across the end");
    }
}

#[test]
fn memory_is_reached_from_another_thread() {
    let board = Board::new();
    let mut client = client(&board, DmaLayout::Specified);
    let toy = board.toy.clone();
    let copies = std::thread::spawn(move || (0..20).try_for_each(|_| toy.copy(BASE, BASE + 0x1000, 64)));
    // The client has its own traffic meanwhile.
    while !copies.is_finished() {
        client.read32(STATUS);
    }
    assert_eq!(copies.join().expect("no panic"), Ok(()));
    assert_eq!(client.memory.1[0x1000..0x1040], client.memory.1[..0x40]);
}

#[test]
fn no_message_is_longer_than_the_client_takes() {
    let board = Board::new();
    let mut client = board.stranger();
    let json = QEMU.replace("\"max_data_xfer_size\": 1048576", "\"max_data_xfer_size\": 100");
    client.request(VERSION, &version(0, 0, &json), &[]).expect("a version");
    client.config_write(0x04, &[6, 0]);
    client.max_transfer = 100;
    client.memory = (BASE, (0..0x1000).map(|at| (at % 251) as u8).collect());
    client.map(BASE, 0x1000, 3, None).expect("without a file");
    assert!(dma(&mut client, READ, BASE, 250));
    assert!(dma(&mut client, WRITE, BASE + 0x800, 0));
    assert_eq!(client.transfers, [100, 100, 50, 100, 100, 50]);
    assert_eq!(client.memory.1[0x800..0x800 + 250], client.memory.1[..250]);
}

#[test]
fn a_client_that_refuses_is_a_bus_error() {
    let board = Board::new();
    let mut client = client(&board, DmaLayout::Specified);
    client.memory.1.truncate(0x100);
    assert!(dma(&mut client, READ, BASE, 16));
    assert!(!dma(&mut client, READ, BASE + 0x100, 16));
    assert!(dma(&mut client, READ, BASE, 16));
}

#[test]
fn a_client_that_is_silent_is_a_bus_error_too() {
    let board = Board::new();
    let mut client = client(&board, DmaLayout::Silent);
    client.write64(ADDRESS, BASE);
    client.write32(LENGTH, 4);
    client.write32(COMMAND, READ);
    assert_eq!(board.event(), Event::MemoryWithoutFile { address: BASE });
    assert_eq!(board.event(), Event::DmaUnanswered);
    assert_eq!(client.read32(STATUS), 1);
    // An answer that comes too late is none to anything else.
    client.layout = DmaLayout::Specified;
    let late = crate::client::frame(0, DMA_READ, 1, &[0; 16]);
    client.send(&late, &[]);
    assert!(dma(&mut client, READ, BASE, 4));
}

#[test]
fn who_waits_for_a_client_that_goes_returns() {
    let board = Board::new();
    let client = client(&board, DmaLayout::Silent);
    let toy = board.toy.clone();
    let copy = std::thread::spawn(move || toy.copy(BASE, BASE, 4));
    assert_eq!(board.event(), Event::MemoryWithoutFile { address: BASE });
    drop(client);
    assert!(copy.join().expect("no panic").is_err());
}
