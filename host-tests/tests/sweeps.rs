//! Sweeps over schedules.

use chipidea_driver::{ChipideaUdc, Config, Fault};
use scenarios::{Bench, Sweep, Swept, scenario};

fn faulty(fault: Fault) -> Bench {
    Bench::new().driver(format!("ci_hdrc with {fault:?}"), move |side| {
        let mut driver = ChipideaUdc::probe(side.mmio, side.dma, Config { fault: Some(fault), ..Config::default() })?;
        driver.start()?;
        Ok(Box::new(driver))
    })
}

fn show(name: &str, swept: &Swept) {
    println!(
        "{name}: {} accesses, {} schedules, {} broken, plain {:?} {:?}",
        swept.accesses, swept.schedules, swept.broken_total, swept.plain.verdict, swept.plain.failure
    );
    for run in &swept.broken {
        println!(
            "  {} {:?} {:?} {:?}\n {:?}",
            run.schedule.as_ref().unwrap(),
            run.verdict,
            run.failure,
            run.findings.first(),
            run.board_log
        );
    }
}

#[test]
fn try_faults() {
    for fault in [Fault::FreedEarly, Fault::NoAddTripwire, Fault::NoSetupTripwire] {
        for name in ["setup-abort", "append", "dequeue", "disable"] {
            let scenario = scenario::by_name(name).unwrap();
            let swept = faulty(fault).endpoints(4).sweep(&*scenario, Sweep::All).unwrap();
            show(&format!("{fault:?} {name}"), &swept);
        }
    }
}
