//! What the bus costs: run it in release. In this process, and across processes with the shared library preloaded.

#![allow(clippy::print_stdout, reason = "the figures are its output")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Bench, LOOP_IN, LOOP_OUT, SILENT_IN};

const LONG: Duration = Duration::from_secs(60);

/// CPU time of this process, all threads.
fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the structure when it returns 0, and RUSAGE_SELF cannot fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::loopback("figures");
    let attached = bench.attach(common::new_bus());
    let devices = rusb::devices()?;
    let device = devices.iter().find(|device| device.address() == attached.address()).ok_or("not listed")?;
    let handle = device.open()?;
    handle.claim_interface(0)?;
    handle.claim_interface(1)?;

    println!("in this process");
    let mut buffer = [0; 64];
    let start = Instant::now();
    for _ in 0..2000 {
        handle.write_bulk(LOOP_OUT, b"getvar:version", LONG)?;
        handle.read_bulk(LOOP_IN, &mut buffer, LONG)?;
    }
    println!("4000 small bulk transfers: {:?}", start.elapsed());
    let (start, cpu) = (Instant::now(), cpu_time());
    let result = handle.read_bulk(SILENT_IN, &mut buffer, Duration::from_millis(300));
    println!("300 ms timeout: {result:?} after {:?}, {:?} of CPU", start.elapsed(), cpu_time() - cpu);
    drop(handle);

    println!("across processes");
    let server = usbfs_shim::serve()?;
    let program = std::env::current_exe()?.with_file_name("rusb_program");
    let place = [attached.bus().to_string(), attached.address().to_string()];
    let status = server.command(program)?.arg("speed").args(place).status()?;
    if status.success() { Ok(()) } else { Err(status.to_string().into()) }
}
