//! The contract stage: it passes what is right, and catches each kind of mistake on its own.

use std::sync::{Arc, Mutex};

use pool::contract::{self, BOUNDARY_BEYOND_PAGE, Config, Report};
use pool::{
    AllocError, Block, CreateError, DestroyError, Finding, Flags, FreeError, Geometry, Layout, Memory, Metadata,
    PageOrder, PageSource, Pages, Policy, Pool, Promise, policy,
};

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    Overlap,
    Misaligned,
    CrossesBoundary,
    NotZeroed,
    ZeroesTheEnds,
    ForeignPage,
    MixedAddresses,
    LeaksPageOnFailure,
    Sleeps,
    LosesBlockOnFailure,
    LeaksAtDestroy,
    TakesAnyGeometry,
    RefusesGeometry,
    DestroysInUse,
    WritesIntoLiveBlocks,
    StaysBrokenAfterFailure,
    GivesPageBackEarly,
    AlignsTo64AtMost,
    DestroysWithOneLeft,
    DestroysByTheLastPage,
    KnowsFewPages,
}

/// Pages that a pool knows that knows few.
const FEW_PAGES: usize = 1024;

/// A plain pool, right but for its mistake: a stack of blocks outside the memory.
struct Plain {
    mistake: Mistake,
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: Vec<Block>,
    live: Vec<Block>,
    pages: Vec<Pages>,
    handed_out: u64,
    failed: bool,
}

impl Plain {
    fn create(
        mistake: Mistake,
        memory: Arc<Memory>,
        source: Arc<dyn PageSource>,
        geometry: Geometry,
    ) -> Result<Box<dyn Pool>, CreateError> {
        let align = if mistake == Mistake::AlignsTo64AtMost { geometry.align.min(64) } else { geometry.align };
        let geometry = Geometry { align, ..geometry };
        let layout = match geometry.layout(16, source.page_size()) {
            Err(_) if mistake == Mistake::TakesAnyGeometry => {
                Layout { size: 64, align: 1, allocation: 4096, boundary: 4096 }
            }
            layout => layout?,
        };
        if mistake == Mistake::RefusesGeometry && geometry.size > source.page_size() {
            return Err(CreateError::Size { size: geometry.size });
        }
        // Blocks that lie one behind the other, boundary or not.
        let layout =
            if mistake == Mistake::CrossesBoundary { Layout { boundary: layout.allocation, ..layout } } else { layout };
        Ok(Box::new(Self { mistake, memory, source, layout, state: Mutex::default() }))
    }

    fn pop(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock().expect("no panic under the lock");
        if state.failed {
            return Err(AllocError::Other("broken by an earlier failure".into()));
        }
        if self.mistake == Mistake::LosesBlockOnFailure && state.free.len() == 1 && state.pages.len() == 1 {
            // Asks early, and forgets the block in its hand when there is no page.
            let block = state.free.pop().expect("one block");
            let page = self.source.alloc(self.layout.allocation, flags)?;
            state.free.push(block);
            self.cut(&mut state, page);
        }
        if state.free.is_empty() {
            let flags = Flags { may_sleep: flags.may_sleep || self.mistake == Mistake::Sleeps, ..flags };
            if self.mistake == Mistake::LeaksPageOnFailure {
                // A second page for its own data; the first is forgotten when there is none.
                let page = self.source.alloc(self.layout.allocation, flags)?;
                let second = self.source.alloc(self.layout.allocation, flags)?;
                self.cut(&mut state, page);
                self.cut(&mut state, second);
            } else {
                let page = self.source.alloc(self.layout.allocation, flags);
                state.failed = page.is_err() && self.mistake == Mistake::StaysBrokenAfterFailure;
                self.cut(&mut state, page?);
            }
        }
        let mut block = state.free.pop().expect("a page has a block");
        state.handed_out += 1;
        let sometimes = state.handed_out.is_multiple_of(7);
        match self.mistake {
            Mistake::Overlap if sometimes && !state.live.is_empty() => {
                state.free.push(block);
                block = state.live[0];
            }
            Mistake::Misaligned if sometimes && self.layout.align > 4 => {
                block = Block { cpu: block.cpu.offset(4), dma: block.dma.offset(4) };
            }
            Mistake::ForeignPage if sometimes => {
                let offset = 0x20_0000;
                block = Block { cpu: block.cpu.offset(offset), dma: block.dma.offset(offset) };
            }
            Mistake::MixedAddresses if sometimes => block.cpu = block.cpu.offset(self.layout.size),
            Mistake::WritesIntoLiveBlocks if sometimes && !state.live.is_empty() => {
                self.memory.write(state.live[0].cpu, &[0]).expect("a live block");
            }
            _ => {}
        }
        state.live.push(block);
        Ok(block)
    }

