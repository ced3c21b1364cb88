//! The bench: puts a pool, a driver, a device and a host together and judges what happens.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{CpuAddr, Preempt, Trace};
use devices::{Device, DmaMemory};
use parking_lot::Mutex;
use pool::{AllocFailures, DmaApi, Ledger, Memory, PageAllocator, PageOrder, Policy};
use tokio::time::timeout;
use usb::Speed;
use usb::gadget::{UdcDriver, UdcError};
use usb::wire::UsbPort;
use usb_host::{Host, HostConfig, PortPath};

use crate::board::Board;
use crate::clock::Clock;
use crate::driver::{Client, Driver, DriverSide};
use crate::errata::Erratum;
use crate::error::BenchError;
use crate::irq::Line;
use crate::run::{Run, Variant};
use crate::scenario::{Expected, Needs, Scenario};
use crate::schedule::{Race, Schedule};
use crate::session::Session;
use crate::sides;
use crate::spans::{self, CPU_BASE, LOW_BITS};
use crate::trace::{HostLog, TraceLine, TraceLog};
use crate::verdict::Failure;
use crate::witness::Witness;

/// The recorded session's clock, so that its first line falls on its recorded time.
pub(crate) const ORIGIN: Duration = Duration::from_millis(128_750_080);

/// Virtual time after which a run is ended: what waits for something that never comes must not hang.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A bench, built step by step. Everything has a default: the current kernel's pool, a port of ci_hdrc, a Chipidea
/// controller with 16 endpoints, a high-speed port.
///
/// ```
/// use scenarios::{Bench, Verdict};
///
/// let run = Bench::new().pool(pool::Policy::current()).endpoints(8).run("bootloader-to-ethernet")?;
/// assert_eq!(run.verdict, Verdict::NoFailureFound);
/// # Ok::<(), scenarios::BenchError>(())
/// ```
#[derive(Clone)]
pub struct Bench {
    pub(crate) policy: Policy,
    pub(crate) driver: Driver,
    /// In the place of the driver and the controller, if the scenario has one.
    pub(crate) client: Option<Client>,
    endpoints: u8,
    pub(crate) lpm: bool,
    speed: Speed,
    pub(crate) page_size: u64,
    pub(crate) page_order: PageOrder,
    pub(crate) cpu_base: CpuAddr,
    pub(crate) mask_bits: u32,
    port: PortPath,
    pub(crate) seed: u64,
    pub(crate) errata: Vec<Erratum>,
    pub(crate) workarounds: bool,
    preempt: Option<Arc<dyn Preempt>>,
    pub(crate) schedule_name: String,
    pub(crate) schedule: Schedule,
    trace: Trace,
    traced: bool,
    debugfs: bool,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// The default bench.
    #[must_use]
    pub fn new() -> Self {
        Self {
            policy: Policy::current(),
            driver: sides::linux(),
            client: None,
            endpoints: 16,
            lpm: false,
            speed: Speed::High,
            page_size: 4096,
            page_order: PageOrder::Forward,
            cpu_base: CPU_BASE,
            mask_bits: LOW_BITS,
            port: HostConfig::default().port,
            seed: 0,
            errata: Vec::new(),
            workarounds: true,
            preempt: None,
            schedule_name: "none raced".to_owned(),
            schedule: Schedule::default(),
            trace: Trace::off(),
            traced: false,
            debugfs: false,
        }
    }

