//! Scenarios: what is done with a board and a host, and what must come of it.

mod aged;
mod bootloader_to_ethernet;
mod fail_alloc;
mod fastboot;
mod foreign_in;
mod malicious_device;
mod network;
mod raced;
mod replug;
mod script;
mod short_packets;
mod stall;
mod suspend;
pub(crate) mod two_pages;

use std::future::Future;
use std::pin::Pin;

use pool::Policy;
use usb::Speed;

use crate::driver::Client;
use crate::session::Session;
use crate::verdict::Failure;

/// The future of a scenario.
pub type Outcome<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// What a scenario needs of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Endpoint numbers of the controller, at least.
    pub endpoints: u8,
    /// The host's first device number.
    pub first_device_number: u8,
    /// The configuration that the host selects instead of its own choice.
    pub configuration: Option<u8>,
    /// Names of what may happen on the wire at the driver's accesses while it races ([`Session::race`]); empty if it does
    /// not.
    pub acts: &'static [&'static str],
    /// Further ones, which only a schedule of one's own names: with them ci_hdrc is known to break.
    pub unswept: &'static [&'static str],
    /// The driver's buffers begin pages: what is expected rests on where requests are cut into dTDs (20 KiB).
    pub aligned_buffers: bool,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            endpoints: 2,
            first_device_number: 3,
            configuration: None,
            acts: &[],
            unswept: &[],
            aligned_buffers: false,
        }
    }
}

/// What must come of a scenario and is no news: names of findings.
///
/// Whatever else is found is news, and so is what does not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// What its own device or client does wrong, on any pool.
    pub provoked: &'static [&'static str],
    /// What a pool with its own data in that place cannot withstand. A run that shows it is no pass
    /// ([`Verdict::AsDeclared`](crate::Verdict::AsDeclared)).
    pub shown: &'static [&'static str],
}

impl Expected {
    /// All of them.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        self.provoked.iter().chain(self.shown).copied()
    }
}

/// A scenario. It expects of every pool that keeps its contract that the host is served, and that nothing is found but
/// what [`Scenario::expects`] names.
pub trait Scenario: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// One line about it.
    fn about(&self) -> &'static str;

    /// What it needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What must come of it on a pool of such properties: a device that rewrites free blocks gets an `AttackerAddress` out
    /// of a pool with in-block metadata.
    fn expects(&self, pool: &Policy) -> Expected {
        let _ = pool;
        Expected::default()
    }

    /// The port speeds at which a check runs it.
    fn speeds(&self) -> &'static [Speed] {
        &[Speed::Full, Speed::High]
    }

    /// Whether what comes of it is judged. One that is not reports what it saw by [`Session::note`], and only what the pool
    /// itself breaks is broken.
    fn is_judged(&self) -> bool {
        true
    }

    /// Its own client of the pool with a device of its own, if the driver under test has no part in it.
    fn client(&self) -> Option<Client> {
        None
    }

    /// Runs it. Time is virtual: a sleep costs nothing, and nothing may wait for another thread or process.
    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a>;
}

/// Every built-in scenario.
#[must_use]
pub fn table() -> Vec<Box<dyn Scenario>> {
    let mut table: Vec<Box<dyn Scenario>> = vec![
        Box::new(bootloader_to_ethernet::BootloaderToEthernet),
        Box::new(network::ECM),
        Box::new(network::RNDIS),
        Box::new(fastboot::Fastboot),
        Box::new(replug::Replug),
        Box::new(stall::Stall),
        Box::new(suspend::Suspend),
        Box::new(short_packets::ShortPackets),
        Box::new(foreign_in::ForeignIn),
        Box::new(fail_alloc::FailAlloc),
        Box::new(aged::Aged),
        Box::new(two_pages::TwoPages),
        Box::new(malicious_device::MaliciousDevice),
    ];
    table.extend(raced::table());
    table
}

/// The built-in scenario of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Scenario>> {
    table().into_iter().find(|scenario| scenario.name() == name)
}
