//! The MSI-X table (PCI §6.8.2).

use super::config::MSIX_ENTRY;

/// Vector Control is the last word of an entry.
const VECTOR_CONTROL: usize = 12;
/// Its mask bit; the others are reserved.
const MASK: u8 = 1;

/// The table's bytes. The function never reads addresses and data: who takes its messages knows where they go.
#[derive(Clone, Debug)]
pub(super) struct MsixTable(Vec<u8>);

impl MsixTable {
    /// As after a reset: every vector masked.
    pub(super) fn new(vectors: u16) -> Self {
        let mut bytes = vec![0; usize::from(vectors) * MSIX_ENTRY as usize];
        bytes.chunks_exact_mut(MSIX_ENTRY as usize).for_each(|entry| entry[VECTOR_CONTROL] = MASK);
        Self(bytes)
    }

    pub(super) fn is_masked(&self, vector: u16) -> bool {
        self.0.get(usize::from(vector) * MSIX_ENTRY as usize + VECTOR_CONTROL).is_none_or(|byte| byte & MASK != 0)
    }

    pub(super) fn read(&self, offset: usize, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            *byte = self.0.get(at).copied().unwrap_or(0);
        }
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        for (at, byte) in (offset..).zip(data) {
            let Some(place) = self.0.get_mut(at) else { return };
            *place = match at % MSIX_ENTRY as usize {
                VECTOR_CONTROL => byte & MASK,
                13..=15 => 0,
                // Addresses are word aligned.
                0 => byte & !3,
                _ => *byte,
            };
        }
    }
}
