//! Every policy against a plain model of it, over long random runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bus::{CpuAddr, DmaAddr};
use pool::{
    Block, DestroyError, Finding, Flags, Geometry, PageAllocator, PageError, PageOrder, PageSource, Pages, policy,
};
use proptest::prelude::*;

use crate::machine::{DMA, Machine, geometry};
use crate::seeded;

/// A source that remembers its pages.
struct Recorded {
    pages: Arc<PageAllocator>,
    given: Mutex<Vec<Pages>>,
}

impl PageSource for Recorded {
    fn page_size(&self) -> u64 {
        self.pages.page_size()
    }

    fn alloc(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        let pages = self.pages.alloc(len, flags)?;
        self.given.lock().expect("no panic under the lock").push(pages);
        Ok(pages)
    }

    fn free(&self, pages: Pages) {
        self.pages.free(pages);
    }
}

/// Which free block comes next.
enum Order {
    /// One stack over all pages.
    Stack(Vec<(usize, u64)>),
    /// A stack a page, the newest page first.
    Pages(Vec<Vec<u64>>),
    /// The lowest of a page, the newest page first.
    Lowest(Vec<BTreeSet<u64>>),
}

/// What a pool must do, from the table and nothing else.
struct Model {
    order: Order,
    descending: bool,
    /// Offsets of a fresh page's blocks, ascending.
    fresh: Vec<u64>,
}

impl Model {
    fn new(name: &str, smallest: u64, geometry: Geometry, page_size: u64) -> Self {
        let order = match name {
            "page-list" => Order::Pages(Vec::new()),
            "external-bitmap" => Order::Lowest(Vec::new()),
            _ => Order::Stack(Vec::new()),
        };
        let align = geometry.align.max(1);
        let size = geometry.size.max(smallest).div_ceil(align) * align;
        let allocation = size.max(page_size);
        let chunk = if geometry.boundary == 0 { allocation } else { geometry.boundary.min(allocation) };
        // Up to 6.3 blocks that fill a boundary lose their last.
        let in_chunk = if name == "page-list" { ((chunk - 1) / size).max(1) } else { chunk / size };
        let fresh = (0..allocation / chunk).flat_map(|c| (0..in_chunk).map(move |i| c * chunk + i * size)).collect();
        Self { order, descending: name == "linked-descending", fresh }
    }

    fn next(&mut self) -> Option<(usize, u64)> {
        match &mut self.order {
            Order::Stack(stack) => stack.pop(),
            Order::Pages(pages) => {
                let page = pages.iter().rposition(|page| !page.is_empty())?;
                Some((page, pages[page].pop()?))
            }
            Order::Lowest(pages) => {
                let page = pages.iter().rposition(|page| !page.is_empty())?;
                Some((page, pages[page].pop_first()?))
            }
        }
    }

    fn add_page(&mut self, page: usize) {
        let fresh = self.fresh.iter().copied();
        match &mut self.order {
            Order::Stack(stack) if self.descending => stack.extend(fresh.map(|offset| (page, offset))),
            Order::Stack(stack) => stack.extend(fresh.rev().map(|offset| (page, offset))),
            Order::Pages(pages) => pages.push(fresh.rev().collect()),
            Order::Lowest(pages) => pages.push(fresh.collect()),
        }
    }

