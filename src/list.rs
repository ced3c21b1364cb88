//! `poolproof list`.

use std::io::Write;

use scenarios::{CONTRACT, PLACES};

use crate::error::Error;

/// What no scenario meets with the kernel's own driver.
const UDC_C_UNREACHED: [(&str, &str); 5] = [
    ("descriptor accesses", "plain loads and stores: nothing is raced there, and they are not judged; registers are"),
    ("work items", "a change of VBUS and the pull-up are handled in the interrupt, as with the port"),
    ("errata", "worked around by the controller's revision, all or none (--no-workaround: it is told 2.5)"),
    ("debugfs", "debug.c is not compiled: --debugfs writes nothing"),
    (
        "the rest of ci_hdrc",
        "trace.c, otg_fsm.c, host.c, PHYs, scatter-gather, runtime power management; core.c is glue",
    ),
];

pub(crate) fn list(out: &mut dyn Write) -> Result<(), Error> {
    let section = |out: &mut dyn Write, title: &str, entries: &[(String, String)]| {
        writeln!(out, "{title}")?;
        entries.iter().try_for_each(|(name, about)| writeln!(out, "  {name:<24}{about}"))
    };
    let pools = scenarios::policy::table();
    let pools: Vec<_> = pools.iter().map(|policy| (policy.name.to_string(), policy.about.to_string())).collect();
    section(out, "pools", &pools)?;
    let pair = |(name, about): (&str, &str)| (name.to_owned(), about.to_owned());
    let hostile: Vec<_> = scenarios::policy::families().into_iter().map(pair).collect();
    section(out, "hostile pools, of `check --hostile` or by name", &hostile)?;
    let scenarios = scenarios::scenario::table();
    let scenarios: Vec<_> = scenarios.iter().map(|one| (one.name().to_owned(), one.about().to_owned())).collect();
    section(out, "before every scenario of a check", &[pair(CONTRACT)])?;
    section(out, "scenarios", &scenarios)?;
    section(out, "acts of raced scenarios, for --schedule", &acts())?;
    let drivers = scenarios::drivers();
    let drivers: Vec<_> = drivers.iter().map(|driver| (driver.name.to_string(), driver.about.to_string())).collect();
    section(out, "drivers", &drivers)?;
    let limits = scenarios::UDC_C_LIMITS.iter().map(|limit| (limit.scenario.to_owned(), limit.why.to_owned()));
    let kernels: Vec<_> = UDC_C_UNREACHED.map(pair).into_iter().chain(limits).collect();
    section(out, "what --udc-c does not reach, and what the kernel's own driver does not do in a scenario", &kernels)?;
    let devices = scenarios::DEVICES.map(pair);
    section(out, "devices", &devices)?;
    let errata = scenarios::Erratum::ALL.map(|erratum| (erratum.name().to_owned(), erratum.about().to_owned()));
    section(out, "errata of chipidea-sim, for --errata", &errata)?;
    Ok(())
}

/// What can happen at an access of the driver in each scenario that is raced.
fn acts() -> Vec<(String, String)> {
    let table = scenarios::scenario::table();
    let raced = table.iter().filter(|scenario| !scenario.needs().acts.is_empty()).map(|scenario| {
        let needs = scenario.needs();
        let known = needs.unswept.iter().map(|act| format!("{act} (not swept: the driver breaks)"));
        let acts: Vec<String> = needs.acts.iter().map(|act| (*act).to_owned()).chain(known).collect();
        (scenario.name().to_owned(), acts.join(", "))
    });
    let everywhere = [
        ("ACT@N".to_owned(), "ACT before the driver's access number N, counted from 0".to_owned()),
        (
            "ACT@N/PLACE+K".to_owned(),
            format!("the device's work on it stops half done for K accesses; PLACE: {}", PLACES.join(", ")),
        ),
        ("irq@N+K".to_owned(), "the processor sees no interrupt for K accesses".to_owned()),
    ];
    raced.chain(everywhere).collect()
}