    /// The pool under test.
    #[must_use]
    pub fn pool(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The driver under test, by its name.
    #[must_use]
    pub fn driver(
        self,
        name: impl Into<String>,
        make: impl Fn(DriverSide) -> Result<Box<dyn UdcDriver>, UdcError> + Send + Sync + 'static,
    ) -> Self {
        let name: Cow<'static, str> = Cow::Owned(name.into());
        let about = Cow::Borrowed("a driver from elsewhere");
        self.built_in_driver(Driver {
            name: name.clone(),
            about,
            words: name.clone(),
            assumed_by: name,
            limits: &[],
            make: Arc::new(make),
        })
    }

    /// The driver under test, such as one of [`drivers`](crate::drivers).
    #[must_use]
    pub fn built_in_driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Endpoint numbers of the controller, 2 to 16.
    #[must_use]
    pub fn endpoints(mut self, endpoints: u8) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// Gives the controller the register map of parts with link power management.
    #[must_use]
    pub fn lpm(mut self, lpm: bool) -> Self {
        self.lpm = lpm;
        self
    }

    /// The fastest speed of the host's port.
    #[must_use]
    pub fn speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// Page size in bytes: 4, 16 or 64 KiB.
    #[must_use]
    pub fn page_size(mut self, bytes: u64) -> Self {
        self.page_size = bytes;
        self
    }

    /// Which free page comes first.
    #[must_use]
    pub fn page_order(mut self, order: PageOrder) -> Self {
        self.page_order = order;
        self
    }

    /// The processor's address of memory, a multiple of 4 KiB: what an in-block link looks like to a device.
    #[must_use]
    pub fn cpu_base(mut self, base: CpuAddr) -> Self {
        self.cpu_base = base;
        self
    }

    /// Bits of the DMA mask that the driver under test declares (`dma_set_mask_and_coherent`), 32 to 64; 32 unless told
    /// otherwise. Beyond 32 the board has memory above 4 GiB too.
    #[must_use]
    pub fn dma_mask(mut self, bits: u32) -> Self {
        self.mask_bits = bits;
        self
    }

    /// The host's port.
    #[must_use]
    pub fn port(mut self, port: PortPath) -> Self {
        self.port = port;
        self
    }

    /// The host's port, as it was given.
    #[must_use]
    pub fn port_path(&self) -> &PortPath {
        &self.port
    }

    /// Seed of everything that is chosen at random.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What is wrong with the controller; nothing by default. Of two revisions the last one counts.
    #[must_use]
    pub fn errata(mut self, errata: impl IntoIterator<Item = Erratum>) -> Self {
        self.errata = errata.into_iter().collect();
        self
    }

    /// Whether the driver works around the controller's errata, as it does by default. A driver of one's own finds it in
    /// [`DriverSide::workarounds`].
    #[must_use]
    pub fn workarounds(mut self, on: bool) -> Self {
        self.workarounds = on;
        self
    }

    /// Puts somebody at the preemption points of the driver under test; `name` describes the schedule.
    #[must_use]
    pub fn preempt(mut self, name: impl Into<String>, preempt: Arc<dyn Preempt>) -> Self {
        self.schedule_name = name.into();
        self.preempt = Some(preempt);
        self
    }

    /// What happens at which of the driver's accesses, in a scenario that is raced. [`Bench::preempt`] has no say there.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Where register accesses, memory accesses, packets and lines of the host's log go, except in
    /// [`Bench::trace_scenario`], which keeps them itself.
    #[must_use]
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// Keeps what the driver shows in debugfs when the scenario has ended, before the board is halted: [`Run::debugfs`].
    #[must_use]
    pub fn debugfs(mut self, debugfs: bool) -> Self {
        self.debugfs = debugfs;
        self
    }

    /// Runs the built-in scenario of that name.
    ///
    /// # Errors
    /// [`BenchError`] if there is none or the bench cannot be set up. A failure of the pool or driver is a verdict.
    pub fn run(&self, name: &str) -> Result<Run, BenchError> {
        let scenario = crate::scenario::by_name(name).ok_or_else(|| {
            let known: Vec<_> = crate::scenario::table().iter().map(|scenario| scenario.name()).collect();
            BenchError::UnknownScenario { name: name.to_owned(), known: known.join(", ") }
        })?;
        self.run_scenario(&*scenario)
    }

    /// Runs a scenario.
    ///
    /// # Errors
    /// [`BenchError`] if the bench cannot be set up.
    pub fn run_scenario(&self, scenario: &dyn Scenario) -> Result<Run, BenchError> {
        self.clone().carry_out(scenario).map(|(run, _)| run)
    }

    /// The same with the trace of every register access, descriptor access and packet.
    ///
    /// # Errors
    /// [`BenchError`] if the bench cannot be set up.
    pub fn trace_scenario(&self, scenario: &dyn Scenario) -> Result<(Run, Vec<TraceLine>), BenchError> {
        Self { traced: true, ..self.clone() }.carry_out(scenario)
    }

    /// The bench as this scenario uses it.
    pub(crate) fn of_scenario(self, scenario: &dyn Scenario) -> Self {
        Self { client: scenario.client(), ..self }
    }

    fn carry_out(self, scenario: &dyn Scenario) -> Result<(Run, Vec<TraceLine>), BenchError> {
        let bench = self.of_scenario(scenario);
        let expected = scenario.expects(&bench.policy);
        let act = async |session: &Session| scenario.run(session).await;
        let (mut run, trace) = bench.execute(scenario.name(), scenario.needs(), expected, act)?;
        if !scenario.is_judged() {
            run.verdict = run.verdict.unjudged();
        }
        Ok((run, trace))
    }

    /// Runs a scenario of one's own, called `name`.
    ///
    /// # Errors
    /// [`BenchError`] if the bench cannot be set up.
    pub fn session(
        &self,
        name: &str,
        act: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<Run, BenchError> {
        self.execute(name, Needs::default(), Expected::default(), act).map(|(run, _)| run)
    }

    fn execute(
        &self,
        name: &str,
        needs: Needs,
        expected: Expected,
        act: impl AsyncFnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<(Run, Vec<TraceLine>), BenchError> {
        self.validate(name, needs)?;
        self.validate_schedule(name, &[needs.acts, needs.unswept].concat())?;
        let begin = Instant::now();
        let clock = Arc::new(Clock::default());
        let (session, trace) = self.set_up(needs, &clock, None)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(|error| BenchError::Runtime(error.to_string()))?;
        let (mut debugfs, mut crash) = (None, None);
        let outcome = runtime.block_on(async {
            clock.start();
            let outcome = tokio::select! {
                biased;
                () = session.board.run(session.race.as_deref()) => Err(Failure::new("the board's processor stopped")),
                () = session.host.run() => Err(Failure::new("the host stopped")),
                outcome = timeout(PATIENCE, act(&session)) => outcome.unwrap_or_else(|_| {
                    Err(Failure::new(format!("no end after {} s of virtual time", PATIENCE.as_secs())))
                }),
            };
            if self.debugfs {
                debugfs = session.board.with(|driver, _| driver.debugfs());
            }
            let halted = session.halt();
            crash = session.board.take_crash();
            // What code that crashed had is lost with it.
            if halted.is_ok() && crash.is_none() {
                session.board.ledger.check_leaks();
            }
            let outcome = outcome.and(halted);
            clock.stop();
            outcome
        });
        let failure = crash.or(outcome.err()).or_else(|| session.board.take_failure());
        let mut run = self.judge(name, &session, expected, failure, begin.elapsed());
        match debugfs {
            Some(Ok(files)) => run.debugfs = files,
            Some(Err(error)) => run.board_log.push(format!("debugfs: {error}")),
            None => {}
        }
        Ok((run, trace.map(|trace| trace.take()).unwrap_or_default()))
    }

    pub(crate) fn validate(&self, scenario: &str, needs: Needs) -> Result<(), BenchError> {
        let Self { endpoints, page_size, .. } = *self;
        if !(2..=16).contains(&endpoints) {
            return Err(BenchError::Endpoints(endpoints));
        }
        if endpoints < needs.endpoints {
            let (scenario, needed) = (scenario.to_owned(), needs.endpoints);
            return Err(BenchError::TooFewEndpoints { scenario, needed, endpoints });
        }
        if ![4 << 10, 16 << 10, 64 << 10].contains(&page_size) {
            return Err(BenchError::PageSize(page_size));
        }
        Ok(())
    }

    fn validate_schedule(&self, scenario: &str, acts: &[&str]) -> Result<(), BenchError> {
        match self.schedule.unknown(acts, sides::PAUSES) {
            None => Ok(()),
            Some(unknown) => Err(BenchError::UnknownStep {
                name: unknown.to_owned(),
                scenario: scenario.to_owned(),
                acts: acts.join(", "),
                places: sides::PAUSES.join(", "),
            }),
        }
    }

    /// The seed of sampled schedules.
    pub(crate) fn seed_of_schedules(&self) -> u64 {
        self.seed
    }

    /// Puts the sides together; with `beside`, the host's port is on the same bus as that host's.
    pub(crate) fn set_up(
        &self,
        needs: Needs,
        clock: &Arc<Clock>,
        beside: Option<&Host>,
    ) -> Result<(Session, Option<Arc<TraceLog>>), BenchError> {
        let memory = Memory::new(&spans::spans(self.cpu_base, self.mask_bits)?)?;
        let ledger = Ledger::new(Arc::clone(&memory));
        let mask = spans::mask(self.mask_bits);
        let pages = PageAllocator::new(Arc::clone(&memory), self.page_size, mask, self.page_order);
        let dma = DmaApi::new(Arc::clone(&memory), Arc::clone(&pages) as _, self.policy.clone(), Arc::clone(&ledger));
        let failures = Arc::new(AllocFailures::default());
        let dma = dma.failing(Arc::clone(&failures));
        let witness = Witness::new(Arc::clone(&ledger), Arc::clone(&memory));
        let line = Arc::new(Line::default());
        let guest: Arc<dyn DmaMemory> = Arc::new(memory.guest().clone());
        let sink = self.traced.then(|| TraceLog::new(Arc::clone(clock), Arc::clone(&ledger)));
        let trace = sink.as_ref().map_or_else(|| self.trace.clone(), |sink| Trace::to(Arc::clone(sink) as _));
        let chipidea = sides::controller(
            self.endpoints,
            self.lpm,
            &self.errata,
            guest,
            Arc::clone(&witness) as _,
            trace.clone(),
            Arc::clone(&line) as _,
        );
        let log = HostLog::new(trace.clone());
        let config = HostConfig {
            port: self.port.clone(),
            max_speed: self.speed,
            origin: ORIGIN,
            first_device_number: needs.first_device_number,
            configuration: needs.configuration,
            ..HostConfig::default()
        };
        let port: Arc<dyn UsbPort> = Arc::clone(&chipidea) as _;
        let host = match beside {
            Some(host) => host.beside(port, config, Arc::clone(&log) as _),
            None => Host::new(port, config, Arc::clone(&log) as _),
        };
        let device: Arc<dyn Device> = Arc::clone(&chipidea) as _;
        let race = || Race::new(self.schedule.clone(), Arc::clone(&line), Arc::clone(&device), trace.clone());
        let race = (!needs.acts.is_empty()).then(race);
        let board = Board::new(Arc::clone(clock), line, device, Arc::clone(&chipidea) as _, memory, pages, ledger, dma);
        let session = Session {
            board: Arc::new(board),
            port: Arc::clone(&chipidea) as _,
            controller: chipidea,
            host,
            log,
            witness,
            workarounds: self.workarounds,
            driver: Arc::clone(&self.driver.make),
            failures,
            notes: Mutex::default(),
            preempt: self.preempt.clone(),
            race,
            port_name: self.port.to_string(),
            seed: self.seed,
            trace,
            untested: Mutex::new(None),
        };
        Ok((session, sink))
    }

    pub(crate) fn variant(&self) -> Variant {
        Variant { endpoints: self.endpoints, speed: self.speed, page_size: self.page_size }
    }
}
