//! Why a bench ends without figures.

use std::convert::Infallible;

use pool::{AllocError, Block, CreateError, DestroyError, FreeError, MemoryError};
use thiserror::Error;

use crate::sets::Set;

/// What went wrong while pools were measured. Nothing here is a figure's fault: a pool that fails has none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchError {
    /// There is no memory to measure in.
    #[error("memory for the bench: {0}")]
    Memory(#[from] MemoryError),
    /// The pool could not be made.
    #[error("a pool could not be created: {0}")]
    Create(#[from] CreateError),
    /// The pool handed out no block.
    #[error("a block could not be allocated: {0}")]
    Alloc(#[from] AllocError),
    /// A kernel's pool handed out no block.
    #[error("a block could not be allocated: {0}")]
    NoBlock(#[from] NoBlock),
    /// The pool did not take a block back that was its own.
    #[error("a block could not be freed: {0}")]
    Free(#[from] FreeError),
    /// The pool did not go away though every block was freed.
    #[error("the pool could not be destroyed: {0}")]
    Destroy(#[from] DestroyError),
    /// A block lies where no memory is.
    #[error("the pool handed out {} for devices, where no memory is", .0.dma)]
    Outside(Block),
    /// There is no clock for the time of a thread.
    #[error("the clock of the thread's CPU time cannot be read: {0}")]
    Clock(String),
    /// One of the above, of this pool on this set.
    #[error("{subject} on {set}: {error}")]
    Of {
        /// The subject's name.
        subject: String,
        /// The set.
        set: String,
        /// What went wrong.
        error: Box<BenchError>,
    },
}

/// `dma_pool_alloc` returned NULL; it does not say why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("dma_pool_alloc returned NULL")]
pub struct NoBlock;

impl From<Infallible> for BenchError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl BenchError {
    /// The same, of this subject on this set.
    pub(crate) fn of(self, subject: &str, set: &Set) -> Self {
        Self::Of { subject: subject.to_owned(), set: set.to_string(), error: Box::new(self) }
    }
}
