//! The scenarios of pools under stress find what they are there for.

use std::sync::Arc;

use chipidea_driver::Fault;
use gadgets::source_sink::{SourceSinkConfig, SourceSinkGadget};
use pool::{AllocError, Block, DestroyError, Finding, Flags, FreeError, Policy, Pool, policy};
use scenarios::{Bench, DriverSide, PageOrder, Run, Status, Verdict, status};

fn run(bench: Bench, scenario: &str) -> Run {
    bench.run(scenario).expect("the bench can be set up")
}

/// Linux's driver, with a fault in it.
fn with_fault(fault: Option<Fault>) -> Bench {
    Bench::new().endpoints(4).driver("faulty", move |side: DriverSide| {
        let config = chipidea_driver::Config { fault, ..Default::default() };
        let mut driver = chipidea_driver::ChipideaUdc::probe(side.mmio, side.dma, config)?;
        driver.start()?;
        Ok(Box::new(driver))
    })
}

#[test]
fn every_atomic_allocation_of_a_plug_cycle_fails_once() {
    let run = run(with_fault(None), "fail-alloc");
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?}", run.failure);
    // The first cycle; for each allocation one in which it fails and a sound one; and the last, in which none failed. The
    // enumeration alone has more than ten requests with a data and a status stage.
    let found = run.log.iter().filter(|line| line.text.contains("New USB device found")).count();
    assert!(found > 40, "{found}");
    let complains = |text: &str| run.log.iter().any(|line| line.text.contains(text));
    assert!(complains("error -32"), "a control request that got no memory stalls");
}

#[test]
fn memory_that_a_failure_leaves_behind_is_found() {
    let run = run(with_fault(Some(Fault::NotUnwound)), "fail-alloc");
    let error = run.failure.as_ref().map(|failure| failure.error.clone()).unwrap_or_default();
    assert!(error.starts_with("after null from atomic allocation "), "{error}");
    assert!(error.contains("not everything was given back"), "{error}");
    assert_ne!(run.verdict, Verdict::NoFailureFound);
}

#[test]
fn a_request_that_never_comes_back_is_found() {
    let run = run(with_fault(Some(Fault::LostRequest)), "fail-alloc");
    let error = run.failure.as_ref().map(|failure| failure.error.clone()).unwrap_or_default();
    assert!(error.contains("a control request is neither answered nor refused"), "{error}");
    assert_ne!(run.verdict, Verdict::NoFailureFound);
}

#[test]
fn an_aged_pool_is_reported_and_not_judged() {
    let at = |policy: Policy, driver: usize, seed| {
        let driver = scenarios::drivers().swap_remove(driver);
        run(Bench::new().endpoints(8).pool(policy).built_in_driver(driver).seed(seed), "aged")
    };
    for policy in policy::table() {
        for seed in 0..4 {
            let run = at(policy.clone(), 0, seed);
            assert_eq!((run.verdict, status(&run, false)), (Verdict::NotJudged, Status::Reported), "{}", policy.name);
            assert!(!run.is_broken() && run.failure.is_none() && run.reason().is_empty());
            let [heads, layout, host] = &run.notes[..] else { panic!("{:?}", run.notes) };
            assert!(heads.starts_with("16 dQHs from pool ci_hw_qh on "), "{heads}");
            assert!(heads.contains("blocks in no order"), "{} seed {seed}: {heads}", policy.name);
            assert!(layout.starts_with("ENDPTLISTADDR does not hold: slot "), "{layout}");
            assert!(host.starts_with("the host"), "{host}");
        }
    }
    let array = at(Policy::current(), 1, 0);
    assert_eq!(array.notes[1..], ["ENDPTLISTADDR holds", "the host enumerates the device"]);
}

/// Works, but hands out a byte that is not zero.
struct Dirty(Box<dyn Pool>, Arc<pool::Memory>);

impl Pool for Dirty {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let block = self.0.alloc(flags)?;
        self.1.fill(block.cpu.offset(8), 1, 0x5a).map_err(|fault| AllocError::Other(fault.to_string()))?;
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        self.0.free(block)
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        self.0.destroy()
    }

    fn pages(&self) -> usize {
        self.0.pages()
    }
}

#[test]
fn what_a_pool_promises_is_judged_in_every_scenario() {
    let sound = Policy::current();
    let dirty =
        Policy::new("dirty", "does not zero", sound.metadata, sound.smallest, move |memory, source, geometry| {
            let pool = (sound.create)(Arc::clone(&memory), source, geometry)?;
            Ok(Box::new(Dirty(pool, memory)))
        });
    for scenario in ["aged", "two-pages", "malicious-device"] {
        let run = run(Bench::new().pool(dirty.clone()), scenario);
        assert_eq!(run.verdict, Verdict::PoolContractViolated, "{scenario}: {:?}", run.notes);
        assert_eq!(status(&run, true), Status::Broken, "{scenario}");
    }
}

#[test]
fn blocks_on_two_pages_are_one_array_only_by_chance() {
    for page_size in [4 << 10, 16 << 10, 64 << 10] {
        for policy in policy::table().into_iter().chain(policy::hostile()) {
            for order in [PageOrder::Forward, PageOrder::Backward, PageOrder::Scattered(5)] {
                let bench = Bench::new().pool(policy.clone()).page_size(page_size).page_order(order);
                let run = run(bench, "two-pages");
                let ascending = ["linked", "external-list", "external-bitmap", "index-stack"].contains(&&*policy.name);
                let what = format!("{} with {page_size} {order}: {:?}", policy.name, run.failure);
                if ascending && order == PageOrder::Forward {
                    assert_eq!(run.verdict, Verdict::NoFailureFound, "{what}");
                    continue;
                }
                if policy.loses_last && order == PageOrder::Forward {
                    // The gap at the end of a page is known of such a pool.
                    assert_eq!((run.verdict, status(&run, true)), (Verdict::AsDeclared, Status::Declared), "{what}");
                    continue;
                }
                assert_eq!(run.verdict, Verdict::ClientAssumptionViolated, "{what}");
                let Some(Finding::LayoutContract(layout)) = run.first_finding() else { panic!("{what}") };
                assert_eq!(layout.contract.register, "TABLE_BASE", "{what}");
                let reason = run.reason().join("\n");
                assert!(reason.contains("pool table broke no promise"), "{what}: {reason}");
                assert!(reason.contains("the table client assumed entries of 1024 bytes"), "{what}: {reason}");
                let built_in = policy::table().iter().any(|one| one.name == policy.name);
                let known = built_in && order != PageOrder::Scattered(5);
                assert_eq!(status(&run, true), if known { Status::KnownBad } else { Status::Broken }, "{what}");
                assert!(!run.scope.to_string().contains("chipidea"), "{}", run.scope);
            }
        }
    }
}

/// A failure is injected into what is under test, and only there.
#[test]
fn a_boot_loader_has_memory_of_its_own() {
    let run = Bench::new().session("boot loader", async |session| {
        session.failures().fail_after(0);
        session.boot_loader(SourceSinkGadget::new(SourceSinkConfig::default()))?;
        session.enumerated().await?;
        session.halt()?;
        session.disconnected().await?;
        scenarios::expect_equal("a failure in the boot loader", &session.failures().end(), &false)?;
        session.boot(SourceSinkGadget::new(SourceSinkConfig::default()))?;
        session.enumerated().await.map(drop)
    });
    let run = run.expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?}", run.failure);
}
