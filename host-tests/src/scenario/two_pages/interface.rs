//! What the table client and its device agree on: registers, and what an entry holds.

/// Where the table begins, 64 bits; the lowest ten are 0.
pub(super) const TABLE_BASE: u64 = 0x00;
/// How many entries it has.
pub(super) const TABLE_COUNT: u64 = 0x08;
/// Any write has the device walk the table.
pub(super) const DOORBELL: u64 = 0x0c;

/// Bytes of an entry.
pub(super) const ENTRY_SIZE: u64 = 1024;
/// Offset of the command in an entry, a word.
pub(super) const COMMAND: u64 = 0;
/// Offset of the answer in an entry, a word: the command with every bit turned.
pub(super) const ANSWER: u64 = 4;
