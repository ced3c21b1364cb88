//! The interrupt endpoint that carries notifications.

use usb::gadget::{Completion, Request, RequestError, Stall};
use usb::{Speed, Udc};

use crate::endpoint::Endpoint;

/// How a notification ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notified {
    /// The host has it, or it failed in a way that does not matter to the next.
    Over,
    /// The endpoint is gone.
    Gone,
    /// It was none of ours, or one from before the endpoint was enabled again.
    Stale,
}

/// An interrupt IN endpoint with at most one request in flight.
#[derive(Debug)]
pub(super) struct Notify {
    endpoint: Endpoint,
    enabled: bool,
    in_flight: Option<u64>,
}

impl Notify {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, enabled: false, in_flight: None }
    }

    /// Whether the next notification has to wait, for the one in flight or for the endpoint.
    pub(super) fn is_busy(&self) -> bool {
        !self.enabled || self.in_flight.is_some()
    }

    pub(super) fn enable(&mut self, udc: &mut dyn Udc) -> Result<(), Stall> {
        self.disable(udc);
        let speed = udc.speed().unwrap_or(Speed::Full);
        udc.enable(self.endpoint.at(speed)).map_err(|_| Stall)?;
        self.enabled = true;
        Ok(())
    }

    pub(super) fn disable(&mut self, udc: &mut dyn Udc) {
        if std::mem::take(&mut self.enabled) {
            // After a bus reset the driver may have disabled it already.
            let _ = udc.disable(self.endpoint.address());
        }
        self.in_flight = None;
    }

    /// Queues a notification; whether the controller took it.
    pub(super) fn send(&mut self, udc: &mut dyn Udc, id: u64, data: Vec<u8>) -> bool {
        let taken = udc.queue(self.endpoint.address(), Request { id, data, ..Request::default() }).is_ok();
        if taken {
            self.in_flight = Some(id);
        }
        taken
    }

    pub(super) fn complete(&mut self, completion: &Completion) -> Notified {
        if self.in_flight != Some(completion.request.id) {
            return Notified::Stale;
        }
        self.in_flight = None;
        match completion.status {
            Err(RequestError::Shutdown | RequestError::Dequeued) => Notified::Gone,
            _ => Notified::Over,
        }
    }
}
