//! Priming and retiring: the walk over dTDs in memory.
//!
//! Each call looks at one dTD per slot and a packet retires one at most, so a list that loops costs no more than the
//! packets that the host sends.

use bus::DmaAddr;
use devices::{DmaError, DmaPort};
use zerocopy::byteorder::little_endian::U32;

use crate::core::Core;
use crate::descriptor::{Capabilities, Dtd, Link, Pages, QueueHead, Token, dqh, dtd};
use crate::kinds::{self, address};
use crate::register_map::Reg;
use crate::registers::{EndptCtrlHalf, UsbCmd, UsbSts};
use crate::slot::Slot;

/// A dQH as the controller works on it during one burst: loaded at its start, put back at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) slot: Slot,
    pub(crate) head: DmaAddr,
    pub(crate) capabilities: Capabilities,
    /// The dTD that the overlay is a copy of.
    pub(crate) current: DmaAddr,
    pub(crate) next: Link,
    pub(crate) token: Token,
    pub(crate) pages: Pages,
    /// Whether token and pages differ from the overlay in memory.
    pub(crate) dirty: bool,
}

impl Work {
    fn take(&mut self, current: u32, dtd: &Dtd) {
        self.current = address(current);
        self.next = Link(dtd.next.get());
        self.token = Token::from_bits(dtd.token.get());
        self.pages = Pages::of(dtd);
        self.dirty = false;
    }
}

/// How a dTD ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As asked.
    Complete,
    /// An isochronous dTD ran out of packets.
    Unfulfilled,
    /// More data than room, or a memory access failed: the endpoint halts.
    Halted,
}

impl Core {
    /// Where the dQH of `slot` lies: what ENDPTLISTADDR keeps, and 64 bytes a slot.
    pub(crate) fn head(&self, slot: Slot) -> DmaAddr {
        address(self.registers.get(Reg::EndptListAddr)).offset(u64::from(slot.number()) * dqh::STRIDE)
    }

    /// Whether SETUP packets may come to the endpoint of `slot`.
    pub(crate) fn is_control(&self, slot: Slot) -> bool {
        let receive = self.control(Slot::new(slot.endpoint(), usb::Direction::Out));
        receive.enable() && receive.kind() == EndptCtrlHalf::CONTROL
    }

    /// Whether a SETUP of the endpoint of `slot` waits for the driver.
    pub(crate) fn setup_pending(&self, slot: Slot) -> bool {
        self.has_bits(Reg::EndptSetupStat, 1 << slot.endpoint()) && self.is_control(slot)
    }

    /// ENDPTPRIME: every bit is done within the write, so the register reads 0.
    pub(crate) fn prime_all(&mut self, dma: &DmaPort, bits: u32) {
        for bit in (0..32).filter(|bit| bits & 1 << bit != 0) {
            let slot = Slot::from_bit(bit);
            // A prime cannot be told from the transfer that a newer SETUP ended: it fails, the driver looks at
            // ENDPTSETUPSTAT afterwards (Linux: hw_ep_prime). One that is primed stays as it is.
            let taken = self.has_endpoint(slot.endpoint()) && !self.setup_pending(slot);
            if !taken || self.has_bits(Reg::EndptStat, slot.bit()) {
                continue;
            }
            if self.prime(dma, slot).is_err() {
                self.raise(UsbSts::new().with_system_error(true).with_error(true));
            }
        }
    }

    fn prime(&mut self, dma: &DmaPort, slot: Slot) -> Result<(), DmaError> {
        let head = self.head(slot);
        let next = dma.load_u32(head.offset(dqh::OVERLAY + dtd::NEXT), kinds::dqh(slot, "next"))?;
        let Some(target) = Link(next).target() else {
            return Ok(());
        };
        self.slots[slot.index()].position = 0;
        let dtd = self.load(dma, slot, head, target)?;
        if Token::from_bits(dtd.token.get()).active() {
            self.set_bits(Reg::EndptStat, slot.bit());
            self.wake(slot);
        }
        Ok(())
    }

    /// Makes the dTD at `target` the current one and copies it into the overlay.
    fn load(&mut self, dma: &DmaPort, slot: Slot, head: DmaAddr, target: u32) -> Result<Dtd, DmaError> {
        let position = self.slots[slot.index()].position;
        dma.store_u32(head.offset(dqh::CURRENT), target, kinds::dqh(slot, "current dTD"))?;
        let dtd: Dtd = dma.read_object(address(target), kinds::dtd(slot, position, ""))?;
        dma.write_object(head.offset(dqh::OVERLAY), &dtd, kinds::dqh(slot, "overlay"))?;
        self.slots[slot.index()].packets = 0;
        Ok(dtd)
    }

