//! The firmware's side: `usb_device::bus::UsbBus`.

use std::fmt;
use std::sync::Arc;

use usb::Speed;
use usb::ch9::{Direction, EndpointAddress, TransferType};
use usb_device::bus::{PollResult, UsbBus};
use usb_device::endpoint::{EndpointAddress as DeviceEndpoint, EndpointType};
use usb_device::{UsbDirection, UsbError};

use crate::endpoint::Endpoint;
use crate::mistake::Mistake;
use crate::state::{NUMBERS, Shared, State};
use crate::trace::Action;

/// A peripheral without hardware: give it to `UsbBusAllocator::new`. It comes from [`crate::Bench::bus`].
///
/// `EARLY` is `UsbBus::QUIRK_SET_ADDRESS_BEFORE_STATUS`: the firmware sets the address before the status stage of
/// SET_ADDRESS, and the peripheral uses it after it, as some controllers do.
///
/// It does what such a peripheral does and its `UsbBus` can do: one packet of memory for each direction of an endpoint,
/// NAK while that is taken. CLEAR_FEATURE(ENDPOINT_HALT) begins again with DATA0. No `UsbBus` is told of SET_CONFIGURATION
/// or SET_INTERFACE: toggles and halts stay, and all endpoints answer from the reset on. As on hardware, the first packet
/// after such a request may be taken for a repetition then. [`crate::ch9`] reports this as what it is, a deviation of
/// usb-device.
pub struct BenchBus<const EARLY: bool = false>(Arc<Shared>);

impl<const EARLY: bool> fmt::Debug for BenchBus<EARLY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("BenchBus")
            .field("limits", &state.limits)
            .field("address", &state.address)
            .finish_non_exhaustive()
    }
}

impl<const EARLY: bool> BenchBus<EARLY> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Signals resume to a host that suspended the bus (USB 2.0 §7.1.7.7). `UsbBus` has no call for it; reach it by
    /// `UsbDevice::bus`.
    ///
    /// # Errors
    /// [`UsbError::InvalidState`] when the bus is not suspended. Whether the host permits it is the firmware's to look
    /// at (`UsbDevice::remote_wakeup_enabled`): without permission the signal goes out and is a [`Mistake`].
    pub fn remote_wakeup(&self) -> Result<(), UsbError> {
        {
            let mut state = self.0.state.lock();
            if !state.suspended {
                state.mistake(Mistake::WakeupAwake);
                return Err(UsbError::InvalidState);
            }
            if !state.wakeup_enabled {
                state.mistake(Mistake::WakeupNotEnabled);
            }
            state.wakeups += 1;
            state.progress += 1;
        }
        self.0.firmware(Action::RemoteWakeup);
        self.0.hint(|listener| listener.remote_wakeup());
        Ok(())
    }
}

fn address(endpoint: DeviceEndpoint) -> EndpointAddress {
    EndpointAddress::from_byte(endpoint.into())
}

const fn transfer_type(kind: EndpointType) -> TransferType {
    match kind {
        EndpointType::Control => TransferType::Control,
        EndpointType::Isochronous { .. } => TransferType::Isochronous,
        EndpointType::Bulk => TransferType::Bulk,
        EndpointType::Interrupt => TransferType::Interrupt,
    }
}

