//! The list of capabilities: power management, MSI, MSI-X (PCI §6.7, §6.8; PM §3.2).

use bitfield_struct::bitfield;

use super::config::PciConfig;
use super::header::Space;

/// Where the list begins: behind the header.
const FIRST: usize = 0x40;

const PM_ID: u8 = 0x01;
const MSI_ID: u8 = 0x05;
const MSIX_ID: u8 = 0x11;

const PM_LENGTH: usize = 8;
/// With 64-bit addresses and masks (PCI §6.8.1).
const MSI_LENGTH: usize = 24;
const MSIX_LENGTH: usize = 12;

/// PMC: version 3 of the specification, no D1, no D2, no PME.
const PMC: u16 = 0x0003;

/// PMCSR (PM §3.2.4).
#[bitfield(u16)]
pub(super) struct Pmcsr {
    /// PowerState: 0 D0, 3 D3hot.
    #[bits(2)]
    pub(super) state: u8,
    __: bool,
    /// No_Soft_Reset: nothing is lost on the way from D3hot to D0.
    pub(super) no_soft_reset: bool,
    #[bits(12)]
    __: u16,
}

impl Pmcsr {
    pub(super) const D0: u8 = 0;
    pub(super) const D3HOT: u8 = 3;
}

/// Message control of MSI (PCI §6.8.1.3).
#[bitfield(u16)]
pub(super) struct MsiControl {
    /// MSI Enable.
    pub(super) enable: bool,
    /// Multiple Message Capable, as a power of two.
    #[bits(3)]
    pub(super) capable: u8,
    /// Multiple Message Enable, as a power of two.
    #[bits(3)]
    pub(super) enabled: u8,
    /// 64-bit address capable.
    pub(super) wide: bool,
    /// Per-vector masking capable.
    pub(super) masking: bool,
    #[bits(7)]
    __: u8,
}

/// Message control of MSI-X (PCI §6.8.2.3).
#[bitfield(u16)]
pub(super) struct MsixControl {
    /// Table Size, less one.
    #[bits(11)]
    pub(super) last: u16,
    #[bits(3)]
    __: u8,
    /// Function Mask.
    pub(super) function_mask: bool,
    /// MSI-X Enable.
    pub(super) enable: bool,
}

/// Where in configuration space the capabilities are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capabilities {
    pm: Option<usize>,
    msi: Option<usize>,
    msix: Option<usize>,
}

impl Capabilities {
    pub(super) fn new(config: &PciConfig) -> Self {
        let mut next = FIRST;
        let mut place = |present: bool, length: usize| {
            let at = next;
            present.then(|| {
                next += length;
                at
            })
        };
        Self {
            pm: place(config.power_management, PM_LENGTH),
            msi: place(config.msi.is_some(), MSI_LENGTH),
            msix: place(config.msix.is_some(), MSIX_LENGTH),
        }
    }

    /// Lays the list out. Returns where it begins.
    pub(super) fn lay_out(&self, space: &mut Space, config: &PciConfig) -> Option<u8> {
        let order = [(self.pm, PM_ID), (self.msi, MSI_ID), (self.msix, MSIX_ID)];
        let places: Vec<(usize, u8)> = order.into_iter().filter_map(|(at, id)| Some((at?, id))).collect();
        // All places are below 256.
        for (index, (at, id)) in places.iter().enumerate() {
            let next = places.get(index + 1).map_or(0, |(next, _)| *next as u8);
            space.put(*at, &[*id, next], &[0, 0]);
        }
        if let Some(at) = self.pm {
            space.put16(at + 2, PMC, 0);
            let state = Pmcsr::new().with_state(Pmcsr::D3HOT);
            space.put16(at + 4, Pmcsr::new().with_no_soft_reset(true).into_bits(), state.into_bits());
        }
        if let (Some(at), Some(vectors)) = (self.msi, config.msi) {
            let capable = vectors.trailing_zeros() as u8;
            let control = MsiControl::new().with_capable(capable).with_wide(true).with_masking(true);
            let writable = MsiControl::new().with_enable(true).with_enabled(7);
            space.put16(at + 2, control.into_bits(), writable.into_bits());
            space.put32(at + 4, 0, !3);
            space.put32(at + 8, 0, !0);
            space.put16(at + 12, 0, !0);
            let all = u32::MAX >> (32 - u32::from(vectors));
            space.put32(at + 16, 0, all);
        }
        if let (Some(at), Some(msix)) = (self.msix, config.msix) {
            let writable = MsixControl::new().with_function_mask(true).with_enable(true);
            space.put16(at + 2, MsixControl::new().with_last(msix.vectors - 1).into_bits(), writable.into_bits());
            // Offsets are multiples of 8, the BAR's number takes the bits below.
            space.put32(at + 4, msix.table_offset | u32::from(msix.table_bar), 0);
            space.put32(at + 8, msix.pba_offset | u32::from(msix.pba_bar), 0);
        }
        places.first().map(|(at, _)| *at as u8)
    }

    pub(super) fn is_d0(&self, space: &Space) -> bool {
        self.pm.is_none_or(|at| Pmcsr::from_bits(space.get16(at + 4)).state() == Pmcsr::D0)
    }

    /// A write of D1 or D2, which do not exist, changes no state (PM §3.2.4).
    pub(super) fn keep_power_state(&self, space: &mut Space, before: &Space) {
        let Some(at) = self.pm.map(|at| at + 4) else { return };
        let (old, new) = (Pmcsr::from_bits(before.get16(at)), Pmcsr::from_bits(space.get16(at)));
        if ![Pmcsr::D0, Pmcsr::D3HOT].contains(&new.state()) {
            space.set16(at, new.with_state(old.state()).into_bits());
        }
    }

    pub(super) fn msi(&self, space: &Space) -> Option<MsiControl> {
        let control = MsiControl::from_bits(space.get16(self.msi? + 2));
        control.enable().then_some(control)
    }

    /// The mask bits of MSI.
    pub(super) fn msi_mask(&self, space: &Space) -> u32 {
        self.msi.map_or(0, |at| space.get32(at + 16))
    }

    /// Whether `offset` is in MSI's pending bits, and which byte of them.
    pub(super) fn msi_pending_byte(&self, offset: u64) -> Option<usize> {
        let from = usize::try_from(offset).ok()?.checked_sub(self.msi? + 20)?;
        (from < 4).then_some(from)
    }

    pub(super) fn msix(&self, space: &Space) -> Option<MsixControl> {
        let control = MsixControl::from_bits(space.get16(self.msix? + 2));
        control.enable().then_some(control)
    }
}
