//! Why a bench of tables ends without figures.

use pool::MemoryError;
use pool::sg::ChunkError;
use thiserror::Error;

use crate::error::BenchError;

/// What went wrong while tables were measured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SgError {
    /// There is no memory to measure in.
    #[error("memory for the bench: {0}")]
    Memory(#[from] MemoryError),
    /// A source failed.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// A table failed.
    #[error(transparent)]
    Table(#[from] pool::sg::SgError),
    /// There is no clock.
    #[error(transparent)]
    Clock(#[from] BenchError),
    /// One of the above, of this subject.
    #[error("{subject}: {error}")]
    Of {
        /// The subject's name.
        subject: String,
        /// What went wrong.
        error: Box<SgError>,
    },
}

impl SgError {
    /// The same, of this subject.
    pub(super) fn of(self, subject: &str) -> Self {
        Self::Of { subject: subject.to_owned(), error: Box::new(self) }
    }
}
