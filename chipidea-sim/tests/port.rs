//! The upstream port: attach, reset, speeds, suspend and resume, VBUS, frames, hints, the interrupt line.

mod mock;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bus::{IrqLine, Mmio, Trace};
use chipidea_sim::{Chipidea, Config, Layout};
use devices::{Device, DmaPort};
use mock::*;
use parking_lot::Mutex;
use usb::wire::DataPid::Data0;
use usb::wire::{Handshake, InReply};
use usb::{Speed, UsbPort};
use vm_memory::{GuestAddress, GuestMemoryMmap};

const CCS: u32 = 1;
const PE: u32 = 1 << 2;
const FPR: u32 = 1 << 6;
const SUSP: u32 = 1 << 7;
const HSP: u32 = 1 << 9;
const PFSC: u32 = 1 << 24;

const AVV_ASV_BSV: u32 = 7 << 9;
const BSV: u32 = 1 << 11;
const BSE: u32 = 1 << 12;
const BSVIS: u32 = 1 << 19;
const BSVIE: u32 = 1 << 27;

#[test]
fn the_pull_up_needs_run_device_mode_and_vbus() {
    let hints = Arc::new(Log::default());
    let board = Board::new(Config::default());
    board.sim.set_listener(Some(hints.clone()));
    board.w(R::Cmd, RS);
    assert_eq!(board.sim.attached(), None);
    board.w(R::Mode, 2);
    assert_eq!(board.sim.attached(), None);
    board.sim.set_vbus(true);
    assert_eq!((board.sim.attached(), board.r(R::PortSc) & CCS), (Some(Speed::Full), CCS));
    assert_eq!(hints.take(), ["attach changed"]);
    board.w(R::Cmd, 0);
    assert_eq!((board.sim.attached(), board.r(R::PortSc) & CCS), (None, 0));
    board.w(R::Cmd, RS);
    board.w(R::Cmd, RST);
    assert_eq!(hints.take(), ["attach changed"; 3]);
    assert_eq!(board.bus_reset(Speed::High), None, "nothing there to reset");
    assert_eq!(board.r(R::Sts), 0);
}

#[test]
fn nothing_answers_before_the_first_bus_reset() {
    let board = Board::new(Config { vbus: true, ..Config::default() });
    board.start();
    assert_eq!(board.setup([0; 8]), Handshake::Silence);
    board.bus_reset(Speed::High);
    assert_eq!(board.setup([0; 8]), Handshake::Ack);
}

#[test]
fn the_speed_is_the_most_that_both_can_do() {
    let full_only = Config { max_speed: Speed::Full, ..Config::default() };
    for (config, host, agreed) in [
        (Config::default(), Speed::High, Speed::High),
        (Config::default(), Speed::Full, Speed::Full),
        (full_only, Speed::High, Speed::Full),
    ] {
        let board = Board::running(config, host);
        let high = agreed == Speed::High;
        assert_eq!(board.bus_reset(host), Some(agreed));
        assert_eq!(board.r(R::PortSc) & (HSP | PE), if high { HSP | PE } else { PE });
        assert_eq!(board.r(R::PortSc) >> 26 & 3, if high { 2 } else { 0 }, "PSPD");
    }
    let lpm = Board::running(Config { layout: Layout::Lpm, ..Config::default() }, Speed::High);
    assert_eq!(lpm.r(R::DevLc) >> 25 & 3, 2, "PSPD is in DEVLC");
    assert_eq!(lpm.r(R::PortSc) >> 26 & 3, 0);
    lpm.w(R::DevLc, 1 << 23);
    assert_eq!((lpm.bus_reset(Speed::High), lpm.r(R::DevLc) >> 25 & 3), (Some(Speed::Full), 0), "PFSC");
    assert_eq!(lpm.bus_reset(Speed::Low), None, "no such host");
}

#[test]
fn pfsc_keeps_the_port_at_full_speed() {
    let board = Board::high();
    board.w(R::PortSc, board.r(R::PortSc) | PFSC);
    assert_eq!(board.bus_reset(Speed::High), Some(Speed::Full));
}

#[test]
fn a_bus_reset_in_the_middle_of_a_transfer() {
    let board = Board::high();
    board.bulk(1, 512);
    board.w(R::Addr, 7 << 25);
    board.sim.setup(usb::wire::Target { address: 7, endpoint: 0 }, &[0; 8]);
    board.prime(3, board.dtd(0, BUFFERS, 4096, IOC));
    let mut buffer = [0; 512];
    board.sim.data_in(usb::wire::Target { address: 7, endpoint: 1 }, &mut buffer, usb::wire::HostAck::Sent);
    board.w(R::Sts, !0);

    assert_eq!(board.bus_reset(Speed::Full), Some(Speed::Full));
    assert_eq!((board.r(R::Sts), board.level()), (URI | PCI, true));
    assert_eq!((board.r(R::Addr), board.r(R::Stat), board.r(R::Prime)), (0, 0, 0));
    assert_eq!(board.r(R::SetupStat), 1, "for the driver to clear");
    assert_eq!(board.r(R::Ctrl(1)), 0x0088_0088, "and so are the endpoints");
    board.w(R::SetupStat, board.r(R::SetupStat));
    assert_eq!(board.setup([0; 8]), Handshake::Ack);
    assert_eq!(board.input(1).0, InReply::Nak);
}

