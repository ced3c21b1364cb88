//! What lies behind a DMA port.

use std::sync::atomic::Ordering;

use bus::DmaAddr;
use thiserror::Error;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Why an access of a device failed. The bus gives no more than this: the device sees a system bus error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DmaError {
    /// No memory answers at this address.
    #[error("no memory at {addr}, {len} bytes")]
    NoMemory {
        /// First byte.
        addr: DmaAddr,
        /// Length in bytes.
        len: u64,
    },
    /// An atomic access that is not aligned to its size.
    #[error("{addr} is not aligned to {size} bytes")]
    Misaligned {
        /// The address.
        addr: DmaAddr,
        /// Size of the access in bytes.
        size: u64,
    },
    /// A [`crate::DmaFault`] made it fail.
    #[error("injected fault at {addr}")]
    Injected {
        /// First byte.
        addr: DmaAddr,
    },
}

/// Memory that devices reach by [`DmaAddr`].
pub trait DmaMemory: Send + Sync {
    /// Copies bytes from memory.
    ///
    /// # Errors
    /// If any byte of the range is not there; the buffer may then be partly written.
    fn read(&self, addr: DmaAddr, buffer: &mut [u8]) -> Result<(), DmaError>;

    /// Copies bytes to memory.
    ///
    /// # Errors
    /// If any byte of the range is not there; the part before it may have been written.
    fn write(&self, addr: DmaAddr, data: &[u8]) -> Result<(), DmaError>;

    /// Reads an aligned word in one access.
    ///
    /// # Errors
    /// If it is not there or not aligned.
    fn load_u32(&self, addr: DmaAddr, order: Ordering) -> Result<u32, DmaError>;

    /// Writes an aligned word in one access.
    ///
    /// # Errors
    /// If it is not there or not aligned.
    fn store_u32(&self, addr: DmaAddr, value: u32, order: Ordering) -> Result<(), DmaError>;
}

impl DmaMemory for GuestMemoryMmap {
    fn read(&self, addr: DmaAddr, buffer: &mut [u8]) -> Result<(), DmaError> {
        self.read_slice(buffer, GuestAddress(addr.0)).map_err(|_| DmaError::NoMemory { addr, len: buffer.len() as u64 })
    }

    fn write(&self, addr: DmaAddr, data: &[u8]) -> Result<(), DmaError> {
        self.write_slice(data, GuestAddress(addr.0)).map_err(|_| DmaError::NoMemory { addr, len: data.len() as u64 })
    }

    fn load_u32(&self, addr: DmaAddr, order: Ordering) -> Result<u32, DmaError> {
        word(addr)?;
        let value: u32 = self.load(GuestAddress(addr.0), order).map_err(|_| DmaError::NoMemory { addr, len: 4 })?;
        Ok(u32::from_le(value))
    }

    fn store_u32(&self, addr: DmaAddr, value: u32, order: Ordering) -> Result<(), DmaError> {
        word(addr)?;
        self.store(value.to_le(), GuestAddress(addr.0), order).map_err(|_| DmaError::NoMemory { addr, len: 4 })
    }
}

fn word(addr: DmaAddr) -> Result<(), DmaError> {
    if addr.is_aligned(4) { Ok(()) } else { Err(DmaError::Misaligned { addr, size: 4 }) }
}
