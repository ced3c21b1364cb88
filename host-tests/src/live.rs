//! A bus on the real clock: boards and their host on a thread of their own.
//!
//! The same boards, models, drivers and host as in virtual time. A client's thread may also move packets and run a board's
//! processor itself ([`LiveDevice::submit`]): a transfer that finds its device ready costs no change of threads.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use usb::EndpointAddress;
use usb::gadget::Gadget;
use usb::urb::{Urb, UrbDone, UrbError};
use usb::wire::UsbPort;
use usb_host::controller::{Progress, UrbId};
use usb_host::{Cancel, Device, Host, HostConfig, HostEvent, HubError, Log};

use crate::bench::Bench;
use crate::clock::Clock;
use crate::error::BenchError;
use crate::machine::{Machine, Software};
use crate::run::{LogLine, Run};
use crate::scenario::Needs;
use crate::trace::HostLog;
use crate::verdict::Failure;

/// Rounds of packets and interrupts that a client's thread runs before it leaves the rest to the bus's own.
const MOST_ROUNDS: u32 = 64;

/// What happens to a board on a live bus. Called on the bus's thread.
pub trait LiveEvents: Send {
    /// The host has enumerated the board's device and selected a configuration.
    fn arrived(&mut self, device: LiveDevice);

    /// The device is gone.
    fn left(&mut self);

    /// The host gave up on the device; its log says why.
    fn failed(&mut self, log: &[LogLine]);

    /// The board restarted, and what it runs then does not start.
    fn stopped(&mut self, why: &Failure) {
        let _ = why;
    }
}

/// A bus with its host. Dropping it pulls every cable and ends its thread.
pub struct LiveBus {
    commands: mpsc::UnboundedSender<Plug>,
    thread: Option<JoinHandle<()>>,
}

/// A board on a live bus. Dropping it takes the board away.
pub struct LiveBoard {
    cable: Arc<Cable>,
    _stop: oneshot::Sender<()>,
}

/// What a cable connects: a port of the host, and the board if this program runs its processor.
struct Cable {
    host: Host,
    log: Arc<HostLog>,
    machine: Option<Machine>,
}

/// Makes what is at the cable's end, on the bus's thread; `first` is the host of the bus's first port.
type Connect = Box<dyn FnOnce(Option<&Host>) -> Result<Cable, LiveError> + Send>;

struct Plug {
    connect: Connect,
    events: Box<dyn LiveEvents>,
    answer: blocking::Sender<Result<LiveBoard, LiveError>>,
}

/// Why a live bus or board cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The board cannot be set up.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Its driver does not start.
    #[error("{0}")]
    Boot(Failure),
    /// Its port is none that a device can be shown at.
    #[error("{0}")]
    Port(String),
    /// The operating system gave no thread.
    #[error("no thread for the bus: {0}")]
    Thread(#[from] io::Error),
    /// The bus's thread has ended.
    #[error("the bus has stopped")]
    Stopped,
}

