//! Another device on the same bus, and an isochronous endpoint beside bulk traffic.

use gadgets::scripted::{BULK_IN, BULK_OUT, ISOCHRONOUS_PACKET, STREAMING, ScriptedGadget};
use usb::gadget::Request;
use usb::wire::{HostAck, InReply, Target};
use usb::{Direction, EndpointAddress, TransferType};

use super::script::Script;
use super::{Needs, Outcome, Scenario};
use crate::random::payload;
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// Transfers, each with the neighbour's tokens before it.
const ROUNDS: u64 = 20;
/// The neighbour's IN endpoints: most devices use the lowest numbers.
const NEIGHBOURS: [u8; 2] = [1, 2];
/// Where the isochronous endpoint goes if the controller does not mind: the first number that is free.
const FIRST_FREE: u8 = 2;

pub(super) struct ForeignIn;

impl Scenario for ForeignIn {
    fn name(&self) -> &'static str {
        "foreign-in"
    }

    fn about(&self) -> &'static str {
        "another device's IN tokens on the same bus, bulk OUT and an isochronous IN endpoint between them"
    }

    fn needs(&self) -> Needs {
        Needs { endpoints: 4, ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let mut isochronous = FIRST_FREE;
    let mut made = None;
    session.bind(|driver| {
        let wanted = driver.match_endpoint(TransferType::Isochronous, Direction::In, &[BULK_IN.address()]);
        isochronous = wanted.unwrap_or(FIRST_FREE);
        made.insert(Shared::new(ScriptedGadget::new(Some(isochronous)))).clone()
    })?;
    let gadget = made.ok_or_else(|| Failure::new("the driver is there, and no gadget was made for it"))?;
    let device = session.enumerated().await?;
    let set = device.set_interface(STREAMING, 1).await;
    expect_equal("SET_INTERFACE to the isochronous endpoint", &set, &Ok(()))?;
    let script = Script { session, gadget, device };
    let (own, other) = (script.device.number(), script.device.number() + 1);
    for round in 1..=ROUNDS {
        let data = payload(session.seed() ^ round, 3 * script.max_packet() + 1);
        script.queue(BULK_OUT.address(), Request { id: round, data: vec![0; data.len()], ..Request::default() })?;
        for endpoint in NEIGHBOURS {
            let answer = session.port().data_in(Target { address: other, endpoint }, &mut [0; 512], HostAck::Sent);
            expect_equal("the answer to an IN token for another device", &answer, &InReply::Silence)?;
        }
        script.send(data.clone(), false, &format!("round {round}, after the other device's tokens")).await?;
        let came = script.completed("bulk OUT").await?;
        expect_equal("the request with the data that was sent", &came, &(round, Ok(data.len()), data))?;
        stream(&script, own, isochronous, round).await?;
    }
    Ok(())
}

/// One packet of the isochronous endpoint. The host has no isochronous transfers: its token goes to the port.
async fn stream(script: &Script<'_>, own: u8, endpoint: u8, round: u64) -> Result<(), Failure> {
    let data = payload(!round, usize::from(ISOCHRONOUS_PACKET));
    script.queue(EndpointAddress::r#in(endpoint), Request { id: round, data: data.clone(), ..Request::default() })?;
    let mut packet = vec![0; data.len()];
    let answer = script.session.port().data_in(Target { address: own, endpoint }, &mut packet, HostAck::Sent);
    let moved = matches!(answer, InReply::Data { len, .. } if len == data.len());
    expect_equal("the isochronous packet goes out whole", &(moved, packet), &(true, data))?;
    let (id, status, _) = script.completed("isochronous IN").await?;
    expect_equal("the isochronous request", &(id, status), &(round, Ok(usize::from(ISOCHRONOUS_PACKET))))
}
