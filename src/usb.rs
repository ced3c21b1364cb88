//! `poolproof usb`: a command with a simulated board on its USB bus.

mod kernel;

use std::io::{self, Write};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use scenarios::gadgets::source_sink::{SourceSinkConfig, SourceSinkGadget};
use scenarios::gadgets::{EthernetConfig, EthernetGadget, FastbootConfig, FastbootGadget};
use scenarios::{Absence, Bench, CommandError, LiveError, PortPath, ServedBus, VirtualBoard};

use crate::cli::{Board, Gadget, Usb};
use crate::error::Error;
use crate::names;
use crate::signals::{Received, Signals, ended_by};

/// How long a board may take until its device is there or its host has complained.
const APPEARS: Duration = Duration::from_secs(20);
/// What `--port` may be.
const PLACES: &str = "bus 1 to 255, one to six ports from 1 to 15";
/// How often it is looked at, and the command too.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the command and gives its status.
pub(crate) fn usb(arguments: &Usb) -> Result<ExitCode, Error> {
    let port: PortPath = arguments.port.parse().map_err(|error| Error::usage(format!("--port: {error}: {PLACES}")))?;
    let [program, rest @ ..] = &arguments.command[..] else {
        return Err(Error::usage("no command: expected `poolproof usb -- COMMAND…`"));
    };
    // First of all: whatever ends this program must not leave the bus's folder behind.
    let mut signals = Signals::register()?;
    let served = ServedBus::start().map_err(Error::internal)?;
    let mut command = served.command(program).map_err(|error| match error {
        CommandError::Program(error) => Error::usage(error.to_string()),
        CommandError::Library(error) => Error::internal(error.to_string()),
    })?;
    command.args(rest);
    let run = |signals: &mut Signals| {
        signals.spare_children();
        let child = command.spawn().or_else(|error| {
            // execvp(3) gives a script without its `#!` to the shell.
            if error.raw_os_error() != Some(Errno::NOEXEC.raw_os_error()) {
                return Err(error);
            }
            let shell =
                served.command("/bin/sh").map_err(io::Error::other)?.arg(command.get_program()).args(rest).spawn();
            shell.map_err(|_| error)
        });
        let child = child.map_err(|error| Error::usage(format!("cannot start {program:?}: {error}")))?;
        signals.wait(child, LOOK).map(code)
    };
    match arguments.board {
        Board::Model => on_model(arguments, port, &served, &mut signals, run),
        Board::Qemu => kernel::on_kernel(arguments, port, &served, &mut signals, run),
    }
}

/// With a board in this program.
fn on_model(
    arguments: &Usb,
    port: PortPath,
    served: &ServedBus,
    signals: &mut Signals,
    run: impl FnOnce(&mut Signals) -> Result<ExitCode, Error>,
) -> Result<ExitCode, Error> {
    if arguments.kernel.is_some() {
        return Err(Error::usage("--kernel is for a board with --board qemu: the model has no kernel"));
    }
    let (policy, pool) = match &arguments.kernel_c.dmapool_c[..] {
        [] => {
            let name = arguments.pool.as_deref().unwrap_or("linked");
            (names::pool(name)?, format!("--pool {name}"))
        }
        [path] => {
            let name = path.display().to_string();
            (arguments.kernel_c.policy(path, &name)?, arguments.kernel_c.words(&name))
        }
        _ => return Err(Error::usage("a board has one pool: one --dmapool-c")),
    };
    let bench = Bench::new().pool(policy).endpoints(arguments.endpoints).speed(arguments.speed.into()).port(port);
    let board = plug(served, bench, arguments.gadget).map_err(|error| Error::usage(error.to_string()))?;
    match appears(&board, signals, &pool, arguments.endpoints)? {
        Some(received) => Ok(ended_by(received.signal)),
        None => run(signals),
    }
}

fn plug(served: &ServedBus, bench: Bench, gadget: Gadget) -> Result<VirtualBoard, LiveError> {
    let bus = served.bus();
    match gadget {
        Gadget::Ethernet => bus.plug(bench, EthernetGadget::new(EthernetConfig::default())),
        Gadget::Fastboot => {
            let system = EthernetGadget::new(EthernetConfig::default());
            bus.plug_with_loader(bench, FastbootGadget::new(FastbootConfig::default()), system)
        }
        Gadget::SourceSink => bus.plug(bench, SourceSinkGadget::new(SourceSinkConfig::default())),
    }
}

/// Waits until the device is there or the host has an error to tell. Without a device the command runs all the same, as
/// it would on a real host; what the host and the bench saw is printed. Returns a signal that came meanwhile.
fn appears(board: &VirtualBoard, signals: &mut Signals, pool: &str, endpoints: u8) -> Result<Option<Received>, Error> {
    let end = Instant::now() + APPEARS;
    let complains = || board.log().iter().any(|line| line.text.contains(", error -"));
    loop {
        match board.wait(LOOK) {
            Ok(_) => return Ok(None),
            Err(Absence::Failed(why)) if !complains() => return Err(Error::internal(why)),
            Err(_) => {}
        }
        if let Some(received) = signals.take() {
            return Ok(Some(received));
        }
        if complains() || Instant::now() > end {
            let mut out = io::stderr().lock();
            writeln!(out, "poolproof: the host sees no device:")?;
            board.log().iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            board.reasons().iter().try_for_each(|line| writeln!(out, "reason: {line}"))?;
            let run = format!("poolproof run bootloader-to-ethernet {pool} --endpoints {endpoints}");
            writeln!(out, "poolproof: `{run}` says more, with `--trace` every access")?;
            return Ok(None);
        }
    }
}

/// The command's own status; 128 and the signal's number as a shell has it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}
