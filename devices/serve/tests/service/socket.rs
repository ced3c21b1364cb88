//! The socket's life, and the service's end.

use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use serve::ServeError;

use crate::board::{Board, COMMAND, ID, READ, SCRATCH};
use crate::client::{DmaLayout, PATIENCE, REGION_READ, REGION_WRITE, access, frame};

/// Stops the board's service, which must not hang.
fn stops(board: Board) {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        drop(board);
        // The test may have given up.
        let _ = done.send(());
    });
    ended.recv_timeout(PATIENCE).expect("the service ends");
}

#[test]
fn the_socket_goes_with_its_service() {
    let board = Board::new();
    let path = board.service.path().to_owned();
    assert!(path.exists());
    drop(board.service);
    assert!(!path.exists());
}

#[test]
fn a_socket_of_somebody_else_at_the_same_path_stays() {
    let board = Board::new();
    let path = board.service.path().to_owned();
    fs::remove_file(&path).expect("removed");
    let _other = UnixListener::bind(&path).expect("a socket");
    drop(board.service);
    assert!(path.exists());
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toy.sock");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "left behind");
    let board = Board::at(path, folder).expect("a service");
    assert_eq!(board.client().read32(ID), crate::board::ID_VALUE);
}

#[test]
fn a_socket_that_is_in_use_is_refused() {
    let board = Board::new();
    let mut client = board.client();
    let folder = tempfile::tempdir().expect("a folder");
    let error = Board::at(board.service.path().to_owned(), folder).err().expect("refused");
    assert!(matches!(error, ServeError::InUse(_)), "{error}");
    assert!(error.to_string().ends_with("another process listens on this socket"));
    assert_eq!(client.read32(ID), crate::board::ID_VALUE, "the first is served on");
}

#[test]
fn what_is_no_socket_is_never_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("letter");
    fs::write(&file, "dear").expect("a file");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    for path in [&file, &link, &folder.path().to_owned()] {
        let other = tempfile::tempdir().expect("a folder");
        let error = Board::at(path.clone(), other).err().expect("refused");
        assert!(matches!(error, ServeError::NotASocket(_)), "{error}");
    }
    assert_eq!(fs::read(&file).expect("still there"), b"dear");
    let nowhere = folder.path().join("nowhere/toy.sock");
    let error = Board::at(nowhere, tempfile::tempdir().expect("a folder")).err().expect("refused");
    assert!(matches!(error, ServeError::Socket { .. }), "{error}");
}

#[test]
fn a_service_stops_while_a_client_stalls() {
    for cut in [0, 5, 16, 20] {
        let board = Board::new();
        let client = board.client();
        client.send(&frame(1, REGION_READ, 0, &access(0, 0, 4))[..cut], &[]);
        stops(board);
        drop(client);
    }
}

#[test]
fn a_service_stops_while_clients_wait() {
    let board = Board::new();
    let (client, waiting) = (board.client(), board.stranger());
    stops(board);
    drop((client, waiting));
}

#[test]
fn a_service_stops_while_a_client_takes_nothing() {
    let board = Board::new();
    let mut client = board.client();
    client.stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let read = frame(1, REGION_READ, 0, &access(0, 0, 0x1000));
    // Until the answers fill one direction and the requests the other.
    while std::io::Write::write(&mut client.stream, &read).is_ok() {}
    stops(board);
}

#[test]
fn a_service_stops_while_memory_is_waited_for() {
    let board = Board::new();
    let mut client = board.client();
    client.layout = DmaLayout::Silent;
    client.map(0, 0x1000, 3, None).expect("without a file");
    client.write32(crate::board::LENGTH, 4);
    client.post(REGION_WRITE, 0, &[&access(0, COMMAND, 4)[..], &READ.to_le_bytes()].concat(), &[]);
    assert!(client.receive().is_some_and(|message| message.command == crate::client::DMA_READ));
    stops(board);
}

#[test]
fn a_service_starts_again_at_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toy.sock");
    for value in 0..3 {
        let board = Board::at(path.clone(), tempfile::tempdir().expect("a folder")).expect("a service");
        let mut client = board.client();
        client.write32(SCRATCH, value);
        assert_eq!(client.read32(SCRATCH), value);
        stops(board);
    }
}
