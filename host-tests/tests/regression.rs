//! The regression of 2023, with everything that a reader needs to believe it.

use bus::CpuAddr;
use pool::{Finding, Found, Policy};
use scenarios::{Bench, CPU_BASE, Run, Status, Verdict, status};
use usb::Speed;

const SCENARIO: &str = "bootloader-to-ethernet";
/// The processor's base with bit 15 set: what an in-block link looks like to a device changes.
const BIT_15: CpuAddr = CpuAddr(CPU_BASE.0 | 1 << 15);

fn policy(name: &str) -> Policy {
    pool::policy::by_name(name).expect("a pool of the table")
}

fn descending(endpoints: u8, base: CpuAddr) -> Run {
    let bench = Bench::new().pool(policy("linked-descending")).endpoints(endpoints).cpu_base(base);
    bench.run(SCENARIO).expect("the bench can be set up")
}

#[test]
fn with_16_endpoints_the_setup_lands_in_a_zeroed_queue_head_of_another_endpoint() {
    for base in [CPU_BASE, BIT_15] {
        let run = descending(16, base);
        assert_eq!(run.verdict, Verdict::ClientAssumptionViolated);
        assert_eq!(run.errno(), Some(-110));
        let Some(Finding::LayoutContract(layout)) = run.first_finding() else {
            panic!("{:?}", run.findings);
        };
        assert_eq!(layout.contract.register, "ENDPTLISTADDR");
        assert_eq!((layout.slot, layout.was_zero), (0, Some(true)));
        assert!(matches!(&layout.found, Found::Claimed(owner) if owner.to_string() == "ep15 IN dQH"));
        let reason = run.reason();
        assert!(reason.len() <= 4);
        let text = reason.join("\n");
        for part in [
            "ENDPTLISTADDR = 0x80000fc0, of which the hardware uses 0x80000800",
            "slot 0 is ep0 OUT dQH to the device; at 0x80000800 is the driver's ep15 IN dQH, zeroed",
            "the driver has its ep0 OUT dQH at 0x80000fc0",
            "pool ci_hw_qh broke no promise and handed out descending blocks, 64 bytes apart",
            "ci_hdrc init_eps assumed",
            "in the model: the SETUP went into a zeroed dQH of another endpoint",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }
}

#[test]
fn with_fewer_endpoints_bit_15_of_the_processors_address_decides_between_silence_and_stall() {
    for endpoints in [4, 8] {
        for (base, errno) in [(CPU_BASE, -110), (BIT_15, -32)] {
            let run = descending(endpoints, base);
            assert_eq!(run.verdict, Verdict::ClientAssumptionViolated);
            assert_eq!(run.errno(), Some(errno), "{endpoints} endpoints, {base}");
            let text = run.reason().join("\n");
            assert!(text.contains("at 0x80000800 is a free block of pool ci_hw_qh (never handed out)"), "{text}");
            let written = run.findings.iter().find_map(|finding| match finding {
                Finding::WriteToFreedBlock { access, offset, .. } => Some((access.belief.to_string(), *offset)),
                _ => None,
            });
            assert_eq!(written, Some(("ep0 OUT dQH setup".to_owned(), 40)), "what was damaged");
            // The cause: bit 15 of the pool's own link is the device's IOS.
            let cause = match errno {
                -110 => "capabilities 400007c0 from the free block's next pointer: IOS (bit 15) clear, no interrupt",
                _ => "capabilities 400087c0 from the free block's next pointer: IOS (bit 15) set, an interrupt",
            };
            assert!(text.contains(cause), "{text}");
            assert!(text.contains("its setup overwrote bytes 40 to 47"), "{text}");
            assert!(run.findings.iter().any(|finding| finding.name() == "ReadOfFreedBlock"));
        }
    }
}

#[test]
fn every_other_pool_passes_and_says_how_far_that_reaches() {
    for policy in pool::policy::table().into_iter().filter(|policy| policy.name != "linked-descending") {
        for page_size in [4 << 10, 16 << 10, 64 << 10] {
            let bench = Bench::new().pool(policy.clone()).page_size(page_size).speed(Speed::Full);
            let run = bench.run(SCENARIO).expect("the bench can be set up");
            assert_eq!(run.verdict, Verdict::NoFailureFound, "{}: {:?}", policy.name, run.reason());
            let scope = run.scope.to_string();
            for part in [&*policy.name, &*policy.fingerprint, "16 endpoints", "coherent", "seed 0", "silicon"] {
                assert!(scope.contains(part), "{part:?} is missing: {scope}");
            }
            assert!(scope.contains(&format!("{} KiB pages", page_size >> 10)), "{scope}");
            assert!(run.exercised.allocations > 32 && run.exercised.accesses > 0 && run.exercised.interrupts > 0);
        }
    }
}

#[test]
fn the_other_register_map_makes_no_difference() {
    for (pool, verdict) in
        [("linked", Verdict::NoFailureFound), ("linked-descending", Verdict::ClientAssumptionViolated)]
    {
        let run = Bench::new().pool(policy(pool)).lpm(true).run(SCENARIO).expect("the bench can be set up");
        assert_eq!(run.verdict, verdict, "{:?}", run.reason());
        assert!(run.scope.to_string().contains("(LPM map)"));
    }
}

#[test]
fn the_record_excuses_this_failure_and_no_other() {
    let recorded = descending(8, CPU_BASE);
    assert_eq!(status(&recorded, true), Status::KnownBad);
    assert_eq!(status(&recorded, false), Status::Broken);
    assert_eq!(status(&descending(8, BIT_15), true), Status::Broken, "-32 is not the recorded -110");
    assert_eq!(status(&descending(5, CPU_BASE), true), Status::Broken, "5 endpoints are not on record");
    let mut passes = Bench::new().run(SCENARIO).expect("the bench can be set up");
    assert_eq!(status(&passes, true), Status::Pass);
    passes.pool = "linked-descending".to_owned();
    assert_eq!(status(&passes, true), Status::Broken, "a pass where the record says it fails");
}

#[test]
fn two_runs_are_one() {
    let run = || {
        let scenario = scenarios::scenario::by_name(SCENARIO).expect("a scenario of the table");
        let (run, trace) = Bench::new().seed(7).trace_scenario(&*scenario).expect("the bench can be set up");
        (run.log, run.virtual_time, trace)
    };
    // At the same time on two threads, so that nothing process-wide can tell them apart either.
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        (run(), other.join().expect("the other run ends"))
    });
    assert!(first.2.len() > 1000);
    assert!(first == second);
}
