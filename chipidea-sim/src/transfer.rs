//! Packets: what the controller answers, and what it moves to and from memory.

use devices::{DmaError, DmaPort};
use usb::wire::{DataPid, Handshake, HostAck, InReply, Target};
use usb::{Direction, Speed};

use crate::core::Core;
use crate::descriptor::{Capabilities, Pages, dqh};
use crate::kinds;
use crate::prime::Work;
use crate::register_map::Reg;
use crate::registers::{DeviceAddr, EndptCtrlHalf, UsbCmd, UsbMode, UsbSts};
use crate::retire::Outcome;
use crate::slot::Slot;

/// Why a token gets no data and takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not for us, not enabled, or the bus is not awake.
    Silence,
    /// Not primed.
    Nak,
    /// The stall bit is set.
    Stall,
    /// An isochronous IN that is not primed: an empty packet, as the manual's response matrix says.
    Empty,
}

impl From<Refusal> for Handshake {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Silence | Refusal::Empty => Self::Silence,
            Refusal::Nak => Self::Nak,
            Refusal::Stall => Self::Stall,
        }
    }
}

impl From<Refusal> for InReply {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Silence => Self::Silence,
            Refusal::Nak => Self::Nak,
            Refusal::Stall => Self::Stall,
            Refusal::Empty => Self::Data { pid: DataPid::Data0, len: 0 },
        }
    }
}

impl Core {
    /// Whether the device listens to `to` at all.
    fn hears(&self, to: Target) -> bool {
        let address = DeviceAddr::from_bits(self.registers.get(Reg::DeviceAddr)).address();
        self.is_awake() && to.address == address && self.has_endpoint(to.endpoint)
    }

    /// Whether the bus is in use.
    pub(crate) fn is_awake(&self) -> bool {
        self.speed.is_some() && !self.is_suspended()
    }

    /// Whether a token may move data: the slot if it is primed.
    pub(crate) fn gate(&mut self, to: Target, direction: Direction) -> Result<Slot, Refusal> {
        if !self.hears(to) {
            return Err(Refusal::Silence);
        }
        let slot = Slot::new(to.endpoint, direction);
        if slot == Slot::new(0, Direction::Out) {
            self.cancel_address();
        }
        let control = self.control(slot);
        if !control.enable() {
            return Err(Refusal::Silence);
        }
        let isochronous = control.kind() == EndptCtrlHalf::ISOCHRONOUS;
        let refusal = if self.setup_pending(slot) {
            // The driver has not seen the SETUP: what is primed belongs to the transfer before.
            Refusal::Nak
        } else if control.stall() && !isochronous {
            Refusal::Stall
        } else if self.has_bits(Reg::EndptStat, slot.bit()) {
            return Ok(slot);
        } else if isochronous {
            if slot.is_in() { Refusal::Empty } else { Refusal::Silence }
        } else {
            Refusal::Nak
        };
        if matches!(refusal, Refusal::Nak | Refusal::Stall) {
            self.wait(slot);
        }
        Err(refusal)
    }

    /// SETUP: eight bytes to the dQH, whatever else is going on (USB 2.0 §8.5.3).
    pub(crate) fn setup(&mut self, dma: &DmaPort, to: Target, bytes: &[u8; 8]) -> Handshake {
        let slot = Slot::new(to.endpoint, Direction::Out);
        if !self.hears(to) || !self.is_control(slot) {
            return Handshake::Silence;
        }
        let lockout_off = UsbMode::from_bits(self.registers.get(Reg::UsbMode)).lockout_off();
        if !lockout_off && self.setup_pending(slot) {
            return Handshake::Silence;
        }
        let head = self.head(slot);
        if dma.write(head.offset(dqh::SETUP), bytes, kinds::dqh(slot, "setup")).is_err() {
            self.raise(UsbSts::new().with_system_error(true));
            return Handshake::Silence;
        }
        if slot.endpoint() == 0 {
            self.cancel_address();
        }
        let command = UsbCmd::from_bits(self.registers.get(Reg::UsbCmd)).with_setup_tripwire(false);
        self.registers.set(Reg::UsbCmd, command.into_bits());
        self.unstall(slot.endpoint());
        for direction in [Direction::Out, Direction::In] {
            self.slots[Slot::new(slot.endpoint(), direction).index()].toggle = DataPid::Data1;
        }
        self.set_bits(Reg::EndptSetupStat, 1 << slot.endpoint());
        match dma.load_u32(head.offset(dqh::CAPABILITIES), kinds::dqh(slot, "capabilities")) {
            Ok(bits) if Capabilities::from_bits(bits).interrupt_on_setup() => {
                self.raise(UsbSts::new().with_interrupt(true));
            }
            Ok(_) => {}
            Err(_) => self.raise(UsbSts::new().with_system_error(true)),
        }
        Handshake::Ack
    }

