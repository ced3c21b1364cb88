//! A controller for a virtual machine, with a host at the other end of its cable.
//!
//! The same model and the same host as in virtual time, on the real clock: the driver is the machine's kernel.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bus::{Access, DmaAddr, LayoutContract, Trace, Watch};
use chipidea_sim::{Chipidea, Config};
use devices::DmaPort;
use devices::pci::{Bar, PciConfig, PciError, PciFunction, PciSlot};
use serve::{ClientMemory, Event, ServeError, Service};
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use usb::{Speed, UsbPort};
use usb_host::net::NetDevice;
use usb_host::{Host, HostConfig, HostEvent, Line, Log, PortPath};

use crate::paced::{Activity, PacedPort, WatchedDevice, WatchedLine};

/// Between two tries of a transaction without an answer, and two looks at a driver that is busy
/// ([`HostConfig::strike_interval`]): an emulated processor needs it.
pub const STRIKE_INTERVAL: Duration = Duration::from_millis(5);

/// Which of Linux's drivers finds the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Glue {
    /// `ci_hdrc_pci`, by its id 153f:1006: 4 KiB of registers.
    #[default]
    Pci,
    /// `ci_hdrc_msm`, by a device tree node over the function's BAR: 1 MiB, so that Linux places it first, with the reset
    /// line behind the registers. The id, 153f:1007, has no driver; nobody makes the function a bus master.
    Msm,
}

/// A served board.
#[derive(Clone, Debug)]
pub struct ServedConfig {
    /// The driver's side.
    pub glue: Glue,
    /// Endpoint numbers of the controller.
    pub endpoints: u8,
    /// The host's port.
    pub port: PortPath,
    /// The fastest speed of the host's port.
    pub speed: Speed,
    /// Where registers, memory accesses and packets are traced.
    pub trace: Trace,
}

/// What happens to a served board. `Display` is a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedEvent {
    /// At the socket.
    Service(Event),
    /// A line of the host's log.
    Host(Line),
    /// The driver broke an assumption of the controller's on memory; which, in words.
    Layout(String),
}

/// Tells of a base address that the hardware will not use as it was written: all that can be known of a driver's layout
/// where its pools are out of sight.
pub struct LayoutWatch<F>(pub F);

impl<F: Fn(String) + Send + Sync> Watch for LayoutWatch<F> {
    fn access(&self, _access: &Access) {}

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        let used = DmaAddr(written.0 & !(contract.align - 1));
        if used != written {
            let LayoutContract { register, statement, kind, align, .. } = contract;
            (self.0)(format!(
                "{register} = {written}, of which the hardware uses {used} ({align} bytes aligned): it will take what is \
                 there for {count} of the driver's {} (assumed: {statement})",
                kind.name
            ));
        }
    }
}

