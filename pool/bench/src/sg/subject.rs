//! What is measured, and how it is called in the loops that are timed.

use std::time::Duration;

use bus::CpuAddr;

use super::{Procedure, SgError, Zone};

/// A source of chunks, or tables of a kind, under measurement.
pub trait SgSubject {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Whether a procedure makes sense of it.
    fn is_measured_by(&self, procedure: Procedure) -> bool;

    /// Times `rounds` rounds in an empty zone, and leaves it so. Tables have so many `entries`.
    ///
    /// # Errors
    /// [`SgError`] if it fails anywhere.
    fn run(&self, zone: &Zone, procedure: Procedure, entries: u32, rounds: u64) -> Result<Duration, SgError>;
}

/// A source, by whose chunks are allocated and freed.
pub(super) trait ChunkClient {
    fn alloc(&self, len: u64) -> Result<CpuAddr, SgError>;
    fn free(&self, at: CpuAddr, len: u64) -> Result<(), SgError>;
}

/// Tables, of Rust or of the kernel.
pub(super) trait TableClient {
    type Held;

    fn alloc(&self, entries: u32) -> Result<Self::Held, SgError>;
    fn free(&self, table: Self::Held) -> Result<(), SgError>;
}
