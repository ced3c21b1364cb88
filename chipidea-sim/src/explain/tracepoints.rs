//! `ci_prepare_td` and `ci_complete_td`, dTD by dTD.

use std::collections::BTreeMap;

use super::dump::{Dump, TdEvent, TdEventKind};
use super::{Statement, words};

/// dTDs that a statement names.
const NAMED: usize = 8;

pub(super) fn judge(dump: &Dump) -> Vec<Statement> {
    let (Some(first), Some(last)) = (dump.events.first(), dump.events.last()) else { return Vec::new() };
    let mut story = Story::default();
    let mut statements = Vec::new();
    for event in &dump.events {
        statements.extend(match event.kind {
            TdEventKind::Prepare => story.prepared(event),
            TdEventKind::Complete => story.completed(event),
        });
    }
    let text = format!("{} dTDs prepared, {} done", story.prepared, story.done);
    statements.insert(0, Statement::fine(text, format!("{} to {}", first.begin, last.begin)));
    statements.extend(story.open(dump));
    statements
}

/// What is known of the dTDs so far.
#[derive(Default)]
struct Story<'a> {
    /// Prepared and not done, by endpoint and address, with the looks at them.
    open: BTreeMap<(&'a str, u32), (&'a TdEvent, usize)>,
    prepared: usize,
    done: usize,
}

impl<'a> Story<'a> {
    fn prepared(&mut self, event: &'a TdEvent) -> Option<Statement> {
        self.prepared += 1;
        let holder = self.open.keys().find(|(_, address)| *address == event.address).copied();
        let earlier = holder.and_then(|holder| self.open.remove(&holder)).map(|(earlier, _)| earlier);
        self.open.insert((&event.endpoint, event.address), (event, 0));
        let earlier = earlier.filter(|earlier| earlier.endpoint != event.endpoint)?;
        let text = format!(
            "dTD {:#010x} of {} was prepared again for {} and never done: given back by a reset, a flush or a dequeue, or handed out \
             twice",
            event.address, earlier.endpoint, event.endpoint
        );
        Some(Statement::odd(text, format!("{}; {}", earlier.line, event.line)))
    }

    fn completed(&mut self, event: &'a TdEvent) -> Option<Statement> {
        let key = (event.endpoint.as_str(), event.address);
        let (token, what) = (event.token, format!("{}'s dTD {:#010x}", event.endpoint, event.address));
        if token.active() {
            if let Some((_, looks)) = self.open.get_mut(&key) {
                *looks += 1;
            }
            return None;
        }
        self.done += 1;
        self.open.remove(&key);
        if let Some(errors) = words::errors(token) {
            let text = format!("{what} came back with {errors}: the transfer failed in the controller");
            return Some(Statement::wrong(text, event.line.clone()));
        }
        let left = token.total_bytes();
        if left > 0 && event.endpoint.ends_with("in") {
            let text =
                format!("{what} came back with {left} bytes that were never sent: ci_hdrc fails the request (-EPROTO)");
            return Some(Statement::wrong(text, event.line.clone()));
        }
        None
    }

    /// What was prepared and did not come back.
    fn open(&self, dump: &Dump) -> Option<Statement> {
        let (_, (first, _)) = self.open.iter().next()?;
        let named: Vec<String> = self
            .open
            .iter()
            .take(NAMED)
            .map(|((endpoint, address), (event, looks))| {
                let bytes = event.token.total_bytes();
                let looked = if *looks == 0 { String::new() } else { format!(", looked at {looks} times") };
                let queued = match dump.is_queued(*address) {
                    Some(true) => ", queued",
                    Some(false) => ", not queued any more",
                    None => "",
                };
                format!("{endpoint} {address:#010x} ({bytes} bytes{looked}{queued})")
            })
            .collect();
        let more = if self.open.len() > NAMED { " and others" } else { "" };
        let text = format!(
            "{} prepared and not seen done when the trace ends: {}{more}. They wait for the host, or were given back by a reset, a flush \
             or a dequeue",
            self.open.len(),
            named.join(", ")
        );
        Some(Statement::fine(text, first.line.clone()))
    }
}
