//! Debian's kernels' own mm/dmapool.c, compiled here and held against everything. The sources are the user's:
//! `pool/bridge/sources` brings them, and `cargo test -p scenarios --test kernel_files -- --ignored` runs this.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use c_bridge::{KernelFile, Options};
use pool::{Block, Flags, FreeError, Geometry, Memory, PageAllocator, PageOrder, PageSource, Policy, Pool, Span};
use scenarios::{CheckOptions, Report, Status, check};

const SERIES: [&str; 3] = ["6.1", "6.12", "newest"];
const SPAN: Span = Span { cpu: CpuAddr(0xffff_8000_1000_0000), dma: DmaAddr(0x8000_0000), len: 1 << 20 };
const BLOCK: Geometry = Geometry { size: 64, align: 64, boundary: 0 };

/// A kernel tree, as far as `pool/bridge/sources` brings it.
fn tree(series: &str) -> PathBuf {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("POOLPROOF_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("poolproof")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/poolproof")))
        .expect("a cache folder");
    let tree = cache.join("linux").join(series);
    assert!(tree.is_dir(), "{} is not there: run pool/bridge/sources", tree.display());
    tree
}

fn file(series: &str, debug: bool) -> KernelFile {
    let options = Options { debug, ..Options::default() };
    KernelFile::open(&tree(series), &options).unwrap_or_else(|error| panic!("{series}: {error}"))
}

