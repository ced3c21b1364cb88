//! The machine on a live bus: a board, and what it runs one after the other.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use usb::gadget::{End, Gadget};

use crate::bench::Bench;
use crate::run::Run;
use crate::scenario::Expected;
use crate::session::Session;
use crate::shared::Shared;
use crate::verdict::Failure;

/// How long the device stays after its last answer: a program of the host reads that before it sees the device go.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How often a machine that restarts looks whether its host has noticed.
const LOOK: Duration = Duration::from_millis(10);
/// How long a machine takes to start what follows: enough for a person to see that it was gone.
const STARTS: Duration = Duration::from_millis(300);

/// Boots a board with one gadget.
type Boot = Box<dyn Fn(&Session) -> Result<(), Failure> + Send + Sync>;

/// What a machine runs.
pub(crate) struct Software {
    /// When it is switched on, and after a restart.
    first: Boot,
    /// What the first starts.
    system: Boot,
}

impl Software {
    /// One gadget, by the driver under test, whatever it ends with.
    pub(crate) fn alone(gadget: impl Gadget + 'static) -> Self {
        let gadget = Shared::new(gadget);
        let again = gadget.clone();
        Self {
            first: Box::new(move |session| session.boot(gadget.clone())),
            system: Box::new(move |session| session.boot(again.clone())),
        }
    }

    /// A boot loader by a driver of its own, and the system that it starts, by the driver under test.
    pub(crate) fn with_loader(loader: impl Gadget + 'static, system: impl Gadget + 'static) -> Self {
        let (loader, system) = (Shared::new(loader), Shared::new(system));
        Self {
            first: Box::new(move |session| session.boot_loader(loader.clone())),
            system: Box::new(move |session| session.boot(system.clone())),
        }
    }
}

/// A board that this program runs the processor of.
pub(crate) struct Machine {
    bench: Bench,
    pub(crate) session: Session,
    software: Software,
    since: Instant,
}

impl Machine {
    /// Switches a machine on.
    pub(crate) fn start(bench: Bench, session: Session, software: Software) -> Result<Self, Failure> {
        (software.first)(&session)?;
        Ok(Self { bench, session, software, since: Instant::now() })
    }

    /// Starts what follows whenever the gadget's software ends, for ever. `failed` is told when that does not start.
    pub(crate) async fn follow(&self, failed: impl Fn(&Failure)) {
        loop {
            let end = self.session.board.ended().await;
            sleep(LAST_WORDS).await;
            // What could not be given back is lost to a machine that restarts.
            let _ = self.session.halt();
            while self.session.host().current_device().is_some() {
                sleep(LOOK).await;
            }
            sleep(STARTS).await;
            let boot = match end {
                End::Restart => &self.software.first,
                End::Start => &self.software.system,
            };
            if let Err(failure) = boot(&self.session) {
                failed(&failure);
            }
        }
    }

    /// What the bench says so far.
    pub(crate) fn judge(&self) -> Run {
        let failure = match self.session.host().current_device() {
            Some(_) => None,
            None => self.session.host_error(),
        };
        self.bench.judge("live", &self.session, Expected::default(), failure, self.since.elapsed())
    }
}
