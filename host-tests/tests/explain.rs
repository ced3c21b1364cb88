//! What the bench's driver shows in debugfs, read again: writer and reader, held against each other and against a kernel's.

use std::fs;
use std::path::Path;

use scenarios::explain::{Explanation, Source, Verdict, explain};
use scenarios::{Bench, Run};

/// Runs a scenario and explains what its driver shows at the end.
fn explained(bench: Bench, scenario: &str) -> (Run, Explanation) {
    let run = bench.debugfs(true).run(scenario).expect("the bench can be set up");
    let sources: Vec<_> = run.debugfs.iter().map(|file| Source { name: file.name, text: &file.text }).collect();
    let explanation = explain(&sources).expect("the driver's files");
    (run, explanation)
}

/// The ledger, which sees the register write, and the reader, which sees only text, say the same of each pool.
#[test]
fn files_say_what_the_ledger_saw() {
    for policy in scenarios::policy::table() {
        for endpoints in [4, 8, 16] {
            for scenario in ["bootloader-to-ethernet", "rndis"] {
                let (run, explanation) = explained(Bench::new().pool(policy.clone()).endpoints(endpoints), scenario);
                let what = format!("{}, {endpoints} endpoints, {scenario}\n{explanation}", policy.name);
                assert!(explanation.gaps.is_empty(), "{what}");
                let layout = run.findings.iter().any(|finding| finding.name() == "LayoutContract");
                let expected = if layout { Verdict::ClientAssumptionViolated } else { Verdict::NoFailureFound };
                assert_eq!(explanation.verdict(), expected, "{what}");
                assert_eq!(run.is_broken(), layout, "{what}");
            }
        }
    }
}

#[test]
fn the_order_of_2023_is_named_and_no_other() {
    for policy in scenarios::policy::table() {
        for endpoints in [4, 8, 16] {
            let (_, explanation) = explained(Bench::new().pool(policy.clone()).endpoints(endpoints), "ecm");
            let named = explanation.wrong().any(|statement| statement.text.contains("January 2023"));
            assert_eq!(named, policy.name == "linked-descending", "{}, {endpoints}\n{explanation}", policy.name);
            let slot_0 = explanation.wrong().any(|statement| statement.text.contains("as slot 0, which is ep15 TX"));
            assert_eq!(slot_0, named && endpoints == 16, "{}, {endpoints}\n{explanation}", policy.name);
        }
    }
}

#[test]
fn the_lpm_map_has_the_same_files() {
    let (_, explanation) = explained(Bench::new().lpm(true), "ecm");
    assert_eq!(explanation.verdict(), Verdict::NoFailureFound, "{explanation}");
    assert_eq!(explanation.read[0], "qheads: 16 endpoint numbers");
}

#[test]
fn without_being_asked_nothing_is_read() {
    assert!(Bench::new().run("ecm").expect("the bench can be set up").debugfs.is_empty());
}

/// Each line without the value of its words, and those values.
fn shapes(text: &str) -> (Vec<String>, String) {
    let mut values = String::new();
    let mut shape = |line: &str| {
        let tokens = line.split(' ').map(|token| {
            let (name, value) = token.split_at(token.find('=').map_or(0, |at| at + 1));
            if value.len() != 8 || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return token.to_owned();
            }
            values += value;
            format!("{name}X")
        });
        tokens.collect::<Vec<_>>().join(" ")
    };
    (text.lines().map(&mut shape).collect(), values)
}

/// The kernel's files in this repository were printed by Debian's kernels on a board in QEMU.
#[test]
fn the_format_is_the_kernels() {
    let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../chipidea-sim/tests/explain/boards");
    for (board, endpoints) in [("6.1-msm", 16), ("6.12-msm", 16), ("7.3-pci-8-endpoints", 8)] {
        let (run, _) = explained(Bench::new().endpoints(endpoints), "ecm");
        assert_eq!(run.debugfs.iter().map(|file| file.name).collect::<Vec<_>>(), ["qheads", "requests", "registers"]);
        for file in &run.debugfs {
            let kernel = fs::read_to_string(boards.join(board).join(file.name)).expect("the kernel's file");
            let ((mut ours, values), (mut kernels, kernel_values)) = (shapes(&file.text), shapes(&kernel));
            if file.name == "requests" {
                // What is queued differs. The kernel has one dTD, of endpoint 2, and the bench has that last.
                assert_eq!(ours.len() % 8, 0, "{board}: a dTD has eight lines");
                (ours, kernels) = (ours.split_off(ours.len() - 8), kernels.split_off(kernels.len() - 8));
            }
            assert_eq!(ours, kernels, "{board}: {}", file.name);
            let lower = |values: &str| values.bytes().any(|byte| byte.is_ascii_lowercase());
            assert_eq!(lower(&values), lower(&kernel_values), "{board}: {}: how digits are written", file.name);
        }
    }
}
