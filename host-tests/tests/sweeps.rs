//! Schedules: sweeps find what is wrong with a driver, and the same schedule finds it again.

use chipidea_driver::{ChipideaUdc, Config, Fault};
use scenarios::{Bench, Finding, Schedule, Sweep, Verdict, scenario};

fn bench() -> Bench {
    Bench::new().endpoints(4)
}

/// A bench whose driver has `fault`.
fn faulty(fault: Fault) -> Bench {
    bench().driver(format!("ci_hdrc with {fault:?}"), move |side| {
        let mut driver = ChipideaUdc::probe(side.mmio, side.dma, Config { fault: Some(fault), ..Config::default() })?;
        driver.start()?;
        Ok(Box::new(driver))
    })
}

/// Whether every schedule of one step finds `fault`, and how: the first schedule and what it led to. The same schedule
/// leaves the driver without it alone.
fn found(fault: Fault, name: &str) -> (String, String) {
    let scenario = scenario::by_name(name).expect("a scenario");
    let run = faulty(fault).first_broken(&*scenario, Sweep::All).expect("a bench").expect("it is found");
    let schedule = run.schedule.clone().expect("raced");
    let sound = bench().schedule(schedule.clone()).run(name).expect("a bench");
    assert_eq!(sound.verdict, Verdict::NoFailureFound, "{schedule} without the fault: {:?}", sound.failure);
    let what = run.first_finding().map(Finding::name).map(str::to_owned);
    (schedule.to_string(), what.or(run.failure.map(|failure| failure.error)).expect("a reason"))
}

#[test]
fn a_setup_that_is_read_without_the_tripwire_is_found() {
    let (schedule, what) = found(Fault::NoSetupTripwire, "setup-abort");
    assert!(schedule.starts_with("setup@"), "{schedule}");
    // The first half of one and the second half of the other.
    assert!(what.contains("wValue=1212 wIndex=4343 wLength=24, which was not sent"), "{what}");
}

#[test]
fn an_append_without_the_tripwire_is_found() {
    let (schedule, what) = found(Fault::NoAddTripwire, "append");
    assert!(schedule.contains("/stat+"), "{schedule}: the end of the list and ENDPTSTAT are apart");
    assert_eq!(what, "a bulk transfer on ep1 IN, error -110");
}

#[test]
fn a_dtd_that_is_freed_early_is_found() {
    let (schedule, what) = found(Fault::FreedEarly, "append");
    assert!(schedule.contains("/next+"), "{schedule}: the token and the next pointer are apart");
    assert!(["Unmapped", "ReadOfFreedBlock"].contains(&what.as_str()), "{what}");
}

#[test]
fn a_schedule_that_failed_fails_again_from_its_text() {
    let scenario = scenario::by_name("setup-abort").expect("a scenario");
    let bench = faulty(Fault::NoSetupTripwire).seed(7);
    let swept = bench.sweep(&*scenario, Sweep::Sample(300)).expect("a bench");
    assert_eq!((swept.schedules, swept.plain.verdict), (300, Verdict::NoFailureFound));
    let run = swept.broken.first().expect("found");
    let text = run.schedule.as_ref().expect("raced").to_string();
    let again = || bench.clone().schedule(text.parse::<Schedule>().expect("a schedule")).trace_scenario(&*scenario);
    let ((first, one), (second, two)) = (again().expect("a bench"), again().expect("a bench"));
    assert_eq!((&first.failure, &second.failure), (&run.failure, &run.failure), "{text}");
    let lines = |trace: Vec<scenarios::TraceLine>| trace.into_iter().map(|line| line.symbolic).collect::<Vec<_>>();
    assert_eq!(lines(one), lines(two), "{text}");
}

#[test]
fn a_failure_is_shrunk_to_what_makes_it() {
    let scenario = scenario::by_name("setup-abort").expect("a scenario");
    let swept = faulty(Fault::NoSetupTripwire).seed(7).sweep(&*scenario, Sweep::Sample(300)).expect("a bench");
    for run in &swept.broken {
        let schedule = run.schedule.as_ref().expect("raced");
        assert_eq!(schedule.steps().len(), 1, "one SETUP is enough: {schedule}");
        assert!(!schedule.to_string().contains('/'), "and nothing needs to be held up: {schedule}");
    }
}

/// ci_hdrc acknowledges a SETUP before it flushes what the transfer before has primed. A token in between gets that.
#[test]
fn a_token_before_the_flush_gets_the_transfer_before() {
    let raced = |schedule: &str| {
        let bench = bench().schedule(schedule.parse().expect("a schedule"));
        bench.run("setup-abort").expect("a bench").failure.map(|failure| failure.error)
    };
    assert_eq!(raced("setup@36"), None);
    let babble = raced("setup@36,bus@50").expect("the older data is longer than what is asked for");
    assert!(babble.ends_with("wLength=24, error -75"), "{babble}");
}

#[test]
fn a_schedule_names_what_there_is() {
    let error = |name: &str, schedule: &str| {
        let bench = bench().schedule(schedule.parse().expect("a schedule"));
        bench.run(name).expect_err("refused").to_string()
    };
    let seen = error("setup-abort", "flush@3");
    assert!(seen.contains("there is no `flush`") && seen.contains("setup, bus"), "{seen}");
    let seen = error("append", "in@3/overlay+1");
    assert!(seen.contains("there is no `overlay`") && seen.contains("next, stat"), "{seen}");
    let seen = error("ecm", "in@3");
    assert!(seen.contains("it is not raced"), "{seen}");
}
