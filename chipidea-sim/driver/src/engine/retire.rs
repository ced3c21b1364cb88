//! Requests on their way back (`_hardware_dequeue`, `isr_tr_complete_low`, `ep_dequeue`, `_ep_nuke`).

use std::collections::VecDeque;

use usb::gadget::{Completion, Request, RequestError};
use usb::{Direction, EndpointAddress};

use super::{DESCRIPTORS, Engine};
use crate::dtd::{TERMINATE, TransferDescriptor};
use crate::endpoint::Queued;
use crate::error::EngineError;
use crate::fault::Fault;
use crate::registers::{ENDPTCOMPLETE, ENDPTSTAT, endpoint_bit};

impl Engine {
    /// Whether an endpoint completed something, and clears that (`hw_test_and_clear_complete`).
    pub fn take_complete(&mut self, address: EndpointAddress) -> bool {
        let complete =
            self.endpoint(address).is_ok() && self.registers.test_and_clear(ENDPTCOMPLETE, endpoint_bit(address));
        if complete && self.has(Fault::AllCompleteCleared) {
            self.registers.store(ENDPTCOMPLETE, u32::MAX);
        }
        complete
    }

    /// The endpoint's oldest request, if the controller is done with it (`_hardware_dequeue`). After a failed one the
    /// next is primed.
    ///
    /// # Errors
    /// No such endpoint, or a dTD is not in memory.
    pub fn retire(&mut self, address: EndpointAddress) -> Result<Option<Completion>, EngineError> {
        let Some(status) = self.walk(address)? else { return Ok(None) };
        let endpoint = self.endpoint_mut(address)?;
        let Some(queued) = endpoint.queue.pop_front() else { return Ok(None) };
        // After an error some of its dTDs are left.
        self.free_first(address, queued.descriptors);
        if status.is_err()
            && self.registers.load(ENDPTSTAT) & endpoint_bit(address) == 0
            && let Err(error) = self.resume(address, usize::MAX)
        {
            self.warn(format!("{address}: prime: {error}"));
        }
        Ok(Some(self.give_back(address, queued, status)))
    }

    /// Retires the dTDs of the oldest request as far as the controller is done with them. Bytes moved, or the error;
    /// `None` while it is not done.
    fn walk(&mut self, address: EndpointAddress) -> Result<Option<Result<usize, RequestError>>, EngineError> {
        loop {
            let endpoint = self.endpoint(address)?;
            let Some(queued) = endpoint.queue.front() else { return Ok(None) };
            if queued.descriptors == 0 {
                let length = queued.request.data.len();
                return Ok(Some(Ok(length.saturating_sub(queued.missing))));
            }
            let Some(&descriptor) = endpoint.descriptors.front() else { return Ok(None) };
            let token = descriptor.token(&self.dma)?;
            if token.active() {
                if self.reprime.on_retirement && self.registers.load(ENDPTSTAT) & endpoint_bit(address) == 0 {
                    self.prime_at(address, descriptor)?;
                }
                return Ok(None);
            }
            let left = if self.has(Fault::ResidueIgnored) { 0 } else { usize::from(token.total()) };
            let error = if token.halted() {
                Some(RequestError::Halted)
            } else if token.data_error() {
                Some(RequestError::Protocol)
            } else if token.transaction_error() {
                Some(RequestError::Transaction)
            } else if left > 0 && address.direction == Direction::In {
                Some(RequestError::Protocol)
            } else {
                None
            };
            if let Some(error) = error {
                return Ok(Some(Err(error)));
            }
            let endpoint = self.endpoint_mut(address)?;
            endpoint.descriptors.pop_front();
            if let Some(queued) = endpoint.queue.front_mut() {
                queued.descriptors -= 1;
                queued.missing += left;
            }
            // The controller may still read this one's next pointer: it is freed one completion late.
            let pending = endpoint.pending.replace(descriptor);
            let over = if self.has(Fault::FreedEarly) { self.endpoint_mut(address)?.pending.take() } else { pending };
            if let Some(over) = over {
                self.free(over);
            }
        }
    }

