//! Every mutant.

use chipidea_driver::Fault;
use pool::Policy;

use crate::{listed, numbered};

/// A pool or driver with one fault, or a baseline: the same with none.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its name on the command line.
    pub name: String,
    /// What it does, in one line.
    pub about: String,
    /// Name of the baseline that it is held against; a baseline names itself.
    pub baseline: String,
    /// Why nothing catches it, if that is known: an argument, not an excuse. It counts as a survivor.
    pub survives: Option<&'static str>,
    pub(crate) subject: Subject,
}

/// What has the fault.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// The pool under Linux's driver.
    Pool(Policy),
    /// Linux's driver.
    Driver(Option<Fault>),
}

/// The baseline of driver mutants.
const DRIVER: &str = "driver";

/// Mutants that nothing catches, and why.
const SURVIVORS: &[(&str, &str)] = &[(
    "foreign-accepted",
    "dma_pool promises nothing about a wrong free, and Linux's own pool takes it; the ledger names the driver that frees so",
)];

impl Mutant {
    fn of(name: &str, about: &str, baseline: &str, subject: Subject) -> Self {
        let survives = SURVIVORS.iter().find(|(survivor, _)| *survivor == name).map(|&(_, why)| why);
        Self { name: name.to_owned(), about: about.to_owned(), baseline: baseline.to_owned(), survives, subject }
    }

    fn of_pool(policy: Policy, baseline: &Policy) -> Self {
        Self::of(&policy.name, &policy.about, &baseline.name, Subject::Pool(policy.clone()))
    }

    pub(crate) fn of_file(policy: Policy, name: &str, baseline: &str, about: &str) -> Self {
        Self::of(name, about, baseline, Subject::Pool(policy))
    }

    /// Whether the fault is in a pool, and not in the driver.
    #[must_use]
    pub const fn is_of_pool(&self) -> bool {
        matches!(self.subject, Subject::Pool(_))
    }
}

/// Every mutant: of pools, then of the driver.
#[must_use]
pub fn table() -> Vec<Mutant> {
    let (in_blocks, outside) = (listed::right(), numbered::right());
    let pools = listed::faulty().map(|policy| Mutant::of_pool(policy, &in_blocks));
    let pools = pools.chain(numbered::faulty().map(|policy| Mutant::of_pool(policy, &outside)));
    let driver =
        Fault::ALL.iter().map(|&fault| Mutant::of(fault.name(), fault.about(), DRIVER, Subject::Driver(Some(fault))));
    pools.chain(driver).collect()
}

/// What mutants are held against.
#[must_use]
pub fn baselines() -> Vec<Mutant> {
    let pools = [listed::right(), numbered::right()].map(|policy| Mutant::of_pool(policy.clone(), &policy));
    let driver = Mutant::of(DRIVER, "Linux's driver", DRIVER, Subject::Driver(None));
    pools.into_iter().chain([driver]).collect()
}
