//! A driver's view of memory, after Linux's DMA API (Documentation/core-api/dma-api.rst).

use std::fmt;
use std::sync::Arc;

use bus::{AccessKind, CpuAddr, DmaAddr, Owner, Point, Preempt};
use thiserror::Error;

use crate::driver_access::DriverAccess;
use crate::error::CreateError;
use crate::failing::AllocFailures;
use crate::ledger::Ledger;
use crate::memory::{CpuFault, Memory};
use crate::page::{PageError, PageSource, Pages};
use crate::policy::Policy;
use crate::pool::{Flags, Geometry};
use crate::slab::Slab;
use crate::watched::DmaPool;

/// Direction of a mapping (`enum dma_data_direction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The device reads (`DMA_TO_DEVICE`).
    ToDevice,
    /// The device writes (`DMA_FROM_DEVICE`).
    FromDevice,
    /// Both (`DMA_BIDIRECTIONAL`, coherent memory).
    Bidirectional,
}

impl Direction {
    /// Whether a device may do that.
    #[must_use]
    pub const fn allows(self, access: AccessKind) -> bool {
        match self {
            Self::ToDevice => matches!(access, AccessKind::Read),
            Self::FromDevice => matches!(access, AccessKind::Write),
            Self::Bidirectional => true,
        }
    }
}

/// Why memory cannot be mapped for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// There is no memory at this address, or not that much.
    #[error("{cpu} and {len} bytes are not memory")]
    NotMemory {
        /// First byte.
        cpu: CpuAddr,
        /// Length in bytes.
        len: u64,
    },
}

/// What a driver gets to reach memory: pools, buffers, mappings, and its own accesses to descriptors.
///
/// Coherent, without an IOMMU. Descriptor accesses ([`DmaApi::load_u32`], [`DmaApi::store_u32`]) are preemption points.
/// They and copies are judged: blocks in use, coherent and mapped memory, and buffers are the driver's, nothing else is.
#[derive(Clone)]
pub struct DmaApi {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    slab: Arc<Slab>,
    policy: Policy,
    ledger: Arc<Ledger>,
    preempt: Option<Arc<dyn Preempt>>,
    failures: Option<Arc<AllocFailures>>,
    age: Option<u64>,
}

impl DmaApi {
    /// A view of `memory` with pages from `source`, pools by `policy`, and everything in `ledger`.
    #[must_use]
    pub fn new(memory: Arc<Memory>, source: Arc<dyn PageSource>, policy: Policy, ledger: Arc<Ledger>) -> Self {
        let slab = Arc::new(Slab::new(Arc::clone(&source)));
        Self { memory, source, slab, policy, ledger, preempt: None, failures: None, age: None }
    }

    /// The same whose pools fail when `failures` says so.
    #[must_use]
    pub fn failing(mut self, failures: Arc<AllocFailures>) -> Self {
        self.failures = Some(failures);
        self
    }

    /// The same whose pools others have used before, and still do ([`DmaPool::aged`]).
    #[must_use]
    pub fn aged(mut self, seed: u64) -> Self {
        self.age = Some(seed);
        self
    }

    /// The same with somebody at its preemption points.
    #[must_use]
    pub fn preempted(mut self, preempt: Arc<dyn Preempt>) -> Self {
        self.preempt = Some(preempt);
        self
    }

    /// The ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The memory.
    #[must_use]
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The policy of its pools.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Creates a pool (`dma_pool_create`).
    ///
    /// # Errors
    /// [`CreateError`] with the operand that is wrong, or if a pool that others have used has no room for them.
    pub fn create_pool(&self, name: &str, geometry: Geometry) -> Result<DmaPool, CreateError> {
        let mut pool = DmaPool::create(name, &self.policy, geometry, &self.memory, &self.source, &self.ledger)?;
        if let Some(seed) = self.age {
            pool = pool
                .aged(seed)
                .map_err(|error| CreateError::Other(format!("others had no room in {name}: {error}")))?;
        }
        Ok(match &self.failures {
            Some(failures) => pool.failing(Arc::clone(failures)),
            None => pool,
        })
    }

