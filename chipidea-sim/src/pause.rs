//! Work that is held up half done: a controller takes time for what a driver may look at meanwhile.

use devices::DmaPort;

use crate::core::Core;
use crate::prime::Work;
use crate::register_map::Reg;
use crate::registers::UsbCmd;
use crate::retire::Ending;

/// Where the retirement of a dTD can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The token is written back, and `next` is not read again yet.
    BeforeNext,
    /// `next` ended the list, and ENDPTSTAT is not cleared yet: the region in which hardware keeps ATDTW at 0, as an append
    /// may go unnoticed.
    BeforeStat,
}

/// Names of the places, in the order of the work.
pub const PAUSES: [&str; 2] = ["next", "stat"];

impl Pause {
    /// As [`PAUSES`] names them.
    pub(crate) const ALL: [Self; PAUSES.len()] = [Self::BeforeNext, Self::BeforeStat];
}

/// A retirement that is held up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    at: Pause,
    work: Work,
    ending: Ending,
}

/// What is held up, and what will be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    wanted: Option<Pause>,
    held: Option<Held>,
}

impl Core {
    /// The next retirement that comes to `at` is held up there.
    pub(crate) fn pause_at(&mut self, at: Pause) {
        self.pauses.wanted = Some(at);
    }

    /// Whether a retirement that has come to `at` is held up there. Its rest is for [`Core::go_on`].
    pub(crate) fn holds(&mut self, at: Pause, work: &Work, ending: Ending) -> bool {
        let Pauses { wanted, held } = &mut self.pauses;
        if held.is_some() || *wanted != Some(at) {
            return false;
        }
        *wanted = None;
        *held = Some(Held { at, work: *work, ending });
        true
    }

    /// Nothing is held up any more: what was goes on to its end.
    pub(crate) fn go_on(&mut self, dma: &DmaPort) {
        self.pauses.wanted = None;
        let Some(Held { at, mut work, ending }) = self.pauses.held.take() else { return };
        match at {
            Pause::BeforeNext => self.walk(dma, &mut work, ending),
            Pause::BeforeStat => self.conclude(dma, &work, ending, Ok(false)),
        }
        self.wake(work.slot);
    }

    /// What a driver asks of the slots in `bits` has to wait until their work is done.
    pub(crate) fn finish_work_of(&mut self, dma: &DmaPort, bits: u32) {
        if self.pauses.held.is_some_and(|held| held.work.slot.bit() & bits != 0) {
            self.go_on(dma);
        }
    }

    /// ATDTW cannot be set while an append may go unnoticed.
    pub(crate) fn guard_append(&mut self) {
        if self.pauses.held.is_some_and(|held| held.at == Pause::BeforeStat) {
            self.break_append_tripwire();
        }
    }

    /// ATDTW goes: the list was touched.
    pub(crate) fn break_append_tripwire(&mut self) {
        let command = UsbCmd::from_bits(self.registers.get(Reg::UsbCmd)).with_add_dtd_tripwire(false);
        self.registers.set(Reg::UsbCmd, command.into_bits());
    }
}
