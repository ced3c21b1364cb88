//! The dTDs that are queued, endpoint by endpoint.

use std::collections::BTreeMap;

use crate::slot::Slot;

use super::dump::{Dump, Head, Name, QueuedDtd};
use super::{Statement, Weight, words};

pub(super) fn judge(dump: &Dump) -> Vec<Statement> {
    let mut statements = Vec::new();
    if dump.has_requests && dump.requests.is_empty() {
        statements.push(Statement::fine("no dTD is queued", "requests is empty"));
    }
    for number in 0..32 {
        let slot = Slot::from_number(number);
        let chain: Vec<&QueuedDtd> = dump.requests.iter().filter(|dtd| dtd.slot == slot).collect();
        if let [first, ..] = chain[..] {
            statements.push(summary(slot, &chain));
            chain.iter().for_each(|dtd| statements.extend(one(dtd)));
            statements.extend(not_taken_back(slot, &chain));
            statements.extend(links(dump, &chain));
            statements.extend(prime(dump, first, &chain));
        }
    }
    statements.extend(shared_addresses(dump));
    statements
}

fn summary(slot: Slot, chain: &[&QueuedDtd]) -> Statement {
    let active = chain.iter().filter(|dtd| dtd.is_active()).count();
    let bytes: u64 = chain.iter().filter_map(|dtd| dtd.token()).map(|token| u64::from(token.total_bytes())).sum();
    let text = format!("{}: {} queued, {active} ACTIVE, {bytes} bytes to go", Name(slot), count(chain.len()));
    let shown: Vec<String> = chain.iter().take(3).map(|dtd| dtd.evidence()).collect();
    let more = if chain.len() > shown.len() { " …" } else { "" };
    Statement::fine(text, shown.join("; ") + more)
}

fn count(dtds: usize) -> String {
    if dtds == 1 { "1 dTD".to_owned() } else { format!("{dtds} dTDs") }
}

/// What a dTD says by itself.
fn one(dtd: &QueuedDtd) -> Vec<Statement> {
    let what = format!("{}'s dTD {:#010x}", Name(dtd.slot), dtd.address);
    let mut statements = Vec::new();
    if !dtd.address.is_multiple_of(32) {
        let text = format!("{what} is not aligned to 32 bytes: the controller uses {:#010x}", dtd.address & !0x1f);
        statements.push(Statement::new(Weight::Wrong(super::Blame::Pool), text, dtd.line.clone()));
    }
    let Some(token) = dtd.token() else { return statements };
    if let Some(errors) = words::errors(token) {
        let text = format!("{what} has {errors}: the transfer failed in the controller");
        statements.push(Statement::wrong(text, dtd.evidence()));
    }
    if let Some(why) = words::pages(token, dtd.pages()).filter(|_| token.active()) {
        statements.push(Statement::odd(format!("{what}: {why}"), dtd.evidence()));
    }
    statements
}

/// dTDs that are done.
fn not_taken_back(slot: Slot, chain: &[&QueuedDtd]) -> Option<Statement> {
    let is_done =
        |dtd: &&&QueuedDtd| dtd.token().is_some_and(|token| !token.active() && words::errors(token).is_none());
    let done: Vec<_> = chain.iter().filter(is_done).collect();
    let first = done.first()?;
    let text = format!(
        "{}: {} done and not yet taken back, which the driver does at the next interrupt",
        Name(slot),
        count(done.len())
    );
    Some(Statement::odd(text, first.evidence()))
}

/// Whether each dTD leads to the next and the last ends the list.
fn links(dump: &Dump, chain: &[&QueuedDtd]) -> Vec<Statement> {
    let mut statements = Vec::new();
    for (position, dtd) in chain.iter().enumerate() {
        let Some(next) = dtd.next() else { continue };
        let what = format!("{}'s dTD {:#010x}", Name(dtd.slot), dtd.address);
        let text = match (next.target(), chain.get(position + 1)) {
            (None, None) => continue,
            (Some(target), Some(following)) if target == following.address => continue,
            (None, Some(following)) => format!(
                "{what} has T and ends the controller's list; the driver has {:#010x} behind it, which will never move",
                following.address
            ),
            (Some(target), Some(following)) => {
                format!("{what} leads to {target:#010x}; the driver has {:#010x} behind it", following.address)
            }
            (Some(target), None) => format!(
                "{what} is the last and has no T: the controller goes on to {target:#010x}, {}",
                dump.requests.iter().find(|other| other.address == target).map_or_else(
                    || "which is nothing that is queued".to_owned(),
                    |other| format!("which is {}'s", Name(other.slot))
                )
            ),
        };
        // A dTD between may be one whose line was hit.
        statements.push(if dump.damaged.count == 0 {
            Statement::wrong(text, dtd.evidence())
        } else {
            Statement::odd(format!("{text}; or lines are missing between both"), dtd.evidence())
        });
    }
    statements
}

