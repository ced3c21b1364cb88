//! Requests that are queued while the controller comes to the end of the list.

use super::super::{Needs, Outcome, Scenario};
use super::numbered;
use super::traffic::{ACTS, Traffic, expect_in_order};
use crate::session::Session;
use crate::shared::Shared;
use crate::verdict::Failure;

/// Packets each way in the race, beside those of the schedule.
const PACKETS: usize = 2;

pub(super) struct Append;

impl Scenario for Append {
    fn name(&self) -> &'static str {
        "append"
    }

    fn about(&self) -> &'static str {
        "raced: packets while requests are queued behind others; none is lost, doubled or stuck"
    }

    fn needs(&self) -> Needs {
        Needs { acts: &ACTS, ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let gadget = Shared::new(numbered::gadget());
    session.boot(gadget.clone())?;
    let device = session.enumerated().await?;
    let traffic = Traffic::new(&device);
    let window = async {
        for _ in 0..PACKETS {
            traffic.r#in();
            session.settle().await;
            traffic.out();
            session.settle().await;
        }
        Ok(())
    };
    session.race(traffic.acts(), window).await?;
    // Whatever is stuck shows now.
    for _ in 0..PACKETS {
        traffic.r#in();
        traffic.out();
    }
    let ends = traffic.ends().await?;
    session.settle().await;
    expect_in_order(&ends, &gadget)
}
