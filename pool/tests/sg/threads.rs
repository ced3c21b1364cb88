//! Several threads on one source: what one allocates another frees.

use std::sync::{Barrier, Mutex};
use std::thread;

use bus::CpuAddr;
use pool::Flags;
use pool::sg::{ChunkSource, PAGE};

use crate::machine::Machine;

const THREADS: u64 = 4;
const ROUNDS: u64 = 400;

/// Marks a chunk on both ends.
fn mark(machine: &Machine, source: &dyn ChunkSource, at: CpuAddr, len: u64, value: u64) {
    for at in [at, at.offset(len - 8)] {
        machine.memory.write_u64(source.linear(at).expect("mapped"), value).expect("memory");
    }
}

fn expect_mark(machine: &Machine, source: &dyn ChunkSource, at: CpuAddr, len: u64, value: u64) {
    for at in [at, at.offset(len - 8)] {
        let found = machine.memory.read_u64(source.linear(at).expect("mapped")).expect("memory");
        assert_eq!(found, value, "{len} bytes at {at}: another thread has them too");
    }
}

#[test]
fn threads_that_free_each_others_chunks_share_none_and_lose_none() {
    let machine = Machine::new(2048);
    for (name, source) in machine.sources() {
        let passed: Mutex<Vec<(CpuAddr, u64, u64)>> = Mutex::default();
        let ready = Barrier::new(THREADS as usize);
        let work = |thread: u64| {
            let mut own = Vec::new();
            ready.wait();
            for round in 0..ROUNDS {
                let len = if (round + thread).is_multiple_of(3) { PAGE } else { 32 << (round % 7) };
                let at = source.alloc(len, Flags::KERNEL).expect("memory enough");
                let value = thread << 32 | round;
                mark(&machine, &*source, at, len, value);
                own.push((at, len, value));
                if own.len() > 5 {
                    passed.lock().expect("no panic").append(&mut own);
                }
                let other = passed.lock().expect("no panic").pop();
                if let Some((at, len, value)) = other.filter(|_| round % 2 == 1) {
                    expect_mark(&machine, &*source, at, len, value);
                    source.free(at, len).expect("taken back");
                } else {
                    passed.lock().expect("no panic").extend(other);
                }
            }
            passed.lock().expect("no panic").append(&mut own);
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        for (at, len, value) in passed.into_inner().expect("no panic") {
            expect_mark(&machine, &*source, at, len, value);
            source.free(at, len).expect("taken back");
        }
        drop(source);
        assert_eq!(machine.pages.free_count(), 2048, "{name}");
    }
}
