//! A pool held against what dma_pool promises, before any device (Linux: include/linux/dmapool.h, mm/dmapool.c).
//!
//! [`run`] takes a policy through small machines: every page size and order of pages, memory on both sides of 4 GiB with a
//! device that reaches only the lower and one that reaches all, a page source that fails when it is told to. Memory comes
//! in stretches whose two addresses are apart by different amounts. In each machine, every geometry goes through long random
//! runs of allocations and frees with dirty blocks, failures of the source at every n-th page, another thread's frees
//! and allocations while a page is fetched, pools that come and go around each other, refused frees, and destroys while in
//! use. A machine of its own has room for pools of thousands of pages, and of more blocks than 16 bits number. One seed leads
//! to one run.
//!
//! *Not here*: interrupt context, races inside of a pool's lock, wrong frees that are taken (a pool need not notice), a
//! boundary beyond the page ([`BOUNDARY_BEYOND_PAGE`]).

mod exercise;
mod other_thread;
mod report;
mod source;

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};

use crate::memory::{Memory, Span};
use crate::page::{PageAllocator, PageOrder};
use crate::policy::Policy;
use crate::pool::Geometry;

use exercise::Exercise;
use source::Probe;

pub use report::{Check, Report, Violation};

/// Highest address of a device that drives 32 address lines.
const MASK: u64 = u32::MAX as u64;
/// On both sides of 4 GiB. They touch for devices, and are apart for the processor, in every 32 bits of its addresses.
const SPANS: [Span; 3] = [
    Span { cpu: CpuAddr(0xffff_8000_1000_0000), dma: DmaAddr(0xffc0_0000), len: 2 << 20 },
    Span { cpu: CpuAddr(0xffff_9000_5000_0000), dma: DmaAddr(0xffe0_0000), len: 2 << 20 },
    Span { cpu: CpuAddr(0xffff_8000_7000_0000), dma: DmaAddr(0x1_0000_0000), len: 1 << 20 },
];
/// Memory for large pools.
const LARGE: Span = Span { cpu: CpuAddr(0xffff_8000_1000_0000), dma: DmaAddr(0x8000_0000), len: 16 << 20 };
/// Blocks at most of a large pool whose frees walk them all.
pub const MOST_WALKED: usize = 8192;
/// Blocks of a page beyond which a geometry is left to smaller pages: they cost time and show nothing more.
const MOST_BLOCKS: u64 = 4096;

/// A boundary beyond the page, and a size that does not divide the page.
///
/// Not among the geometries that are tried unless it is asked for: up to Linux 6.3 `dma_pool_create` does not limit the
/// boundary to the page, and the last block of a page ends behind it. In 6.4 the limit came.
pub const BOUNDARY_BEYOND_PAGE: Geometry = Geometry { size: 96, align: 32, boundary: 1 << 17 };

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where all random choices come from.
    pub seed: u64,
    /// Page sizes in bytes, powers of two of at least 4096.
    pub page_sizes: Vec<u64>,
    /// In which order the source gives pages.
    pub orders: Vec<PageOrder>,
    /// What pools are asked for.
    pub geometries: Vec<Geometry>,
    /// Random steps with each geometry in each machine.
    pub steps: u32,
    /// Pools of many blocks, in a machine with 16 MiB in pages of 4 KiB.
    pub large_pools: Vec<(Geometry, usize)>,
    /// Ends with the first machine in which a promise broke: for who only asks whether one does.
    pub until_broken: bool,
}