    /// Takes a request back before its time (`ep_dequeue`): flushes the endpoint, then primes what is left on it.
    ///
    /// # Errors
    /// No such request, or the controller does not let go of it: it stays queued.
    pub fn cancel(&mut self, address: EndpointAddress, id: u64) -> Result<Completion, EngineError> {
        let no_request = EngineError::NoRequest { endpoint: address, id };
        let endpoint = self.endpoint(address)?;
        let position = endpoint.queue.iter().position(|queued| queued.request.id == id);
        let position = position.ok_or_else(|| no_request.clone())?;
        if !self.has(Fault::NoFlushOnDequeue) {
            self.flush(address)?;
        }
        let endpoint = self.endpoint_mut(address)?;
        let begin = endpoint.first_descriptor(position);
        let queued = endpoint.queue.remove(position).ok_or(no_request)?;
        let gone: Vec<_> = endpoint.descriptors.drain(begin..begin + queued.descriptors).collect();
        let before = begin.checked_sub(1).map(|index| endpoint.descriptors[index]);
        let after = endpoint.descriptors.get(begin).copied();
        if let Some(before) = before
            && let Err(fault) = before.set_next(&self.dma, after.map_or(TERMINATE, TransferDescriptor::link))
        {
            self.warn(format!("{address}: relink: {fault}"));
        }
        for descriptor in gone {
            self.free(descriptor);
        }
        if let Err(error) = self.resume(address, usize::MAX) {
            self.warn(format!("{address}: prime: {error}"));
        }
        Ok(self.give_back(address, queued, Err(RequestError::Dequeued)))
    }

    /// Primes the first dTD that the controller is not done with, of the `count` first of the list, if any.
    pub(super) fn resume(&mut self, address: EndpointAddress, count: usize) -> Result<(), EngineError> {
        let endpoint = self.endpoint(address)?;
        for &descriptor in endpoint.descriptors.iter().take(count) {
            if descriptor.token(&self.dma)?.active() {
                return self.prime_at(address, descriptor);
            }
        }
        Ok(())
    }

    /// Flushes an endpoint and gives all its requests back as shut down, into `done` (`_ep_nuke`).
    pub fn nuke(&mut self, address: EndpointAddress, done: &mut VecDeque<Completion>) {
        if let Err(error) = self.flush(address) {
            self.warn(format!("{address}: flush: {error}"));
        }
        while let Some(queued) = self.endpoint_mut(address).ok().and_then(|endpoint| endpoint.queue.pop_front()) {
            self.free_first(address, queued.descriptors);
            done.push_back(self.give_back(address, queued, Err(RequestError::Shutdown)));
        }
        self.free_pending(address);
    }

    /// Frees the dTD retired last (`free_pending_td`).
    pub(super) fn free_pending(&mut self, address: EndpointAddress) {
        let pending = self.endpoint_mut(address).ok().and_then(|endpoint| endpoint.pending.take());
        if let Some(pending) = pending.filter(|_| !self.has(Fault::PendingLost)) {
            self.free(pending);
        }
    }

    /// Ends the mapping, copies what came, and makes the completion.
    fn give_back(
        &mut self,
        address: EndpointAddress,
        queued: Queued,
        status: Result<usize, RequestError>,
    ) -> Completion {
        let Queued { mut request, buffer, .. } = queued;
        let mut status = status;
        if let Some(buffer) = buffer {
            if !self.has(Fault::UnmapForgotten) {
                self.dma.unmap_single(buffer.dma);
            }
            if address.direction == Direction::Out
                && let Ok(length) = status
                && let Some(room) = request.data.get_mut(..length)
                && let Err(fault) = self.dma.read(buffer.cpu, room)
            {
                self.warn(format!("{address}: buffer: {fault}"));
                status = Err(RequestError::Protocol);
            }
            self.buffers.keep(&self.dma, buffer);
        }
        if is_short(address, &request, status) {
            status = Err(RequestError::Short);
        }
        Completion { endpoint: address, request, status }
    }

    fn free_first(&mut self, address: EndpointAddress, count: usize) {
        for _ in 0..count {
            let Ok(endpoint) = self.endpoint_mut(address) else { return };
            let Some(descriptor) = endpoint.descriptors.pop_front() else { return };
            self.free(descriptor);
        }
    }

    pub(super) fn free_last(&mut self, address: EndpointAddress, count: usize) {
        for _ in 0..count {
            let Ok(endpoint) = self.endpoint_mut(address) else { return };
            let Some(descriptor) = endpoint.descriptors.pop_back() else { return };
            self.free(descriptor);
        }
    }

    fn free(&mut self, descriptor: TransferDescriptor) {
        if let Err(error) = self.descriptors.free(descriptor.block) {
            self.warn(format!("{DESCRIPTORS}: {error}"));
        }
    }
}

/// Whether less came than the request insists on.
fn is_short(address: EndpointAddress, request: &Request, status: Result<usize, RequestError>) -> bool {
    let short = matches!(status, Ok(length) if length < request.data.len());
    request.short_not_ok && address.direction == Direction::Out && short
}
