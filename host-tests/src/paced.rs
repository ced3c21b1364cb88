//! A wire that gives a slow machine its time.
//!
//! A host on real hardware needs more time between two control transfers than a driver for the end of the first. On an
//! emulated processor the driver is thousands of times slower, and the wire here takes no time: a SETUP would come in the
//! middle of what ci_hdrc does about the status stage before it. (`hw_ep_prime` looks at ENDPTSETUPSTAT once more after the
//! prime, and says -EAGAIN then; the request stays in its queue, and every later status stage hangs.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bus::{IrqLine, Mmio, Width};
use devices::Device;
use parking_lot::Mutex;
use usb::wire::{Burst, DataPid, Handshake, HostAck, InReply, PortListener, Target};
use usb::{Speed, UsbPort};

/// After its last register access a driver that has no interrupt is taken for idle. Longer than a processor of the board
/// is off the real one's, as a rule.
const QUIET: Duration = Duration::from_millis(10);

/// What the driver at the controller's registers is doing.
#[derive(Default)]
pub(crate) struct Activity {
    interrupt: AtomicBool,
    last_access: Mutex<Option<Instant>>,
}

impl Activity {
    fn note(&self) {
        *self.last_access.lock() = Some(Instant::now());
    }

    fn is_busy(&self) -> bool {
        let recent = |last: Instant| last.elapsed() < QUIET;
        self.interrupt.load(Ordering::Acquire) || self.last_access.lock().is_some_and(recent)
    }
}

/// A device, with its driver's accesses noted.
pub(crate) struct WatchedDevice {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) activity: Arc<Activity>,
}

impl Mmio for WatchedDevice {
    fn read(&self, offset: u64, width: Width) -> u64 {
        self.activity.note();
        self.device.read(offset, width)
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        self.activity.note();
        self.device.write(offset, width, value);
    }
}

impl Device for WatchedDevice {
    fn step(&self, now: Duration) {
        self.device.step(now);
    }

    fn deadline(&self) -> Option<Duration> {
        self.device.deadline()
    }

    fn power_on(&self) {
        self.device.power_on();
    }
}

/// The interrupt line, with its level noted.
pub(crate) struct WatchedLine {
    pub(crate) line: Arc<dyn IrqLine>,
    pub(crate) activity: Arc<Activity>,
}

impl IrqLine for WatchedLine {
    fn set(&self, asserted: bool) {
        self.activity.interrupt.store(asserted, Ordering::Release);
        self.line.set(asserted);
    }

    fn message(&self) {
        self.line.message();
    }
}

/// A controller's port, busy while its driver is.
pub(crate) struct PacedPort {
    pub(crate) port: Arc<dyn UsbPort>,
    pub(crate) activity: Arc<Activity>,
}

impl UsbPort for PacedPort {
    fn is_busy(&self) -> bool {
        self.activity.is_busy()
    }

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