impl Default for Config {
    fn default() -> Self {
        let geometry = |(size, align, boundary)| Geometry { size, align, boundary };
        let geometries = [
            // The sets of dmapool_test.
            (16, 16, 0),
            (64, 64, 0),
            (256, 256, 0),
            (1024, 1024, 0),
            (4096, 4096, 0),
            (68, 32, 4096),
            // Smaller than any pool's own data, and not aligned.
            (1, 0, 0),
            (5, 1, 0),
            // Boundaries that leave gaps, and that blocks fill.
            (24, 8, 128),
            (48, 16, 256),
            // The third block would cross with its last byte.
            (43, 1, 128),
            (128, 128, 128),
            // Alignments that sizes are no multiples of.
            (68, 256, 4096),
            (100, 128, 0),
            (5000, 4096, 0),
            // Beyond a page.
            (5000, 8, 0),
            (5000, 16, 8192),
            (8192, 8192, 0),
        ];
        Self {
            seed: 1,
            page_sizes: vec![4 << 10, 16 << 10, 64 << 10],
            orders: vec![PageOrder::Forward, PageOrder::Backward, PageOrder::Scattered(1)],
            geometries: geometries.into_iter().map(geometry).collect(),
            steps: 150,
            large_pools: vec![
                // More pages than 2048, a number to stop growing at.
                (geometry((4096, 0, 0)), 2100),
                // More blocks than 16 bits number.
                (geometry((16, 0, 0)), 66_000),
            ],
            until_broken: false,
        }
    }
}

/// A machine that a pool is taken through, or a large pool. None depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(Machine);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    /// A machine whose device reaches what is at or below `mask`.
    Small { page_size: u64, mask: u64, order: PageOrder },
    /// A pool of thousands of pages, or of tens of thousands of blocks.
    Large { geometry: Geometry, blocks: usize },
}

impl Config {
    /// What [`run`] goes through, in this order: for who has several processors.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let of_size =
            |&page_size: &u64| self.orders.iter().map(move |&order| Machine::Small { page_size, mask: MASK, order });
        let order = PageOrder::Scattered(self.seed);
        let wide = self.page_sizes.first().map(|&page_size| Machine::Small { page_size, mask: u64::MAX, order });
        let large = self.large_pools.iter().map(|&(geometry, blocks)| Machine::Large { geometry, blocks });
        self.page_sizes.iter().flat_map(of_size).chain(wide).chain(large).map(Part).collect()
    }
}

/// Holds `policy` against every promise.
#[must_use]
pub fn run(policy: &Policy, config: &Config) -> Report {
    let mut report = Report::new(policy, config.seed);
    for part in config.parts() {
        report.add(run_part(policy, config, part));
        if config.until_broken && report.broken().next().is_some() {
            break;
        }
    }
    report
}

/// One part of [`run`], whose report is the sum of them ([`Report::add`]).
#[must_use]
pub fn run_part(policy: &Policy, config: &Config, part: Part) -> Report {
    let mut report = Report::new(policy, config.seed);
    let spans = match part.0 {
        Machine::Small { .. } => &SPANS[..],
        Machine::Large { .. } => &[LARGE],
    };
    match (Memory::new(spans), part.0) {
        (Err(error), _) => report.give_up(error.to_string()),
        (Ok(memory), Machine::Small { page_size, mask, order }) => {
            small(policy, config, &mut report, &memory, page_size, mask, order);
        }
        (Ok(memory), Machine::Large { geometry, blocks }) => {
            let blocks = if policy.walks { blocks.min(MOST_WALKED) } else { blocks };
            large(policy, config, &mut report, &memory, geometry, blocks);
        }
    }
    report
}

fn small(
    policy: &Policy,
    config: &Config,
    report: &mut Report,
    memory: &Arc<Memory>,
    page_size: u64,
    mask: u64,
    order: PageOrder,
) {
    let probe = Probe::new(PageAllocator::new(Arc::clone(memory), page_size, mask, order));
    let bits = mask.count_ones();
    let machine = format!("{} KiB pages {order:?}, {bits}-bit device", page_size >> 10);
    let few = |geometry: &Geometry| page_size / geometry.size.max(1) <= MOST_BLOCKS;
    let geometries = config.geometries.iter().copied().filter(few).collect();
    Exercise::new(policy, config, geometries, report, memory, probe, machine).all();
}

fn large(
    policy: &Policy,
    config: &Config,
    report: &mut Report,
    memory: &Arc<Memory>,
    geometry: Geometry,
    blocks: usize,
) {
    let probe = Probe::new(PageAllocator::new(Arc::clone(memory), 4096, MASK, PageOrder::Forward));
    let machine = "4 KiB pages Forward".to_owned();
    Exercise::new(policy, config, Vec::new(), report, memory, probe, machine).large_pool(geometry, blocks);
}
