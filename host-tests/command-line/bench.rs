//! `poolproof bench`: shapes, refusals, and the ranks that are certain; no time is compared with a clock.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use super::usb::is_there;
use super::{poolproof, stderr, stdout};

/// As little as has a spread.
const LITTLE: [&str; 6] = ["bench", "dmapool", "--rounds", "1", "--repetitions", "3"];
const TWO_POOLS: [&str; 4] = ["--pool", "linked", "--pool", "page-list"];

fn bench(arguments: &[&str]) -> Output {
    poolproof(&[&LITTLE[..], arguments].concat())
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).expect("valid JSON")
}

fn results(figures: &Value) -> &[Value] {
    figures["results"].as_array().expect("a list")
}

#[test]
fn json_has_every_sample_with_where_it_was_taken() {
    let sets = ["--set", "64", "--set", "96/32/0"];
    let procedures = ["--procedure", "outstanding-32", "--procedure", "two-threads"];
    let json = json(&bench(&[&TWO_POOLS[..], &sets, &procedures, &["--json"]].concat()));
    assert_eq!((&json["format"], &json["command"]), (&1.into(), &"bench dmapool".into()));
    let figures = json["figures"].as_array().expect("a list");
    let head = |figures: &Value| ["procedure", "unit", "of", "by", "baseline"].map(|field| figures[field].clone());
    assert_eq!(head(&figures[0]), ["outstanding-32", "µs", "100 rounds", "CPU time of the thread", "linked"]);
    assert_eq!(head(&figures[1]), ["two-threads", "µs", "100 rounds", "wall time", "linked"]);
    for figures in figures {
        let cells: Vec<_> =
            results(figures).iter().map(|one| [&one["set"], &one["subject"], &one["control"]]).collect();
        let expected = [("linked", false), ("page-list", false), ("linked", true)];
        let expected =
            ["64/64/0", "96/32/0"].iter().flat_map(|set| expected.map(|(name, control)| (set, name, control)));
        let expected: Vec<_> =
            expected.map(|(set, name, control)| [Value::from(*set), name.into(), control.into()]).collect();
        assert_eq!(cells, expected.iter().map(|cell| cell.each_ref()).collect::<Vec<_>>());
        for result in results(figures) {
            let samples: Vec<f64> = serde_json::from_value(result["samples"].clone()).expect("numbers");
            assert!(samples.len() == 3 && samples.iter().all(|sample| *sample > 0.0), "{result}");
            let spread = &result["spread"];
            assert!(samples.iter().any(|sample| spread["median"] == *sample), "{result}");
            assert!(spread["lower"].as_f64() <= spread["median"].as_f64(), "{result}");
            assert_eq!((&result["where"], &result["rounds"]), (&"user space, cached memory".into(), &1.into()));
            assert_eq!(result["operations"], 100 * 8192);
        }
        let baseline = &results(figures)[0]["ratio"];
        assert_eq!(*baseline, serde_json::json!({"median": 1.0, "lower": 1.0, "upper": 1.0}));
    }
}

/// Hundreds of pages are walked there, twice a pair, where the other follows one pointer.
#[test]
fn page_list_is_slower_than_linked_with_256_bytes() {
    let json = json(&bench(&[&TWO_POOLS[..], &["--set", "256", "--procedure", "dmapool-test", "--json"]].concat()));
    let page_list = &results(&json["figures"][0])[1];
    assert_eq!(page_list["subject"], "page-list");
    assert!(page_list["ratio"]["lower"].as_f64() > Some(1.0), "{page_list}");
}

