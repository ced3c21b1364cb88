//! Priming: a dTD becomes the overlay of its dQH, and the dQH is read for a burst.
//!
//! Each call looks at one dTD per slot, so a list that loops costs no more than the packets that the host sends.

use bus::DmaAddr;
use devices::{DmaError, DmaPort};
use zerocopy::byteorder::little_endian::U32;

use crate::core::Core;
use crate::descriptor::{Capabilities, Dtd, Link, Pages, QueueHead, Token, dqh, dtd};
use crate::kinds::{self, address};
use crate::register_map::Reg;
use crate::registers::{EndptCtrlHalf, UsbSts};
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
    pub(crate) fn take(&mut self, current: u32, dtd: &Dtd) {
        self.current = address(current);
        self.next = Link(dtd.next.get());
        self.token = Token::from_bits(dtd.token.get());
        self.pages = Pages::of(dtd);
        self.dirty = false;
    }
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
    pub(crate) fn load(&mut self, dma: &DmaPort, slot: Slot, head: DmaAddr, target: u32) -> Result<Dtd, DmaError> {
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
}
