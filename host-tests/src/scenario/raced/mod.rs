//! Scenarios that race: traffic on the wire at the driver's accesses, by a schedule.

mod append;
mod dequeue;
mod disable;
mod echo;
mod numbered;
mod setup_abort;
mod surprise;
mod traffic;
mod vendor;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb::{Direction, EndpointAddress, SetupPacket};
use usb_host::controller::UrbId;
use usb_host::{Cancel, Device};

use super::Scenario;
use crate::schedule::Act;
use crate::verdict::Failure;

/// Every one of them.
pub(super) fn table() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(setup_abort::SetupAbort),
        Box::new(append::Append),
        Box::new(dequeue::Dequeue),
        Box::new(disable::Disable),
        Box::new(surprise::Surprise),
    ]
}

/// How long a host waits for a transfer (`USB_CTRL_GET_TIMEOUT`).
const PATIENCE: Duration = Duration::from_secs(5);

/// A transfer on its way.
struct Pending {
    what: String,
    id: UrbId,
    done: oneshot::Receiver<UrbDone>,
}

impl Pending {
    fn new(device: &Device, what: String, urb: Urb) -> Self {
        let (tell, done) = oneshot::channel();
        // Who does not wait for it any more does not want to know.
        let id = device.submit_with(urb, Box::new(move |urb| drop(tell.send(urb))));
        Self { what, id, done }
    }

    fn control(device: &Device, setup: SetupPacket, data: Vec<u8>) -> Self {
        let buffer = if setup.direction() == Direction::In { vec![0; usize::from(setup.length.get())] } else { data };
        let urb = urb(EndpointAddress::out(0), Transfer::Control(setup), buffer);
        Self::new(device, setup.to_string(), urb)
    }

    /// A bulk transfer.
    fn bulk(device: &Device, endpoint: EndpointAddress, buffer: Vec<u8>) -> Self {
        Self::new(device, format!("a bulk transfer on {endpoint}"), urb(endpoint, Transfer::Bulk, buffer))
    }

    /// Its end: what was transferred, or the host's error.
    async fn end(self, device: &Device) -> Result<Result<Vec<u8>, UrbError>, Failure> {
        match timeout(PATIENCE, self.done).await {
            Ok(Ok(mut urb)) => {
                urb.buffer.truncate(urb.actual);
                Ok(urb.status.map(|()| urb.buffer))
            }
            Ok(Err(_)) => Err(Failure::new(format!("{} was lost in the host", self.what))),
            Err(_) => {
                device.cancel(self.id, Cancel::Kill);
                Err(Failure::new(format!("{}, error {}", self.what, UrbError::TimedOut.errno())))
            }
        }
    }
}

fn urb(endpoint: EndpointAddress, transfer: Transfer, buffer: Vec<u8>) -> Urb {
    Urb { address: 0, endpoint, transfer, buffer, zero_packet: false, short_not_ok: false }
}

/// Transfers that acts have begun, in that order.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<VecDeque<Pending>>>);

impl Begun {
    fn push(&self, pending: Pending) {
        self.0.lock().push_back(pending);
    }

    fn take_first(&self) -> Option<Pending> {
        self.0.lock().pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// What the host has to do on the wire is done now.
fn bus(device: &Device) -> Act {
    let controller = Arc::clone(device.controller());
    Act::new("bus", move || {
        let _ = controller.run();
    })
}
