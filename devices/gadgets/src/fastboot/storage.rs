//! Partitions in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use super::sparse;

/// Why a partition cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StorageError {
    /// There is no partition of that name.
    #[error("no such partition")]
    NoPartition,
    /// The image is larger than the partition; a sparse one, once it is unpacked.
    #[error("image of {image} bytes, partition of {partition}")]
    TooLarge {
        /// Size of the image in bytes.
        image: u64,
        /// Size of the partition in bytes.
        partition: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Partition {
    size: u64,
    /// What was flashed, which is the image that was downloaded until another is.
    data: Arc<Vec<u8>>,
}

/// Named partitions of fixed size. Only what was flashed takes memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    partitions: BTreeMap<String, Partition>,
}

impl Storage {
    /// Empty partitions, each a name and a size in bytes.
    #[must_use]
    pub fn new<N: Into<String>>(partitions: impl IntoIterator<Item = (N, u64)>) -> Self {
        let partition = |(name, size): (N, u64)| (name.into(), Partition { size, data: Arc::default() });
        Self { partitions: partitions.into_iter().map(partition).collect() }
    }

    /// Names and sizes in bytes, by name.
    pub fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.partitions.iter().map(|(name, partition)| (name.as_str(), partition.size))
    }

    /// Size of a partition in bytes.
    #[must_use]
    pub fn size(&self, name: &str) -> Option<u64> {
        self.partitions.get(name).map(|partition| partition.size)
    }

    /// What was flashed to a partition, a sparse image as it came; nothing after an erase.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<&[u8]> {
        self.partitions.get(name).map(|partition| partition.data.as_slice())
    }

    /// Replaces the content of a partition.
    ///
    /// # Errors
    /// [`StorageError`] if it does not exist or is too small; its content stays.
    pub fn flash(&mut self, name: &str, image: Arc<Vec<u8>>) -> Result<(), StorageError> {
        let partition = self.partitions.get_mut(name).ok_or(StorageError::NoPartition)?;
        let image_size = sparse::unpacked(&image).unwrap_or(image.len() as u64);
        if image_size > partition.size {
            return Err(StorageError::TooLarge { image: image_size, partition: partition.size });
        }
        partition.data = image;
        Ok(())
    }

    /// Empties a partition.
    ///
    /// # Errors
    /// [`StorageError::NoPartition`].
    pub fn erase(&mut self, name: &str) -> Result<(), StorageError> {
        let partition = self.partitions.get_mut(name).ok_or(StorageError::NoPartition)?;
        partition.data = Arc::default();
        Ok(())
    }
}
