//! What each dQH says of its endpoint.

use super::dump::{Dump, HEAD_WORDS, Head};
use super::{Statement, words};

/// Word numbers in `qheads`.
const CAPABILITIES: usize = 0;
const CURRENT: usize = 1;
const NEXT: usize = 2;
const TOKEN: usize = 3;
const SETUP: usize = 10;

pub(super) fn judge(dump: &Dump) -> Vec<Statement> {
    let mut statements = Vec::new();
    let (blank, used): (Vec<&Head>, Vec<&Head>) = dump.heads.iter().partition(|head| head.is_blank());
    for head in used {
        statements.push(state(head));
        statements.extend(wrong(dump, head));
    }
    if let Some(first) = dump.heads.first().filter(|first| first.slot.number() == 0 && !first.is_enabled()) {
        let text = "endpoint 0 was never enabled: no gadget is bound, or capabilities were not read";
        statements.push(Statement::odd(text, first.evidence(&[CAPABILITIES])));
    }
    if !blank.is_empty() {
        let text = format!("{} further dQHs are blank: their endpoints were never enabled", blank.len());
        let first = blank.first().map(|head| head.line.clone()).unwrap_or_default();
        statements.push(Statement::fine(text, first));
    }
    statements
}

/// One line on an endpoint.
fn state(head: &Head) -> Statement {
    let mut parts = vec![match head.capabilities() {
        Some(_) if !head.is_enabled() => "never enabled".to_owned(),
        Some(capabilities) => words::capabilities(capabilities),
        None => "capabilities missing".to_owned(),
    }];
    let unused = head.current() == Some(0) && head.words[TOKEN] == Some(0);
    if unused {
        parts.push("overlay unused".to_owned());
    } else if let Some(token) = head.token() {
        let bytes = token.total_bytes();
        let left = if token.active() { format!("{bytes} bytes to go") } else { format!("{bytes} bytes left") };
        let ioc = if token.interrupt_on_complete() { ", IOC" } else { "" };
        parts.push(format!("overlay {}, {left}{ioc}", words::state(token)));
    }
    if let Some(current) = head.current().filter(|current| *current != 0) {
        parts.push(format!("current dTD {current:#010x}"));
    }
    if let Some(next) = head.next() {
        parts.push(next.target().map_or_else(|| "next T".to_owned(), |next| format!("next {next:#010x}")));
    }
    let mut shown = vec![CAPABILITIES, CURRENT, NEXT, TOKEN];
    if let Some(setup) = head.setup().filter(|setup| *setup != [0; 8]) {
        parts.push(format!("last SETUP {}", words::setup(setup)));
        shown.extend([SETUP, SETUP + 1]);
    }
    let missing = (0..HEAD_WORDS).filter(|number| head.words[*number].is_none()).count();
    if missing > 0 {
        parts.push(format!("{missing} of {HEAD_WORDS} words not read"));
    }
    Statement::fine(format!("{}: {}", head.name(), parts.join("; ")), head.evidence(&shown))
}

/// What no dQH of a driver that works says.
fn wrong(dump: &Dump, head: &Head) -> Vec<Statement> {
    let name = head.name();
    let mut statements = Vec::new();
    let zero = head.slot.endpoint() == 0;
    if let Some(capabilities) = head.capabilities().filter(|_| head.is_enabled()) {
        let size = capabilities.max_packet();
        let allowed = if zero { [8, 16, 32, 64].contains(&size) } else { (1..=1024).contains(&size) };
        if !allowed {
            let text = format!(
                "{name} has a max packet of {size} bytes, which USB 2.0 does not know (§5.5.3, §5.6.3, §5.8.3)"
            );
            statements.push(Statement::wrong(text, head.evidence(&[CAPABILITIES])));
        }
        if zero && !head.slot.is_in() && !capabilities.interrupt_on_setup() {
            let text = "ep0 RX has no IOS: a SETUP raises no interrupt, and the driver never sees it";
            statements.push(Statement::wrong(text, head.evidence(&[CAPABILITIES])));
        }
    }
    if let Some(setup) = head.setup().filter(|setup| *setup != [0; 8] && (head.slot.is_in() || !zero)) {
        let text = format!(
            "{name}'s dQH holds a SETUP packet, {}: ci_hdrc has one control endpoint, and only its RX dQH gets SETUPs, so the \
             controller took this dQH for another",
            words::setup(setup)
        );
        statements.push(Statement::wrong(text, head.evidence(&[SETUP, SETUP + 1])));
    } else if head.capabilities().is_some() && !head.is_enabled() {
        let text = format!("{name} was never enabled, and something else than the driver wrote into its dQH");
        statements.push(Statement::wrong(text, head.evidence(&[CAPABILITIES, CURRENT, NEXT, TOKEN])));
    }
    if let Some(token) = head.token() {
        if let Some(errors) = words::errors(token) {
            let text = format!("{name}'s overlay has {errors}: the last transfer failed in the controller");
            statements.push(Statement::wrong(text, head.evidence(&[TOKEN])));
        }
        if token.active() {
            statements.extend(active(dump, head));
        }
    }
    statements
}

/// An overlay that the controller has still to work off.
fn active(dump: &Dump, head: &Head) -> Vec<Statement> {
    let name = head.name();
    let mut statements = Vec::new();
    if let Some(why) = head.token().and_then(|token| words::pages(token, head.pages())) {
        statements.push(Statement::odd(format!("{name}'s overlay: {why}"), head.evidence(&[TOKEN, 4, 5])));
    }
    if let Some(current) = head.current().filter(|current| dump.is_queued(*current) == Some(false)) {
        let text = format!(
            "{name}'s overlay is ACTIVE by dTD {current:#010x}, which the driver has not queued any more: what a flush leaves \
             behind, a request that ended between both files, or a dTD that was freed too early"
        );
        statements.push(Statement::odd(text, head.evidence(&[CURRENT, TOKEN])));
    }
    if let Some(next) = head.next().and_then(|next| next.target()).filter(|next| dump.is_queued(*next) == Some(false)) {
        let text = format!(
            "{name}'s overlay goes on to {next:#010x}, which is no queued dTD: T is missing, or that one is gone"
        );
        statements.push(Statement::odd(text, head.evidence(&[NEXT, TOKEN])));
    }
    statements
}
