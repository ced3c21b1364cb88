//! Raced scenarios: `--schedule` and `--schedules`.

use super::{poolproof, stderr, stdout};

/// In the model ci_hdrc gives a token between its look at a SETUP and its flush the data of the transfer before.
const BREAKS: [&str; 6] = ["run", "setup-abort", "--endpoints", "4", "--schedule", "setup@36,bus@50"];

#[test]
fn a_schedule_fails_in_the_same_way_each_time() {
    let first = poolproof(&BREAKS);
    assert_eq!(first.status.code(), Some(1), "{}", stderr(&first));
    let text = stdout(&first);
    assert!(text.contains("wLength=24, error -75") && text.contains("schedules setup@36,bus@50;"), "{text}");
    assert_eq!(stdout(&poolproof(&BREAKS)), text);
}

#[test]
fn a_schedule_that_is_none_and_one_for_another_scenario_are_wrong_usage() {
    for (scenario, schedule, expected) in [
        ("setup-abort", "setup", "`setup` is no step of a schedule: expected `setup@12`"),
        ("setup-abort", "setup@99999999999", "is no step of a schedule"),
        ("setup-abort", "flush@3", "there is no `flush` in scenario setup-abort; acts: setup, bus"),
        ("append", "in@3/overlay+1", "places in the device's work: next, stat"),
        ("ecm", "in@3", "acts: none, it is not raced"),
    ] {
        let output = poolproof(&["run", scenario, "--schedule", schedule]);
        assert_eq!(output.status.code(), Some(129), "{schedule}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{schedule}: {}", stderr(&output));
    }
    let output = poolproof(&["check", "--schedules", "many"]);
    assert_eq!(output.status.code(), Some(129), "{}", stderr(&output));
    assert!(stderr(&output).contains("expected a number of schedules, or `all`"), "{}", stderr(&output));
}

#[test]
fn a_check_says_which_schedules_it_tried() {
    let check = |schedules: &str| {
        let arguments =
            ["check", "--pool", "linked", "--scenario", "append", "--endpoints", "4", "--schedules", schedules];
        let output = poolproof(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        stdout(&output)
    };
    // Full and high speed, each once without a race.
    for (schedules, scope, runs) in
        [("0", "schedules none raced", "(2 runs)"), ("25", "schedules 25 sampled", "(52 runs)")]
    {
        let text = check(schedules);
        assert!(text.contains(scope) && text.contains(runs), "{text}");
    }
    let broken = ["check", "--pool", "linked-descending", "--scenario", "append", "--schedules", "9"];
    let text = stdout(&poolproof(&broken));
    assert!(text.contains("schedules none raced, as the scenario breaks without"), "{text}");
}
