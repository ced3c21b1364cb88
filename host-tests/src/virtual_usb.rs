//! A live bus that libusb sees: unmodified rusb programs talk to simulated boards.
//!
//! Linux only, and only in programs that link this crate or preload [`usbfs_shim`]: see there for what it takes over.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use usb::gadget::Gadget;
use usb::urb::{Urb, UrbError};
use usb::{EndpointAddress, UsbPort};
use usb_host::{Device, HostConfig, Log, PortPath};
pub use usbfs_shim::CommandError;
use usbfs_shim::{Attached, Backend, DeviceInfo, Done};

use crate::bench::Bench;
use crate::live::{LiveBoard, LiveBus, LiveDevice, LiveError, LiveEvents};
use crate::run::LogLine;
use crate::verdict::Failure;

impl Backend for LiveDevice {
    fn submit(&self, urb: Urb, done: Done) -> u64 {
        Self::submit(self, urb, done)
    }

    fn cancel(&self, id: u64) {
        Self::cancel(self, id);
    }

    fn set_configuration(&self, value: u8) -> Result<(), UrbError> {
        Self::set_configuration(self, value)
    }

    fn set_interface(&self, interface: u8, alternate: u8) -> Result<(), UrbError> {
        Self::set_interface(self, interface, alternate)
    }

    fn clear_halt(&self, endpoint: EndpointAddress) -> Result<(), UrbError> {
        Self::clear_halt(self, endpoint)
    }

    fn reset(&self) -> Result<(), UrbError> {
        Self::reset(self)
    }
}

/// A live bus whose devices appear to libusb in this process; [`ServedBus`] also shows them to the programs that it starts.
///
/// It runs on the real clock, and its host waits as Linux does: a sound device is there within half a second, while a pool
/// that a driver does not survive takes its 5 to 60 seconds to fail. A [`Bench::run`] says the same in virtual time.
///
/// All tests of a program share what libusb sees: give each board a port, or each test a bus number, of its own.
///
/// ```
/// use std::time::Duration;
///
/// use rusb::UsbContext;
/// use scenarios::gadgets::{FastbootConfig, FastbootGadget};
/// use scenarios::{Bench, VirtualBus, policy};
///
/// let pool = policy::by_name("external-list")?;
/// // What the bench says of the pool, in virtual time.
/// let run = Bench::new().pool(pool.clone()).run("fastboot")?;
/// assert!(!run.is_broken(), "{}: {:#?}", run.verdict, run.reason());
///
/// // The same pool below a gadget that rusb talks to.
/// let bus = VirtualBus::start()?;
/// let bench = Bench::new().pool(pool).port("21-1.3".parse()?);
/// let board = bus.plug(bench, FastbootGadget::new(FastbootConfig::default()))?;
/// let place = board.wait(Duration::from_secs(10)).map_err(|why| format!("{why}: {:#?}", board.reasons()))?;
///
/// let devices = rusb::Context::new()?.devices()?;
/// let device = devices.iter().find(|device| (device.bus_number(), device.address()) == place).ok_or("not listed")?;
/// let handle = device.open()?;
/// handle.claim_interface(0)?;
/// handle.write_bulk(0x01, b"getvar:product", Duration::from_secs(1))?;
/// let mut answer = [0; 64];
/// let length = handle.read_bulk(0x81, &mut answer, Duration::from_secs(1))?;
/// assert_eq!(&answer[..length], b"OKAYmsm8916");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VirtualBus(LiveBus);

/// A virtual bus that other programs see. One in a process.
pub struct ServedBus {
    bus: VirtualBus,
    server: usbfs_shim::Server,
}

/// A board on a virtual bus. Dropping it unplugs it.
pub struct VirtualBoard {
    board: LiveBoard,
    presence: Arc<Presence>,
}

/// Why a device is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// It did not come in time.
    #[error("no device after {} s", .0.as_secs_f64())]
    NotYet(Duration),
    /// The host gave up on it, or it cannot be shown: why, in words.
    #[error("{0}")]
    Failed(String),
}

/// What libusb sees of a board.
#[derive(Default)]
struct Presence {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    attached: Option<Attached>,
    /// The device is being taken away: programs may still see it.
    leaving: bool,
    /// Why the device could not be shown, or the host's last line about it.
    failure: Option<String>,
}

