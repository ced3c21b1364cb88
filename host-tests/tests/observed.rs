//! Logs of pools: what the bench's own pools would have logged, and what is said of it.

use std::fmt::Write;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use pool::{DmaPool, Flags, Geometry, Ledger, Memory, PageAllocator, PageOrder, PageSource, Policy, Span};
use scenarios::{Observed, Verdict};

/// What `init_eps` of a controller with 16 endpoints does with the pool of its dQHs, as the recipes would log it.
fn log_of(policy: &Policy) -> String {
    let span = Span { cpu: CpuAddr(0xffff_0000_4000_0000), dma: DmaAddr(0x8000_0000), len: 1 << 20 };
    let memory = Memory::new(&[span]).expect("1 MiB");
    let source: Arc<dyn PageSource> = PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, PageOrder::Forward);
    let ledger = Ledger::new(Arc::clone(&memory));
    let geometry = Geometry { size: 48, align: 64, boundary: 4096 };
    let pool = DmaPool::create("ci_hw_qh", policy, geometry, &memory, &source, &ledger).expect("a pool");
    let mut log = "1.000000 create pool=0xa0 name=\"ci_hw_qh\" size=48 align=64 boundary=4096\n".to_owned();
    for n in 0..32 {
        let block = pool.alloc(Flags::KERNEL.zeroed()).expect("a block");
        writeln!(log, "1.{n:06} alloc pool=0xa0 cpu={} dma={} caller=init_eps+0x10/0x20", block.cpu, block.dma)
            .expect("a string takes all");
    }
    log
}

#[test]
fn the_fault_of_2023_is_named_by_a_log() {
    let policy = pool::policy::by_name("linked-descending").expect("it is built in");
    let observed = Observed::of(&log_of(&policy));
    assert_eq!(observed.verdict, Verdict::ClientAssumptionViolated, "{observed}");
    let expected = [
        "ENDPTLISTADDR = 0x80000fc0, of which the hardware uses 0x80000800 (2048 bytes aligned)",
        "slot 0 is ep0 OUT dQH to the device; at 0x80000800 is the driver's ep15 IN dQH; the driver has its ep0 OUT dQH at \
         0x80000fc0",
        "pool ci_hw_qh broke no promise and handed out descending blocks, 64 bytes apart, from 0x80000fc0; ci_hdrc init_eps \
         assumed 2n dQHs of 64 bytes, ascending and adjacent, 2 KiB aligned",
    ];
    assert_eq!(observed.reasons, expected);
}

#[test]
fn pools_that_the_driver_survives_have_logs_without_a_failure() {
    for policy in pool::policy::table().iter().filter(|policy| policy.name != "linked-descending") {
        let observed = Observed::of(&log_of(policy));
        assert_eq!(observed.verdict, Verdict::NoFailureFound, "{}: {observed}", policy.name);
        assert!(
            observed.seen.iter().any(|line| line.contains("the first 32 blocks of pool ci_hw_qh lie")),
            "{observed}"
        );
    }
}

#[test]
fn what_a_log_lacks_is_said() {
    let policy = Policy::current();
    let log = log_of(&policy);
    let notes = |text: &str| Observed::of(text).notes.join("\n");
    assert_eq!(notes(&log), "");
    assert!(notes(&format!("{log}CPU:1 [LOST 12 EVENTS]\n")).starts_with("12 events were lost"));
    assert!(notes(&format!("# entries-in-buffer/entries-written: 1/9   #P:4\n{log}")).starts_with("8 events before"));
    assert!(notes(&format!("{log}0.5 alloc pool=0xa0 cpu=0x0\n")).starts_with("1 lines were not in the order"));
    let garbled = notes(&format!("{log}usb 1-1: \u{1b}[31mnew\n2.0 free pool=1\n"));
    assert!(
        garbled.starts_with(r"2 lines could not be read; the first, line 34: it is no event: usb 1-1: \u{1b}[31mnew"),
        "{garbled}"
    );
    assert!(
        notes("1 free pool=1 cpu=2 dma=3\n").starts_with("1 blocks were freed that the log does not show handed out")
    );
}
