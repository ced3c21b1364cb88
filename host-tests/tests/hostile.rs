//! Pools that keep every promise and please nobody: what breaks on them is a client's assumption.

use pool::{Finding, Policy, policy};
use scenarios::{Bench, CheckOptions, Driver, PageOrder, Run, Status, Verdict, drivers, status};

const SCENARIO: &str = "bootloader-to-ethernet";

fn named(name: &str) -> Policy {
    policy::by_name(name).expect("a pool of that name")
}

fn driver(name: &str) -> Driver {
    drivers().into_iter().find(|driver| driver.name == name).expect("a driver of that name")
}

fn run(bench: Bench) -> Run {
    bench.run(SCENARIO).expect("the bench can be set up")
}

/// No seed lets it pass: behind every block of `shuffle` there is a gap, and slot 1 lies just behind slot 0.
#[test]
fn ci_hdrc_breaks_under_shuffle_whatever_the_seed_and_its_contract_is_named() {
    for seed in 0..24 {
        for endpoints in [2, 4, 8, 16] {
            let bench = Bench::new().pool(named(&format!("shuffle:{seed}"))).endpoints(endpoints);
            let run = if endpoints == 2 { bench.run("stall").expect("it can be set up") } else { run(bench) };
            let text = run.reason().join("\n");
            assert_eq!(run.verdict, Verdict::ClientAssumptionViolated, "seed {seed}, {endpoints} endpoints: {text}");
            let Some(Finding::LayoutContract(layout)) = run.first_finding() else {
                panic!("seed {seed}, {endpoints} endpoints: {:?}", run.findings);
            };
            assert_eq!(layout.contract.register, "ENDPTLISTADDR");
            assert!(layout.slot <= 1, "seed {seed}: {layout}");
            assert!(text.contains("pool ci_hw_qh broke no promise"), "seed {seed}: {text}");
            assert!(text.contains("ci_hdrc init_eps assumed 2n dQHs of 64 bytes, ascending and adjacent"), "{text}");
            assert_eq!(status(&run, true), Status::Broken, "nothing of it is on record");
        }
    }
}

#[test]
fn ci_hdrc_breaks_under_scatter_and_not_under_high() {
    let scattered = run(Bench::new().pool(named("scatter")));
    assert_eq!(scattered.verdict, Verdict::ClientAssumptionViolated);
    assert_eq!(scattered.first_finding().map(Finding::name), Some("LayoutContract"));
    let high = run(Bench::new().pool(named("high")));
    assert_eq!(high.verdict, Verdict::NoFailureFound, "{:?}", high.reason());
    assert!(
        high.scope.to_string().ends_with("silicon, memory above 4 GiB (the DMA mask has 32 bits)"),
        "{}",
        high.scope
    );
}

#[test]
fn a_driver_that_takes_its_dqhs_as_one_allocation_passes_every_scenario_on_every_hostile_pool() {
    let options = CheckOptions {
        pools: policy::hostile(),
        driver: Some(driver("dqh-array")),
        endpoints: vec![8],
        excuse: false,
        ..CheckOptions::default()
    };
    let report = scenarios::check(&options, &|_, _| {}).expect("the bench can be set up");
    assert_eq!(report.panics, Vec::<String>::new());
    // The contract and every scenario, but for those with a client of their own, in which it has no part.
    let with_driver = scenarios::scenario::table().iter().filter(|scenario| scenario.client().is_none()).count();
    assert_eq!(report.rows.len(), options.pools.len() * (with_driver + 1));
    for row in &report.rows {
        let expected = if row.scenario == "aged" { Status::Reported } else { Status::Pass };
        assert_eq!(row.status, expected, "{} on {}: {:#?}", row.scenario, row.pool, row.failures);
        if row.scenario != scenarios::CONTRACT.0 {
            assert!(row.scope.covered.contains("variant dqh-array"), "{}", row.scope);
        }
    }
}

#[test]
fn the_record_of_one_driver_says_nothing_of_another() {
    let run = run(Bench::new().pool(named("linked-descending")).built_in_driver(driver("dqh-array")));
    assert_eq!((run.verdict, run.driver.as_str()), (Verdict::NoFailureFound, "dqh-array"));
    assert_eq!(status(&run, true), Status::Pass, "no pass that a record would not expect");
}

#[test]
fn records_hold_for_the_orders_of_pages_that_they_were_seen_with() {
    for (order, endpoints, errno, expected) in [
        (PageOrder::Forward, 8, -110, Status::KnownBad),
        // The last pages have bit 15 of the processor's address set.
        (PageOrder::Backward, 8, -32, Status::KnownBad),
        (PageOrder::Backward, 16, -110, Status::KnownBad),
        (PageOrder::Scattered(3), 8, -110, Status::Broken),
        (PageOrder::Scattered(3), 16, -110, Status::Broken),
    ] {
        let run = run(Bench::new().pool(named("linked-descending")).page_order(order).endpoints(endpoints));
        assert_eq!(run.verdict, Verdict::ClientAssumptionViolated);
        if expected == Status::KnownBad {
            assert_eq!(run.errno(), Some(errno), "{order} {endpoints}");
        }
        assert_eq!(status(&run, true), expected, "{order}, {endpoints} endpoints: {:?}", run.failure);
        assert!(run.scope.to_string().contains(&format!("4 KiB pages {order}")), "{}", run.scope);
    }
    let wide = run(Bench::new().pool(named("linked-descending")).dma_mask(64));
    assert_eq!(status(&wide, true), Status::Broken, "recorded with a DMA mask of 32 bits");
}

#[test]
fn a_dma_mask_that_is_too_wide_is_caught_and_named() {
    for bits in [33, 40, 64] {
        let run = run(Bench::new().pool(named("high")).dma_mask(bits));
        assert_eq!(run.verdict, Verdict::ClientAssumptionViolated, "{bits} bits");
        let Some(Finding::LayoutContract(layout)) = run.first_finding() else { panic!("{:?}", run.findings) };
        assert_eq!((layout.written.0, layout.slot), (0x3f_f000, 0));
        let text = run.reason().join("\n");
        for part in [
            "ENDPTLISTADDR = 0x3ff000, the low 32 bits of 0x1003ff000: the register has no more",
            "at 0x3ff000 is memory that no one mapped; the driver has its ep0 OUT dQH at 0x1003ff000",
            &format!(
                "pool ci_hw_qh broke no promise and handed out ascending blocks, 64 bytes apart, from 0x1003ff000; ci_hdrc init_eps declared a DMA mask of {bits} bits"
            ),
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
        let scope = run.scope.to_string();
        assert!(scope.contains(&format!("DMA mask {bits} bits")) && scope.ends_with("silicon"), "{scope}");
    }
}

/// It takes a pool that goes there: with another one the same mistake shows nothing.
#[test]
fn a_dma_mask_that_is_too_wide_shows_only_where_pages_are_high() {
    let low = run(Bench::new().dma_mask(64));
    assert_eq!(low.verdict, Verdict::NoFailureFound, "{:?}", low.reason());
    let backward = run(Bench::new().dma_mask(64).page_order(PageOrder::Backward));
    assert_eq!(backward.verdict, Verdict::ClientAssumptionViolated);
}
