//! The function: accesses from the machine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::Width;

use super::config::{Bar, PciConfig};
use super::header::{LENGTH, STATUS, Status};
use super::interrupts::InterruptOutput;
use super::slot::PciSlot;
use crate::device::Device;

/// Length of the configuration space in bytes.
pub const CONFIG_SPACE: u64 = LENGTH as u64;

/// A device behind a configuration space.
///
/// All methods may be called from any thread. Accesses of any length and offset are fine: what is not there reads as on
/// a bus, all ones where nothing answers and 0 where a BAR has no register, and takes no notice of writes.
pub struct PciFunction {
    slot: PciSlot,
    device: Arc<dyn Device>,
}

/// A naturally aligned access.
struct Piece {
    at: u64,
    width: Width,
}

/// Who answers in a BAR.
enum Place {
    Table(usize),
    Pba(usize),
    Device,
    /// Within the BAR, but nothing is there.
    Hole,
}

impl PciFunction {
    /// The function of `device`, which was made with lines and memory of `slot`.
    #[must_use]
    pub fn new(slot: PciSlot, device: Arc<dyn Device>) -> Self {
        Self { slot, device }
    }

    /// What it is.
    #[must_use]
    pub fn config(&self) -> &PciConfig {
        self.slot.config()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Where interrupts leave from now on. An interrupt pin that is asserted is shown at once.
    pub fn set_interrupt_output(&self, output: Option<Arc<dyn InterruptOutput>>) {
        self.slot.0.set_output(output);
    }

    /// Length of a BAR in bytes: 0 if there is none.
    #[must_use]
    pub fn bar_size(&self, bar: usize) -> u64 {
        self.bar(bar).map_or(0, |bar| bar.size)
    }

    /// Vectors of MSI, 0 without.
    #[must_use]
    pub fn msi_vectors(&self) -> u16 {
        self.config().msi.unwrap_or(0)
    }

    /// Vectors of MSI-X, 0 without.
    #[must_use]
    pub fn msix_vectors(&self) -> u16 {
        self.config().msix.map_or(0, |msix| msix.vectors)
    }

    /// Whether there is an interrupt pin.
    #[must_use]
    pub fn has_interrupt_pin(&self) -> bool {
        self.config().pin.is_some()
    }

    /// Time goes on; see [`Device::step`].
    pub fn step(&self, now: Duration) {
        self.device.step(now);
    }

    /// When the device wants the next [`PciFunction::step`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.device.deadline()
    }

    /// Power is switched on again, or the slot's reset ended: configuration space, MSI-X table and device are as when
    /// they were made (PCI §4.3.2, §6.1).
    pub fn power_on(&self) {
        self.device.power_on();
        let shared = &self.slot.0;
        shared.with(|core| {
            core.space = super::header::Space::new(&shared.config, &shared.capabilities);
            core.interrupts.reset(&shared.config);
        });
    }

    /// Reads configuration space.
    pub fn config_read(&self, offset: u64, data: &mut [u8]) {
        let shared = &self.slot.0;
        let core = shared.core.lock();
        let status = Status::from_bits(core.space.get16(STATUS)).with_interrupt(core.interrupts.wants_pin());
        let status = status.into_bits().to_le_bytes();
        for (index, byte) in data.iter_mut().enumerate() {
            let at = offset.saturating_add(index as u64);
            *byte = match at.checked_sub(STATUS as u64) {
                Some(of @ 0..=1) => status[of as usize],
                _ => core.space.byte(at),
            };
            if let Some(pending) = shared.capabilities.msi_pending_byte(at) {
                *byte = (0..8).map(|bit| u8::from(core.interrupts.is_pending(8 * pending + bit)) << bit).sum();
            }
        }
    }

