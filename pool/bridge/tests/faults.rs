//! Faults of a C file that no pool of Rust could have: each is found, named, and the program goes on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use c_bridge::{BuildError, KernelFile, Options};
use pool::contract::{self, Config};
use pool::{Geometry, Policy, Promise};

const PLAIN: &str = include_str!("pools/plain.c");

/// The file with one fault, in a folder of its own that also takes what is compiled.
fn open(fault: &str) -> (tempfile::TempDir, Result<KernelFile, BuildError>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plain.c");
    fs::write(&path, format!("#define FAULT_{fault} 1\n#line 1\n{PLAIN}")).expect("written");
    let cache = Some(folder.path().join("cache"));
    let file = KernelFile::open(&path, &Options { cache, ..Options::default() });
    (folder, file)
}

fn policy(fault: &str) -> (tempfile::TempDir, Policy) {
    let (folder, file) = open(fault);
    (folder, file.unwrap_or_else(|error| panic!("{fault}: {error}")).policy("plain.c"))
}

/// A few geometries in one small machine: as much as a fault needs to show.
fn small() -> Config {
    let geometries = [(64, 64, 0), (100, 4, 512), (4096, 4096, 0)];
    Config {
        page_sizes: vec![4096, 65536],
        geometries: geometries.map(|(size, align, boundary)| Geometry { size, align, boundary }).into(),
        steps: 40,
        large_pools: Vec::new(),
        ..Config::default()
    }
}

#[test]
fn the_file_without_a_fault_keeps_every_promise() {
    let report = contract::run(&policy("NONE").1, &small());
    assert!(report.is_kept(), "{report}");
}

#[test]
fn every_fault_breaks_its_promise_and_is_named() {
    for (fault, promise, words) in [
        ("FAULT", Promise::Sound, "dma_pool_alloc did not return: a fault (SIGSEGV) at 0x10"),
        ("ENDLESS", Promise::Sound, "dma_pool_free did not return: it does not come to an end"),
        ("DEADLOCK", Promise::Sound, "deadlock: this thread takes a second time &pool->lock"),
        ("LOCKED", Promise::Sound, "deadlock: this thread takes a second time &pool->lock"),
        ("ASSERTION", Promise::Sound, "BUG at "),
        ("TWICE", Promise::Sound, "it is free already"),
        ("OVERRUN", Promise::Sound, "something wrote behind its "),
        ("SLEEP", Promise::NoSleep, "an allocation with GFP_KERNEL while a spinlock is held"),
        ("GFP", Promise::NoSleep, "with leave to sleep"),
        ("LEAK", Promise::NoLeak, "objects of kmalloc were not freed when an idle pool was destroyed"),
    ] {
        let (_folder, policy) = policy(fault);
        let report = contract::run(&policy, &small());
        let broken = report.broken().find(|(broken, _)| *broken == promise);
        let (_, violation) = broken.unwrap_or_else(|| panic!("{fault} does not break {promise:?}: {report}"));
        let seen = violation.finding.to_string();
        let sleeps = "in a call that must not sleep";
        assert!(seen.contains(words) || (fault == "GFP" && seen.contains(sleeps)), "{fault}: {seen}");
    }
}

#[test]
fn a_fault_is_placed_in_the_file() {
    let (_folder, policy) = policy("FAULT");
    let report = contract::run(&policy, &small());
    let (_, violation) = report.broken().find(|(promise, _)| *promise == Promise::Sound).expect("it crashes");
    let line = 1 + PLAIN.lines().position(|line| line.contains("*(volatile int *)0x10")).expect("the fault");
    let seen = violation.finding.to_string();
    assert!(seen.contains(&format!("plain.c:{line} (dma_pool_alloc)")), "{seen}");
}

#[test]
fn a_name_that_is_not_there_is_told() {
    let (_folder, file) = open("MISSING");
    let Err(BuildError::Compile { missing, words, .. }) = file.map(drop) else { panic!("it compiles") };
    assert_eq!(missing, ["vmap_pfn"]);
    assert!(words.contains("plain.c:"), "{words}");
}

#[test]
fn what_does_not_compile_is_told_in_the_compilers_words() {
    let (_folder, file) = open("SYNTAX");
    let error = file.map(drop).expect_err("it is no C");
    assert!(error.is_the_files());
    let line = 1 + PLAIN.lines().position(|line| line.contains("this is no C")).expect("the fault");
    assert!(error.to_string().contains(&format!("plain.c:{line}")), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let error = KernelFile::open(&PathBuf::from("/nowhere/mm/dmapool.c"), &Options::default()).map(drop);
    let error = error.expect_err("there is none");
    assert!(error.is_the_files() && error.to_string().contains("/nowhere/mm/dmapool.c"), "{error}");
}

#[test]
fn a_file_is_compiled_once_for_each_content() {
    let (folder, file) = open("NONE");
    file.expect("it compiles");
    let path = folder.path().join("plain.c");
    let objects = || fs::read_dir(folder.path().join("cache")).expect("a cache").count();
    let options = Options { cache: Some(folder.path().join("cache")), ..Options::default() };
    let open = |options: &Options| KernelFile::open(&path, options).map(drop).expect("it compiles");
    open(&options);
    assert_eq!(objects(), 1);
    open(&Options { debug: true, ..options.clone() });
    assert_eq!(objects(), 2, "a debug build is another");
    fs::write(&path, format!("{PLAIN}\n/* changed */\n")).expect("written");
    open(&options);
    assert_eq!(objects(), 3, "a changed file is another");
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plain.c");
    fs::write(&path, PLAIN).expect("written");
    // A file where the folder should be: even root cannot write below it.
    let options = Options { cache: Some(path.join("cache")), ..Options::default() };
    let policy = KernelFile::open(&path, &options).expect("it compiles").policy("plain.c");
    let report = contract::run(&policy, &Config { until_broken: true, ..small() });
    assert!(report.is_kept(), "{report}");
}

/// Pools in several threads at once, one of which crashes: the others do not notice.
#[test]
fn a_crash_stays_in_its_thread() {
    let ((_one, crashing), (_other, sound)) = (policy("FAULT"), policy("NONE"));
    let config = Arc::new(small());
    let threads: Vec<_> = [crashing, sound.clone(), sound]
        .into_iter()
        .map(|policy| {
            let config = Arc::clone(&config);
            std::thread::spawn(move || contract::run(&policy, &config).is_kept())
        })
        .collect();
    let kept: Vec<bool> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    assert_eq!(kept, [false, true, true]);
}
