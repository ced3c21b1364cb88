//! A bus that falls idle and wakes up: by the host, by a reset, by the device, or not at all.

use gadgets::scripted::{BULK_IN, BULK_OUT, ScriptedGadget};
use usb::gadget::{Request, RequestError, UdcError};
use usb::wire::{DataPid, Handshake, HostAck, InReply, Target};

use super::script::Script;
use super::{Outcome, Scenario};
use crate::random::payload;
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// Packets of a request, of which half are moved before the bus falls idle.
const PACKETS: usize = 4;

pub(super) struct Suspend;

impl Scenario for Suspend {
    fn name(&self) -> &'static str {
        "suspend"
    }

    fn about(&self) -> &'static str {
        "the bus suspended with requests half done: resumed by the host, by a reset, by the device; unplugged"
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let gadget = Shared::new(ScriptedGadget::new(None));
    session.boot(gadget.clone())?;
    let device = session.enumerated().await?;
    let mut script = Script { session, gadget, device };
    data_flows(&script, 1).await?;
    let idle = session.blocks_in_use();

    let half = HalfDone::begin(&script, 2).await?;
    suspend(&script, (1, 0)).await?;
    nothing_moves(&script).await?;
    let resumed = session.host().resume().await;
    expect_equal("the host resumes the bus", &resumed, &Ok(()))?;
    seen(&script, (1, 1)).await?;
    half.end(&script).await?;
    data_flows(&script, 3).await?;

    wake_up(&script).await?;
    reset(&script).await?;
    unplug(&mut script, idle).await
}

/// Data in both directions, one request each.
async fn data_flows(script: &Script<'_>, id: u64) -> Result<(), Failure> {
    HalfDone::begin(script, id).await?.end(script).await
}

/// A request in each direction of which the first half has moved.
struct HalfDone {
    id: u64,
    to_board: Vec<u8>,
    to_host: Vec<u8>,
    half: usize,
}

impl HalfDone {
    async fn begin(script: &Script<'_>, id: u64) -> Result<Self, Failure> {
        let length = PACKETS * script.max_packet();
        let half = length / 2;
        let seed = script.session.seed() ^ id << 8;
        let (to_board, to_host) = (payload(seed, length), payload(!seed, length));
        script.queue(BULK_OUT.address(), Request { id, data: vec![0; length], ..Request::default() })?;
        script.queue(BULK_IN.address(), Request { id, data: to_host.clone(), ..Request::default() })?;
        script.send(to_board[..half].to_vec(), false, "the first half").await?;
        let read = script.receive(half, "the first half").await?;
        expect_equal("the first half from the board is intact", &(read == to_host[..half]), &true)?;
        script.nothing_completed("with both requests half done").await?;
        Ok(Self { id, to_board, to_host, half })
    }

    async fn end(self, script: &Script<'_>) -> Result<(), Failure> {
        let Self { id, to_board, to_host, half } = self;
        script.send(to_board[half..].to_vec(), false, "the second half").await?;
        let came = script.completed("bulk OUT").await?;
        expect_equal("the request with what the host sent", &came, &(id, Ok(to_board.len()), to_board))?;
        let read = script.receive(half, "the second half").await?;
        expect_equal("the second half from the board is intact", &(read == to_host[half..]), &true)?;
        let (seen, status, _) = script.completed("bulk IN").await?;
        expect_equal("the request that the host has read", &(seen, status), &(id, Ok(to_host.len())))
    }
}

/// The host suspends the bus, after which the gadget has heard of so many suspends and resumes.
async fn suspend(script: &Script<'_>, heard: (u32, u32)) -> Result<(), Failure> {
    let suspended = script.session.host().suspend().await;
    expect_equal("the host suspends the bus", &suspended, &Ok(()))?;
    seen(script, heard).await
}

async fn seen(script: &Script<'_>, heard: (u32, u32)) -> Result<(), Failure> {
    script.session.settle().await;
    let functions = script.gadget.with(|gadget| (gadget.functions().suspends, gadget.functions().resumes));
    expect_equal("suspends and resumes that the gadget has seen", &functions, &heard)
}

/// A suspended device answers no token, and a transfer waits.
async fn nothing_moves(script: &Script<'_>) -> Result<(), Failure> {
    let (port, address) = (script.session.port(), script.device.number());
    let [bulk_in, bulk_out] = [BULK_IN, BULK_OUT].map(|bulk| Target { address, endpoint: bulk.address().number });
    let answers = (
        port.data_in(bulk_in, &mut [0; 512], HostAck::Sent),
        port.data_out(bulk_out, DataPid::Data0, &[0; 8]),
        port.setup(Target { address, endpoint: 0 }, &[0x80, 0, 0, 0, 0, 0, 2, 0]),
    );
    let silence = (InReply::Silence, Handshake::Silence, Handshake::Silence);
    expect_equal("the suspended device's answers to IN, OUT and SETUP", &answers, &silence)?;
    let waits = script.receive(script.max_packet(), "while suspended").await;
    let late = Failure::new("while suspended: bulk IN, error -110");
    expect_equal("a transfer while suspended", &waits, &Err(late))?;
    script.nothing_completed("while suspended").await
}

/// The device wakes the host, which has allowed it and allows it no more afterwards.
async fn wake_up(script: &Script<'_>) -> Result<(), Failure> {
    let wakeup = || script.session.on_board(|driver, _| driver.wakeup());
    let refused = Some(Err(UdcError::Unsupported("remote wakeup: the host did not allow it")));
    expect_equal("a wakeup that the host has not allowed", &wakeup(), &refused)?;
    let half = HalfDone::begin(script, 4).await?;
    suspend(script, (2, 1)).await?;
    expect_equal("the board wakes the host", &wakeup(), &Some(Ok(())))?;
    script.session.sleep(std::time::Duration::from_millis(100)).await;
    seen(script, (2, 2)).await?;
    half.end(script).await?;
    expect_equal("a wakeup after the host took the permission back", &wakeup(), &refused)
}

/// A reset wakes the bus, too, and ends what was queued. The gadget hears of the reset, and of no resume.
async fn reset(script: &Script<'_>) -> Result<(), Failure> {
    HalfDone::begin(script, 5).await?;
    suspend(script, (3, 2)).await?;
    let reset = script.device.reset().await;
    expect_equal("the host resets the suspended device", &reset, &Ok(()))?;
    seen(script, (3, 2)).await?;
    shut_down(script, 5).await?;
    data_flows(script, 6).await
}

/// The cable goes while the bus is suspended.
async fn unplug(script: &mut Script<'_>, idle: usize) -> Result<(), Failure> {
    HalfDone::begin(script, 7).await?;
    suspend(script, (4, 2)).await?;
    script.session.unplug();
    script.session.disconnected().await?;
    shut_down(script, 7).await?;
    seen(script, (4, 2)).await?;
    let left = script.session.blocks_in_use();
    expect_equal("no more blocks are in use than when the device was idle", &(left <= idle), &true)?;
    script.session.plug();
    script.device = script.session.enumerated().await?;
    data_flows(script, 8).await
}

/// Both halves of a [`HalfDone`] come back as shut down.
async fn shut_down(script: &Script<'_>, id: u64) -> Result<(), Failure> {
    for _ in 0..2 {
        let (seen, status, _) = script.completed("what was queued").await?;
        expect_equal("what was queued", &(seen, status), &(id, Err(RequestError::Shutdown)))?;
    }
    script.nothing_completed("afterwards").await
}