impl LiveBus {
    /// Starts a bus.
    ///
    /// # Errors
    /// [`LiveError::Thread`].
    pub fn start() -> Result<Self, LiveError> {
        let (commands, plugs) = mpsc::unbounded_channel();
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let run = move || runtime.block_on(LocalSet::new().run_until(serve(plugs)));
        let thread = thread::Builder::new().name("live-bus".to_owned()).spawn(run)?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Plugs a board in: the pool and driver of `bench`, at its port, with `gadget`.
    ///
    /// A gadget whose software ends ([`Gadget::end`]), as a boot loader's does, leaves the bus; the board resets and comes
    /// back with it. See [`LiveBus::plug_with_loader`] for one that starts something else.
    ///
    /// # Errors
    /// [`LiveError`]. What happens once the cable is in comes through `events`.
    pub fn plug(
        &self,
        bench: Bench,
        gadget: impl Gadget + 'static,
        events: impl LiveEvents + 'static,
    ) -> Result<LiveBoard, LiveError> {
        self.plug_machine(bench, Software::alone(gadget), events)
    }

    /// Plugs a board in that has a boot loader, which runs first and after each restart, and `system`, which it starts:
    /// `fastboot boot` and `fastboot continue` do. The pool and driver of `bench` are the system's; the boot loader has its
    /// own, as in the scenario `bootloader-to-ethernet`.
    ///
    /// # Errors
    /// [`LiveError`]. What happens once the cable is in comes through `events`.
    pub fn plug_with_loader(
        &self,
        bench: Bench,
        loader: impl Gadget + 'static,
        system: impl Gadget + 'static,
        events: impl LiveEvents + 'static,
    ) -> Result<LiveBoard, LiveError> {
        self.plug_machine(bench, Software::with_loader(loader, system), events)
    }

    fn plug_machine(
        &self,
        bench: Bench,
        software: Software,
        events: impl LiveEvents + 'static,
    ) -> Result<LiveBoard, LiveError> {
        let connect = move |first: Option<&Host>| {
            let clock = Arc::new(Clock::default());
            let (session, _) = bench.set_up(Needs::default(), &clock, first)?;
            clock.start();
            let (host, log) = (session.host().clone(), Arc::clone(&session.log));
            let machine = Machine::start(bench, session, software).map_err(LiveError::Boot)?;
            Ok(Cable { host, log, machine: Some(machine) })
        };
        self.send(Box::new(connect), Box::new(events))
    }

    /// Plugs in what is behind `port`: a device of a machine that runs elsewhere. Its host logs to `log` too.
    ///
    /// # Errors
    /// [`LiveError::Stopped`].
    pub fn connect(
        &self,
        port: Arc<dyn UsbPort>,
        config: HostConfig,
        log: Arc<dyn Log>,
        events: impl LiveEvents + 'static,
    ) -> Result<LiveBoard, LiveError> {
        let connect = move |first: Option<&Host>| {
            let log = HostLog::telling(log);
            let host = match first {
                Some(host) => host.beside(port, config, Arc::clone(&log) as _),
                None => Host::new(port, config, Arc::clone(&log) as _),
            };
            Ok(Cable { host, log, machine: None })
        };
        self.send(Box::new(connect), Box::new(events))
    }

    fn send(&self, connect: Connect, events: Box<dyn LiveEvents>) -> Result<LiveBoard, LiveError> {
        let (answer, answered) = blocking::channel();
        self.commands.send(Plug { connect, events, answer }).map_err(|_| LiveError::Stopped)?;
        answered.recv().map_err(|_| LiveError::Stopped)?
    }
}

impl Drop for LiveBus {
    fn drop(&mut self) {
        // The thread ends with its last command.
        let (closed, _) = mpsc::unbounded_channel();
        self.commands = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl LiveBoard {
    /// Pulls the cable out.
    pub fn unplug(&self) {
        self.cable.power(false);
    }

    /// Plugs the cable in again.
    pub fn plug(&self) {
        self.cable.power(true);
    }

    /// The host of the board's port. Its events are the live bus's own.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.cable.host
    }

    /// The host's log so far.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.cable.log()
    }

    /// What the bench says of the board so far, as of a run of a scenario `live`; `None` for a machine that runs elsewhere.
    #[must_use]
    pub fn judge(&self) -> Option<Run> {
        self.cable.machine.as_ref().map(Machine::judge)
    }
}

impl Cable {
    fn power(&self, on: bool) {
        match &self.machine {
            Some(machine) if on => machine.session.plug(),
            Some(machine) => machine.session.unplug(),
            None => self.host.controller().set_power(on),
        }
    }

    fn log(&self) -> Vec<LogLine> {
        self.log.lines().into_iter().map(|line| LogLine { at: line.time, text: line.text }).collect()
    }

    /// The board's processor, for ever.
    async fn run_board(&self) {
        match &self.machine {
            Some(machine) => machine.session.board.run(None).await,
            None => std::future::pending().await,
        }
    }

    /// What the board runs one after the other, for ever.
    async fn follow(&self, failed: impl Fn(&Failure)) {
        match &self.machine {
            Some(machine) => machine.follow(failed).await,
            None => std::future::pending().await,
        }
    }

