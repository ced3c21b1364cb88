//! Logs of real machines: what is judged, what is not, and that no text is too much.

use std::fmt::Write;
use std::time::Duration;

use bus::{AccessKind, Belief, DmaAddr, Kind, LayoutContract, PoolLayout};
use pool::Finding;
use pool::observed::{self, Access, End, Log, Ordered, Report};
use proptest::prelude::*;

/// Made by pool/observe/kprobe-events.sh on a board with Debian's kernel of that name: from the load of ci_hdrc with a bound
/// g_ether to its unbinding.
const REAL: [(&str, &str); 3] = [
    ("6.1.0-50-arm64", include_str!("observed/linux-6.1.0-50-arm64.txt")),
    ("6.12.117+deb13-arm64", include_str!("observed/linux-6.12.117+deb13-arm64.txt")),
    ("7.3.4+deb13-arm64", include_str!("observed/linux-7.3.4+deb13-arm64.txt")),
];

static DQH: Kind = Kind { name: "dQH", label: |index, f| write!(f, "dQH {index}") };
static CONTRACT: LayoutContract = LayoutContract {
    register: "ENDPTLISTADDR",
    statement: "ascending",
    source: "",
    align: 2048,
    kind: &DQH,
    size: 48,
    stride: 64,
};
static LAYOUT: PoolLayout = PoolLayout { pool: "ci_hw_qh", contract: &CONTRACT, assumed_by: "init_eps" };

fn judge(text: &str) -> Report {
    observed::judge(&Log::read(text), &[&LAYOUT], &[])
}

fn found(report: &Report) -> Vec<(Option<usize>, String)> {
    report.findings.iter().map(|noted| (noted.line, noted.finding.to_string())).collect()
}

/// A pool of 64 bytes at 0x8000_0000, of which the processor's addresses are `CPU` above.
fn line(time: u64, what: &str, offset: u64) -> String {
    let (cpu, dma) = (0xffff_0000_0000_0000 + offset, 0x8000_0000 + offset);
    format!("{time} {what} pool=0xa0 cpu={cpu:#x} dma={dma:#x} caller=driver_probe+0x10/0x20\n")
}

const CREATED: &str = "0 create pool=0xa0 name=\"ring\" size=64 align=64 boundary=4096\n";

#[test]
fn real_logs_are_read_to_the_last_line() {
    for (kernel, text) in REAL {
        assert!(text.lines().next().is_some_and(|line| line.contains(kernel)));
        let log = Log::read(text);
        assert_eq!((log.garbled, log.lost, log.overwritten, log.out_of_order), (0, 0, 0, 0), "{kernel}");
        let report = observed::judge(&log, &[&LAYOUT], &[]);
        assert_eq!(found(&report), [], "{kernel}");
        let pools: Vec<_> = report
            .pools
            .iter()
            .map(|pool| (&*pool.name, pool.created, pool.end, pool.in_use, pool.known.size))
            .collect();
        let expected =
            [("ci_hw_qh", true, End::Destroyed, 0, Some(48)), ("ci_hw_td", true, End::Destroyed, 0, Some(28))];
        assert_eq!(pools, expected, "{kernel}");
        assert!(report.pools.iter().all(|pool| pool.handed_out == pool.freed), "{kernel}");
        let layouts: Vec<_> = report.layouts.iter().map(|judged| (judged.objects, judged.held.clone())).collect();
        assert_eq!(layouts, [(32, Ok(true))], "{kernel}");
        assert!(log.events().all(|event| event.caller.as_ref().is_some_and(|caller| caller.contains("[ci_hdrc]"))));
    }
}

#[test]
fn a_real_log_that_is_cut_off_anywhere_shows_no_fault() {
    for (kernel, text) in REAL {
        let lines: Vec<&str> = text.lines().collect();
        for end in 0..=lines.len() {
            let report = judge(&lines[..end].join("\n"));
            assert_eq!(found(&report), [], "{kernel} to line {end}");
        }
        // It began late: what is freed was handed out before. A layout that is not there from its first block is not judged.
        let first = lines.iter().position(|line| line.contains("dma_pool_alloc: ")).expect("there are allocations");
        for begin in first + 1..lines.len() {
            let report = judge(&lines[begin..].join("\n"));
            assert_eq!(found(&report), [], "{kernel} from line {begin}");
            assert!(report.layouts.iter().all(|judged| judged.held.is_err()), "{kernel} from line {begin}");
        }
    }
}

#[test]
fn lost_events_explain_what_would_be_a_fault() {
    for (kernel, text) in REAL {
        let lines: Vec<&str> = text.lines().collect();
        for at in 14..lines.len() {
            let mut lossy = lines.clone();
            lossy.splice(at..(at + 3).min(lines.len()), ["CPU:1 [LOST 3 EVENTS]"]);
            let report = judge(&lossy.join("\n"));
            assert_eq!(found(&report), [], "{kernel} without three lines from {at}");
        }
    }
}

