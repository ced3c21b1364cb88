//! A served board without QEMU: a client of vfio-user plays the machine and its driver, far enough for a SETUP.

#![cfg(target_os = "linux")]

#[path = "../../devices/serve/tests/service/client.rs"]
#[allow(dead_code, reason = "a part of the client is enough here")]
mod client;

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, channel};

use parking_lot::Mutex;
use scenarios::{Glue, ServedBoard, ServedConfig, ServedEvent, Speed, Trace};
use serve::Event;

use client::{Bell, Client, PATIENCE};

const MEMORY: u64 = 0x4000_0000;
/// The dQHs, in memory.
const HEADS: u64 = 0x1000;
/// The operational registers, behind capability registers at 0x100.
const OP: u64 = 0x140;
const USBCMD: u64 = OP;
const USBSTS: u64 = OP + 0x04;
const USBINTR: u64 = OP + 0x08;
const ENDPTLISTADDR: u64 = OP + 0x18;
const USBMODE: u64 = OP + 0x68;
const ENDPTSETUPSTAT: u64 = OP + 0x6c;
const URI: u32 = 1 << 6;
const UI: u32 = 1;

struct Machine {
    client: Client,
    memory: File,
    interrupt: Bell,
}

impl Machine {
    /// As QEMU and ci_hdrc do it, up to the pull-up. `mastering`: a PCI driver is bound.
    fn boot(board: &Socket, mastering: bool) -> Self {
        let mut client = Client::connect(&board.path);
        client.negotiate();
        let memory = client::memfd(&[0; 0x10000]);
        // Both dQHs of endpoint 0: IOS, ZLT, 64 bytes, no dTD.
        for head in [HEADS, HEADS + 64] {
            memory.write_all_at(&client::words(&[0x2040_8000, 0, 1]), head).expect("memory");
        }
        client.map(MEMORY, 0x10000, 3, Some((memory.as_fd(), 0))).expect("mapped");
        let interrupt = Bell::new();
        client.set_irqs(0, 0x24, (0, 1), &[], &[interrupt.fd()]).expect("an eventfd for INTx");
        client.config_write(0x04, &[if mastering { 6 } else { 2 }, 0]);
        client.write32(USBCMD, 2);
        client.write32(USBMODE, 2);
        client.write32(USBMODE, 2 | 8);
        client.write32(ENDPTLISTADDR, (MEMORY + HEADS) as u32);
        client.write32(USBINTR, 0x147);
        client.write32(USBCMD, 1);
        Self { client, memory, interrupt }
    }

    /// Serves interrupts until one of `wanted` is in the status.
    fn until(&mut self, wanted: u32) {
        loop {
            self.interrupt.wait();
            let status = self.client.read32(USBSTS);
            self.client.write32(USBSTS, status);
            self.client.set_irqs(0, 0x11, (0, 1), &[], &[]).expect("unmasked");
            if status & wanted != 0 {
                return;
            }
        }
    }

    fn setup_packet(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, HEADS + 40).expect("memory");
        bytes
    }
}

/// A board and what it says.
struct Socket {
    path: std::path::PathBuf,
    events: Receiver<ServedEvent>,
    _board: ServedBoard,
}

impl Socket {
    fn new(name: &str, glue: Glue) -> Self {
        let name = format!("served-{name}-{}.sock", std::process::id());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let (sender, events) = channel();
        let sender = Mutex::new(sender);
        let port = "5-1.3".parse().expect("a port");
        let config = ServedConfig { glue, endpoints: 8, port, speed: Speed::High, trace: Trace::off() };
        let board = ServedBoard::start(&path, config, move |event| {
            // The test may have ended.
            let _ = sender.lock().send(event);
        });
        Self { path, events, _board: board.expect("a board") }
    }

    fn service_event(&self) -> Event {
        loop {
            if let ServedEvent::Service(event) = self.events.recv_timeout(PATIENCE).expect("an event") {
                return event;
            }
        }
    }
}

#[test]
fn the_host_asks_the_driver_for_its_device_descriptor() {
    for (name, glue, mastering) in [("pci", Glue::Pci, true), ("msm", Glue::Msm, false)] {
        let board = Socket::new(name, glue);
        let mut machine = Machine::boot(&board, mastering);
        assert_eq!(board.service_event(), Event::Connected);
        machine.until(URI);
        machine.until(UI);
        assert_eq!(machine.client.read32(ENDPTSETUPSTAT), 1, "{name}");
        assert_eq!(machine.setup_packet(), [0x80, 6, 0, 1, 0, 0, 64, 0], "{name}: GET_DESCRIPTOR of 64 bytes");
    }
}

#[test]
fn the_msm_glue_has_a_reset_line_in_its_window() {
    let board = Socket::new("window", Glue::Msm);
    let mut machine = Machine::boot(&board, false);
    machine.until(URI);
    assert_ne!(machine.client.read32(USBINTR), 0);
    machine.client.write32(0x1000, 1);
    assert_eq!(machine.client.read32(USBINTR), 0, "the core is as after power-on");
    assert_eq!(machine.client.read(0, 0xf_fffc, 4), Ok(vec![0; 4]), "1 MiB");
}

#[test]
fn a_machine_that_goes_takes_its_device_along_and_the_next_finds_it_again() {
    let board = Socket::new("again", Glue::Pci);
    for _ in 0..3 {
        let mut machine = Machine::boot(&board, true);
        assert_eq!(board.service_event(), Event::Connected);
        machine.until(URI);
        machine.client.request(client::RESET, &[], &[]).expect("a reset");
        assert_eq!(board.service_event(), Event::Reset);
        drop(machine);
        assert_eq!(board.service_event(), Event::Disconnected("the client is gone".to_owned()));
    }
}
