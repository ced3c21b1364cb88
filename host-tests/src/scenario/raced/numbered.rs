//! A gadget whose bulk packets are numbered, so that a lost, doubled or moved one shows.

use std::collections::VecDeque;
use std::time::Duration;

use gadgets::composite::Answer;
use gadgets::endpoint::Endpoint;
use gadgets::{Composite, Functions};
use usb::gadget::{Completion, Request, RequestError, Stall, Udc};
use usb::{Direction, EndpointAddress, SetupPacket, Speed};

use super::vendor::identity;

/// Its endpoints.
pub(super) const IN: EndpointAddress = EndpointAddress::r#in(1);
pub(super) const OUT: EndpointAddress = EndpointAddress::out(1);

static BULK: [Endpoint; 2] = [Endpoint::bulk(IN), Endpoint::bulk(OUT)];
/// Requests that it keeps queued on each endpoint, one packet each: few, so that an append meets the end of a list.
const QUEUED: usize = 2;

/// A packet that carries `number`, over and over.
pub(super) fn packet(number: u32, max_packet: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(max_packet).collect()
}

/// The number that a packet carries; `None` if it is not whole.
pub(super) fn number(data: &[u8], max_packet: usize) -> Option<u32> {
    let first = data.first_chunk().map(|first| u32::from_le_bytes(*first))?;
    (data == packet(first, max_packet)).then_some(first)
}

/// The function.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    enabled: bool,
    max_packet: usize,
    next_id: u64,
    next_number: u32,
    /// Ids that are queued, by endpoint: IN and OUT.
    queued: [VecDeque<u64>; 2],
    /// To be queued in the next step.
    waiting: Vec<EndpointAddress>,
    /// Numbers of IN packets that were taken back.
    pub(super) withdrawn: Vec<u32>,
    /// OUT requests that were taken back.
    pub(super) withdrawn_out: usize,
    /// Numbers of OUT packets in the order of their arrival; `None` for one that is not whole.
    pub(super) taken: Vec<Option<u32>>,
    /// Requests that failed.
    pub(super) errors: Vec<(EndpointAddress, RequestError)>,
}

/// The gadget.
pub(super) fn gadget() -> Composite<Numbered> {
    Composite::with_functions(identity(&BULK), Numbered::default())
}

impl Numbered {
    /// Ids of the requests that are queued, the oldest first.
    pub(super) fn queued(&self, endpoint: EndpointAddress) -> &VecDeque<u64> {
        &self.queued[index(endpoint)]
    }

    fn queue(&mut self, udc: &mut dyn Udc, endpoint: EndpointAddress) {
        let data = if endpoint == IN { packet(self.next_number, self.max_packet) } else { vec![0; self.max_packet] };
        self.next_id += 1;
        let request = Request { id: self.next_id, data, ..Request::default() };
        if udc.queue(endpoint, request).is_err() {
            self.waiting.push(endpoint);
            return;
        }
        self.queued[index(endpoint)].push_back(self.next_id);
        self.next_number += u32::from(endpoint == IN);
    }
}

fn index(endpoint: EndpointAddress) -> usize {
    usize::from(endpoint.direction == Direction::Out)
}

impl Functions for Numbered {
    fn set_alternate(&mut self, udc: &mut dyn Udc, _: u8, _: u8, alternate: u8) -> Result<(), Stall> {
        self.disable(udc);
        let speed = udc.speed().unwrap_or(Speed::Full);
        let sound = alternate == 0 && BULK.iter().all(|endpoint| udc.enable(endpoint.at(speed)).is_ok());
        if !sound {
            return Err(Stall);
        }
        self.enabled = true;
        self.max_packet = usize::from(BULK[0].at(speed).max_packet());
        for _ in 0..QUEUED {
            self.queue(udc, IN);
            self.queue(udc, OUT);
        }
        Ok(())
    }

    fn alternate(&self, _: u8, _: u8) -> u8 {
        0
    }

    fn disable(&mut self, udc: &mut dyn Udc) {
        self.waiting.clear();
        if std::mem::take(&mut self.enabled) {
            for endpoint in [IN, OUT] {
                // A controller that refuses has nothing of it left, or the next enable fails.
                let _ = udc.disable(endpoint);
            }
        }
        self.queued = Default::default();
    }

    fn control(&mut self, _: &mut dyn Udc, _: u8, _: SetupPacket) -> Result<Answer, Stall> {
        Err(Stall)
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        let Completion { endpoint, request, status } = completion;
        let queued = &mut self.queued[index(endpoint)];
        // One of before the endpoint was disabled comes back, too.
        let Some(position) = queued.iter().position(|id| *id == request.id) else { return };
        queued.remove(position);
        match status {
            Ok(length) if endpoint == OUT => {
                let data = request.data.get(..length);
                self.taken.push(data.and_then(|data| number(data, self.max_packet)));
            }
            Ok(_) => {}
            Err(RequestError::Dequeued) if endpoint == IN => {
                self.withdrawn.extend(number(&request.data, self.max_packet));
            }
            Err(RequestError::Dequeued) => self.withdrawn_out += 1,
            Err(RequestError::Shutdown) => return,
            Err(error) => self.errors.push((endpoint, error)),
        }
        if self.enabled {
            self.queue(udc, endpoint);
        }
    }

    fn step(&mut self, udc: &mut dyn Udc, _: Duration) -> Option<Duration> {
        for endpoint in std::mem::take(&mut self.waiting) {
            self.queue(udc, endpoint);
        }
        None
    }
}
