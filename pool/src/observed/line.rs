//! One line of a log.

use std::time::Duration;

use bus::{CpuAddr, DmaAddr};

use super::event::{Event, Known, What};
use crate::pool::Block;

/// Larger blocks are not believed: Linux's largest pools have some KiB.
const LARGEST_BLOCK: u64 = 1 << 20;

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Event(Event),
    /// So many events are not there, between the lines before and those behind it.
    Lost(u64),
    /// So many events are not there, before the first line.
    Overwritten(u64),
    /// A word that somebody wrote to `trace_marker`.
    Mark {
        time: Option<Duration>,
        text: String,
    },
    /// Nothing that is for us: blank, a comment, another event.
    Other,
    /// It cannot be read.
    Garbled {
        why: String,
        /// Whether it names one of our events, which is lost with it.
        event: bool,
    },
}

impl Line {
    /// Reads the line with this number, from 1.
    pub(super) fn read(number: usize, text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return overwritten(text).map_or(Self::Other, Self::Overwritten);
        }
        if let Some(count) = lost(text) {
            return Self::Lost(count);
        }
        let tokens = tokens(text);
        match find_event(&tokens) {
            Some((time, at)) => match read_event(number, time, tokens[at], &tokens[at + 1..]) {
                Ok(event) => Self::Event(event),
                Err(why) => Self::Garbled { why, event: true },
            },
            None => other(text, &tokens),
        }
    }
}

/// `# entries-in-buffer/entries-written: 76/80   #P:4`, of which the second may be more.
fn overwritten(comment: &str) -> Option<u64> {
    let (_, counts) = comment.split_once("entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    let (kept, written): (u64, u64) = (kept.parse().ok()?, written.parse().ok()?);
    written.checked_sub(kept).filter(|&count| count > 0)
}

/// `CPU:1 [LOST 12 EVENTS]` (ftrace), `Lost 12 events` (bpftrace).
fn lost(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace().map(|word| word.trim_matches(['[', ']']));
    words.find(|word| ["LOST", "Lost"].contains(word))?;
    match (words.next()?, words.next()) {
        // ftrace need not know how many.
        ("EVENTS", None) => Some(1),
        (count, Some("EVENTS" | "events")) => count.parse().ok(),
        _ => None,
    }
}

/// The words of a line; what stands in quotes is part of one.
fn tokens(text: &str) -> Vec<&str> {
    let mut quoted = false;
    let between = |letter: char| {
        quoted ^= letter == '"';
        !quoted && letter.is_whitespace()
    };
    text.split(between).filter(|token| !token.is_empty()).collect()
}

/// Where the name of one of our events stands: behind a time, or first.
fn find_event(tokens: &[&str]) -> Option<(Option<Duration>, usize)> {
    if tokens.first().is_some_and(|first| kind(first).is_some()) {
        return Some((None, 0));
    }
    let at = (1..tokens.len()).find(|&at| kind(tokens[at]).is_some() && is_time(tokens[at - 1]))?;
    Some((time(tokens[at - 1]), at))
}

/// An event by its name, as in `alloc`, `alloc:`, `dma_pool_alloc:`.
fn kind(token: &str) -> Option<&'static str> {
    let name = token.strip_suffix(':').unwrap_or(token);
    let name = name.strip_prefix("dma_pool_").unwrap_or(name);
    ["create", "alloc", "free", "destroy"].into_iter().find(|kind| *kind == name)
}

fn is_time(token: &str) -> bool {
    token == "-" || time(token).is_some()
}

