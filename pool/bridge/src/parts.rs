//! What a bridge to a kernel file of another kind is made of: a compiler and a cache, a library, calls that come back, and
//! memory that code can reach.
//!
//! A bridge has C text of its own. Its calls go through a `struct pp_frame` as [`GUARD`] has it, and leave the file whenever
//! they run something else (`in_file`): then a fault or an endless loop there ends the call, which [`Crash::of`] tells, and
//! not the program.

pub use crate::abi::Call;
pub use crate::compile::{Compiled, Compiler, Key, cached};
pub use crate::crash::{Crash, Names};
pub use crate::library::Library;
pub use crate::mirror::Mirror;
pub use crate::source::Source;

/// The C text that says what a call and its frame are, as files by their place.
pub const GUARD: [(&str, &str); 2] =
    [("abi.h", include_str!("../shim/abi.h")), ("guard/guard.h", include_str!("../shim/guard/guard.h"))];