#[test]
fn suspend_and_resume() {
    let board = Board::high();
    board.sim.suspend();
    assert_eq!((board.r(R::Sts), board.r(R::PortSc) & SUSP), (SLI, SUSP));
    assert_eq!(board.setup([0; 8]), Handshake::Silence, "the bus is idle");
    board.w(R::Sts, SLI);
    board.sim.suspend();
    assert_eq!(board.r(R::Sts), 0, "asleep already");
    board.sim.resume();
    assert_eq!((board.r(R::Sts), board.r(R::PortSc) & SUSP), (PCI, 0));
    board.w(R::Sts, PCI);
    board.sim.resume();
    assert_eq!(board.r(R::Sts), 0, "awake already");
    board.sim.suspend();
    board.sim.resume();
    assert_eq!(board.r(R::Sts), PCI, "leaving takes SLI back");
    assert_eq!(board.setup([0; 8]), Handshake::Ack);
}

#[test]
fn a_reset_ends_a_suspend() {
    let board = Board::high();
    board.sim.suspend();
    board.bus_reset(Speed::High);
    assert_eq!((board.r(R::Sts), board.r(R::PortSc) & SUSP), (URI | PCI, 0));
}

#[test]
fn fpr_wakes_a_suspended_host() {
    let hints = Arc::new(Log::default());
    let board = Board::high();
    board.sim.set_listener(Some(hints.clone()));
    board.w(R::PortSc, board.r(R::PortSc) | FPR);
    assert!(hints.take().is_empty(), "not suspended");
    board.sim.suspend();
    board.w(R::PortSc, board.r(R::PortSc) | FPR);
    assert_eq!((hints.take(), board.r(R::PortSc) & FPR), (vec!["remote wakeup".to_owned()], FPR));
    board.sim.resume();
    assert_eq!(board.r(R::PortSc) & (FPR | SUSP), 0);
}

#[test]
fn vbus_off_and_on() {
    let board = Board::high();
    assert_eq!(board.r(R::OtgSc) & (AVV_ASV_BSV | BSE), AVV_ASV_BSV);
    board.w(R::OtgSc, BSVIE | 0x7f << 16);
    assert!(!board.level());
    board.sim.set_vbus(false);
    assert_eq!(board.r(R::OtgSc) & (AVV_ASV_BSV | BSE | BSVIS), BSE | BSVIS);
    assert!(board.level());
    assert_eq!((board.sim.attached(), board.r(R::PortSc) & (CCS | PE | HSP)), (None, 0));
    assert_eq!(board.setup([0; 8]), Handshake::Silence);
    // As hw_write_otgsc: enables are kept by writing them back, 1 clears a change.
    board.w(R::OtgSc, BSVIE | BSVIS);
    assert_eq!((board.r(R::OtgSc) & (BSVIS | BSVIE), board.level()), (BSVIE, false));
    board.sim.set_vbus(false);
    assert!(!board.level(), "no change");
    board.sim.set_vbus(true);
    assert_eq!((board.r(R::OtgSc) & BSVIS, board.level()), (BSVIS, true));
    assert_eq!(board.sim.attached(), Some(Speed::Full), "RS is still set");
    board.w(R::OtgSc, 0);
    assert!(!board.level(), "a change that is not enabled");
    board.w(R::OtgSc, BSVIE);
    assert!(board.level());
    assert_eq!(board.r(R::OtgSc) & BSV, BSV, "status is not written");
}

#[test]
fn vbus_at_power_on_is_no_change() {
    let board = Board::new(Config { vbus: true, ..Config::default() });
    assert_eq!(board.r(R::OtgSc) & (AVV_ASV_BSV | BSE | 0x7f << 16 | 1 << 8), AVV_ASV_BSV | 1 << 8, "and ID is B");
    let board = Board::new(Config::default());
    assert_eq!(board.r(R::OtgSc) & (AVV_ASV_BSV | BSE | 0x7f << 16), BSE);
}

