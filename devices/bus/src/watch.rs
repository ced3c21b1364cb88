//! Watching what a device does to memory.

use crate::{Belief, DmaAddr, Kind};

/// Which way a device accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// The device reads memory.
    Read,
    /// The device writes memory.
    Write,
}

/// One access of a device.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// First byte.
    pub addr: DmaAddr,
    /// Length in bytes.
    pub len: u64,
    /// Which way.
    pub kind: AccessKind,
    /// What the device takes it for.
    pub belief: Belief,
}

/// What a device assumes of the memory behind a base address register: an array of equal objects.
#[derive(Debug)]
pub struct LayoutContract {
    /// Name of the register that takes the base address.
    pub register: &'static str,
    /// The assumption in words, for people.
    pub statement: &'static str,
    /// Where it is specified.
    pub source: &'static str,
    /// Alignment of the base, a power of two. The hardware drops the bits below.
    pub align: u64,
    /// What lies there; object n has index n.
    pub kind: &'static Kind,
    /// Size of an object in bytes.
    pub size: u64,
    /// Distance from one object to the next in bytes.
    pub stride: u64,
}

/// How a driver fills what a [`LayoutContract`] is about: object n is the n-th block of a pool, counted from its creation to
/// the first free, and the register takes the first.
#[derive(Debug)]
pub struct PoolLayout {
    /// Name of the pool (`dma_pool_create`).
    pub pool: &'static str,
    /// The contract.
    pub contract: &'static LayoutContract,
    /// Who assumes it: driver and function.
    pub assumed_by: &'static str,
}

/// An observer of a device's accesses. It judges, it does not forbid: without an IOMMU nothing would.
///
/// Called with the device's lock held: an implementation takes its own lock at most and calls nobody.
pub trait Watch: Send + Sync {
    /// The device is about to do `access`.
    fn access(&self, access: &Access);

    /// The device is about to write `data`: [`Watch::access`] for one who wants to know what.
    fn write(&self, access: &Access, data: &[u8]) {
        let _ = data;
        self.access(access);
    }

    /// The driver wrote `written` to `contract.register`, before the hardware masks it; `count` objects follow.
    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32);
}
