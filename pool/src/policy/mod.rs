//! Pool policies: values with a name, in one table.

mod checked;
mod external_bitmap;
mod external_list;
mod high;
mod index_stack;
mod linked;
mod named;
mod page_list;
mod scatter;
mod shuffle;
mod slots;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::error::{CreateError, DestroyError};
use crate::memory::Memory;
use crate::page::PageSource;
use crate::pool::{Geometry, Metadata, Pool};

pub use named::{NameError, by_name, families, hostile};

/// Makes a pool from memory, a page source and what the driver asks for.
pub type Create =
    dyn Fn(Arc<Memory>, Arc<dyn PageSource>, Geometry) -> Result<Box<dyn Pool>, CreateError> + Send + Sync;

/// A way to run a DMA pool.
#[derive(Clone)]
pub struct Policy {
    /// Its name on the command line.
    pub name: Cow<'static, str>,
    /// One line about it.
    pub about: Cow<'static, str>,
    /// Where it keeps its own data.
    ///
    /// Must be true: whether a device's stray write excuses what the pool breaks afterwards is decided by it. A policy that
    /// keeps links in free blocks and says [`Metadata::OutOfBand`] is blamed for what a device or driver did to them; one
    /// that names data which is not there is excused for its own mistakes.
    pub metadata: Metadata,
    /// Whether it never hands out a block that ends just at a boundary or the end of a page, unless it is the only one
    /// (Linux up to 6.3, `pool_initialise_page`).
    pub loses_last: bool,
    /// Whether it asks for pages at the highest addresses ([`PageSource::alloc_highest`]): what it shows depends on the
    /// device's DMA mask.
    pub goes_high: bool,
    /// Whether a free walks all free blocks, as debug builds of Linux's do: very large pools take a time that grows with the
    /// square of their blocks.
    pub walks: bool,
    /// Smallest block in bytes.
    pub smallest: u64,
    /// What identifies its code, for verdicts: a hash of the source text, or words.
    pub fingerprint: Cow<'static, str>,
    /// Makes a pool.
    pub create: Arc<Create>,
}

impl Policy {
    /// A policy called `name`.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        about: impl Into<Cow<'static, str>>,
        metadata: Metadata,
        smallest: u64,
        create: impl Fn(Arc<Memory>, Arc<dyn PageSource>, Geometry) -> Result<Box<dyn Pool>, CreateError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let fingerprint = Cow::Borrowed("code not identified");
        Self {
            name: name.into(),
            about: about.into(),
            metadata,
            loses_last: false,
            goes_high: false,
            walks: false,
            smallest,
            fingerprint,
            create: Arc::new(create),
        }
    }

    /// The same, identified by the text of its code (64-bit FNV-1a).
    #[must_use]
    pub fn of_source(mut self, text: &str) -> Self {
        let hash = text
            .bytes()
            .fold(0xcbf29ce484222325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3));
        self.fingerprint = format!("source {hash:016x}").into();
        self
    }

    /// The policy that the current kernel has.
    #[must_use]
    pub fn current() -> Self {
        linked::ascending().of_source(include_str!("linked.rs"))
    }
}

/// Every built-in policy of Linux's kind, the oldest first. The [`hostile`] ones are not among them.
#[must_use]
pub fn table() -> Vec<Policy> {
    vec![
        page_list::policy().of_source(include_str!("page_list.rs")),
        linked::descending().of_source(include_str!("linked.rs")),
        Policy::current(),
        external_list::policy().of_source(concat!(include_str!("external_list.rs"), include_str!("slots.rs"))),
        external_bitmap::policy().of_source(concat!(include_str!("external_bitmap.rs"), include_str!("slots.rs"))),
        index_stack::policy(),
    ]
}

/// The error of a destroy while the pool's count is not 0. It is negative if more was freed than handed out.
fn busy(count: i64) -> DestroyError {
    let owners = if count < 0 { vec![format!("the pool counts {count}")] } else { Vec::new() };
    DestroyError::Busy { live: usize::try_from(count).unwrap_or(0), owners }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).field("metadata", &self.metadata).finish_non_exhaustive()
    }
}
