//! The free pages of a memory, a bit each.

use crate::memory::Span;

/// Free pages by address. Making one costs a bit a page, as every bench makes one.
pub(crate) struct FreePages {
    page_size: u64,
    /// By rising address.
    runs: Vec<Run>,
    free: usize,
}

/// Pages that follow one another in one span.
struct Run {
    first: u64,
    pages: u64,
    /// Page n is bit n % 64 of word n / 64.
    bits: Vec<u64>,
}

impl FreePages {
    /// Every page of `page_size` bytes, a power of two, in `spans` whose every byte is at or below `mask`; the spans by rising
    /// address.
    pub(crate) fn new(spans: &[Span], page_size: u64, mask: u64) -> Self {
        let runs: Vec<Run> = spans.iter().filter_map(|span| Run::new(span, page_size, mask)).collect();
        let free = runs.iter().map(|run| run.pages as usize).sum();
        Self { page_size, runs, free }
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.free
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        self.place(page).is_some_and(|(run, word, bit)| self.runs[run].bits[word] & bit != 0)
    }

    pub(crate) fn insert(&mut self, page: u64) {
        if let Some((run, word, bit)) = self.place(page) {
            let bits = &mut self.runs[run].bits[word];
            self.free += usize::from(*bits & bit == 0);
            *bits |= bit;
        }
    }

    pub(crate) fn remove(&mut self, page: u64) {
        if let Some((run, word, bit)) = self.place(page) {
            let bits = &mut self.runs[run].bits[word];
            self.free -= usize::from(*bits & bit != 0);
            *bits &= !bit;
        }
    }

    /// By rising address.
    pub(crate) fn rising(&self) -> impl Iterator<Item = u64> {
        let words = self.runs.iter().flat_map(|run| (0..).zip(&run.bits).map(move |(word, &bits)| (run, word, bits)));
        words.flat_map(move |(run, word, bits)| {
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|&bits| bits != 0)
                .map(move |bits| self.address(run, word, bits.trailing_zeros()))
        })
    }

    /// By falling address.
    pub(crate) fn falling(&self) -> impl Iterator<Item = u64> {
        let words =
            self.runs.iter().rev().flat_map(|run| (0..run.bits.len() as u64).rev().map(move |word| (run, word)));
        words.flat_map(move |(run, word)| {
            std::iter::successors(Some(run.bits[word as usize]), |bits| Some(bits & !(1 << bits.checked_ilog2()?)))
                .take_while(|&bits| bits != 0)
                .map(move |bits| self.address(run, word, bits.ilog2()))
        })
    }

    const fn address(&self, run: &Run, word: u64, bit: u32) -> u64 {
        run.first + (word * 64 + bit as u64) * self.page_size
    }

    /// Run, word and bit of a page.
    fn place(&self, page: u64) -> Option<(usize, usize, u64)> {
        let run = self.runs.partition_point(|run| run.first <= page).checked_sub(1)?;
        let offset = page - self.runs[run].first;
        let number = offset / self.page_size;
        let is_page = number < self.runs[run].pages && offset.is_multiple_of(self.page_size);
        is_page.then(|| (run, (number / 64) as usize, 1 << (number % 64)))
    }
}

impl Run {
    /// `None` if there is no whole page.
    fn new(span: &Span, page_size: u64, mask: u64) -> Option<Self> {
        // The last byte of a span is below 2^64; what is behind it need not be.
        let last = (span.dma.0 + (span.len - 1)).min(mask);
        let first = span.dma.0.checked_next_multiple_of(page_size)?;
        let rest = last.checked_sub(first)?;
        let pages = rest / page_size + u64::from(rest % page_size == page_size - 1);
        let mut bits = vec![u64::MAX; pages.div_ceil(64) as usize];
        if let Some(word) = bits.last_mut().filter(|_| !pages.is_multiple_of(64)) {
            *word = (1 << (pages % 64)) - 1;
        }
        (pages > 0).then_some(Self { first, pages, bits })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bus::{CpuAddr, DmaAddr};

    use super::*;
    use crate::page::split_mix;

    const SPANS: [Span; 3] = [
        Span { cpu: CpuAddr(0x1_0000_0000), dma: DmaAddr(0x8000_3000), len: 0x5_1000 },
        Span { cpu: CpuAddr(0x2_0000_0000), dma: DmaAddr(0x8100_0000), len: 0x10_0000 },
        Span { cpu: CpuAddr(0x3_0000_0000), dma: DmaAddr(0xffff_ffff_ffff_0000), len: 0xf000 },
    ];

    /// The pages one by one.
    fn pages(page_size: u64, mask: u64) -> BTreeSet<u64> {
        let of = |span: &Span| {
            let (first, last) = (span.dma.0, span.dma.0 + (span.len - 1));
            let whole = move |page: &u64| {
                *page >= first && last.min(mask).checked_sub(*page).is_some_and(|rest| rest >= page_size - 1)
            };
            (first / page_size..=last / page_size).map(move |number| number * page_size).filter(whole)
        };
        SPANS.iter().flat_map(of).collect()
    }

    #[test]
    fn it_is_a_set_of_pages() {
        for page_size in [0x1000, 0x4000, 0x1_0000] {
            for mask in [u64::MAX, 0x8107_ffff, 0x8107_fffe, 0x8000_2fff, 0] {
                let mut expected = pages(page_size, mask);
                let mut free = FreePages::new(&SPANS, page_size, mask);
                let all: Vec<u64> = expected.iter().copied().collect();
                let mut random = 7;
                for _ in 0..400 {
                    assert_eq!(free.len(), expected.len());
                    assert!(free.rising().eq(expected.iter().copied()), "{page_size:#x} {mask:#x}");
                    assert!(free.falling().eq(expected.iter().rev().copied()), "{page_size:#x} {mask:#x}");
                    let Some(&page) = all.get(split_mix(&mut random) as usize % all.len().max(1)) else { break };
                    assert_eq!(free.contains(page), expected.contains(&page));
                    if split_mix(&mut random).is_multiple_of(2) {
                        free.insert(page);
                        expected.insert(page);
                    } else {
                        free.remove(page);
                        expected.remove(&page);
                    }
                }
            }
        }
        let mut free = FreePages::new(&SPANS, 0x1000, u64::MAX);
        let (before, none) = (free.len(), [0, 0x8000_2000, 0x8000_3800, 0x8005_4000, u64::MAX]);
        none.into_iter().for_each(|page| free.insert(page));
        assert!(none.into_iter().all(|page| !free.contains(page)), "what is no page is not taken in");
        assert_eq!(free.len(), before);
    }
}
