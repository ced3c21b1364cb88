//! Halted endpoints and refused requests.

use std::time::Duration;

use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
use usb::ch9::{Feature, Recipient, Request, SetupPacket};
use usb::urb::UrbError;
use usb::{EndpointAddress, Speed};
use usb_host::{CONTROL_TIMEOUT, Device};

use super::{Outcome, Scenario};
use crate::session::{Session, expect_equal};
use crate::verdict::Failure;

const TIMEOUT: Duration = Duration::from_secs(1);
/// Packets of a transfer: an odd number, so that a toggle that is not reset shows after a halt.
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
    session.boot(SourceSinkGadget::new(SourceSinkConfig { buflen: REQUEST, ..SourceSinkConfig::default() }))?;
    let device = session.enumerated().await?;
    let (source, sink) = (BULK_IN.address(), BULK_OUT.address());
    data_flows(&device, "at first").await?;

    refused(&device, SetupPacket::new(0xc0, 0xee, 0, 0, 8)).await?;
    refused(&device, SetupPacket::new(0x80, Request::GetDescriptor.0, 0x0f00, 0, 64)).await?;
    data_flows(&device, "after refused requests").await?;

    for endpoint in [source, sink] {
        let halt = feature(Request::SetFeature, endpoint);
        control(&device, halt, "SET_FEATURE(ENDPOINT_HALT)").await?;
        expect_halted(&device, endpoint).await?;
        device.clear_halt(endpoint).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
        data_flows(&device, "after the host cleared its own halt").await?;
    }

    // OUT: ci_hdrc refuses to halt an IN endpoint with requests queued (-11), and the source always has some.
    let halted = session.on_board(|driver, _| driver.set_halt(sink, true));
    expect_equal("the board halts its OUT endpoint", &halted, &Some(Ok(())))?;
    expect_halted(&device, sink).await?;
    device.clear_halt(sink).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
    data_flows(&device, "after the host cleared the board's halt").await?;

    let wedged = session.on_board(|driver, _| driver.set_wedge(sink));
    expect_equal("the board wedges its OUT endpoint", &wedged, &Some(Ok(())))?;
    expect_halted(&device, sink).await?;
    device.clear_halt(sink).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
    expect_halted(&device, sink).await?;
    let released = session.on_board(|driver, _| driver.set_halt(sink, false));
    expect_equal("the board releases the wedge", &released, &Some(Ok(())))?;
    device.clear_halt(sink).await.map_err(|error| failed("CLEAR_FEATURE(ENDPOINT_HALT)", error))?;
    data_flows(&device, "after the wedge").await?;

    // Both requests of the gadget's that two dTDs carry, whole and then some.
    let length = 3 * REQUEST / 2;
    let data = device.bulk_in(source.number, length, TIMEOUT).await;
    expect_equal("a transfer over several dTDs from the source", &data.map(|data| data == vec![0; length]), &Ok(true))?;
    let sent = device.bulk_out(sink.number, vec![0; length], TIMEOUT).await;
    sent.map(drop).map_err(|error| failed("a transfer over several dTDs to the sink", error))
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

async fn data_flows(device: &Device, when: &str) -> Result<(), Failure> {
    let length = length(device);
    let data = device.bulk_in(BULK_IN.address().number, length, TIMEOUT).await;
    let data = data.map_err(|error| failed(&format!("bulk IN {when}"), error))?;
    expect_equal(&format!("bytes from the source {when}"), &data, &vec![0; length])?;
    let sent = device.bulk_out(BULK_OUT.address().number, vec![0; length], TIMEOUT).await;
    sent.map(drop).map_err(|error| failed(&format!("bulk OUT {when}"), error))
}
