//! The board in QEMU: a Linux kernel drives the controller.

use std::io::{self, Write};
use std::process::ExitCode;

use qemu::{Board, BoardConfig, BoardError, Cache, DriverFiles, Record, Side};
use scenarios::{PortPath, ServedBus};

use crate::cli::{Gadget, Usb};
use crate::error::Error;
use crate::signals::{Signals, ended_by};

/// Lines of the board's console that an error shows.
const SHOWN: usize = 20;

/// Runs the command with such a board on the bus.
pub(super) fn on_kernel(
    arguments: &Usb,
    port: PortPath,
    served: &ServedBus,
    signals: &mut Signals,
    run: impl FnOnce(&mut Signals) -> Result<ExitCode, Error>,
) -> Result<ExitCode, Error> {
    if arguments.pool.is_some() || !arguments.kernel_c.dmapool_c.is_empty() {
        return Err(Error::usage("--pool is for a board with --board model: a kernel has its own pools"));
    }
    let gadget = match arguments.gadget {
        Gadget::Ethernet => "ether",
        Gadget::SourceSink => "source-sink",
        Gadget::Fastboot => return Err(Error::usage("--gadget fastboot is a boot loader's: no kernel has it")),
    };
    let record = Record::new(|_| ());
    let start = || {
        let cache = Cache::open(None)?;
        let config = BoardConfig {
            gadget: gadget.to_owned(),
            speed: arguments.speed.into(),
            endpoints: arguments.endpoints,
            port,
            signal: signals.last(),
            ..BoardConfig::new(cache.kernel(arguments.kernel.as_deref().unwrap_or("6.12"))?)
        };
        Board::start(&cache, &config, record.clone(), Some(served.bus()))
    };
    let mut board = match start() {
        Ok(board) => board,
        Err(error) => return failed(&error, &record),
    };
    match board.ready().and_then(|()| board.enumerated()) {
        Ok(_) => {}
        // The command runs all the same, as it would on a real host; what both sides say is printed.
        Err(BoardError::Host(_)) => no_device(&mut board, &record)?,
        Err(error) => return failed(&error, &record),
    }
    run(signals)
}

/// What the host says, and the driver has for the controller.
fn no_device(board: &mut Board, record: &Record) -> Result<(), Error> {
    let driver = DriverFiles::of(board);
    let mut out = io::stderr().lock();
    writeln!(out, "poolproof: the host sees no device:")?;
    record.of(Side::Host).iter().try_for_each(|entry| writeln!(out, "  {entry}"))?;
    match driver {
        Ok(files) => {
            for (name, text) in &files.files {
                text.lines().try_for_each(|line| writeln!(out, "  {name} | {line}"))?;
            }
            writeln!(out, "\n{}", files.explanation())?;
        }
        Err(error) => writeln!(out, "poolproof: the board tells nothing of its driver: {error}")?,
    }
    Ok(())
}

fn failed(error: &BoardError, record: &Record) -> Result<ExitCode, Error> {
    match error {
        BoardError::Signal(signal) => Ok(ended_by(*signal)),
        BoardError::Setup(_) => Err(Error::internal(error.to_string())),
        _ => {
            let console = record.of(Side::Board);
            let last = console.iter().skip(console.len().saturating_sub(SHOWN));
            let mut out = io::stderr().lock();
            last.into_iter().try_for_each(|entry| writeln!(out, "{entry}"))?;
            Err(Error::internal(error.to_string()))
        }
    }
}