    /// Reads the dQH of a primed slot for a burst. It lives in memory: what is there counts.
    pub(crate) fn begin(&mut self, dma: &DmaPort, slot: Slot) -> Result<Work, DmaError> {
        let head = self.head(slot);
        match dma.read_object::<QueueHead>(head, kinds::dqh(slot, "")) {
            Ok(queue_head) => {
                let overlay = queue_head.overlay;
                Ok(Work {
                    slot,
                    head,
                    capabilities: Capabilities::from_bits(queue_head.capabilities.get()),
                    // Bits 4:0 are reserved.
                    current: address(queue_head.current.get() & !0x1f),
                    next: Link(overlay.next.get()),
                    token: Token::from_bits(overlay.token.get()),
                    pages: Pages::of(&overlay),
                    dirty: false,
                })
            }
            Err(error) => {
                self.clear_bits(Reg::EndptStat, slot.bit());
                self.raise(UsbSts::new().with_system_error(true).with_error(true));
                Err(error)
            }
        }
    }

    /// Puts the overlay back, if the burst left a dTD half done.
    pub(crate) fn end(&mut self, dma: &DmaPort, work: &mut Work) {
        if !work.dirty {
            return;
        }
        let mut overlay =
            Dtd { next: U32::new(work.next.0), token: U32::new(work.token.into_bits()), ..Dtd::default() };
        work.pages.store(&mut overlay);
        work.dirty = false;
        let at = work.head.offset(dqh::OVERLAY);
        if dma.write_object(at, &overlay, kinds::dqh(work.slot, "overlay")).is_err() {
            self.halt(dma, work);
        }
    }

    /// A memory access failed in the middle of a transfer: system error, and the transfer ends in error.
    pub(crate) fn halt(&mut self, dma: &DmaPort, work: &mut Work) {
        self.raise(UsbSts::new().with_system_error(true));
        self.retire(dma, work, Outcome::Halted);
    }

    /// Ends the current dTD: its token first, then the overlay's, then on to what its `next` says *now*, then
    /// ENDPTCOMPLETE and the interrupt.
    pub(crate) fn retire(&mut self, dma: &DmaPort, work: &mut Work, outcome: Outcome) {
        let slot = work.slot;
        let asked = work.token.interrupt_on_complete();
        work.token = match outcome {
            Outcome::Complete => work.token,
            Outcome::Unfulfilled => work.token.with_transaction_error(true),
            Outcome::Halted => work.token.with_data_error(true).with_halted(true),
        }
        .with_active(false);
        work.dirty = false;
        let walked = self.write_back(dma, work).and_then(|()| match outcome {
            Outcome::Halted => Ok(false),
            _ => self.advance(dma, work),
        });
        if walked != Ok(true) {
            self.clear_bits(Reg::EndptStat, slot.bit());
        }
        if walked.is_err() {
            self.raise(UsbSts::new().with_system_error(true));
            // The dTD may be out of reach; the overlay says what became of the endpoint. If it is not there either,
            // SEI has to do.
            let token = work.token.with_data_error(true).with_halted(true).with_active(false).into_bits();
            let _ = dma.store_u32(overlay_token(work.head), token, kinds::dqh(slot, "overlay token"));
        }
        let failed = outcome != Outcome::Complete || walked.is_err();
        if failed {
            self.raise(UsbSts::new().with_error(true));
        }
        if asked || failed {
            self.set_bits(Reg::EndptComplete, slot.bit());
        }
        if asked {
            self.raise(UsbSts::new().with_interrupt(true));
        }
    }

    /// Status and remaining bytes, to the dTD and to the overlay.
    fn write_back(&mut self, dma: &DmaPort, work: &Work) -> Result<(), DmaError> {
        let (slot, token) = (work.slot, work.token.into_bits());
        let position = self.slots[slot.index()].position;
        let to_dtd = dma.store_u32(work.current.offset(dtd::TOKEN), token, kinds::dtd(slot, position, "token"));
        to_dtd.and(dma.store_u32(overlay_token(work.head), token, kinds::dqh(slot, "overlay token")))
    }

    /// Re-reads `next` from the retired dTD, where the driver may have appended meanwhile, and goes on there. Whether
    /// there is an active one.
    fn advance(&mut self, dma: &DmaPort, work: &mut Work) -> Result<bool, DmaError> {
        let slot = work.slot;
        let command = UsbCmd::from_bits(self.registers.get(Reg::UsbCmd)).with_add_dtd_tripwire(false);
        self.registers.set(Reg::UsbCmd, command.into_bits());
        let position = self.slots[slot.index()].position;
        let next = dma.load_u32(work.current.offset(dtd::NEXT), kinds::dtd(slot, position, "next"))?;
        let Some(target) = Link(next).target() else {
            return Ok(false);
        };
        self.slots[slot.index()].position = position.wrapping_add(1);
        let dtd = self.load(dma, slot, work.head, target)?;
        work.take(target, &dtd);
        Ok(work.token.active())
    }
}

fn overlay_token(head: DmaAddr) -> DmaAddr {
    head.offset(dqh::OVERLAY + dtd::TOKEN)
}
