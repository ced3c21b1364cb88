//! The program as its users start it: exit status, messages, formats, and a real bisection.

mod bisect;
mod exit_status;
mod formats;
mod observed;
mod readme;
#[cfg(target_os = "linux")]
mod serve;
mod session;
#[cfg(target_os = "linux")]
mod usb;

use std::process::{Command, Output};

/// Runs the program with these arguments.
fn poolproof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_poolproof")).args(arguments).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}
