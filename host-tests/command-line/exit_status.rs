//! Exit status as the design has it, and one clear message with it.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use super::{poolproof, stderr, stdout};

#[test]
fn no_failure_is_0() {
    for pool in ["page-list", "linked", "external-list", "external-bitmap", "index-stack"] {
        let output = poolproof(&["check", "-q", "--pool", pool, "--scenario", "bootloader-to-ethernet"]);
        assert_eq!(output.status.code(), Some(0), "{pool}: {}{}", stdout(&output), stderr(&output));
        assert_eq!(stdout(&output), "", "quiet prints only what is broken");
    }
}

#[test]
fn a_known_defect_is_excused_only_in_a_plain_check() {
    let scenario = ["check", "--scenario", "bootloader-to-ethernet"];
    let plain = poolproof(&scenario);
    assert_eq!(plain.status.code(), Some(0), "{}", stdout(&plain));
    assert!(stdout(&plain).contains("CLIENT ASSUMPTION VIOLATED (known bad)"), "{}", stdout(&plain));
    let named = poolproof(&[&scenario[..], &["--pool", "linked-descending"]].concat());
    assert_eq!(named.status.code(), Some(1));
    assert!(!stdout(&named).contains("known bad)"), "{}", stdout(&named));
    assert_eq!(poolproof(&["run", "ecm", "--pool", "linked-descending"]).status.code(), Some(1));
}

#[test]
fn another_failure_than_the_recorded_one_is_broken() {
    // With bit 15 of the processor's address set, the host sees -32 instead of the recorded -110.
    let output = poolproof(&[
        "check",
        "--scenario",
        "bootloader-to-ethernet",
        "--endpoints",
        "8",
        "--cpu-base",
        "0xffff000040008000",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("not as recorded: device descriptor read/64, error -110"), "{}", stdout(&output));
    // A number of endpoints without a record is not excused either.
    let output = poolproof(&["check", "--scenario", "bootloader-to-ethernet", "--endpoints", "5"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
}

#[test]
fn wrong_usage_is_129_and_says_what_was_expected() {
    for (arguments, expected) in [
        (&["check", "--pool", "linkd"][..], "Did you mean `linked`?"),
        (&["check", "--scenario", "fast-boot"], "Did you mean `fastboot`?"),
        (&["run", "emc"], "Did you mean `ecm`?"),
        (&["run", "ecm", "--pool", "index"], "Did you mean `index-stack`?"),
        (&["run", "ecm", "--port", "5"], "5-1.3"),
        (&["run", "ecm", "--speed", "warp"], "[possible values: full, high]"),
        (&["run", "ecm", "--endpoints", "17"], "17 is not in 2..=16"),
        (&["run", "ecm", "--endpoints", "2"], "needs 4 endpoint numbers, the controller has 2"),
        (&["check", "--endpoints", "3"], "needs 4 endpoint numbers, the controller has 3"),
        (&["check", "--page-size", "8k"], "[possible values: 4k, 16k, 64k]"),
        (&["check", "--cpu-base", "0x1234"], "must be a multiple of 4 KiB"),
        (&["check", "--cpu-base", "0xfffffffffffff000"], "processor's base 0xfffffffffffff000"),
        (&["check", "--cpu-base", "0"], "processor's base 0x0"),
        (&["run", "stall", "--cpu-base", "0x80000000"], "share no address with the devices'"),
        (&["run", "stall", "--cpu-base", "+4096"], "expected a number"),
        (&["run", "ecm", "--endpoints", "2", "--trace"], "needs 4 endpoint numbers, the controller has 2"),
        (&["run", "\u{1b}[31mred\n"], r"there is no scenario `\u{1b}[31mred\n`"),
        (&["check", "--format", "xml"], "[possible values: text, json, ktap, junit]"),
        (&["mutants", "double-handout"], "Did you mean `double-hand-out`?"),
        (&["chekc"], "check"),
        (&[], "Usage: poolproof"),
    ] {
        let output = poolproof(arguments);
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn help_and_version_are_0() {
    assert_eq!(poolproof(&["--help"]).status.code(), Some(0));
    assert_eq!(poolproof(&["check", "--help"]).status.code(), Some(0));
    assert_eq!(poolproof(&["--version"]).status.code(), Some(0));
}

#[test]
fn list_names_everything() {
    let output = poolproof(&["list"]);
    assert_eq!(output.status.code(), Some(0));
    for name in [
        "page-list",
        "index-stack",
        "bootloader-to-ethernet",
        "stall",
        "chipidea-sim",
        "shuffle:SEED",
        "scatter",
        "high",
        "dqh-array",
        "two-pages",
        "malicious-device",
    ] {
        assert!(stdout(&output).contains(name), "{name}: {}", stdout(&output));
    }
}

/// A full disk must not look like a pass or like a broken pool.
#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_internal_error() {
    for arguments in
        [&["list"][..], &["run", "stall"], &["check", "--pool", "linked", "--scenario", "stall", "--format", "junit"]]
    {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
        let output =
            Command::new(env!("CARGO_BIN_EXE_poolproof")).args(arguments).stdout(full).output().expect("it starts");
        assert_eq!(output.status.code(), Some(130), "{arguments:?}");
        assert!(stderr(&output).contains("cannot write the output"), "{}", stderr(&output));
    }
}

/// The standard library takes no notice of a descriptor that cannot be written.
#[test]
#[cfg(target_os = "linux")]
fn output_that_was_opened_for_reading_is_an_internal_error() {
    let read_only = std::fs::File::open("/dev/null").expect("Linux has /dev/null");
    let output = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(["run", "stall"])
        .stdout(read_only)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(["run", "ecm", "--trace"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(stderr(&output), "");
}
