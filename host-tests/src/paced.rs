//! A cable to a driver that runs in a time of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bus::IrqLine;
use parking_lot::{Condvar, Mutex};
use usb::Speed;
use usb::wire::{Burst, DataPid, Handshake, HostAck, InReply, PortListener, Target, UsbPort};

/// The longest wait for a driver. One that serves no interrupt gets its SETUP all the same.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between the end of an interrupt and a SETUP.
const GAP: Duration = Duration::from_millis(1);

/// An interrupt line that can be waited for.
pub(crate) struct WatchedLine {
    line: Arc<dyn IrqLine>,
    asserted: AtomicBool,
    turn: Mutex<()>,
    released: Condvar,
}

impl WatchedLine {
    pub(crate) fn new(line: Arc<dyn IrqLine>) -> Arc<Self> {
        Arc::new(Self { line, asserted: AtomicBool::new(false), turn: Mutex::default(), released: Condvar::new() })
    }

    /// Waits until the line is released, or too long.
    fn wait(&self) {
        let until = Instant::now() + PATIENCE;
        let mut turn = self.turn.lock();
        while self.asserted.load(Ordering::Acquire) {
            if self.released.wait_until(&mut turn, until).timed_out() {
                return;
            }
        }
    }
}

impl IrqLine for WatchedLine {
    fn set(&self, asserted: bool) {
        self.asserted.store(asserted, Ordering::Release);
        if !asserted {
            // Who waits has seen the level, or sleeps.
            drop(self.turn.lock());
            self.released.notify_all();
        }
        self.line.set(asserted);
    }
}

/// A port whose host waits with a SETUP until the driver has served its interrupt.
///
/// A host's software needs some tens of microseconds from the end of one control transfer to the next SETUP. Our wire
/// has no time, and an emulated processor is slow: the next SETUP comes before the driver's next register access, which
/// no hardware does. Linux's ci_hdrc (6.1 to 7.3) does not survive it: a SETUP between the prime of the status stage and
/// the look at ENDPTSETUPSTAT that follows makes `hw_ep_prime` fail after the dTD was added to the request, which keeps it.
pub(crate) struct PacedPort {
    pub(crate) port: Arc<dyn UsbPort>,
    pub(crate) line: Arc<WatchedLine>,
}

impl UsbPort for PacedPort {
    fn set_listener(&self, listener: Option<Arc<dyn PortListener>>) {
        self.port.set_listener(listener);
    }

    fn set_vbus(&self, on: bool) {
        self.port.set_vbus(on);
    }

    fn attached(&self) -> Option<Speed> {
        self.port.attached()
    }

    fn reset(&self, max: Speed) -> Option<Speed> {
        self.port.reset(max)
    }

    fn suspend(&self) {
        self.port.suspend();
    }

    fn resume(&self) {
        self.port.resume();
    }

    fn setup(&self, to: Target, setup: &[u8; 8]) -> Handshake {
        self.line.wait();
        thread::sleep(GAP);
        self.port.setup(to, setup)
    }

    fn data_out(&self, to: Target, pid: DataPid, data: &[u8]) -> Handshake {
        self.port.data_out(to, pid, data)
    }

    fn data_in(&self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply {
        self.port.data_in(from, buffer, ack)
    }

    fn burst_out(&self, to: Target, pid: &mut DataPid, max_packet: usize, data: &[u8]) -> Burst {
        self.port.burst_out(to, pid, max_packet, data)
    }

    fn burst_in(&self, from: Target, pid: &mut DataPid, max_packet: usize, buffer: &mut [u8]) -> Burst {
        self.port.burst_in(from, pid, max_packet, buffer)
    }
}
