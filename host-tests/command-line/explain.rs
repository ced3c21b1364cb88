//! `poolproof explain`, and `poolproof run --debugfs` that writes what it reads.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{poolproof, stderr, stdout};

fn board(name: &str) -> String {
    let boards = concat!(env!("CARGO_MANIFEST_DIR"), "/chipidea-sim/tests/explain/boards/");
    format!("{boards}{name}")
}

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It may be there from another run.
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_board_that_works_is_0() {
    let files = ["device", "qheads", "requests", "registers", "trace"].map(|name| board(&format!("6.1-msm/{name}")));
    let arguments: Vec<&str> = ["explain", "chipidea"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let output = poolproof(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("\nNO FAILURE FOUND\nscope: "), "{}", stdout(&output));
    assert!(stdout(&output).contains("not told: "), "{}", stdout(&output));
}

#[test]
fn the_order_of_2023_is_1_and_named() {
    let log = fs::read(board("6.12-descending-16-endpoints.log")).expect("a log");
    let output = with_input(&["explain", "chipidea", "-"], &log);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("\nCLIENT ASSUMPTION VIOLATED\nreason: endpoint 0 RX is not 2 KiB aligned: "), "{text}");
    assert!(text.contains("as slot 0, which is ep15 TX"), "{text}");
    assert!(text.contains("January 2023"), "{text}");
}

#[test]
fn what_is_no_board_is_129_and_says_how_to_get_one() {
    let output = with_input(&["explain", "chipidea", "-"], b"\xff\xfe hello\n");
    assert_eq!(output.status.code(), Some(129));
    for expected in [
        "nothing of a Chipidea controller",
        "hello`",
        "tail -n +1 device qheads requests registers",
        "events/chipidea/enable",
    ] {
        assert!(stderr(&output).contains(expected), "{expected}: {}", stderr(&output));
    }
    for (arguments, expected) in [
        (&["explain", "chipidea"][..], "<FILE|->"),
        (&["explain", "dwc3", "-"], "[possible values: chipidea]"),
        (&["explain", "chipidea", "/nowhere/qheads"], "/nowhere/qheads cannot be read"),
        (&["explain", "chipidea", "/"], "/ cannot be read"),
    ] {
        let output = with_input(arguments, b"");
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn json_has_what_the_text_has() {
    let output = poolproof(&["explain", "chipidea", "--format", "json", &board("6.12-descending-8-endpoints.log")]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("valid JSON");
    assert_eq!(json["verdict"], "CLIENT ASSUMPTION VIOLATED");
    assert_eq!(json["reasons"].as_array().expect("reasons").len(), 3);
    assert_eq!(json["sections"][0]["title"], "dQH table");
    assert_eq!(json["sections"][0]["statements"][0]["weight"], "wrong");
    assert!(json["sections"][0]["statements"][0]["evidence"].as_str().expect("text").starts_with("EP=00: RX="));
}

#[test]
fn what_the_bench_writes_is_read_again() {
    for (pool, status) in [("linked", 0), ("linked-descending", 1)] {
        let folder = folder(&format!("debugfs-{pool}"));
        let there = folder.to_string_lossy();
        let run = poolproof(&["run", "ecm", "--pool", pool, "--debugfs", &there]);
        assert_eq!(run.status.code(), Some(status), "{}", stderr(&run));
        let files = ["qheads", "requests", "registers"].map(|name| format!("{there}/{name}"));
        let output = poolproof(&["explain", "chipidea", &files[0], &files[1], &files[2]]);
        assert_eq!(output.status.code(), Some(status), "{}{}", stdout(&output), stderr(&output));
        let alone = poolproof(&["explain", "chipidea", &files[0]]);
        assert_eq!(alone.status.code(), Some(status), "{}", stdout(&alone));
    }
}

#[test]
fn files_that_cannot_be_written_are_wrong_usage() {
    let output = poolproof(&["run", "ecm", "--debugfs", "/dev/null/folder"]);
    assert_eq!(output.status.code(), Some(129), "{}", stderr(&output));
    assert!(stderr(&output).contains("--debugfs: /dev/null/folder cannot be made"), "{}", stderr(&output));
}

#[test]
fn a_log_of_the_pools_is_judged_beside_the_board() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/pool/tests/observed/linux-6.12.117+deb13-arm64.txt");
    let heads = board("6.12-msm/qheads");
    for files in [&[log][..], &[&heads, log]] {
        let output = poolproof(&[&["explain", "chipidea"], files].concat());
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
        assert!(text.contains("longest run 32"), "{text}");
        assert!(!text.contains("lines not of these files"), "the log is not taken for one of the board's: {text}");
        let output = poolproof(&[&["explain", "chipidea", "--format", "json"], files].concat());
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("valid JSON");
        assert_eq!(json["allocations"][0]["verdict"], "NO FAILURE FOUND", "{json}");
        assert_eq!(json["sections"].is_array(), files.len() > 1, "{json}");
    }
    let wrong = board("6.12-descending-16-endpoints.log");
    assert_eq!(poolproof(&["explain", "chipidea", &wrong, log]).status.code(), Some(1));
}

#[test]
fn a_disk_that_is_full_is_an_error_of_the_machine() {
    let folder = folder("full");
    fs::create_dir_all(&folder).expect("a folder");
    std::os::unix::fs::symlink("/dev/full", folder.join("registers")).expect("a link");
    let output = poolproof(&["run", "ecm", "--debugfs", folder.to_str().expect("a path in UTF-8")]);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot be written: No space left"), "{}", stderr(&output));
}

#[test]
fn what_the_gadget_is_called_is_nothing_to_judge() {
    let output = poolproof(&["explain", "chipidea", &board("6.12-msm/device")]);
    assert_eq!(output.status.code(), Some(129), "{}", stdout(&output));
}
