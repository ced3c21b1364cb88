//! The client: a driver that hands requests from a pool to a device, one by one, and a secret that it keeps from it.

use bus::{CpuAddr, Mmio, Owner, Width};
use pool::{
    AllocError, Block, CpuFault, CreateError, DestroyError, DmaApi, DmaPool, Flags, FreeError, Geometry, PageError,
};
use thiserror::Error;

use super::interface::{ANSWER, COMMAND, KIND, NOTIFY, REQUEST, REQUEST_SIZE};

/// Requests that are answered and freed: a free list that is long enough to be recognised.
const REQUESTS: u32 = 6;
/// What a request holds behind command and answer. As an offset it ends a page's list.
const FILL: u8 = 0xc5;

/// Bytes of a request, as memory holds them.
type Bytes = [u8; REQUEST_SIZE as usize];

/// The kernel's, and no device's. An attacker chooses a target that begins with a null pointer: a list that is led there
/// ends there, and nothing falls over.
const SECRET: Bytes = *b"\0\0\0\0\0\0\0\0a key of the kernel's, which no device is to be shown...";

/// Why the client cannot go on.
#[derive(Debug, Error)]
pub(super) enum ClientError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    Alloc(#[from] AllocError),
    #[error(transparent)]
    Free(#[from] FreeError),
    #[error(transparent)]
    Destroy(#[from] DestroyError),
    #[error(transparent)]
    Fault(#[from] CpuFault),
    #[error("request {0} is not answered")]
    NotAnswered(u32),
}

/// The client.
pub(super) struct Client {
    dma: DmaApi,
    pool: DmaPool,
    secret: CpuAddr,
    /// Blocks that it holds, the request for notifications first.
    held: Vec<Block>,
}

/// What has changed that nobody but the client may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    Secret,
    Request,
}

impl Client {
    pub(super) fn probe(dma: DmaApi) -> Result<Self, ClientError> {
        let secret = dma.kmalloc(REQUEST_SIZE, Flags::KERNEL)?;
        dma.write(secret, &SECRET)?;
        let pool = dma.create_pool("requests", Geometry { size: REQUEST_SIZE, align: REQUEST_SIZE, boundary: 0 })?;
        Ok(Self { dma, pool, secret, held: Vec::new() })
    }

    /// Where the secret is.
    pub(super) const fn secret(&self) -> CpuAddr {
        self.secret
    }

    /// Has the device keep a request, and answer others, which are freed in the order in which they were made.
    pub(super) fn serve(&mut self, device: &dyn Mmio) -> Result<(), ClientError> {
        let kept = self.submit(device, 0, NOTIFY)?;
        self.held.push(kept);
        let mut answered = Vec::new();
        for index in 1..=REQUESTS {
            answered.push(self.submit(device, index, index)?);
        }
        for (index, block) in (1..).zip(answered) {
            let answer = self.dma.load_u32(block.cpu.offset(ANSWER));
            self.pool.free(block)?;
            if answer? != !index {
                return Err(ClientError::NotAnswered(index));
            }
        }
        Ok(())
    }

    fn submit(&self, device: &dyn Mmio, index: u32, command: u32) -> Result<Block, ClientError> {
        let block = self.pool.alloc(Flags::KERNEL.zeroed())?;
        self.dma.claim(block.dma, REQUEST_SIZE, Owner::new(&KIND, index));
        self.dma.write(block.cpu, &request(command))?;
        device.write(REQUEST, Width::U64, block.dma.0);
        Ok(block)
    }

    /// Takes the next block, zeroed, and makes a request of it.
    pub(super) fn take(&mut self) -> Result<Block, ClientError> {
        let block = self.pool.alloc(Flags::KERNEL.zeroed())?;
        self.held.push(block);
        self.dma.write(block.cpu, &request(REQUESTS + self.held.len() as u32))?;
        Ok(block)
    }

    /// What others have changed.
    pub(super) fn harm(&self) -> Result<Vec<Harm>, ClientError> {
        let mut harm = Vec::new();
        if self.bytes(self.secret)? != SECRET {
            harm.push(Harm::Secret);
        }
        if let Some(kept) = self.held.first()
            && self.bytes(kept.cpu)? != request(NOTIFY)
        {
            harm.push(Harm::Request);
        }
        Ok(harm)
    }

    fn bytes(&self, cpu: CpuAddr) -> Result<Bytes, CpuFault> {
        let mut bytes = [0; REQUEST_SIZE as usize];
        self.dma.read(cpu, &mut bytes)?;
        Ok(bytes)
    }

    /// Gives everything back, as far as it goes.
    pub(super) fn remove(&self) -> Result<(), ClientError> {
        let freed = self.held.iter().map(|&block| self.pool.free(block)).fold(Ok(()), Result::and);
        let destroyed = self.pool.destroy();
        self.dma.kfree(self.secret);
        freed?;
        Ok(destroyed?)
    }
}

fn request(command: u32) -> Bytes {
    let mut bytes = [FILL; REQUEST_SIZE as usize];
    let words = [command, 0].map(u32::to_le_bytes);
    bytes[COMMAND as usize..][..4].copy_from_slice(&words[0]);
    bytes[ANSWER as usize..][..4].copy_from_slice(&words[1]);
    bytes
}