    /// One OUT packet to a slot that was primed when the burst began.
    pub(crate) fn receive(&mut self, dma: &DmaPort, work: &mut Work, pid: DataPid, data: &[u8]) -> Handshake {
        let slot = work.slot;
        if !self.may_move(work) {
            self.wait(slot);
            return Handshake::Nak;
        }
        let isochronous = self.control(slot).kind() == EndptCtrlHalf::ISOCHRONOUS;
        if !isochronous && pid != self.slots[slot.index()].toggle {
            // A repetition: the host did not hear our ACK (USB 2.0 §8.6.4).
            return Handshake::Ack;
        }
        let max_packet = usize::from(work.capabilities.max_packet());
        let room = usize::from(work.token.total_bytes());
        let taken = data.len().min(room);
        if self.scatter(dma, work, &data[..taken]).is_err() {
            self.wait(slot);
            self.halt(dma, work);
            return Handshake::Nak;
        }
        work.token.set_total_bytes((room - taken) as u16);
        work.dirty = true;
        if data.len() > max_packet || taken < data.len() {
            // A long packet: the rest is dropped, the endpoint halts.
            self.wait(slot);
            self.retire(dma, work, Outcome::Halted);
            return Handshake::Nak;
        }
        self.moved(slot, isochronous);
        let short = data.len() < max_packet || data.is_empty();
        let full = taken == room && work.capabilities.no_zero_packet();
        if short || full || self.mult_is_over(work, isochronous) {
            self.retire(dma, work, Outcome::Complete);
        }
        Handshake::Ack
    }

    /// One IN packet from a slot that was primed when the burst began. The bytes that fit go to the front of `buffer`.
    pub(crate) fn transmit(&mut self, dma: &DmaPort, work: &mut Work, buffer: &mut [u8], ack: HostAck) -> InReply {
        let slot = work.slot;
        if !self.may_move(work) {
            self.wait(slot);
            return InReply::Nak;
        }
        let isochronous = self.control(slot).kind() == EndptCtrlHalf::ISOCHRONOUS;
        let max_packet = usize::from(work.capabilities.max_packet());
        let left = usize::from(work.token.total_bytes());
        let len = left.min(max_packet);
        let fits = len.min(buffer.len());
        let mut pages = work.pages;
        if gather(dma, slot, &mut pages, &mut buffer[..fits]).is_err() {
            // The packet breaks off: the host sees no valid one.
            self.halt(dma, work);
            return InReply::Silence;
        }
        let pid = if isochronous { DataPid::Data0 } else { self.slots[slot.index()].toggle };
        let reply = InReply::Data { pid, len };
        // A host acknowledges no packet that is longer than it asked for (USB 2.0 §8.7.4). Isochronous ones never wait
        // for it.
        if !isochronous && (ack == HostAck::Lost || fits < len) {
            return reply;
        }
        work.pages = pages;
        work.token.set_total_bytes((left - len) as u16);
        work.dirty = true;
        self.moved(slot, isochronous);
        if slot.endpoint() == 0 {
            self.latch_address();
        }
        // With ZLT clear a full last packet is followed by an empty one.
        let last = len == left && (len < max_packet || len == 0 || work.capabilities.no_zero_packet() || isochronous);
        if last {
            self.retire(dma, work, Outcome::Complete);
        } else if self.mult_is_over(work, isochronous) {
            self.retire(dma, work, Outcome::Unfulfilled);
        }
        reply
    }