    /// Runs the board's processor if it has an interrupt. Whether it had.
    fn interrupt(&self) -> bool {
        let board = self.machine.as_ref().map(|machine| &machine.session.board);
        let Some(board) = board.filter(|board| board.line.is_asserted()) else { return false };
        board.service();
        true
    }
}

/// The bus's thread.
async fn serve(mut plugs: mpsc::UnboundedReceiver<Plug>) {
    let mut first: Option<Host> = None;
    while let Some(Plug { connect, events, answer }) = plugs.recv().await {
        let board = connect(first.as_ref()).map(|cable| {
            first.get_or_insert_with(|| cable.host.clone());
            let cable = Arc::new(cable);
            let (stop, stopped) = oneshot::channel();
            tokio::task::spawn_local(run(Arc::clone(&cable), events, stopped));
            LiveBoard { cable, _stop: stop }
        });
        // Who plugged it in may have gone meanwhile; the board goes too then.
        let _ = answer.send(board);
    }
}

/// One board, until it is taken away.
async fn run(cable: Arc<Cable>, events: Box<dyn LiveEvents>, stopped: oneshot::Receiver<()>) {
    let events = RefCell::new(events);
    let watch = async {
        loop {
            let event = cable.host.event().await;
            let mut events = events.borrow_mut();
            match event {
                HostEvent::Enumerated(device) => events.arrived(LiveDevice::new(device, Arc::clone(&cable))),
                HostEvent::Disconnected(_) => events.left(),
                HostEvent::Failed(_) => events.failed(&cable.log()),
            }
        }
    };
    tokio::select! {
        biased;
        _ = stopped => {}
        () = cable.run_board() => {}
        () = cable.host.run() => {}
        () = watch => {}
        () = cable.follow(|failure| events.borrow_mut().stopped(failure)) => {}
    }
    cable.power(false);
    if let Some(machine) = &cable.machine {
        // What could not be given back is of no interest any more: the memory goes with the board.
        let _ = machine.session.halt();
    }
    events.into_inner().left();
}

/// A device on a live bus, for clients on other threads. Clones are the same device.
#[derive(Clone)]
pub struct LiveDevice {
    device: Device,
    cable: Arc<Cable>,
    runtime: Handle,
    /// Client threads take turns in moving packets.
    driving: Arc<Mutex<()>>,
}

impl LiveDevice {
    fn new(device: Device, cable: Arc<Cable>) -> Self {
        Self { device, cable, runtime: Handle::current(), driving: Arc::default() }
    }

    /// The device below.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Starts a transfer; `done` is called on this thread or the bus's. Never blocks for long.
    pub fn submit(&self, urb: Urb, done: Box<dyn FnOnce(UrbDone) + Send>) -> u64 {
        let id = self.device.submit_with(urb, done);
        self.drive();
        id.number()
    }

    /// Takes a transfer back; it ends with [`UrbError::Unlinked`] unless it has ended.
    pub fn cancel(&self, id: u64) {
        self.device.cancel(UrbId::from_number(id), Cancel::Unlink);
        self.drive();
    }

    /// Moves packets and runs the board's processor on this thread while there is something to do.
    fn drive(&self) {
        // Another client's thread that drives sees our transfer too, or the bus's own thread does.
        let Some(_driving) = self.driving.try_lock() else { return };
        let controller = self.cable.host.controller();
        for _ in 0..MOST_ROUNDS {
            let more = controller.run() == Progress::More;
            let interrupt = self.cable.interrupt();
            if !more && !interrupt {
                return;
            }
        }
    }

    /// Selects a configuration.
    ///
    /// # Errors
    /// See [`UrbError`]. Not to be called on the bus's own thread.
    pub fn set_configuration(&self, value: u8) -> Result<(), UrbError> {
        self.wait(move |device| async move { device.set_configuration(value).await })
    }

    /// Selects an alternate setting.
    ///
    /// # Errors
    /// See [`UrbError`]. Not to be called on the bus's own thread.
    pub fn set_interface(&self, interface: u8, alternate: u8) -> Result<(), UrbError> {
        self.wait(move |device| async move { device.set_interface(interface, alternate).await })
    }

    /// Clears an endpoint's halt.
    ///
    /// # Errors
    /// See [`UrbError`]. Not to be called on the bus's own thread.
    pub fn clear_halt(&self, endpoint: EndpointAddress) -> Result<(), UrbError> {
        self.wait(move |device| async move { device.clear_halt(endpoint).await })
    }

    /// Resets the device.
    ///
    /// # Errors
    /// [`UrbError::NoDevice`] if it does not come back. Not to be called on the bus's own thread.
    pub fn reset(&self) -> Result<(), UrbError> {
        self.wait(|device| async move {
            device.reset().await.map_err(|error| match error {
                HubError::Urb(error) => error,
                _ => UrbError::NoDevice,
            })
        })
    }

    /// Runs a request on the bus's thread and waits for its end.
    fn wait<F>(&self, request: impl FnOnce(Device) -> F) -> Result<(), UrbError>
    where
        F: Future<Output = Result<(), UrbError>> + Send + 'static,
    {
        let (sender, receiver) = blocking::channel();
        let request = request(self.device.clone());
        self.runtime.spawn(async move {
            // The caller may have gone.
            let _ = sender.send(request.await);
        });
        // A bus that ends drops the sender.
        receiver.recv_timeout(Duration::from_secs(60)).unwrap_or(Err(UrbError::NoDevice))
    }
}
