//! Pools, drivers and orders of pages that are named on the command line.

use super::{poolproof, stderr, stdout};

const SCENARIO: [&str; 4] = ["--scenario", "bootloader-to-ethernet", "--endpoints", "8"];

fn check(arguments: &[&str]) -> (Option<i32>, String) {
    let output = poolproof(&[&["check"][..], arguments, &SCENARIO].concat());
    (output.status.code(), stdout(&output))
}

#[test]
fn a_pool_with_a_seed_is_tested_by_its_name() {
    let (status, text) = check(&["--pool", "shuffle:7"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("shuffle:7 · bootloader-to-ethernet: CLIENT ASSUMPTION VIOLATED"), "{text}");
    assert!(text.contains("ci_hdrc init_eps assumed 2n dQHs of 64 bytes"), "{text}");
    assert!(text.contains("scope: pool shuffle:7 (source "), "{text}");
    let run = poolproof(&["run", "stall", "--pool", "shuffle", "--driver", "dqh-array"]);
    assert_eq!(run.status.code(), Some(0), "{}", stdout(&run));
    assert!(
        stdout(&run).contains("pool shuffle:0 (") && stdout(&run).contains("variant dqh-array"),
        "{}",
        stdout(&run)
    );
}

#[test]
fn all_hostile_pools_are_tested_at_once_and_nothing_is_excused() {
    let (status, text) = check(&["--hostile"]);
    assert_eq!(status, Some(1), "{text}");
    for pool in ["shuffle:0", "shuffle:1", "shuffle:2", "shuffle:3", "scatter"] {
        assert!(
            text.contains(&format!("{pool} · bootloader-to-ethernet: CLIENT ASSUMPTION VIOLATED")),
            "{pool}: {text}"
        );
    }
    assert!(text.ends_with("1 no failure found, 0 known bad, 5 broken\n"), "high is no harm below 4 GiB: {text}");
    let (status, text) = check(&["--hostile", "--driver", "dqh-array"]);
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn a_plain_check_has_no_hostile_pool() {
    let (status, text) = check(&[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(!text.contains("shuffle") && !text.contains("scatter"), "{text}");
}

#[test]
fn naming_a_driver_tests_it_on_every_pool() {
    let (status, text) = check(&["--driver", "dqh-array"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.ends_with("6 no failure found, 0 known bad, 0 broken\n"), "linked-descending too: {text}");
    let ours = poolproof(&["check", "--driver", "dqh-array", "--pool", "linked", "--scenario", "two-pages"]);
    assert_eq!(ours.status.code(), Some(0), "{}", stdout(&ours));
    assert!(stdout(&ours).contains("table client"), "a scenario that is named is run: {}", stdout(&ours));
}

#[test]
fn pages_come_in_the_order_that_is_asked_for() {
    for (order, status, scope) in [
        ("forward", 0, "4 KiB pages forward,"),
        ("backward", 0, "4 KiB pages backward,"),
        ("scattered", 1, "4 KiB pages scattered by seed 0,"),
        ("scattered:7", 1, "4 KiB pages scattered by seed 7,"),
    ] {
        let (seen, text) = check(&["--page-order", order]);
        assert_eq!(seen, Some(status), "what is on record was seen forward and backward; {order}: {text}");
        assert!(text.contains(scope), "{order}: {text}");
        let run = poolproof(&["run", "stall", "--page-order", order]);
        assert_eq!(run.status.code(), Some(0), "{order}: {}", stdout(&run));
        assert!(stdout(&run).contains(scope), "{order}: {}", stdout(&run));
    }
}

#[test]
fn a_client_of_its_own_is_known_bad_where_it_is() {
    let plain = poolproof(&["check", "--scenario", "two-pages"]);
    assert_eq!(plain.status.code(), Some(0), "{}", stdout(&plain));
    for known in [
        "page-list · two-pages: AS DECLARED",
        "linked-descending · two-pages: CLIENT ASSUMPTION VIOLATED (known bad)\n  error: 3 of 6 entries are answered",
        "4 no failure found, 1 known bad, 0 broken",
    ] {
        assert!(stdout(&plain).contains(known), "{known}: {}", stdout(&plain));
    }
    assert_eq!(poolproof(&["run", "two-pages", "--pool", "page-list"]).status.code(), Some(0));
    assert_eq!(poolproof(&["run", "two-pages", "--pool", "linked-descending"]).status.code(), Some(1));
}

#[test]
fn what_cannot_be_named_is_wrong_usage() {
    for (arguments, expected) in [
        (&["check", "--pool", "shuffle:x"][..], "takes a seed from 0 to 18446744073709551615, such as shuffle:7"),
        (&["run", "ecm", "--pool", "linked:3"], "pool linked takes no seed"),
        (&["run", "ecm", "--pool", "shufle"], "Did you mean `shuffle:SEED`?"),
        (&["check", "--hostile", "--pool", "linked"], "cannot be used with"),
        (&["check", "--driver", "ci_hdrk"], "Did you mean `ci_hdrc`?"),
        (&["run", "ecm", "--driver", "dqh-aray"], "Did you mean `dqh-array`?"),
        (&["check", "--page-order", "sideways"], "it is forward, backward, scattered or scattered:SEED"),
    ] {
        let output = poolproof(arguments);
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}
