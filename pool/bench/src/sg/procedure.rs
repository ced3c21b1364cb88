//! What is done while the clock runs.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use pool::sg::PAGE;

use super::SgError;
use super::subject::{ChunkClient, TableClient};
use crate::clock::{THREAD_TIME, thread_time};

/// Pages of a trial.
pub(super) const PAGES: usize = 100;
/// Tables in use at once, as a device's queue has them.
const OUTSTANDING: usize = 32;
/// Tables of a round.
pub(super) const TABLES: u64 = 100;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// The patch's of July 2019.
    Pages,
    /// The patch's question.
    Tables,
}

impl Procedure {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pages, Self::Tables];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Tables => "tables",
        }
    }

    /// What it does, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Pages => "100 pages allocated, then freed in the same order, as in July 2019; vmalloc's in one call",
            Self::Tables => {
                "tables of so many entries, 32 in use: the oldest is freed, another allocated; \
                 full chunks from the source, shorter ones from kmalloc"
            }
        }
    }

    /// Rounds that a sample has at most: the patch had 1000 trials.
    pub(super) const fn most_rounds(self) -> u64 {
        match self {
            Self::Pages => 1000,
            Self::Tables => 100,
        }
    }

    /// What a figure is for.
    pub(super) const fn of(self) -> &'static str {
        match self {
            Self::Pages => "100 pages",
            Self::Tables => "100 tables",
        }
    }

    /// What it is measured by.
    pub(super) const fn clock(self) -> &'static str {
        THREAD_TIME
    }
}

fn timed(work: impl FnOnce() -> Result<(), SgError>) -> Result<Duration, SgError> {
    let begin = thread_time()?;
    work()?;
    Ok(thread_time()?.saturating_sub(begin))
}

/// A trial allocates 100 pages and frees them; the first one is not timed.
pub(super) fn page_by_page<C: ChunkClient>(source: &C, rounds: u64) -> Result<Duration, SgError> {
    let mut held = Vec::with_capacity(PAGES);
    let mut trial = || {
        for _ in 0..PAGES {
            held.push(source.alloc(PAGE)?);
        }
        black_box(&mut held).drain(..).try_for_each(|page| source.free(page, PAGE))
    };
    trial()?;
    timed(|| (0..rounds).try_for_each(|_| trial()))
}

/// A trial allocates 100 pages in one call and frees them; the first one is not timed.
pub(super) fn in_one_call<C: ChunkClient>(source: &C, rounds: u64) -> Result<Duration, SgError> {
    let len = PAGES as u64 * PAGE;
    let trial = || source.alloc(len).and_then(|at| source.free(black_box(at), len));
    trial()?;
    timed(|| (0..rounds).try_for_each(|_| trial()))
}

/// A round has 100 tables; 32 are there before the clock runs, and are freed after it.
pub(super) fn tables<C: TableClient>(client: &C, entries: u32, rounds: u64) -> Result<Duration, SgError> {
    let mut held = VecDeque::with_capacity(OUTSTANDING);
    for _ in 0..OUTSTANDING {
        held.push_back(client.alloc(entries)?);
    }
    let time = timed(|| {
        for _ in 0..rounds * TABLES {
            if let Some(oldest) = held.pop_front() {
                client.free(oldest)?;
            }
            held.push_back(black_box(client.alloc(entries)?));
        }
        Ok(())
    })?;
    held.into_iter().try_for_each(|table| client.free(table))?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use bus::CpuAddr;

    use super::*;

    /// Writes down what is done. Chunks and tables are numbers.
    #[derive(Default)]
    struct Book(RefCell<Vec<(char, u64)>>);

    impl ChunkClient for Book {
        fn alloc(&self, len: u64) -> Result<CpuAddr, SgError> {
            self.0.borrow_mut().push(('+', len));
            Ok(CpuAddr(self.0.borrow().len() as u64 * PAGE))
        }

        fn free(&self, at: CpuAddr, _: u64) -> Result<(), SgError> {
            self.0.borrow_mut().push(('-', at.0 / PAGE));
            Ok(())
        }
    }

    impl TableClient for Book {
        type Held = u64;

        fn alloc(&self, entries: u32) -> Result<u64, SgError> {
            self.0.borrow_mut().push(('+', entries.into()));
            Ok(self.0.borrow().len() as u64)
        }

        fn free(&self, table: u64) -> Result<(), SgError> {
            self.0.borrow_mut().push(('-', table));
            Ok(())
        }
    }

    #[test]
    fn a_trial_has_100_pages_that_are_freed_in_their_order() {
        let book = Book::default();
        page_by_page(&book, 3).expect("numbers do not fail");
        let steps = book.0.into_inner();
        assert_eq!(steps.len(), 4 * 200, "one is not timed");
        for (index, trial) in steps.chunks(200).enumerate() {
            let first = index as u64 * 200 + 1;
            assert_eq!(trial[..100], [('+', PAGE); 100]);
            assert_eq!(trial[100..], (first..first + 100).map(|page| ('-', page)).collect::<Vec<_>>());
        }
        let book = Book::default();
        in_one_call(&book, 3).expect("numbers do not fail");
        let steps = book.0.into_inner();
        assert_eq!(steps[..4], [('+', 100 * PAGE), ('-', 1), ('+', 100 * PAGE), ('-', 3)]);
        assert_eq!(steps.len(), 8);
    }

    #[test]
    fn there_are_always_32_tables_and_the_oldest_is_freed() {
        let book = Book::default();
        tables(&book, 129, 2).expect("numbers do not fail");
        let steps = book.0.into_inner();
        assert_eq!(steps.len(), 32 + 200 * 2 + 32);
        assert_eq!(steps[..32], [('+', 129); 32]);
        assert_eq!(steps[32..36], [('-', 1), ('+', 129), ('-', 2), ('+', 129)]);
        // The 33rd allocation was the 34th step.
        assert_eq!(steps[32 + 64], ('-', 34));
        let freed: std::collections::BTreeSet<u64> =
            steps.iter().filter(|(step, _)| *step == '-').map(|(_, table)| *table).collect();
        assert_eq!(freed.len(), 232, "each once");
    }
}