    fn give_back(&mut self, (page, offset): (usize, u64)) {
        match &mut self.order {
            Order::Stack(stack) => stack.push((page, offset)),
            Order::Pages(pages) => pages[page].push(offset),
            Order::Lowest(pages) => assert!(pages[page].insert(offset)),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc {
        zero: bool,
        may_sleep: bool,
    },
    Free(prop::sample::Index),
    /// Of what is held, most goes.
    FreeMany(prop::sample::Index),
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => any::<(bool, bool)>().prop_map(|(zero, may_sleep)| Step::Alloc { zero, may_sleep }),
        9 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => any::<prop::sample::Index>().prop_map(Step::FreeMany),
    ];
    prop::collection::vec(step, 1..most)
}

fn geometries() -> impl Strategy<Value = Geometry> {
    let size = prop_oneof![4 => 1_u64..200, 2 => 200_u64..3000, 1 => 3000_u64..9000];
    (size, prop::option::of(0_u32..10), prop::option::of(0_u32..4)).prop_map(|(size, align, boundary)| {
        let align = align.map_or(0, |bits| 1 << bits);
        // The table's page-list breaks beyond a page; that is a test of its own.
        let least = size.max(16).next_multiple_of(align.max(1)).next_power_of_two();
        let boundary = boundary.map(|more| least << more).filter(|&boundary| boundary <= 4096);
        Geometry { size, align, boundary: boundary.unwrap_or(0) }
    })
}

fn orders() -> impl Strategy<Value = PageOrder> {
    prop_oneof![Just(PageOrder::Forward), Just(PageOrder::Backward), any::<u64>().prop_map(PageOrder::Scattered)]
}

proptest! {
    #![proptest_config(seeded(0x6001, 96))]

    /// Each block is the one that the model says, until the last; what is live keeps its contents.
    #[test]
    fn every_policy_does_what_its_model_does(
        which in 0_usize..6,
        asked in geometries(),
        page_size in prop::sample::select(vec![4096_u64, 16384, 65536]),
        order in orders(),
        steps in steps(400),
    ) {
        let policy = &policy::table()[which];
        let machine = Machine::with(page_size, order);
        let free_pages = machine.pages.free_pages();
        let source = Arc::new(Recorded { pages: machine.pages.clone(), given: Mutex::default() });
        let pool = (policy.create)(machine.memory.clone(), source.clone(), asked).expect("a right geometry");
        let mut model = Model::new(&policy.name, policy.smallest, asked, page_size);
        let mut held: Vec<(Block, (usize, u64), u8)> = Vec::new();
        let mut tag = 0_u8;
        for step in steps {
            match step {
                Step::Alloc { zero, may_sleep } => {
                    let expected = model.next().or_else(|| {
                        model.add_page(source.given.lock().expect("no panic under the lock").len());
                        model.next()
                    });
                    let (page, offset) = expected.expect("a page has a block");
                    let block = match pool.alloc(Flags { zero, may_sleep }) {
                        Ok(block) => block,
                        // Large blocks use the memory up.
                        Err(error) => {
                            prop_assert!(error.to_string().contains("memory exhausted"), "{}", error);
                            break;
                        }
                    };
                    let base = source.given.lock().expect("no panic under the lock")[page];
                    prop_assert_eq!(block, Block { cpu: base.cpu.offset(offset), dma: base.dma.offset(offset) });
                    prop_assert!(block.dma.is_aligned(asked.align.max(1)));
                    let mut bytes = vec![0xff; asked.size as usize];
                    machine.memory.read(block.cpu, &mut bytes).expect("mapped");
                    prop_assert!(!zero || bytes.iter().all(|&byte| byte == 0));
                    tag = tag.wrapping_add(1);
                    machine.memory.fill(block.cpu, asked.size, tag).expect("mapped");
                    held.push((block, (page, offset), tag));
                }
                Step::Free(index) if !held.is_empty() => {
                    let (block, place, tag) = held.swap_remove(index.index(held.len()));
                    let bytes = machine.device_reads(block.dma, asked.size as usize);
                    prop_assert!(bytes.iter().all(|&byte| byte == tag), "{} was written by another", block.dma);
                    prop_assert_eq!(pool.free(block), Ok(()));
                    model.give_back(place);
                }
                Step::FreeMany(index) if !held.is_empty() => {
                    for (block, place, _) in held.drain(index.index(held.len())..) {
                        prop_assert_eq!(pool.free(block), Ok(()));
                        model.give_back(place);
                    }
                }
                Step::Free(_) | Step::FreeMany(_) => {}
            }
            prop_assert_eq!(pool.pages(), source.given.lock().expect("no panic under the lock").len());
        }
        if !held.is_empty() {
            prop_assert_eq!(pool.destroy(), Err(DestroyError::Busy { live: held.len(), owners: Vec::new() }));
        } else {
            prop_assert_eq!(pool.destroy(), Ok(()));
            prop_assert_eq!(machine.pages.free_pages(), free_pages);
        }
    }
}

#[derive(Clone, Debug)]
enum Attack {
    Alloc(bool),
    Free(prop::sample::Index),
    /// A device writes this word at this word of the pool's first pages.
    Write(u64, Word),
}

/// What a device writes: something that might pass for a link, or anything.
#[derive(Clone, Debug)]
enum Word {
    Cpu(u64),
    Dma(u64),
    Offset(u32),
    Any(u64),
}

fn attacks() -> impl Strategy<Value = Vec<Attack>> {
    let word = prop_oneof![
        (0_u64..0x4000).prop_map(Word::Cpu),
        (0_u64..0x4000).prop_map(Word::Dma),
        (0_u32..0x1800).prop_map(Word::Offset),
        any::<u64>().prop_map(Word::Any),
    ];
    let attack = prop_oneof![
        4 => any::<bool>().prop_map(Attack::Alloc),
        3 => any::<prop::sample::Index>().prop_map(Attack::Free),
        3 => (0_u64..0x1800, word).prop_map(|(at, word)| Attack::Write(at & !3, word)),
    ];
    prop::collection::vec(attack, 1..200)
}

proptest! {
    #![proptest_config(seeded(0x6002, 200))]

    /// Whatever a device writes over the pool's own data: no panic, no endless walk, and a block that is not the pool's
    /// to give is always found.
    #[test]
    fn damaged_links_are_survived_and_found(which in 0_usize..6, size in 4_u64..200, attacks in attacks()) {
        let policy = &policy::table()[which];
        let machine = Machine::new();
        let asked = geometry(size, 4, 0);
        let pool = machine.pool(policy, asked);
        let mut held: Vec<Block> = Vec::new();
        for attack in attacks {
            match attack {
                Attack::Alloc(zero) => {
                    let before = machine.ledger.findings_total();
                    let Ok(block) = pool.alloc(Flags { zero, may_sleep: true }) else { continue };
                    let right = machine.memory.dma(block.cpu) == Some(block.dma)
                        && block.dma.is_aligned(4)
                        && (block.dma.0 - DMA.min(block.dma.0)) >> 12 < pool.pages() as u64
                        && (block.dma.0 & 0xfff) + size <= 4096
                        && held.iter().all(|other| other.dma.0.abs_diff(block.dma.0) >= size);
                    let findings = machine.ledger.findings_total() - before;
                    prop_assert_eq!(right, findings == 0, "{:?}", block);
                    prop_assert!(right || policy.metadata != pool::Metadata::OutOfBand);
                    held.push(block);
                }
                Attack::Free(index) if !held.is_empty() => {
                    let before = machine.ledger.findings();
                    let _ = pool.free(held.swap_remove(index.index(held.len())));
                    prop_assert_eq!(machine.ledger.findings().len(), before.len(), "the driver frees what it was given");
                }
                Attack::Free(_) => {}
                Attack::Write(at, word) => {
                    let bytes = match word {
                        Word::Cpu(offset) => machine.memory.cpu(DmaAddr(DMA)).unwrap_or(CpuAddr(0)).0 + offset,
                        Word::Dma(offset) => DMA + offset,
                        Word::Offset(offset) => offset.into(),
                        Word::Any(word) => word,
                    };
                    machine.device_writes(DmaAddr(DMA + at), &bytes.to_le_bytes());
                }
            }
        }
        for finding in machine.ledger.findings() {
            prop_assert!(matches!(finding, Finding::AttackerAddress { .. } | Finding::PoolContract { .. }), "{}", finding);
        }
    }
}
