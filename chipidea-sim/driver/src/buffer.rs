//! Data buffers: allocated once, mapped for each request (Linux: a function's `kmalloc`, and
//! `usb_gadget_map_request_by_dev`).

use bus::{CpuAddr, DmaAddr, Owner};
use pool::{Direction, DmaApi, Flags};

use crate::error::EngineError;
use crate::names::BUFFER;

/// Buffers that are kept for the next request. More go back at once.
const KEPT: usize = 64;
const SMALLEST: u64 = 32;

/// A buffer that is mapped for one request.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    allocation: CpuAddr,
    capacity: u64,
    /// The data, for the processor.
    pub cpu: CpuAddr,
    /// The data, for the controller.
    pub dma: DmaAddr,
}

/// Buffers of finished requests, as a function keeps its own.
#[derive(Debug)]
pub struct Buffers {
    headroom: u64,
    /// Capacity and address.
    free: Vec<(u64, CpuAddr)>,
}

impl Buffers {
    /// None yet; each will have `headroom` bytes before its data.
    #[must_use]
    pub fn new(headroom: u16) -> Self {
        Self { headroom: u64::from(headroom), free: Vec::with_capacity(KEPT) }
    }

    /// A mapped buffer of `len` bytes for the endpoint in `slot`, not 0.
    ///
    /// # Errors
    /// No memory.
    pub fn map(&mut self, dma: &DmaApi, len: u64, direction: Direction, slot: u32) -> Result<Buffer, EngineError> {
        let capacity = (len + self.headroom).max(SMALLEST).next_power_of_two();
        let kept = self.free.iter().position(|&(size, _)| size == capacity);
        let allocation = match kept {
            Some(index) => self.free.swap_remove(index).1,
            None => dma.kmalloc(capacity, Flags::ATOMIC)?,
        };
        let cpu = allocation.offset(self.headroom);
        match dma.map_single(cpu, len, direction) {
            Ok(addr) => {
                dma.claim(addr, len, Owner::new(&BUFFER, slot));
                Ok(Buffer { allocation, capacity, cpu, dma: addr })
            }
            Err(error) => {
                dma.kfree(allocation);
                Err(error.into())
            }
        }
    }

    /// Takes back a buffer whose mapping has ended.
    pub fn keep(&mut self, dma: &DmaApi, buffer: Buffer) {
        if self.free.len() < KEPT {
            self.free.push((buffer.capacity, buffer.allocation));
        } else {
            dma.kfree(buffer.allocation);
        }
    }

    /// Gives all buffers back.
    pub fn release(&mut self, dma: &DmaApi) {
        for (_, allocation) in self.free.drain(..) {
            dma.kfree(allocation);
        }
    }
}