    fn cut(&self, state: &mut State, page: Pages) {
        let mut blocks: Vec<_> = self
            .layout
            .offsets()
            .map(|offset| Block { cpu: page.cpu.offset(offset), dma: page.dma.offset(offset) })
            .collect();
        if self.mistake == Mistake::Misaligned {
            // Room for its mistake, so that blocks do not overlap.
            blocks = blocks.into_iter().step_by(2).collect();
        }
        state.free.extend(blocks);
        state.pages.push(page);
    }
}

impl Pool for Plain {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let block = self.pop(flags)?;
        if flags.zero && self.mistake != Mistake::NotZeroed {
            // A block with mixed addresses may lie beyond the memory.
            let ends = self.mistake == Mistake::ZeroesTheEnds && self.layout.size > 128;
            let len = if ends { 64 } else { self.layout.size };
            let _ = self.memory.fill(block.cpu, len, 0);
            let _ = self.memory.fill(block.cpu.offset(self.layout.size - len), len, 0);
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut state = self.state.lock().expect("no panic under the lock");
        let index = state.live.iter().position(|&live| live == block).ok_or(FreeError::Foreign(block))?;
        state.live.swap_remove(index);
        let mut right = block;
        match self.mistake {
            Mistake::Misaligned => {
                let start = block.dma.0 & !(self.layout.align - 1);
                let off = block.dma.0 - start;
                right = Block { cpu: block.cpu.offset(off.wrapping_neg()), dma: block.dma.offset(off.wrapping_neg()) };
            }
            Mistake::ForeignPage if !state.pages.iter().any(|page| inside(page, block)) => {
                return Ok(());
            }
            Mistake::MixedAddresses => right.cpu = self.memory.cpu(block.dma).expect("its own page"),
            Mistake::Overlap if state.live.contains(&block) => return Ok(()),
            Mistake::KnowsFewPages if !state.pages.iter().take(FEW_PAGES).any(|page| inside(page, block)) => {
                return Err(FreeError::Foreign(block));
            }
            _ => {}
        }
        state.free.push(right);
        if self.mistake == Mistake::GivesPageBackEarly && state.pages.len() > 1 {
            let page = state.pages.remove(0);
            state.free.retain(|&block| !inside(&page, block));
            self.source.free(page);
        }
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock().expect("no panic under the lock");
        let busy = match self.mistake {
            Mistake::DestroysInUse => false,
            Mistake::DestroysWithOneLeft => state.live.len() > 1,
            Mistake::DestroysByTheLastPage => {
                state.pages.last().is_some_and(|page| state.live.iter().any(|&block| inside(page, block)))
            }
            _ => !state.live.is_empty(),
        };
        if busy {
            return Err(DestroyError::Busy { live: state.live.len(), owners: Vec::new() });
        }
        if self.mistake == Mistake::LeaksAtDestroy {
            state.pages.pop();
        }
        state.pages.drain(..).for_each(|page| self.source.free(page));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().expect("no panic under the lock").pages.len()
    }
}

