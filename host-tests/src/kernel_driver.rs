//! The kernel's own udc.c as a driver of the bench.

use std::sync::Arc;

use chipidea_driver::Config;
use kernel_udc::UdcFile;

use crate::driver::{Driver, Limit};
use crate::sides::workarounds;

/// What udc.c of Linux 6.1 does not do, found by the scenarios on pools that keep every promise. The port does
/// (`chipidea_driver`, where it differs from ci_hdrc).
pub const UDC_C_LIMITS: &[Limit] = &[
    Limit {
        scenario: "short-packets",
        error: "OUT, 0 bytes into 20480 with short_not_ok: expected (1, Err(Short)), saw (1, Ok(0))",
        why: "udc.c takes no notice of short_not_ok: what follows in this scenario is not reached",
    },
    Limit {
        scenario: "dequeue",
        error: "a bulk transfer on ep1 IN, error -110",
        why: "udc.c's ep_dequeue flushes the endpoint and leaves its other requests unprimed: what follows in this scenario is \
              not reached",
    },
    Limit {
        scenario: "setup-abort",
        error: "shutdown failed on the board: controller failure: pool ci_hw_td: 1 blocks are in use: ep0 ",
        why: "udc.c frees the request of a status stage that is under way (_gadget_stop_activity: \"freeing queued request\"), \
              which it cannot: its dTD is in use when the pool is destroyed",
    },
];

/// The kernel's own driver, under a name such as `udc.c`.
///
/// Races meet it at its registers only: descriptor accesses are the C code's own.
#[must_use]
pub fn kernel_driver(name: &str, file: &UdcFile) -> Driver {
    let hash = file.fingerprint();
    let file = file.clone();
    Driver {
        name: name.to_owned().into(),
        about: "the kernel's own drivers/usb/chipidea/udc.c, compiled for user space".into(),
        words: format!(
            "{name} (Linux's own drivers/usb/chipidea/udc.c, text {hash}, compiled for user space, its descriptor accesses \
             are no preemption points)"
        )
        .into(),
        assumed_by: "ci_hdrc init_eps".into(),
        limits: UDC_C_LIMITS,
        make: Arc::new(move |side| {
            let config = Config { workarounds: workarounds(&side), ..Config::default() };
            Ok(Box::new(file.start(side.mmio, side.dma, &config)?))
        }),
    }
}