/// Linux's order of January 2023, put into the file of 6.12: each block of a fresh page in front of the one before.
fn descending() -> Policy {
    let changed = |text: &str| {
        let lines = [
            ("block->next_block = NULL;", "block->next_block = first;"),
            ("if (last)\n", "if (0)\n"),
            ("last = block;", "last = last ? last : block;"),
        ];
        assert!(lines.iter().all(|(line, _)| text.matches(line).count() == 1), "6.12 is not as it was");
        Some(lines.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
    };
    let file = KernelFile::open_edited(&tree("6.12"), &Options::default(), changed).expect("it compiles");
    file.expect("it was changed").policy("descending")
}

fn checked(policy: Policy, scenarios: &[&str]) -> Report {
    let scenarios = scenarios.iter().map(|&name| name.to_owned()).collect();
    let options = CheckOptions { pools: vec![policy], scenarios, excuse: false, ..CheckOptions::default() };
    check(&options, &|_, _| {}).expect("a bench")
}

fn broken(report: &Report) -> Vec<String> {
    let rows = report.rows.iter().filter(|row| row.status == Status::Broken);
    rows.map(|row| format!("{}: {:?} {:?}", row.scenario, row.verdict, row.error)).collect()
}

/// A pool of a file on a machine of its own.
struct Bench {
    memory: Arc<Memory>,
    pool: Box<dyn Pool>,
}

impl Bench {
    fn new(policy: &Policy) -> Self {
        let memory = Memory::new(&[SPAN]).expect("1 MiB");
        let source: Arc<dyn PageSource> = PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, PageOrder::Forward);
        let pool = (policy.create)(Arc::clone(&memory), source, BLOCK).expect("a pool");
        Self { memory, pool }
    }

    fn take(&self, count: usize) -> Vec<Block> {
        (0..count).map(|_| self.pool.alloc(Flags::KERNEL).expect("a block")).collect()
    }

    fn offsets(&self, count: usize) -> Vec<u64> {
        self.take(count).into_iter().map(|block| block.dma.0 - SPAN.dma.0).collect()
    }
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn no_version_breaks_anything() {
    for series in SERIES {
        for debug in [false, true] {
            let report = checked(file(series, debug).policy(series), &[]);
            assert_eq!(broken(&report), [""; 0], "{series}, debug {debug}");
        }
    }
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn the_order_of_2023_fails_as_the_built_in_pool_does() {
    let built_in = pool::policy::by_name("linked-descending").expect("built in");
    let scenario = ["bootloader-to-ethernet"];
    let (kernel, ours) = (checked(descending(), &scenario), checked(built_in, &scenario));
    let said = |report: &Report| {
        let row = &report.rows[0];
        assert_eq!((row.status, row.error.as_deref()), (Status::Broken, Some("device descriptor read/64, error -110")));
        let details =
            row.failures.iter().map(|detail| (detail.variants.clone(), detail.verdict, detail.reason.clone()));
        format!("{:?}", details.collect::<Vec<_>>())
    };
    assert_eq!(said(&kernel), said(&ours));
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn fresh_blocks_come_in_the_order_of_each_version() {
    for series in SERIES {
        let bench = Bench::new(&file(series, false).policy(series));
        assert_eq!(bench.offsets(4), [0, 0x40, 0x80, 0xc0], "{series}");
        assert_eq!(bench.pool.pages(), 1);
    }
    assert_eq!(Bench::new(&descending()).offsets(4), [0xfc0, 0xf80, 0xf40, 0xf00]);
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn a_page_of_6_1_has_one_block_less() {
    for (series, blocks) in [("6.1", 63), ("6.12", 64), ("newest", 64)] {
        let policy = file(series, false).policy(series);
        let bench = Bench::new(&policy);
        bench.take(blocks);
        assert_eq!(bench.pool.pages(), 1, "{series}");
        bench.take(1);
        assert_eq!(bench.pool.pages(), 2, "{series}");
        assert_eq!((policy.loses_last, policy.smallest), (blocks == 63, if blocks == 63 { 4 } else { 16 }));
    }
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn freed_blocks_come_again_in_the_order_of_each_version() {
    for series in SERIES {
        let bench = Bench::new(&file(series, false).policy(series));
        let held = bench.take(65);
        for block in [1, 5, 3] {
            bench.pool.free(held[block]).expect("taken back");
        }
        let page_one = if series == "6.1" { 0x1080 } else { 0xc0 };
        assert_eq!(bench.offsets(1), [page_one], "{series}");
    }
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn a_double_free_is_silent_or_named_by_the_build() {
    for (series, debug, refused) in
        [("6.1", true, true), ("6.12", false, false), ("6.12", true, true), ("newest", true, true)]
    {
        let bench = Bench::new(&file(series, debug).policy(series));
        let block = bench.take(1)[0];
        bench.pool.free(block).expect("taken back");
        match bench.pool.free(block) {
            Ok(()) => {
                assert!(!refused, "{series} debug {debug}");
                assert_eq!(bench.take(2), [block, block], "handed out twice");
            }
            Err(FreeError::Other(text)) => {
                assert!(refused && text.contains("already free"), "{series} debug {debug}: {text}");
            }
            Err(error) => panic!("{series} debug {debug}: {error}"),
        }
    }
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn a_link_that_a_device_rewrote_is_handed_out() {
    for debug in [false, true] {
        let bench = Bench::new(&file("6.12", debug).policy("6.12"));
        let block = bench.take(1)[0];
        bench.pool.free(block).expect("taken back");
        bench.memory.write_u64(block.cpu.offset(8), 0xdead_0000).expect("the DMA address in the block");
        assert_eq!(bench.take(1), [Block { dma: DmaAddr(0xdead_0000), ..block }], "debug {debug}");
    }
}

/// The scenario `malicious-device`: what each version keeps in free blocks leads it astray.
#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn a_malicious_device_leads_every_version_astray() {
    for series in SERIES {
        for debug in [false, true] {
            let report = checked(file(series, debug).policy(series), &["malicious-device"]);
            let row = &report.rows[0];
            assert_eq!(row.status, Status::Declared, "{series} debug {debug}: {:#?}", row.failures);
            let notes = row.seen[0].notes.join("\n");
            let (sees, second) = if series == "6.1" {
                ("sees next offsets in free blocks", "NoOverlap with 0xffff000040001020 / 0x80001020")
            } else {
                ("sees next pointers in free blocks", "OwnPages with 0xffff000040000000 / 0x666f2079656b2061")
            };
            assert!(notes.contains(sees) && notes.contains(second), "{series} debug {debug}: {notes}");
            assert!(notes.contains("this is allocation 2 since then"), "{series} debug {debug}: {notes}");
        }
    }
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn sysfs_says_how_many_blocks_are_in_use() {
    for series in SERIES {
        let file = file(series, false);
        let bench = Bench::new(&file.policy(series));
        bench.take(3);
        let text = file.pools_file(&bench.memory).expect("a file");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("poolinfo - 0.1"));
        let fields: Vec<&str> = lines.next().expect("a pool").split_whitespace().collect();
        assert_eq!(fields, ["poolproof", "3", "64", "64", "1"], "{series}");
    }
}
