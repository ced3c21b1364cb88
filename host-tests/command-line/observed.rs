//! `poolproof check --observed`.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{poolproof, stderr, stdout};

/// Made on a board with that kernel, see pool/tests/observed.rs.
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pool/tests/observed/linux-6.12.117+deb13-arm64.txt");

#[test]
fn a_real_log_is_judged() {
    let output = poolproof(&["check", "--observed", REAL]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    for expected in [
        "pool ci_hw_qh (created in the log, size 48, align 64, boundary 4096): 32 blocks handed out, 32 taken back, 0 in use",
        "longest run 32",
        "layout ENDPTLISTADDR: the first 32 blocks of pool ci_hw_qh lie as ci_hdrc init_eps assumes",
        "NO FAILURE FOUND\nscope: kernel's own log",
        "device accesses not seen",
    ] {
        assert!(stdout(&output).contains(expected), "{expected}: {}", stdout(&output));
    }
    let quiet = poolproof(&["check", "-q", "--observed", REAL]);
    assert_eq!((quiet.status.code(), &*stdout(&quiet)), (Some(0), ""));
}

#[test]
fn a_block_that_is_handed_out_twice_is_1_and_comes_in_by_a_pipe() {
    let log = std::fs::read_to_string(REAL).expect("it is here");
    let handed_out = log.lines().position(|line| line.contains("dma_pool_alloc:")).expect("there are allocations");
    let mut lines: Vec<&str> = log.lines().collect();
    lines.insert(handed_out + 1, lines[handed_out]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(["check", "-q", "--observed", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let sent = child.stdin.take().map(|mut stdin| stdin.write_all(lines.join("\n").as_bytes()));
    sent.expect("a pipe").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let expected = format!("reason: line {}: pool ci_hw_qh broke its promise NoOverlap", handed_out + 2);
    assert!(stdout(&output).contains(&expected), "{expected}: {}", stdout(&output));
    assert!(stdout(&output).contains("POOL CONTRACT VIOLATED"), "{}", stdout(&output));
}

#[test]
fn no_file_and_no_log_are_125() {
    let absent = poolproof(&["check", "--observed", "/nowhere/log"]);
    assert_eq!(absent.status.code(), Some(125), "{}", stderr(&absent));
    assert!(stderr(&absent).contains("--observed /nowhere/log: No such file"), "{}", stderr(&absent));
    let other = poolproof(&["check", "--observed", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert_eq!(other.status.code(), Some(125), "{}", stdout(&other));
    assert!(stdout(&other).contains("INCONCLUSIVE\nreason: the log shows no block"), "{}", stdout(&other));
}

#[test]
fn what_is_for_pools_of_ours_does_not_go_with_a_log() {
    for arguments in [
        &["--pool", "linked"][..],
        &["--scenario", "ecm"],
        &["--format", "json"],
        &["--seed", "1"],
        &["--driver", "ci_hdrc"],
        &["--hostile"],
        &["--page-order", "backward"],
        &["--schedules", "5"],
        &["--errata", "err050101"],
        &["--no-workaround"],
    ] {
        let output = poolproof(&[&["check", "--observed", REAL], arguments].concat());
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_promise_that_broke_is_not_called_kept() {
    let log = std::fs::read_to_string(REAL).expect("it is here");
    let moved = log.lines().find(|line| line.contains("dma_pool_alloc:")).expect("there are allocations");
    let last = moved.split_whitespace().find(|word| word.starts_with("dma=0x")).expect("its address");
    let broken = log.replacen(last, &format!("{}8", &last[..last.len() - 1]), 1);
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("observed-{}", std::process::id()));
    std::fs::write(&file, broken).expect("the log is written");
    let output = poolproof(&["check", "--observed", file.to_str().expect("a path in UTF-8")]);
    std::fs::remove_file(&file).expect("it is removed");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("broke its promise Alignment"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("broke no promise"), "{}", stdout(&output));
}