/// Why a board cannot be served.
#[derive(Debug, Error)]
pub enum ServedError {
    /// There is no such function.
    #[error(transparent)]
    Function(#[from] PciError),
    /// The socket.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The operating system gave no thread or event loop.
    #[error("no thread for the host: {0}")]
    Thread(#[from] io::Error),
}

/// A Chipidea controller that virtual machines find at a socket. Dropping it takes it away.
pub struct ServedController {
    controller: Arc<Chipidea>,
    port: Arc<PacedPort>,
    _service: Service,
}

/// Such a controller and its host. Dropping it takes both away.
pub struct ServedBoard {
    host: Host,
    /// Ends before the host does.
    controller: Option<ServedController>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Glue {
    /// The end of the driver's name: `msm` of `ci_hdrc_msm`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Msm => "msm",
        }
    }

    /// The PCI function.
    #[must_use]
    pub const fn function(self) -> PciConfig {
        // A USB device, no standard programming interface.
        const CLASS: u32 = 0x0c03fe;
        match self {
            Self::Pci => PciConfig::new(0x153f, 0x1006, CLASS).bar(0, Bar::memory32(0x1000).device()),
            Self::Msm => PciConfig::new(0x153f, 0x1007, CLASS)
                .bar(0, Bar::memory32(0x10_0000).device())
                .requires_bus_master(false),
        }
    }

    /// The controller.
    #[must_use]
    pub fn controller(self, endpoints: u8) -> Config {
        let window = match self {
            Self::Pci => 0x1000,
            Self::Msm => 0x10_0000,
        };
        Config { endpoints, window, ..Config::default() }
    }
}

impl ServedController {
    /// Serves a controller of `endpoints` endpoint numbers, watched by `watch`, at the socket `path`. `events` is called from several threads; see
    /// [`Service::start`].
    ///
    /// # Errors
    /// [`ServedError`].
    pub fn start(
        path: impl AsRef<Path>,
        glue: Glue,
        endpoints: u8,
        trace: Trace,
        watch: Arc<dyn Watch>,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, ServedError> {
        let memory = ClientMemory::new();
        let slot = PciSlot::new(glue.function())?;
        let dma = DmaPort::new("chipidea", slot.memory(memory.clone())).watched(watch).traced(trace);
        let activity = Arc::new(Activity::default());
        let line = WatchedLine { line: slot.line(0), activity: Arc::clone(&activity) };
        let controller = Chipidea::new(glue.controller(endpoints), dma, Arc::new(line));
        let device = WatchedDevice { device: Arc::clone(&controller) as _, activity: Arc::clone(&activity) };
        let function = Arc::new(PciFunction::new(slot, Arc::new(device)));
        let service = Service::start(path, function, memory, events)?;
        let port = Arc::new(PacedPort { port: Arc::clone(&controller) as _, activity });
        Ok(Self { controller, port, _service: service })
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &Arc<Chipidea> {
        &self.controller
    }

    /// Its upstream port, for a host that runs in real time with [`STRIKE_INTERVAL`].
    #[must_use]
    pub fn port(&self) -> Arc<dyn UsbPort> {
        Arc::clone(&self.port) as _
    }
}

impl ServedBoard {
    /// Serves a board at the socket `path`. `events` is called from several threads; see [`Service::start`].
    ///
    /// # Errors
    /// [`ServedError`].
    pub fn start(
        path: impl AsRef<Path>,
        config: ServedConfig,
        events: impl Fn(ServedEvent) + Send + Sync + 'static,
    ) -> Result<Self, ServedError> {
        let events: Events = Arc::new(events);
        let tell = Arc::clone(&events);
        let tell = move |event| tell(ServedEvent::Service(event));
        let told = Arc::clone(&events);
        let watch = Arc::new(LayoutWatch(move |line| told(ServedEvent::Layout(line))));
        let controller = ServedController::start(path, config.glue, config.endpoints, config.trace, watch, tell)?;
        let host = HostConfig {
            port: config.port,
            max_speed: config.speed,
            strike_interval: STRIKE_INTERVAL,
            ..HostConfig::default()
        };
        let host = Host::new(controller.port(), host, Arc::new(EventLog(events)));
        let running = host.clone();
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = running.run() => {}
                    () = bind_drivers(&running) => {}
                }
            });
            running.controller().set_power(false);
        };
        let thread = thread::Builder::new().name("usb-host".to_owned()).spawn(run)?;
        Ok(Self { host, controller: Some(controller), stop: Some(stop), thread: Some(thread) })
    }

    /// The host. Its events are taken by its drivers.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }
}

impl Drop for ServedBoard {
    fn drop(&mut self) {
        self.controller = None;
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said.
            let _ = thread.join();
        }
    }
}

/// Binds the network drivers to what they are for.
async fn bind_drivers(host: &Host) {
    let mut network = None;
    loop {
        match host.event().await {
            // Devices that are for other drivers stay without one.
            HostEvent::Enumerated(device) => network = NetDevice::bind(&device).await.ok(),
            HostEvent::Disconnected(_) | HostEvent::Failed(_) => drop(network.take()),
        }
    }
}

type Events = Arc<dyn Fn(ServedEvent) + Send + Sync>;

/// The host's log, line by line.
struct EventLog(Events);

impl Log for EventLog {
    fn line(&self, time: Duration, text: &str) {
        (self.0)(ServedEvent::Host(Line { time, text: text.to_owned() }));
    }
}

impl std::fmt::Display for ServedEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service(event) => write!(f, "vfio-user: {event}"),
            Self::Host(line) => line.fmt(f),
            Self::Layout(line) => write!(f, "chipidea: {line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn only_an_address_that_the_hardware_masks_is_told() {
        let lines = Mutex::new(Vec::new());
        let watch = LayoutWatch(|line| lines.lock().push(line));
        for written in [0x4190_3fc0, 0x4190_3800, 0] {
            watch.layout(&chipidea_sim::ENDPTLISTADDR, DmaAddr(written), 32);
        }
        let lines = lines.into_inner();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("= 0x41903fc0, of which the hardware uses 0x41903800"), "{}", lines[0]);
    }
}
