//! What the kernels' pools do, by the kernels' own logs, and what the controller did with their blocks.

use qemu::{Board, BoardError, Glue};
use scenarios::{Observed, Verdict};

use crate::common::{KERNELS, ensure, network, with_board};

/// Nothing is wrong, the layout was seen from its first block, and accesses of the device have an order.
fn is_right(observed: &Observed) -> Result<(), BoardError> {
    let text = observed.to_string();
    ensure(observed.verdict == Verdict::NoFailureFound, || text.clone())?;
    for expected in [
        "pool ci_hw_qh (created in the log, size 48, align 64, boundary 4096): 32 blocks handed out, 0 taken back",
        "32 allocated by ",
        "layout ENDPTLISTADDR: the first 32 blocks of pool ci_hw_qh lie as ci_hdrc init_eps assumes",
        "device accesses ordered against it within",
    ] {
        ensure(text.contains(expected), || format!("{expected} is missing:\n{text}"))?;
    }
    ensure(judged(observed) > 100, || text.clone())
}

/// Accesses of the device whose order is known.
fn judged(observed: &Observed) -> usize {
    let words = observed.notes.iter().find_map(|note| note.strip_prefix("accesses of the device: "));
    words.and_then(|words| words.split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_the_pools_of_the_newest_kernel_are_observed() {
    with_board(
        "newest",
        |config| config.observe = true,
        |board, device| {
            network(&device, "cdc_ether", 16 << 10)?;
            is_right(&board.observed()?)
        },
    );
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn every_kernel_is_observed_with_each_glue() {
    for kernel in KERNELS {
        for glue in [Glue::Msm, Glue::Pci] {
            let change = |config: &mut qemu::BoardConfig| (config.observe, config.glue) = (true, glue);
            let act = |board: &mut Board, device| {
                network(&device, "cdc_ether", 64 << 10)?;
                is_right(&board.observed()?)?;
                // All that the driver had it gives back.
                board.command("unbind-controller")?;
                let observed = board.observed()?;
                let text = observed.to_string();
                ensure(observed.verdict == Verdict::NoFailureFound, || text.clone())?;
                let gone = observed.seen.iter().filter(|line| line.contains(" 0 in use when it was destroyed"));
                ensure(gone.count() == 2, || text.clone())?;
                board.command("bind-controller").map(drop)
            };
            with_board(kernel, change, act);
        }
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn a_board_that_was_not_asked_to_log_says_so() {
    with_board(
        "6.12",
        |_| (),
        |board, _| {
            let refused = board.observed();
            ensure(matches!(&refused, Err(BoardError::Usage(why)) if why.contains("--observe")), || {
                format!("{refused:?}")
            })
        },
    );
}
