//! What came of a layout that does not hold: from what was seen, in one line.

use pool::{Finding, Found, LayoutFinding, Metadata};

use crate::run::Run;
use crate::sides;
use crate::witness::Witnessed;

/// What the device did at the first place that is not what it takes it for, and what the host saw of it.
pub(crate) fn consequence(run: &Run, layout: &LayoutFinding) -> String {
    let error = run.failure.as_ref().map_or_else(|| "no failure seen by the host".to_owned(), ToString::to_string);
    let what = match layout.found {
        Found::Claimed(_) | Found::Unclaimed => in_another_object(run, layout),
        _ => in_free_memory(run, layout).or_else(|| taken_for_an_object(run, layout)),
    };
    match what {
        Some(what) => format!("{what}: {error}"),
        None => format!("the device did not use slot {} meanwhile: {error}", layout.slot),
    }
}

fn inside<'a>(run: &'a Run, layout: &LayoutFinding) -> impl Iterator<Item = &'a Witnessed> {
    let (begin, size) = (layout.expected_at.0, layout.contract.size);
    run.witnessed.iter().filter(move |witnessed| witnessed.access.addr.0.wrapping_sub(begin) < size)
}

fn in_another_object(run: &Run, layout: &LayoutFinding) -> Option<String> {
    let setup = inside(run, layout).find(|witnessed| witnessed.access.belief.field == "setup");
    match (setup, layout.was_zero) {
        (Some(setup), Some(true)) => Some(format!(
            "the SETUP went into a zeroed dQH of another endpoint, {} (no IOS, no interrupt)",
            whose(setup)
        )),
        (Some(setup), _) => Some(format!("the SETUP went into {}", whose(setup))),
        (None, _) => taken_for_an_object(run, layout),
    }
}

fn taken_for_an_object(run: &Run, layout: &LayoutFinding) -> Option<String> {
    let first = inside(run, layout).next()?;
    Some(format!("the device took {} for its {}", whose(first), first.access.belief.object()))
}

fn whose(witnessed: &Witnessed) -> String {
    witnessed.owner.map_or_else(|| "memory of nobody".to_owned(), |owner| format!("the driver's {owner}"))
}

/// The capabilities that the device read there decide; then what it wrote there.
fn in_free_memory(run: &Run, layout: &LayoutFinding) -> Option<String> {
    let capabilities = inside(run, layout).find(|witnessed| witnessed.access.belief.field == "capabilities")?;
    let word = capabilities.word?;
    let source = link_at(run.metadata, capabilities.access.addr.0 - layout.expected_at.0);
    let ios = if sides::interrupt_on_setup(word) {
        "set, an interrupt for a SETUP that its own dQH does not hold"
    } else {
        "clear, no interrupt"
    };
    let mut text = format!("the device read its capabilities {word:08x} from {source}: IOS (bit 15) {ios}");
    let writes = run.findings.iter().filter_map(|finding| match finding {
        Finding::WriteToFreedBlock { access, damaged, offset, .. } => Some((access, damaged, *offset)),
        _ => None,
    });
    // The write that did the most damage, the first of equals.
    if let Some((access, damaged, offset)) = writes.min_by_key(|(_, damaged, _)| std::cmp::Reverse(damaged.len())) {
        let hit = match (damaged.as_slice(), run.metadata) {
            ([], Metadata::OutOfBand) => String::new(),
            ([], Metadata::InBlock(_)) => ", no link of the pool".to_owned(),
            (damaged, _) => format!(", the pool's {}", damaged.join(" and ")),
        };
        text += &format!("; its {} overwrote bytes {offset} to {}{hit}", access.belief.field, offset + access.len - 1);
    }
    Some(text)
}

/// What a pool keeps at that offset of a free block.
fn link_at(metadata: Metadata, offset: u64) -> String {
    let fields = match metadata {
        Metadata::OutOfBand => &[][..],
        Metadata::InBlock(fields) => fields,
    };
    let field = fields.iter().find(|field| (field.start..field.start + field.len).contains(&offset));
    field.map_or_else(|| "free memory".to_owned(), |field| format!("the free block's {}", field.name))
}