    /// Writes configuration space. Read-only bits, an expansion ROM's address among them, keep their values.
    pub fn config_write(&self, offset: u64, data: &[u8]) {
        let shared = &self.slot.0;
        shared.with(|core| {
            let before = core.space.clone();
            for (index, byte) in data.iter().enumerate() {
                core.space.write_byte(offset.saturating_add(index as u64), *byte);
            }
            shared.capabilities.keep_power_state(&mut core.space, &before);
        });
    }

    /// Reads a BAR, in naturally aligned accesses of at most eight bytes.
    pub fn bar_read(&self, bar: usize, offset: u64, data: &mut [u8]) {
        if !self.decodes(bar, offset, data.len()) {
            return data.fill(0xff);
        }
        for Piece { at, width } in pieces(offset, data.len()) {
            let from = (at - offset) as usize;
            let part = &mut data[from..from + width as usize];
            match self.place(bar, at) {
                Place::Device => part.copy_from_slice(&self.device.read(at, width).to_le_bytes()[..width as usize]),
                Place::Table(from) => self.slot.0.core.lock().interrupts.table.read(from, part),
                Place::Pba(from) => self.read_pba(from, part),
                Place::Hole => part.fill(0),
            }
        }
    }

    /// Writes a BAR, in naturally aligned accesses of at most eight bytes.
    pub fn bar_write(&self, bar: usize, offset: u64, data: &[u8]) {
        if !self.decodes(bar, offset, data.len()) {
            return;
        }
        for Piece { at, width } in pieces(offset, data.len()) {
            let from = (at - offset) as usize;
            let part = &data[from..from + width as usize];
            match self.place(bar, at) {
                Place::Device => {
                    let mut bytes = [0; 8];
                    bytes[..part.len()].copy_from_slice(part);
                    self.device.write(at, width, u64::from_le_bytes(bytes));
                }
                Place::Table(from) => self.slot.0.with(|core| core.interrupts.table.write(from, part)),
                Place::Pba(_) | Place::Hole => {}
            }
        }
    }

    fn bar(&self, bar: usize) -> Option<Bar> {
        self.config().bars.get(bar).copied().flatten()
    }

    /// Whether the function answers: memory decoding is on, in D0, and the range is the BAR's.
    fn decodes(&self, bar: usize, offset: u64, len: usize) -> bool {
        let shared = &self.slot.0;
        let core = shared.core.lock();
        let within = offset.checked_add(len as u64).is_some_and(|end| end <= self.bar_size(bar));
        within && core.space.command().memory() && shared.capabilities.is_d0(&core.space)
    }

    fn place(&self, bar: usize, at: u64) -> Place {
        if let Some(msix) = self.config().msix {
            let within = |place: u8, offset: u32, bytes: u64| {
                let from = at.checked_sub(offset.into()).filter(|from| usize::from(place) == bar && *from < bytes);
                from.map(|from| from as usize)
            };
            if let Some(from) = within(msix.table_bar, msix.table_offset, msix.table_bytes()) {
                return Place::Table(from);
            }
            if let Some(from) = within(msix.pba_bar, msix.pba_offset, msix.pba_bytes()) {
                return Place::Pba(from);
            }
        }
        if self.config().device_bar() == Some(bar) { Place::Device } else { Place::Hole }
    }

    fn read_pba(&self, from: usize, part: &mut [u8]) {
        let core = self.slot.0.core.lock();
        for (at, byte) in (from..).zip(part) {
            *byte = (0..8).map(|bit| u8::from(core.interrupts.is_pending(8 * at + bit)) << bit).sum();
        }
    }
}

/// Cuts a range into naturally aligned accesses.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let widths = [Width::U64, Width::U32, Width::U16, Width::U8];
        let fits = |width: &Width| at.is_multiple_of(*width as u64) && at + *width as u64 <= end;
        let width = widths.into_iter().find(fits)?;
        let piece = Piece { at, width };
        at += width as u64;
        Some(piece)
    })
}

impl fmt::Debug for PciFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PciFunction").field("config", self.config()).finish_non_exhaustive()
    }
}
