//! An explanation as text.

use std::fmt;

use super::dump::{Dump, HEAD_WORDS};
use super::{Explanation, Section, Statement, Weight};

/// Characters of a line that a message shows.
const SHOWN: usize = 100;

/// A line in quotes, cut, with what is not printable escaped.
pub(super) fn quoted(line: &str) -> String {
    let shown: String = line.chars().take(SHOWN).collect();
    let more = if shown.len() < line.len() { "…" } else { "" };
    format!("`{}{more}`", shown.escape_debug())
}

/// What was read.
pub(super) fn read(dump: &Dump) -> Vec<String> {
    let count = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let mut read = Vec::new();
    if !dump.device.is_empty() {
        read.push(format!("device: {}", count(dump.device.len(), "line", "lines")));
    }
    if !dump.heads.is_empty() {
        read.push(format!("qheads: {}", count(dump.heads.len() / 2, "endpoint number", "endpoint numbers")));
    }
    if dump.has_requests {
        read.push(format!("requests: {}", count(dump.requests.len(), "dTD", "dTDs")));
    }
    if !dump.registers.is_empty() {
        read.push(format!("registers: {}", count(dump.registers.len(), "register", "registers")));
    }
    if dump.not_in_gadget_mode {
        read.push("that it is not in gadget mode".to_owned());
    }
    read.extend(dump.role.as_ref().map(|_| "role".to_owned()));
    read.extend(dump.otg_state.as_ref().map(|_| "otg".to_owned()));
    if !dump.events.is_empty() {
        read.push(format!("tracepoints: {}", count(dump.events.len(), "event", "events")));
    }
    read
}

/// What was not.
pub(super) fn gaps(dump: &Dump) -> Vec<String> {
    let mut gaps = Vec::new();
    let lines = |count: usize| if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
    if let Some(first) = &dump.damaged.first {
        gaps.push(format!("{} cannot be read; the first: {}", lines(dump.damaged.count), quoted(first)));
    }
    if let Some(first) = &dump.foreign.first {
        gaps.push(format!("{} not of these files; the first: {}", lines(dump.foreign.count), quoted(first)));
    }
    if dump.earlier > 0 {
        gaps.push(format!("{} in the input before the last of their kind were left aside", dump.earlier));
    }
    let absent =
        [("qheads", dump.heads.is_empty()), ("requests", !dump.has_requests), ("registers", dump.registers.is_empty())];
    let absent: Vec<&str> = absent.iter().filter(|(_, absent)| *absent).map(|(name, _)| *name).collect();
    if !absent.is_empty() && !dump.not_in_gadget_mode {
        gaps.push(format!("{}: not in the input, and not judged", absent.join(", ")));
    }
    let cut = dump.heads.iter().filter(|head| head.words.iter().any(Option::is_none)).count();
    if cut > 0 {
        gaps.push(format!("{cut} of {} dQHs have less than {HEAD_WORDS} words", dump.heads.len()));
    }
    let highest = dump.heads.iter().map(|head| usize::from(head.slot.endpoint()) + 1).max().unwrap_or_default();
    if highest > dump.heads.len() / 2 {
        gaps.push(format!("of {highest} endpoint numbers {} are there", dump.heads.len() / 2));
    }
    gaps
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "read: {}", self.read.join(", "))?;
        self.gaps.iter().try_for_each(|gap| writeln!(f, "not read: {gap}"))?;
        for section in &self.sections {
            writeln!(f, "\n{section}")?;
        }
        writeln!(f, "\n{}", self.verdict())?;
        for statement in self.wrong() {
            writeln!(f, "reason: {}", statement.text)?;
        }
        write!(f, "scope: {}", Self::SCOPE)
    }
}

impl Explanation {
    /// How far an explanation reaches.
    pub const SCOPE: &'static str = "what these files say, by the manual and in the model chipidea-sim; not told: dTDs that are not \
                                     queued any more, buffers, caches, what lies inside the controller, and what changed \
                                     between the reading of two files";
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        self.statements.iter().try_for_each(|statement| write!(f, "\n{statement}"))
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.weight {
            Weight::Fine => "     ",
            Weight::Odd => "odd  ",
            Weight::Wrong(_) => "WRONG",
        };
        write!(f, "  {mark} {}\n        < {}", self.text, self.evidence)
    }
}
