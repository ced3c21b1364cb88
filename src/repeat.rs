//! The command that makes a failure again.

use scenarios::{Detail, PageOrder, Speed};

use crate::cli::{Check, KernelC};

/// What a command needs beside the failure itself.
pub(crate) struct Repeat<'a> {
    kernel_c: &'a KernelC,
    machine: String,
}

impl<'a> Repeat<'a> {
    /// For failures of this check.
    pub(crate) fn new(check: &'a Check) -> Self {
        let machine = &check.machine;
        let mut text = String::new();
        if let Some(driver) = &check.driver {
            text += &format!(" --driver {driver}");
        }
        text += &check.udc_c.words();
        match machine.page_order {
            PageOrder::Forward => {}
            PageOrder::Backward => text += " --page-order backward",
            PageOrder::Scattered(seed) => text += &format!(" --page-order scattered:{seed}"),
        }
        if let Some(base) = machine.cpu_base {
            text += &format!(" --cpu-base {base:#x}");
        }
        if machine.seed != 0 {
            text += &format!(" --seed {}", machine.seed);
        }
        for erratum in &machine.errata {
            text += &format!(" --errata {}", erratum.name());
        }
        if machine.no_workaround {
            text += " --no-workaround";
        }
        Self { kernel_c: &check.kernel_c, machine: text }
    }

    /// The command for the first of the runs that broke in this way; `None` where a row is not a scenario's.
    pub(crate) fn command(&self, pool: &str, scenario: &str, detail: &Detail) -> Option<String> {
        let variant = detail.variants.first()?;
        let speed = if variant.speed == Speed::High { "high" } else { "full" };
        let mut text = format!(
            "poolproof run {scenario} {} --endpoints {} --speed {speed}",
            self.kernel_c.words(pool),
            variant.endpoints
        );
        if variant.page_size != 4096 {
            text += &format!(" --page-size {}k", variant.page_size / 1024);
        }
        text += &self.machine;
        if let Some(schedule) = &detail.schedule {
            text += &format!(" --schedule {schedule}");
        }
        Some(text)
    }
}
