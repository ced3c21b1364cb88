//! From a request to a primed endpoint (`_ep_queue`, `_hardware_enqueue`, `add_td_to_list`, `hw_ep_prime`).

use bus::{DmaAddr, Owner};
use pool::Flags;
use usb::gadget::Request;
use usb::{Direction, EndpointAddress, TransferType};

use super::{Engine, MOST_ROUNDS};
use crate::dqh::QueueHead;
use crate::dtd::{ADDRESS, PAGE, PAGES, TERMINATE, Token, TransferDescriptor, most_bytes};
use crate::endpoint::{EndpointSetup, Queued};
use crate::error::{EngineError, SubmitError};
use crate::fault::Fault;
use crate::names::{DTD, slot_of};
use crate::registers::{ENDPTPRIME, ENDPTSETUPSTAT, ENDPTSTAT, UsbCmd, endpoint_bit};

/// Most bytes of a request: what a 32-bit bus address space could hold at all.
const MOST_BYTES: usize = 1 << 30;

impl Engine {
    /// Queues a transfer: `request.data` to send, or as much room to receive. It comes back through
    /// [`Engine::retire`], [`Engine::cancel`] or [`Engine::nuke`].
    ///
    /// # Errors
    /// The request comes back; nothing of it stays allocated or linked.
    pub fn submit(&mut self, address: EndpointAddress, request: Request) -> Result<(), SubmitError> {
        match self.try_submit(address, request) {
            Ok(()) => Ok(()),
            Err((EngineError::Alloc(_), _)) if self.has(Fault::LostRequest) => Ok(()),
            Err((error, request)) => Err(SubmitError { error, request }),
        }
    }

    fn try_submit(&mut self, address: EndpointAddress, request: Request) -> Result<(), (EngineError, Request)> {
        let setup = match self.check(address, &request) {
            Ok(setup) => setup,
            Err(error) => return Err((error, request)),
        };
        let mut queued = Queued { request, buffer: None, descriptors: 0, missing: 0 };
        let result = self
            .map(address, &mut queued)
            .and_then(|()| self.build(address, setup, &mut queued))
            .and_then(|()| self.link(address, setup, &queued));
        match result {
            Ok(()) => {
                if let Some(buffer) = queued.buffer.filter(|_| self.has(Fault::UnmapEarly)) {
                    self.dma.unmap_single(buffer.dma);
                }
                // The endpoint exists: it was checked above.
                if let Ok(endpoint) = self.endpoint_mut(address) {
                    endpoint.queue.push_back(queued);
                }
                Ok(())
            }
            Err(error) => Err((error, self.unwind(address, queued))),
        }
    }

    fn check(&self, address: EndpointAddress, request: &Request) -> Result<EndpointSetup, EngineError> {
        let endpoint = self.endpoint(address)?;
        let setup = endpoint.setup.ok_or(EngineError::NoEndpoint(address))?;
        let bytes = request.data.len();
        let isochronous = setup.transfer_type == TransferType::Isochronous;
        let most = if isochronous { usize::from(setup.max_packet) * usize::from(setup.mult) } else { MOST_BYTES };
        if bytes > most {
            return Err(EngineError::TooLong { endpoint: address, bytes });
        }
        if endpoint.queue.iter().any(|queued| queued.request.id == request.id) {
            return Err(EngineError::Busy(address));
        }
        Ok(setup)
    }

    /// Maps the request's buffer; the data of an IN request goes into it.
    fn map(&mut self, address: EndpointAddress, queued: &mut Queued) -> Result<(), EngineError> {
        let data = &queued.request.data;
        if data.is_empty() {
            return Ok(());
        }
        let sends = (address.direction == Direction::In) != self.has(Fault::WrongDirection);
        let direction = if sends { pool::Direction::ToDevice } else { pool::Direction::FromDevice };
        let buffer = self.buffers.map(&self.dma, data.len() as u64, direction, slot_of(address))?;
        queued.buffer = Some(buffer);
        if address.direction == Direction::In {
            self.dma.write(buffer.cpu, data)?;
        }
        Ok(())
    }

