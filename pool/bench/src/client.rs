//! Who uses the pool in the loops that are timed. Each kind of pool has its own copy of them.

use std::convert::Infallible;

use bus::DmaAddr;
use c_bridge::{Bare, BareBlock, BarePool};
use pool::{AllocError, Block, Flags, FreeError, Pool};
use vm_memory::{Bytes, VolatileSlice};

use crate::error::{BenchError, NoBlock};
use crate::memory::BenchMemory;

/// A pool that threads use, each as a client of its own.
pub(crate) trait Measured: Sync {
    type Client<'a>: Client
    where
        Self: 'a;

    /// Runs `body` as a client on this thread.
    ///
    /// # Errors
    /// Those of `body`, or that there is no client.
    fn enter<T>(&self, body: impl FnOnce(&Self::Client<'_>) -> Result<T, BenchError>) -> Result<T, BenchError>;
}

/// A pool's client on one thread.
pub(crate) trait Client {
    /// A block that is in use.
    type Held;
    /// Why there is none. As the pool has it: what is done to an answer before it is looked at would be in the figures.
    type AllocError: Into<BenchError>;
    /// Why it was not taken back.
    type FreeError: Into<BenchError>;

    /// Takes a block, atomically (GFP_ATOMIC).
    fn alloc(&self) -> Result<Self::Held, Self::AllocError>;

    /// Gives a block back.
    fn free(&self, block: Self::Held) -> Result<(), Self::FreeError>;

    /// Writes a whole block by a copy, the same for each kind.
    fn write(&self, block: &Self::Held) -> Result<(), BenchError>;
}

/// A pool of Rust, called as all its clients call it.
pub(crate) struct RustPool<'a> {
    pub(crate) pool: &'a dyn Pool,
    pub(crate) memory: &'a BenchMemory,
    /// What a block is filled with.
    pub(crate) bytes: &'a [u8],
}

pub(crate) struct RustClient<'a> {
    pool: &'a dyn Pool,
    memory: VolatileSlice<'a>,
    base: DmaAddr,
    bytes: &'a [u8],
}

impl Measured for RustPool<'_> {
    type Client<'a>
        = RustClient<'a>
    where
        Self: 'a;

    fn enter<T>(&self, body: impl FnOnce(&RustClient<'_>) -> Result<T, BenchError>) -> Result<T, BenchError> {
        let (memory, base) = self.memory.whole()?;
        body(&RustClient { pool: self.pool, memory, base, bytes: self.bytes })
    }
}

impl Client for RustClient<'_> {
    type Held = Block;
    type AllocError = AllocError;
    type FreeError = FreeError;

    #[inline]
    fn alloc(&self) -> Result<Block, AllocError> {
        self.pool.alloc(Flags::ATOMIC)
    }

    #[inline]
    fn free(&self, block: Block) -> Result<(), FreeError> {
        self.pool.free(block)
    }

    #[inline]
    fn write(&self, block: &Block) -> Result<(), BenchError> {
        let offset = block.dma.0.wrapping_sub(self.base.0) as usize;
        self.memory.write_slice(self.bytes, offset).map_err(|_| BenchError::Outside(*block))
    }
}

/// A pool of a kernel's C file, its functions called by their addresses.
pub(crate) struct KernelPool<'a> {
    pub(crate) pool: &'a BarePool,
    /// What a block is filled with.
    pub(crate) bytes: &'a [u8],
}

pub(crate) struct KernelClient<'a> {
    pool: &'a Bare<'a>,
    bytes: &'a [u8],
}

impl Measured for KernelPool<'_> {
    type Client<'a>
        = KernelClient<'a>
    where
        Self: 'a;

    fn enter<T>(&self, body: impl FnOnce(&KernelClient<'_>) -> Result<T, BenchError>) -> Result<T, BenchError> {
        self.pool.enter(|pool| body(&KernelClient { pool, bytes: self.bytes }))
    }
}

impl Client for KernelClient<'_> {
    type Held = BareBlock;
    type AllocError = NoBlock;
    type FreeError = Infallible;

    #[inline]
    fn alloc(&self) -> Result<BareBlock, NoBlock> {
        self.pool.alloc().ok_or(NoBlock)
    }

    #[inline]
    fn free(&self, block: BareBlock) -> Result<(), Infallible> {
        self.pool.free(block);
        Ok(())
    }

    #[inline]
    fn write(&self, block: &BareBlock) -> Result<(), BenchError> {
        self.pool.write(block, self.bytes);
        Ok(())
    }
}
