//! `poolproof usb`: a command with a simulated board on its USB bus.

use std::io::{self, Write};
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use scenarios::gadgets::source_sink::{SourceSinkConfig, SourceSinkGadget};
use scenarios::gadgets::{EthernetConfig, EthernetGadget, FastbootConfig, FastbootGadget};
use scenarios::{Absence, Bench, LiveError, PortPath, ServedBus, VirtualBoard, policy};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

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
    // First of all: whatever ends this program must not leave the bus's folder behind.
    let signals = Signals::register()?;
    let served = ServedBus::start().map_err(Error::internal)?;
    let board = plug(&served, bench, arguments.gadget).map_err(|error| Error::usage(error.to_string()))?;
    if let Some(signal) = appears(&board, &signals)? {
        return Ok(ended_by(signal));
    }
    let mut command = served.command(program).map_err(|error| Error::internal(error.to_string()))?;
    let child = command.args(rest).spawn();
    let child = child.map_err(|error| Error::usage(format!("cannot start {program:?}: {error}")))?;
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
/// it would on a real host; the host's log says why. Returns a signal that came meanwhile.
fn appears(board: &VirtualBoard, signals: &Signals) -> Result<Option<i32>, Error> {
    let end = Instant::now() + APPEARS;
    let complains = || board.log().iter().any(|line| line.text.contains(", error -"));
    loop {
        match board.wait(LOOK) {
            Ok(_) => return Ok(None),
            Err(Absence::Failed(why)) if !complains() => return Err(Error::internal(why)),
            Err(_) => {}
        }
        if let Some(signal) = signals.take() {
            return Ok(Some(signal));
        }
        if complains() || Instant::now() > end {
            let mut out = io::stderr().lock();
            writeln!(out, "poolproof: the host sees no device:")?;
            board.log().iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            return Ok(None);
        }
    }
}

/// Signals that end this program: they end the command first, so that nothing is left behind.
struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// How long the command may take to end after a signal.
    const GRACE: Duration = Duration::from_secs(2);

    fn register() -> Result<Self, Error> {
        let received = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Signal numbers are small and positive.
            let registered = signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize);
            registered.map_err(|error| Error::internal(format!("signal {signal}: {error}")))?;
        }
        Ok(Self(received))
    }

    /// A signal that came since the last look.
    fn take(&self) -> Option<i32> {
        i32::try_from(self.0.swap(0, Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    /// Waits for the command. A signal goes on to it; if it does not end by that, it is killed.
    fn wait(&self, mut child: Child) -> Result<ExitStatus, Error> {
        let mut ends_by: Option<Instant> = None;
        loop {
            let status = child.try_wait().map_err(|error| Error::internal(format!("the command is lost: {error}")))?;
            if let Some(status) = status {
                return Ok(status);
            }
            if let Some(signal) = self.take() {
                pass_on(signal, &child);
                ends_by.get_or_insert_with(|| Instant::now() + Self::GRACE);
            }
            if ends_by.is_some_and(|end| Instant::now() > end) {
                // It may have ended by itself meanwhile.
                let _ = child.kill();
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Sends a signal on to the command. From a terminal it has SIGINT already; a second one does no harm.
fn pass_on(signal: i32, child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    if let Some(pid) = pid {
        // It may have ended by itself meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// As a shell shows that a signal ended a program.
fn ended_by(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(255))
}

/// The command's own status; 128 and the signal's number as a shell has it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    ExitCode::from(u8::try_from(code).unwrap_or(255))
}
