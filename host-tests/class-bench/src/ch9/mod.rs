//! A chapter 9 check: what every USB device must do, asked of this one.
//!
//! [`crate::ClassHost::ch9`] sends every standard request in every state (default, address, configured, configured after a
//! suspend), with valid and invalid parameters (USB 2.0 §9.4); enumerates by both of Linux's schemes; resets and suspends
//! in each state; holds descriptors against each other and against the endpoints that were allocated (§9.6); and halts
//! every endpoint and looks at its toggle (§9.4.5). Each [`Check`] has a name that stays, the paragraph it comes from, and
//! an [`Outcome`].
//!
//! What the specification leaves open is sent too: the device has to survive it. What a class may refuse is
//! [`Outcome::Refused`]. What usb-device itself does otherwise is [`Outcome::KnownDeviation`], by a list with a reason for
//! each; it is shown, and does not make a report fail. A check is on that list with the answer that usb-device gives, not
//! with any.
//!
//! Halts and toggles are checked for the endpoints of the first configuration's first settings; on the way an OUT endpoint
//! gets an empty packet, and what an IN endpoint has to send is taken.
//!
//! *Not checked*: class requests, second configurations, isochronous transfers, electrical behaviour, power.

mod descriptors;
mod halts;
mod known;
mod lifecycle;
mod report;
mod requests;
mod session;
mod shape;

use usb::ch9::{DescriptorType, DeviceDescriptor};
use zerocopy::FromBytes;

pub use report::{Check, Outcome, Report};

use crate::host::ClassHost;
use session::{Session, State, show};
use shape::Shape;

/// All checks. Afterwards the host's device is as before, if it can be reset.
pub(crate) async fn run(host: &ClassHost) -> Report {
    let mut session = Session::new(host);
    match read(&mut session).await {
        Ok(shape) => {
            session.note("shape", "USB 2.0 §9.4.3", Outcome::Passed, "the descriptors can be read".to_owned());
            descriptors::check(&mut session, &shape).await;
            requests::check(&mut session, &shape).await;
            lifecycle::check(&mut session, &shape).await;
            halts::check(&mut session, &shape).await;
        }
        Err(why) => session.note("shape", "USB 2.0 §9.4.3", Outcome::Failed, why),
    }
    // The hub's device is restored; one that was never enumerated is not there.
    let result = match host.host.current_device() {
        None => Err("the host did not enumerate the device".to_owned()),
        Some(device) => device.reset().await.map(|()| "configured again".to_owned()).map_err(|error| error.to_string()),
    };
    session.result("enumeration.linux", "USB 2.0 §9.1.2", result);
    session.report
}

/// The descriptors that the requests are made from.
async fn read(session: &mut Session<'_>) -> Result<Shape, String> {
    session.reset().await?;
    let answer = session.descriptor(DescriptorType::Device, 0, 0, 64).await;
    let max_packet0 = answer.as_ref().ok().and_then(|bytes| bytes.get(7)).copied();
    let max_packet0 = max_packet0.filter(|size| matches!(size, 8 | 16 | 32 | 64));
    session.max_packet0 =
        max_packet0.ok_or_else(|| format!("the device descriptor at address 0: {}", show(&answer)))?.into();
    session.enter(State::Address).await?;
    let answer = session.descriptor(DescriptorType::Device, 0, 0, 18).await;
    let device_bytes = answer.clone().map_err(|error| format!("the device descriptor: {error}"))?;
    let device = DeviceDescriptor::read_from_bytes(&device_bytes)
        .map_err(|_| format!("the device descriptor: {}", show(&answer)))?;
    let answer = session.descriptor(DescriptorType::Configuration, 0, 0, 4096).await;
    let configuration = answer.map_err(|error| format!("the configuration descriptor: {error}"))?;
    let high_speed = session.host.host.controller().port_status().enabled == Some(usb::Speed::High);
    let shape = Shape { device_bytes, device, configuration, high_speed };
    session.value = shape.header().ok_or("the configuration descriptor is too short")?.value;
    Ok(shape)
}
