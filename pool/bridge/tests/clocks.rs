//! Each file has a clock of its own on every thread, which finds calls without end. They strike at the same time.

use std::fs;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use c_bridge::{KernelFile, Options};
use pool::{Flags, Geometry, Memory, PageAllocator, PageOrder, Pool, Span};

/// So many that their signals' frames, 1 KiB each on the smallest processor, would not fit on a signal stack of 8 KiB.
const FILES: usize = 12;
/// More processor time than a clock runs.
const BUSY_NS: i64 = 300_000_000;

fn pools() -> (tempfile::TempDir, Vec<Box<dyn Pool>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let span = Span { cpu: CpuAddr(0xffff_0000_4000_0000), dma: DmaAddr(0x8000_0000), len: 1 << 20 };
    let memory = Memory::new(&[span]).expect("1 MiB");
    let source = PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, PageOrder::Forward);
    let pool = |number: usize| {
        let path = folder.path().join(format!("{number}.c"));
        fs::write(&path, include_str!("pools/plain.c")).expect("written");
        let options = Options { cache: Some(folder.path().join("cache")), ..Options::default() };
        let file = KernelFile::open(&path, &options).unwrap_or_else(|error| panic!("{error}"));
        let geometry = Geometry { size: 64, align: 64, boundary: 0 };
        (file.policy("plain.c").create)(Arc::clone(&memory), Arc::clone(&source) as _, geometry).expect("a pool")
    };
    let pools = (0..FILES).map(pool).collect();
    (folder, pools)
}

/// Processor time that this thread has had, in nanoseconds.
fn thread_time() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock that Linux has, and a variable here.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Holds the clocks' signal back on this thread, or lets it come.
fn mask(how: libc::c_int) {
    // SAFETY: an empty set gets one signal, and is this thread's.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGVTALRM);
        libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
    }
}

#[test]
fn clocks_that_strike_together_do_not_fill_the_signal_stack() {
    let (_folder, pools) = pools();
    mask(libc::SIG_BLOCK);
    let until = thread_time() + BUSY_NS;
    while thread_time() < until {}
    mask(libc::SIG_UNBLOCK);
    for pool in pools {
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        pool.free(block).expect("taken back");
        pool.destroy().expect("idle");
    }
}
