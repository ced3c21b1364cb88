//! What a function is.

use thiserror::Error;

/// The most vectors of MSI (PCI §6.8.1.3).
const MOST_MSI: u16 = 32;
/// The most vectors of MSI-X (PCI §6.8.2.3).
const MOST_MSIX: u16 = 2048;
/// Bytes of an entry of the MSI-X table (PCI §6.8.2).
pub(super) const MSIX_ENTRY: u64 = 16;

/// The interrupt pin (PCI §6.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptPin {
    /// INTA#, as a function that is alone in its slot has it.
    A = 1,
    /// INTB#.
    B = 2,
    /// INTC#.
    C = 3,
    /// INTD#.
    D = 4,
}

/// A memory BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    pub(super) size: u64,
    pub(super) wide: bool,
    pub(super) prefetchable: bool,
    pub(super) device: bool,
}

impl Bar {
    /// A BAR of `size` bytes below 4 GiB: a power of two of at least 16.
    #[must_use]
    pub const fn memory32(size: u64) -> Self {
        Self { size, wide: false, prefetchable: false, device: false }
    }

    /// A BAR of `size` bytes anywhere. It takes the number after its own too.
    #[must_use]
    pub const fn memory64(size: u64) -> Self {
        Self { size, wide: true, prefetchable: false, device: false }
    }

    /// The same, prefetchable.
    #[must_use]
    pub const fn prefetchable(mut self) -> Self {
        self.prefetchable = true;
        self
    }

    /// The same with the device's registers in it, from offset 0 on.
    #[must_use]
    pub const fn device(mut self) -> Self {
        self.device = true;
        self
    }
}

/// MSI-X: how many vectors, and where table and pending bits lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsixConfig {
    /// Vectors, 1 to 2048.
    pub vectors: u16,
    /// The table's BAR.
    pub table_bar: u8,
    /// The table's offset in it, a multiple of 8. An entry has 16 bytes.
    pub table_offset: u32,
    /// The pending bits' BAR.
    pub pba_bar: u8,
    /// The pending bits' offset in it, a multiple of 8. There are whole words of 64.
    pub pba_offset: u32,
}

impl MsixConfig {
    pub(super) const fn table_bytes(&self) -> u64 {
        self.vectors as u64 * MSIX_ENTRY
    }

    pub(super) const fn pba_bytes(&self) -> u64 {
        (self.vectors as u64).div_ceil(64) * 8
    }
}

/// What a function is: everything that software can read and not change, and what its device needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciConfig {
    pub(super) vendor: u16,
    pub(super) device: u16,
    pub(super) class: u32,
    pub(super) revision: u8,
    pub(super) subsystem: (u16, u16),
    pub(super) bars: [Option<Bar>; 6],
    pub(super) pin: Option<InterruptPin>,
    pub(super) msi: Option<u16>,
    pub(super) msix: Option<MsixConfig>,
    pub(super) power_management: bool,
    pub(super) requires_bus_master: bool,
}

/// Why a function cannot be like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PciError {
    /// There are six BARs.
    #[error("there is no BAR {0}, only 0 to 5")]
    NoSuchBar(u8),
    /// A BAR's size decodes as a power of two.
    #[error("BAR {bar} has {size:#x} bytes: expected a power of two from 0x10{limit}", limit = if *.wide { "" } else { " to 0x80000000" })]
    BarSize {
        /// Its number.
        bar: u8,
        /// Its size in bytes.
        size: u64,
        /// Whether it is a 64-bit BAR.
        wide: bool,
    },
    /// A 64-bit BAR takes two numbers.
    #[error("BAR {0} has 64 bits and needs the next number, which is taken or does not exist")]
    NoRoomForWideBar(u8),
    /// The device's registers are in one BAR.
    #[error("the device's registers are in BAR {0} and BAR {1}: expected one")]
    TwoDeviceBars(u8, u8),
    /// The number of vectors is not possible.
    #[error("{capability} with {vectors} vectors: expected {expected}")]
    Vectors {
        /// MSI or MSI-X.
        capability: &'static str,
        /// How many were asked for.
        vectors: u16,
        /// What is possible.
        expected: &'static str,
    },
    /// Table or pending bits do not fit where they are.
    #[error("MSI-X {what} has {bytes:#x} bytes at {offset:#x} of BAR {bar}: not aligned to 8, or not within the BAR")]
    MsixPlace {
        /// `table` or `PBA`.
        what: &'static str,
        /// The BAR.
        bar: u8,
        /// The offset.
        offset: u32,
        /// Its length.
        bytes: u64,
    },
    /// They are one on the other.
    #[error("the MSI-X table and PBA overlap in BAR {0}")]
    MsixOverlap(u8),
}

