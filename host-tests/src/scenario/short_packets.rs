//! Transfers of every length around the edges of packets and dTDs.
//!
//! # A request over several dTDs, and an early short packet
//! A short OUT packet retires the dTD, and the controller goes on with the *next* dTD of its list, even of the same request;
//! only the last one has IOC. So an OUT request of several dTDs whose transfer ends within an earlier one does not come back:
//! the host's next transfer fills the next dTD, at its own place in the buffer, and when the last dTD is done the request
//! comes back with the bytes of all transfers counted together, a hole where each of them ended early, and the last of the data
//! behind what it says to have got. That is the base
//! rule's consequence in the model and in Linux (the reason why drivers of some parts limit requests to 16 KiB), so it is what
//! this scenario expects. A function gets out of it by taking the request back.

use gadgets::scripted::{BULK_IN, BULK_OUT, ScriptedGadget};
use usb::gadget::{Request, RequestError};

use super::script::Script;
use super::{Needs, Outcome, Scenario};
use crate::random::payload;
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// What a dTD carries of a page aligned buffer.
const DTD: usize = 20 << 10;
/// What it carries of another one.
const UNALIGNED_DTD: usize = 16 << 10;

pub(super) struct ShortPackets;

impl Scenario for ShortPackets {
    fn name(&self) -> &'static str {
        "short-packets"
    }

    fn about(&self) -> &'static str {
        "lengths around the edges of packets and dTDs, with and without empty packets; early short packets"
    }

    fn needs(&self) -> Needs {
        Needs { aligned_buffers: true, ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let gadget = Shared::new(ScriptedGadget::new(None));
    session.boot(gadget.clone())?;
    let device = session.enumerated().await?;
    let script = Script { session, gadget, device };
    let lengths = lengths(script.max_packet());
    for &length in &lengths {
        to_host(&script, length).await?;
        to_board(&script, length).await?;
    }
    early_short_packet(&script).await?;
    taken_back(&script).await
}

/// Every edge and its neighbours, rising.
fn lengths(max_packet: usize) -> Vec<usize> {
    let edges = [0, max_packet, 2 * max_packet, 8 * max_packet, UNALIGNED_DTD, DTD, 2 * DTD, 2 * DTD + max_packet];
    let mut lengths: Vec<usize> = edges.iter().flat_map(|&edge| [edge.saturating_sub(1), edge, edge + 1]).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

fn bytes(script: &Script<'_>, length: usize, salt: u64) -> Vec<u8> {
    payload(script.session.seed() ^ salt << 32 ^ length as u64, length)
}

fn request(id: u64, data: Vec<u8>) -> Request {
    Request { id, data, ..Request::default() }
}

/// IN requests of this length.
async fn to_host(script: &Script<'_>, length: usize) -> Result<(), Failure> {
    let (source, max_packet) = (BULK_IN.address(), script.max_packet());
    let data = bytes(script, length, 1);
    let full = length > 0 && length.is_multiple_of(max_packet);

    // The host asks for just as much, and for the empty packet behind it.
    for zero in [false, true] {
        let what = format!("IN, {length} bytes{}", if zero { " with zero" } else { "" });
        script.queue(source, Request { zero, ..request(1, data.clone()) })?;
        let read = script.receive(length.max(1), &what).await?;
        expect_equal(&format!("{what}, intact"), &(read == data), &true)?;
        if zero && full {
            script.nothing_completed(&format!("{what}, before its empty packet")).await?;
            let end = script.receive(max_packet, &format!("{what}, empty packet")).await?;
            expect_equal(&format!("{what}, the empty packet"), &end, &Vec::new())?;
        }
        sent(script, &what, 1, length).await?;
    }

    // The host asks for more: only a short packet ends its transfer.
    let what = format!("IN, {length} bytes of more");
    let ends = !full;
    script.queue(source, request(2, data.clone()))?;
    script.queue(source, request(3, vec![0xa5]))?;
    let expected = if ends { data.clone() } else { [&data[..], &[0xa5]].concat() };
    let read = script.receive(length + max_packet, &what).await?;
    expect_equal(&format!("{what}, up to the first short packet"), &(read == expected), &true)?;
    if ends {
        let rest = script.receive(max_packet, &what).await?;
        expect_equal(&format!("{what}, the transfer after it"), &rest, &vec![0xa5])?;
    }
    sent(script, &what, 2, length).await?;
    sent(script, &what, 3, 1).await
}

async fn sent(script: &Script<'_>, what: &str, id: u64, length: usize) -> Result<(), Failure> {
    let (seen, status, _) = script.completed(what).await?;
    expect_equal(&format!("{what}, the request"), &(seen, status), &(id, Ok(length)))
}

/// OUT transfers of this length.
async fn to_board(script: &Script<'_>, length: usize) -> Result<(), Failure> {
    let (sink, max_packet) = (BULK_OUT.address(), script.max_packet());
    let data = bytes(script, length, 2);
    let full = length > 0 && length.is_multiple_of(max_packet);

    // Room for just as much: the request is over with its last byte, and an empty packet is the next request's.
    if length > 0 {
        for zero_packet in [false, true] {
            let what = format!("OUT, {length} bytes{}", if zero_packet { " and an empty packet" } else { "" });
            script.queue(sink, request(1, vec![0; length]))?;
            script.queue(sink, request(2, vec![0; max_packet]))?;
            script.send(data.clone(), zero_packet, &what).await?;
            received(script, &what, 1, &data).await?;
            if !(zero_packet && full) {
                script.send(Vec::new(), false, &what).await?;
            }
            received(script, &format!("{what}, behind it"), 2, &[]).await?;
        }
    }

    // Room for more, in the dTD in which the transfer ends or, if it fills that one, in the next.
    let room = (length / DTD + 1) * DTD;
    for zero_packet in [false, true] {
        let what = format!("OUT, {length} bytes into {room}{}", if zero_packet { ", empty packet" } else { "" });
        script.queue(sink, request(1, vec![0; room]))?;
        script.send(data.clone(), zero_packet, &what).await?;
        if full && !zero_packet {
            // Nothing says that it is over: the next transfer goes on behind it.
            script.nothing_completed(&what).await?;
            script.send(vec![0xa5], false, &what).await?;
            received(script, &what, 1, &[&data[..], &[0xa5]].concat()).await?;
        } else {
            received(script, &what, 1, &data).await?;
        }
    }
    let what = format!("OUT, {length} bytes into {room} with short_not_ok");
    script.queue(sink, Request { short_not_ok: true, ..request(1, vec![0; room]) })?;
    script.send(data, true, &what).await?;
    let (seen, status, _) = script.completed(&what).await?;
    expect_equal(&what, &(seen, status), &(1, Err(RequestError::Short)))
}

async fn received(script: &Script<'_>, what: &str, id: u64, data: &[u8]) -> Result<(), Failure> {
    let (seen, status, came) = script.completed(what).await?;
    expect_equal(&format!("{what}, the request"), &(seen, status), &(id, Ok(data.len())))?;
    expect_equal(&format!("{what}, intact"), &(came == data), &true)
}

/// See the module's documentation: three transfers, each of which ends in a dTD of its own, come back as one.
async fn early_short_packet(script: &Script<'_>) -> Result<(), Failure> {
    let what = "OUT, an early short packet";
    let lengths = [DTD - 1, 700, 300];
    let transfers = lengths.map(|length| bytes(script, length, 3));
    script.queue(BULK_OUT.address(), request(1, vec![0; 2 * DTD + DTD / 2]))?;
    for (index, transfer) in transfers.iter().enumerate() {
        // The host is told that its data was taken each time.
        script.send(transfer.clone(), false, what).await?;
        if index + 1 < transfers.len() {
            script.nothing_completed(what).await?;
        }
    }
    let (seen, status, came) = script.completed(what).await?;
    expect_equal(what, &(seen, status), &(1, Ok(lengths.iter().sum())))?;
    expect_equal("the first transfer is at the begin", &(came[..DTD - 1] == transfers[0][..]), &true)?;
    let second = came.get(DTD..DTD + lengths[1]);
    expect_equal("the second is behind a hole, where its dTD begins", &(second == Some(&transfers[1][..])), &true)?;
    // The third is where the third dTD begins, behind what the request says to have got: lost to the function.
    expect_equal("what the request says to have got ends before the third", &(came.len() < 2 * DTD), &true)
}

/// A request that an early short packet has left half done is taken back, and the endpoint works.
async fn taken_back(script: &Script<'_>) -> Result<(), Failure> {
    let (what, sink) = ("OUT, an early short packet, taken back", BULK_OUT.address());
    script.queue(sink, request(1, vec![0; 2 * DTD]))?;
    script.send(bytes(script, 100, 4), false, what).await?;
    script.nothing_completed(what).await?;
    let taken = script.session.on_board(|driver, _| driver.dequeue(sink, 1));
    expect_equal(what, &taken, &Some(Ok(())))?;
    let (seen, status, _) = script.completed(what).await?;
    expect_equal(what, &(seen, status), &(1, Err(RequestError::Dequeued)))?;
    let data = bytes(script, 1000, 5);
    script.queue(sink, request(2, vec![0; DTD]))?;
    script.send(data.clone(), false, what).await?;
    received(script, "OUT, the request after it", 2, &data).await
}
