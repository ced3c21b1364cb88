//! `poolproof usb`: a command with a simulated board on its USB bus.

use std::io::{self, Write};
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scenarios::gadgets::source_sink::{SourceSinkConfig, SourceSinkGadget};
use scenarios::gadgets::{EthernetConfig, EthernetGadget, FastbootConfig, FastbootGadget};
use scenarios::{Bench, LiveError, PortPath, ServedBus, VirtualBoard, policy};

use crate::cli::{Gadget, Usb};
use crate::error::Error;
use crate::names::find;

/// How long a board may take until its device is there or its host has complained.
const APPEARS: Duration = Duration::from_secs(20);
/// How often it is looked at, and the command too.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the command and gives its status.
pub(crate) fn usb(arguments: &Usb) -> Result<ExitCode, Error> {
    let policy = find("pool", &arguments.pool, policy::table(), |policy| &policy.name)?;
    let port: PortPath = arguments.port.parse().map_err(|error| Error::usage(format!("--port: {error}")))?;
    let [program, rest @ ..] = &arguments.command[..] else {
        return Err(Error::usage("no command: expected `poolproof usb -- COMMAND…`"));
    };
    let bench = Bench::new().pool(policy).endpoints(arguments.endpoints).speed(arguments.speed.into()).port(port);
    let served = ServedBus::start().map_err(Error::internal)?;
    let board = plug(&served, bench, arguments.gadget).map_err(|error| Error::usage(error.to_string()))?;
    appears(&board)?;
    let mut command = served.command(program).map_err(|error| Error::internal(error.to_string()))?;
    let signals = Signals::register()?;
    let child = command.args(rest).spawn();
    let child = child.map_err(|error| Error::usage(format!("cannot start {}: {error}", program.display())))?;
    let status = signals.wait(child)?;
    drop(board);
    Ok(code(status))
}

fn plug(served: &ServedBus, bench: Bench, gadget: Gadget) -> Result<VirtualBoard, LiveError> {
    let bus = served.bus();
    match gadget {
        Gadget::Ethernet => bus.plug(bench, EthernetGadget::new(EthernetConfig::default())),
        Gadget::Fastboot => bus.plug(bench, FastbootGadget::new(FastbootConfig::default())),
        Gadget::SourceSink => bus.plug(bench, SourceSinkGadget::new(SourceSinkConfig::default())),
    }
}

/// Waits until the device is there or the host has an error to tell. Without a device the command runs all the same, as
/// it would on a real host; the host's log says why.
fn appears(board: &VirtualBoard) -> Result<(), Error> {
    let end = Instant::now() + APPEARS;
    let complains = || board.log().iter().any(|line| line.text.contains(", error -"));
    while board.wait(LOOK).is_err() {
        if complains() || Instant::now() > end {
            let mut out = io::stderr().lock();
            writeln!(out, "poolproof: the host sees no device:")?;
            return board.log().iter().try_for_each(|line| writeln!(out, "  {line}")).map_err(Error::from);
        }
    }
    Ok(())
}

/// Signals that end this program: they end the command first, so that nothing is left behind.
struct Signals(Arc<AtomicBool>);

impl Signals {
    fn register() -> Result<Self, Error> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let registered = signal_hook::flag::register(signal, Arc::clone(&flag));
            registered.map_err(|error| Error::internal(format!("signal {signal}: {error}")))?;
        }
        Ok(Self(flag))
    }

    fn wait(&self, mut child: Child) -> Result<ExitStatus, Error> {
        loop {
            let status = child.try_wait().map_err(|error| Error::internal(format!("the command is lost: {error}")))?;
            if let Some(status) = status {
                return Ok(status);
            }
            if self.0.swap(false, Ordering::Relaxed) {
                // It may have ended by itself meanwhile.
                let _ = child.kill();
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The command's own status; 128 and the signal's number as a shell has it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}
