//! What the host does, whoever drives the controller.

use std::fmt;
use std::time::Duration;

use chipidea_sim::Traffic;
use gadgets::ethernet::{BULK_IN, BULK_OUT};
use tokio::time::{Instant, sleep};
use usb::EndpointAddress;
use usb::ch9::{Feature, Recipient, Request, SetupPacket};
use usb::urb::UrbError;
use usb_host::net::NetDevice;
use usb_host::{CONTROL_TIMEOUT, Device, Host};

use crate::frames;
use crate::variant::Variant;

/// A driver that did nothing for so long is done with what it was told.
const QUIET: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(20);

/// The device was enumerated and configured: status, refusals, halts, a suspended bus, data, a bus reset, another
/// configuration, data again. Cable and enumeration are the caller's.
pub(crate) async fn session(host: &Host, device: &Device, variant: Variant, traffic: &Traffic) -> Result<(), String> {
    // Its class driver selects the alternate setting with endpoints.
    let network = NetDevice::bind(device).await.map_err(failed("bind"))?;
    settle(traffic).await;
    drop(network);
    for setup in [
        status(Recipient::Device, 0),
        status(Recipient::Interface, 0),
        status(Recipient::Endpoint, BULK_IN.address().to_byte()),
    ] {
        device.control_in(setup, CONTROL_TIMEOUT).await.map_err(failed("GET_STATUS"))?;
    }
    refused(device, SetupPacket::new(0xc0, 0xee, 0, 0, 8)).await?;
    refused(device, SetupPacket::new(0x80, Request::GetDescriptor.0, 0x0a00, 0, 64)).await?;
    // The one has nothing queued, the other all its buffers.
    for endpoint in [BULK_IN.address(), BULK_OUT.address()] {
        halt_and_clear(device, endpoint).await?;
    }

    settle(traffic).await;
    host.suspend().await.map_err(failed("suspend"))?;
    settle(traffic).await;
    host.resume().await.map_err(failed("resume"))?;

    ping(device, traffic).await?;
    device.reset().await.map_err(failed("reset"))?;
    settle(traffic).await;
    device.set_configuration(0).await.map_err(failed("SET_CONFIGURATION 0"))?;
    settle(traffic).await;
    device.set_configuration(variant.configuration()).await.map_err(failed("SET_CONFIGURATION"))?;
    ping(device, traffic).await
}

/// Waits until the driver does nothing more.
pub(crate) async fn settle(traffic: &Traffic) {
    let (mut seen, mut since) = (traffic.len(), Instant::now());
    while since.elapsed() < QUIET {
        sleep(LOOK).await;
        if traffic.len() != seen {
            (seen, since) = (traffic.len(), Instant::now());
        }
    }
}

/// One ping by the class driver that binds, which is unbound again.
///
/// Whoever sent one has five seconds until the board asks again for the host's Ethernet address (`delay_first_probe_time`,
/// RFC 4861's DELAY_FIRST_PROBE_TIME).
async fn ping(device: &Device, traffic: &Traffic) -> Result<(), String> {
    let network = NetDevice::bind(device).await.map_err(failed("bind"))?;
    frames::ping(&network).await?;
    // What the driver has to say on its interrupt endpoint goes on meanwhile.
    settle(traffic).await;
    Ok(())
}

fn status(recipient: Recipient, index: u8) -> SetupPacket {
    SetupPacket::new(0x80 | recipient.0, Request::GetStatus.0, 0, index.into(), 2)
}

async fn refused(device: &Device, setup: SetupPacket) -> Result<(), String> {
    match device.control_in(setup, CONTROL_TIMEOUT).await {
        Err(UrbError::Stall) => Ok(()),
        other => Err(format!("{setup}: {other:?}")),
    }
}

async fn halt_and_clear(device: &Device, endpoint: EndpointAddress) -> Result<(), String> {
    let (recipient, index) = (Recipient::Endpoint, u16::from(endpoint.to_byte()));
    let halt = SetupPacket::new(recipient.0, Request::SetFeature.0, Feature::EndpointHalt.0, index, 0);
    device.control_out(halt, &[], CONTROL_TIMEOUT).await.map_err(failed("SET_FEATURE"))?;
    let status = device.control_in(status(recipient, endpoint.to_byte()), CONTROL_TIMEOUT).await;
    if status != Ok(vec![1, 0]) {
        return Err(format!("{endpoint} was halted and says {status:?}"));
    }
    device.clear_halt(endpoint).await.map_err(failed("CLEAR_FEATURE"))
}

fn failed<E: fmt::Display>(what: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}
