//! Programs of other processes, with the library preloaded: unmodified, whatever happens to them.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use common::{Bench, LOOP_IN, LOOP_OUT, new_bus};
use rusb::{Context, UsbContext};
use usbfs_shim::{Attached, Server};

/// One for all tests of this binary, as they share the bus.
static SERVER: LazyLock<Server> = LazyLock::new(|| usbfs_shim::serve().unwrap());

const LONG: Duration = Duration::from_secs(60);

/// The example of that name, which cargo builds with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let examples = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let program = examples.join(name);
    assert!(program.exists(), "build it first: cargo build -p usbfs-shim --examples");
    program
}

fn program() -> PathBuf {
    example("rusb_program")
}

fn command(arguments: &[&str], attached: &Attached) -> Command {
    command_of(program(), arguments, attached)
}

fn command_of(program: PathBuf, arguments: &[&str], attached: &Attached) -> Command {
    let mut command = SERVER.command(program).unwrap();
    command.args(arguments).args([attached.bus().to_string(), attached.address().to_string()]);
    command
}

fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// A running program and what it says.
struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self(child, stdout)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_finds_the_device_and_talks_to_it() {
    let bench = Bench::loopback("p");
    let attached = bench.attach(new_bus());
    let mut list = SERVER.command(program()).unwrap();
    list.arg("list");
    let list = output(list);
    assert!(list.contains(&format!("{} 7 [1, 3]\n", attached.bus())), "{list}");
    assert!(list.contains(&format!("{} 1 []\n", attached.bus())), "{list}");
    let looped = output(command(&["loop"], &attached));
    assert_eq!(looped, "1 true\n512 true\n16384 true\n1048577 true\n");
}

#[test]
fn a_killed_program_leaves_nothing_behind() {
    let bench = Bench::loopback("k");
    let attached = bench.attach(new_bus());
    for _ in 0..3 {
        let mut running = Running::start(command(&["hang"], &attached));
        assert_eq!(running.line(), "reading");
        while bench.pending() == 0 {
            thread::yield_now();
        }
        drop(running);
        while bench.pending() > 0 {
            thread::yield_now();
        }
        assert_eq!(output(command(&["loop"], &attached)).matches("true").count(), 4);
    }
}

/// Daemons close what they do not know, and then have files of their own under these numbers.
#[test]
fn a_program_may_close_or_replace_every_descriptor() {
    let bench = Bench::loopback("d");
    let attached = bench.attach(new_bus());
    for how in ["close", "close_range", "closefrom", "dup2"] {
        let text = output(command_of(example("daemon"), &[how], &attached));
        assert_eq!(text, "Ok(18)\nOk(18)\nown files are whole\n", "{how}");
    }
}

#[test]
fn a_forked_child_opens_for_itself_and_leaves_its_parent_s_alone() {
    let bench = Bench::loopback("f");
    let attached = bench.attach(new_bus());
    let mut fork = command_of(example("daemon"), &["fork"], &attached);
    fork.stdin(Stdio::piped());
    let text = output(fork);
    // The parent's claim; the child's own; its file at the parent's number; its next open there; then the parent again.
    assert_eq!(text, format!("Ok(18)\nOk(18)\nOk(0)\nOk(true)\n0 Ok(18)\nErr(Some({}))\n", libc::EBUSY));
}

#[test]
fn unplugging_ends_a_program_s_transfer() {
    let bench = Bench::loopback("u");
    let attached = bench.attach(new_bus());
    let mut running = Running::start(command(&["hang"], &attached));
    assert_eq!(running.line(), "reading");
    while bench.pending() == 0 {
        thread::yield_now();
    }
    drop(attached);
    assert_eq!(running.line(), "Err(NoDevice)");
    assert_eq!(running.line(), "Err(NoDevice)");
}

