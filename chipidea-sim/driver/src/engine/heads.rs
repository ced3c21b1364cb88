//! Where the dQHs live.

use bus::Owner;
use pool::{Block, DmaApi, DmaPool, Flags, Geometry, Pages};
use usb::EndpointAddress;

use super::{ALIGN, BOUNDARY};
use crate::config::DqhSource;
use crate::dqh::{self, QueueHead};
use crate::endpoint::Endpoint;
use crate::error::EngineError;
use crate::names::{DQH, slot_of};

const NAME: &str = "ci_hw_qh";

/// The source of dQHs.
pub(super) enum Heads {
    /// A pool; each dQH is a block of its own (`init_eps`).
    Pool(DmaPool),
    /// One array, until it was given back.
    Static(Option<Pages>),
}

impl Heads {
    /// Opens a source for the dQHs of `endpoints` endpoint numbers.
    pub(super) fn new(dma: &DmaApi, source: DqhSource, endpoints: u8) -> Result<Self, EngineError> {
        Ok(match source {
            DqhSource::Pool => {
                let geometry = Geometry { size: dqh::SIZE, align: ALIGN, boundary: BOUNDARY };
                Self::Pool(dma.create_pool(NAME, geometry)?)
            }
            // A page is aligned to more than 2 KiB.
            DqhSource::Static => {
                Self::Static(Some(dma.alloc_coherent(2 * u64::from(endpoints) * dqh::STRIDE, Flags::KERNEL.zeroed())?))
            }
        })
    }

    /// The next dQH. The driver takes endpoint numbers in order, and OUT before IN.
    pub(super) fn allocate(&mut self, dma: &DmaApi, address: EndpointAddress) -> Result<QueueHead, EngineError> {
        let slot = slot_of(address);
        let block = match self {
            Self::Pool(pool) => pool.alloc(Flags::KERNEL.zeroed())?,
            Self::Static(pages) => {
                let pages = pages.ok_or(EngineError::ShutDown)?;
                let offset = u64::from(slot) * dqh::STRIDE;
                Block { cpu: pages.cpu.offset(offset), dma: pages.dma.offset(offset) }
            }
        };
        dma.claim(block.dma, dqh::STRIDE, Owner::new(&DQH, slot));
        Ok(QueueHead { block })
    }

    /// Gives back the dQHs of `endpoints` (`destroy_eps`).
    pub(super) fn free(&self, endpoints: &[Endpoint]) -> Result<(), EngineError> {
        let Self::Pool(pool) = self else { return Ok(()) };
        let mut result = Ok(());
        for endpoint in endpoints {
            let freed = pool.free(endpoint.head.block);
            result = result.and(freed.map_err(|error| EngineError::Free { name: NAME, error }));
        }
        result
    }

    /// Gives back the source.
    pub(super) fn destroy(&mut self, dma: &DmaApi) -> Result<(), EngineError> {
        match self {
            Self::Pool(pool) => pool.destroy().map_err(|error| EngineError::DestroyPool { name: NAME, error }),
            Self::Static(pages) => {
                if let Some(pages) = pages.take() {
                    dma.free_coherent(pages);
                }
                Ok(())
            }
        }
    }
}
