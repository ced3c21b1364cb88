//! A function's connection to the machine. It is there before the device, which needs it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bus::{DmaAddr, IrqLine};
use parking_lot::Mutex;

use super::capabilities::Capabilities;
use super::config::{PciConfig, PciError};
use super::header::Space;
use super::interrupts::{InterruptOutput, Interrupts, Sent};
use crate::memory::{DmaError, DmaMemory};

/// A slot: interrupt lines for a device, and its way to memory, under the control of a configuration space. Clones are
/// the same slot.
#[derive(Clone)]
pub struct PciSlot(pub(super) Arc<Shared>);

/// What function, lines and memory share.
pub(super) struct Shared {
    pub(super) config: PciConfig,
    pub(super) capabilities: Capabilities,
    pub(super) core: Mutex<Core>,
    output: Mutex<Option<Arc<dyn InterruptOutput>>>,
    /// Whether the device may access memory: a copy, so that an access takes no lock.
    may_master: AtomicBool,
}

/// Under the lock.
pub(super) struct Core {
    pub(super) space: Space,
    pub(super) interrupts: Interrupts,
}

impl PciSlot {
    /// A slot for a function like `config`.
    ///
    /// # Errors
    /// [`PciError`]: there is no such function.
    pub fn new(config: PciConfig) -> Result<Self, PciError> {
        config.validate()?;
        let capabilities = Capabilities::new(&config);
        let core = Core { space: Space::new(&config, &capabilities), interrupts: Interrupts::new(&config) };
        let may_master = AtomicBool::new(!config.requires_bus_master);
        let shared = Shared { capabilities, core: Mutex::new(core), output: Mutex::default(), may_master, config };
        Ok(Self(Arc::new(shared)))
    }

    /// The device's interrupt line `vector`. A level is shown on INTx, the levels of all lines together; with MSI or
    /// MSI-X, its rise is a message of that vector. [`IrqLine::message`] is a message, and nothing on INTx.
    ///
    /// A vector that the function does not have leads nowhere.
    #[must_use]
    pub fn line(&self, vector: u16) -> Arc<dyn IrqLine> {
        Arc::new(Line { shared: Arc::clone(&self.0), vector })
    }

    /// `memory` as the device reaches it: while it may be a bus master, and not in D3hot.
    #[must_use]
    pub fn memory(&self, memory: Arc<dyn DmaMemory>) -> Arc<dyn DmaMemory> {
        Arc::new(MasteredMemory { shared: Arc::clone(&self.0), memory })
    }

    /// What the function is.
    #[must_use]
    pub fn config(&self) -> &PciConfig {
        &self.0.config
    }
}

impl Shared {
    pub(super) fn set_output(&self, output: Option<Arc<dyn InterruptOutput>>) {
        let masked_outside = output.as_ref().is_some_and(|output| output.masks_vectors());
        *self.output.lock() = output;
        self.with(|core| core.interrupts.masked_outside = masked_outside);
        self.show_pin();
    }

    /// Some change under the lock, then what follows from it without.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut Core) -> R) -> R {
        let (result, Sent { intx, messages }) = {
            let mut core = self.core.lock();
            let result = change(&mut core);
            let Core { space, interrupts } = &mut *core;
            let on = self.capabilities.is_d0(space);
            let may_master = on && (space.command().master() || !self.config.requires_bus_master);
            self.may_master.store(may_master, Ordering::Release);
            (result, interrupts.settle(space, &self.capabilities, on, may_master))
        };
        if intx {
            self.show_pin();
        }
        if !messages.is_empty()
            && let Some(output) = self.output()
        {
            messages.into_iter().for_each(|vector| output.message(vector));
        }
        result
    }

    fn output(&self) -> Option<Arc<dyn InterruptOutput>> {
        self.output.lock().clone()
    }

    /// Shows the level as it is now: of two threads that show it, the last to call leaves the right one.
    fn show_pin(&self) {
        let Some(output) = self.output() else { return };
        let mut level = self.core.lock().interrupts.pin();
        loop {
            output.intx(level);
            let now = self.core.lock().interrupts.pin();
            if now == level {
                return;
            }
            level = now;
        }
    }
}

struct Line {
    shared: Arc<Shared>,
    vector: u16,
}

impl IrqLine for Line {
    fn set(&self, asserted: bool) {
        self.shared.with(|core| core.interrupts.set(self.vector, asserted));
    }

    fn message(&self) {
        self.shared.with(|core| core.interrupts.post(self.vector));
    }
}

/// Memory behind the bus master bit.
struct MasteredMemory {
    shared: Arc<Shared>,
    memory: Arc<dyn DmaMemory>,
}

impl MasteredMemory {
    /// Nothing answers a function that may not ask.
    fn allow(&self, addr: DmaAddr, len: usize) -> Result<&dyn DmaMemory, DmaError> {
        if self.shared.may_master.load(Ordering::Acquire) {
            Ok(&*self.memory)
        } else {
            Err(DmaError::NoMemory { addr, len: len as u64 })
        }
    }
}

impl DmaMemory for MasteredMemory {
    fn read(&self, addr: DmaAddr, buffer: &mut [u8]) -> Result<(), DmaError> {
        self.allow(addr, buffer.len())?.read(addr, buffer)
    }

    fn write(&self, addr: DmaAddr, data: &[u8]) -> Result<(), DmaError> {
        self.allow(addr, data.len())?.write(addr, data)
    }

    fn load_u32(&self, addr: DmaAddr, order: Ordering) -> Result<u32, DmaError> {
        self.allow(addr, 4)?.load_u32(addr, order)
    }

    fn store_u32(&self, addr: DmaAddr, value: u32, order: Ordering) -> Result<(), DmaError> {
        self.allow(addr, 4)?.store_u32(addr, value, order)
    }
}

impl fmt::Debug for PciSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PciSlot").field("config", &self.0.config).finish_non_exhaustive()
    }
}
