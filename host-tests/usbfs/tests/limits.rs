//! Clients that ask for more than there is: the others go on.

mod common;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use common::{Bench, SILENT_IN, new_bus};
use usb::EndpointAddress;
use usb::urb::{Urb, UrbDone, UrbError};
use usbfs_shim::{Attached, Backend, Done, Server};

const CALL: u8 = 6;
const SUBMIT: u8 = 8;
const ATTACHED: u8 = 1;
const LISTED: u8 = 2;
const REPLY: u8 = 7;
const COMPLETE: u8 = 10;

const OPEN: u8 = 0;
const CLEAR_HALT: u8 = 9;

/// One at a time: they share the bus and its limits.
fn served() -> (MutexGuard<'static, ()>, Server) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    (alone, usbfs_shim::serve().unwrap())
}

/// A client that speaks the protocol itself.
struct Client {
    stream: UnixStream,
    device: u64,
}

impl Client {
    fn connect(server: &Server, attached: &Attached) -> Self {
        let mut stream = UnixStream::connect(server.root().join("socket")).unwrap();
        stream.write_all(b"usbfs\0\0\x01\x01\0\0\0").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        let mut client = Self { stream, device: 0 };
        loop {
            match client.frame().unwrap() {
                (ATTACHED, number, payload) if payload[..2] == [attached.bus(), attached.address()] => {
                    client.device = number;
                }
                (LISTED, ..) => return client,
                _ => {}
            }
        }
    }

    fn frame(&mut self) -> io::Result<(u8, u64, Vec<u8>)> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_le_bytes(*head.first_chunk().unwrap());
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload)?;
        Ok((head[4], u64::from_le_bytes(*head.last_chunk().unwrap()), payload))
    }

    fn call(&self, number: u64, open: u64, operation: u8, operand: u8) -> Vec<u8> {
        let head = [&24u32.to_le_bytes()[..], &[CALL, 0, 0, 0], &number.to_le_bytes()].concat();
        let payload = [&self.device.to_le_bytes()[..], &open.to_le_bytes(), &[operation, operand, 0, 0, 0, 0, 0, 0]];
        [head, payload.concat()].concat()
    }

    fn submit(&self, number: u64, length: u32) -> Vec<u8> {
        let head = [&24u32.to_le_bytes()[..], &[SUBMIT, 0, 0, 0], &number.to_le_bytes()].concat();
        let payload = [&self.device.to_le_bytes()[..], &[SILENT_IN, 1, 0, 0], &length.to_le_bytes(), &[0; 8]];
        [head, payload.concat()].concat()
    }
}

/// Whether an unmodified program still moves data.
fn is_alive(server: &Server, attached: &Attached) -> bool {
    let test = std::env::current_exe().unwrap();
    let examples = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let program: PathBuf = examples.join("rusb_program");
    let mut command = server.command(program).unwrap();
    let output = command.args(["loop", &attached.bus().to_string(), &attached.address().to_string()]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).matches("true").count() == 4
}

#[test]
fn who_says_nothing_makes_room_for_others() {
    let (_alone, server) = served();
    let bench = Bench::loopback("silent");
    let attached = bench.attach(new_bus());
    let silent: Vec<UnixStream> =
        (0..260).map(|_| UnixStream::connect(server.root().join("socket")).unwrap()).collect();
    assert!(is_alive(&server, &attached));
    drop(silent);
}

#[test]
fn all_clients_together_have_a_limit() {
    let (_alone, server) = served();
    let bench = Bench::loopback("together");
    let attached = bench.attach(new_bus());
    let mut refused = 0;
    let clients: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = Client::connect(&server, &attached);
            let frames: Vec<u8> = (1..=3).flat_map(|number| client.submit(number, 128 << 20)).collect();
            client.stream.write_all(&frames).unwrap();
            // Answered after the transfers were looked at.
            let unknown = Client { stream: client.stream.try_clone().unwrap(), device: u64::MAX };
            client.stream.write_all(&unknown.submit(4, 0)).unwrap();
            loop {
                let (kind, number, payload) = client.frame().unwrap();
                assert_eq!(kind, COMPLETE);
                if number == 4 {
                    return client;
                }
                assert_eq!(i32::from_le_bytes(*payload.first_chunk().unwrap()), -libc::ENOMEM);
                refused += 1;
            }
        })
        .collect();
    assert_eq!((refused, bench.pending()), (2, 7), "a gibibyte, and what transfers count themselves");
    drop(clients);
    while bench.pending() > 0 {
        std::thread::yield_now();
    }
    assert!(is_alive(&server, &attached));
}

#[test]
fn open_files_have_a_limit() {
    let (_alone, server) = served();
    let attached = Bench::loopback("opens").attach(new_bus());
    let mut client = Client::connect(&server, &attached);
    let mut last = Vec::new();
    for number in 1..=4097 {
        let call = client.call(number, number, OPEN, 0);
        client.stream.write_all(&call).unwrap();
        let (kind, of, payload) = client.frame().unwrap();
        assert_eq!((kind, of), (REPLY, number));
        last = payload;
    }
    assert_eq!(i32::from_le_bytes(*last.first_chunk().unwrap()), libc::EMFILE);
}

/// Keeps every transfer, and panics when it is to clear a halt.
#[derive(Default)]
struct Keeps(Mutex<Vec<Done>>);

impl Backend for Keeps {
    fn submit(&self, _urb: Urb, done: Done) -> u64 {
        let mut kept = self.0.lock().unwrap();
        kept.push(done);
        kept.len() as u64
    }

    fn cancel(&self, _id: u64) {
        // All at once, when the client goes.
        let kept = std::mem::take(&mut *self.0.lock().unwrap());
        for done in kept {
            done(UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::Unlinked) });
        }
    }

    fn set_configuration(&self, _value: u8) -> Result<(), UrbError> {
        Ok(())
    }

    fn set_interface(&self, _interface: u8, _alternate: u8) -> Result<(), UrbError> {
        Ok(())
    }

    fn clear_halt(&self, _endpoint: EndpointAddress) -> Result<(), UrbError> {
        panic!("a backend's own mistake");
    }

    fn reset(&self) -> Result<(), UrbError> {
        Ok(())
    }
}

#[test]
fn transfers_without_data_have_a_limit() {
    let (_alone, server) = served();
    let attached = usbfs_shim::attach(Bench::loopback("many").info(new_bus(), 7, &[1]), Arc::new(Keeps::default()));
    let attached = attached.unwrap();
    let mut client = Client::connect(&server, &attached);
    let mut sent = Ok(());
    for thousand in 0..600 {
        let frames: Vec<u8> = (0..1000).flat_map(|at| client.submit(thousand * 1000 + at, 0)).collect();
        sent = sent.and_then(|()| client.stream.write_all(&frames));
    }
    // Dropped while it sent, or with what was on its way.
    assert!(sent.is_err() || client.frame().is_err());
}

#[test]
fn a_backend_s_panic_ends_the_session_and_no_other() {
    let (_alone, server) = served();
    let attached = usbfs_shim::attach(Bench::loopback("panic").info(new_bus(), 7, &[1]), Arc::new(Keeps::default()));
    let attached = attached.unwrap();
    let bench = Bench::loopback("alive");
    let other = bench.attach(new_bus());
    let mut client = Client::connect(&server, &attached);
    let calls = [client.call(1, 1, OPEN, 0), client.call(2, 1, CLEAR_HALT, SILENT_IN)].concat();
    client.stream.write_all(&calls).unwrap();
    assert_eq!(client.frame().unwrap().1, 1);
    client.frame().unwrap_err();
    assert!(is_alive(&server, &other));
}