#[test]
fn the_baseline_is_measured_though_it_is_not_named() {
    let names = |arguments: &[&str]| -> Vec<String> {
        let json = json(&bench(&[arguments, &["--set", "4096", "--procedure", "written", "--json"]].concat()));
        let subjects = results(&json["figures"][0]).iter().map(|result| result["subject"].as_str().expect("a name"));
        std::iter::once(json["figures"][0]["baseline"].as_str().expect("a name"))
            .chain(subjects)
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(names(&["--pool", "index-stack"]), ["linked", "index-stack", "linked", "linked"]);
    let baseline = ["--pool", "index-stack", "--baseline", "shuffle:7"];
    assert_eq!(names(&baseline), ["shuffle:7", "index-stack", "shuffle:7", "shuffle:7"]);
    assert_eq!(names(&["--baseline", "external-list"]).len(), 1 + 6 + 1, "all of Linux's kind, and the control");
}

#[test]
fn the_table_says_where_and_against_what() {
    let output = bench(&["--pool", "index-stack", "--set", "4096", "--procedure", "random-free"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.starts_with("random-free: all blocks allocated, then all freed in random order (seed 7)\n"), "{text}");
    assert_eq!(text.matches("(user space, cached memory)").count(), 2, "{text}");
    assert!(text.contains("\nratio to linked, of the same repetition"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("linked (A/A control) ")).count(), 2, "{text}");
    assert!(text.contains("note: 3 repetitions, interleaved and warmed up"), "{text}");
}

#[test]
fn a_plot_has_a_bar_for_each_pool_and_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plot.svg");
    let plot = ["--plot", file.to_str().expect("UTF-8")];
    let output =
        bench(&[&TWO_POOLS[..], &["--set", "4096", "--set", "1024", "--procedure", "written"], &plot].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let svg = fs::read_to_string(&file).expect("written");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    // Two in the legend, two for each set.
    assert_eq!(svg.matches("fill=\"url(#fill").count(), 2 + 2 * 2, "{svg}");
    for shown in ["page-list", "4096/4096/0", "1024/1024/0", "user space, cached memory", "µs for 100 rounds"] {
        assert!(svg.contains(shown), "{shown}: {svg}");
    }
    let nowhere = bench(&["--plot", "/nowhere/plot.svg"]);
    assert_eq!(nowhere.status.code(), Some(130));
    assert!(stderr(&nowhere).starts_with("poolproof: --plot /nowhere/plot.svg: cannot be written: "));
}

/// A file for the compiler, in no kernel's style: blocks of a page each.
#[test]
fn a_c_file_stands_beside_policies_and_is_the_baseline() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/pool/bridge/tests/pools/plain.c");
    let cache = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args([&LITTLE[..], &["--pool", "linked", "--dmapool-c", file, "--set", "64", "--json"]].concat())
        .env("POOLPROOF_CACHE", cache.path())
        .output()
        .expect("the program starts");
    let json = json(&output);
    assert_eq!(json["figures"].as_array().map(Vec::len), Some(5));
    for figures in json["figures"].as_array().expect("a list") {
        assert_eq!(figures["baseline"], "plain.c");
        let names: Vec<_> = results(figures).iter().map(|result| &result["subject"]).collect();
        assert_eq!(names, ["linked", "plain.c", "plain.c"]);
    }
    assert!(json["notes"][1].as_str().is_some_and(|note| note.contains(file)), "{}", json["notes"]);
}

#[test]
fn a_c_file_that_is_absent_or_no_pool_cannot_be_tested() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("dmapool.c");
    fs::write(&broken, "int dma_pool_alloc(void) { return banana; }\n").expect("written");
    for (path, expected) in [("/nowhere/linux", "No such file"), (broken.to_str().expect("UTF-8"), "banana")] {
        let output = bench(&["--dmapool-c", path]);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn nonsense_is_wrong_usage() {
    for (arguments, expected) in [
        (&["--rounds", "0"][..], "0 is not in 1..=10000"),
        (&["--repetitions", "2"], "2 is not in 3..=1000"),
        (&["--set", "65"], "`65` is no set: expected SIZE/ALIGN/BOUNDARY in bytes, such as 64/64/0"),
        (&["--set", "64/48/0"], "64/48/0: align 48 is not a power of two"),
        (&["--set", "131072/1/0"], "blocks of 65536 bytes"),
        (
            &["--procedure", "speed"],
            "[possible values: dmapool-test, written, random-free, outstanding-32, two-threads]",
        ),
        (&["--pool", "linkd"], "Did you mean `linked`?"),
        (&["--baseline", "linkd"], "Did you mean `linked`?"),
        (&["--pool", "linked", "--pool", "linked"], "--pool linked is given twice"),
        (&["--instructions", "--procedure", "two-threads"], "has no count of instructions that repeats"),
        (&["--instructions", "--rounds", "3"], "cannot be used with"),
        (&["--dmapool-c", "x.c", "--asan"], "measure the sanitizer, not the pool"),
    ] {
        let output = poolproof(&[&["bench", "dmapool"], arguments].concat());
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn instructions_are_the_same_in_two_runs() {
    if !is_there("valgrind", "valgrind") {
        return;
    }
    let count = |pools: &[&str]| {
        let arguments = ["bench", "dmapool", "--instructions", "--json", "--set", "4096"];
        let json = json(&poolproof(&[&arguments[..], pools].concat()));
        let figures = &json["figures"][0];
        assert_eq!((&figures["procedure"], &figures["exact"]), (&"dmapool-test".into(), &true.into()));
        results(figures).iter().map(|result| result["samples"][0].as_f64().expect("a count")).collect::<Vec<_>>()
    };
    let [linked, page_list] = count(&TWO_POOLS)[..] else { panic!("two pools, and no control") };
    assert!(linked > 10.0 && page_list > 2.0 * linked, "{linked} {page_list}");
    assert_eq!(count(&["--pool", "linked"]), [linked]);
}

#[test]
fn without_valgrind_one_message_says_what_to_install() {
    let output = Command::new(env!("CARGO_BIN_EXE_poolproof"))
        .args(["bench", "dmapool", "--instructions", "--pool", "linked"])
        .env("PATH", "/nowhere")
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(130));
    let message = stderr(&output);
    assert!(
        message.starts_with("poolproof: instructions are counted by valgrind, which could not be started"),
        "{message}"
    );
    assert!(message.contains("install it (Debian: valgrind)") && message.lines().count() == 1, "{message}");
}
