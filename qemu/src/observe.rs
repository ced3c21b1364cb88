//! What the board's pools did, by its kernel's own log, ordered against what the controller did meanwhile.
//!
//! The kernel logs allocations by its own clock, the controller's accesses are timed by this process. How far the two
//! clocks are apart is measured: the guest reads registers between two marks in its log, and the reads are seen here. They
//! run alike: QEMU makes the guest's from this machine's. What remains is an interval, and an access during which something
//! happened to its memory has no known order.

use std::time::Duration;

use scenarios::{Observed, ObservedAccess, ObservedLog};

use crate::board::Board;
use crate::error::BoardError;
use crate::eyes::FileRead;

/// Measurements at the end; the shortest of them decides.
const ROUNDS: usize = 4;
/// Times in the guest's log are cut off to this.
const RESOLUTION: Duration = Duration::from_micros(1);

/// How much later the host's clock is than the guest's: at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    least: Duration,
    most: Duration,
}

impl Offset {
    /// By a read of registers that lay between two marks of the guest's clock.
    ///
    /// The host's clock began first, with the board.
    fn of(begin: Duration, end: Duration, read: FileRead) -> Option<Self> {
        let least = read.then.checked_sub(end + RESOLUTION)?;
        let most = read.first.checked_sub(begin)?;
        (least <= most).then_some(Self { least, most })
    }

    /// What both allow; `None` if the clocks did not run alike.
    fn and(self, other: Self) -> Option<Self> {
        let both = Self { least: self.least.max(other.least), most: self.most.min(other.most) };
        (both.least <= both.most).then_some(both)
    }

    /// When it was for the guest.
    const fn guests(self, hosts: Duration) -> (Duration, Duration) {
        (hosts.saturating_sub(self.most), hosts.saturating_sub(self.least))
    }
}

impl Board {
    /// Judges what the kernel's pools did so far: pool contract, lifetimes, layouts, and the controller's accesses as far
    /// as their order is known. The board must have been started with [`BoardConfig::observe`](crate::BoardConfig).
    ///
    /// # Errors
    /// [`BoardError::Usage`] for a board that does not log, [`BoardError::Data`] if the log did not come through, and
    /// as [`Board::command`].
    pub fn observed(&mut self) -> Result<Observed, BoardError> {
        let not_asked =
            || BoardError::Usage("the board does not log what its pools do: start it with --observe".to_owned());
        let eyes = self.eyes().ok_or_else(not_asked)?;
        let mut reads = Vec::new();
        for _ in 0..ROUNDS {
            let since = eyes.now();
            match self.command("sync") {
                // Without a driver there is no file, and no read will be seen.
                Ok(_) | Err(BoardError::Board(_)) => {}
                Err(error) => return Err(error),
            }
            reads.push(eyes.file_reads_since(since));
        }
        let log = ObservedLog::read(&whole(&self.command("observed")?)?);
        let offset = offset(&log, &reads);
        let (accesses, dropped) = eyes.accesses();
        let Some(offset) = offset else {
            let seen =
                format!("{} device accesses seen, order unknown: the clocks could not be compared", accesses.len());
            return Ok(Observed::with_accesses(&log, &[], &seen));
        };
        let known: Vec<_> = accesses
            .into_iter()
            .map(|(hosts, access)| {
                let (earliest, latest) = offset.guests(hosts);
                ObservedAccess { earliest, latest, access }
            })
            .collect();
        let dropped = if dropped > 0 { format!(", the last {dropped} not kept") } else { String::new() };
        let within = (offset.most - offset.least).as_micros();
        let seen = format!("device accesses ordered against it within {within} µs{dropped}");
        Ok(Observed::with_accesses(&log, &known, &seen))
    }
}

/// The lines behind their numbers, if none is missing.
fn whole(said: &[String]) -> Result<String, BoardError> {
    let mut text = String::new();
    let mut lines = 0_usize;
    for line in said.iter().filter_map(|line| line.strip_prefix("observed | ")) {
        let (number, line) = line.split_once(' ').unwrap_or((line, ""));
        if number == "end" && line == lines.to_string() {
            return Ok(text);
        }
        lines += 1;
        if number != lines.to_string() {
            break;
        }
        text += line;
        text += "\n";
    }
    Err(BoardError::Data(format!("the board's log of its pools came through to line {lines} only")))
}

/// How far the clocks are apart, by the last marks of the log and the reads that were seen between them.
fn offset(log: &ObservedLog, reads: &[Vec<FileRead>]) -> Option<Offset> {
    let times = |word: &str| -> Vec<Duration> {
        let marks = log.marks.iter().filter(|mark| mark.text == word).filter_map(|mark| mark.time);
        marks.collect()
    };
    let (begins, ends) = (times("sync begin"), times("sync end"));
    let first = begins.len().checked_sub(reads.len()).filter(|_| begins.len() == ends.len())?;
    let rounds = begins[first..].iter().zip(&ends[first..]).zip(reads);
    let offsets = rounds.map(|((&begin, &end), reads)| match reads[..] {
        [read] => Offset::of(begin, end, read),
        _ => None,
    });
    offsets.reduce(|one, other| one?.and(other?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn read(first: u64, then: u64) -> Vec<FileRead> {
        vec![FileRead { first: ms(first), then: ms(then) }]
    }

    fn log(marks: &[(&str, &str)]) -> ObservedLog {
        let line = |(time, word): &(&str, &str)| format!("sh-1 [000] ..... {time}: tracing_mark_write: {word}\n");
        ObservedLog::read(&marks.iter().map(line).collect::<String>())
    }

    #[test]
    fn each_round_narrows_the_interval() {
        let marks = [("1.000", "sync begin"), ("1.010", "sync end"), ("2.000", "sync begin"), ("2.004", "sync end")];
        let log = log(&marks);
        let offset = offset(&log, &[read(1503, 1505), read(2501, 2502)]).expect("both fit");
        assert_eq!((offset.least, offset.most), (ms(498) - RESOLUTION, ms(501)));
        assert_eq!(offset.guests(ms(1501)), (ms(1000), ms(1003) + RESOLUTION));
    }

    #[test]
    fn clocks_that_do_not_agree_tell_nothing() {
        let marks = [("1.000", "sync begin"), ("1.010", "sync end"), ("2.000", "sync begin"), ("2.004", "sync end")];
        let log = log(&marks);
        assert_eq!(offset(&log, &[read(1503, 1505), read(2601, 2602)]), None, "one clock was stopped in between");
        assert_eq!(offset(&log, &[read(1503, 1505), Vec::new()]), None, "a read was not seen");
        assert_eq!(offset(&log, &[Vec::new(), read(1, 1), read(2, 2)]), None, "more rounds than marks");
    }

    #[test]
    fn a_log_that_lost_a_line_is_refused() {
        let said = |lines: &[&str]| lines.iter().map(|line| format!("observed | {line}")).collect::<Vec<_>>();
        assert_eq!(whole(&said(&["1 # a", "2 ", "3 b c", "end 3"])).ok().as_deref(), Some("# a\n\nb c\n"));
        for lines in [&["1 a", "3 c", "end 3"][..], &["1 a", "end 2"], &["1 a"]] {
            assert!(whole(&said(lines)).is_err(), "{lines:?}");
        }
    }
}
