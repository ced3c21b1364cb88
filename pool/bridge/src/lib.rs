//! The kernel's own C files under test: compiled unmodified for user space, loaded, and held against the device models.
//!
//! [`KernelFile`] makes the user's `mm/dmapool.c` a [`pool::Policy`] like any other; [`BareFile`] gives its functions as they
//! are, for benches. The file stays as it is; around it stands
//! a shim of our own (`shim/`), which has what the file uses of the kernel: lists, locks, kmalloc, messages, `struct
//! device`. Pages come from the bench's page source, and blocks are the bench's memory.
//!
//! # When it crashes
//! A fault, an assertion (`BUG_ON`), a deadlock and a call without end are findings, and the check goes on. The file runs
//! in this process: a call costs well under a microsecond, where one into a child process would cost tens of them, a
//! million times a check. So every call sets a place to come back to (`sigsetjmp`, in C), a signal within the file's own
//! code jumps there, what it held is unlocked, and the pool answers no more. What this does not cover: a file that
//! overwrites poolproof's own memory may end the program by a signal, with an exit status of 130 and above.
//!
//! # What is watched
//! Sleeping with a spinlock held or in a call that must not sleep; a lock taken twice or unlocked by another; wrong and
//! repeated `kfree`, writes behind an object, objects that are left when an idle pool is destroyed.
//!
//! *Not here*: interrupts (what disables them counts as atomic), NUMA, an IOMMU; `init_on_alloc=1`. `PAGE_SIZE` is a
//! variable: a file that needs it as a constant does not compile.

mod abi;
mod bare;
mod calls;
mod compile;
mod crash;
mod error;
mod guard;
mod host;
mod kernel_file;
mod kernel_pool;
mod library;
mod machine;
mod mirror;
pub mod parts;
mod probe;
mod shim;
mod source;

pub use bare::{Bare, BareBlock, BareFile, BarePool};
pub use compile::{Options, Sanitizer, cache_folder, compiler};
pub use error::BuildError;
pub use kernel_file::KernelFile;
