//! What is measured: a pool of some kind, by name.

use std::sync::Arc;
use std::time::Duration;

use c_bridge::BareFile;
use pool::Policy;

use crate::client::{KernelPool, RustPool};
use crate::error::BenchError;
use crate::memory::BenchMemory;
use crate::procedure::Procedure;
use crate::sets::Set;

/// A pool under measurement.
pub trait Subject {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Creates a pool, lets it grow, times `rounds` rounds of `procedure` and destroys it.
    ///
    /// # Errors
    /// [`BenchError`] if the pool fails anywhere.
    fn time(&self, memory: &BenchMemory, procedure: Procedure, set: &Set, rounds: u64) -> Result<Duration, BenchError>;
}

impl Subject for Policy {
    fn name(&self) -> &str {
        &self.name
    }

    fn time(&self, memory: &BenchMemory, procedure: Procedure, set: &Set, rounds: u64) -> Result<Duration, BenchError> {
        let pool = (self.create)(Arc::clone(memory.memory()), memory.source(), set.geometry())?;
        let measured = RustPool { pool: &*pool, memory, bytes: &contents(set) };
        let time = procedure.time(&measured, set, rounds)?;
        pool.destroy()?;
        Ok(time)
    }
}

/// A kernel's `mm/dmapool.c`, its functions called as they are.
#[derive(Clone)]
pub struct KernelSubject {
    name: String,
    file: BareFile,
}

impl KernelSubject {
    /// The file under a name.
    #[must_use]
    pub fn new(name: impl Into<String>, file: BareFile) -> Self {
        Self { name: name.into(), file }
    }
}

impl Subject for KernelSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn time(&self, memory: &BenchMemory, procedure: Procedure, set: &Set, rounds: u64) -> Result<Duration, BenchError> {
        let pool = self.file.create(memory.memory(), memory.source(), set.geometry())?;
        let time = procedure.time(&KernelPool { pool: &pool, bytes: &contents(set) }, set, rounds);
        pool.destroy();
        time
    }
}

/// What a client writes into a block.
fn contents(set: &Set) -> Vec<u8> {
    vec![0x5a; set.geometry().size as usize]
}
