//! What the client and its device agree on: registers, and what a request holds.

use bus::Kind;

/// Takes the address of a request, 64 bits: the device has it until its answer is there.
pub(super) const REQUEST: u64 = 0x00;

/// Bytes of a request.
pub(super) const REQUEST_SIZE: u64 = 64;
/// Offset of the command in a request, a word. [`NOTIFY`], or a number that the device answers at once.
pub(super) const COMMAND: u64 = 0;
/// Offset of the answer in a request, a word: the command with every bit turned.
pub(super) const ANSWER: u64 = 4;

/// Has the device keep the request until there is something to notify, which is never.
pub(super) const NOTIFY: u32 = 0xffff_0000;

/// A request. The client numbers them by submission, the device by the order in which they come to it, which is the same.
pub(super) static KIND: Kind = Kind { name: "request", label: |index, f| write!(f, "request {index}") };
