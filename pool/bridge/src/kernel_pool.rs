//! A pool of a kernel file, as a pool like any other.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use bus::DmaAddr;
use pool::{
    AllocError, Block, CreateError, DestroyError, Flags, FreeError, Geometry, Memory, PageError, PageSource, Pool,
    Promise, Remark,
};

use crate::abi::{Call, DmaPool};
use crate::crash::Crash;
use crate::host::{Context, HOST, Host};
use crate::kernel_file::Loaded;

/// The name of every pool towards the file. The ledger knows the driver's.
const NAME: &str = "poolproof";

/// A pool that the file made.
pub(crate) struct KernelPool {
    file: Arc<Loaded>,
    host: Box<Host>,
    /// Null once the file has destroyed it, or did not come back from a call.
    pool: AtomicPtr<DmaPool>,
    crashed: AtomicBool,
    /// Objects of kmalloc that it has.
    objects: AtomicI64,
    /// Blocks that it handed out, less those that it took back.
    in_use: AtomicI64,
}

/// What came up in a call that came back.
struct Heard {
    error: Option<String>,
    refusal: Option<PageError>,
}

/// Calls without end after which no pool is made any more: a second of processor time goes into each.
const MOST_ENDLESS: u32 = 3;
const ENDLESS: &str = "calls into the file did not come to an end three times before: it is not tried again";

/// What a pool that is gone answers.
const GONE: &str = "the pool is destroyed, or did not return from a call before";

impl KernelPool {
    pub(crate) fn create(
        file: &Arc<Loaded>,
        memory: &Arc<Memory>,
        source: Arc<dyn PageSource>,
        geometry: Geometry,
    ) -> Result<Self, CreateError> {
        if file.endless.load(Ordering::Relaxed) >= MOST_ENDLESS {
            return Err(CreateError::Crashed(ENDLESS.to_owned()));
        }
        let other = |error: crate::BuildError| CreateError::Other(error.to_string());
        let machine = file.machines.of(memory, file.library).map_err(other)?;
        let host = Box::new(Host::new(machine, source));
        let pool = Self {
            file: Arc::clone(file),
            host,
            pool: AtomicPtr::default(),
            crashed: AtomicBool::new(false),
            objects: AtomicI64::new(0),
            in_use: AtomicI64::new(0),
        };
        let name = CString::new(NAME).unwrap_or_default();
        let [size, align, boundary] = [geometry.size, geometry.align, geometry.boundary]
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut made = ptr::null_mut();
        let device = pool.host.machine.device();
        pool.call("dma_pool_create", true, |call| {
            // SAFETY: the device is the machine's, the name is copied, and `made` is written before the call returns.
            unsafe { (file.calls.create)(call, name.as_ptr(), device, size, align, boundary, &raw mut made) };
        })
        .map_err(|crash| CreateError::Crashed(crash.words))?;
        if made.is_null() {
            return Err(CreateError::Other(format!("dma_pool_create returned NULL for {geometry:?}")));
        }
        pool.pool.store(made, Ordering::Release);
        Ok(pool)
    }

    /// Makes a call and looks at how it ended. After one that did not come back the pool is gone.
    fn call(&self, function: &str, may_sleep: bool, body: impl FnOnce(*mut Call)) -> Result<Heard, Crash> {
        let context = Context { host: &self.host, error: RefCell::default(), refusal: Cell::default() };
        let at = ptr::from_ref(&context).cast::<c_void>().cast_mut();
        let mut call = Call::new(&raw const HOST, at, self.host.page_size(), may_sleep);
        body(&raw mut call);
        self.objects.fetch_add(call.objects, Ordering::Relaxed);
        let machine = &self.host.machine;
        match Crash::of(&call, function, &machine.mirror, &self.file.names) {
            None => Ok(Heard { error: context.error.take(), refusal: context.refusal.take() }),
            Some(crash) => {
                self.crashed.store(true, Ordering::Release);
                self.file.endless.fetch_add(crash.endless.into(), Ordering::Relaxed);
                self.pool.store(ptr::null_mut(), Ordering::Release);
                self.file.machines.forget(machine);
                Err(crash)
            }
        }
    }

    /// For bare calls.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// For bare calls.
    pub(crate) fn pool(&self) -> *mut DmaPool {
        self.pool.load(Ordering::Acquire)
    }

    fn living(&self) -> Option<*mut DmaPool> {
        Some(self.pool.load(Ordering::Acquire)).filter(|pool| !pool.is_null())
    }

    /// What is left of a pool that was not in use.
    fn expect_nothing_left(&self) {
        let objects = self.objects.load(Ordering::Relaxed);
        if objects != 0 {
            let seen = match objects {
                1.. => format!("{objects} objects of kmalloc were not freed when an idle pool was destroyed"),
                _ => format!("{} objects more were freed than kmalloc made", objects.unsigned_abs()),
            };
            self.host.remark(Remark::Broke { promise: Promise::NoLeak, seen });
        }
    }
}

impl Pool for KernelPool {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let pool = self.living().ok_or_else(|| AllocError::Other(GONE.to_owned()))?;
        let (mut vaddr, mut dma): (*mut c_void, u64) = (ptr::null_mut(), 0);
        let heard = self
            .call("dma_pool_alloc", flags.may_sleep, |call| {
                // SAFETY: the file made the pool, and it lives; both results are variables here.
                unsafe {
                    (self.file.calls.alloc)(call, pool, c_int::from(flags.zero), &raw mut vaddr, &raw mut dma);
                }
            })
            .map_err(|Crash { at, words, .. }| AllocError::Crashed { at, words })?;
        if vaddr.is_null() {
            let null = || AllocError::Other("dma_pool_alloc returned NULL".to_owned());
            return Err(heard.refusal.map_or_else(null, AllocError::Page));
        }
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Ok(Block { cpu: self.host.machine.mirror.address(vaddr.cast()), dma: DmaAddr(dma) })
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let pool = self.living().ok_or_else(|| FreeError::Other(GONE.to_owned()))?;
        let vaddr = self.host.machine.mirror.pointer(block.cpu);
        let heard = self
            .call("dma_pool_free", false, |call| {
                // SAFETY: the file made the pool, and it lives. What it does with a wrong block is what is to be seen.
                unsafe { (self.file.calls.free)(call, pool, vaddr.cast(), block.dma.0) };
            })
            .map_err(|crash| FreeError::Crashed(crash.words))?;
        // It returns nothing: that it refused is in its message.
        if let Some(text) = heard.error {
            return Err(FreeError::Other(text));
        }
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let Some(pool) = self.living() else {
            if !self.crashed.load(Ordering::Acquire) {
                return Err(DestroyError::Busy { live: 0, owners: vec![GONE.to_owned()] });
            }
            self.host.give_all_back();
            return Ok(());
        };
        let heard = self
            .call("dma_pool_destroy", true, |call| {
                // SAFETY: the file made the pool, and it lives; it is not used afterwards.
                unsafe { (self.file.calls.destroy)(call, pool) };
            })
            .map_err(|crash| DestroyError::Crashed(crash.words))?;
        self.pool.store(ptr::null_mut(), Ordering::Release);
        match heard.error {
            // It says that it is busy, and not by how much.
            Some(text) => {
                let live = usize::try_from(self.in_use.load(Ordering::Relaxed)).unwrap_or(0);
                Err(DestroyError::Busy { live, owners: vec![text] })
            }
            None => {
                self.expect_nothing_left();
                Ok(())
            }
        }
    }

    fn pages(&self) -> usize {
        self.host.pages()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.host.take_remarks()
    }
}
