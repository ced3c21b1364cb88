//! The client: takes blocks one by one and hands the first one's address to a device that walks an array.

use bus::{Kind, Mmio, Owner, Width};
use pool::{AllocError, Block, CpuFault, CreateError, DestroyError, DmaApi, DmaPool, Flags, FreeError, Geometry};
use thiserror::Error;

use super::interface::{ANSWER, COMMAND, DOORBELL, ENTRY_SIZE, TABLE_BASE, TABLE_COUNT};

/// An entry, as the client numbers it.
static ENTRY: Kind = Kind { name: "table entry", label: |index, f| write!(f, "table entry {index}") };

/// Why the client cannot go on.
#[derive(Debug, Error)]
pub(super) enum ClientError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Alloc(#[from] AllocError),
    #[error(transparent)]
    Free(#[from] FreeError),
    #[error(transparent)]
    Destroy(#[from] DestroyError),
    #[error(transparent)]
    Fault(#[from] CpuFault),
}

/// The client.
pub(super) struct Client {
    dma: DmaApi,
    pool: DmaPool,
    /// In the order in which the pool handed them out, which is taken for that of the table.
    entries: Vec<Block>,
}

impl Client {
    /// Takes entries for a page and a half.
    pub(super) fn probe(dma: DmaApi, page_size: u64) -> Result<Self, ClientError> {
        let pool = dma.create_pool("table", Geometry { size: ENTRY_SIZE, align: ENTRY_SIZE, boundary: 0 })?;
        let mut client = Self { dma, pool, entries: Vec::new() };
        for index in 0..(page_size + page_size / 2) / ENTRY_SIZE {
            match client.pool.alloc(Flags::KERNEL.zeroed()) {
                Ok(block) => {
                    client.dma.claim(block.dma, ENTRY_SIZE, Owner::new(&ENTRY, index as u32));
                    client.entries.push(block);
                }
                Err(error) => {
                    // The first failure is the one to tell.
                    let _ = client.remove();
                    return Err(error.into());
                }
            }
        }
        Ok(client)
    }

    /// Entries of the table.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Has the device walk the table. Returns how many entries it answered.
    pub(super) fn run(&self, device: &dyn Mmio) -> Result<usize, ClientError> {
        let command = |index: usize| 0x8000_0000 | index as u32;
        for (index, entry) in self.entries.iter().enumerate() {
            self.dma.store_u32(entry.cpu.offset(COMMAND), command(index))?;
        }
        let Some(first) = self.entries.first() else { return Ok(0) };
        device.write(TABLE_BASE, Width::U64, first.dma.0);
        device.write32(TABLE_COUNT, self.entries.len() as u32);
        device.write32(DOORBELL, 1);
        let mut answered = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let answer = self.dma.load_u32(entry.cpu.offset(ANSWER))?;
            answered += usize::from(answer == !command(index));
        }
        Ok(answered)
    }

    /// Gives everything back.
    pub(super) fn remove(&self) -> Result<(), ClientError> {
        let mut result = Ok(());
        for entry in &self.entries {
            result = result.and(self.pool.free(*entry));
        }
        result?;
        Ok(self.pool.destroy()?)
    }
}
