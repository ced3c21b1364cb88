//! One run of one scenario on one pool, and how far it reaches.

use std::fmt;
use std::time::Duration;

use pool::{Blame, Finding, Metadata, PageOrder};
use usb::Speed;
use usb::gadget::DebugFile;

use crate::schedule::{Raced, Schedule, Step};
use crate::scope::Scope;
use crate::verdict::{Failure, Verdict};
use crate::witness::Witnessed;

/// One way to run a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// Endpoint numbers of the controller, endpoint 0 included: 1 to 16.
    pub endpoints: u8,
    /// The fastest speed of the host's port.
    pub speed: Speed,
    /// Page size in bytes.
    pub page_size: u64,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} endpoints, {}", self.endpoints, self.speed)?;
        if self.page_size != 4096 {
            write!(f, ", {} KiB pages", self.page_size / 1024)?;
        }
        Ok(())
    }
}

/// A line of the host's log, with virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Time since the host's clock began, as its log shows it.
    pub at: Duration,
    /// The line.
    pub text: String,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:6}.{:06}] {}", self.at.as_secs(), self.at.subsec_micros(), self.text)
    }
}

/// One run of one scenario on one pool, judged.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the pool.
    pub pool: String,
    /// Name of the scenario.
    pub scenario: String,
    /// How it was run.
    pub variant: Variant,
    /// The verdict.
    pub verdict: Verdict,
    /// What the host or the scenario saw, if it failed.
    pub failure: Option<Failure>,
    /// What the ledger noticed; of a flood only its beginning.
    pub findings: Vec<Finding>,
    /// How many findings there were.
    pub findings_total: u64,
    /// Names of the findings that the scenario declares for such a pool, and that did not come.
    pub missing: Vec<&'static str>,
    /// What the device took for something else, once a layout did not hold; the first of them.
    pub witnessed: Vec<Witnessed>,
    /// Where the pool keeps its own data.
    pub metadata: Metadata,
    /// What was exercised, in counts.
    pub exercised: Exercised,
    /// What the controller's errata did, one line for each time; the first of them.
    pub errata: Vec<String>,
    /// The host's kernel log.
    pub log: Vec<LogLine>,
    /// What the log's clock shows when the bench is switched on.
    pub log_origin: Duration,
    /// Warnings of the board's driver.
    pub board_log: Vec<String>,
    /// What the board's driver showed in debugfs at the end, with [`Bench::debugfs`](crate::Bench::debugfs). Empty if no driver
    /// ran then, or it shows nothing.
    pub debugfs: Vec<DebugFile>,
    /// Virtual time.
    pub virtual_time: Duration,
    /// Wall time.
    pub wall_time: Duration,
    /// What happened at which of the driver's accesses, in a scenario that is raced.
    pub schedule: Option<Schedule>,
    pub(crate) raced: Raced,
    /// How far the verdict reaches.
    pub scope: Scope,
    /// Name of the driver under test, or of the scenario's own client.
    pub driver: String,
    /// Whether the bench's controller was in use; a scenario with a client of its own has a device of its own.
    pub has_controller: bool,
    /// Which free page came first.
    pub page_order: PageOrder,
    /// Bits of the DMA mask that the driver declared.
    pub mask_bits: u32,
    /// What the scenario saw and does not judge, and what it shows as declared.
    pub notes: Vec<String>,
    /// Whose assumption it is when the layout does not hold, such as ci_hdrc's `init_eps`.
    pub assumed_by: String,
}

/// Counts of what a run did to the pool under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exercised {
    /// Blocks handed out.
    pub allocations: u64,
    /// Accesses of the device to blocks of pools.
    pub accesses: u64,
    /// Interrupts.
    pub interrupts: u64,
}

impl Exercised {
    /// Whether the pool under test was used, by both sides.
    #[must_use]
    pub const fn is_enough(&self) -> bool {
        self.allocations > 0 && self.accesses > 0
    }
}

impl Run {
    /// Steps of the schedule that did not take place, as the race had fewer accesses: their number is the second.
    #[must_use]
    pub fn unreached(&self) -> Option<(&[Step], u32)> {
        let steps = self.schedule.as_ref()?.steps().get(self.raced.steps..).filter(|steps| !steps.is_empty())?;
        Some((steps, self.raced.accesses))
    }

    /// Whether anything was wrong, recorded defect or not.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !matches!(self.verdict, Verdict::NoFailureFound | Verdict::NotJudged | Verdict::AsDeclared)
    }

    /// The error number at the end of the failure, as Linux prints it, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.failure.as_ref()?.error.rsplit_once("error ")?.1.parse().ok()
    }

    /// The finding that explains the run: the pool's own first, then a broken layout, then the first.
    #[must_use]
    pub fn first_finding(&self) -> Option<&Finding> {
        let rank = |finding: &&Finding| match finding {
            finding if finding.blame() == Blame::Pool => 0,
            Finding::LayoutContract(_) => 1,
            _ => 2,
        };
        self.findings.iter().min_by_key(rank)
    }
}
