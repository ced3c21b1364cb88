//! Kernels against the driver in this process.

use qemu::Glue;
use usb::Speed;

use crate::variant::{Function, Variant};
use crate::{kernel, process, reasons, snapshot};

/// The kernels that `qemu/setup` brings.
const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// All variants of a glue have one snapshot: neither speed nor function make a difference.
fn compare(series: &str, variant: Variant) {
    let seen = kernel::traffic(series, variant);
    let here = process::traffic(variant, &seen.release);
    match reasons::explained(&here, &seen.sections) {
        Ok(difference) => snapshot::assert(&format!("{series}_{}", variant.glue.name()), &difference),
        Err(unexplained) => panic!("{series} {}: {unexplained}", variant.name()),
    }
}

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_the_oldest_kernel_does_what_the_driver_here_does() {
    compare("6.1", Variant { glue: Glue::Msm, speed: Speed::High, function: Function::Ecm });
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn every_kernel_does_what_the_driver_here_does() {
    for series in KERNELS {
        Variant::all().for_each(|variant| compare(series, variant));
    }
}
