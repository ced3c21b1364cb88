//! A pool that keeps its free list in the blocks, as Linux does from 6.4 on, with its faults.
//!
//! Without a fault it is one stack over all pages, fresh pages ascending. A free block holds the processor's address of
//! the next one and its own DMA address. The lock is not held while a page is fetched.

mod fault;
mod layout;

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;
use pool::{
    AllocError, Block, CpuFault, CreateError, DestroyError, Flags, FreeError, Geometry, Layout, Memory, Metadata,
    MetadataField, PageAllocator, PageError, PageOrder, PageSource, Pages, Policy, Pool,
};

use fault::Fault;
use layout::SMALLEST;

const NEXT: u64 = 0;
const DMA: u64 = 8;
const METADATA: Metadata = Metadata::InBlock(&[
    MetadataField { start: NEXT, len: 8, name: "next pointer" },
    MetadataField { start: DMA, len: 8, name: "DMA address" },
]);
/// "Now and then": one time in so many.
const SELDOM: u64 = 7;
/// What a freed block is filled with (`POOL_POISON_FREED`).
const POISON: u8 = 0xa7;

/// The pool as it should be.
pub(crate) fn right() -> Policy {
    policy("listed", "one stack over all pages, linked through the blocks", None)
}

/// The pool with each of its faults.
pub(crate) fn faulty() -> impl Iterator<Item = Policy> {
    Fault::ALL.iter().map(|&fault| policy(fault.name(), fault.about(), Some(fault)))
}

fn policy(name: &'static str, about: &'static str, fault: Option<Fault>) -> Policy {
    Policy::new(name, about, METADATA, SMALLEST, move |memory, source, geometry| {
        Ok(Box::new(Listed::new(memory, source, geometry, fault)?))
    })
}

struct Listed {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    asked: Geometry,
    layout: Layout,
    fault: Option<Fault>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Top of the stack; 0 when it is empty.
    next: CpuAddr,
    pages: Vec<Pages>,
    active: i64,
    allocations: u64,
    frees: u64,
    failed: bool,
    /// A block that is handed out and still on the list.
    linked: Option<CpuAddr>,
}

