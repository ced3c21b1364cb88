//! A kernel's own driver.

use std::sync::Arc;

use bus::Trace;
use chipidea_sim::{Section, Traffic};
use qemu::{Board, BoardConfig, BoardError, Cache, Record};
use tokio::runtime::Builder;

use crate::scenario;
use crate::variant::{ENDPOINTS, Variant};

/// Lines of a record that a failure shows.
const SHOWN: usize = 80;
/// Boots until one goes through undisturbed.
const ATTEMPTS: usize = 3;
/// Without it a network interface that comes up sends packets of its own accord.
const APPEND: &str = "ipv6.disable=1";

/// What a kernel did, and its release.
pub(crate) struct Seen {
    pub(crate) sections: Vec<Section>,
    pub(crate) release: String,
}

/// Boots a kernel of a series and has it go through the scenario; again, if a SETUP overtook its driver.
pub(crate) fn traffic(series: &str, variant: Variant) -> Seen {
    let mut seen = attempt(series, variant);
    for _ in 1..ATTEMPTS {
        if !seen.sections.iter().any(is_overtaken) {
            break;
        }
        seen = attempt(series, variant);
    }
    seen
}

/// A SETUP that got no answer. The host waits until the driver is quiet, but a busy machine may leave an emulated processor
/// in the middle of its interrupt handler for longer. A bus reset's handler then drops a SETUP that came after the reset.
fn is_overtaken(section: &Section) -> bool {
    let is_answer = |line: &String| line.starts_with("ENDPTPRIME = ep0") || line.starts_with("ENDPTCTRL0");
    section.title.starts_with("SETUP") && !section.lines.iter().any(is_answer)
}

fn attempt(series: &str, variant: Variant) -> Seen {
    let cache = Cache::open(None).unwrap_or_else(|error| panic!("{error}"));
    let kernel = cache.kernel(series).unwrap_or_else(|error| panic!("{error}"));
    let traffic = Arc::new(Traffic::new());
    let config = BoardConfig {
        glue: variant.glue,
        speed: variant.speed,
        endpoints: ENDPOINTS,
        configuration: Some(variant.configuration()),
        append: APPEND.to_owned(),
        trace: Trace::to(Arc::clone(&traffic) as _),
        ..BoardConfig::new(kernel)
    };
    let record = Record::new(|_| ());
    run(&cache, &config, &record, variant, &traffic).unwrap_or_else(|error| {
        let entries = record.all();
        let shown: Vec<_> = entries.iter().rev().take(SHOWN).rev().map(ToString::to_string).collect();
        panic!("{series} {variant:?}\n{}\n{error}", shown.join("\n"));
    })
}

/// A board without a cable; then with one; the host's session; the cable out and in again.
fn run(
    cache: &Cache,
    config: &BoardConfig,
    record: &Record,
    variant: Variant,
    traffic: &Traffic,
) -> Result<Seen, BoardError> {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| BoardError::System { what: "no event loop", error })?;
    let settle = || runtime.block_on(scenario::settle(traffic));
    let mut board = Board::start(cache, config, record.clone(), None)?;
    // The host powers its port when it begins. The kernel has no driver for the controller yet.
    board.init()?;
    board.unplug();
    board.ready()?;
    settle();
    board.plug();
    let device = board.enumerated()?;
    let device = device.device();
    let session = runtime.block_on(scenario::session(board.host(), device, variant, traffic));
    session.map_err(BoardError::Data)?;
    board.unplug();
    board.gone()?;
    settle();
    board.plug();
    board.enumerated()?;
    settle();
    let sections = traffic.sections();
    let manufacturer = device.strings().manufacturer.clone().unwrap_or_default();
    let release = manufacturer.split_whitespace().nth(1).unwrap_or_default().to_owned();
    board.power_off()?;
    Ok(Seen { sections, release })
}