impl State {
    /// `alloc_ep`: the peripheral's limits.
    fn allocate(
        &mut self,
        direction: Direction,
        wanted: Option<EndpointAddress>,
        transfer: TransferType,
        max_packet: u16,
    ) -> Result<EndpointAddress, UsbError> {
        let limits = &self.limits;
        let numbers = if direction == Direction::In { limits.endpoints_in } else { limits.endpoints_out };
        let numbers = numbers.min(NUMBERS as u8);
        let address = |number| EndpointAddress { number, direction };
        let is_free = |number| {
            let opposite = EndpointAddress {
                number,
                direction: if direction == Direction::In { Direction::Out } else { Direction::In },
            };
            let fits = !limits.one_type_per_number
                || self.endpoint(opposite).is_none_or(|endpoint| endpoint.transfer == transfer);
            fits && self.endpoint(address(number)).is_none()
        };
        let number = match wanted {
            Some(wanted) if wanted.direction != direction => return Err(UsbError::InvalidEndpoint),
            Some(wanted) if wanted.number >= numbers => return Err(UsbError::EndpointOverflow),
            Some(wanted) if !is_free(wanted.number) => return Err(UsbError::InvalidEndpoint),
            Some(wanted) => wanted.number,
            None if transfer == TransferType::Control && is_free(0) => 0,
            None => (1..numbers).find(|&number| is_free(number)).ok_or(UsbError::EndpointOverflow)?,
        };
        let most = match transfer {
            TransferType::Control => limits.max_packet0,
            TransferType::Isochronous => limits.max_packet_isochronous,
            TransferType::Bulk | TransferType::Interrupt if limits.speed == Speed::Low => limits.max_packet.min(8),
            TransferType::Bulk | TransferType::Interrupt => limits.max_packet,
        };
        if transfer == TransferType::Isochronous && most == 0 {
            return Err(UsbError::Unsupported);
        }
        let taken: usize =
            self.outs.iter().chain(&self.ins).flatten().map(|endpoint| usize::from(endpoint.max_packet)).sum();
        let short = limits.packet_memory.is_some_and(|memory| taken + usize::from(max_packet) > memory);
        if max_packet > most || short {
            return Err(UsbError::EndpointMemoryOverflow);
        }
        let side = if direction == Direction::In { &mut self.ins } else { &mut self.outs };
        side[usize::from(number)] = Some(Endpoint::new(transfer, max_packet));
        Ok(address(number))
    }

    /// The endpoints as a bit field.
    fn bits(side: &[Option<Endpoint>; NUMBERS], which: impl Fn(&Endpoint) -> bool) -> u16 {
        let bit =
            |(number, endpoint): (usize, &Option<Endpoint>)| u16::from(endpoint.as_ref().is_some_and(&which)) << number;
        side.iter().enumerate().map(bit).sum()
    }

    fn poll(&mut self) -> PollResult {
        if self.reset_pending {
            return PollResult::Reset;
        }
        if self.suspended && (self.suspend_told || !self.fresh) {
            self.suspend_told = true;
            return PollResult::Suspend;
        }
        if self.resume_pending && !self.suspended {
            self.resume_pending = false;
            self.progress += 1;
            return PollResult::Resume;
        }
        let ep_in_complete = Self::bits(&self.ins, |endpoint| endpoint.complete);
        // An acknowledged packet of endpoint 0 came before the SETUP after it.
        let before_setup = ep_in_complete & 1;
        let ep_setup = u16::from(self.setup.is_some() && before_setup == 0);
        let ep_out = Self::bits(&self.outs, |endpoint| endpoint.packet.is_some());
        for endpoint in self.ins.iter_mut().flatten() {
            endpoint.complete = false;
        }
        self.fresh = before_setup != 0 && self.setup.is_some();
        if ep_in_complete != 0 {
            self.progress += 1;
        }
        if ep_out | ep_in_complete | ep_setup == 0 {
            return PollResult::None;
        }
        PollResult::Data { ep_out, ep_in_complete, ep_setup }
    }

    fn write(&mut self, to: EndpointAddress, data: &[u8]) -> Result<usize, UsbError> {
        let len = data.len();
        let answers_the_past = self.answers_the_past(to);
        let Some(endpoint) = self.endpoint_mut(to).filter(|_| to.direction == Direction::In) else {
            self.mistake(Mistake::UnknownEndpoint(to));
            return Err(UsbError::InvalidEndpoint);
        };
        let max_packet = endpoint.max_packet;
        if len > usize::from(max_packet) {
            self.mistake(Mistake::WriteTooLong { endpoint: to, len, max_packet });
            return Err(UsbError::BufferOverflow);
        }
        if endpoint.packet.is_some() {
            return Err(UsbError::WouldBlock);
        }
        if !answers_the_past {
            endpoint.packet = Some(data.to_vec());
        }
        self.progress += 1;
        Ok(len)
    }

    /// Whether the firmware does to endpoint 0 what belongs to the request before the one that waits: controllers keep
    /// it from the new one, which begins afresh (USB 2.0 §8.5.3).
    fn answers_the_past(&self, endpoint: EndpointAddress) -> bool {
        endpoint.is_ep0() && self.setup.is_some()
    }

