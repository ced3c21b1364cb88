//! The formats that other tools read.

use super::{poolproof, stdout};

const CHECK: [&str; 5] = ["check", "--scenario", "stall", "--endpoints", "16"];

fn check(format: &str) -> String {
    let output = poolproof(&[&CHECK[..], &["--format", format]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    stdout(&output)
}

#[test]
fn json_has_every_row_with_its_scope() {
    let json: serde_json::Value = serde_json::from_str(&check("json")).expect("valid JSON");
    let rows = json["rows"].as_array().expect("rows");
    // One scenario, six pools.
    assert_eq!(rows.len(), 6);
    assert_eq!(json["broken"], false);
    let row = rows
        .iter()
        .find(|row| row["pool"] == "linked-descending" && row["scenario"] == "stall")
        .expect("the row of the regression");
    assert_eq!(row["status"], "known bad");
    assert_eq!(row["verdict"], "CLIENT ASSUMPTION VIOLATED");
    let failure = &row["failures"][0];
    assert_eq!(failure["errno"], -110);
    assert_eq!(failure["finding"], "LayoutContract");
    assert!(failure["reason"].as_array().expect("lines").len() <= 4);
    assert!(row["scope"].as_str().expect("text").contains("not exercised: interrupt context"));
}

#[test]
fn ktap_counts_its_tests_and_expects_known_failures() {
    let text = check("ktap");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["KTAP version 1", "1..6"]);
    assert!(lines.contains(&"  not ok 1 stall # XFAIL known bad"), "{text}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("ok ")).count(), 6, "{text}");
    let tests = lines.iter().filter(|line| line.starts_with("  ok ") || line.starts_with("  not ok ")).count();
    assert_eq!(tests, 6, "{text}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("  # scope: pool ")).count(), 6, "{text}");
}

#[test]
fn junit_has_a_suite_for_each_pool() {
    let text = check("junit");
    assert!(text.starts_with("<?xml"), "{text}");
    assert!(text.contains(r#"<testsuites name="poolproof" tests="6" skipped="1" failures="0" errors="0""#), "{text}");
    assert_eq!(text.matches("<testsuite ").count(), 6, "{text}");
    assert!(text.contains("known bad: device descriptor read/64, error -110"), "{text}");
}

#[test]
fn the_contract_stage_is_a_scenario_of_its_own() {
    let output = poolproof(&["check", "--scenario", "pool-contract", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("valid JSON");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row["scenario"] == "pool-contract" && row["status"] == "pass"), "{rows:#?}");
}

/// What is reported and not judged is no failure in any format.
#[test]
fn what_is_not_judged_is_told_apart_in_every_format() {
    let aged = |format: &str| {
        let output = poolproof(&["check", "--scenario", "aged", "--endpoints", "8", "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        stdout(&output)
    };
    const LAYOUT: &str = "ENDPTLISTADDR does not hold: slot ";
    let text = aged("text");
    assert!(
        text.contains("linked · aged: NOT JUDGED\n  seen with 8 endpoints, high-speed: 16 dQHs from pool ci_hw_qh"),
        "{text}"
    );
    assert!(
        text.contains(LAYOUT) && text.ends_with("0 no failure found, 0 known bad, 0 broken, 6 not judged\n"),
        "{text}"
    );

    let json: serde_json::Value = serde_json::from_str(&aged("json")).expect("valid JSON");
    assert_eq!(json["broken"], false);
    let row = &json["rows"][0];
    assert_eq!((row["status"].as_str(), row["verdict"].as_str()), (Some("not judged"), Some("NOT JUDGED")));
    assert_eq!(row["seen"][0]["variants"][0]["endpoints"], 8);
    assert!(row["seen"][0]["notes"][1].as_str().expect("text").starts_with(LAYOUT), "{row}");
    assert_eq!(row["failures"].as_array().map(Vec::len), Some(0));

    let ktap = aged("ktap");
    assert_eq!(ktap.lines().filter(|line| *line == "  ok 1 aged # SKIP not judged").count(), 6, "{ktap}");
    assert!(ktap.lines().any(|line| line.starts_with("  # seen with 8 endpoints, high-speed: ")), "{ktap}");

    let junit = aged("junit");
    assert!(junit.contains(r#"tests="6" skipped="6" failures="0" errors="0""#), "{junit}");
    assert!(junit.contains("not judged") && junit.contains(LAYOUT), "{junit}");

    let quiet = poolproof(&["check", "--scenario", "aged", "--quiet"]);
    assert_eq!((quiet.status.code(), stdout(&quiet).as_str()), (Some(0), ""));
}

/// What a scenario declares of pools of a kind is no failure and no pass in any format, whether anything is excused or not.
#[test]
fn what_is_as_declared_is_told_apart_in_every_format() {
    let attacked = |arguments: &[&str]| {
        let output = poolproof(&[&["check", "--scenario", "malicious-device"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        stdout(&output)
    };
    const FINDING: &str = "pool requests broke its promise OwnPages with ";
    let text = attacked(&[]);
    assert!(text.contains("linked · malicious-device: AS DECLARED\n  seen: the device sees next pointers"), "{text}");
    assert!(text.contains(&format!("\n  seen: {FINDING}")), "{text}");
    assert!(text.contains("scope of NO FAILURE FOUND in malicious-device:\n  pools external-list"), "{text}");
    assert!(text.ends_with("3 no failure found, 0 known bad, 0 broken, 3 as declared\n"), "{text}");
    let named = attacked(&["--pool", "linked"]);
    assert!(named.ends_with("0 no failure found, 0 known bad, 0 broken, 1 as declared\n"), "{named}");

    let json: serde_json::Value = serde_json::from_str(&attacked(&["--format", "json"])).expect("valid JSON");
    assert_eq!(json["broken"], false);
    let row = &json["rows"][2];
    assert_eq!((row["status"].as_str(), row["verdict"].as_str()), (Some("declared"), Some("AS DECLARED")));
    assert_eq!(row["seen"][0]["variants"].as_array().map(Vec::len), Some(0), "the device is its own: {row}");
    assert!(row["seen"][0]["notes"][3].as_str().expect("text").starts_with(FINDING), "{row}");
    assert_eq!(row["failures"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["rows"][5]["status"], "pass");

    let ktap = attacked(&["--format", "ktap"]);
    let lines = |wanted: &str| ktap.lines().filter(|line| *line == wanted).count();
    assert_eq!(lines("  not ok 1 malicious-device # XFAIL as declared"), 3, "{ktap}");
    assert_eq!(lines("  ok 1 malicious-device"), 3, "{ktap}");
    assert!(ktap.lines().any(|line| line.starts_with("  # seen: the device sees next ")), "{ktap}");

    let junit = attacked(&["--format", "junit"]);
    assert!(junit.contains(r#"tests="6" skipped="3" failures="0" errors="0""#), "{junit}");
    assert!(junit.contains("as declared for such a pool") && junit.contains(FINDING), "{junit}");
}
