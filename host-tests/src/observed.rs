//! What a real machine's log of its pools says, as a verdict.

use std::fmt;
use std::time::Duration;

use bus::PoolLayout;
use pool::observed::{self, Access, End, Event, LayoutJudged, Log, Noted, PoolSeen, Report, What};
use pool::{AddressOrder, Blame, Finding};

use crate::reason::broken_layout;
use crate::sides;
use crate::verdict::Verdict;

/// Layout contracts of devices, by the names of the pools that Linux's drivers take the memory from.
pub static LAYOUTS: [&PoolLayout; 1] = [&sides::CI_HW_QH];

/// Findings that are told; the rest is counted.
const TOLD: usize = 8;

/// A log's verdict, and what it rests on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The verdict.
    pub verdict: Verdict,
    /// Each pool: what it did, in which order, who holds what; and each layout.
    pub seen: Vec<String>,
    /// What was wrong.
    pub reasons: Vec<String>,
    /// What the log lacks.
    pub notes: Vec<String>,
    /// How far all this reaches.
    pub scope: String,
}

impl Observed {
    /// Judges a log in the format of [`pool::observed`]. Whatever the text is, something can be said of it.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::with_accesses(&Log::read(text), &[], "device accesses not seen")
    }

    /// The same, of a text that may be something else: `None` if there is no event in it.
    #[must_use]
    pub fn in_text(text: &str) -> Option<Self> {
        Log::read(text).events().next().is_some().then(|| Self::of(text))
    }

    /// Judges a log and what the device did meanwhile; `seen` says in words how that was seen.
    #[must_use]
    pub fn with_accesses(log: &Log, accesses: &[Access], seen: &str) -> Self {
        let report = observed::judge(log, &LAYOUTS, accesses);
        let mut notes = notes(log, &report);
        if !accesses.is_empty() {
            notes.push(ordered(&report));
        }
        Self {
            verdict: verdict(&report),
            seen: report.pools.iter().flat_map(pool).chain(report.layouts.iter().map(layout)).collect(),
            reasons: reasons(&report),
            notes,
            scope: scope(log, seen),
        }
    }

    /// All of it, line by line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let reasons = self.reasons.iter().map(|reason| format!("reason: {reason}"));
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        let verdict = [self.verdict.to_string()].into_iter();
        let scope = [format!("scope: {}", self.scope)];
        self.seen.iter().cloned().chain(verdict).chain(reasons).chain(notes).chain(scope).collect()
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn verdict(report: &Report) -> Verdict {
    let allocations: usize = report.pools.iter().map(|pool| pool.handed_out).sum();
    let findings = || report.findings.iter().map(|noted| &noted.finding);
    if findings().any(|finding| finding.blame() == Blame::Pool) {
        Verdict::PoolContractViolated
    } else if findings().next().is_some() {
        Verdict::ClientAssumptionViolated
    } else if allocations == 0 {
        Verdict::Inconclusive
    } else {
        Verdict::NoFailureFound
    }
}

fn reasons(report: &Report) -> Vec<String> {
    if report.findings.is_empty() && report.pools.iter().all(|pool| pool.handed_out == 0) {
        return vec![
            "the log shows no block that a pool handed out: is it what pool/observe/kprobe-events.sh prints?"
                .to_owned(),
        ];
    }
    let kept = verdict(report) != Verdict::PoolContractViolated;
    let mut reasons: Vec<String> = report.findings.iter().take(TOLD).flat_map(|noted| reason(noted, kept)).collect();
    let more = report.findings_total.saturating_sub(report.findings.len().min(TOLD) as u64);
    if more > 0 {
        reasons.push(format!("and {more} more {}", if more == 1 { "finding" } else { "findings" }));
    }
    reasons
}

fn reason(noted: &Noted, kept: bool) -> Vec<String> {
    if let Finding::LayoutContract(finding) = &noted.finding {
        let of_contract = |layout: &&&PoolLayout| std::ptr::eq(layout.contract, finding.contract);
        let assumed_by = LAYOUTS.iter().find(of_contract).map_or("the driver", |layout| layout.assumed_by);
        return broken_layout(finding, assumed_by, None, kept);
    }
    let line = noted.line.map_or_else(String::new, |line| format!("line {line}: "));
    let caller = noted.caller.as_ref().map_or_else(String::new, |caller| format!(" ({caller})"));
    vec![format!("{line}{}{caller}", noted.finding)]
}

/// A pool in two lines: what it did, and in which order.
fn pool(pool: &PoolSeen) -> [String; 2] {
    let PoolSeen { name, created, end, known, handed_out, refused, freed, in_use, holders, order, steps } = pool;
    let since = if *created { "created in the log" } else { "creation not seen" };
    let of = |value: Option<u64>, what: &str| value.map_or_else(String::new, |value| format!(", {what} {value}"));
    let geometry = [of(known.size, "size"), of(known.align, "align"), of(known.boundary, "boundary")].concat();
    let end = match end {
        End::Destroyed => "when it was destroyed",
        End::Gap => "where the log has a gap",
        End::Log => "at the end",
    };
    let handed_out = blocks(*handed_out);
    let mut did =
        format!("pool {name} ({since}{geometry}): {handed_out} handed out, {freed} taken back, {in_use} in use {end}");
    if *refused > 0 {
        did += &format!(", {refused} refused");
    }
    if let [(caller, most), rest @ ..] = &holders[..] {
        did += &format!("; {most} allocated by {caller}");
        let others: usize = rest.iter().map(|(_, count)| count).sum();
        if others > 0 {
            did += &format!(", {others} by others");
        }
    }
    let order = match order {
        AddressOrder::TooFew => order.to_string(),
        _ => format!("{order}; {steps}"),
    };
    [did, format!("pool {name}: {order}")]
}

