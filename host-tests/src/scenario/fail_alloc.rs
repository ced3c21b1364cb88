//! Null from the n-th atomic allocation, for every n.

use std::time::Duration;

use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
use usb_host::{CONTROL_TIMEOUT, Device};

use super::{Outcome, Scenario};
use crate::session::{Session, expect_equal};
use crate::verdict::Failure;

/// Length of the gadget's requests: two dTDs each, so that a request can fail when half of it is built.
const REQUEST: usize = 24 << 10;
/// Requests that the gadget keeps on each endpoint: without the one there is no data.
const QUEUE: usize = 1;
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the host takes to notice that a port is empty on which no device was found.
const NOTICES: Duration = Duration::from_secs(1);
/// Many more atomic allocations than a plug cycle has.
const MOST: u64 = 2000;

pub(super) struct FailAlloc;

impl Scenario for FailAlloc {
    fn name(&self) -> &'static str {
        "fail-alloc"
    }

    fn about(&self) -> &'static str {
        "null from the n-th atomic allocation of a plug cycle, every n; all is given back, and data flows again"
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    session.boot(SourceSinkGadget::new(SourceSinkConfig {
        buflen: REQUEST,
        qlen: QUEUE,
        ..SourceSinkConfig::default()
    }))?;
    let idle = sound_cycle(session).await?;
    for before in 0..MOST {
        let because = |failure: Failure| {
            Failure::new(format!("after null from atomic allocation {} of a plug cycle: {failure}", before + 1))
        };
        session.plug();
        session.failures().fail_after(before);
        let outcome = with_a_failure(session).await;
        let failed = session.failures().end();
        let left = unplugged(session).await.map_err(because)?;
        match outcome {
            // What is wrong now is wrong without any failure.
            outcome if !failed => return outcome.map_err(Wrong::into_failure),
            Err(Wrong::Data(failure)) => return Err(because(failure)),
            Ok(()) | Err(Wrong::Enumeration(_)) => {}
        }
        nothing_more(&left, &idle).map_err(because)?;
        session.plug();
        let left = sound_cycle(session).await.map_err(because)?;
        expect_equal("what is in use after the next plug cycle", &left, &idle).map_err(because)?;
    }
    Err(Failure::new(format!("a plug cycle has more than {MOST} atomic allocations")))
}

/// What did not come about.
enum Wrong {
    /// A configured device. A host need not repeat a request that was refused.
    Enumeration(Failure),
    /// Data, or a refusal in time: what a driver cannot queue it has to give back.
    Data(Failure),
}

impl Wrong {
    fn into_failure(self) -> Failure {
        let (Self::Enumeration(failure) | Self::Data(failure)) = self;
        failure
    }
}

/// Enumeration and data, in which something may fail. The gadget queues again what was refused: data has to flow.
async fn with_a_failure(session: &Session) -> Result<(), Wrong> {
    let begin = session.now();
    let device = session.enumerated().await;
    let took = session.now().saturating_sub(begin);
    if took >= CONTROL_TIMEOUT {
        let text = format!("a control request is neither answered nor refused: the host waited {} s", took.as_secs());
        return Err(Wrong::Data(Failure::new(text)));
    }
    let device = device.map_err(Wrong::Enumeration)?;
    if device.active_configuration().is_none() {
        return Err(Wrong::Enumeration(Failure::new("the device has no configuration")));
    }
    data_flows(&device).await.map_err(Wrong::Data)?;
    data_flows(&device).await.map_err(Wrong::Data)
}

/// A plug cycle in which nothing fails.
async fn sound_cycle(session: &Session) -> Result<InUse, Failure> {
    let device = session.enumerated().await?;
    data_flows(&device).await?;
    unplugged(session).await
}

/// What a board has of memory.
#[derive(Debug, PartialEq, Eq)]
struct InUse {
    blocks: usize,
    mappings: usize,
    /// Pages that are free, or held by a pool: one keeps what it needed at most.
    pages: usize,
}

/// Nothing is left that a cycle without a failure does not leave. It may be less: ci_hdrc keeps an endpoint's last dTD
/// until the next completion, and with a failure there may have been none.
fn nothing_more(left: &InUse, idle: &InUse) -> Result<(), Failure> {
    let more = left.blocks > idle.blocks || left.mappings > idle.mappings || left.pages < idle.pages;
    if more {
        return Err(Failure::new(format!("not everything was given back: {left:?}, without a failure {idle:?}")));
    }
    Ok(())
}

/// Pulls the cable out, and says what is still in use then.
async fn unplugged(session: &Session) -> Result<InUse, Failure> {
    let found = session.host().current_device().is_some();
    session.unplug();
    if found {
        session.disconnected().await?;
    } else {
        session.sleep(NOTICES).await;
    }
    session.settle().await;
    Ok(InUse {
        blocks: session.blocks_in_use(),
        mappings: session.mappings_in_use(),
        pages: session.free_pages() + session.pool_pages(),
    })
}

async fn data_flows(device: &Device) -> Result<(), Failure> {
    let data = device.bulk_in(BULK_IN.address().number, REQUEST, TIMEOUT).await;
    expect_equal("what the source sends", &data.map(|data| data == vec![0; REQUEST]), &Ok(true))?;
    let sent = device.bulk_out(BULK_OUT.address().number, vec![0; REQUEST], TIMEOUT).await;
    sent.map(drop).map_err(|error| Failure::new(format!("bulk OUT to the sink, error {}", error.errno())))
}
