//! A session: a board and a host with a cable between them, while a scenario runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::{Preempt, Trace};
use parking_lot::Mutex;
use pool::{AllocFailures, Counts, DmaApi, PageSource, Policy};
use tokio::time::sleep;
use usb::gadget::{Gadget, UdcDriver, UdcError};
use usb::wire::UsbPort;
use usb_host::{Device, Host, HostEvent};

use crate::board::Board;
use crate::driver::{DriverFactory, DriverSide};
use crate::preempt::PreemptedMmio;
use crate::schedule::{Act, Race};
use crate::sides;
use crate::trace::HostLog;
use crate::verdict::Failure;
use crate::witness::Witness;

/// A running bench, as a scenario sees it.
pub struct Session {
    pub(crate) board: Arc<Board>,
    pub(crate) port: Arc<dyn UsbPort>,
    pub(crate) host: Host,
    pub(crate) log: Arc<HostLog>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) controller: Arc<sides::Controller>,
    pub(crate) driver: DriverFactory,
    pub(crate) workarounds: bool,
    /// Of the pools under test.
    pub(crate) failures: Arc<AllocFailures>,
    pub(crate) notes: Mutex<Vec<String>>,
    pub(crate) preempt: Option<Arc<dyn Preempt>>,
    /// Who follows the schedule, in a scenario that is raced.
    pub(crate) race: Option<Arc<Race>>,
    pub(crate) port_name: String,
    pub(crate) seed: u64,
    pub(crate) trace: Trace,
    /// What the ledger had counted when the driver under test began; `None` while it has not.
    pub(crate) untested: Mutex<Option<Counts>>,
}

impl Session {
    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The cable's end at the board, for schedules of wire traffic.
    #[must_use]
    pub fn port(&self) -> &Arc<dyn UsbPort> {
        &self.port
    }

