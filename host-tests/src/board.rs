//! The board: memory, a device, and a processor that runs a driver with its gadget.

use std::sync::Arc;
use std::time::Duration;

use bus::Mmio;
use devices::Device;
use parking_lot::Mutex;
use pool::{DmaApi, Ledger, Memory, PageAllocator};
use tokio::sync::Notify;
use tokio::time::sleep;
use usb::gadget::{End, Gadget, UdcDriver, UdcError};

use crate::clock::Clock;
use crate::irq::Line;
use crate::processor::{Processor, Software};
use crate::schedule::Race;
use crate::verdict::Failure;

/// Calls of the interrupt handler in a row, with the line still asserted, after which the processor gives up on it
/// (Linux: "irq: nobody cared").
const INTERRUPT_STORM: u32 = 2_000;

/// Rounds of completions in a row, each of which makes a further one, after which the processor gives up.
const COMPLETION_STORM: u32 = 10_000;
/// Turns of the processor at one instant of virtual time, many more than any transfer needs, after which time is made to
/// move: work that makes work for ever would keep every timeout from coming.
const STANDSTILL: u32 = 20_000;

/// How long what is held up waits for a driver that makes no access.
const MICROFRAME: Duration = Duration::from_micros(125);

/// A board.
pub(crate) struct Board {
    pub(crate) clock: Arc<Clock>,
    pub(crate) line: Arc<Line>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) registers: Arc<dyn Mmio>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<PageAllocator>,
    pub(crate) ledger: Arc<Ledger>,
    /// Memory for a driver that is under test.
    pub(crate) dma: DmaApi,
    processor: Processor,
    log: Mutex<Vec<String>>,
    failure: Mutex<Option<Failure>>,
    /// Why the driver answers no more, if it does not.
    crash: Mutex<Option<Failure>>,
    end: Mutex<Option<End>>,
    end_told: Notify,
}

impl Board {
    #[expect(clippy::too_many_arguments, reason = "the parts of a board, put together in one place")]
    pub(crate) fn new(
        clock: Arc<Clock>,
        line: Arc<Line>,
        device: Arc<dyn Device>,
        registers: Arc<dyn Mmio>,
        memory: Arc<Memory>,
        pages: Arc<PageAllocator>,
        ledger: Arc<Ledger>,
        dma: DmaApi,
    ) -> Self {
        Self {
            clock,
            line,
            device,
            registers,
            memory,
            pages,
            ledger,
            dma,
            processor: Processor::default(),
            log: Mutex::default(),
            failure: Mutex::default(),
            crash: Mutex::default(),
            end: Mutex::default(),
            end_told: Notify::new(),
        }
    }

    /// Whether a driver runs.
    pub(crate) fn is_running(&self) -> bool {
        self.processor.take().is_none_or(|taken| taken.software.is_some())
    }

    /// Starts a driver with its gadget; what ran before must have been stopped.
    pub(crate) fn start(&self, driver: Box<dyn UdcDriver>, gadget: Box<dyn Gadget>) {
        if let Some(mut taken) = self.processor.take() {
            *taken.software = Some(Software { driver, gadget });
        }
        self.line.poke();
    }

    /// Stops what runs.
    pub(crate) fn stop(&self) -> Result<(), UdcError> {
        let Some(mut taken) = self.processor.take() else {
            return Err(UdcError::Hardware("halted from inside a call on the board's own processor".to_owned()));
        };
        let Some(mut software) = taken.software.take() else { return Ok(()) };
        let stopped = software.driver.shutdown();
        software.driver.deliver(&mut *software.gadget);
        self.log.lock().append(&mut software.driver.take_log());
        stopped
    }

    /// Calls `act` with the driver and gadget that run; `None` if none does, or from inside such a call.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut dyn UdcDriver, &mut dyn Gadget) -> R) -> Option<R> {
        let mut taken = self.processor.take()?;
        let Software { driver, gadget } = taken.software.as_mut()?;
        let result = act(&mut **driver, &mut **gadget);
        drop(taken);
        self.line.poke();
        Some(result)
    }

    /// Why the driver answered no more, if it did not: the cause of everything that came after.
    pub(crate) fn take_crash(&self) -> Option<Failure> {
        self.crash.lock().take()
    }

    /// Why the board stopped by itself, if it did.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().take()
    }

    /// Warnings so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// How the gadget's software ended, once it has. For one who waits.
    pub(crate) async fn ended(&self) -> End {
        loop {
            let told = self.end_told.notified();
            if let Some(end) = self.end.lock().take() {
                return end;
            }
            told.await;
        }
    }

    /// The processor: handles interrupts and the gadget's own work, for ever. What a race holds up goes on when the driver
    /// has made no access for a while.
    pub(crate) async fn run(&self, race: Option<&Race>) {
        let (mut turns, mut instant) = (0, self.clock.now());
        let mut pause = Duration::from_millis(1);
        loop {
            let now = self.clock.now();
            if now != instant {
                (turns, instant) = (0, now);
            }
            turns += 1;
            if turns == STANDSTILL {
                sleep(pause).await;
                pause *= 2;
            }
            match self.service() {
                _ if race.is_some_and(Race::holds) => {
                    tokio::select! {
                        biased;
                        () = self.line.wait() => {}
                        () = sleep(MICROFRAME) => race.into_iter().for_each(Race::release),
                    }
                }
                None => self.line.wait().await,
                Some(at) => {
                    let rest = at.saturating_sub(self.clock.now());
                    tokio::select! {
                        biased;
                        () = self.line.wait() => {}
                        () = sleep(rest.max(Duration::from_millis(1))) => {}
                    }
                }
            }
        }
    }

    /// One turn of the processor. Returns when the gadget or the device wants the next one.
    pub(crate) fn service(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.device.step(now);
        let mut taken = self.processor.take()?;
        let Some(Software { driver, gadget }) = taken.software.as_mut() else { return self.device.deadline() };
        let mut turns = 0;
        while self.line.is_asserted() && driver.failure().is_none() {
            driver.irq(&mut **gadget);
            turns += 1;
            if turns == INTERRUPT_STORM {
                *taken.software = None;
                self.give_up(format!("irq: nobody cared ({turns} interrupts in a row); the driver is stopped"));
                return None;
            }
        }
        let deadline = gadget.step(&mut **driver, now);
        let mut rounds = 0;
        while driver.deliver(&mut **gadget) {
            rounds += 1;
            if rounds == COMPLETION_STORM {
                *taken.software = None;
                self.give_up(format!("{rounds} rounds of completions in a row; the gadget is stopped"));
                return None;
            }
        }
        if let Some(why) = driver.failure() {
            let mut log = self.log.lock();
            log.append(&mut driver.take_log());
            log.push(why.clone());
            *taken.software = None;
            *self.crash.lock() = Some(Failure::new(why));
            return None;
        }
        if let Some(end) = gadget.end() {
            *self.end.lock() = Some(end);
            self.end_told.notify_one();
        }
        match (deadline, self.device.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn give_up(&self, why: String) {
        self.failure.lock().get_or_insert_with(|| Failure::new(why.clone()));
        self.log.lock().push(why);
    }
}