#[test]
fn the_same_loss_without_a_word_is_a_fault() {
    // So that the test above can fail: the frees of blocks whose allocations are cut out.
    let (_, text) = REAL[1];
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.contains("dma_pool_alloc: ")).expect("there are allocations");
    let cut = [&lines[..first + 4], &lines[first + 7..]].concat().join("\n");
    assert_eq!(judge(&cut).findings_total, 4, "three frees and the layout: {:?}", found(&judge(&cut)));
}

#[test]
fn logs_of_processors_that_stand_one_behind_the_other_are_merged() {
    let (_, text) = REAL[0];
    let of = |processor: &str| text.lines().filter(move |line| line.contains(processor)).collect::<Vec<_>>();
    let parts = ["[003]", "[002]", "[001]", "[000]"].map(of).concat();
    let log = Log::read(&parts.join("\n"));
    assert!(log.out_of_order > 0, "the board used more than one processor");
    assert_eq!(found(&observed::judge(&log, &[&LAYOUT], &[])), []);
}

#[test]
fn each_broken_promise_is_named_with_its_line() {
    let at = |offset| line(1, "alloc", offset);
    for (lines, expected) in [
        (
            [at(0), at(0)].concat(),
            "pool ring broke its promise NoOverlap: 0x80000000 overlaps the live block at 0x80000000",
        ),
        ([at(0), at(32)].concat(), "pool ring broke its promise NoOverlap: 0x80000020 overlaps"),
        ([at(64), at(0x78)].concat(), "pool ring broke its promise NoOverlap: 0x80000078 overlaps"),
        ([at(64), at(0x98)].concat(), "pool ring broke its promise Alignment: 0x80000098 is not aligned to 64 bytes"),
        ([at(0), at(0xfe0)].concat(), "pool ring broke its promise Alignment: 0x80000fe0"),
        (
            [at(0), at(64).replace("dma=0x80000040", "dma=0x80000080")].concat(),
            "pool ring broke its promise SameMemory: 0xffff000000000040 and 0x80000080 are not the same memory",
        ),
        (
            [at(0), line(2, "free", 0), line(3, "free", 0)].concat(),
            "the driver freed 0xffff000000000000 / 0x80000000 to pool ring: it is free already",
        ),
        (
            [at(0), line(2, "free", 64)].concat(),
            "the driver freed 0xffff000000000040 / 0x80000040 to pool ring: no block",
        ),
        (
            [at(0), line(2, "free", 0).replace("cpu=0xffff000000000000", "cpu=0xffff000000001000")].concat(),
            "the driver freed 0xffff000000001000 / 0x80000000 to pool ring: it was handed out as 0xffff000000000000",
        ),
        (
            [at(0), "4 destroy pool=0xa0\n".to_owned()].concat(),
            "the driver is gone and left 1 block: 0x80000000 of driver_probe+0x10/0x20",
        ),
    ] {
        let report = judge(&format!("{CREATED}{lines}"));
        let found = found(&report);
        let (line, first) = found.first().unwrap_or_else(|| panic!("{expected}: nothing was found"));
        assert!(first.starts_with(expected), "{first}\ninstead of {expected}");
        assert_eq!(*line, Some(lines.lines().count() + 1), "{first}");
    }
}

#[test]
fn a_block_across_a_boundary_is_found_where_the_boundary_is_known() {
    let created = CREATED.replace("align=64", "align=32");
    let crossing = format!("{created}{}", line(1, "alloc", 0xfe0));
    assert!(
        found(&judge(&crossing))[0].1.contains("promise Boundary: 0x80000fe0 and 64 bytes cross a multiple of 4096")
    );
    let unknown = format!("{}{}", created.replace(" boundary=4096", ""), line(1, "alloc", 0xfe0));
    assert_eq!(found(&judge(&unknown)), []);
}

#[test]
fn memory_is_one_pools_alone_whatever_device_it_is_for() {
    let other = |cpu: u64, dma: u64| format!("2 alloc pool=0xb0 name=other cpu={cpu:#x} dma={dma:#x}\n");
    let with = |other: String| {
        let creations = format!("{CREATED}0 create pool=0xb0 name=other size=64 align=64 device=0xd0\n");
        found(&judge(&format!("{creations}{}{other}", line(1, "alloc", 0))))
    };
    // Behind an IOMMU two devices may call different memory the same.
    assert_eq!(with(other(0xffff_0000_0010_0000, 0x8000_0000)), []);
    let found = with(other(0xffff_0000_0000_0020, 0x9000_0000));
    let expected = "pool other broke its promise NoOverlap: 0xffff000000000020 / 0x90000000 is the memory of \
                    0xffff000000000000 / 0x80000000, in use by pool ring";
    assert_eq!(found, [(Some(4), expected.to_owned())]);
}