    fn read(&mut self, from: EndpointAddress, buffer: &mut [u8]) -> Result<usize, UsbError> {
        let room = buffer.len();
        let setup = if from.is_ep0() { self.setup } else { None };
        let Some(endpoint) = self.endpoint_mut(from).filter(|_| from.direction == Direction::Out) else {
            self.mistake(Mistake::UnknownEndpoint(from));
            return Err(UsbError::InvalidEndpoint);
        };
        let len = match setup.as_ref().map(<[u8; 8]>::as_slice).or(endpoint.packet.as_deref()) {
            None => return Err(UsbError::WouldBlock),
            Some(packet) if packet.len() > room => {
                let len = packet.len();
                self.mistake(Mistake::ReadTooShort { endpoint: from, len, room });
                return Err(UsbError::BufferOverflow);
            }
            Some(packet) => {
                buffer[..packet.len()].copy_from_slice(packet);
                packet.len()
            }
        };
        match setup {
            Some(_) => self.setup = None,
            None => endpoint.packet = None,
        }
        self.progress += 1;
        Ok(len)
    }

    /// Whether it changed.
    fn set_stalled(&mut self, which: EndpointAddress, stalled: bool) -> bool {
        if stalled && self.answers_the_past(which) {
            return false;
        }
        let begin_anew = !stalled && self.is_clearing_halt(which);
        // The host may ask for any endpoint: no mistake of the firmware.
        let Some(endpoint) = self.endpoint_mut(which) else { return false };
        if begin_anew {
            endpoint.toggle = usb::wire::DataPid::Data0;
        }
        let changed = endpoint.stalled != stalled;
        endpoint.stalled = stalled;
        if changed {
            self.progress += 1;
        }
        changed
    }
}

impl<const EARLY: bool> UsbBus for BenchBus<EARLY> {
    const QUIRK_SET_ADDRESS_BEFORE_STATUS: bool = EARLY;

    fn alloc_ep(
        &mut self,
        ep_dir: UsbDirection,
        ep_addr: Option<DeviceEndpoint>,
        ep_type: EndpointType,
        max_packet_size: u16,
        _interval: u8,
    ) -> Result<DeviceEndpoint, UsbError> {
        let direction = if ep_dir == UsbDirection::In { Direction::In } else { Direction::Out };
        let allocated =
            self.0.state.lock().allocate(direction, ep_addr.map(address), transfer_type(ep_type), max_packet_size)?;
        Ok(allocated.to_byte().into())
    }

    fn enable(&mut self) {
        self.0.state.lock().enabled = true;
        self.0.firmware(Action::Enable);
        self.0.hint(|listener| listener.attach_changed());
    }

    fn reset(&self) {
        {
            let mut state = self.0.state.lock();
            state.reset_pending = false;
            state.forget_traffic();
            state.progress += 1;
        }
        self.0.firmware(Action::Reset);
    }

    fn set_device_address(&self, addr: u8) {
        {
            let mut state = self.0.state.lock();
            if EARLY && state.request.is_some() {
                state.next_address = Some(addr);
            } else {
                state.address = addr;
            }
            state.progress += 1;
        }
        self.0.firmware(Action::SetAddress(addr));
    }

    fn write(&self, ep_addr: DeviceEndpoint, buf: &[u8]) -> Result<usize, UsbError> {
        let to = address(ep_addr);
        let len = self.0.state.lock().write(to, buf)?;
        self.0.firmware(Action::Write(to, len));
        self.0.ready(to);
        Ok(len)
    }

    fn read(&self, ep_addr: DeviceEndpoint, buf: &mut [u8]) -> Result<usize, UsbError> {
        let from = address(ep_addr);
        let len = self.0.state.lock().read(from, buf)?;
        self.0.firmware(Action::Read(from, len));
        self.0.ready(from);
        Ok(len)
    }

    fn set_stalled(&self, ep_addr: DeviceEndpoint, stalled: bool) {
        let which = address(ep_addr);
        if self.0.state.lock().set_stalled(which, stalled) {
            self.0.firmware(if stalled { Action::Stall(which) } else { Action::Unstall(which) });
            self.0.ready(which);
        }
    }

    fn is_stalled(&self, ep_addr: DeviceEndpoint) -> bool {
        self.0.state.lock().endpoint(address(ep_addr)).is_some_and(|endpoint| endpoint.stalled)
    }

    fn suspend(&self) {}

    fn resume(&self) {}

    fn poll(&self) -> PollResult {
        self.0.state.lock().poll()
    }

    fn force_reset(&self) -> Result<(), UsbError> {
        self.0.firmware(Action::ForceReset);
        self.0.state.lock().enabled = false;
        self.0.hint(|listener| listener.attach_changed());
        {
            let mut state = self.0.state.lock();
            state.enabled = true;
            state.forget_traffic();
        }
        self.0.hint(|listener| listener.attach_changed());
        Ok(())
    }
}
