//! Halted endpoints and refused requests.

use std::cell::Cell;
use std::time::Duration;

use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
use usb::ch9::{Feature, Recipient, Request, SetupPacket};
use usb::urb::UrbError;
use usb::{EndpointAddress, Speed};
use usb_host::{CONTROL_TIMEOUT, Device};

use super::{Outcome, Scenario};
use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

const TIMEOUT: Duration = Duration::from_secs(1);
/// Packets of a transfer: an odd number, so that the next halt finds a data toggle that has to be reset.
const PACKETS: usize = 3;
/// Length of the gadget's requests: two dTDs each (20 KiB is the most for one).
const REQUEST: usize = 24 << 10;

pub(super) struct Stall;

impl Scenario for Stall {
    fn name(&self) -> &'static str {
        "stall"
    }

    fn about(&self) -> &'static str {
        "refused control requests, endpoints halted by either side, cleared, wedged; data goes on afterwards"
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    let config = SourceSinkConfig { buflen: REQUEST, ..SourceSinkConfig::default() };
    let gadget = Shared::new(SourceSinkGadget::new(config));
    session.boot(gadget.clone())?;
    let device = session.enumerated().await?;
    let flow = Flow { device: &device, sent: Cell::new(0) };
    let (source, sink) = (BULK_IN.address(), BULK_OUT.address());
    flow.both_ways("at first").await?;

    refused(&device, SetupPacket::new(0xc0, 0xee, 0, 0, 8)).await?;
    refused(&device, SetupPacket::new(0x80, Request::GetDescriptor.0, 0x0f00, 0, 64)).await?;
    flow.both_ways("after refused requests").await?;

    // Twice each: the second halt comes an odd number of packets after the first one's end.
    for endpoint in [source, source, sink, sink] {
        let halt = feature(Request::SetFeature, endpoint);
        control(&device, halt, "SET_FEATURE(ENDPOINT_HALT)").await?;
        expect_halted(&device, endpoint).await?;
        device.clear_halt(endpoint).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
        flow.both_ways("after the host cleared its own halt").await?;
    }

    // OUT: ci_hdrc refuses to halt an IN endpoint with requests queued (-11), and the source always has some.
    let halted = session.on_board(|driver, _| driver.set_halt(sink, true));
    expect_equal("the board halts its OUT endpoint", &halted, &Some(Ok(())))?;
    expect_halted(&device, sink).await?;
    device.clear_halt(sink).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
    flow.both_ways("after the host cleared the board's halt").await?;

    let wedged = session.on_board(|driver, _| driver.set_wedge(sink));
    expect_equal("the board wedges its OUT endpoint", &wedged, &Some(Ok(())))?;
    expect_halted(&device, sink).await?;
    device.clear_halt(sink).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
    expect_halted(&device, sink).await?;
    let released = session.on_board(|driver, _| driver.set_halt(sink, false));
    expect_equal("the board releases the wedge", &released, &Some(Ok(())))?;
    device.clear_halt(sink).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
    flow.both_ways("after the wedge").await?;

    // Both requests of the gadget's that two dTDs carry, whole and then some.
    let length = 3 * REQUEST / 2;
    let data = device.bulk_in(source.number, length, TIMEOUT).await;
    expect_equal("a transfer over several dTDs from the source", &data.map(|data| data == vec![0; length]), &Ok(true))?;
    flow.out(length, "over several dTDs").await?;

    // A packet with a wrong toggle is acknowledged and dropped: the sink's last request would not be full.
    flow.out(REQUEST - flow.sent.get() % REQUEST, "up to a whole request").await?;
    session.settle().await;
    let sunk = gadget.with(|gadget| gadget.transferred().sunk);
    expect_equal("bytes in the sink, of all that was sent", &sunk, &(flow.sent.get() as u64))
}

fn feature(request: Request, endpoint: EndpointAddress) -> SetupPacket {
    let recipient = Recipient::Endpoint.0;
    SetupPacket::new(recipient, request.0, Feature::EndpointHalt.0, u16::from(endpoint.to_byte()), 0)
}

fn failed(what: &str, error: UrbError) -> Failure {
    Failure::new(format!("{what}, error {}", error.errno()))
}

async fn control(device: &Device, setup: SetupPacket, what: &str) -> Result<(), Failure> {
    device.control_out(setup, &[], CONTROL_TIMEOUT).await.map_err(|error| failed(what, error))
}

async fn refused(device: &Device, setup: SetupPacket) -> Result<(), Failure> {
    let answer = device.control_in(setup, CONTROL_TIMEOUT).await;
    expect_equal(&format!("the answer to {setup}"), &answer, &Err(UrbError::Stall))
}

/// The endpoint stalls, and says so in its status (USB 2.0 §9.4.5).
async fn expect_halted(device: &Device, endpoint: EndpointAddress) -> Result<(), Failure> {
    let status = SetupPacket::new(0x82, Request::GetStatus.0, 0, u16::from(endpoint.to_byte()), 2);
    let answer = device.control_in(status, CONTROL_TIMEOUT).await;
    expect_equal(&format!("GET_STATUS of {endpoint}"), &answer, &Ok(vec![1, 0]))?;
    let moved = match endpoint.direction {
        usb::Direction::In => device.bulk_in(endpoint.number, length(device), TIMEOUT).await,
        usb::Direction::Out => device.bulk_out(endpoint.number, vec![0; length(device)], TIMEOUT).await,
    };
    expect_equal(&format!("a transfer to the halted {endpoint}"), &moved, &Err(UrbError::Stall))
}

/// Bytes of a transfer.
fn length(device: &Device) -> usize {
    PACKETS * if device.speed() == Speed::High { 512 } else { 64 }
}

/// Data through the gadget's endpoints.
struct Flow<'a> {
    device: &'a Device,
    /// Bytes to the sink.
    sent: Cell<usize>,
}

impl Flow<'_> {
    async fn both_ways(&self, when: &str) -> Result<(), Failure> {
        let length = length(self.device);
        let data = self.device.bulk_in(BULK_IN.address().number, length, TIMEOUT).await;
        let data = data.map_err(|error| failed(&format!("bulk IN {when}"), error))?;
        expect_equal(&format!("bytes from the source {when}"), &data, &vec![0; length])?;
        self.out(length, when).await
    }

    async fn out(&self, length: usize, when: &str) -> Result<(), Failure> {
        let sent = self.device.bulk_out(BULK_OUT.address().number, vec![0; length], TIMEOUT).await;
        sent.map_err(|error| failed(&format!("bulk OUT {when}"), error))?;
        self.sent.set(self.sent.get() + length);
        Ok(())
    }
}
