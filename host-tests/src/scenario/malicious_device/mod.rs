//! A device that turns on the pool: it rewrites a free block's link, so that a later allocation returns an address of its
//! choice.
//!
//! What the RFC of November 2024 ("dmapool: Move pool metadata into non-DMA memory") is about. The device holds addresses of
//! blocks that are free by now, looks there for what it knows from the kernel's source ([`links`]), and writes what it wants
//! followed. Whatever the pool, it does the same; what comes of it is the pool's.
//!
//! - a list of pointers (`linked`, `linked-descending`; Linux from 6.4 on) is led anywhere: here to a secret of the kernel's,
//!   which the next request overwrites
//! - a list of offsets (`page-list`; Linux up to 6.3) is led to any byte of its page: here into a request that is in use.
//!   Where the last byte of a page is chosen, the block reaches into what lies behind
//! - of a pool with its own data elsewhere nothing is led anywhere
//!
//! The client stands for any driver; it is as small as one can be, and is no real part.

mod client;
mod device;
mod interface;
mod links;

use std::fmt::Display;
use std::sync::Arc;

use devices::DmaMemory;
use pool::{Metadata, Policy};

use super::{Expected, Outcome, Scenario};
use crate::driver::Client as Sides;
use crate::session::Session;
use crate::verdict::Failure;

use client::{Client, ClientError, Harm};
use device::Malicious;

/// Findings that the device makes on any pool: it looks at blocks that are free, and writes to them.
const PROVOKED: &[&str] = &["ReadOfFreedBlock", "WriteToFreedBlock"];

pub(super) struct MaliciousDevice;

impl Scenario for MaliciousDevice {
    fn name(&self) -> &'static str {
        "malicious-device"
    }

    fn about(&self) -> &'static str {
        "a device rewrites the links in free blocks: pools that keep them there hand out the address that it chose"
    }

    fn expects(&self, pool: &Policy) -> Expected {
        let shown: &[_] = match pool.metadata {
            Metadata::InBlock(_) => &["AttackerAddress"],
            Metadata::OutOfBand => &[],
        };
        Expected { provoked: PROVOKED, shown }
    }

    fn client(&self) -> Option<Sides> {
        Some(Sides {
            name: "request client",
            words: "request client of scenario malicious-device (requests of 64 bytes, one by one from a pool)",
            assumed_by: "the request client",
            model: "malicious device of scenario malicious-device, which stays in the pool's pages",
        })
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(async { run(session) })
    }
}

fn run(session: &Session) -> Result<(), Failure> {
    let failed = |error: &dyn Display| Failure::new(format!("the request client: {error}"));
    let dma = session.dma();
    let metadata = dma.policy().metadata;
    let mut client = Client::probe(dma).map_err(|error| failed(&error))?;
    let harm = attacked(session, &mut client).map_err(|error| failed(&error));
    // What a list that was led astray cannot take back is told by the ledger.
    let removed = client.remove().map_err(|error| failed(&error));
    match (harm?.as_slice(), metadata) {
        // That pools of this kind are led astray is declared, and the ledger sees whether they are.
        (_, Metadata::InBlock(_)) => Ok(()),
        ([], Metadata::OutOfBand) => removed,
        (harm, Metadata::OutOfBand) => Err(Failure::new(in_words(harm))),
    }
}

/// Lets the device have its way between the client's requests.
fn attacked(session: &Session, client: &mut Client) -> Result<Vec<Harm>, ClientError> {
    let target = session.board.memory.dma(client.secret()).unwrap_or_default();
    let memory: Arc<dyn DmaMemory> = Arc::new(session.board.memory.guest().clone());
    let device = Malicious::new(memory, target)
        .with(|port| port.watched(Arc::clone(&session.witness) as _).traced(session.trace.clone()));
    client.serve(&device)?;
    session.note(match device.idle() {
        Ok(attack) => attack.to_string(),
        Err(error) => format!("the device: {error}"),
    });
    let first = client.take()?;
    let second = client.take()?;
    session.note(format!(
        "the next two allocations are {} / {} and {} / {}",
        first.cpu, first.dma, second.cpu, second.dma
    ));
    let harm = client.harm()?;
    session.note(in_words(&harm));
    Ok(harm)
}

fn in_words(harm: &[Harm]) -> String {
    let whole = |harm: &Harm| match harm {
        Harm::Secret => "the client's new request overwrites a secret of the kernel's",
        Harm::Request => "the client's new request overwrites a request that the device has",
    };
    match harm {
        [] => "nothing is overwritten".to_owned(),
        harm => harm.iter().map(whole).collect::<Vec<_>>().join("; "),
    }
}
