//! Retiring: how a dTD ends, and the step to the one behind it.

use bus::DmaAddr;
use devices::{DmaError, DmaPort};

use crate::core::Core;
use crate::descriptor::{Link, dqh, dtd};
use crate::kinds;
use crate::pause::Pause;
use crate::prime::Work;
use crate::register_map::Reg;
use crate::registers::UsbSts;

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

/// How a retirement is to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    outcome: Outcome,
    /// IOC of the dTD.
    interrupt: bool,
}

impl Core {
    /// A memory access failed in the middle of a transfer: system error, and the transfer ends in error.
    pub(crate) fn halt(&mut self, dma: &DmaPort, work: &mut Work) {
        self.raise(UsbSts::new().with_system_error(true));
        self.retire(dma, work, Outcome::Halted);
    }

    /// Ends the current dTD: its token first, then the overlay's, then on to what its `next` says *now*, then
    /// ENDPTCOMPLETE and the interrupt.
    pub(crate) fn retire(&mut self, dma: &DmaPort, work: &mut Work, outcome: Outcome) {
        let ending = Ending { outcome, interrupt: work.token.interrupt_on_complete() };
        work.token = match outcome {
            Outcome::Complete => work.token,
            Outcome::Unfulfilled => work.token.with_transaction_error(true),
            Outcome::Halted => work.token.with_data_error(true).with_halted(true),
        }
        .with_active(false);
        work.dirty = false;
        match self.write_back(dma, work) {
            Ok(()) if outcome == Outcome::Halted => self.conclude(dma, work, ending, Ok(false)),
            Ok(()) if self.holds(Pause::BeforeNext, work, ending) => {}
            Ok(()) => self.walk(dma, work, ending),
            Err(error) => self.conclude(dma, work, ending, Err(error)),
        }
    }

    /// Goes on from a dTD that was written back.
    pub(crate) fn walk(&mut self, dma: &DmaPort, work: &mut Work, ending: Ending) {
        let walked = self.advance(dma, work);
        if walked != Ok(false) || !self.holds(Pause::BeforeStat, work, ending) {
            self.conclude(dma, work, ending, walked);
        }
    }

    /// Shows what became of a dTD. `walked`: whether there is another one that is active.
    pub(crate) fn conclude(&mut self, dma: &DmaPort, work: &Work, ending: Ending, walked: Result<bool, DmaError>) {
        let slot = work.slot;
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
        let failed = ending.outcome != Outcome::Complete || walked.is_err();
        if failed {
            self.raise(UsbSts::new().with_error(true));
        }
        if ending.interrupt || failed {
            self.set_bits(Reg::EndptComplete, slot.bit());
        }
        if ending.interrupt {
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
        self.break_append_tripwire();
        let position = self.slots[slot.index()].position;
        let next = dma.load_u32(work.current.offset(dtd::NEXT), kinds::dtd(slot, position, "next"))?;
        let Some(target) = Link(next).target() else {
            return Ok(false);
        };
        if self.append_is_lost(dma, work, target)? {
            return Ok(false);
        }
        self.slots[slot.index()].position = position.wrapping_add(1);
        let dtd = self.load(dma, slot, work.head, target)?;
        work.take(target, &dtd);
        Ok(work.token.active())
    }
}

fn overlay_token(head: DmaAddr) -> DmaAddr {
    head.offset(dqh::OVERLAY + dtd::TOKEN)
}