    /// The bench's seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Virtual time since the bench was switched on.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.board.clock.now()
    }

    /// Boots the board: the driver under test, on the pool under test, with `gadget`.
    ///
    /// # Errors
    /// [`Failure`] in the driver's words, or if the board runs already.
    pub fn boot(&self, gadget: impl Gadget + 'static) -> Result<(), Failure> {
        self.bind(|_| gadget)
    }

    /// [`Session::boot`] with a gadget that `make` makes when the driver is there, as a function's `bind` does that chooses
    /// its endpoints by what the controller wants.
    ///
    /// # Errors
    /// As [`Session::boot`].
    pub fn bind<G: Gadget + 'static>(&self, make: impl FnOnce(&dyn UdcDriver) -> G) -> Result<(), Failure> {
        self.bind_on(self.dma(), make)
    }

    /// [`Session::boot`] on pools that others have used before, and still do ([`pool::DmaPool::aged`]).
    ///
    /// # Errors
    /// As [`Session::boot`].
    pub fn boot_aged(&self, gadget: impl Gadget + 'static) -> Result<(), Failure> {
        self.bind_on(self.dma().aged(self.seed), |_| gadget)
    }

    fn bind_on<G: Gadget + 'static>(&self, dma: DmaApi, make: impl FnOnce(&dyn UdcDriver) -> G) -> Result<(), Failure> {
        let mut mmio = Arc::clone(&self.board.registers);
        if let Some(preempt) = self.preempt() {
            mmio = Arc::new(PreemptedMmio { mmio, preempt });
        }
        let side = DriverSide { mmio, dma, workarounds: self.workarounds };
        let driver = (self.driver)(side).map_err(|error| failed("probe", &error))?;
        let gadget = make(&*driver);
        self.start(driver, gadget)
    }

    /// Memory for what is under test: from now on it counts.
    pub(crate) fn dma(&self) -> DmaApi {
        self.untested.lock().get_or_insert_with(|| self.board.ledger.counts());
        let dma = self.board.dma.clone();
        match self.preempt() {
            Some(preempt) => dma.preempted(preempt),
            None => dma,
        }
    }

    /// Who stands at the preemption points of the driver under test.
    fn preempt(&self) -> Option<Arc<dyn Preempt>> {
        let race = self.race.clone().map(|race| race as Arc<dyn Preempt>);
        race.or_else(|| self.preempt.clone())
    }

    /// Makes atomic allocations of the pools under test fail.
    #[must_use]
    pub fn failures(&self) -> &AllocFailures {
        &self.failures
    }

    /// Reports something that is seen and not judged.
    pub fn note(&self, text: impl Into<String>) {
        self.notes.lock().push(text.into());
    }

    /// Boots the boot loader: its queue heads lie in a static aligned array, as boot loaders have them, and its pool is
    /// not the one under test.
    ///
    /// # Errors
    /// [`Failure`] in the driver's words.
    pub fn boot_loader(&self, gadget: impl Gadget + 'static) -> Result<(), Failure> {
        let Board { memory, pages, ledger, registers, .. } = &*self.board;
        let dma = DmaApi::new(Arc::clone(memory), Arc::clone(pages) as _, Policy::current(), Arc::clone(ledger));
        let side = DriverSide { mmio: Arc::clone(registers), dma, workarounds: self.workarounds };
        let driver = sides::boot_loader(side).map_err(|error| failed("boot loader", &error))?;
        self.start(driver, gadget)
    }

    fn start(&self, driver: Box<dyn UdcDriver>, gadget: impl Gadget + 'static) -> Result<(), Failure> {
        if self.board.is_running() {
            return Err(Failure::new("the board runs already: halt it before it is booted again"));
        }
        self.board.start(driver, Box::new(gadget));
        let pulled = self.board.with(|driver, _| driver.pullup(true));
        pulled.unwrap_or(Ok(())).map_err(|error| failed("pull-up", &error))
    }

    /// Stops what the board runs: the host sees a disconnect.
    ///
    /// # Errors
    /// [`Failure`] if something could not be given back.
    pub fn halt(&self) -> Result<(), Failure> {
        self.board.stop().map_err(|error| failed("shutdown", &error))
    }

    /// Calls `act` with the board's driver and gadget, as code on the board's processor.
    pub fn on_board<R>(&self, act: impl FnOnce(&mut dyn UdcDriver, &mut dyn Gadget) -> R) -> Option<R> {
        self.board.with(act)
    }

    /// Pulls the cable out: no VBUS at the board, no pull-up at the host.
    pub fn unplug(&self) {
        self.host.controller().set_power(false);
        self.board.line.poke();
    }

    /// Plugs the cable in again.
    pub fn plug(&self) {
        self.host.controller().set_power(true);
        self.board.line.poke();
    }

    /// Waits until the host has enumerated a device and taken a configuration.
    ///
    /// # Errors
    /// [`Failure`] in the words of the host's log, if the host gives up.
    pub async fn enumerated(&self) -> Result<Device, Failure> {
        loop {
            match self.host.event().await {
                HostEvent::Enumerated(device) => return Ok(device),
                HostEvent::Failed(_) => {
                    return Err(self.host_error().unwrap_or_else(|| Failure::new("the host gave up without a word")));
                }
                HostEvent::Disconnected(_) => {}
            }
        }
    }

    /// Waits until the host has noticed that the device is gone.
    ///
    /// # Errors
    /// [`Failure`], if something else happens or nothing for ten seconds.
    pub async fn disconnected(&self) -> Result<(), Failure> {
        let gone = async {
            loop {
                if let HostEvent::Disconnected(_) = self.host.event().await {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .map_err(|_| Failure::new("the host did not notice that the device is gone"))
    }

    /// Does `window` with the driver's accesses counted: at those that the bench's schedule names, the `acts` take place.
    ///
    /// # Errors
    /// Those of `window`.
    pub async fn race(&self, acts: Vec<Act>, window: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let Some(race) = &self.race else { return window.await };
        race.begin(acts);
        let result = window.await;
        race.end();
        result
    }

    /// Lets the board's processor finish what is pending.
    pub async fn settle(&self) {
        sleep(Duration::from_millis(1)).await;
    }

    /// Blocks of pools in use.
    #[must_use]
    pub fn blocks_in_use(&self) -> usize {
        self.board.ledger.live_blocks().len()
    }

    /// Mappings in use.
    #[must_use]
    pub fn mappings_in_use(&self) -> usize {
        self.board.ledger.live_mappings().len()
    }

    /// Page size in bytes.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        self.board.pages.page_size()
    }

    /// Pages that are free.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.board.pages.free_pages()
    }

    /// Pages that pools hold.
    #[must_use]
    pub fn pool_pages(&self) -> usize {
        (self.board.ledger.pool_memory() / self.page_size()) as usize
    }

    /// Lets virtual time pass.
    pub async fn sleep(&self, time: Duration) {
        sleep(time).await;
    }

    /// The first error in the host's log, without the device's name.
    pub(crate) fn host_error(&self) -> Option<Failure> {
        let lines: Vec<String> = self.log.lines().into_iter().map(|line| line.text).collect();
        let error = lines.iter().find(|line| line.contains(", error -"));
        let error = error.or_else(|| lines.iter().find(|line| line.contains("unable to enumerate")));
        let prefix = format!("usb {}: ", self.port_name);
        error.map(|line| Failure::new(line.strip_prefix(&prefix).unwrap_or(line)))
    }
}

fn failed(what: &str, error: &UdcError) -> Failure {
    Failure::new(format!("{what} failed on the board: {error}"))
}

/// A check of data that came over the wire.
///
/// # Errors
/// [`Failure`] with both values, cut if they are long.
pub fn expect_equal<T: PartialEq + fmt::Debug>(what: &str, seen: &T, expected: &T) -> Result<(), Failure> {
    if seen == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: expected {}, saw {}", cut(expected), cut(seen))))
}

fn cut(value: &impl fmt::Debug) -> String {
    const SHOWN: usize = 120;
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} … ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}
