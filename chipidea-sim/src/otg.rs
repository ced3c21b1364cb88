//! The cable: VBUS and what OTGSC shows of it.

use crate::core::Core;
use crate::register_map::Reg;
use crate::registers::otgsc;

impl Core {
    fn vbus_status(&self) -> u32 {
        let status = if self.vbus { otgsc::AVV | otgsc::ASV | otgsc::BSV } else { otgsc::BSE };
        self.registers.get(Reg::OtgSc) & !otgsc::VBUS | status
    }

    /// The cable was there before the power: no change bits.
    pub(crate) fn sense_vbus(&mut self) {
        self.registers.set(Reg::OtgSc, self.vbus_status());
    }

    /// VBUS from the host: the status bits follow, each change sets its change bit.
    pub(crate) fn set_vbus(&mut self, on: bool) {
        self.vbus = on;
        let (old, new) = (self.registers.get(Reg::OtgSc), self.vbus_status());
        self.registers.set(Reg::OtgSc, new | (old ^ new) << otgsc::CHANGE_SHIFT);
    }

    /// Whether a change that is enabled feeds the interrupt level.
    pub(crate) fn otg_interrupt(&self) -> bool {
        let otgsc = self.registers.get(Reg::OtgSc);
        otgsc & otgsc >> otgsc::ENABLE_SHIFT & otgsc::CHANGES != 0
    }
}