    /// Whether the slot is still primed and its overlay, as it lies in memory, active.
    fn may_move(&self, work: &Work) -> bool {
        self.has_bits(Reg::EndptStat, work.slot.bit()) && work.token.active()
    }

    fn moved(&mut self, slot: Slot, isochronous: bool) {
        let state = &mut self.slots[slot.index()];
        if isochronous {
            state.packets = state.packets.saturating_add(1);
        } else {
            state.toggle = state.toggle.toggled();
        }
    }

    /// Whether an isochronous dTD has had its packets: MultO of an IN dTD if it is set, else Mult of the dQH; one if that
    /// is 0. To be asked after a packet.
    fn mult_is_over(&self, work: &Work, isochronous: bool) -> bool {
        let mult = match work.token.mult_override() {
            0 => work.capabilities.mult(),
            _ if !work.slot.is_in() => work.capabilities.mult(),
            mult => mult,
        };
        isochronous && self.slots[work.slot.index()].packets >= mult
    }

    fn scatter(&mut self, dma: &DmaPort, work: &mut Work, mut data: &[u8]) -> Result<(), DmaError> {
        while !data.is_empty() {
            let (at, len) = work.pages.take(data.len());
            let (part, rest) = data.split_at(len);
            dma.write(at, part, kinds::buffer(work.slot))?;
            data = rest;
        }
        Ok(())
    }

    /// USBADRA: an OUT or SETUP to endpoint 0 drops the staged address.
    fn cancel_address(&mut self) {
        if self.staged_address.take().is_some() {
            self.clear_bits(Reg::DeviceAddr, DeviceAddr::new().with_advance(true).into_bits());
        }
    }

    /// USBADRA: an IN that the host acknowledged makes the staged address the device's.
    fn latch_address(&mut self) {
        if let Some(address) = self.staged_address.take() {
            self.registers.set(Reg::DeviceAddr, DeviceAddr::new().with_address(address).into_bits());
        }
    }
}

/// What the host does to the bus.
impl Core {
    /// Bus reset: the speed is agreed on, the address is 0, nothing is primed. COMPLETE and SETUPSTAT stay for the
    /// driver to clear.
    pub(crate) fn bus_reset(&mut self, max: Speed) -> Option<Speed> {
        if !self.is_attached() || max == Speed::Low {
            return None;
        }
        let speed = if self.forces_full_speed() { Speed::Full } else { max.min(self.max_speed) };
        self.speed = Some(speed);
        self.staged_address = None;
        self.registers.set(Reg::DeviceAddr, 0);
        self.registers.set(Reg::EndptStat, 0);
        self.clear_bits(Reg::UsbSts, UsbSts::new().with_suspend(true).into_bits());
        self.set_suspended(false);
        self.show_port();
        self.raise(UsbSts::new().with_bus_reset(true).with_port_change(true));
        Some(speed)
    }

    /// The bus falls idle.
    pub(crate) fn bus_suspend(&mut self) {
        if self.speed.is_some() && !self.is_suspended() {
            self.set_suspended(true);
            self.raise(UsbSts::new().with_suspend(true));
        }
    }

    /// The bus wakes up: the hardware takes SLI back, and PCI says that the port is in its state of before.
    pub(crate) fn bus_resume(&mut self) {
        if self.is_suspended() {
            self.set_suspended(false);
            self.clear_bits(Reg::UsbSts, UsbSts::new().with_suspend(true).into_bits());
            self.raise(UsbSts::new().with_port_change(true));
        }
    }
}

fn gather(dma: &DmaPort, slot: Slot, pages: &mut Pages, mut buffer: &mut [u8]) -> Result<(), DmaError> {
    while !buffer.is_empty() {
        let (at, len) = pages.take(buffer.len());
        let (part, rest) = buffer.split_at_mut(len);
        dma.read(at, part, kinds::buffer(slot))?;
        buffer = rest;
    }
    Ok(())
}