fn inside(page: &Pages, block: Block) -> bool {
    block.dma.0.wrapping_sub(page.dma.0) < page.len
}

fn report(mistake: Mistake) -> Report {
    let policy = Policy::new("plain", "a plain pool", Metadata::OutOfBand, 16, move |memory, source, geometry| {
        Plain::create(mistake, memory, source, geometry)
    });
    let orders = vec![PageOrder::Forward];
    // The plain pool looks every live block up one by one.
    let large_pools = vec![(Geometry { size: 4096, align: 0, boundary: 0 }, FEW_PAGES + 100)];
    contract::run(&policy, &Config { page_sizes: vec![4096, 65536], orders, large_pools, ..Config::default() })
}

#[track_caller]
fn breaks_only(mistake: Mistake, promise: Promise) -> String {
    let report = report(mistake);
    let broken: Vec<_> = report.broken().map(|(promise, _)| promise).collect();
    assert_eq!(broken, [promise], "{report}");
    let (_, violation) = report.broken().next().expect("one");
    assert!(violation.setting.contains("KiB pages"), "{}", violation.setting);
    violation.finding.to_string()
}

#[track_caller]
fn breaks(mistake: Mistake, promise: Promise) -> String {
    let report = report(mistake);
    let (_, violation) = report.broken().find(|&(broken, _)| broken == promise).unwrap_or_else(|| panic!("{report}"));
    violation.finding.to_string()
}

#[test]
fn every_built_in_policy_keeps_its_promises() {
    for policy in policy::table() {
        let report = contract::run(&policy, &Config::default());
        assert!(report.is_kept(), "{report}");
    }
}

