//! The calls into a file.

use crate::abi;
use crate::error::BuildError;
use crate::library::Library;

/// Every function of `shim/entry/dmapool.c`.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) create: abi::Create,
    pub(crate) alloc: abi::Alloc,
    pub(crate) free: abi::Free,
    pub(crate) destroy: abi::Destroy,
    pub(crate) show_pools: abi::ShowPools,
}

impl Calls {
    pub(crate) fn of(library: &Library) -> Result<Self, BuildError> {
        Ok(Self {
            create: library.symbol(c"pp_create")?,
            alloc: library.symbol(c"pp_alloc")?,
            free: library.symbol(c"pp_free")?,
            destroy: library.symbol(c"pp_destroy")?,
            show_pools: library.symbol(c"pp_show_pools")?,
        })
    }
}
