//! A board for a test, and what a test asks of it.

use std::time::Duration;

use gadgets::ethernet::services::{Checksum, DISCARD_PORT, SOURCE_PORT};
use qemu::{Board, BoardConfig, BoardError, Cache, Network, Record, Side};
use scenarios::LiveDevice;

/// The kernels that `qemu/setup` brings: the oldest, that of the stable distribution, the newest.
pub(crate) const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// Lines of a record that a failure shows.
const SHOWN: usize = 80;

/// Values of the two configurations that Linux's Ethernet gadget has (drivers/usb/gadget/legacy/ether.c).
pub(crate) const ECM: u8 = 1;
pub(crate) const RNDIS: u8 = 2;

/// No step of a test takes that long, on however slow a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Switches a board on, acts on it and switches it off; shows what both sides said if something fails.
pub(crate) fn with_board(
    kernel: &str,
    change: impl FnOnce(&mut BoardConfig),
    act: impl FnOnce(&mut Board, LiveDevice) -> Result<(), BoardError>,
) {
    let cache = Cache::open(None).unwrap_or_else(|error| panic!("{error}"));
    let kernel = cache.kernel(kernel).unwrap_or_else(|error| panic!("{error}"));
    let mut config = BoardConfig::new(kernel);
    change(&mut config);
    let record = Record::new(|_| ());
    let run = || {
        let mut board = Board::start(&cache, &config, record.clone(), None)?;
        board.ready()?;
        let device = board.enumerated()?;
        act(&mut board, device)?;
        board.power_off()
    };
    if let Err(error) = run() {
        let entries = record.all();
        let shown: Vec<String> = entries.iter().rev().take(SHOWN).rev().map(ToString::to_string).collect();
        panic!("{config:?}\n{}\n{error}", shown.join("\n"));
    }
}

/// What must not be true, with the reason.
pub(crate) fn ensure(condition: bool, why: impl FnOnce() -> String) -> Result<(), BoardError> {
    if condition { Ok(()) } else { Err(BoardError::Data(why())) }
}

/// Pings the board and moves `bytes` each way by TCP, checked at both ends.
pub(crate) fn network(device: &LiveDevice, driver: &str, bytes: usize) -> Result<(), BoardError> {
    let mut network = Network::bind(device)?;
    ensure(network.driver() == driver, || format!("{} has bound, not {driver}", network.driver()))?;
    for length in [0, 1, 56, 1472] {
        network.ping(&payload(length))?;
    }
    let sent = payload(bytes);
    let answer = network.send_all(DISCARD_PORT, &sent)?;
    let (answer, expected) = (String::from_utf8_lossy(&answer).trim().to_owned(), sha256(&sent));
    ensure(answer.starts_with(&expected), || format!("the board received {answer}, sent was {expected}"))?;
    let received = network.exchange(SOURCE_PORT, format!("{bytes}\n").as_bytes(), bytes)?;
    let mut expected = Vec::with_capacity(bytes);
    for number in 1.. {
        if expected.len() >= bytes {
            break;
        }
        expected.extend_from_slice(format!("{number}\n").as_bytes());
    }
    expected.truncate(bytes);
    ensure(received == expected, || {
        format!("received {:?}, sent was {:?}", Checksum::of(&received), Checksum::of(&expected))
    })
}

/// Bytes that are not alike.
pub(crate) fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 251 + at) as u8).collect()
}

/// As sha256sum(1) prints it.
fn sha256(data: &[u8]) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("sha256sum is there: it is part of Debian's package coreutils");
    child.stdin.take().expect("a pipe").write_all(data).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or_default().to_owned()
}

/// The manufacturer's text.
pub(crate) fn manufacturer(device: &LiveDevice) -> String {
    device.device().strings().manufacturer.clone().unwrap_or_default()
}

/// The last line of the board's console that has `text`.
pub(crate) fn console_line(board: &Board, text: &str) -> Option<String> {
    board.record().of(Side::Board).iter().rev().find(|entry| entry.text.contains(text)).map(|entry| entry.text.clone())
}