impl VirtualBus {
    /// Starts a bus.
    ///
    /// # Errors
    /// [`LiveError::Thread`].
    pub fn start() -> Result<Self, LiveError> {
        LiveBus::start().map(Self)
    }

    /// Plugs a board in: the pool and driver of `bench`, at its port, with `gadget`. Its device appears once the host has
    /// enumerated it, and only then.
    ///
    /// A boot loader that ends (`fastboot reboot`, `boot`, `continue`) leaves the bus, and the board comes back with it at a
    /// new address: a board with one gadget has nothing else to start. See [`VirtualBus::plug_with_loader`].
    ///
    /// A port takes one board at a time, in the whole program. A second one is plugged in all the same, but
    /// [`VirtualBoard::wait`] says that the port is taken, also after the first has gone: unplug it and plug it in again
    /// then.
    ///
    /// # Errors
    /// [`LiveError`], if the board cannot be set up, or its port is none that programs can be shown.
    pub fn plug(&self, bench: Bench, gadget: impl Gadget + 'static) -> Result<VirtualBoard, LiveError> {
        self.show(bench.port_path().clone(), |events| self.0.plug(bench, gadget, events))
    }

    /// Plugs a board in with a boot loader and the system that it starts; see [`LiveBus::plug_with_loader`]. Each of them
    /// comes at an address of its own.
    ///
    /// # Errors
    /// Those of [`VirtualBus::plug`].
    pub fn plug_with_loader(
        &self,
        bench: Bench,
        loader: impl Gadget + 'static,
        system: impl Gadget + 'static,
    ) -> Result<VirtualBoard, LiveError> {
        self.show(bench.port_path().clone(), |events| self.0.plug_with_loader(bench, loader, system, events))
    }

    /// Plugs in what is behind `port`: a device of a machine that runs elsewhere; see [`LiveBus::connect`]. `events` is told
    /// when programs see what happened.
    ///
    /// # Errors
    /// Those of [`VirtualBus::plug`].
    pub fn connect(
        &self,
        port: Arc<dyn UsbPort>,
        config: HostConfig,
        log: Arc<dyn Log>,
        events: impl LiveEvents + 'static,
    ) -> Result<VirtualBoard, LiveError> {
        let path = config.port.clone();
        self.show(path, |shown| self.0.connect(port, config, log, Both(shown, events)))
    }

    fn show(
        &self,
        port: PortPath,
        plug: impl FnOnce(Events) -> Result<LiveBoard, LiveError>,
    ) -> Result<VirtualBoard, LiveError> {
        DeviceInfo::check_ports(port.bus, &port.ports).map_err(|error| LiveError::Port(error.to_string()))?;
        let presence = Arc::new(Presence::default());
        let events = Events { port, presence: Arc::clone(&presence) };
        Ok(VirtualBoard { board: plug(events)?, presence })
    }
}

impl ServedBus {
    /// Starts a bus and serves it.
    ///
    /// # Errors
    /// In words: no thread, no folder for the bus's files, or it is served already.
    pub fn start() -> Result<Self, String> {
        let bus = VirtualBus::start().map_err(|error| error.to_string())?;
        let server = usbfs_shim::serve().map_err(|error| error.to_string())?;
        Ok(Self { bus, server })
    }

    /// The bus, to plug boards in.
    #[must_use]
    pub fn bus(&self) -> &VirtualBus {
        &self.bus
    }

    /// A command that runs with the bus in its view and nothing else of USB.
    ///
    /// # Errors
    /// [`CommandError`]: the program would not see the bus, as a static one, or the shim's shared library was not found.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, CommandError> {
        self.server.command(program)
    }
}

impl VirtualBoard {
    /// Waits until the device is there: its bus number and address.
    ///
    /// # Errors
    /// [`Absence`]: why it did not come, at once and until something changes, or that it did not come in time.
    pub fn wait(&self, timeout: Duration) -> Result<(u8, u8), Absence> {
        let end = Instant::now() + timeout;
        let mut state = self.presence.state.lock();
        loop {
            if let Some(attached) = &state.attached {
                return Ok((attached.bus(), attached.address()));
            }
            if let Some(failure) = &state.failure {
                return Err(Absence::Failed(failure.clone()));
            }
            if self.presence.changed.wait_until(&mut state, end).timed_out() {
                return Err(Absence::NotYet(timeout));
            }
        }
    }

