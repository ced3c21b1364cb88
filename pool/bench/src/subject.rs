//! What is measured: a pool of some kind, by name.

use std::time::Duration;

use pool::Policy;

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
        let (bytes, source) = memory.parts();
        let pool = (self.create)(bytes, source, set.geometry())?;
        let time = procedure.time(&*pool, &memory.contents(set)?, set, rounds)?;
        pool.destroy()?;
        Ok(time)
    }
}