    /// Zeroed pages for both sides (`dma_alloc_coherent`), aligned to a page.
    ///
    /// # Errors
    /// [`PageError`] if there are none.
    pub fn alloc_coherent(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        let pages = self.source.alloc(len, flags)?;
        self.ledger.mapped(pages.dma, pages.len, Direction::Bidirectional);
        Ok(pages)
    }

    /// Gives coherent pages back (`dma_free_coherent`).
    pub fn free_coherent(&self, pages: Pages) {
        self.ledger.unmapped(pages.dma);
        self.source.free(pages);
    }

    /// A buffer (`kmalloc`); a device reaches it only while it is mapped. Its contents are not defined.
    ///
    /// # Errors
    /// [`PageError`] if there is no page.
    pub fn kmalloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, PageError> {
        let buffer = self.slab.alloc(len, flags)?;
        if let (Some((room, _)), Some(dma)) = (self.slab.room(buffer), self.memory.dma(buffer)) {
            self.ledger.buffer_given(dma, room);
        }
        Ok(buffer)
    }

    /// Gives a buffer back (`kfree`). Returns `false` if it is none.
    pub fn kfree(&self, buffer: CpuAddr) -> bool {
        if let (Some((room, stays)), Some(dma)) = (self.slab.room(buffer), self.memory.dma(buffer)) {
            self.ledger.buffer_freed(dma, room, stays);
        }
        self.slab.free(buffer)
    }

    /// Maps a buffer for the device (`dma_map_single`).
    ///
    /// # Errors
    /// [`MapError`] if it is not memory.
    pub fn map_single(&self, cpu: CpuAddr, len: u64, direction: Direction) -> Result<DmaAddr, MapError> {
        let dma = self.memory.run(cpu, len).ok_or(MapError::NotMemory { cpu, len })?;
        self.ledger.mapped(dma, len, direction);
        Ok(dma)
    }

    /// Ends a mapping (`dma_unmap_single`). Returns `false` if none begins there.
    pub fn unmap_single(&self, dma: DmaAddr) -> bool {
        self.ledger.unmapped(dma)
    }

    /// Registers what the driver means `len` bytes at `dma` to be. Returns `false` if nothing is there to claim.
    pub fn claim(&self, dma: DmaAddr, len: u64, owner: Owner) -> bool {
        self.ledger.claim(dma, len, owner)
    }

    /// Reads a word of a descriptor.
    ///
    /// # Errors
    /// [`CpuFault`] if it is not mapped or not aligned.
    pub fn load_u32(&self, cpu: CpuAddr) -> Result<u32, CpuFault> {
        self.at(Point::DescriptorRead);
        let value = self.memory.load_u32(cpu)?;
        self.accessed(cpu, 4, AccessKind::Read);
        Ok(value)
    }

    /// Writes a word of a descriptor.
    ///
    /// # Errors
    /// [`CpuFault`] if it is not mapped or not aligned.
    pub fn store_u32(&self, cpu: CpuAddr, value: u32) -> Result<(), CpuFault> {
        self.at(Point::DescriptorWrite);
        self.memory.store_u32(cpu, value)?;
        self.accessed(cpu, 4, AccessKind::Write);
        Ok(())
    }

    /// Copies data out of a buffer.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn read(&self, cpu: CpuAddr, buffer: &mut [u8]) -> Result<(), CpuFault> {
        self.memory.read(cpu, buffer)?;
        self.accessed(cpu, buffer.len() as u64, AccessKind::Read);
        Ok(())
    }

    /// Copies data into a buffer.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn write(&self, cpu: CpuAddr, data: &[u8]) -> Result<(), CpuFault> {
        self.memory.write(cpu, data)?;
        self.accessed(cpu, data.len() as u64, AccessKind::Write);
        Ok(())
    }

    /// Has an access judged that was done.
    fn accessed(&self, cpu: CpuAddr, len: u64, kind: AccessKind) {
        if let Some(dma) = self.memory.dma(cpu) {
            self.ledger.driver_access(&DriverAccess { cpu, dma, len, kind });
        }
    }

    fn at(&self, point: Point) {
        if let Some(preempt) = &self.preempt {
            preempt.at(point);
        }
    }
}

impl fmt::Debug for DmaApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaApi").field("memory", &self.memory).field("policy", &self.policy).finish_non_exhaustive()
    }
}
