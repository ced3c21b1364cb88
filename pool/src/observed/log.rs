//! A whole log.

use std::time::Duration;

use super::event::Event;
use super::line::Line;

/// A machine's log: its events in the order of their times, and what it lacks.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Events and gaps, in order.
    pub(super) items: Vec<Item>,
    /// What was written to ftrace's `trace_marker`, in the order of the lines.
    pub marks: Vec<Mark>,
    /// Events that the machine lost between others.
    pub lost: u64,
    /// Events that were overwritten before the first line.
    pub overwritten: u64,
    /// Lines that cannot be read.
    pub garbled: usize,
    /// The first of these: its number from 1, its text, and what is wrong with it.
    pub first_garbled: Option<(usize, String, String)>,
    /// Lines whose time is before that of a line above; the events are sorted by their times.
    pub out_of_order: usize,
}

/// A word that was written to ftrace's `trace_marker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The machine's time.
    pub time: Option<Duration>,
    /// The word.
    pub text: String,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    Event(Event),
    /// Something happened here that nobody knows.
    Gap,
}

impl Log {
    /// Reads a log. Whatever the text is, something comes of it.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut log = Self::default();
        let mut timed: Vec<(Option<Duration>, Item)> = Vec::new();
        let mut latest = None;
        for (number, line) in (1..).zip(text.lines()) {
            let item = match Line::read(number, line) {
                Line::Event(event) => Item::Event(event),
                Line::Lost(count) => {
                    log.lost = log.lost.saturating_add(count);
                    Item::Gap
                }
                Line::Overwritten(count) => {
                    log.overwritten = log.overwritten.saturating_add(count);
                    continue;
                }
                Line::Mark { time, text } => {
                    log.marks.push(Mark { time, text });
                    continue;
                }
                Line::Other => continue,
                Line::Garbled { why, event } => {
                    log.garbled += 1;
                    log.first_garbled.get_or_insert_with(|| (number, line.trim().to_owned(), why));
                    if !event {
                        continue;
                    }
                    Item::Gap
                }
            };
            // What has no time of its own stays behind the line above.
            let time = match &item {
                Item::Event(Event { time: Some(time), .. }) => Some(*time),
                _ => timed.last().and_then(|&(time, _)| time),
            };
            log.out_of_order += usize::from(time < latest);
            latest = latest.max(time);
            timed.push((time, item));
        }
        if log.out_of_order > 0 {
            // Stable: of two with one time the first stays first.
            timed.sort_by_key(|&(time, _)| time);
        }
        log.items = timed.into_iter().map(|(_, item)| item).collect();
        log
    }

    /// Events that were read.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event),
            Item::Gap => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_were_read_one_after_the_other_are_merged() {
        let log =
            Log::read("2.0 free pool=1 cpu=1 dma=1\n3.0 alloc pool=1 cpu=1 dma=1\n1.0 alloc pool=1 cpu=1 dma=1\n");
        assert_eq!(log.events().map(|event| event.line).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(log.out_of_order, 1);
    }

    #[test]
    fn lines_that_cannot_be_read_are_counted_and_the_first_is_kept() {
        let log = Log::read("# recipe\n\nhello there\n1.0 alloc pool=1 cpu=1 dma=1\n2.0 alloc pool=1\n");
        assert_eq!((log.garbled, log.events().count()), (2, 1));
        let expected = (3, "hello there".to_owned(), "it is no event".to_owned());
        assert_eq!(log.first_garbled, Some(expected));
        assert!(matches!(log.items[..], [Item::Event(_), Item::Gap]), "{:?}", log.items);
    }
}
