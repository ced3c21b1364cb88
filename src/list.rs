//! `poolproof list`.

use std::io::Write;

use scenarios::{CONTRACT, PLACES};

use crate::error::Error;

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
