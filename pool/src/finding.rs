//! What the ledger noticed.

use std::fmt;

use bus::{Access, AccessKind, DmaAddr, LayoutContract, Owner};

use crate::driver_access::{DriverAccess, Wild};
use crate::ledger::AddressOrder;
use crate::pool::Block;

/// Whose promise or assumption a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The pool broke what dma_pool promises.
    Pool,
    /// A driver or device assumed more than the pool promises, or used memory that it does not own.
    Client,
}

/// A promise of dma_pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Live blocks do not overlap.
    NoOverlap,
    /// Blocks are aligned.
    Alignment,
    /// Blocks cross no boundary.
    Boundary,
    /// A zeroed block is zero.
    Zeroing,
    /// Blocks lie in pages of the pool.
    OwnPages,
    /// The two addresses of a block are the same memory.
    SameMemory,
    /// Nothing sleeps when it must not.
    NoSleep,
    /// A failure or a refusal leaves the pool as it was.
    Unwind,
    /// What is freed is handed out again, and destroying an idle pool gives all pages back.
    NoLeak,
    /// A geometry that cannot be kept is refused, any other is taken.
    Geometry,
    /// Destroying a pool that is in use is refused, and takes no block away.
    Busy,
    /// Every call returns, and leaves the kernel's memory and locks in order.
    Sound,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Geometry,
        Self::NoOverlap,
        Self::Alignment,
        Self::Boundary,
        Self::Zeroing,
        Self::OwnPages,
        Self::SameMemory,
        Self::NoSleep,
        Self::Unwind,
        Self::NoLeak,
        Self::Busy,
        Self::Sound,
    ];

    /// The promise in words.
    #[must_use]
    pub const fn statement(self) -> &'static str {
        match self {
            Self::NoOverlap => "live blocks do not overlap, and keep what their holder wrote",
            Self::Alignment => "blocks are aligned",
            Self::Boundary => "blocks cross no boundary",
            Self::Zeroing => "a block asked for zeroed is zero, however dirty it was freed",
            Self::OwnPages => "blocks lie in pages that the source gave the pool",
            Self::SameMemory => "the two addresses of a block are the same memory",
            Self::NoSleep => "nothing sleeps when it must not",
            Self::Unwind => "a failure of the page source, or a refused free, leaves the pool as it was",
            Self::NoLeak => "freed blocks come again, and an idle pool gives all pages back",
            Self::Geometry => "a geometry that cannot be kept is refused, any other is taken",
            Self::Busy => "a pool in use is not destroyed, and no live block's page is given back",
            Self::Sound => {
                "every call returns: no fault, no deadlock, no endless loop, no damage to the kernel's own memory"
            }
        }
    }
}

/// What stands behind a block of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// It was never handed out.
    NeverAllocated,
    /// It was freed; the owner it had last and how often it has been handed out.
    Freed {
        /// The driver's last claim.
        owner: Option<Owner>,
        /// How often the block was handed out.
        generation: u32,
    },
}

/// What lies where a layout contract wants an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A live block or mapping with a claim on it.
    Claimed(Owner),
    /// A live block without a claim.
    Unclaimed,
    /// A free block of the pool with this name.
    FreeBlock(String, BlockState),
    /// Memory of the pool with this name that it never handed out, and that is no block as far as is known.
    PoolMemory(String),
    /// The middle of something.
    Interior,
    /// Memory that no one mapped, or none.
    Unmapped,
}

/// A broken layout contract: its first difference.
#[derive(Clone, Debug)]
pub struct LayoutFinding {
    /// The contract.
    pub contract: &'static LayoutContract,
    /// What the driver wrote to the register.
    pub written: DmaAddr,
    /// What the hardware makes of it.
    pub effective: DmaAddr,
    /// Index of the first object that is not there.
    pub slot: u32,
    /// Where it would have to be.
    pub expected_at: DmaAddr,
    /// What is there.
    pub found: Found,
    /// Whether what is there was all zero when the register was written; `None` without memory.
    pub was_zero: Option<bool>,
    /// Where the driver's object of that index is, if anywhere.
    pub claimed_at: Option<DmaAddr>,
    /// The pool that the driver's objects came from, and the order in which it handed out blocks.
    pub order: Option<(String, AddressOrder)>,
}

