//! `poolproof mutants`: what it prints, and its exit status.

use super::{poolproof, stderr, stdout};

/// One that the contract stage catches, and one that nothing does.
const TWO: [&str; 3] = ["mutants", "double-hand-out", "foreign-accepted"];

#[test]
fn the_table_says_what_caught_a_mutant_and_who_survived_and_why() {
    let output = poolproof(&TWO);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a row").to_owned();
    assert!(row("double-hand-out").contains("  pool-contract  promise NoOverlap: "), "{text}");
    assert!(row("foreign-accepted").contains("  survived "), "{text}");
    assert!(text.contains("\nforeign-accepted: survived: dma_pool promises nothing about a wrong free"), "{text}");
    assert!(text.contains("\n1 of 2 mutants caught (50.0 %) in "), "{text}");
}

#[test]
fn json_has_every_mutant_with_its_baseline() {
    let output = poolproof(&[&TWO[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("valid JSON");
    assert_eq!((&json["caught"], &json["broken"]), (&1.into(), &false.into()));
    let names = |list: &str| -> Vec<String> {
        let list = json[list].as_array().expect("a list");
        list.iter().map(|trial| trial["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("baselines"), ["listed", "numbered"]);
    assert_eq!(names("mutants"), ["double-hand-out", "foreign-accepted"]);
    let [caught, survivor] = [&json["mutants"][0], &json["mutants"][1]];
    assert_eq!((&caught["outcome"], &caught["baseline"]), (&"caught".into(), &"listed".into()));
    assert_eq!(caught["catches"][0]["scenario"], "pool-contract");
    assert_eq!((&survivor["outcome"], &survivor["catches"]), (&"known survivor".into(), &serde_json::json!([])));
    assert!(survivor["survives"].as_str().is_some_and(|why| why.contains("wrong free")), "{survivor}");
}

#[test]
fn ktap_expects_a_known_survivor_to_fail() {
    let output = poolproof(&[&TWO[..], &["--format", "ktap"]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let tests: Vec<_> = text.lines().filter(|line| line.starts_with("ok ") || line.starts_with("not ok ")).collect();
    assert_eq!(text.lines().take(2).collect::<Vec<_>>(), ["KTAP version 1", "1..4"]);
    assert_eq!(tests[..3], ["ok 1 listed", "ok 2 numbered", "ok 3 double-hand-out"]);
    assert!(tests[3].starts_with("not ok 4 foreign-accepted # XFAIL dma_pool promises nothing"), "{text}");
}

#[test]
fn junit_skips_a_known_survivor() {
    let output = poolproof(&[&TWO[..], &["--format", "junit"]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(r#"tests="4" skipped="1" failures="0" errors="0""#), "{text}");
    assert_eq!(text.matches("<testsuite ").count(), 2, "{text}");
}

/// The first catch ends a mutant's run unless all are wanted.
#[test]
fn all_shows_every_scenario_that_catches_a_mutant() {
    let output = poolproof(&["mutants", "--all", "descending", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("valid JSON");
    let catches = json["mutants"][0]["catches"].as_array().expect("a list");
    let scenarios: Vec<_> = catches.iter().map(|catch| catch["scenario"].as_str().expect("a name")).collect();
    assert!(scenarios.starts_with(&["bootloader-to-ethernet", "ecm"]), "{scenarios:?}");
    assert!(!scenarios.contains(&"pool-contract"), "an order is no promise");
}