    /// Waits until the device is gone.
    ///
    /// # Errors
    /// That it is still there.
    pub fn wait_gone(&self, timeout: Duration) -> Result<(), String> {
        let end = Instant::now() + timeout;
        let mut state = self.presence.state.lock();
        while state.attached.is_some() || state.leaving {
            if self.presence.changed.wait_until(&mut state, end).timed_out() {
                return Err(format!("the device is still there after {} s", timeout.as_secs_f64()));
            }
        }
        Ok(())
    }

    /// Pulls the cable out.
    pub fn unplug(&self) {
        self.presence.state.lock().failure = None;
        self.board.unplug();
    }

    /// Plugs the cable in again.
    pub fn plug(&self) {
        self.presence.state.lock().failure = None;
        self.board.plug();
    }

    /// The board, its cable and its host.
    #[must_use]
    pub fn live(&self) -> &LiveBoard {
        &self.board
    }

    /// The host's log so far.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.board.log()
    }

    /// Why the device does not work or come, as [`crate::Run::reason`] says it; empty as long as nothing is found.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let run = self.board.judge().filter(|run| !run.findings.is_empty());
        run.map(|run| run.reason()).unwrap_or_default()
    }
}

/// Shows a board's device to libusb.
struct Events {
    port: PortPath,
    presence: Arc<Presence>,
}

impl Events {
    fn set(&self, attached: Option<Attached>, failure: Option<String>) {
        let gone = {
            let mut state = self.presence.state.lock();
            state.leaving = state.attached.is_some();
            state.attached.take()
        };
        // Unplugging ends transfers, whose owners may ask for the state.
        drop(gone);
        let mut state = self.presence.state.lock();
        (state.attached, state.leaving, state.failure) = (attached, false, failure);
        drop(state);
        self.presence.changed.notify_all();
    }
}

impl LiveEvents for Events {
    fn arrived(&mut self, device: LiveDevice) {
        // The device of before goes first: the place is one.
        self.set(None, None);
        let info = describe(&self.port, device.device());
        match usbfs_shim::attach(info, Arc::new(device)) {
            Ok(attached) => self.set(Some(attached), None),
            Err(error) => self.set(None, Some(error.to_string())),
        }
    }

    fn left(&mut self) {
        self.set(None, None);
    }

    fn failed(&mut self, log: &[LogLine]) {
        let last = log.last().map_or_else(|| "the host gave up without a word".to_owned(), |line| line.text.clone());
        self.set(None, Some(last));
    }

    fn stopped(&mut self, why: &Failure) {
        self.set(None, Some(why.to_string()));
    }
}

/// One is told, then the other.
struct Both<A, B>(A, B);

impl<A: LiveEvents, B: LiveEvents> LiveEvents for Both<A, B> {
    fn arrived(&mut self, device: LiveDevice) {
        self.0.arrived(device.clone());
        self.1.arrived(device);
    }

    fn left(&mut self) {
        self.0.left();
        self.1.left();
    }

    fn failed(&mut self, log: &[LogLine]) {
        self.0.failed(log);
        self.1.failed(log);
    }

    fn stopped(&mut self, why: &Failure) {
        self.0.stopped(why);
        self.1.stopped(why);
    }
}

fn describe(port: &PortPath, device: &Device) -> DeviceInfo {
    let mut descriptors = device.raw_descriptor().to_vec();
    for configuration in device.configurations() {
        descriptors.extend_from_slice(&configuration.raw);
    }
    let mut info = DeviceInfo::new(port.bus, device.number(), &port.ports, device.speed(), descriptors);
    info.configuration = device.active_configuration().map_or(0, |configuration| configuration.descriptor.value);
    let strings = device.strings();
    info.manufacturer.clone_from(&strings.manufacturer);
    info.product.clone_from(&strings.product);
    info.serial.clone_from(&strings.serial);
    info
}
