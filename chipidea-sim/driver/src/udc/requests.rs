//! Requests of endpoint 0: the gadget's, and the driver's own (`_ep_queue`, `isr_setup_status_phase`,
//! `isr_get_status_response`, `isr_setup_status_complete`).

use usb::gadget::{Completion, QueueError, Request, UdcError};
use usb::{Direction, EndpointAddress};

use super::ChipideaUdc;

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ep0Request {
    /// The gadget's.
    Gadget,
    /// The answer to GET_STATUS.
    GetStatus,
    /// The status stage.
    Status,
}

pub(super) const EP0: [EndpointAddress; 2] = [EndpointAddress::out(0), EndpointAddress::r#in(0)];

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Out => 0,
        Direction::In => 1,
    }
}

impl ChipideaUdc {
    /// Queues data in the direction of the control transfer, and an empty request as the status stage of a transfer
    /// without data.
    pub(super) fn queue_ep0(&mut self, request: Request, owner: Ep0Request) -> Result<(), QueueError> {
        let direction = if request.data.is_empty() { Direction::In } else { self.ep0_direction };
        self.queue_ep0_on(direction, request, owner)
    }

    fn queue_ep0_on(&mut self, direction: Direction, request: Request, owner: Ep0Request) -> Result<(), QueueError> {
        let endpoint = EP0[index(direction)];
        if self.engine.queued(endpoint) > 0 {
            self.nuke(endpoint);
            self.engine.warn(format!("endpoint ctrl {:X} nuked", endpoint.to_byte()));
        }
        self.engine
            .submit(endpoint, request)
            .map_err(|refused| QueueError { error: refused.error.into(), request: refused.request })?;
        self.ep0[index(direction)] = Some(owner);
        Ok(())
    }

    /// Queues the status stage, against the direction of the data (`isr_setup_status_phase`).
    pub(super) fn queue_status_stage(&mut self) -> Result<(), UdcError> {
        if !self.status_ready {
            return Err(UdcError::NotConnected);
        }
        let direction = match self.ep0_direction {
            Direction::In => Direction::Out,
            Direction::Out => Direction::In,
        };
        // There is one request for it.
        if self.ep0[1 - index(direction)] == Some(Ep0Request::Status) {
            self.engine.warn("request already in queue");
            return Err(UdcError::Busy(EP0[index(direction)]));
        }
        self.queue_ep0_on(direction, Request::default(), Ep0Request::Status).map_err(|refused| refused.error)
    }

    /// Where the gadget's request `id` of endpoint 0 is queued.
    pub(super) fn ep0_holder(&self, id: u64) -> Option<EndpointAddress> {
        let gadgets = |&&endpoint: &&EndpointAddress| {
            self.ep0[index(endpoint.direction)] == Some(Ep0Request::Gadget)
                && self.engine.first_queued(endpoint) == Some(id)
        };
        EP0.iter().find(gadgets).copied()
    }

    /// Sends a completion on its way: to the gadget with the next delivery, or into the driver.
    pub(super) fn give_back(&mut self, completion: Completion) {
        if !completion.endpoint.is_ep0() {
            self.done.push_back(completion);
            return;
        }
        match self.ep0[index(completion.endpoint.direction)].take() {
            Some(Ep0Request::Gadget) => self.done.push_back(completion),
            Some(Ep0Request::Status) if completion.status.is_ok() => {
                if let Some(address) = self.next_address.take() {
                    self.engine.set_address(address);
                }
            }
            Some(Ep0Request::Status | Ep0Request::GetStatus) | None => {}
        }
    }
}