/// Whether the controller knows of the list.
fn prime(dump: &Dump, first: &QueuedDtd, chain: &[&QueuedDtd]) -> Vec<Statement> {
    let mut statements = Vec::new();
    let name = Name(first.slot);
    let head = dump.head(first.slot);
    if let Some(head) = head.filter(|head| head.words[0] == Some(0)) {
        let text = format!("{name} has dTDs, and its endpoint was never enabled");
        statements.push(Statement::wrong(text, format!("{}; {}", head.evidence(&[0]), first.line)));
    }
    let Some(waiting) = chain.iter().find(|dtd| dtd.is_active()) else { return statements };
    if let Some(stat) = dump.register("ENDPTSTAT").filter(|stat| stat.value & first.slot.bit() == 0) {
        let text = format!(
            "{name}'s dTD {:#010x} is ACTIVE and its bit of ENDPTSTAT is 0: the prime was lost",
            waiting.address
        );
        statements.push(Statement::wrong(text, format!("{}; {}", stat.line, waiting.evidence())));
    } else if let Some(head) = head {
        statements.extend(overlay(head, waiting, chain));
    }
    statements
}

/// Holds an endpoint's overlay against the first dTD that waits.
fn overlay(head: &Head, waiting: &QueuedDtd, chain: &[&QueuedDtd]) -> Option<Statement> {
    let (token, next) = (head.token()?, head.next()?);
    let (name, address) = (head.name(), waiting.address);
    let evidence = format!("{}; {}", head.evidence(&[1, 2, 3]), waiting.evidence());
    if token.halted() {
        return None;
    }
    if !token.active() && next.target() == Some(address) {
        // A prime loads the dTD that next names into the overlay, and with it that dTD's own next pointer.
        let text = format!(
            "{name}'s dQH names dTD {address:#010x} as the next, and its overlay is not ACTIVE: the prime was never carried out. It \
             was lost, as 2.2 and 2.4 do, or a SETUP came first"
        );
        return Some(Statement::wrong(text, evidence));
    }
    let current = head.current()?;
    let known = chain.iter().any(|dtd| dtd.address == current);
    if !token.active() && !known && next.target().is_none() {
        let text = format!(
            "{name}'s overlay is not ACTIVE and does not know dTD {address:#010x}, which waits: it was queued between both files, or \
             never primed"
        );
        return Some(Statement::odd(text, evidence));
    }
    if token.active() && !known {
        let text = format!(
            "{name}'s overlay is ACTIVE by dTD {current:#010x}, and dTD {address:#010x} waits: not the same list"
        );
        return Some(Statement::odd(text, evidence));
    }
    None
}

/// Blocks of the pool that are in use twice.
fn shared_addresses(dump: &Dump) -> Vec<Statement> {
    let twice = |text: String, evidence: String| Statement::new(Weight::Wrong(super::Blame::Pool), text, evidence);
    let mut statements = Vec::new();
    let mut first = BTreeMap::new();
    for dtd in &dump.requests {
        let other = *first.entry(dtd.address).or_insert(dtd);
        if !std::ptr::eq(other, dtd) {
            let text = format!(
                "dTD {:#010x} is {}'s and {}'s: one block was handed out twice",
                dtd.address,
                Name(other.slot),
                Name(dtd.slot)
            );
            statements.push(twice(text, format!("{}; {}", other.line, dtd.line)));
        }
        if let Some(head) = dump.heads.iter().find(|head| dtd.address.abs_diff(head.address) < 32) {
            let text = format!("{}'s dTD {:#010x} lies in {}'s dQH", Name(dtd.slot), dtd.address, head.name());
            statements.push(twice(text, format!("{}; {}", head.line, dtd.line)));
        }
    }
    statements
}