/// Something that should not have happened, and is recorded rather than prevented.
#[derive(Clone, Debug)]
pub enum Finding {
    /// The device read a block of a pool that is free.
    ReadOfFreedBlock {
        /// The access.
        access: Access,
        /// The pool.
        pool: String,
        /// What the block was.
        state: BlockState,
    },
    /// The device wrote a block of a pool that is free.
    WriteToFreedBlock {
        /// The access.
        access: Access,
        /// The pool.
        pool: String,
        /// What the block was.
        state: BlockState,
        /// Offset of the write in the block, in bytes.
        offset: u64,
        /// The pool's own data that the write hit.
        damaged: Vec<&'static str>,
    },
    /// The device reached memory of a pool that is in none of its blocks: a gap at a boundary, what is left of a page.
    OutsideBlocks {
        /// The access.
        access: Access,
        /// The pool.
        pool: String,
        /// The pool's own data in free blocks that a write ran into.
        damaged: Vec<&'static str>,
    },
    /// One access touched a live block and what lies behind it.
    CrossesBlocks {
        /// The access.
        access: Access,
        /// The pool.
        pool: String,
        /// The block that it began in.
        owner: Option<Owner>,
        /// Bytes of the access inside that block.
        inside: u64,
    },
    /// An access to memory that no one mapped for the device, or to no memory.
    Unmapped {
        /// The access.
        access: Access,
    },
    /// An access against the direction of the mapping.
    AgainstDirection {
        /// The access.
        access: Access,
    },
    /// The driver itself used a block of a pool that is free.
    DriverUseAfterFree {
        /// The access.
        access: DriverAccess,
        /// The pool.
        pool: String,
        /// What the block was.
        state: BlockState,
        /// Offset of the access in the block, in bytes.
        offset: u64,
        /// The pool's own data that a write hit.
        damaged: Vec<&'static str>,
    },
    /// One access of the driver touched a live block and what lies behind it.
    DriverCrossesBlocks {
        /// The access.
        access: DriverAccess,
        /// The pool.
        pool: String,
        /// The block that it began in.
        owner: Option<Owner>,
        /// Bytes of the access before the end of that block.
        inside: u64,
        /// The pool's own data in free blocks that a write hit.
        damaged: Vec<&'static str>,
    },
    /// The driver reached memory that nobody gave it.
    DriverWildAccess {
        /// The access.
        access: DriverAccess,
        /// What it is.
        wild: Wild,
    },
    /// The pool broke a promise after its own data in DMA memory had been rewritten, such as by handing out an address that
    /// it does not own.
    AttackerAddress {
        /// The pool.
        pool: String,
        /// What it handed out.
        block: Block,
        /// The promise.
        promise: Promise,
        /// What was seen of that.
        seen: String,
        /// The write to its own data that explains it, the first that was seen if none of them does: by whom, what, where,
        /// over what.
        written: String,
        /// Blocks that the pool has handed out since, this one counted.
        allocations: u64,
    },
    /// A pool broke a promise.
    PoolContract {
        /// The pool.
        pool: String,
        /// The promise.
        promise: Promise,
        /// What was seen.
        seen: String,
    },
    /// The driver freed what it does not own.
    WrongFree {
        /// The pool.
        pool: String,
        /// What was freed.
        block: Block,
        /// What stood there.
        seen: String,
    },
    /// The driver is gone, and did not give back what it had.
    Leaked {
        /// Blocks of pools.
        blocks: usize,
        /// Mappings, coherent memory among them.
        mappings: usize,
        /// Buffers of `kmalloc`.
        buffers: usize,
        /// Pools that were not destroyed, by name, in the order of their creation.
        pools: Vec<String>,
        /// Whose blocks and mappings they are, by rising address: at most 8 names.
        owners: Vec<String>,
    },
    /// A layout contract does not hold.
    LayoutContract(Box<LayoutFinding>),
}

impl Finding {
    /// Its name, as verdicts and records use it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ReadOfFreedBlock { .. } => "ReadOfFreedBlock",
            Self::WriteToFreedBlock { .. } => "WriteToFreedBlock",
            Self::OutsideBlocks { .. } => "OutsideBlocks",
            Self::CrossesBlocks { .. } => "CrossesBlocks",
            Self::Unmapped { .. } => "Unmapped",
            Self::AgainstDirection { .. } => "AgainstDirection",
            Self::DriverUseAfterFree { .. } => "DriverUseAfterFree",
            Self::DriverCrossesBlocks { .. } => "DriverCrossesBlocks",
            Self::DriverWildAccess { .. } => "DriverWildAccess",
            Self::AttackerAddress { .. } => "AttackerAddress",
            Self::PoolContract { .. } => "PoolContract",
            Self::WrongFree { .. } => "WrongFree",
            Self::Leaked { .. } => "Leaked",
            Self::LayoutContract(_) => "LayoutContract",
        }
    }

    /// Whose it is.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self {
            Self::PoolContract { .. } => Blame::Pool,
            _ => Blame::Client,
        }
    }
}

fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "read",
        AccessKind::Write => "wrote",
    }
}

/// What a write damaged, to follow what was written.
pub(crate) fn over(damaged: &[&'static str]) -> String {
    if damaged.is_empty() { String::new() } else { format!("; it damaged the pool's {}", damaged.join(" and ")) }
}

/// What was left, as far as there is any.
fn left(counts: [(usize, &str); 3], pools: &[String]) -> String {
    let counted = counts.into_iter().filter(|&(count, _)| count > 0);
    let pool = |pool: &String| format!("pool {pool}");
    let parts = counted.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    parts.chain(pools.iter().map(pool)).collect::<Vec<_>>().join(", ")
}

/// A free block in words.
struct Free<'a>(&'a str, BlockState);

impl fmt::Display for Free<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(pool, state) = self;
        match state {
            BlockState::NeverAllocated => write!(f, "a free block of pool {pool} (never handed out)"),
            BlockState::Freed { owner: Some(owner), generation } => {
                write!(f, "a freed block of pool {pool} (last {owner}, use {generation})")
            }
            BlockState::Freed { owner: None, generation } => {
                write!(f, "a freed block of pool {pool} (use {generation})")
            }
        }
    }
}