#[test]
fn a_pool_without_a_creation_is_judged_as_far_as_it_is_known() {
    // The least that a log can say.
    let log: String = (0..4)
        .map(|n| format!("{n} alloc name=ci_hw_qh cpu={:#x} dma={:#x}\n", 0x1000 + (n << 6), 0x800 + (n << 6)))
        .collect();
    let report = judge(&log);
    assert_eq!(found(&report), []);
    assert_eq!(report.layouts[0].held, Ok(true));
    let twice = found(&judge(&format!("{log}5 alloc name=ci_hw_qh cpu=0x1040 dma=0x840\n")));
    assert!(twice[0].1.contains("promise NoOverlap"), "{twice:?}");
    // The log may have begun behind the first block, but nothing that came before makes a descending order right.
    let late = judge(&log.lines().skip(1).collect::<Vec<_>>().join("\n"));
    assert!(
        late.layouts[0].held.as_ref().is_err_and(|why| why.contains("1 of its blocks may have come before")),
        "{:?}",
        late.layouts
    );
    let untimed: Vec<_> = log.lines().rev().map(|line| &line[2..]).collect();
    let descending = judge(&untimed.join("\n"));
    assert_eq!((&descending.layouts[0].held, descending.findings_total), (&Ok(false), 1));
    let report = judge(&format!("{log}5 free name=ci_hw_qh cpu=0x4000 dma=0x4800\n"));
    assert_eq!((report.excused_frees, found(&report)), (1, Vec::new()));
}

/// Reads of 48 bytes at the begin of the pool's memory, at times between two.
fn read_at(earliest: u64, latest: u64, offset: u64) -> Access {
    let access = bus::Access {
        addr: DmaAddr(0x8000_0000 + offset),
        len: 48,
        kind: AccessKind::Read,
        belief: Belief::new(&DQH, 0, "token"),
    };
    Access { earliest: Duration::from_secs(earliest), latest: Duration::from_secs(latest), access }
}

#[test]
fn accesses_are_judged_where_their_order_is_known() {
    let text = [CREATED.to_owned(), line(10, "alloc", 0), line(20, "free", 0), line(30, "alloc", 0)].concat();
    let with = |accesses: &[Access]| observed::judge(&Log::read(&text), &[], accesses);
    let right = with(&[read_at(11, 12, 0), read_at(31, 32, 0)]);
    assert_eq!((right.accesses, found(&right)), (Ordered { judged: 2, ..Ordered::default() }, Vec::new()));
    let freed = with(&[read_at(21, 22, 0)]);
    assert!(matches!(freed.findings[0].finding, Finding::ReadOfFreedBlock { .. }), "{:?}", freed.findings);
    // At 20 it was freed: nobody can tell which came first.
    let unknown = with(&[read_at(19, 21, 0), read_at(20, 20, 0), read_at(12, 13, 0x10_0000)]);
    let expected = Ordered { unknown: 2, elsewhere: 1, ..Ordered::default() };
    assert_eq!((unknown.accesses, found(&unknown)), (expected, Vec::new()));
}

/// Words that lines are made of, right and wrong.
fn word() -> impl Strategy<Value = String> {
    let key =
        prop::sample::select(vec!["pool", "cpu", "dma", "name", "size", "align", "boundary", "device", "caller", "x"]);
    let number = prop_oneof![any::<u64>(), 0..0x3000_u64, Just(u64::MAX), Just(1 << 20)];
    let event =
        prop::sample::select(vec!["alloc", "free", "create", "destroy", "dma_pool_alloc:", "[LOST", "EVENTS]", "\""]);
    prop_oneof![
        3 => (key.clone(), number.clone()).prop_map(|(key, number)| format!("{key}={number:#x}")),
        1 => (key, number).prop_map(|(key, number)| format!("{key}={number}")),
        1 => event.prop_map(str::to_owned),
        1 => "[0-9]{1,20}\\.?[0-9]{0,12}:?",
        1 => "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in "\\PC*|(\\PC*\n)*") {
        judge(&text);
    }

    #[test]
    fn no_line_is_too_much(lines in prop::collection::vec((0..4_usize, prop::collection::vec(word(), 0..8)), 0..40)) {
        let mut text = String::new();
        for (what, words) in lines {
            let event = ["alloc", "free", "create", "destroy"][what];
            writeln!(text, "{what} {event} pool=1 cpu=0x1000 {}", words.join(" ")).expect("a string takes all");
            writeln!(text, "{}", words.join(" ")).expect("a string takes all");
        }
        let report = judge(&text);
        prop_assert!(report.findings.len() as u64 <= report.findings_total);
    }

    /// Whatever a right pool does, in whatever order, nothing is found; and one block twice is.
    #[test]
    fn right_pools_are_right(choices in prop::collection::vec((any::<bool>(), 0..64_u64), 1..200), again in any::<prop::sample::Index>()) {
        let mut text = CREATED.to_owned();
        let mut in_use = std::collections::BTreeSet::new();
        for (number, (_, block)) in (1..).zip(&choices) {
            let what = if in_use.remove(block) { "free" } else { in_use.insert(*block); "alloc" };
            text += &line(number, what, block * 64);
        }
        let report = judge(&text);
        prop_assert_eq!(found(&report), []);
        prop_assert_eq!(report.pools[0].in_use, in_use.len());
        if !in_use.is_empty() {
            let block = in_use.iter().nth(again.index(in_use.len())).expect("it is within");
            text += &line(1000, "alloc", block * 64);
            prop_assert_eq!(judge(&text).findings_total, 1);
        }
    }
}
