//! The regression of 2023 hits firmware stacks as it hits Linux: their queue heads come from the pool, one by one.

use pool::Finding;
use scenarios::{PageOrder, Verdict};
use usb::Speed;

use crate::board::{States, pattern, run, try_run};
use crate::serial::{echo, open, serial};

#[test]
fn with_a_descending_pool_the_host_gives_up_and_the_layout_says_why() {
    for endpoints in [4, 8, 16] {
        let bench = serial("linked-descending", States::default()).endpoints(endpoints);
        let run = try_run(&bench, async |_, device| panic!("{device:?} was enumerated"));
        assert_eq!(run.verdict, Verdict::ClientAssumptionViolated, "{:?}", run.failure);
        assert_eq!(run.errno(), Some(-110), "{:?}", run.failure);
        let Some(Finding::LayoutContract(layout)) = run.first_finding() else {
            panic!("{:#?}", run.findings);
        };
        assert_eq!((layout.contract.register, layout.slot), ("ENDPTLISTADDR", 0));
    }
}

#[test]
fn any_controller_and_memory_will_do() {
    let bench = || serial("linked", States::default());
    let lpm = bench().lpm(true);
    let scattered = bench().page_size(64 << 10).page_order(PageOrder::Scattered(7));
    for bench in [bench().endpoints(3), lpm, scattered, bench().speed(Speed::Full)] {
        run(&bench, async |_, device| {
            open(&device).await?;
            echo(&device, pattern(1, 1000)).await
        });
    }
}
