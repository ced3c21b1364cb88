//! Errata of the controller on the command line.

use super::{poolproof, stderr, stdout};

#[test]
fn an_erratum_breaks_a_run_only_without_its_workaround() {
    for (scenario, erratum, reason) in [
        ("short-packets", "lost-prime-2.2", "reason: in the model: prime of ep1 OUT was lost"),
        ("short-packets", "lost-prime-2.4", "reason: in the model: prime of ep1 OUT was lost"),
        ("foreign-in", "err050101", "reason: in the model: ep1 OUT was unprimed by an IN token to addr 4 ep2"),
    ] {
        let arguments = ["run", scenario, "--errata", erratum];
        let worked = poolproof(&arguments);
        assert_eq!(worked.status.code(), Some(0), "{}", stdout(&worked));
        assert!(stdout(&worked).contains(&format!("erratum {erratum}, worked around")), "{}", stdout(&worked));
        let broken = poolproof(&[&arguments[..], &["--no-workaround"]].concat());
        assert_eq!(broken.status.code(), Some(1), "{}", stdout(&broken));
        assert!(stdout(&broken).contains(reason), "{}", stdout(&broken));
    }
}

#[test]
fn a_check_takes_errata_too() {
    let arguments = ["check", "--pool", "linked", "--scenario", "foreign-in", "--errata", "err050101"];
    assert_eq!(poolproof(&arguments).status.code(), Some(0));
    let output = poolproof(&[&arguments[..], &["--no-workaround", "--errata", "lost-prime-2.2"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("errata err050101, lost-prime-2.2, not worked around"), "{}", stdout(&output));
}

#[test]
fn a_wrong_erratum_is_wrong_usage_and_gets_the_names() {
    let output = poolproof(&["run", "stall", "--errata", "lost-prime"]);
    assert_eq!(output.status.code(), Some(129));
    assert!(
        stderr(&output).contains("[possible values: lost-prime-2.2, lost-prime-2.4, err050101]"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn they_are_listed() {
    let output = stdout(&poolproof(&["list"]));
    for name in ["lost-prime-2.2", "lost-prime-2.4", "err050101", "suspend", "short-packets", "foreign-in"] {
        assert!(output.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {output}");
    }
}