    /// Makes the request's dTDs, at the end of the endpoint's list but not linked to those before
    /// (`prepare_td_for_non_sg`).
    fn build(
        &mut self,
        address: EndpointAddress,
        setup: EndpointSetup,
        queued: &mut Queued,
    ) -> Result<(), EngineError> {
        let length = queued.request.data.len() as u64;
        let base = queued.buffer.map_or(DmaAddr(0), |buffer| buffer.dma);
        let most = if self.has(Fault::UnalignedPages) { PAGES * PAGE } else { most_bytes(base) };
        let mult = isochronous_mult(address, setup, length);
        let mut done = 0;
        let mut last = loop {
            let count = (length - done).min(most);
            let data = queued.buffer.map(|buffer| buffer.dma.offset(done));
            let added = self.add_descriptor(address, queued, data, count, mult)?;
            done += count;
            if done == length {
                break added;
            }
        };
        let full_packets = length != 0 && setup.max_packet != 0 && length.is_multiple_of(u64::from(setup.max_packet));
        let wanted = queued.request.zero && !self.has(Fault::NoZeroLengthPacket);
        if wanted && full_packets && address.direction == Direction::In {
            last = self.add_descriptor(address, queued, None, 0, mult)?;
        }
        let (last, token) = last;
        last.set_next(&self.dma, if self.has(Fault::MissingTerminate) { 0 } else { TERMINATE })?;
        if !queued.request.no_interrupt && !self.has(Fault::NoInterruptOnComplete) {
            last.set_token(&self.dma, token.with_interrupt(true))?;
        }
        Ok(())
    }

    /// Allocates a dTD, fills it in and links it to the request's dTD before (`add_td_to_list`).
    fn add_descriptor(
        &mut self,
        address: EndpointAddress,
        queued: &mut Queued,
        data: Option<DmaAddr>,
        count: u64,
        mult: u8,
    ) -> Result<(TransferDescriptor, Token), EngineError> {
        let block = self.descriptors.alloc(Flags::ATOMIC.zeroed())?;
        let added = TransferDescriptor { block };
        let endpoint = self.endpoint_mut(address)?;
        let number = endpoint.next_number;
        endpoint.next_number = number.wrapping_add(1);
        let before = if queued.descriptors == 0 { None } else { endpoint.descriptors.back().copied() };
        endpoint.descriptors.push_back(added);
        queued.descriptors += 1;
        let index = slot_of(address) << 16 | u32::from(number);
        self.dma.claim(block.dma, 64, Owner::new(&DTD, index));
        // At most 20 KiB: 15 bits.
        let token = Token::new().with_total(count as u16).with_active(true).with_mult(mult);
        added.set_token(&self.dma, token)?;
        if let Some(data) = data.filter(|_| count > 0) {
            added.set_buffer(&self.dma, data)?;
        }
        if let Some(before) = before {
            let cpu = self.has(Fault::CpuAddressInLink);
            before.set_next(&self.dma, if cpu { added.block.cpu.0 as u32 & ADDRESS } else { added.link() })?;
        }
        Ok((added, token))
    }

