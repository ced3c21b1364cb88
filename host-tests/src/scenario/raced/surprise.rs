//! A bus reset or a pulled cable in the middle of the driver's work.

use std::sync::Arc;

use super::super::{Needs, Outcome, Scenario};
use super::bus;
use super::numbered;
use super::traffic::{Traffic, expect_in_order};
use crate::schedule::Act;
use crate::session::Session;
use crate::shared::Shared;
use crate::verdict::Failure;

pub(super) struct Surprise;

impl Scenario for Surprise {
    fn name(&self) -> &'static str {
        "surprise"
    }

    fn about(&self) -> &'static str {
        "raced: a bus reset or a pulled cable while data moves; the device comes back, and nothing is left behind"
    }

    fn needs(&self) -> Needs {
        Needs { acts: &["reset", "unplug", "bus"], ..Needs::default() }
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
    let controller = Arc::clone(device.controller());
    let speed = device.speed();
    let reset = {
        let controller = Arc::clone(&controller);
        Act::new("reset", move || {
            // Whether a device answers shows at the next enumeration.
            let _ = controller.reset_port(speed);
            let _ = controller.run();
        })
    };
    let unplug = Act::new("unplug", move || controller.set_power(false));
    let window = async {
        traffic.r#in();
        traffic.out();
        session.settle().await;
        // A control transfer is in the middle of it, too.
        let _ = device.status().await;
        session.settle().await;
        Ok(())
    };
    session.race(vec![reset, unplug, bus(&device)], window).await?;
    session.unplug();
    session.disconnected().await?;
    // Every transfer ended, in whatever way.
    traffic.ends().await?;
    session.settle().await;
    gadget.with(|gadget| *gadget.functions_mut() = numbered::Numbered::default());
    session.plug();
    let device = session.enumerated().await?;
    let traffic = Traffic::new(&device);
    for _ in 0..3 {
        traffic.r#in();
        traffic.out();
    }
    let ends = traffic.ends().await?;
    session.settle().await;
    expect_in_order(&ends, &gadget)
}
