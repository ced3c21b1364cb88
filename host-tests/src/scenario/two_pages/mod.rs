//! A client whose table spans two pages, and which takes blocks of a pool on two pages for one array.
//!
//! Not the Chipidea's: its table lies in one page. Of the drivers that the order of blocks stopped in 2023 it was not the
//! only one; this client and its device are as small as such an assumption can be, and stand for no real part.

mod client;
mod device;
mod interface;
mod records;

use std::sync::Arc;

use devices::{DmaMemory, DmaPort};
use pool::Policy;

use super::{Expected, Outcome, Scenario};
use crate::driver::Client as Sides;
use crate::session::Session;
use crate::verdict::Failure;

use client::Client;
use device::TableWalker;

pub(crate) use records::RECORDS;

const NAME: &str = "two-pages";
const CLIENT: &str = "table client";

pub(super) struct TwoPages;

impl Scenario for TwoPages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "a small client of its own takes blocks on two pages for one array, and its device walks them"
    }

    fn client(&self) -> Option<Sides> {
        Some(Sides {
            name: CLIENT,
            words: "table client of scenario two-pages (blocks of 1024 bytes on two pages, taken for one array)",
            assumed_by: "the table client",
            model: "table walker of scenario two-pages, 64-bit registers",
        })
    }

    /// A gap at the end of every page is no place for such an array.
    fn expects(&self, pool: &Policy) -> Expected {
        let shown: &[_] = if pool.loses_last { &["LayoutContract", "OutsideBlocks"] } else { &[] };
        Expected { provoked: &[], shown }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(async { run(session) })
    }
}

fn run(session: &Session) -> Result<(), Failure> {
    let memory: Arc<dyn DmaMemory> = Arc::new(session.board.memory.guest().clone());
    let port = DmaPort::new("table walker", memory).watched(Arc::clone(&session.witness) as _);
    let walker = TableWalker::new(port.traced(session.trace.clone()));
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("the table client: {error}"));
    let client = Client::probe(session.dma(), session.page_size()).map_err(|error| failed(&error))?;
    let answered = client.run(&walker).map_err(|error| failed(&error));
    client.remove().map_err(|error| failed(&error))?;
    let (answered, count) = (answered?, client.count());
    // Of a pool that is known to leave a gap after the first page, it is the entry there.
    let missing = usize::from(session.dma().policy().loses_last);
    if answered == count || answered + missing == count {
        return Ok(());
    }
    Err(Failure::new(format!("{answered} of {count} entries are answered")))
}