impl fmt::Display for BlockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverAllocated => f.write_str("never handed out"),
            Self::Freed { owner: Some(owner), generation } => write!(f, "freed, last {owner}, use {generation}"),
            Self::Freed { owner: None, generation } => write!(f, "freed, use {generation}"),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed(owner) => write!(f, "the driver's {owner}"),
            Self::Unclaimed => f.write_str("a block that the driver did not name"),
            Self::FreeBlock(pool, state) => Free(pool, *state).fmt(f),
            Self::PoolMemory(pool) => write!(f, "memory of pool {pool} that it never handed out"),
            Self::Interior => f.write_str("the middle of another object"),
            Self::Unmapped => f.write_str("memory that no one mapped"),
        }
    }
}

impl fmt::Display for LayoutFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contract, written, effective, slot, expected_at, found, .. } = self;
        let wanted = Owner::new(contract.kind, *slot);
        write!(f, "{} = {written}", contract.register)?;
        if effective != written {
            write!(f, " (the hardware uses {effective})")?;
        }
        write!(f, ": slot {slot}, {wanted} to the device, at {expected_at} is {found}")?;
        match self.claimed_at {
            Some(at) => write!(f, "; the driver's {wanted} is at {at}")?,
            None => write!(f, "; the driver has no {wanted}")?,
        }
        if let Some((pool, order)) = &self.order {
            write!(f, "; pool {pool} handed out {order}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOfFreedBlock { access, pool, state } => {
                let free = Free(pool, *state);
                write!(f, "the device read {} at {} ({} bytes): {free}", access.belief, access.addr, access.len)
            }
            Self::WriteToFreedBlock { access: Access { belief, addr, len, .. }, pool, state, offset, damaged } => {
                let free = Free(pool, *state);
                write!(f, "the device wrote {belief} at {addr} ({len} bytes), byte {offset} of {free}{}", over(damaged))
            }
            Self::OutsideBlocks { access: Access { belief, addr, len, kind }, pool, damaged } => write!(
                f,
                "the device {} {belief} at {addr} ({len} bytes): memory of pool {pool} that it never handed out{}",
                verb(*kind),
                over(damaged)
            ),
            Self::DriverUseAfterFree { access, pool, state, offset, damaged } => {
                write!(f, "{access}, byte {offset} of {}{}", Free(pool, *state), over(damaged))
            }
            Self::DriverCrossesBlocks { access, pool, owner, inside, damaged } => {
                match owner {
                    Some(owner) => write!(f, "{access}: {owner} of pool {pool} ends after {inside} of them")?,
                    None => write!(f, "{access}: its block of pool {pool} ends after {inside} of them")?,
                }
                f.write_str(&over(damaged))
            }
            Self::DriverWildAccess { access, wild } => {
                write!(f, "{access}: {wild}")?;
                match wild {
                    Wild::PoolMemory { damaged, .. } => f.write_str(&over(damaged)),
                    _ => Ok(()),
                }
            }
            Self::CrossesBlocks { access, pool, owner, inside } => {
                write!(f, "the device {} {} at {}", verb(access.kind), access.belief, access.addr)?;
                match owner {
                    Some(owner) => write!(f, ": {owner} of pool {pool} ends after {inside} of {} bytes", access.len),
                    None => write!(f, ": its block of pool {pool} ends after {inside} of {} bytes", access.len),
                }
            }
            Self::Unmapped { access } => write!(
                f,
                "the device {} {} at {} ({} bytes), which no one mapped",
                verb(access.kind),
                access.belief,
                access.addr,
                access.len
            ),
            Self::AgainstDirection { access } => write!(
                f,
                "the device {} {} at {} ({} bytes), against the direction of the mapping",
                verb(access.kind),
                access.belief,
                access.addr,
                access.len
            ),
            Self::AttackerAddress { pool, block, promise, seen, written, allocations } => {
                let Block { cpu, dma } = block;
                write!(f, "pool {pool} broke its promise {promise:?} with {cpu} / {dma}: {seen}; before, {written}")?;
                match allocations {
                    0 => Ok(()),
                    since => write!(f, "; this is allocation {since} since then"),
                }
            }
            Self::PoolContract { pool, promise, seen } => {
                write!(f, "pool {pool} broke its promise {promise:?}: {seen}")
            }
            Self::WrongFree { pool, block, seen } => {
                write!(f, "the driver freed {} / {} to pool {pool}: {seen}", block.cpu, block.dma)
            }
            Self::Leaked { blocks, mappings, buffers, pools, owners } => {
                write!(
                    f,
                    "the driver is gone and left {}",
                    left([(*blocks, "block"), (*mappings, "mapping"), (*buffers, "buffer")], pools)
                )?;
                if owners.is_empty() { Ok(()) } else { write!(f, ": {}", owners.join(", ")) }
            }
            Self::LayoutContract(finding) => write!(f, "{finding}"),
        }
    }
}