impl Listed {
    fn new(
        memory: Arc<Memory>,
        source: Arc<dyn PageSource>,
        asked: Geometry,
        fault: Option<Fault>,
    ) -> Result<Self, CreateError> {
        let layout = layout::layout(asked, source.page_size(), fault)?;
        Ok(Self { memory, source, asked, layout, fault, state: Mutex::default() })
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn push(&self, state: &mut State, block: Block) -> Result<(), CpuFault> {
        if self.has(Fault::StaleLink) && state.frees % SELDOM == 1 {
            state.next = block.cpu;
        }
        self.memory.write_u64(block.cpu.offset(NEXT), state.next.0)?;
        self.memory.write_u64(block.cpu.offset(DMA), block.dma.0)?;
        state.next = block.cpu;
        Ok(())
    }

    fn links(&self, state: &State, block: CpuAddr) -> Result<(CpuAddr, DmaAddr), CpuFault> {
        let mut next = self.memory.read_u64(block.offset(NEXT))?;
        let mut dma = self.memory.read_u64(block.offset(DMA))?;
        if let Some(first) = state.pages.first() {
            match self.fault {
                Some(Fault::NarrowLink) if next != 0 => {
                    next = first.cpu.0 & !u64::from(u32::MAX) | next & u64::from(u32::MAX)
                }
                Some(Fault::NarrowDma) => dma &= u64::from(u32::MAX),
                Some(Fault::OffsetOfFirstPage) => dma = block.0.wrapping_sub(first.cpu.0).wrapping_add(first.dma.0),
                _ => {}
            }
        }
        Ok((CpuAddr(next), DmaAddr(dma)))
    }

    fn pop(&self, state: &mut State, flags: Flags) -> Result<Option<Block>, AllocError> {
        if let Some(linked) = state.linked.take() {
            state.next = self.links(state, linked).map_err(|fault| damaged(linked, fault))?.0;
        }
        let cpu = state.next;
        if cpu == CpuAddr(0) {
            return Ok(None);
        }
        let (mut next, dma) = self.links(state, cpu).map_err(|fault| damaged(cpu, fault))?;
        if self.has(Fault::ZeroedBeforeUnlink) && flags.zero {
            next = CpuAddr(0);
        }
        state.allocations += 1;
        if self.has(Fault::LateUnlink) {
            state.linked = Some(cpu);
        } else if !(self.has(Fault::DoubleHandOut) && state.allocations.is_multiple_of(SELDOM)) {
            state.next = next;
        }
        state.active += 1;
        Ok(Some(Block { cpu, dma }))
    }

    fn add_page(&self, state: &mut State, page: Pages) -> Result<(), CpuFault> {
        let mut offsets = layout::offsets(self.layout, self.fault);
        let last = offsets.last().copied();
        match self.fault {
            Some(Fault::Descending) => offsets.reverse(),
            Some(Fault::SwappedPairs) => offsets.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1)),
            Some(Fault::PageHeader) if offsets.len() > 1 => drop(offsets.remove(0)),
            Some(Fault::LaterPagesShifted) if !state.pages.is_empty() => {
                offsets.iter_mut().for_each(|offset| *offset += self.layout.align);
            }
            _ => {}
        }
        state.pages.push(page);
        for offset in offsets.into_iter().rev() {
            let wrong = self.has(Fault::NeighboursDma) && Some(offset) == last;
            let dma = page.dma.offset(offset - if wrong { self.layout.size.min(offset) } else { 0 });
            self.push(state, Block { cpu: page.cpu.offset(offset), dma })?;
        }
        Ok(())
    }

    /// Fetches pages, without the lock.
    fn fetch(&self, flags: Flags, later: bool) -> Result<Vec<Pages>, PageError> {
        let sleeps = self.has(Fault::AtomicSleeps) || self.has(Fault::AtomicSleepsLater) && later;
        let flags = Flags { zero: false, may_sleep: flags.may_sleep || sleeps };
        let first = self.source.alloc(self.layout.allocation, flags);
        match (first, self.fault) {
            (Ok(first), Some(Fault::FailureLeaksPage)) => {
                Ok(vec![first, self.source.alloc(self.layout.allocation, flags)?])
            }
            (Err(_), Some(Fault::MaskIgnored)) => self.anywhere().map(|page| vec![page]),
            (first, _) => first.map(|page| vec![page]),
        }
    }

    /// A page that the source does not know of, from the top of memory.
    fn anywhere(&self) -> Result<Pages, PageError> {
        let page_size = self.source.page_size();
        PageAllocator::new(Arc::clone(&self.memory), page_size, u64::MAX, PageOrder::Backward)
            .alloc(self.layout.allocation, Flags::ATOMIC)
    }

    /// Adds a page and takes a block of it.
    fn grow(&self, flags: Flags) -> Result<Block, AllocError> {
        let (active, later) = {
            let mut state = self.state.lock();
            if state.failed {
                return Err(AllocError::Other("an earlier page could not be had".into()));
            }
            state.active += i64::from(self.has(Fault::FailureCounts));
            (state.active, !state.pages.is_empty())
        };
        let pages = self.fetch(flags, later);
        let mut state = self.state.lock();
        let pages = pages.inspect_err(|_| state.failed = self.has(Fault::FailureStays))?;
        match self.fault {
            Some(Fault::FailureCounts) => state.active -= 1,
            Some(Fault::WaitLosesCount) => state.active = active,
            Some(Fault::WaitLosesList) => state.next = CpuAddr(0),
            _ => {}
        }
        for page in pages {
            self.add_page(&mut state, page).map_err(|fault| damaged(page.cpu, fault))?;
        }
        self.pop(&mut state, flags)?.ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))
    }

    /// Fetches the next page while there is one block left.
    fn fetch_early(&self, state: &mut State, flags: Flags) -> Result<(), AllocError> {
        let last = state.next;
        if last == CpuAddr(0) || self.links(state, last).map_err(|fault| damaged(last, fault))?.0 != CpuAddr(0) {
            return Ok(());
        }
        state.next = CpuAddr(0);
        let page = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
        state.next = last;
        self.add_page(state, page).map_err(|fault| damaged(page.cpu, fault))
    }

    fn ends_page(&self, state: &State, block: Block) -> bool {
        let offset = |page: &Pages| block.dma.0.wrapping_sub(page.dma.0);
        let page = state.pages.iter().find(|page| offset(page) < page.len);
        page.is_some_and(|page| offset(page) + 2 * self.layout.size > page.len)
    }

    fn zero(&self, block: Block, flags: Flags, frees: u64) -> Result<(), CpuFault> {
        let size = self.asked.size;
        let len = match self.fault {
            Some(Fault::NotZeroed | Fault::ZeroedWhenFreed) => return Ok(()),
            Some(Fault::AtomicNotZeroed) if !flags.may_sleep => return Ok(()),
            Some(Fault::ZeroedAtFirst) if frees > 0 => return Ok(()),
            Some(Fault::LinksZeroed) => SMALLEST,
            Some(Fault::ZeroedTooShort) => size - size % 8,
            Some(Fault::ZeroedTooLong) => size.next_multiple_of(64),
            _ => self.layout.size,
        };
        self.memory.fill(block.cpu, len, 0)
    }
}

fn damaged(link: CpuAddr, fault: CpuFault) -> AllocError {
    AllocError::DamagedList { link, fault }
}

impl Pool for Listed {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock();
        if self.has(Fault::FailureLosesBlock) {
            self.fetch_early(&mut state, flags)?;
        }
        let popped = self.pop(&mut state, flags)?;
        let frees = state.frees;
        drop(state);
        let block = match popped {
            Some(block) => block,
            None => self.grow(flags)?,
        };
        if flags.zero {
            self.zero(block, flags, frees).map_err(|fault| damaged(block.cpu, fault))?;
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut state = self.state.lock();
        state.frees += 1;
        let seldom = state.frees.is_multiple_of(SELDOM);
        if self.has(Fault::ZeroedWhenFreed) {
            self.memory.fill(block.cpu, self.layout.size, 0)?;
        }
        if !(self.has(Fault::LostAtPageEnd) && self.ends_page(&state, block)) {
            self.push(&mut state, block)?;
        }
        match self.fault {
            Some(Fault::FreedTwice) if seldom => self.push(&mut state, block)?,
            Some(Fault::PoisonedLate) => self.memory.fill(block.cpu, self.layout.size, POISON)?,
            Some(Fault::FreeNotCounted) if seldom => state.active += 1,
            _ => {}
        }
        state.active -= 1;
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock();
        let busy = match self.fault {
            Some(Fault::DestroyedInUse) => false,
            Some(Fault::DestroyedWithOne) => state.active > 1,
            _ => state.active != 0,
        };
        if busy {
            return Err(DestroyError::Busy { live: usize::try_from(state.active).unwrap_or(0), owners: Vec::new() });
        }
        if self.has(Fault::DestroyLeaksPage) {
            state.pages.pop();
        }
        state.next = CpuAddr(0);
        state.pages.drain(..).for_each(|page| self.source.free(page));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }
}
