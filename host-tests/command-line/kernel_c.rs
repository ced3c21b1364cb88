//! Kernel C files as pools. The file is a small one of our own: the kernel's are tested by `kernel_files`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{poolproof, stderr, stdout};

const PLAIN: &str = include_str!("../../pool/bridge/tests/pools/plain.c");
const SCENARIO: [&str; 4] = ["--scenario", "bootloader-to-ethernet", "--endpoints", "8"];

/// A kernel tree with a file of ours, which has this fault.
fn tree(fault: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("mm")).expect("a folder");
    write(folder.path(), fault);
    folder
}

fn write(tree: &Path, fault: &str) {
    fs::write(tree.join("mm/dmapool.c"), format!("#define FAULT_{fault} 1\n#line 1\n{PLAIN}")).expect("written");
}

/// `poolproof` with that file, compiled into the tree's own cache.
fn with(tree: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(arguments)
        .env("POOLPROOF_CACHE", tree.join("cache"))
        .current_dir(tree)
        .output()
        .expect("it starts");
    (output.status.code(), stdout(&output), stderr(&output))
}

fn git(tree: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"];
    let status = Command::new("git").arg("-C").arg(tree).args(identity).args(arguments).status();
    assert!(status.expect("git starts").success(), "git {arguments:?}");
}

#[test]
fn a_file_is_a_pool_like_any_other() {
    let tree = tree("NONE");
    let check = [&["check", "--dmapool-c", "mm/dmapool.c"], &SCENARIO[..]].concat();
    let (status, text, _) = with(tree.path(), &check);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("pools mm/dmapool.c (source "), "{text}");
    let (status, text, _) = with(tree.path(), &["run", "stall", "--dmapool-c", "."]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("scope: pool . (source "), "{text}");
    // A few lines of it are as Linux's.
    let (status, text, _) = with(tree.path(), &["mutants", "--dmapool-c", ".", "record-leaks"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("do not fit the file, and are not tried: ") && text.contains("1 of 1 mutants caught"),
        "{text}"
    );
}

#[test]
fn several_files_are_tested_at_once_each_with_its_command() {
    let (sound, crashing) = (tree("NONE"), tree("FAULT"));
    let other = crashing.path().display().to_string();
    let check = ["check", "--dmapool-c", ".", "--dmapool-c", &other, "--scenario", "stall", "--endpoints", "4"];
    let (status, text, _) = with(sound.path(), &check);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("did not return: a fault (SIGSEGV) at 0x10, in "), "{text}");
    assert!(text.contains(&format!("again: poolproof run stall --dmapool-c {other} --endpoints 4")), "{text}");
    assert!(text.contains("1 no failure found, 0 known bad, 1 broken"), "{text}");
}

#[test]
fn what_cannot_be_compiled_cannot_be_tested() {
    let tree = tree("MISSING");
    for (arguments, status, words) in [
        (
            &["check", "--dmapool-c", "."][..],
            125,
            "of the kernel's own it uses vmap_pfn, which poolproof does not have",
        ),
        (&["check", "--dmapool-c", "nowhere"], 125, "nowhere: No such file or directory"),
        (&["check", "--dmapool-c", "cache"], 125, "expected mm/dmapool.c or a kernel tree with it"),
        (&["check", "--dmapool-c", "nowhere", "--dmapool-c", "nowhere"], 129, "given twice"),
        (&["check", "--hostile", "--dmapool-c", "."], 129, "cannot be used with"),
        (&["check", "--dmapool-debug"], 129, "--dmapool-c"),
        (&["check", "--base", "HEAD"], 129, "--dmapool-c"),
        (&["run", "stall", "--dmapool-c", ".", "--pool", "linked"], 129, "cannot be used with"),
    ] {
        let (seen, _, error) = with(tree.path(), arguments);
        assert_eq!(seen, Some(status), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn without_a_compiler_it_is_the_machines_fault() {
    let tree = tree("NONE");
    let output = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(["check", "--dmapool-c", "."])
        .env("CC", "/nowhere/cc")
        .current_dir(tree.path())
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr(&output).contains("no C compiler: /nowhere/cc"), "{}", stderr(&output));
}

#[test]
fn a_file_is_compared_with_a_revision_and_with_a_file() {
    let tree = tree("NONE");
    git(tree.path(), &["init", "-q"]);
    git(tree.path(), &["add", "mm"]);
    git(tree.path(), &["commit", "-qm", "right"]);
    write(tree.path(), "LEAK");
    let contract = ["--scenario", "pool-contract"];
    let (status, text, _) =
        with(tree.path(), &[&["check", "--dmapool-c", "mm/dmapool.c", "--base", "HEAD"], &contract[..]].concat());
    assert_eq!(status, Some(1), "{text}");
    let table = "scenario       HEAD  mm/dmapool.c\npool-contract  ok    BROKEN (NoLeak)\n\n\
                 1 rows, in the model: 1 broke, 0 mended, 0 changed otherwise, 0 as before\n";
    assert!(text.starts_with(table), "{text}");
    let other = PathBuf::from("other.c");
    fs::write(tree.path().join(&other), PLAIN).expect("written");
    let (status, text, _) =
        with(tree.path(), &[&["check", "--dmapool-c", "other.c", "--base", "."], &contract[..]].concat());
    assert_eq!(status, Some(0), "what it is compared with is not under test: {text}");
    assert!(text.contains("pool-contract  BROKEN (NoLeak)  ok"), "{text}");
    let (status, _, error) = with(tree.path(), &["check", "--dmapool-c", ".", "--base", "v0.0"]);
    assert_eq!(status, Some(125), "{error}");
    assert!(error.contains("--base v0.0: neither a file nor a revision of the repository at ."), "{error}");
}

#[test]
fn sanitizers_find_what_guards_do_not() {
    for (flag, fault, words) in [
        ("--asan", "BEHIND", "AddressSanitizer: heap-buffer-overflow"),
        ("--tsan", "RACE", "ThreadSanitizer: data race"),
    ] {
        let contract = ["check", "--dmapool-c", ".", flag, "--scenario", "pool-contract"];
        let (status, text, error) = with(tree("NONE").path(), &contract);
        assert_eq!(status, Some(0), "{flag}: {text}{error}");
        assert!(text.contains(if flag == "--asan" { ", AddressSanitizer)" } else { ", ThreadSanitizer)" }), "{text}");
        let (status, _, error) = with(tree(fault).path(), &contract);
        assert_eq!(status, Some(1), "{flag}: {error}");
        assert!(error.contains(words) && error.contains("dmapool.c:"), "{flag}: {error}");
    }
}

/// What pools of Rust are named by is no place for a C file.
#[test]
fn a_pools_name_is_no_file() {
    let output = poolproof(&["check", "--pool", "mm/dmapool.c"]);
    assert_eq!(output.status.code(), Some(129));
}