/// Seconds with or without decimals, and ftrace's colon behind them.
fn time(token: &str) -> Option<Duration> {
    let token = token.strip_suffix(':').unwrap_or(token);
    let (seconds, decimals) = token.split_once('.').unwrap_or((token, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !digits(seconds) || !digits(decimals) {
        return None;
    }
    let nanos = format!("{decimals:0<9}");
    Some(Duration::new(seconds.parse().ok()?, nanos.get(..9)?.parse().ok()?))
}

/// A line without an event of ours: one of ftrace's others, or nothing that we know.
fn other(text: &str, tokens: &[&str]) -> Line {
    let stands_behind_time =
        |pair: &[&str]| pair[0].ends_with(':') && time(pair[0]).is_some() && pair[1].ends_with(':');
    let Some(at) = tokens.windows(2).position(stands_behind_time) else {
        // What bpftrace says when it begins.
        let said = text.starts_with("Attach");
        return if said { Line::Other } else { Line::Garbled { why: "it is no event".to_owned(), event: false } };
    };
    if tokens[at + 1] == "tracing_mark_write:" {
        return Line::Mark { time: time(tokens[at]), text: tokens[at + 2..].join(" ") };
    }
    Line::Other
}

fn read_event(line: usize, time: Option<Duration>, name: &str, rest: &[&str]) -> Result<Event, String> {
    let Fields { values, caller } = Fields::read(rest);
    let text = |name: &str| values.iter().find(|(key, _)| *key == name).map(|&(_, value)| value);
    let number = |name: &str| match text(name) {
        None => Ok(None),
        Some(value) => parse(value).map(Some).ok_or_else(|| format!("{name}={value} is no number")),
    };
    let need = |name: &str| number(name)?.ok_or_else(|| format!("{name}= is missing"));
    let block = || Ok::<_, String>(Block { cpu: CpuAddr(need("cpu")?), dma: DmaAddr(need("dma")?) });
    let what = match kind(name) {
        Some("create") => What::Create,
        Some("alloc") if number("cpu")? == Some(0) => What::Alloc(None),
        Some("alloc") => What::Alloc(Some(block()?)),
        Some("free") => What::Free(block()?),
        _ => What::Destroy,
    };
    // What the kernel could not read it prints as `(fault)`.
    let name = text("name").map(|name| name.trim_matches('"')).filter(|name| !name.is_empty() && *name != "(fault)");
    let pool = number("pool")?;
    if pool.is_none() && name.is_none() {
        return Err("it names no pool: pool= and name= are missing".to_owned());
    }
    let known = Known {
        size: number("size")?,
        align: number("align")?,
        boundary: number("boundary")?,
        device: number("device")?,
    };
    if let Some(size) = known.size.filter(|&size| size > LARGEST_BLOCK) {
        return Err(format!("size={size} is more than a block can have ({LARGEST_BLOCK} bytes)"));
    }
    // What dma_pool_create refuses is no pool's.
    if known.size == Some(0) {
        return Err("size=0 is no block: expected 1 byte or more".to_owned());
    }
    if let Some(align) = known.align.filter(|&align| align != 0 && !align.is_power_of_two()) {
        return Err(format!("align={align} is no power of two"));
    }
    Ok(Event { line, time, what, pool, name: name.map(str::to_owned), caller, known })
}

/// What stands behind the name of an event.
struct Fields<'a> {
    values: Vec<(&'a str, &'a str)>,
    caller: Option<String>,
}

impl<'a> Fields<'a> {
    fn read(tokens: &[&'a str]) -> Self {
        let (from_place, mut rest) = place(tokens);
        let (mut values, mut caller) = (Vec::new(), None);
        while let [token, after @ ..] = rest {
            rest = after;
            let Some((key, value)) = token.split_once('=') else { continue };
            if key != "caller" {
                values.push((key, value));
                continue;
            }
            // The kernel prints a symbol's module behind it.
            let module = after.first().filter(|next| next.starts_with('[') && next.ends_with(']'));
            caller = Some(module.map_or_else(|| value.to_owned(), |module| format!("{value} {module}")));
        }
        Self { values, caller: caller.or(from_place) }
    }
}

/// Of `(caller <- function)` the caller, and the tokens behind the parentheses.
fn place<'t, 'a>(tokens: &'t [&'a str]) -> (Option<String>, &'t [&'a str]) {
    if !tokens.first().is_some_and(|first| first.starts_with('(')) {
        return (None, tokens);
    }
    let Some(end) = tokens.iter().position(|token| token.ends_with(')')) else { return (None, tokens) };
    let inside = tokens[..=end].join(" ");
    let caller = inside.trim_matches(['(', ')']).split_once(" <- ").map(|(caller, _)| caller.to_owned());
    (caller, &tokens[end + 1..])
}

