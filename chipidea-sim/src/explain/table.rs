//! The dQH table: where the driver has its dQHs, and where the controller will look for them.

use crate::layout::ENDPTLISTADDR;
use crate::slot::Slot;

use super::dump::{Dump, Head};
use super::{Blame, Statement, Weight};

/// What ci_hdrc asks its pool for (`udc_start`): alignment and boundary.
const POOL_ALIGN: u32 = 64;
const POOL_BOUNDARY: u32 = 4096;

/// The story of the order that the pool had for some weeks.
const OF_2023: &str = "this is the order of January 2023: `dmapool: link blocks across pages` in linux-next handed a fresh page \
                       out from its end, reported on msm8916 and msm8939; `dmapool: push new blocks in ascending order` mended \
                       it before both were merged for 6.4 (da9619a30e73)";

/// How a step from one dQH to the next is.
const STRIDE: i64 = ENDPTLISTADDR.stride as i64;

pub(super) fn judge(dump: &Dump) -> Vec<Statement> {
    let mut statements = pool_contract(&dump.heads);
    match dump.head(Slot::from_number(0)) {
        Some(first) => statements.extend(layout(dump, first)),
        None if !dump.heads.is_empty() => statements.extend(neighbours(&dump.heads)),
        None => {}
    }
    statements
}

/// What the pool promised of each block by itself.
fn pool_contract(heads: &[Head]) -> Vec<Statement> {
    let broken = |text: String, evidence: String| Statement::new(Weight::Wrong(Blame::Pool), text, evidence);
    let mut statements = Vec::new();
    for head in heads {
        let last = head.address.wrapping_add(ENDPTLISTADDR.size as u32 - 1);
        if head.address % POOL_ALIGN != 0 {
            let text = format!(
                "{}'s dQH is not aligned to {POOL_ALIGN} bytes, which the driver asked its pool for: {:#010x}",
                head.name(),
                head.address
            );
            statements.push(broken(text, head.line.clone()));
        } else if head.address / POOL_BOUNDARY != last / POOL_BOUNDARY {
            let text =
                format!("{}'s dQH crosses a boundary of {POOL_BOUNDARY} bytes: {:#010x}", head.name(), head.address);
            statements.push(broken(text, head.line.clone()));
        }
    }
    let mut sorted: Vec<&Head> = heads.iter().collect();
    sorted.sort_by_key(|head| head.address);
    for pair in sorted.windows(2) {
        if u64::from(pair[1].address - pair[0].address) < ENDPTLISTADDR.size {
            let text = format!(
                "{} and {} have overlapping dQHs: one block was handed out twice",
                pair[0].name(),
                pair[1].name()
            );
            statements.push(broken(text, lines(&[pair[0], pair[1]])));
        }
    }
    statements
}

/// The contract of ENDPTLISTADDR.
fn layout(dump: &Dump, first: &Head) -> Vec<Statement> {
    let mask = !(ENDPTLISTADDR.align as u32 - 1);
    let base = first.address & mask;
    let client = |text: String, evidence: String| Statement::new(Weight::Wrong(Blame::Client), text, evidence);
    let mut statements = Vec::new();
    if base != first.address {
        let there = dump.heads.iter().find(|head| head.address == base);
        let what = match there {
            Some(head) => format!("which is {}", head.name()),
            None => "which is no dQH of the driver's: a free block of its pool, or foreign memory".to_owned(),
        };
        let text = format!(
            "endpoint 0 RX is not {} KiB aligned: the controller will use {base:#010x} as slot 0, {what}; ENDPTLISTADDR keeps \
             bits 31:{}",
            ENDPTLISTADDR.align >> 10,
            ENDPTLISTADDR.align.trailing_zeros()
        );
        let evidence = match there {
            Some(there) => lines(&[first, there]),
            None => first.line.clone(),
        };
        statements.push(client(text, evidence));
        statements.push(setup_lands(there, first));
    }
    let descends = descends(&dump.heads);
    statements.extend(order(dump, first, descends));
    if statements.is_empty() {
        let text = format!(
            "{} dQHs, ascending and adjacent from {base:#010x}, {} KiB aligned: the controller finds each where the driver has it",
            dump.heads.len(),
            ENDPTLISTADDR.align >> 10
        );
        return vec![Statement::fine(text, ends(&dump.heads))];
    }
    statements.extend(map(dump, base));
    if descends {
        let text = format!(
            "{OF_2023}. The pool broke no promise that is seen here: ci_hdrc's init_eps assumed {}",
            ENDPTLISTADDR.statement
        );
        statements.push(client(text, ends(&dump.heads)));
    }
    statements
}

