//! Errata of the controller: with the driver's workaround the scenarios pass, without it the reason names the erratum.

use pool::Policy;
use scenarios::{Bench, Erratum, Run, Scenario, Verdict, scenario};
use usb::Speed;

const SPEEDS: [Speed; 2] = [Speed::Full, Speed::High];

fn run(scenario: &str, erratum: Erratum, workarounds: bool, speed: Speed) -> Run {
    let bench = Bench::new().endpoints(8).speed(speed).errata([erratum]).workarounds(workarounds);
    bench.run(scenario).expect("the bench can be set up")
}

/// Broken, without a finding, and the erratum is the reason.
fn assert_struck(run: &Run, error: &str, reason: &str) {
    let (failure, reasons) = (run.failure.as_ref().map(ToString::to_string), run.reason());
    assert_eq!(run.verdict, Verdict::Inconclusive, "{failure:?}");
    assert!(failure.as_ref().is_some_and(|failure| failure.contains(error)), "{failure:?}");
    assert!(reasons[0].starts_with("in the model: ") && reasons[0].contains(reason), "{reasons:?}");
    assert!(reasons.len() <= 4);
}

#[test]
fn every_scenario_passes_on_2_2_and_with_err050101_with_the_workarounds() {
    for erratum in [Erratum::LostPrime22, Erratum::Err050101] {
        let mut struck = 0;
        // What has no verdict, or no part in this controller, says nothing of its errata.
        let told = |scenario: &dyn Scenario| scenario.is_judged() && scenario.client().is_none();
        for scenario in scenario::table().into_iter().filter(|scenario| told(&**scenario)) {
            for speed in SPEEDS {
                let run = run(scenario.name(), erratum, true, speed);
                let failure = &run.failure;
                assert_eq!(
                    run.verdict,
                    Verdict::NoFailureFound,
                    "{erratum}, {}, {speed}: {failure:?}",
                    scenario.name()
                );
                struck += run.errata.len();
                assert!(run.scope.covered.contains(&format!("; erratum {erratum}, worked around;")), "{}", run.scope);
            }
        }
        // ERR050101's workaround keeps it from striking.
        assert_eq!(struck > 0, erratum == Erratum::LostPrime22, "{erratum}: {struck}");
    }
}

#[test]
fn a_lost_prime_without_the_workaround_stops_an_endpoint() {
    for (erratum, revision) in [(Erratum::LostPrime22, "2.2"), (Erratum::LostPrime24, "2.4")] {
        let reason = format!("(erratum of revision {revision})");
        for speed in SPEEDS {
            let broken = run("short-packets", erratum, false, speed);
            assert_struck(&broken, "bulk OUT, error -110", &reason);
            assert!(broken.reason()[0].contains("prime of ep1 OUT was lost"), "{:?}", broken.reason());
            assert!(broken.scope.covered.contains("not worked around"), "{}", broken.scope);
            assert_eq!(run("short-packets", erratum, true, speed).verdict, Verdict::NoFailureFound);
        }
        // At full speed the Ethernet function has two requests queued, and the last of a list is often added.
        for scenario in ["ecm", "rndis", "replug"] {
            assert_struck(&run(scenario, erratum, false, Speed::Full), "ping: nothing more came", &reason);
        }
    }
}

/// What Linux does on 2.4 (`_hardware_dequeue` alone) does not help a function that queues again in its completion: see the
/// driver's test of the same name in `errata.rs`.
#[test]
fn on_2_4_a_function_that_queues_again_passes_the_lost_request_over() {
    for scenario in ["ecm", "rndis", "replug"] {
        let broken = run(scenario, Erratum::LostPrime24, true, Speed::Full);
        assert_struck(&broken, "ping: nothing more came", "prime of ep1 OUT was lost");
        let bench = Bench::new().speed(Speed::Full).errata([Erratum::LostPrime24]);
        let bench = bench.driver("with both workarounds", |side| {
            let workarounds = chipidea_driver::Workarounds::ALWAYS;
            let config = chipidea_driver::Config { workarounds, ..chipidea_driver::Config::default() };
            let mut driver = chipidea_driver::ChipideaUdc::probe(side.mmio, side.dma, config)?;
            driver.start()?;
            Ok(Box::new(driver))
        });
        let passed = bench.run(scenario).expect("the bench can be set up");
        assert_eq!(passed.verdict, Verdict::NoFailureFound, "{scenario}: {:?}", passed.failure);
        assert!(!passed.errata.is_empty(), "{scenario}: it struck");
    }
}

#[test]
fn err050101_without_the_workaround_stops_an_out_endpoint() {
    for speed in SPEEDS {
        let broken = run("foreign-in", Erratum::Err050101, false, speed);
        assert_struck(&broken, "round 1, after the other device's tokens: bulk OUT, error -110", "(ERR050101)");
        assert!(
            broken.reason()[0].contains("ep1 OUT was unprimed by an IN token to addr 4 ep2"),
            "{:?}",
            broken.reason()
        );
    }
}

#[test]
fn a_controller_without_errata_passes_with_any_driver_and_says_nothing_of_them() {
    for scenario in ["short-packets", "foreign-in", "ecm"] {
        let run = Bench::new().workarounds(false).run(scenario).expect("the bench can be set up");
        assert_eq!((run.verdict, run.errata.len()), (Verdict::NoFailureFound, 0), "{scenario}: {:?}", run.failure);
        assert!(!run.scope.covered.contains("errat"), "{}", run.scope);
    }
}

#[test]
fn a_pool_is_broken_for_its_own_reason_on_a_controller_with_errata() {
    let policy: Policy = pool::policy::by_name("linked-descending").expect("a pool of the table");
    let bench = Bench::new().pool(policy).errata(Erratum::ALL).workarounds(false);
    let run = bench.run("ecm").expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::ClientAssumptionViolated);
    assert!(run.reason()[0].starts_with("ENDPTLISTADDR"), "{:?}", run.reason());
    assert!(run.scope.covered.contains("errata lost-prime-2.2, lost-prime-2.4, err050101, not worked around"));
}