#[test]
fn claims_conflict_between_processes() {
    let bench = Bench::loopback("c");
    let attached = bench.attach(new_bus());
    let mut first = Running::start(command(&["claim"], &attached));
    assert_eq!(first.line(), "Ok(())");
    let mut second = Running::start(command(&["claim"], &attached));
    assert_eq!(second.line(), "Err(Busy)");
    let context = Context::new().unwrap();
    let devices = context.devices().unwrap();
    let mine = devices.iter().find(|device| device.bus_number() == attached.bus() && device.address() == 7).unwrap();
    let mine = mine.open().unwrap();
    assert_eq!(mine.claim_interface(0), Err(rusb::Error::Busy));
    drop(first.0.stdin.take());
    first.0.wait().unwrap();
    while mine.claim_interface(0).is_err() {
        thread::yield_now();
    }
    mine.write_bulk(LOOP_OUT, b"mine", LONG).unwrap();
    assert_eq!(mine.read_bulk(LOOP_IN, &mut [0; 16], LONG).unwrap(), 4);
}

#[test]
fn hot_plug_reaches_a_program() {
    let bench = Bench::loopback("h");
    let bus = new_bus();
    let mut watch = SERVER.command(program()).unwrap();
    watch.arg("watch");
    let mut running = Running::start(watch);
    assert_eq!(running.line(), "watching");
    let mut wait = |wanted: &str| while running.line() != wanted {};
    for _ in 0..3 {
        let attached = bench.attach(bus);
        wait(&format!("arrived {bus} 7"));
        drop(attached);
        wait(&format!("left {bus} 7"));
    }
}

#[test]
fn no_bytes_on_the_socket_stop_the_bus() {
    let bench = Bench::loopback("b");
    let attached = bench.attach(new_bus());
    let socket = SERVER.root().join("socket");
    let mut random = 0x9e3779b97f4a7c15u64;
    for round in 0..300usize {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut bytes = if round % 4 == 0 { Vec::new() } else { hello(1).to_vec() };
        // A head that could be one: a kind and number that exist, lengths near the payloads' own.
        for _ in 0..round % 7 {
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random
            };
            let length = [0, 8, 24, 24, 25, 32, 1 << 20, 1 << 31][next() as usize % 8] as u32;
            bytes.extend(length.to_le_bytes());
            bytes.extend([(next() % 12) as u8, 0, 0, 0]);
            bytes.extend((next() % 4).to_le_bytes());
            bytes.extend((0..length.min(64)).map(|at| if at % 8 == 0 { (next() % 16) as u8 } else { 0 }));
        }
        // The bus may have closed it already.
        let _ = stream.write_all(&bytes);
        if round % 3 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read(&mut [0; 4096]);
        }
    }
    assert_eq!(output(command(&["loop"], &attached)).matches("true").count(), 4);
    while bench.pending() > 0 {
        thread::yield_now();
    }
}

/// What each side says first.
fn hello(version: u8) -> [u8; 12] {
    let mut hello = *b"usbfs\0\0\x01\0\0\0\0";
    hello[8] = version;
    hello
}

#[test]
fn another_version_is_refused() {
    let socket = SERVER.root().join("socket");
    for version in [0, 2, 255] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(&hello(version)).unwrap();
        let mut answer = Vec::new();
        // Closed with bytes unread, a socket may say so.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, hello(1), "its own version, and nothing else");
    }
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let mut stream = UnixStream::connect(SERVER.root().join("socket")).unwrap();
    stream.write_all(&hello(1)).unwrap();
    // A call to a device that is not there: 24 bytes of payload, kind 6.
    let mut call = [0; 40];
    (call[0], call[4]) = (24, 6);
    while stream.write_all(&call).is_ok() {}
}

#[test]
fn attributes_are_not_writable() {
    let bench = Bench::loopback("w");
    let attached = bench.attach(new_bus());
    let file = format!("/sys/bus/usb/devices/{}-1.3/descriptors", attached.bus());
    for script in [r#"exec 3>>"$0""#, r#"exec 3>"$0""#, r#"exec 3<>"$0""#, r#"exec 3>/sys/bus/usb/devices/new"#] {
        let mut shell = SERVER.command("sh").unwrap();
        let output = shell.args(["-c", script, &file]).output().unwrap();
        assert!(!output.status.success(), "{script}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Permission denied"), "{script}: {output:?}");
    }
    assert_eq!(output(command(&["loop"], &attached)).matches("true").count(), 4);
}
