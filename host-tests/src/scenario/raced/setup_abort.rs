//! A host that gives a control transfer up for another.

use std::sync::Arc;

use parking_lot::Mutex;
use usb::urb::UrbError;
use usb::{Direction, SetupPacket};
use usb_host::controller::UrbId;
use usb_host::{Cancel, Device};

use super::super::{Needs, Outcome, Scenario};
use super::{Begun, Pending, bus, echo};
use crate::schedule::Act;
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// Transfers of every shape: with IN data over several packets, with OUT data, without data. A half of one and a half of
/// another make none that was sent.
const FIRST: [SetupPacket; 3] = [
    SetupPacket::new(0xc0, 0x11, 0x1212, 0x1313, 200),
    SetupPacket::new(0x40, 0x21, 0x2222, 0x2323, 100),
    SetupPacket::new(0x40, 0x31, 0x3232, 0x3333, 0),
];
/// What one is given up for.
const SECOND: SetupPacket = SetupPacket::new(0xc0, 0x41, 0x4242, 0x4343, 24);
/// What is asked when nothing is raced any more.
const LAST: SetupPacket = SetupPacket::new(0xc0, 0x51, 0x5252, 0x5353, 64);

pub(super) struct SetupAbort;

impl Scenario for SetupAbort {
    fn name(&self) -> &'static str {
        "setup-abort"
    }

    fn about(&self) -> &'static str {
        "raced: a new SETUP in the middle of a control transfer gets its own answer"
    }

    fn needs(&self) -> Needs {
        // The driver acknowledges a SETUP before it flushes what the transfer before has primed, as the manual has it: a
        // token in between gets that, in the model. The Ethernet and fastboot hosts' own tokens come later.
        Needs { acts: &["setup"], unswept: &["bus"], ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

/// The transfer that the host has under way, and every SETUP that it sent.
#[derive(Clone, Default)]
struct Host(Arc<Mutex<HostState>>);

#[derive(Default)]
struct HostState {
    under_way: Option<UrbId>,
    sent: Vec<SetupPacket>,
}

impl Host {
    fn control(&self, device: &Device, setup: SetupPacket) -> Pending {
        let pending = Pending::control(device, setup, echo::answer(setup, usize::from(setup.length.get())));
        let mut state = self.0.lock();
        state.under_way = Some(pending.id);
        state.sent.push(setup);
        pending
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let gadget = Shared::new(echo::gadget());
    session.boot(gadget.clone())?;
    let device = session.enumerated().await?;
    let (host, begun) = (Host::default(), Begun::default());
    let setup = {
        let (device, host, begun) = (device.clone(), host.clone(), begun.clone());
        Act::new("setup", move || {
            let under_way = host.0.lock().under_way.take();
            if let Some(id) = under_way {
                device.cancel(id, Cancel::Unlink);
            }
            begun.push(host.control(&device, SECOND));
        })
    };
    let window = async {
        for first in FIRST {
            let pending = host.control(&device, first);
            let result = pending.end(&device).await?;
            session.settle().await;
            if begun.is_empty() || result != Err(UrbError::Unlinked) {
                expect_answer(first, result)?;
            }
            expect_last_answered(&device, &begun).await?;
            session.settle().await;
        }
        Ok(())
    };
    session.race(vec![setup, bus(&device)], window).await?;
    expect_last_answered(&device, &begun).await?;
    expect_answer(LAST, host.control(&device, LAST).end(&device).await?)?;
    let sent = std::mem::take(&mut host.0.lock().sent);
    gadget.with(|gadget| expect_asked(gadget.functions(), &sent))
}

/// Each may have been given up for the next, which may have begun while this was waited for; the last one may not.
async fn expect_last_answered(device: &Device, begun: &Begun) -> Result<(), Failure> {
    while let Some(second) = begun.take_first() {
        let result = second.end(device).await?;
        if begun.is_empty() || result != Err(UrbError::Unlinked) {
            expect_answer(SECOND, result)?;
        }
    }
    Ok(())
}

fn expect_answer(setup: SetupPacket, result: Result<Vec<u8>, UrbError>) -> Result<(), Failure> {
    let data = result.map_err(|error| Failure::new(format!("{setup}, error {}", error.errno())))?;
    expect_equal(&format!("the answer to {setup}"), &data, &echo::answer(setup, usize::from(setup.length.get())))
}

/// The gadget was asked what the host sent, in that order; of what was given up some may be missing. One that came while
/// the driver read its predecessor may be handled twice: it breaks the tripwire, and ENDPTSETUPSTAT is set again behind it.
fn expect_asked(echo: &echo::Echo, sent: &[SetupPacket]) -> Result<(), Failure> {
    let mut rest = sent.iter();
    let mut before = None;
    for asked in &echo.asked {
        if before != Some(asked) && !rest.any(|sent| sent == asked) {
            return Err(Failure::new(format!("the driver handled {asked}, which was not sent by the host then")));
        }
        before = Some(asked);
    }
    if echo.asked.last() != sent.last() {
        return Err(Failure::new("the driver did not handle the last SETUP"));
    }
    for (setup, data) in &echo.received {
        let whole =
            setup.direction() == Direction::Out && *data == echo::answer(*setup, usize::from(setup.length.get()));
        if !whole {
            return Err(Failure::new(format!("the data of {setup} came as {} other bytes", data.len())));
        }
    }
    Ok(())
}
