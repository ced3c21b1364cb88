//! Endpoints that are disabled and enabled while the controller works on them.

use super::super::{Needs, Outcome, Scenario};
use super::numbered;
use super::traffic::{ACTS, Traffic};
use crate::session::Session;
use crate::shared::Shared;
use crate::verdict::Failure;

pub(super) struct Disable;

impl Scenario for Disable {
    fn name(&self) -> &'static str {
        "disable"
    }

    fn about(&self) -> &'static str {
        "raced: packets while SET_INTERFACE disables and enables their endpoints; data flows afterwards"
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
    let raced = Traffic::new(&device);
    let window = async {
        let set = device.set_interface(0, 0).await;
        set.map_err(|error| Failure::new(format!("SET_INTERFACE, error {}", error.errno())))?;
        session.settle().await;
        Ok(())
    };
    session.race(raced.acts(), window).await?;
    // A transfer in the middle of the change may end in any way: the host kills what it has, and a disabled endpoint is
    // silent. What comes after it may not.
    raced.ends().await?;
    let set = device.set_interface(0, 0).await;
    set.map_err(|error| Failure::new(format!("SET_INTERFACE after the race, error {}", error.errno())))?;
    gadget.with(|gadget| gadget.functions_mut().taken.clear());
    let traffic = Traffic::new(&device);
    for _ in 0..3 {
        traffic.r#in();
        traffic.out();
    }
    let ends = traffic.ends().await?;
    session.settle().await;
    expect_consecutive(&ends.ins)?;
    let outs: Result<Vec<()>, _> = ends.outs.into_iter().collect();
    outs.map_err(|error| Failure::new(format!("a bulk OUT after the race, error {}", error.errno())))?;
    let taken = gadget.with(|gadget| gadget.functions().taken.clone());
    crate::session::expect_equal("OUT packets at the gadget", &taken, &vec![Some(0), Some(1), Some(2)])
}

/// Numbers without a gap; the first may be any, as what was queued before is gone.
fn expect_consecutive(ins: &[Result<Option<u32>, usb::urb::UrbError>]) -> Result<(), Failure> {
    let first = ins.first().and_then(|first| first.ok().flatten()).unwrap_or(0);
    let expected: Vec<_> = (first..).take(ins.len()).map(|number| Ok(Some(number))).collect();
    crate::session::expect_equal("IN packets", &ins.to_vec(), &expected)
}