    /// Appends the request's dTDs to a list that the controller walks, or primes them (`_hardware_enqueue`).
    fn link(&mut self, address: EndpointAddress, setup: EndpointSetup, queued: &Queued) -> Result<(), EngineError> {
        let endpoint = self.endpoint(address)?;
        let begin = endpoint.descriptors.len() - queued.descriptors;
        let first = endpoint.descriptors[begin];
        let head = endpoint.head;
        let before = begin.checked_sub(1).map(|index| endpoint.descriptors[index]);
        let linked = match before.map(|before| self.append(address, before, first)) {
            Some(Ok(true)) => return Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(false)) if self.has(Fault::ForgottenPrime) => return Ok(()),
            Some(Ok(false)) | None => {
                self.set_isochronous_mult(address, setup, queued, head).and_then(|()| self.prime_at(address, first))
            }
        };
        if linked.is_err() {
            // A prime that failed late may have reached the controller.
            if let Err(error) = self.flush(address) {
                self.warn(format!("{address}: flush: {error}"));
            }
            if let Some(before) = before {
                before.set_next(&self.dma, TERMINATE)?;
                self.resume(address, begin)?;
            }
        }
        linked
    }

    /// Mult of an isochronous OUT endpoint, in its dQH. As in ci_hdrc it only ever gains bits.
    fn set_isochronous_mult(
        &self,
        address: EndpointAddress,
        setup: EndpointSetup,
        queued: &Queued,
        head: QueueHead,
    ) -> Result<(), EngineError> {
        if setup.transfer_type != TransferType::Isochronous || address.direction == Direction::In {
            return Ok(());
        }
        let capabilities = head.capabilities(&self.dma)?;
        let mult = capabilities.mult() | packets(setup, queued.request.data.len() as u64);
        Ok(head.set_capabilities(&self.dma, capabilities.with_mult(mult))?)
    }

    /// Patches the last dTD's next pointer. Returns whether the controller goes on to it by itself; if not, the
    /// endpoint has to be primed.
    fn append(
        &mut self,
        address: EndpointAddress,
        last: TransferDescriptor,
        first: TransferDescriptor,
    ) -> Result<bool, EngineError> {
        let bit = endpoint_bit(address);
        last.set_next(&self.dma, first.link() & ADDRESS)?;
        if self.reprime.on_append && self.registers.load(ENDPTSTAT) & bit == 0 {
            self.prime_at(address, last)?;
        }
        if self.registers.load(ENDPTPRIME) & bit != 0 {
            return Ok(true);
        }
        for _ in 0..MOST_ROUNDS {
            self.registers.update(|cmd: UsbCmd| cmd.with_add_tripwire(true));
            let primed = self.registers.load(ENDPTSTAT) & bit != 0;
            if self.registers.read::<UsbCmd>().add_tripwire() || self.has(Fault::NoAddTripwire) {
                self.registers.update(|cmd: UsbCmd| cmd.with_add_tripwire(false));
                return Ok(primed);
            }
        }
        let bits = UsbCmd::new().with_add_tripwire(true).into();
        Err(EngineError::Timeout { register: "USBCMD", bits, state: "clear", polls: MOST_ROUNDS })
    }

    /// Points the dQH at a dTD and primes (`reprime_dtd`, `hw_ep_prime`).
    pub(super) fn prime_at(&mut self, address: EndpointAddress, first: TransferDescriptor) -> Result<(), EngineError> {
        let endpoint = self.endpoint(address)?;
        let setup_matters = endpoint.is_control() && address.direction == Direction::Out;
        endpoint.head.point_at(&self.dma, first.link())?;
        let setup_bit = 1 << address.number;
        let setup_waits = || setup_matters && self.registers.load(ENDPTSETUPSTAT) & setup_bit != 0;
        if setup_waits() {
            return Err(EngineError::SetupPending(address));
        }
        let bit = endpoint_bit(address);
        self.registers.store(ENDPTPRIME, bit);
        self.wait_clear(ENDPTPRIME, bit)?;
        if setup_waits() {
            return Err(EngineError::SetupPending(address));
        }
        Ok(())
    }

    /// Undoes a request that could not be linked.
    fn unwind(&mut self, address: EndpointAddress, queued: Queued) -> Request {
        if self.has(Fault::NotUnwound) {
            return queued.request;
        }
        self.free_last(address, queued.descriptors);
        if let Some(buffer) = queued.buffer {
            self.dma.unmap_single(buffer.dma);
            self.buffers.keep(&self.dma, buffer);
        }
        queued.request
    }
}

/// Packets of an isochronous transfer.
fn packets(setup: EndpointSetup, length: u64) -> u8 {
    let max_packet = u64::from(setup.max_packet.max(1));
    let packets = length / max_packet + u64::from(length == 0 || !length.is_multiple_of(max_packet));
    packets.min(3) as u8
}

/// MultO of a request's dTDs.
fn isochronous_mult(address: EndpointAddress, setup: EndpointSetup, length: u64) -> u8 {
    let isochronous_in = setup.transfer_type == TransferType::Isochronous && address.direction == Direction::In;
    if isochronous_in { packets(setup, length) } else { 0 }
}
