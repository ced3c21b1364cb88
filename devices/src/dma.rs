//! The only way from a device to memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus::{Access, AccessKind, Belief, DmaAddr, Event, LayoutContract, Trace, Watch};
use parking_lot::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::fault::{DmaFault, FaultEffect};
use crate::memory::{DmaError, DmaMemory};

/// A device's DMA port. Every access says what the device takes the address for ([`Belief`]); it is shown to the
/// watch, may be made to fail, and is traced.
pub struct DmaPort {
    source: &'static str,
    memory: Arc<dyn DmaMemory>,
    watch: Option<Arc<dyn Watch>>,
    trace: Trace,
    faults: Mutex<Vec<DmaFault>>,
    /// Whether `faults` was ever filled, so that the usual access takes no lock.
    faulty: bool,
}

/// A memory access in a trace.
#[derive(Clone, Debug)]
pub struct DmaEvent {
    /// Which way, where, how long, and as what.
    pub access: Access,
    /// The bytes.
    pub data: Vec<u8>,
}

impl Event for DmaEvent {}

impl fmt::Display for DmaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 32;
        let verb = match self.access.kind {
            AccessKind::Read => "read ",
            AccessKind::Write => "write",
        };
        write!(f, "{verb} {}", self.access.belief)?;
        if self.data.len() == 4 {
            // One register-sized word reads best as the specifications print it.
            let word = u32::from_le_bytes([self.data[0], self.data[1], self.data[2], self.data[3]]);
            return write!(f, " = {word:08x}");
        }
        write!(f, " {} bytes", self.data.len())?;
        for byte in self.data.iter().take(SHOWN) {
            write!(f, " {byte:02x}")?;
        }
        if self.data.len() > SHOWN {
            f.write_str(" …")?;
        }
        Ok(())
    }
}

impl DmaPort {
    /// A port of the device `source` into `memory`.
    #[must_use]
    pub fn new(source: &'static str, memory: Arc<dyn DmaMemory>) -> Self {
        Self { source, memory, watch: None, trace: Trace::off(), faults: Mutex::default(), faulty: false }
    }

    /// The same with an observer.
    #[must_use]
    pub fn watched(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// The same with a trace.
    #[must_use]
    pub fn traced(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// The same with failures.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<DmaFault>) -> Self {
        self.faulty = !faults.is_empty();
        self.faults = Mutex::new(faults);
        self
    }

    /// The trace that the port writes to, for the device's own events.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Copies bytes from memory.
    ///
    /// # Errors
    /// [`DmaError`], if the memory is not there or a fault is injected.
    pub fn read(&self, addr: DmaAddr, buffer: &mut [u8], belief: Belief) -> Result<(), DmaError> {
        let access = Access { addr, len: buffer.len() as u64, kind: AccessKind::Read, belief };
        let flip = self.before(&access)?;
        self.memory.read(addr, buffer)?;
        if let (Some(bits), Some(first)) = (flip, buffer.first_mut()) {
            *first ^= bits;
        }
        self.after(access, buffer);
        Ok(())
    }

    /// Copies bytes to memory.
    ///
    /// # Errors
    /// [`DmaError`], if the memory is not there or a fault is injected.
    pub fn write(&self, addr: DmaAddr, data: &[u8], belief: Belief) -> Result<(), DmaError> {
        let access = Access { addr, len: data.len() as u64, kind: AccessKind::Write, belief };
        match self.before_write(&access, data)? {
            Some(bits) if !data.is_empty() => {
                let mut flipped = data.to_vec();
                flipped[0] ^= bits;
                self.memory.write(addr, &flipped)?;
            }
            _ => self.memory.write(addr, data)?,
        }
        self.after(access, data);
        Ok(())
    }

    /// Reads a whole structure.
    ///
    /// # Errors
    /// As [`DmaPort::read`].
    pub fn read_object<T: FromBytes + IntoBytes>(&self, addr: DmaAddr, belief: Belief) -> Result<T, DmaError> {
        let mut object = T::new_zeroed();
        self.read(addr, object.as_mut_bytes(), belief)?;
        Ok(object)
    }

    /// Writes a whole structure.
    ///
    /// # Errors
    /// As [`DmaPort::write`].
    pub fn write_object<T: IntoBytes + Immutable>(
        &self,
        addr: DmaAddr,
        object: &T,
        belief: Belief,
    ) -> Result<(), DmaError> {
        self.write(addr, object.as_bytes(), belief)
    }

    /// Reads a little-endian word in one access, with acquire ordering.
    ///
    /// # Errors
    /// As [`DmaPort::read`], and if it is not aligned.
    pub fn load_u32(&self, addr: DmaAddr, belief: Belief) -> Result<u32, DmaError> {
        let access = Access { addr, len: 4, kind: AccessKind::Read, belief };
        let flip = self.before(&access)?;
        let value = self.memory.load_u32(addr, Ordering::Acquire)? ^ u32::from(flip.unwrap_or(0));
        self.after(access, &value.to_le_bytes());
        Ok(value)
    }

    /// Writes a little-endian word in one access, with release ordering: what was written before is seen first.
    ///
    /// # Errors
    /// As [`DmaPort::write`], and if it is not aligned.
    pub fn store_u32(&self, addr: DmaAddr, value: u32, belief: Belief) -> Result<(), DmaError> {
        let access = Access { addr, len: 4, kind: AccessKind::Write, belief };
        let flip = self.before_write(&access, &value.to_le_bytes())?;
        self.memory.store_u32(addr, value ^ u32::from(flip.unwrap_or(0)), Ordering::Release)?;
        self.after(access, &value.to_le_bytes());
        Ok(())
    }

    /// Tells the watch that `written` went to the register of `contract`, and that `count` objects follow there.
    pub fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        if let Some(watch) = &self.watch {
            watch.layout(contract, written, count);
        }
    }

    pub(crate) fn before(&self, access: &Access) -> Result<Option<u8>, DmaError> {
        if let Some(watch) = &self.watch {
            watch.access(access);
        }
        self.fault(access)
    }

    fn before_write(&self, access: &Access, data: &[u8]) -> Result<Option<u8>, DmaError> {
        if let Some(watch) = &self.watch {
            watch.write(access, data);
        }
        self.fault(access)
    }

    fn fault(&self, access: &Access) -> Result<Option<u8>, DmaError> {
        if !self.faulty {
            return Ok(None);
        }
        let mut faults = self.faults.lock();
        let Some(fault) = faults.iter_mut().find(|fault| fault.times > 0 && fault.matches(access)) else {
            return Ok(None);
        };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(None);
        }
        fault.times -= 1;
        match fault.effect {
            FaultEffect::BusError => Err(DmaError::Injected { addr: access.addr }),
            FaultEffect::Flip(bits) => Ok(Some(bits)),
        }
    }

    fn after(&self, access: Access, data: &[u8]) {
        self.trace.emit(self.source, || DmaEvent { access, data: data.to_vec() });
    }
}

impl fmt::Debug for DmaPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaPort").field("source", &self.source).field("trace", &self.trace).finish_non_exhaustive()
    }
}
