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

#[test]
fn a_step_behind_the_end_of_the_race_is_not_tried_and_that_is_said() {
    let output = poolproof(&["run", "append", "--endpoints", "4", "--schedule", "in@4,in@999999"]);
    assert_eq!(output.status.code(), Some(125), "{}", stdout(&output));
    let text = stdout(&output);
    assert!(text.contains("not tried: in@999999: the driver made ") && text.contains(" while it was raced"), "{text}");
}

#[test]
fn a_trace_shows_where_each_step_took_place() {
    let output = poolproof(&[&BREAKS[..], &["--trace"]].concat());
    let text = stdout(&output);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    let begin = at("race   the race begins: the driver's next access is access 0");
    let setup = at("race   setup@36, before access 36 of the race");
    let token = at("race   bus@50, before access 50 of the race");
    assert!(begin < setup && setup < token, "{text}");
    let accesses = text[begin..setup].lines().filter(|line| line.contains("] driver ")).count();
    assert!(accesses > 0 && accesses <= 36, "registers are shown, descriptor words of the driver are not: {accesses}");
}

#[test]
fn every_failure_has_the_command_that_makes_it_again() {
    let check =
        ["check", "--pool", "linked-descending", "--scenario", "ecm", "--endpoints", "8", "--page-order", "backward"];
    let text = stdout(&poolproof(&check));
    let command = text.lines().find_map(|line| line.trim().strip_prefix("again: poolproof ")).expect("a command");
    assert!(command.ends_with("--endpoints 8 --speed full --page-order backward"), "{command}");
    let again = poolproof(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    let error = text.lines().find(|line| line.trim().starts_with("error: ")).expect("an error").trim();
    assert!(stdout(&again).contains(&format!("\n{error}\n")), "{error}: {}", stdout(&again));
}