/// What becomes of a SETUP.
fn setup_lands(there: Option<&Head>, first: &Head) -> Statement {
    match there.map(|head| (head, head.capabilities())) {
        Some((head, Some(capabilities))) if !capabilities.interrupt_on_setup() => Statement::odd(
            "a SETUP goes to that dQH, whose IOS is 0: no interrupt, the driver never sees it; in the model the host says \
             device descriptor read/64, error -110",
            head.evidence(&[0]),
        ),
        Some((head, Some(_))) => Statement::odd(
            "a SETUP goes to that dQH, whose IOS is 1: the driver is interrupted and reads its own dQH of endpoint 0, where no \
             SETUP is",
            head.evidence(&[0]),
        ),
        Some((head, None)) => Statement::odd(
            "a SETUP goes to that dQH; whether it interrupts its IOS says, which was not read",
            head.line.clone(),
        ),
        None => Statement::odd(
            "a SETUP goes there; whether it interrupts depends on bit 15 of the word there, which no file shows: in the model \
             a clear bit gives the host error -110, a set one -32",
            first.line.clone(),
        ),
    }
}

/// The first dQH that does not follow the one before.
fn order(dump: &Dump, first: &Head, descends: bool) -> Option<Statement> {
    let wrong = |text: String, evidence: String| Statement::new(Weight::Wrong(Blame::Client), text, evidence);
    let expected = |slot: Slot| first.address.wrapping_add(slot.number() * STRIDE as u32);
    let head = dump.heads.iter().find(|head| head.address != expected(head.slot))?;
    let text = if descends {
        format!("the dQHs descend: each lies {STRIDE} bytes below the one before, where the controller counts up")
    } else {
        format!(
            "the dQHs are not adjacent: the controller looks for {} (slot {}) {} bytes above endpoint 0 RX, at {:#010x}; the \
             driver has it at {:#010x}",
            head.name(),
            head.slot.number(),
            i64::from(head.slot.number()) * STRIDE,
            expected(head.slot),
            head.address
        )
    };
    Some(wrong(text, if descends { ends(&dump.heads) } else { lines(&[first, head]) }))
}

/// What the controller will take for what, of the endpoints that are in use.
fn map(dump: &Dump, base: u32) -> Option<Statement> {
    let at = |slot: Slot| base.wrapping_add(slot.number() * STRIDE as u32);
    let right = dump.heads.iter().filter(|head| head.address == at(head.slot)).count();
    let used: Vec<String> = dump
        .heads
        .iter()
        .filter(|head| head.is_enabled() && head.address != at(head.slot))
        .map(|head| match dump.heads.iter().find(|other| other.address == at(head.slot)) {
            Some(other) => {
                format!("{} is looked for at {:#010x}, which is {}", head.name(), at(head.slot), other.name())
            }
            None => format!("{} is looked for at {:#010x}, which is no dQH", head.name(), at(head.slot)),
        })
        .collect();
    let text = format!("of {} dQHs the controller finds {right} where the driver has them", dump.heads.len());
    let text = if used.is_empty() { text } else { format!("{text}; of enabled endpoints {}", used.join(", ")) };
    Some(Statement::odd(text, ends(&dump.heads)))
}

/// Without endpoint 0 only steps can be judged.
fn neighbours(heads: &[Head]) -> Vec<Statement> {
    let step = |pair: &[Head]| {
        let slots = i64::from(pair[1].slot.number()) - i64::from(pair[0].slot.number());
        i64::from(pair[1].address) - i64::from(pair[0].address) == slots * STRIDE
    };
    let open = "endpoint 0's line is missing, so that what ENDPTLISTADDR has is not known";
    match heads.windows(2).find(|pair| !step(pair)) {
        None => {
            vec![Statement::odd(format!("the dQHs that were read are ascending and adjacent; {open}"), ends(heads))]
        }
        Some(pair) => {
            let mut text = format!(
                "{} does not follow {} as the controller counts, {STRIDE} bytes a slot; {open}",
                pair[1].name(),
                pair[0].name()
            );
            if descends(heads) {
                text = format!("the dQHs descend: {OF_2023}; {open}");
            }
            vec![Statement::new(Weight::Wrong(Blame::Client), text, lines(&[&pair[0], &pair[1]]))]
        }
    }
}

/// Whether each dQH lies below the one before, by as many strides as slots.
fn descends(heads: &[Head]) -> bool {
    let down = |pair: &[Head]| {
        let slots = i64::from(pair[1].slot.number()) - i64::from(pair[0].slot.number());
        i64::from(pair[0].address) - i64::from(pair[1].address) == slots * STRIDE
    };
    heads.len() > 1 && heads.windows(2).all(down)
}

/// The lines of some heads, each once.
fn lines(heads: &[&Head]) -> String {
    let mut lines: Vec<&str> = heads.iter().map(|head| head.line.as_str()).collect();
    lines.dedup();
    lines.join("; ")
}

/// The first and the last line.
fn ends(heads: &[Head]) -> String {
    match heads {
        [first, .., last] if first.line != last.line => format!("{} to {}", first.line, last.line),
        [first, ..] => first.line.clone(),
        [] => String::new(),
    }
}
