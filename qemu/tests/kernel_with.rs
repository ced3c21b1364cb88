//! `qemu/kernel-with`: real kernels with another mm/dmapool.c.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kernel-with");

/// How a run ended, and all that it said.
struct Run {
    status: Option<i32>,
    text: String,
}

impl Run {
    fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("bash is there");
        let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        Self { status: status.code(), text }
    }

    /// `qemu/kernel-with --dmapool-c FILE`, and then what it boots.
    fn with(file: &Path) -> Self {
        Self::of(Command::new(SCRIPT).arg("--dmapool-c").arg(file))
    }

    #[track_caller]
    fn ended(&self, status: i32) {
        assert_eq!(self.status, Some(status), "{}", self.text);
    }

    /// Lines of one side of the record that have `text`.
    fn lines(&self, side: &str, text: &str) -> Vec<&str> {
        let of_side = |line: &&str| line.split_once(" | ").is_some_and(|(begin, _)| begin.trim_end().ends_with(side));
        self.text.lines().filter(of_side).filter(|line| line.contains(text)).collect()
    }
}

/// Debian's own mm/dmapool.c in a folder of its own.
fn debians_own(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("dmapool.c");
    Run::of(Command::new(SCRIPT).arg("--write-dmapool-c").arg(&file)).ended(0);
    file
}

/// Links a fresh page's blocks as the commit of January 2023 did: each in front of the one before it, so that the page is
/// handed out from its end.
///
/// # Panics
/// If the file does not link them as Linux 6.12 does.
fn in_descending_order(source: &str) -> String {
    let begin = source.find("\nstatic void pool_initialise_page(").expect("a function that fills a page");
    let length = source[begin..].find("\n}\n").expect("its end");
    let (before, function, after) = (&source[..begin], &source[begin..begin + length], &source[begin + length..]);
    assert_eq!(function.matches("if (last)").count(), 1, "one place where a block follows the last: {function}");
    let (head, tail) = function.split_once("if (last)").expect("counted");
    let (_, tail) = tail.split_once("last = block;").expect("the block becomes the last");
    let front = "block->next_block = first;\n\t\tfirst = block;\n\t\tif (!last)\n\t\t\tlast = block;";
    format!("{before}{head}{front}{tail}{after}")
}

#[test]
#[ignore = "builds a kernel: run qemu/test --all"]
fn descending_order_is_not_enumerated() {
    let folder = TempDir::new().expect("a folder");
    let file = debians_own(&folder);
    let source = fs::read_to_string(&file).expect("text");
    fs::write(&file, in_descending_order(&source)).expect("it can be written");

    let run = Run::with(&file);
    run.ended(1);
    // Twice with each of two device numbers, as hub.c tries.
    let errors = run.lines("host", ": device descriptor read/64, error -110");
    assert_eq!(errors.len(), 4, "{}", run.text);
    // The first of a page of 64-byte blocks is its last one, in the guest's own words.
    let [queue_heads] = run.lines("board", "EP=00: RX=")[..] else { panic!("{}", run.text) };
    let (_, addresses) = queue_heads.split_once("RX=").expect("found");
    let receive = addresses.split_whitespace().next().expect("an address");
    assert!(receive.to_lowercase().ends_with("fc0"), "{queue_heads}");
    // And what that means.
    for words in ["CLIENT ASSUMPTION VIOLATED", "as slot 0, which is ep15 TX", "this is the order of January 2023"] {
        assert!(run.text.contains(words), "{words}: {}", run.text);
    }
}

#[test]
#[ignore = "builds a kernel: run qemu/test --all"]
fn debians_own_file_is_enumerated_and_carries_data() {
    let folder = TempDir::new().expect("a folder");
    let run = Run::with(&debians_own(&folder));
    run.ended(0);
    assert!(run.text.contains("NO FAILURE FOUND"), "{}", run.text);
    assert!(run.text.contains("exercised: high-speed enumeration, pings by cdc_ether"), "{}", run.text);
    assert!(run.text.contains("-poolproof, DMA pools of dmapool.c (sha256 "), "{}", run.text);
}

#[test]
#[ignore = "builds a kernel: run qemu/test --all"]
fn a_file_that_makes_no_kernel_is_skipped() {
    let folder = TempDir::new().expect("a folder");
    let file = debians_own(&folder);
    let source = fs::read_to_string(&file).expect("text");

    fs::write(&file, format!("{source}\nthis is no C;\n")).expect("it can be written");
    let run = Run::with(&file);
    run.ended(125);
    assert!(run.text.contains(&format!("{}:", file.display())) && run.text.contains(" error: "), "{}", run.text);

    // It compiles, but the kernel's drivers find no pools in it.
    fs::write(&file, "").expect("it can be written");
    let run = Run::with(&file);
    run.ended(125);
    assert!(run.text.contains("dma_pool_alloc"), "{}", run.text);
}

#[test]
fn an_absent_file_is_skipped() {
    let run = Run::with(Path::new("/nowhere/dmapool.c"));
    run.ended(125);
    assert!(run.text.contains("/nowhere/dmapool.c is no file"), "{}", run.text);
}

#[test]
fn wrong_usage_is_no_verdict() {
    for arguments in [&[][..], &["--dmapool-c"], &["--kernel", "new", "--dmapool-c", "/dev/null"], &["--unknown"]] {
        Run::of(Command::new(SCRIPT).args(arguments)).ended(129);
    }
}

#[test]
fn a_missing_tool_is_no_verdict() {
    let folder = TempDir::new().expect("a folder");
    let path = std::env::var_os("PATH").expect("a PATH");
    for tool in ["bash", "dirname", "readlink"] {
        let found = std::env::split_paths(&path).map(|at| at.join(tool)).find(|file| file.exists());
        symlink(found.expect("every Linux has it"), folder.path().join(tool)).expect("it can be linked");
    }
    let file = folder.path().join("dmapool.c");
    fs::write(&file, "").expect("it can be written");
    // By bash itself, for /usr/bin/env is no tool of the PATH.
    let mut command = Command::new(folder.path().join("bash"));
    let run = Run::of(command.arg(SCRIPT).arg("--dmapool-c").arg(&file).env("PATH", folder.path()));
    run.ended(130);
    assert!(run.text.contains("apt-get is missing: install Debian's package apt"), "{}", run.text);
}

#[test]
#[should_panic(expected = "one place where a block follows the last")]
fn a_file_that_links_its_blocks_otherwise_cannot_be_made_faulty() {
    in_descending_order("\nstatic void pool_initialise_page(void)\n{\n}\n");
}
