//! The command line of poolproof: proves DMA pool changes against the device models that live on them.

mod base;
mod bench;
mod check;
mod cli;
mod error;
mod exit;
mod explain;
mod input;
mod kernel_c;
mod list;
mod mutants;
mod names;
mod observed;
mod output;
mod progress;
mod repeat;
mod report;
mod run;
mod sanitizer;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod signals;
mod udc_c;
#[cfg(target_os = "linux")]
mod usb;
mod verdicts;

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Command, KernelC};
use error::Error;
use exit::Exit;

fn main() -> ExitCode {
    // A panic is a defect of poolproof, and must not look like a broken pool to a bisection. The hook prints it.
    let exit = panic::catch_unwind(|| match Cli::try_parse() {
        Ok(cli) => execute(&cli),
        Err(error) => refuse(&error),
    });
    match exit.unwrap_or(Ok(Exit::Internal.into())) {
        Ok(exit) => exit,
        Err(error) => {
            if !error.message.is_empty() {
                // If stderr is not there, the status still tells.
                let _ = writeln!(io::stderr(), "poolproof: {error}");
            }
            error.exit.into()
        }
    }
}

/// Help and version, or what is wrong with the arguments.
fn refuse(error: &clap::Error) -> Result<ExitCode, Error> {
    if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Ok(Exit::Usage.into());
    }
    let text = error.render();
    let mut out = output::stdout()?;
    if io::stdout().is_terminal() { write!(out, "{}", text.ansi()) } else { write!(out, "{text}") }?;
    out.flush()?;
    Ok(Exit::NoFailure.into())
}

/// The kernel files of a command that takes some.
const fn kernel_c(command: &Command) -> Option<&KernelC> {
    match command {
        Command::Check(arguments) => Some(&arguments.kernel_c),
        Command::Run(arguments) => Some(&arguments.kernel_c),
        Command::Mutants(arguments) => Some(&arguments.kernel_c),
        #[cfg(target_os = "linux")]
        Command::Usb(arguments) => Some(&arguments.kernel_c),
        _ => None,
    }
}

fn execute(cli: &Cli) -> Result<ExitCode, Error> {
    if let Some(exit) = kernel_c(&cli.command).map_or(Ok(None), sanitizer::rerun)? {
        return Ok(exit);
    }
    let mut out = output::stdout()?;
    let exit = match &cli.command {
        Command::Check(arguments) => check::check(&mut out, arguments),
        Command::Run(arguments) => run::run(&mut out, arguments),
        Command::Explain(arguments) => explain::explain(&mut out, arguments),
        Command::Mutants(arguments) => mutants::mutants(&mut out, arguments),
        Command::Bench(arguments) => bench::bench(&mut out, arguments),
        Command::List => list::list(&mut out).map(|()| Exit::NoFailure),
        #[cfg(target_os = "linux")]
        Command::Usb(arguments) => return usb::usb(arguments),
        #[cfg(target_os = "linux")]
        Command::Serve(arguments) => return serve::serve(&mut out, arguments),
    }?;
    out.flush()?;
    Ok(exit.into())
}