fn blocks(count: usize) -> String {
    format!("{count} {}", if count == 1 { "block" } else { "blocks" })
}

fn layout(judged: &LayoutJudged) -> String {
    let PoolLayout { pool, contract, assumed_by } = judged.layout;
    let objects = blocks(judged.objects);
    match &judged.held {
        Ok(held) => format!(
            "layout {}: the first {objects} of pool {pool} {} as {assumed_by} assumes: {}",
            contract.register,
            if *held { "lie" } else { "do not lie" },
            contract.statement
        ),
        Err(why) => format!("layout {}: not judged, pool {pool}: {why}", contract.register),
    }
}

fn notes(log: &Log, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if log.overwritten > 0 {
        notes.push(format!(
            "{} events before the first line were overwritten: a larger buffer keeps them",
            log.overwritten
        ));
    }
    if log.lost > 0 {
        notes.push(format!("{} events were lost: what was in use before is not known behind them", log.lost));
    }
    if log.out_of_order > 0 {
        notes.push(format!(
            "{} lines were not in the order of their times, by which they were sorted",
            log.out_of_order
        ));
    }
    if let Some((number, text, why)) = &log.first_garbled {
        let lines = if log.garbled == 1 { "line" } else { "lines" };
        let text: String = text.chars().take(120).flat_map(char::escape_debug).collect();
        notes.push(format!("{} {lines} could not be read; the first, line {number}: {why}: {text}", log.garbled));
    }
    if report.excused_frees > 0 {
        let count = report.excused_frees;
        notes.push(format!(
            "{count} blocks were freed that the log does not show handed out: that was before it, or in a gap"
        ));
    }
    if report.beyond > 0 {
        let (blocks, were) = if report.beyond == 1 { ("block", "was") } else { ("blocks", "were") };
        notes.push(format!("{} {blocks} would end behind the last address, and {were} passed over", report.beyond));
    }
    if report.pools.iter().all(|pool| !pool.created) && !report.pools.is_empty() {
        notes.push("no creation of a pool was seen: the first line of each is taken for its first".to_owned());
    }
    notes
}

fn ordered(report: &Report) -> String {
    let observed::Ordered { judged, unknown, before_log, elsewhere } = report.accesses;
    format!(
        "accesses of the device: {judged} to memory of these pools judged, {unknown} order unknown, {before_log} to pools \
         that were there before the log, {elsewhere} to other memory"
    )
}

fn scope(log: &Log, accesses: &str) -> String {
    let count = |what: fn(&What) -> bool| log.events().filter(|event| what(&event.what)).count();
    let allocations = count(|what| matches!(what, What::Alloc(_)));
    let frees = count(|what| matches!(what, What::Free(_)));
    let times: Vec<Duration> = log.events().filter_map(|event: &Event| event.time).collect();
    let span = match (times.first(), times.last()) {
        (Some(first), Some(last)) => format!(" from {:.6} to {:.6} s", first.as_secs_f64(), last.as_secs_f64()),
        _ => String::new(),
    };
    format!(
        "kernel's own log, {allocations} allocations and {frees} frees{span}; {accesses}; not judged: zeroing, sleeping, what \
         drivers write, pages that go back"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_log_is_inconclusive() {
        for text in ["", "# a comment\n", "hello\n\u{0}\u{1b}[31m\n"] {
            let observed = Observed::of(text);
            assert_eq!(observed.verdict, Verdict::Inconclusive, "{text:?}");
            assert!(Observed::in_text(text).is_none(), "{text:?}");
            assert!(observed.lines().iter().all(|line| !line.contains(char::is_control)), "{:?}", observed.lines());
        }
    }

    #[test]
    fn the_pool_is_to_blame_before_its_client() {
        let twice =
            "1 create pool=1 size=64\n2 alloc pool=1 cpu=0x1000 dma=0x9000\n3 alloc pool=1 cpu=0x1000 dma=0x9000\n";
        let observed = Observed::in_text(twice).expect("it has events");
        assert_eq!(observed.verdict, Verdict::PoolContractViolated);
        let freed =
            "1 create pool=1 size=64\n2 alloc pool=1 cpu=0x1000 dma=0x9000\n3 free pool=1 cpu=0x1000 dma=0x9040\n";
        let observed = Observed::of(freed);
        assert_eq!(observed.verdict, Verdict::ClientAssumptionViolated);
        assert!(observed.reasons[0].starts_with("line 3: the driver freed"), "{:?}", observed.reasons);
    }
}
