//! Why a bench cannot be set up.

use bus::CpuAddr;
use thiserror::Error;

/// Why a bench cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchError {
    /// The controller has 2 to 16 endpoint numbers.
    #[error("{0} endpoints: a controller has 2 to 16 endpoint numbers, endpoint 0 included")]
    Endpoints(u8),
    /// The scenario needs more of the controller.
    #[error("scenario {scenario} needs {needed} endpoint numbers, the controller has {endpoints}")]
    TooFewEndpoints {
        /// The scenario.
        scenario: String,
        /// What it needs.
        needed: u8,
        /// What there is.
        endpoints: u8,
    },
    /// The page size is none that Linux has.
    #[error("page size {0}: it is 4096, 16384 or 65536 bytes")]
    PageSize(u64),
    /// The processor's base address cannot be that.
    #[error(
        "processor's base {0}: a multiple of 4 KiB, not 0, with 16 MiB behind it that share no address with the devices' \
         (0x80000000 to 0x81000000)"
    )]
    CpuBase(CpuAddr),
    /// With memory above 4 GiB the processor's base address cannot be that.
    #[error(
        "processor's base {0}: with a DMA mask beyond 32 bits memory goes on 2 GiB behind it, 4 MiB long; that must end below \
         2^64 and share no address with the devices'"
    )]
    HighMemory(CpuAddr),
    /// A DMA mask has that many bits.
    #[error("a DMA mask of {0} bits: it has 32 to 64")]
    DmaMask(u32),
    /// A schedule names what is not there.
    #[error(
        "schedule: there is no `{name}` in scenario {scenario}; acts: {}, places in the device's work: {places}; \
         irq delays interrupts",
        if acts.is_empty() { "none, it is not raced" } else { acts }
    )]
    UnknownStep {
        /// The act or place.
        name: String,
        /// The scenario.
        scenario: String,
        /// The acts that it has.
        acts: String,
        /// The places that the device has.
        places: String,
    },
    /// No pool, or no scenario.
    #[error("nothing to check: no {0}")]
    Nothing(&'static str),
    /// There is no such scenario.
    #[error("there is no scenario {name}; there are: {known}")]
    UnknownScenario {
        /// As asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The memory cannot be had.
    #[error(transparent)]
    Memory(#[from] pool::MemoryError),
    /// The operating system gave no event loop.
    #[error("no runtime: {0}")]
    Runtime(String),
}
