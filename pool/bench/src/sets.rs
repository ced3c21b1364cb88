//! Geometries that pools are measured with.

use std::fmt;
use std::str::FromStr;

use pool::{CreateError, Geometry};
use thiserror::Error;

/// A pool's geometry, and how many blocks of it are in use at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    geometry: Geometry,
}

/// Why a word is no set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetError {
    /// Not written as one.
    #[error(
        "`{}` is no set: expected SIZE/ALIGN/BOUNDARY in bytes, such as 64/64/0, or a size alone of {}",
        .0.escape_debug(),
        Set::TABLE.map(|set| set.geometry.size.to_string()).join(", ")
    )]
    Form(String),
    /// No pool has it.
    #[error("{set}: {error}")]
    Geometry {
        /// As asked for.
        set: Set,
        /// What is wrong with it.
        error: CreateError,
    },
    /// Larger than a bench has memory for.
    #[error("{0}: blocks of {LARGEST} bytes, after rounding up to the alignment, are the largest here")]
    TooLarge(Set),
}

/// Largest block in bytes: 1024 of them are 64 MiB.
const LARGEST: u64 = 65536;

impl Set {
    /// The sets of the kernel's test (dmapool_test.c, Linux 6.4).
    pub const TABLE: [Self; 6] = [
        Self::of(16, 16, 0),
        Self::of(64, 64, 0),
        Self::of(256, 256, 0),
        Self::of(1024, 1024, 0),
        Self::of(4096, 4096, 0),
        Self::of(68, 32, 4096),
    ];

    const fn of(size: u64, align: u64, boundary: u64) -> Self {
        Self { geometry: Geometry { size, align, boundary } }
    }

    /// What the driver asks of the pool.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Blocks in use at once: what fills 512 pages of 4 KiB, from 1024 to 8192 (dmapool_test.c).
    #[must_use]
    pub fn blocks(&self) -> usize {
        (4096 / self.geometry.size * 512).clamp(1024, 8192) as usize
    }

    /// Memory in bytes in which any policy of ours finds room: some give a block a page of its own, or leave a place as
    /// large behind each.
    pub(crate) fn memory(&self) -> u64 {
        let block = self.geometry.size.next_multiple_of(self.geometry.align.max(1)).max(PAGE);
        2 * self.blocks() as u64 * block.next_power_of_two()
    }
}

/// A page of the bench's machine, in bytes.
pub(crate) const PAGE: u64 = 4096;

impl FromStr for Set {
    type Err = SetError;

    /// `SIZE/ALIGN/BOUNDARY`, or the size of one in [`Set::TABLE`].
    fn from_str(text: &str) -> Result<Self, SetError> {
        let number = |word: &str| word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()));
        let numbers: Option<Vec<u64>> = text.split('/').map(number).collect();
        let set = match numbers.as_deref() {
            Some(&[size]) => Self::TABLE.into_iter().find(|set| set.geometry.size == size),
            Some(&[size, align, boundary]) => Some(Self::of(size, align, boundary)),
            _ => None,
        };
        let set = set.ok_or_else(|| SetError::Form(text.to_owned()))?;
        let layout = set.geometry.layout(1, PAGE).map_err(|error| SetError::Geometry { set, error })?;
        if layout.size > LARGEST { Err(SetError::TooLarge(set)) } else { Ok(set) }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { size, align, boundary } = self.geometry;
        write!(f, "{size}/{align}/{boundary}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_sets_have_the_kernels_numbers_of_blocks() {
        assert_eq!(Set::TABLE.map(|set| set.blocks()), [8192, 8192, 8192, 2048, 1024, 8192]);
    }

    #[test]
    fn a_set_is_read_as_it_is_written() {
        for set in Set::TABLE {
            assert_eq!(set.to_string().parse(), Ok(set));
            assert_eq!(set.geometry.size.to_string().parse(), Ok(set));
        }
        assert_eq!("96/32/128".parse(), Ok(Set::of(96, 32, 128)));
    }

    #[test]
    fn what_is_no_set_is_refused_with_what_was_expected() {
        let refused = |text: &str| text.parse::<Set>().expect_err("no set").to_string();
        for text in ["", "65", "64/64", "64/64/0/0", "64/+64/0", "a/b/c", "18446744073709551616"] {
            assert!(refused(text).contains("expected SIZE/ALIGN/BOUNDARY in bytes, such as 64/64/0"), "{text}");
        }
        assert_eq!(refused("64/48/0"), "64/48/0: align 48 is not a power of two");
        assert!(refused("0/1/0").starts_with("0/1/0: size 0: "));
        assert!(refused("128/1/64").contains("boundary 64 is smaller than a block"));
        assert!(refused("65537/1/0").contains("65536 bytes"), "{}", refused("65537/1/0"));
        assert!(refused("1/131072/0").contains("65536 bytes"));
    }
}