#[test]
fn frindex_counts_microframes_of_a_live_bus() {
    let board = Board::new(Config { vbus: true, ..Config::default() });
    board.start();
    board.sim.step(Duration::from_millis(5));
    assert_eq!(board.r(R::FrIndex), 0, "no host, no frames");
    board.bus_reset(Speed::High);
    board.sim.step(Duration::from_micros(10_250));
    assert_eq!(board.r(R::FrIndex), 82);
    board.sim.step(Duration::from_micros(10_000));
    assert_eq!(board.r(R::FrIndex), 82, "time never goes back");
    board.sim.suspend();
    board.sim.step(Duration::from_millis(20));
    assert_eq!(board.r(R::FrIndex), 82);
    board.sim.resume();
    board.bus_reset(Speed::Full);
    board.sim.step(Duration::from_micros(20_999));
    assert_eq!(board.r(R::FrIndex), 160, "whole frames at full speed");
    board.sim.step(Duration::from_secs(3));
    assert_eq!(board.r(R::FrIndex), 24_000 & 0x3fff, "14 bits");
    board.w(R::FrIndex, 0);
    assert_eq!(board.r(R::FrIndex), 24_000 & 0x3fff, "read-only in device mode");
}

/// Acknowledges from within the call, as an interrupt handler on the same thread would.
#[derive(Default)]
struct Handler {
    sim: OnceLock<Weak<Chipidea>>,
    seen: Mutex<Vec<u32>>,
}

impl IrqLine for Handler {
    fn set(&self, asserted: bool) {
        let Some(sim) = self.sim.get().and_then(Weak::upgrade).filter(|_| asserted) else {
            return;
        };
        let status = sim.read32(0x144);
        if status != 0 {
            self.seen.lock().push(status);
            sim.write32(0x144, status);
        }
    }
}

#[test]
fn the_interrupt_line_may_access_registers() {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(u64::from(BASE)), 0x10000)]).expect("64 KiB");
    let handler = Arc::new(Handler::default());
    let sim = Chipidea::new(Config::default(), DmaPort::new("chipidea", Arc::new(memory)), handler.clone());
    handler.sim.set(Arc::downgrade(&sim)).expect("once");
    sim.set_vbus(true);
    sim.write32(0x1a8, 2 | 8);
    sim.write32(0x148, !0);
    sim.write32(0x140, 1);
    UsbPort::reset(&*sim, Speed::High);
    sim.suspend();
    sim.resume();
    assert_eq!(*handler.seen.lock(), [URI | PCI, SLI, PCI]);
    assert_eq!(sim.read32(0x144), 0);
}

#[test]
fn a_trace_tells_registers_memory_and_packets_in_symbols() {
    let log = Arc::new(Log::default());
    let board = Board::build(Config::default(), Vec::new(), Trace::to(log.clone())).started(Speed::High);
    board.bulk(1, 512);
    let at = board.dtd(0, BUFFERS, 2, IOC);
    board.fill(BUFFERS, &[0xab, 0xcd]);
    log.take();
    board.prime(3, at);
    board.input(1);
    board.r(R::Ctrl(1));
    board.sim.read32(0x800);
    board.sim.suspend();
    assert_eq!(
        log.take(),
        [
            "chipidea: write ENDPTPRIME = 00020000",
            "chipidea: read  ep1 IN dQH next = 80002000",
            "chipidea: write ep1 IN dQH current dTD = 80002000",
            "chipidea: read  ep1 IN dTD 0 28 bytes 01 00 00 00 80 80 02 00 00 00 01 80 00 10 01 80 00 20 01 80 00 30 01 \
             80 00 40 01 80",
            "chipidea: write ep1 IN dQH overlay 28 bytes 01 00 00 00 80 80 02 00 00 00 01 80 00 10 01 80 00 20 01 80 \
             00 30 01 80 00 40 01 80",
            "chipidea: read  ENDPTPRIME = 00000000",
            "chipidea: read  ep1 IN dQH 36 bytes 00 00 00 22 00 20 00 80 01 00 00 00 80 80 02 00 00 00 01 80 00 10 01 \
             80 00 20 01 80 00 30 01 80 …",
            "chipidea: read  ep1 IN buffer 2 bytes ab cd",
            "chipidea: write ep1 IN dTD 0 token = 00008000",
            "chipidea: write ep1 IN dQH overlay token = 00008000",
            "chipidea: read  ep1 IN dTD 0 next = 00000001",
            "chipidea: IN addr 0 ep1 → Data0 2 bytes ab cd",
            "chipidea: read  ENDPTCTRL1 = 00880088",
            "chipidea: read  0x800 = 00000000",
            "chipidea: SUSPEND",
        ]
    );
    let _ = board.out(1, Data0, &[1]);
    assert_eq!(log.take(), ["chipidea: OUT addr 0 ep1 Data0 1 bytes 01 → Silence"]);
}

#[test]
fn two_threads_leave_the_right_level_on_the_line() {
    let board = Board::high();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                board.setup([0; 8]);
            }
        });
        scope.spawn(|| (0..2000).for_each(|_| board.w(R::Sts, UI)));
    });
    assert_eq!(board.level(), board.r(R::Sts) & UI != 0);
    board.setup([0; 8]);
    assert!(board.level());
    board.w(R::Sts, UI);
    assert!(!board.level());
}