impl PciConfig {
    /// A function with these ids and `class`: base class, sub-class and programming interface, such as 0x0c0320. It has
    /// INTA, no BARs, power management, and reaches memory only as a bus master.
    #[must_use]
    pub const fn new(vendor: u16, device: u16, class: u32) -> Self {
        Self {
            vendor,
            device,
            class: class & 0xff_ffff,
            revision: 0,
            subsystem: (0, 0),
            bars: [None; 6],
            pin: Some(InterruptPin::A),
            msi: None,
            msix: None,
            power_management: true,
            requires_bus_master: true,
        }
    }

    /// The revision.
    #[must_use]
    pub const fn revision(mut self, revision: u8) -> Self {
        self.revision = revision;
        self
    }

    /// The subsystem: vendor and device.
    #[must_use]
    pub const fn subsystem(mut self, vendor: u16, device: u16) -> Self {
        self.subsystem = (vendor, device);
        self
    }

    /// BAR `number`, 0 to 5. There are no others, and none is added for another number.
    #[must_use]
    pub const fn bar(mut self, number: usize, bar: Bar) -> Self {
        if number < self.bars.len() {
            self.bars[number] = Some(bar);
        }
        self
    }

    /// The interrupt pin, or none.
    #[must_use]
    pub const fn pin(mut self, pin: Option<InterruptPin>) -> Self {
        self.pin = pin;
        self
    }

    /// MSI with 1, 2, 4, 8, 16 or 32 vectors, 64-bit addresses and a mask for each vector.
    #[must_use]
    pub const fn msi(mut self, vectors: u16) -> Self {
        self.msi = Some(vectors);
        self
    }

    /// MSI-X.
    #[must_use]
    pub const fn msix(mut self, msix: MsixConfig) -> Self {
        self.msix = Some(msix);
        self
    }

    /// Whether there is a power management capability.
    #[must_use]
    pub const fn power_management(mut self, present: bool) -> Self {
        self.power_management = present;
        self
    }

    /// Whether the device reaches memory only while the command register's bus master bit is set.
    ///
    /// A platform driver on a function that no PCI driver is bound to does DMA without it: nobody sets the bit for
    /// Linux's `ci_hdrc_msm`.
    #[must_use]
    pub const fn requires_bus_master(mut self, required: bool) -> Self {
        self.requires_bus_master = required;
        self
    }

    /// Vectors that the device can use, at least 1.
    pub(super) fn vectors(&self) -> u16 {
        let msix = self.msix.map_or(0, |msix| msix.vectors);
        self.msi.unwrap_or(1).max(msix).max(1)
    }

    pub(super) fn device_bar(&self) -> Option<usize> {
        self.bars.iter().position(|bar| bar.is_some_and(|bar| bar.device))
    }

    pub(super) fn validate(&self) -> Result<(), PciError> {
        let present = || (0_u8..6).filter_map(|number| Some((number, self.bars[usize::from(number)]?)));
        for (number, Bar { size, wide, .. }) in present() {
            if !size.is_power_of_two() || size < 0x10 || (!wide && size > 0x8000_0000) {
                return Err(PciError::BarSize { bar: number, size, wide });
            }
            if wide && self.bars.get(usize::from(number) + 1).is_none_or(Option::is_some) {
                return Err(PciError::NoRoomForWideBar(number));
            }
        }
        let mut with_device = present().filter(|(_, bar)| bar.device).map(|(number, _)| number);
        if let (Some(first), Some(second)) = (with_device.next(), with_device.next()) {
            return Err(PciError::TwoDeviceBars(first, second));
        }
        if let Some(vectors) = self.msi.filter(|vectors| !vectors.is_power_of_two() || *vectors > MOST_MSI) {
            return Err(PciError::Vectors { capability: "MSI", vectors, expected: "1, 2, 4, 8, 16 or 32" });
        }
        self.msix.map_or(Ok(()), |msix| self.validate_msix(&msix))
    }

    fn validate_msix(&self, msix: &MsixConfig) -> Result<(), PciError> {
        let MsixConfig { vectors, table_bar, table_offset, pba_bar, pba_offset } = *msix;
        if !(1..=MOST_MSIX).contains(&vectors) {
            return Err(PciError::Vectors { capability: "MSI-X", vectors, expected: "1 to 2048" });
        }
        let (table, pba) = (msix.table_bytes(), msix.pba_bytes());
        for (what, bar, offset, bytes) in [("table", table_bar, table_offset, table), ("PBA", pba_bar, pba_offset, pba)]
        {
            let place = self.bars.get(usize::from(bar)).ok_or(PciError::NoSuchBar(bar))?;
            let end = u64::from(offset) + bytes;
            if offset % 8 != 0 || place.is_none_or(|place| end > place.size) {
                return Err(PciError::MsixPlace { what, bar, offset, bytes });
            }
        }
        let (table_offset, pba_offset) = (u64::from(table_offset), u64::from(pba_offset));
        let apart = table_bar != pba_bar || table_offset + table <= pba_offset || pba_offset + pba <= table_offset;
        if apart { Ok(()) } else { Err(PciError::MsixOverlap(table_bar)) }
    }
}
