//! Why a run is broken, in at most four lines.

use pool::{Finding, Found, LayoutFinding, Metadata};

use crate::consequence::consequence;
use crate::run::{Exercised, Run};
use crate::verdict::Verdict;

const MOST_LINES: usize = 4;

impl Run {
    /// Why, in at most four lines; empty if nothing was wrong.
    #[must_use]
    pub fn reason(&self) -> Vec<String> {
        lines(self)
    }
}

fn lines(run: &Run) -> Vec<String> {
    if !run.is_broken() {
        return Vec::new();
    }
    let mut lines = match run.verdict {
        Verdict::NoFailureFound | Verdict::NotJudged | Verdict::AsDeclared => Vec::new(),
        Verdict::Inconclusive if !run.exercised.is_enough() => {
            let Exercised { allocations, accesses, .. } = run.exercised;
            vec![format!(
                "too little was exercised to say anything: {allocations} blocks of the pool under test, {accesses} \
                 accesses of the device to blocks of pools"
            )]
        }
        Verdict::Inconclusive if !run.errata.is_empty() => errata(run),
        Verdict::Inconclusive if !run.missing.is_empty() => vec![format!(
            "{} is declared for pools of this kind ({}), and did not come",
            run.missing.join(" and "),
            match run.metadata {
                Metadata::InBlock(_) => "data of their own in free blocks",
                Metadata::OutOfBand => "no data of their own in blocks",
            }
        )],
        Verdict::Inconclusive => vec!["the scenario failed, and no finding explains it".to_owned()],
        Verdict::ClientAssumptionViolated | Verdict::PoolContractViolated => match run.first_finding() {
            Some(Finding::LayoutContract(finding)) => layout(run, finding),
            Some(finding) => vec![finding.to_string()],
            None => Vec::new(),
        },
    };
    if run.findings_total > 1 && lines.len() < MOST_LINES && run.verdict != Verdict::Inconclusive {
        let others = run.findings_total - 1;
        lines.push(format!("and {others} more {}", if others == 1 { "finding" } else { "findings" }));
    }
    lines.truncate(MOST_LINES);
    lines
}

/// What the first of the controller's errata to strike did, and how many more there were.
fn errata(run: &Run) -> Vec<String> {
    let first = run.errata.first().map(|first| format!("in the model: {first}"));
    let more = run.errata.len() - 1;
    let more = (more > 0)
        .then(|| format!("the controller's errata struck {more} more {}", if more == 1 { "time" } else { "times" }));
    first.into_iter().chain(more).collect()
}

/// Register, slot, both names, both addresses, the pool's order, and what came of it.
fn layout(run: &Run, finding: &LayoutFinding) -> Vec<String> {
    let kept = run.verdict != Verdict::PoolContractViolated;
    let mut lines = broken_layout(finding, &run.assumed_by, Some(run.mask_bits), kept);
    lines.push(format!("in the model: {}", consequence(run, finding)));
    lines
}

/// Register, slot, both names, both addresses, the pool's order. `mask_bits` is the driver's DMA mask, where it is known;
/// `kept` says whether pools kept their promises.
pub(crate) fn broken_layout(
    finding: &LayoutFinding,
    assumed_by: &str,
    mask_bits: Option<u32>,
    kept: bool,
) -> Vec<String> {
    let LayoutFinding { contract, written, effective, slot, expected_at, found, was_zero, claimed_at, order } = finding;
    let wanted = bus::Owner::new(contract.kind, *slot);
    let low_half = claimed_at.filter(|at| *slot == 0 && at != written && at.0 & u64::from(u32::MAX) == written.0);
    let masked = if let Some(at) = low_half {
        format!(", the low 32 bits of {at}: the register has no more")
    } else if written == effective {
        String::new()
    } else {
        format!(", of which the hardware uses {effective} ({} bytes aligned)", contract.align)
    };
    let claim = match claimed_at {
        Some(at) => format!("the driver has its {wanted} at {at}"),
        None => format!("the driver has no {wanted}"),
    };
    let zeroed = match (found, was_zero) {
        (Found::Claimed(_) | Found::Unclaimed, Some(true)) => ", zeroed",
        _ => "",
    };
    let handed = order.as_ref().map_or_else(
        || "nothing is known of the pool's order".to_owned(),
        |(pool, order)| {
            let promise = if kept { "broke no promise and " } else { "" };
            format!("pool {pool} {promise}handed out {order}")
        },
    );
    let assumed = match (low_half, mask_bits) {
        (Some(_), Some(bits)) => format!("declared a DMA mask of {bits} bits"),
        (Some(_), None) => "has a wider DMA mask than the register has bits".to_owned(),
        (None, _) => format!("assumed {}", contract.statement),
    };
    vec![
        format!("{} = {written}{masked}", contract.register),
        format!("slot {slot} is {wanted} to the device; at {expected_at} is {found}{zeroed}; {claim}"),
        format!("{handed}; {assumed_by} {assumed}"),
    ]
}
