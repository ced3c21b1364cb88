//! What others wrote over a pool's own data: what the pool does wrong afterwards is theirs.

use crate::pool::Block;

/// Writes of a pool that are remembered. Of more, one of the first is named.
const REMEMBERED: usize = 64;

/// A write that hit a pool's own data.
pub(super) struct Damage {
    /// By whom, where, over what.
    words: String,
    /// What was written, where that was seen.
    data: Vec<u8>,
    /// How often the pool had handed out a block by then.
    allocations: u64,
}

/// The writes that hit one pool's own data, the earliest first.
#[derive(Default)]
pub(super) struct Damages(Vec<Damage>);

impl Damages {
    pub(super) fn add(&mut self, words: String, data: &[u8], allocations: u64) {
        if self.0.len() < REMEMBERED {
            self.0.push(Damage { words, data: data.to_vec(), allocations });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first of them.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.first().map(|damage| damage.words.as_str())
    }

    /// The write that explains why the pool handed out `block`, in words, and how many blocks it has handed out since: the
    /// last one that had its address in it, or else the first.
    pub(super) fn behind(&self, block: Block, allocations: u64) -> Option<(String, u64)> {
        let named = self.0.iter().rev().find(|damage| damage.names(block));
        let damage = named.or_else(|| self.0.first())?;
        Some((damage.words.clone(), allocations - damage.allocations))
    }
}

impl Damage {
    /// Whether one of the block's addresses was written, or its offset in some page.
    fn names(&self, block: Block) -> bool {
        let address = |bytes: &[u8; 8]| [block.cpu.0, block.dma.0].contains(&u64::from_le_bytes(*bytes));
        let offset = |bytes: &[u8; 4]| block.dma.0.wrapping_sub(u32::from_le_bytes(*bytes).into()).is_multiple_of(4096);
        match self.data.as_array::<4>() {
            Some(bytes) => offset(bytes),
            None => self.data.as_chunks::<8>().0.iter().any(address),
        }
    }
}
