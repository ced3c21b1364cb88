//! The command line of poolproof: proves DMA pool changes against the device models that live on them.

mod check;
mod cli;
mod error;
mod exit;
mod list;
mod names;
mod progress;
mod report;
mod run;

use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Command};
use error::Error;
use exit::Exit;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::NoFailure,
                _ => Exit::Usage,
            };
            // Help goes to stdout, errors to stderr; if neither is there, the status still tells.
            let _ = error.print();
            return exit.into();
        }
    };
    // A panic is a defect of poolproof, and must not look like a broken pool to a bisection. The hook prints it.
    let exit = panic::catch_unwind(|| execute(&cli)).unwrap_or(Ok(Exit::Internal));
    match exit {
        Ok(exit) => exit.into(),
        Err(error) => {
            if !error.message.is_empty() {
                let _ = writeln!(io::stderr(), "poolproof: {error}");
            }
            error.exit.into()
        }
    }
}

fn execute(cli: &Cli) -> Result<Exit, Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let exit = match &cli.command {
        Command::Check(arguments) => check::check(&mut out, arguments),
        Command::Run(arguments) => run::run(&mut out, arguments),
        Command::List => list::list(&mut out).map(|()| Exit::NoFailure),
    }?;
    out.flush()?;
    Ok(exit)
}
