//! How far a verdict reaches.

use std::collections::BTreeSet;
use std::fmt;

use usb::Speed;

use crate::bench::Bench;
use crate::errata;
use crate::run::Variant;
use crate::sides;
use crate::spans::{DMA_BASE, LOW_BITS};

/// What a run covered. Everything else is not spoken of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The pool and what identifies its code.
    pub pool: String,
    /// Everything else that says how far it reaches: driver, model, endpoints, memory, schedules, seed, and what was not
    /// exercised.
    pub covered: String,
}

/// What no run of this bench exercises.
pub const NOT_EXERCISED: &str = "interrupt context, IOMMU, non-coherent DMA, silicon";

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}; {}", self.pool, self.covered)
    }
}

impl Bench {
    /// How far a run of this bench reaches, or of benches that differ from it in these variants only; `schedules` says
    /// which were raced.
    pub(crate) fn scope(&self, variants: &[Variant], schedules: Option<&str>) -> Scope {
        let Self { policy, page_size, page_order, cpu_base, schedule_name, seed, mask_bits, .. } = self;
        let schedule = schedules.unwrap_or(schedule_name);
        let mut mask = String::new();
        let mut high = "";
        if *mask_bits != LOW_BITS {
            mask = format!(", DMA mask {mask_bits} bits");
        } else if policy.goes_high {
            high = ", memory above 4 GiB (the DMA mask has 32 bits)";
        }
        let covered = format!(
            "{}; memory coherent, {} KiB pages {page_order}, processor's base {cpu_base}, devices' base {DMA_BASE}{mask}; \
             schedules {schedule}; seed {seed}; not exercised: {NOT_EXERCISED}{high}",
            self.sides(variants),
            page_size / 1024,
        );
        Scope { pool: format!("{} ({})", policy.name, policy.fingerprint), covered }
    }

    /// Who was under test with what device.
    fn sides(&self, variants: &[Variant]) -> String {
        if let Some(client) = self.client {
            return format!("driver {}; model {}", client.words, client.model);
        }
        let endpoints: BTreeSet<u8> = variants.iter().map(|variant| variant.endpoints).collect();
        let endpoints: Vec<String> = endpoints.iter().map(u8::to_string).collect();
        let speeds: BTreeSet<Speed> = variants.iter().map(|variant| variant.speed).collect();
        let speeds: Vec<String> = speeds.iter().map(Speed::to_string).collect();
        let (driver, model) = (&self.driver.words, sides::controller_name(self.lpm));
        let errata = errata::in_scope(&self.errata, self.workarounds);
        let (endpoints, speeds) = (endpoints.join(", "), speeds.join(" and "));
        format!("driver {driver}; model {model}, {endpoints} endpoints, {speeds} port{errata}")
    }
}
