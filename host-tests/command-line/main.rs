//! The program as its users start it: exit status, messages, formats, and a real bisection.

#[cfg(target_os = "linux")]
mod bench;
mod bisect;
mod errata;
mod exit_status;
mod explain;
mod formats;
mod hostile;
mod kernel_c;
mod mutants;
mod observed;
mod readme;
mod schedules;
#[cfg(target_os = "linux")]
mod serve;
mod session;
mod udc_c;
#[cfg(target_os = "linux")]
mod usb;

use std::process::{Command, Output};

/// Runs the program with these arguments.
fn poolproof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_poolproof")).args(arguments).output().expect("the program starts")
}

/// A program that takes signals as from a terminal, though a job of a shell or of `nohup` ignores some and hands that down.
#[cfg(target_os = "linux")]
fn heedful(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}
