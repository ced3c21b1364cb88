//! A file's own functions without anything around them, for benches.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use pool::{CreateError, Geometry, Memory, PageSource};

use crate::abi::{BareAlloc, BareFree, Bind, Call, DmaPool};
use crate::compile::Options;
use crate::error::BuildError;
use crate::host::{Context, HOST, Host};
use crate::kernel_file::KernelFile;
use crate::kernel_pool::KernelPool;

/// `GFP_ATOMIC`
const GFP_ATOMIC: u32 = 0x820;

/// A `mm/dmapool.c` compiled for benches: its locks are one exchange and one store, and nobody watches.
#[derive(Clone)]
pub struct BareFile {
    file: KernelFile,
    alloc: BareAlloc,
    free: BareFree,
    bind: Bind,
}

impl BareFile {
    /// Compiles the file at `path`, or in the kernel tree there.
    ///
    /// # Errors
    /// As [`KernelFile::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, BuildError> {
        let file = KernelFile::open(path, &Options { bare: true, ..options.clone() })?;
        let library = file.loaded().library;
        let (alloc, free) = (library.symbol::<*const BareAlloc>(c"pp_bare_alloc")?, library.symbol(c"pp_bare_free")?);
        let free: *const BareFree = free;
        let bind = library.symbol(c"pp_bind")?;
        // SAFETY: two constants of shim/entry/dmapool.c.
        let (alloc, free) = unsafe { (alloc.read(), free.read()) };
        Ok(Self { file, alloc, free, bind })
    }

    /// Makes a pool (`dma_pool_create`).
    ///
    /// # Errors
    /// [`CreateError`], as it refuses.
    pub fn create(
        &self,
        memory: &Arc<Memory>,
        source: Arc<dyn PageSource>,
        geometry: Geometry,
    ) -> Result<BarePool, CreateError> {
        let pool = KernelPool::create(self.file.loaded(), memory, source, geometry)?;
        Ok(BarePool { file: self.clone(), pool, size: geometry.size as usize })
    }
}

/// A pool of a [`BareFile`].
pub struct BarePool {
    file: BareFile,
    pool: KernelPool,
    size: usize,
}

impl BarePool {
    /// Runs `body` with the pool's functions. Several threads may, each by itself.
    pub fn enter<T>(&self, body: impl FnOnce(&Bare<'_>) -> T) -> T {
        let host: &Host = self.pool.host();
        let context = Context { host, error: RefCell::default(), refusal: Cell::default() };
        let at = ptr::from_ref(&context).cast::<c_void>().cast_mut();
        let mut call = Call::new(&raw const HOST, at, host.page_size(), false);
        let _bound = Bound::new(self.file.bind, &raw mut call);
        let pool = self.pool.pool();
        body(&Bare { alloc: self.file.alloc, free: self.file.free, pool, size: self.size, of: self })
    }

    /// Destroys the pool (`dma_pool_destroy`).
    pub fn destroy(self) {
        // What it says to blocks that are in use is of no interest to a bench.
        drop(pool::Pool::destroy(&self.pool));
    }
}

/// This thread's call while it lives.
struct Bound(Bind);

impl Bound {
    fn new(bind: Bind, call: *mut Call) -> Self {
        // SAFETY: the call outlives this.
        unsafe { bind(call) };
        Self(bind)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: ends what `new` began, on the same thread.
        unsafe { (self.0)(ptr::null_mut::<Call>()) };
    }
}

/// A pool's functions on this thread.
pub struct Bare<'a> {
    alloc: BareAlloc,
    free: BareFree,
    pool: *mut DmaPool,
    size: usize,
    of: &'a BarePool,
}

/// A block of a [`Bare`] pool, to be given back once.
pub struct BareBlock {
    vaddr: *mut c_void,
    dma: u64,
}

// SAFETY: a block may be filled and freed on any thread.
unsafe impl Send for BareBlock {}

impl Bare<'_> {
    /// `dma_pool_alloc` with GFP_ATOMIC: one call through a pointer.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<BareBlock> {
        let mut dma = 0;
        // SAFETY: the pool lives as long as `of`, and this thread is bound to it.
        let vaddr = unsafe { (self.alloc)(self.pool, GFP_ATOMIC, &raw mut dma) };
        (!vaddr.is_null()).then_some(BareBlock { vaddr, dma })
    }

    /// `dma_pool_free`: one call through a pointer.
    #[inline]
    pub fn free(&self, block: BareBlock) {
        // SAFETY: the block came from `alloc` of a pool of this file, and is given back once. A block of another pool is a
        // wrong free, as a driver may make.
        unsafe { (self.free)(self.pool, block.vaddr, block.dma) };
    }

    /// Writes to the beginning of the block, as much of it as there is.
    #[inline]
    pub fn write(&self, block: &BareBlock, bytes: &[u8]) {
        let len = bytes.len().min(self.size);
        // SAFETY: a live block has `size` bytes, which no slice of this program has a share in.
        unsafe { block.vaddr.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }

    /// The pool that these are of.
    #[must_use]
    pub const fn pool(&self) -> &BarePool {
        self.of
    }
}
