//! DMA pools, the memory they cut up, and the ledger that watches them.
//!
//! - [`Memory`]: a machine's memory, with one address for the processor and another for devices
//! - [`PageSource`]: where pools get their pages; [`PageAllocator`] runs forward, backward or scattered
//! - [`Pool`]: what dma_pool promises; [`policy`]: Linux's policies old, new and proposed, a hardened one, and hostile ones
//! - [`contract`]: a pool held against what dma_pool promises, before any device
//! - [`Ledger`]: every block and mapping, who owns it, and what a device did to it ([`Finding`])
//! - [`sg`]: scatter-gather tables, and four allocators that their chunks come from
//! - [`observed`]: what a real machine's pools did, read into a ledger from its own log
//! - [`DmaApi`]: a driver's view of all this, after Linux's DMA API
//! - [`AllocFailures`]: allocations that are made to fail
//!
//! *Not here*: IOMMU, non-coherent caches, highmem.

mod ageing;
mod api;
pub mod contract;
mod driver_access;
mod error;
mod failing;
mod finding;
mod free_pages;
mod ledger;
mod memory;
pub mod observed;
mod page;
pub mod policy;
mod pool;
pub mod sg;
mod slab;
mod watched;

pub use ageing::NEIGHBOUR;
pub use api::{Direction, DmaApi, MapError};
pub use driver_access::{DriverAccess, Wild};
pub use error::{AllocError, CreateError, DestroyError, FreeError};
pub use failing::AllocFailures;
pub use finding::{Blame, BlockState, Finding, Found, LayoutFinding, Promise};
pub use ledger::{AddressOrder, Counts, Ledger, Place};
pub use memory::{CpuFault, Memory, MemoryError, Span};
pub use page::{PageAllocator, PageError, PageOrder, PageOrderError, PageSource, Pages};
pub use policy::Policy;
pub use pool::{Block, Flags, Geometry, Layout, Metadata, MetadataField, Pool, Remark};
pub use slab::Slab;
pub use watched::DmaPool;
