//! Requests that are taken back while the controller works on them.

use usb::gadget::UdcError;

use super::super::{Needs, Outcome, Scenario};
use super::numbered::{self, IN, OUT};
use super::traffic::{ACTS, Traffic, expect_in_order};
use crate::session::Session;
use crate::shared::Shared;
use crate::verdict::Failure;

pub(super) struct Dequeue;

impl Scenario for Dequeue {
    fn name(&self) -> &'static str {
        "dequeue"
    }

    fn about(&self) -> &'static str {
        "raced: packets while the oldest and the youngest request are taken back; the others move their data"
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
        for endpoint in [IN, OUT] {
            for oldest in [true, false] {
                let id = gadget.with(|gadget| {
                    let queued = gadget.functions().queued(endpoint);
                    if oldest { queued.front().copied() } else { queued.back().copied() }
                });
                let Some(id) = id else { return Err(Failure::new(format!("nothing is queued on {endpoint}"))) };
                match session.on_board(|driver, _| driver.dequeue(endpoint, id)) {
                    // It may have come back meanwhile.
                    Some(Ok(()) | Err(UdcError::NoRequest { .. })) => {}
                    other => return Err(Failure::new(format!("a dequeue on {endpoint}: {other:?}"))),
                }
                session.settle().await;
            }
        }
        Ok(())
    };
    session.race(traffic.acts(), window).await?;
    for _ in 0..3 {
        traffic.r#in();
        traffic.out();
    }
    let ends = traffic.ends().await?;
    session.settle().await;
    expect_in_order(&ends, &gadget)
}