fn parse(text: &str) -> Option<u64> {
    // `from_str` would take a sign.
    match text.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(hex, 16).ok())?,
        None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        match Line::read(1, text) {
            Line::Event(event) => event,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_line_of_ftrace_and_one_of_the_format_say_the_same() {
        let ftrace = event(
            "             cat-301     [003] d....     4.473125: dma_pool_alloc: (ci_hdrc_gadget_init+0x1f8/0x4c0 [ci_hdrc] <- \
             dma_pool_alloc) pool=0xffff000003742a80 cpu=0xffff000005758000 dma=0x45758000 name=\"prp list page\" size=64",
        );
        let plain = event(
            "4.473125 alloc pool=0xffff000003742a80 dma=0x45758000 cpu=0xffff000005758000 size=64 news=\"of later\" \
             caller=ci_hdrc_gadget_init+0x1f8/0x4c0 [ci_hdrc] name=\"prp list page\"",
        );
        assert_eq!(ftrace, plain);
        let block = Block { cpu: CpuAddr(0xffff_0000_0575_8000), dma: DmaAddr(0x4575_8000) };
        assert_eq!((plain.what, plain.pool), (What::Alloc(Some(block)), Some(0xffff_0000_0374_2a80)));
        assert_eq!(plain.time, Some(Duration::from_micros(4_473_125)));
        assert_eq!(plain.caller.as_deref(), Some("ci_hdrc_gadget_init+0x1f8/0x4c0 [ci_hdrc]"));
        assert_eq!((plain.name.as_deref(), plain.known.size), (Some("prp list page"), Some(64)));
    }

    #[test]
    fn a_program_may_be_called_as_an_event() {
        let read = event("  free alloc-12   [000] d.h1.  9.1: free: (dma_pool_free+0x0/0xe0) pool=1 cpu=2 dma=3");
        assert_eq!(read.what, What::Free(Block { cpu: CpuAddr(2), dma: DmaAddr(3) }));
    }

    #[test]
    fn a_pool_that_had_nothing_is_no_block() {
        assert_eq!(event("alloc pool=1 cpu=0x0 dma=(fault)").what, What::Alloc(None));
        assert_eq!(event("- alloc name=p cpu=0").time, None);
    }

    #[test]
    fn what_is_lost_counts() {
        assert_eq!(Line::read(1, "CPU:2 [LOST 12 EVENTS]"), Line::Lost(12));
        assert_eq!(Line::read(1, "CPU:2 [LOST EVENTS]"), Line::Lost(1));
        assert_eq!(Line::read(1, "Lost 7 events"), Line::Lost(7));
        assert_eq!(Line::read(1, "# entries-in-buffer/entries-written: 70/80   #P:4"), Line::Overwritten(10));
        assert_eq!(Line::read(1, "# entries-in-buffer/entries-written: 80/80   #P:4"), Line::Other);
    }

    #[test]
    fn other_events_are_passed_over_and_marks_are_kept() {
        assert_eq!(Line::read(1, "  cat-279 [003] d.... 9.35: sched_switch: prev_comm=x"), Line::Other);
        let mark = Line::Mark { time: Some(Duration::from_millis(9350)), text: "sync begin".to_owned() };
        assert_eq!(Line::read(1, "  sh-279 [003] ..... 9.35: tracing_mark_write: sync begin"), mark);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, expected, lost) in [
            ("usb 5-1.3: new device", "it is no event", false),
            ("1.0 alloc pool=1 dma=2", "cpu= is missing", true),
            ("1.0 free pool=1 cpu=3", "dma= is missing", true),
            ("1.0 alloc cpu=1 dma=2", "it names no pool: pool= and name= are missing", true),
            ("1.0 alloc pool=+1 cpu=1 dma=2", "pool=+1 is no number", true),
            ("1.0 alloc pool=1 cpu=1 dma=0x1_0", "dma=0x1_0 is no number", true),
            ("1.0 alloc pool=1 cpu=1 dma=0x10000000000000000", "dma=0x10000000000000000 is no number", true),
            ("create pool=1 size=1048577", "size=1048577 is more than a block can have (1048576 bytes)", true),
        ] {
            assert_eq!(Line::read(1, line), Line::Garbled { why: expected.to_owned(), event: lost }, "{line}");
        }
    }
}
