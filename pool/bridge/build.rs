//! Compiles what guards calls into kernel files: jumps out of a signal handler are C's.

fn main() {
    println!("cargo::rerun-if-changed=shim/abi.h");
    println!("cargo::rerun-if-changed=shim/guard");
    cc::Build::new().file("shim/guard/guard.c").warnings(true).compile("poolproof-guard");
}