#[test]
fn a_plain_pool_keeps_its_promises() {
    let report = report(Mistake::None);
    assert!(report.is_kept(), "{report}");
    let text = report.to_string();
    assert!(
        text.starts_with("pool plain, seed 1\n  kept    Geometry: a geometry that cannot be kept is refused"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1 + Promise::ALL.len());
}

#[test]
fn two_runs_are_one() {
    let policy = Policy::current();
    let runs = [(); 2].map(|()| contract::run(&policy, &Config::default()).to_string());
    assert_eq!(runs[0], runs[1]);
    let other = contract::run(&policy, &Config { seed: 2, ..Config::default() });
    assert!(other.is_kept(), "{other}");
    assert_ne!(runs[0].lines().nth(2), other.to_string().lines().nth(2), "another seed, another run");
}

#[test]
fn overlapping_blocks() {
    let text = breaks(Mistake::Overlap, Promise::NoOverlap);
    assert!(text.contains("overlaps the live block at 0x"), "{text}");
}

#[test]
fn blocks_that_are_not_aligned() {
    let text = breaks(Mistake::Misaligned, Promise::Alignment);
    assert!(text.contains("is not aligned to 16 bytes"), "{text}");
}

#[test]
fn blocks_across_a_boundary() {
    let text = breaks_only(Mistake::CrossesBoundary, Promise::Boundary);
    assert!(text.contains("and 24 bytes cross a multiple of 128"), "{text}");
}

#[test]
fn blocks_that_are_not_zeroed() {
    let text = breaks_only(Mistake::NotZeroed, Promise::Zeroing);
    assert!(text.starts_with("pool plain broke its promise Zeroing: byte 0 of 0x"), "{text}");
}

#[test]
fn blocks_that_are_zeroed_in_part() {
    let text = breaks_only(Mistake::ZeroesTheEnds, Promise::Zeroing);
    assert!(text.starts_with("pool plain broke its promise Zeroing: byte 64 of 0x"), "{text}");
}

#[test]
fn blocks_of_nobodys_page() {
    let text = breaks(Mistake::ForeignPage, Promise::OwnPages);
    assert!(text.contains("not in a page of this pool"), "{text}");
}

#[test]
fn addresses_of_two_blocks() {
    let text = breaks(Mistake::MixedAddresses, Promise::SameMemory);
    assert!(text.contains("are not the same memory"), "{text}");
}

#[test]
fn a_page_lost_on_failure() {
    let text = breaks(Mistake::LeaksPageOnFailure, Promise::Unwind);
    assert!(text.contains("taken from the source; before there were"), "{text}");
}

#[test]
fn a_block_lost_on_failure() {
    let text = breaks_only(Mistake::LosesBlockOnFailure, Promise::Unwind);
    assert!(text.contains("blocks before the source failed, and"), "{text}");
}

#[test]
fn a_pool_that_does_not_recover() {
    let text = breaks_only(Mistake::StaysBrokenAfterFailure, Promise::Unwind);
    assert!(text.contains("broken by an earlier failure"), "{text}");
}

#[test]
fn an_atomic_allocation_that_sleeps() {
    let text = breaks_only(Mistake::Sleeps, Promise::NoSleep);
    assert!(text.contains("an atomic allocation asked for 4096 bytes with leave to sleep"), "{text}");
}

#[test]
fn a_page_lost_at_the_end() {
    let text = breaks_only(Mistake::LeaksAtDestroy, Promise::NoLeak);
    assert!(text.contains("pages are free after the pool's end"), "{text}");
}

#[test]
fn geometries_that_cannot_be_kept() {
    let text = breaks_only(Mistake::TakesAnyGeometry, Promise::Geometry);
    assert!(text.contains("Geometry { size: 0, align: 0, boundary: 0 } was taken"), "{text}");
}

#[test]
fn geometries_that_can_be_kept() {
    let text = breaks_only(Mistake::RefusesGeometry, Promise::Geometry);
    assert!(text.contains("Geometry { size: 5000, align: 4096, boundary: 0 } was refused"), "{text}");
}

#[test]
fn pages_gone_at_a_destroy_in_use() {
    let text = breaks_only(Mistake::DestroysInUse, Promise::Busy);
    assert!(text.contains("was given back"), "{text}");
}

#[test]
fn pages_gone_at_a_destroy_with_one_block_in_use() {
    for mistake in [Mistake::DestroysWithOneLeft, Mistake::DestroysByTheLastPage] {
        let text = breaks_only(mistake, Promise::Busy);
        assert!(text.contains("the page of the live 0x") && text.ends_with("was given back"), "{mistake:?}: {text}");
    }
}

#[test]
fn alignments_beyond_64() {
    let text = breaks_only(Mistake::AlignsTo64AtMost, Promise::Alignment);
    assert!(text.contains("is not aligned to 256 bytes"), "{text}");
}

#[test]
fn pages_beyond_a_thousand() {
    let text = breaks_only(Mistake::KnowsFewPages, Promise::NoLeak);
    assert!(text.contains("was not taken back: Some(Foreign("), "{text}");
}

#[test]
fn live_blocks_written_by_the_pool() {
    let text = breaks(Mistake::WritesIntoLiveBlocks, Promise::NoOverlap);
    assert!(text.contains("was written by another"), "{text}");
}

#[test]
fn pages_given_back_under_live_blocks() {
    let text = breaks(Mistake::GivesPageBackEarly, Promise::OwnPages);
    assert!(text.contains("was given back, and"), "{text}");
}

/// Linux up to 6.3 does not limit the boundary to the page; 6.4 does.
#[test]
fn a_boundary_beyond_the_page_breaks_the_page_list() {
    let geometries = vec![BOUNDARY_BEYOND_PAGE];
    let config = Config { geometries, page_sizes: vec![4096], ..Config::default() };
    for policy in policy::table() {
        let report = contract::run(&policy, &config);
        let own_pages = report.broken().find(|&(promise, _)| promise == Promise::OwnPages);
        assert_eq!(own_pages.is_some(), policy.name == "page-list", "{report}");
        if let Some((_, violation)) = own_pages {
            assert!(matches!(violation.finding, Finding::PoolContract { .. }), "{report}");
        }
    }
}
