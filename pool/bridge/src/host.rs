//! What this program does for a file while it is called: pages, messages, complaints.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bus::DmaAddr;
use parking_lot::Mutex;
use pool::{Flags, PageError, PageSource, Pages, Promise, Remark};

use crate::abi;
use crate::machine::Machine;

/// The kernel's level of an error (`KERN_ERR`).
const ERROR: u8 = 3;

/// The functions behind `struct pp_host`. The context of a call is its [`Context`].
pub(crate) static HOST: abi::Host = abi::Host { dma_alloc, dma_free, print, has_record, complain, shown };

/// One call: the pool's host, and what came up in it.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    /// The last error that the file printed.
    pub(crate) error: RefCell<Option<String>>,
    /// Why the source gave nothing.
    pub(crate) refusal: Cell<Option<PageError>>,
}

/// What a pool gets from this program.
pub(crate) struct Host {
    pub(crate) machine: Arc<Machine>,
    source: Arc<dyn PageSource>,
    state: Mutex<State>,
    /// Whether `state` has remarks, so that a call without any costs no lock.
    has_remarks: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Pages that the pool has, by their DMA address.
    pages: BTreeMap<u64, Pages>,
    remarks: Vec<Remark>,
}

impl Host {
    pub(crate) fn new(machine: Arc<Machine>, source: Arc<dyn PageSource>) -> Self {
        Self { machine, source, state: Mutex::default(), has_remarks: AtomicBool::new(false) }
    }

    pub(crate) fn page_size(&self) -> u64 {
        self.source.page_size()
    }

    /// Pages that the pool has.
    pub(crate) fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }

    /// Remarks so far, once.
    pub(crate) fn take_remarks(&self) -> Vec<Remark> {
        if !self.has_remarks.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut self.state.lock().remarks)
    }

    pub(crate) fn remark(&self, remark: Remark) {
        self.state.lock().remarks.push(remark);
        self.has_remarks.store(true, Ordering::Release);
    }

    /// Gives back what a pool that crashed still has.
    pub(crate) fn give_all_back(&self) {
        let pages = std::mem::take(&mut self.state.lock().pages);
        pages.into_values().for_each(|pages| self.source.free(pages));
    }

    fn alloc(&self, size: usize, may_sleep: bool) -> Result<Pages, PageError> {
        let pages = self.source.alloc(size as u64, Flags { zero: false, may_sleep })?;
        self.state.lock().pages.insert(pages.dma.0, pages);
        Ok(pages)
    }

    fn free(&self, size: usize, vaddr: *mut u8, dma: DmaAddr) {
        let cpu = self.machine.mirror.address(vaddr);
        let known = self.state.lock().pages.remove(&dma.0);
        let whole = |pages: &Pages| pages.cpu == cpu && pages.len == (size as u64).next_multiple_of(self.page_size());
        match known {
            Some(pages) if whole(&pages) => self.source.free(pages),
            Some(pages) => {
                let seen = format!(
                    "dma_free_coherent of {size} bytes at {cpu} / {dma}, where {} bytes at {} are",
                    pages.len, pages.cpu
                );
                self.remark(Remark::Broke { promise: Promise::OwnPages, seen });
                self.source.free(pages);
            }
            None => {
                let seen = format!("dma_free_coherent of {cpu} / {dma}, which the pool does not have");
                self.remark(Remark::Broke { promise: Promise::OwnPages, seen });
            }
        }
    }
}

/// Runs a callback; a panic in it must not go through frames of C, and is the source's. The call ends without an answer.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// # Safety
/// `context` is the context of the call that is under way.
unsafe fn context<'a>(context: *mut c_void) -> &'a Context<'a> {
    // SAFETY: every call is made with a pointer to its context, which outlives the call and stays on its thread.
    unsafe { &*context.cast::<Context<'a>>() }
}

unsafe extern "C" fn dma_alloc(context: *mut c_void, size: usize, dma: *mut u64, may_sleep: c_int) -> *mut c_void {
    // SAFETY: called by the runtime with the call's context.
    let call = unsafe { self::context(context) };
    match contained(|| call.host.alloc(size, may_sleep != 0)) {
        Some(Ok(pages)) => {
            // SAFETY: a variable of the runtime's.
            unsafe { dma.write(pages.dma.0) };
            call.host.machine.mirror.pointer(pages.cpu).cast()
        }
        Some(Err(refusal)) => {
            call.refusal.set(Some(refusal));
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn dma_free(context: *mut c_void, size: usize, vaddr: *mut c_void, dma: u64) {
    // SAFETY: called by the runtime with the call's context.
    let call = unsafe { self::context(context) };
    contained(|| call.host.free(size, vaddr.cast(), DmaAddr(dma)));
}

/// # Safety
/// `text` has `length` bytes.
unsafe fn line(text: *const c_char, length: usize) -> String {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

unsafe extern "C" fn print(context: *mut c_void, level: c_int, text: *const c_char, length: usize) {
    // SAFETY: called by the runtime with the call's context and a buffer of its own.
    let (call, text) = unsafe { (self::context(context), line(text, length)) };
    let level = u8::try_from(level).unwrap_or(4);
    if level <= ERROR {
        call.error.replace(Some(text.clone()));
    }
    contained(|| call.host.remark(Remark::Printed { level, text }));
}

unsafe extern "C" fn has_record(context: *mut c_void) -> c_int {
    // SAFETY: called by the runtime with the call's context.
    let call = unsafe { self::context(context) };
    contained(|| call.host.source.has_record()).unwrap_or(true).into()
}

unsafe extern "C" fn complain(context: *mut c_void, kind: c_int, text: *const c_char, length: usize) {
    // SAFETY: called by the runtime with the call's context and a buffer of its own.
    let (call, seen) = unsafe { (self::context(context), line(text, length)) };
    let promise = if kind == abi::SLEPT { Promise::NoSleep } else { Promise::Sound };
    contained(|| call.host.remark(Remark::Broke { promise, seen }));
}

unsafe extern "C" fn shown(context: *mut c_void, pointer: *const c_void) -> u64 {
    // SAFETY: called by the runtime with the call's context.
    unsafe { self::context(context) }.host.machine.mirror.address(pointer.cast()).0
}
