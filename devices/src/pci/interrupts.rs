//! INTx, MSI and MSI-X: from the device's lines to what leaves the function.

use super::capabilities::Capabilities;
use super::config::PciConfig;
use super::header::Space;
use super::msix::MsixTable;

/// Where a function's interrupts leave. Called without any lock of the function held.
pub trait InterruptOutput: Send + Sync {
    /// The level of the interrupt pin. Called on every change, and harmless when called without one.
    fn intx(&self, asserted: bool);

    /// The message of an MSI or MSI-X vector.
    fn message(&self, vector: u16);

    /// Whether the other side has an MSI-X table of its own and masks vectors by it, as a VFIO client does. The
    /// function's own is not asked then.
    fn masks_vectors(&self) -> bool {
        false
    }
}

/// How interrupts leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Intx,
    /// Vectors that software allowed.
    Msi(u16),
    Msix,
}

/// What is to be sent once the lock is open.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// The pin's level changed: it is shown as it is then.
    pub(super) intx: bool,
    /// Messages, in order.
    pub(super) messages: Vec<u16>,
}

/// Levels, masks, pending messages.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    has_pin: bool,
    /// The device's lines.
    levels: Vec<bool>,
    /// Messages that wait until they may be sent, by vector.
    pending: Vec<bool>,
    mode: Mode,
    /// The pin, as last shown.
    pin: bool,
    pub(super) table: MsixTable,
    /// See [`InterruptOutput::masks_vectors`].
    pub(super) masked_outside: bool,
}

impl Interrupts {
    pub(super) fn new(config: &PciConfig) -> Self {
        let vectors = config.vectors();
        Self {
            has_pin: config.pin.is_some(),
            levels: vec![false; usize::from(vectors)],
            pending: vec![false; usize::from(vectors)],
            mode: Mode::Intx,
            pin: false,
            table: MsixTable::new(config.msix.map_or(0, |msix| msix.vectors)),
            masked_outside: false,
        }
    }

    /// A reset of everything but the device's lines, which are the device's.
    pub(super) fn reset(&mut self, config: &PciConfig) {
        self.table = MsixTable::new(config.msix.map_or(0, |msix| msix.vectors));
        self.pending.fill(false);
        self.mode = Mode::Intx;
    }

    pub(super) fn lines(&self) -> u16 {
        // Made from a u16.
        self.levels.len() as u16
    }

    /// A change of a line. Where messages are sent, a rise is one.
    pub(super) fn set(&mut self, line: u16, asserted: bool) {
        let Some(level) = self.levels.get_mut(usize::from(line)) else { return };
        if !std::mem::replace(level, asserted) && asserted {
            self.post(line);
        }
    }

    /// A message. A pin cannot show it.
    pub(super) fn post(&mut self, line: u16) {
        let vector = match self.mode {
            Mode::Intx => return,
            // With fewer vectors than the device knows, they share the ones there are (PCI §6.8.3.1).
            Mode::Msi(vectors) => line % vectors,
            Mode::Msix => line,
        };
        if let Some(pending) = self.pending.get_mut(usize::from(vector)) {
            *pending = true;
        }
    }

    /// Whether the device asks for INTx (PCI §6.2.3).
    pub(super) fn wants_pin(&self) -> bool {
        self.has_pin && self.mode == Mode::Intx && self.levels.contains(&true)
    }

    pub(super) fn pin(&self) -> bool {
        self.pin
    }

    pub(super) fn is_pending(&self, vector: usize) -> bool {
        self.pending.get(vector).copied().unwrap_or(false)
    }

    /// Follows configuration space, and takes what can be sent now. `may_send`: the function may write to memory, which
    /// is what a message does.
    pub(super) fn settle(&mut self, space: &Space, capabilities: &Capabilities, on: bool, may_send: bool) -> Sent {
        let (msi, msix) = (capabilities.msi(space), capabilities.msix(space));
        let mode = match (msix, msi) {
            (Some(_), _) => Mode::Msix,
            (None, Some(control)) => Mode::Msi((1 << control.enabled().min(5)).min(self.lines())),
            (None, None) => Mode::Intx,
        };
        let same_kind = std::mem::discriminant(&mode) == std::mem::discriminant(&self.mode);
        self.mode = mode;
        if !same_kind {
            self.pending.fill(false);
            // What is asserted already would never rise.
            for line in (0..self.lines()).filter(|line| self.levels[usize::from(*line)]).collect::<Vec<_>>() {
                self.post(line);
            }
        }
        let pin = self.wants_pin() && on && !space.command().interrupt_disable();
        let mut sent = Sent { intx: pin != self.pin, messages: Vec::new() };
        self.pin = pin;
        if !may_send || !self.pending.contains(&true) {
            return sent;
        }
        let mask = capabilities.msi_mask(space);
        for vector in 0..self.lines() {
            let masked = match self.mode {
                Mode::Intx => true,
                Mode::Msi(_) => mask >> vector.min(31) & 1 != 0,
                Mode::Msix if msix.is_some_and(|control| control.function_mask()) => true,
                Mode::Msix => !self.masked_outside && self.table.is_masked(vector),
            };
            if !masked && std::mem::take(&mut self.pending[usize::from(vector)]) {
                sent.messages.push(vector);
            }
        }
        sent
    }
}
