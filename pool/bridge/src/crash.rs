//! What a call that did not come back is called.

use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

use bus::CpuAddr;

use crate::abi::{self, Call};
use crate::mirror::Mirror;

/// Why a call did not come back.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The address that a fault was about.
    pub at: CpuAddr,
    /// One line.
    pub words: String,
    /// Whether it had to be stopped: that takes its time.
    pub endless: bool,
}

impl Crash {
    /// Of a call that has ended; `None` if it came back.
    #[must_use]
    pub fn of(call: &Call, function: &str, mirror: &Mirror, names: &Names) -> Option<Self> {
        if call.end == abi::RETURNED {
            return None;
        }
        let at = mirror.address(call.address.cast_const().cast());
        let place = names.place(call.instruction.addr());
        let what = match call.end {
            abi::SIGNAL => format!("{} at {at}", signal_name(call.signal)),
            abi::ENDLESS => "it does not come to an end".to_owned(),
            _ => words(call),
        };
        let at = if call.end == abi::SIGNAL { at } else { CpuAddr(0) };
        Some(Self { at, words: format!("{function} did not return: {what}{place}"), endless: call.end == abi::ENDLESS })
    }
}

fn words(call: &Call) -> String {
    // SAFETY: the runtime ends it with 0, and it was all 0 before.
    let words = unsafe { CStr::from_ptr(call.words.as_ptr()) };
    words.to_string_lossy().into_owned()
}

fn signal_name(signal: c_int) -> &'static str {
    match signal {
        libc::SIGSEGV => "a fault (SIGSEGV)",
        libc::SIGBUS => "a fault (SIGBUS)",
        libc::SIGILL => "an illegal instruction (SIGILL)",
        libc::SIGFPE => "an arithmetic fault (SIGFPE)",
        _ => "a signal",
    }
}

/// Names for instructions of an object.
#[derive(Debug)]
pub struct Names {
    /// The object.
    pub object: PathBuf,
}

impl Names {
    /// Where an instruction is: `, in mm/dmapool.c:377 (dma_pool_alloc)`, as far as it can be told.
    fn place(&self, instruction: usize) -> String {
        let Some(base) = base(instruction) else { return String::new() };
        addr2line(&self.object, instruction - base).map_or_else(String::new, |place| format!(", in {place}"))
    }
}

/// Where the object with that instruction is loaded.
fn base(instruction: usize) -> Option<usize> {
    // SAFETY: all zero is a value of it.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr takes any address.
    let found = unsafe { libc::dladdr(std::ptr::without_provenance(instruction), &raw mut info) };
    (found != 0).then(|| info.dli_fbase.addr())
}

/// Asks binutils, which came with the compiler.
fn addr2line(object: &Path, offset: usize) -> Option<String> {
    let output = Command::new("addr2line").args(["-f", "-e"]).arg(object).arg(format!("{offset:#x}")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let (function, place) = (lines.next()?, lines.next()?);
    let place = place.split(" (").next()?;
    (!place.starts_with('?')).then(|| format!("{place} ({function})"))
}
