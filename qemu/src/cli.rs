//! The command line of `qemu/board`.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bus::Trace;
use clap::{Parser, ValueEnum};
use qemu::{Board, BoardConfig, BoardError, Cache, DriverFiles, Entry, Glue, Kernel, Network, Record};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use scenarios::{Observed, PortPath, Speed, Verdict};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A board whose real Linux kernel drives the modelled controller, with a USB host at the other end of its cable.
///
/// Prints what board, host and controller say, each line with the time since the board was switched on. What is typed goes
/// to the board, a command a line: `help` names them.
#[derive(Parser, Debug)]
#[command(name = "qemu/board", bin_name = "qemu/board", version, after_help = EXIT)]
struct Arguments {
    /// The kernel: a series that qemu/setup brought (6.1, 6.12, newest), or an image of your own
    #[arg(long, value_name = "SERIES|IMAGE", default_value = "6.12")]
    kernel: String,

    /// Modules of an image of your own, as `make modules_install INSTALL_MOD_PATH=DIR` wrote them
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,

    /// Linux's glue driver for the controller
    #[arg(long, value_enum, default_value_t = GlueName::Msm)]
    glue: GlueName,

    /// What the gadget is made of: ether, source-sink, serial, mass-storage, several with commas between, or none
    #[arg(long, value_name = "KIND", default_value = "ether", value_parser = gadget)]
    gadget: String,

    /// Further words of the kernel's command line
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    append: String,

    /// The fastest speed of the host's port
    #[arg(long, value_enum, default_value_t = SpeedName::High)]
    speed: SpeedName,

    /// Endpoint numbers of the controller, 4 to 16: with fewer no gadget finds its endpoints
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(4..=16))]
    endpoints: u8,

    /// The configuration that the host selects, instead of the one that Linux would
    #[arg(long, value_name = "VALUE", value_parser = clap::value_parser!(u8).range(1..))]
    configuration: Option<u8>,

    /// The host's port: a bus and hub ports
    #[arg(long, value_name = "PATH", default_value = "5-1.3")]
    port: PortPath,

    /// Enumerate, ping an Ethernet gadget, switch the board off
    #[arg(long, conflicts_with = "shell")]
    once: bool,

    /// A shell on the board's console
    #[arg(long)]
    shell: bool,

    /// Have the kernel log what its DMA pools do, and judge that at the end of --once, or whenever `observed` is typed:
    /// pool contract, lifetimes, layouts, and the controller's accesses, ordered against it or order unknown. Debian's
    /// kernels can; one of your own needs kprobe events and debugfs
    #[arg(long, conflicts_with = "shell")]
    observe: bool,

    /// Print every register access, memory access and packet of the controller
    #[arg(long)]
    trace: bool,

    /// How long each step may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,

    /// What of the kernel is under test, for the verdict's scope
    #[arg(long, value_name = "WORDS", default_value = "its own ci_hdrc and DMA pools")]
    tested: String,

    /// What qemu/setup filled [default: $POOLPROOF_CACHE, or poolproof in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

const EXIT: &str = "Exit status, for git bisect run: 0 no failure found, 1 the kernel or its driver failed, 125 the kernel \
                    is not there or does not boot, 129 wrong usage, 130 and above everything else";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GlueName {
    /// ci_hdrc_msm with a ULPI PHY, by device tree
    Msm,
    /// ci_hdrc_pci
    Pci,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpeedName {
    /// 12 Mbit/s
    Full,
    /// 480 Mbit/s
    High,
}

fn gadget(text: &str) -> Result<String, String> {
    const KINDS: [&str; 5] = ["ether", "source-sink", "serial", "mass-storage", "none"];
    let kinds: Vec<&str> = text.split(',').collect();
    if let Some(kind) = kinds.iter().find(|kind| !KINDS.contains(kind)) {
        return Err(format!("{kind:?} is none of {}", KINDS.join(", ")));
    }
    match kinds.iter().enumerate().find(|(at, kind)| kinds[..*at].contains(kind)) {
        Some((_, kind)) => Err(format!("{kind} stands there twice")),
        None if kinds.len() > 1 && kinds.contains(&"none") => Err("none goes with no other".to_owned()),
        None => Ok(text.to_owned()),
    }
}

pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to stdout, everything else to stderr; if nobody reads, the status still tells.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 129 } else { 0 });
        }
    };
    let signal = Arc::new(AtomicUsize::new(0));
    match signals(&signal).and_then(|()| run(&arguments, &signal)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, BoardError::Signal(_)) {
                let _ = writeln!(io::stderr(), "qemu/board: {error}");
            }
            ExitCode::from(error.exit_status())
        }
    }
}

/// Signals end the board, so that nothing is left behind.
fn signals(signal: &Arc<AtomicUsize>) -> Result<(), BoardError> {
    for number in [SIGINT, SIGTERM, SIGHUP] {
        // Signal numbers are small and positive.
        signal_hook::flag::register_usize(number, Arc::clone(signal), number as usize)
            .map_err(|error| BoardError::System { what: "a signal cannot be taken", error })?;
    }
    Ok(())
}

fn run(arguments: &Arguments, signal: &Arc<AtomicUsize>) -> Result<(), BoardError> {
    check(arguments)?;
    let cache = Cache::open(arguments.cache.as_deref())?;
    let kernel = kernel(arguments, &cache)?;
    // On a shell's terminal the host's lines must not be taken for the shell's output.
    let shell = arguments.shell;
    let printer = Printer::start(shell)?;
    let lines = printer.lines();
    let record = Record::new(move |entry| lines(entry));
    let config = BoardConfig {
        glue: match arguments.glue {
            GlueName::Msm => Glue::Msm,
            GlueName::Pci => Glue::Pci,
        },
        gadget: arguments.gadget.clone(),
        append: arguments.append.clone(),
        speed: match arguments.speed {
            SpeedName::Full => Speed::Full,
            SpeedName::High => Speed::High,
        },
        endpoints: arguments.endpoints,
        configuration: arguments.configuration,
        port: arguments.port.clone(),
        trace: if arguments.trace { record.sink() } else { Trace::off() },
        observe: arguments.observe,
        shell,
        patience: Duration::from_secs(arguments.patience),
        signal: Arc::clone(signal),
        ..BoardConfig::new(kernel)
    };
    let mut observed = None;
    let verdict = drive(&cache, &config, record, arguments, &printer.speaker(), &mut observed);
    printer.finish();
    if let Some(observed) = &observed {
        let _ = write!(io::stdout(), "\nwhat the kernel's pools did, by its own log:\n{observed}");
    }
    let scope = verdict?;
    if let Some(verdict) =
        observed.map(|observed| observed.verdict).filter(|&verdict| verdict != Verdict::NoFailureFound)
    {
        return Err(BoardError::Observed(verdict));
    }
    if let Some(scope) = scope {
        let _ = writeln!(io::stdout(), "\nNO FAILURE FOUND\nscope: {scope}");
    }
    Ok(())
}

/// What clap cannot see.
fn check(arguments: &Arguments) -> Result<(), BoardError> {
    if arguments.once && arguments.gadget == "none" {
        return Err(BoardError::Usage("--once needs a gadget: without one there is no device to enumerate".to_owned()));
    }
    let own = ["poolproof.glue=", "poolproof.gadget=", "poolproof.observe", "poolproof.shell"];
    if let Some(word) = own.iter().find(|word| arguments.append.contains(*word)) {
        return Err(BoardError::Usage(format!(
            "--append has {word}, which --glue, --gadget, --observe and --shell are for"
        )));
    }
    if arguments.modules.is_none() && arguments.kernel.contains('/') {
        return Err(BoardError::Usage(format!("{}: an image of your own needs --modules DIR", arguments.kernel)));
    }
    Ok(())
}

/// Switches the board on and lets it do what was asked for. The scope of what was exercised, with `--once`; then, with
/// `--observe`, what its pools did is in `observed`, also if the host gave up.
fn drive(
    cache: &Cache,
    config: &BoardConfig,
    record: Record,
    arguments: &Arguments,
    say: &dyn Fn(String),
    observed: &mut Option<Observed>,
) -> Result<Option<String>, BoardError> {
    if arguments.shell {
        let _terminal = Terminal::save();
        return Board::start(cache, config, record, None)?.watch_to_the_end().map(|()| None);
    }
    let mut board = Board::start(cache, config, record, None)?;
    let done = if arguments.once {
        once(&mut board, arguments).map(Some)
    } else {
        stay(&mut board, arguments.observe, say).map(|()| None)
    };
    if let Err(BoardError::Host(_) | BoardError::Patience { .. } | BoardError::Data(_)) = &done
        && board.obeys()
    {
        explain_driver(&mut board, say);
        if arguments.observe {
            match board.observed() {
                Ok(seen) => *observed = Some(seen),
                Err(error) => say(format!("qemu/board: {error}")),
            }
        }
    }
    let scope = done?;
    if scope.is_some() {
        if arguments.observe {
            *observed = Some(board.observed()?);
        }
        board.power_off()?;
    }
    Ok(scope)
}

/// Says what the driver has for the controller, and what that means. A board that is dead says nothing, and that is said.
fn explain_driver(board: &mut Board, say: &dyn Fn(String)) {
    match DriverFiles::of(board) {
        Ok(files) => say(format!("\n{}\n", files.explanation())),
        Err(error) => say(format!("qemu/board: the board tells nothing of its driver: {error}")),
    }
}

fn kernel(arguments: &Arguments, cache: &Cache) -> Result<Kernel, BoardError> {
    match &arguments.modules {
        Some(modules) => cache.own_kernel(arguments.kernel.as_ref(), modules),
        None => cache.kernel(&arguments.kernel),
    }
}

/// Prints on a thread of its own: who reads slowly must not hold up the controller, which says something too.
struct Printer {
    lines: Sender<Option<String>>,
    thread: JoinHandle<()>,
}

impl Printer {
    fn start(to_stderr: bool) -> Result<Self, BoardError> {
        let (lines, waiting) = channel::<Option<String>>();
        let print = move || {
            // `None` is the end.
            for line in waiting.iter().map_while(|line| line) {
                // A reader that went away does not stop the board.
                let _ = if to_stderr { writeln!(io::stderr(), "{line}\r") } else { writeln!(io::stdout(), "{line}") };
            }
        };
        let thread = thread::Builder::new().name("printer".to_owned()).spawn(print);
        let thread = thread.map_err(|error| BoardError::System { what: "no thread", error })?;
        Ok(Self { lines, thread })
    }

    /// Takes lines to print.
    fn lines(&self) -> impl Fn(&Entry) + Send + Sync + 'static {
        let lines = self.lines.clone();
        move |entry| drop(lines.send(Some(entry.to_string())))
    }

    /// Takes what is to be printed behind the lines so far.
    fn speaker(&self) -> impl Fn(String) + use<> {
        let lines = self.lines.clone();
        move |text| drop(lines.send(Some(text)))
    }

    /// Waits until all is printed.
    fn finish(self) {
        let _ = self.lines.send(None);
        let _ = self.thread.join();
    }
}

/// The terminal as it was: QEMU, which makes it raw, may be killed.
struct Terminal(Option<Termios>);

impl Terminal {
    fn save() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(saved) = &self.0 {
            // It may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}

/// Enumerates the device and sends data through it; says what that covers.
fn once(board: &mut Board, arguments: &Arguments) -> Result<String, BoardError> {
    board.init()?;
    let device = board.enumerated()?;
    board.ready()?;
    if let Some(wanted) = arguments.configuration {
        let there: Vec<u8> = device.device().configurations().iter().map(|one| one.descriptor.value).collect();
        if !there.contains(&wanted) {
            return Err(BoardError::Usage(format!("--configuration {wanted}: the device has {there:?}")));
        }
    }
    let mut exercised = vec![format!("{} enumeration", device.device().speed())];
    if arguments.gadget.split(',').any(|kind| kind == "ether") {
        let mut network = Network::bind(&device)?;
        for length in [0, 56, 1472] {
            network.ping(&vec![0x5a; length])?;
        }
        exercised.push(format!("pings by {}", network.driver()));
    }
    let release = board.command("sh uname -r")?;
    let release =
        release.iter().find_map(|line| line.strip_prefix("output | ")).unwrap_or("that does not tell its name");
    Ok(format!(
        "kernel {release}, {}; glue {}; model chipidea-sim, {} endpoints; exercised: {}; not \
         exercised: PHY, clocks, power domains, IOMMU, non-coherent DMA, silicon",
        arguments.tested,
        match arguments.glue {
            GlueName::Msm => "ci_hdrc_msm",
            GlueName::Pci => "ci_hdrc_pci",
        },
        arguments.endpoints,
        exercised.join(", ")
    ))
}

/// Runs until a signal comes, with what is typed for the board.
fn stay(board: &mut Board, observe: bool, say: &dyn Fn(String)) -> Result<(), BoardError> {
    board.init()?;
    let (sender, typed) = channel();
    // It ends with its input, or with the program.
    let reader = thread::Builder::new().name("typed".to_owned()).spawn(move || {
        for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    reader.map_err(|error| BoardError::System { what: "no thread", error })?;
    loop {
        match board.watch(Duration::from_millis(50)) {
            Ok(()) => {}
            // What goes wrong with a command was said, and what the host sees too: the board stays.
            Err(BoardError::Host(_)) if board.obeys() => explain_driver(board, say),
            Err(BoardError::Board(_) | BoardError::Host(_)) => {}
            // As `poweroff` does.
            Err(BoardError::Qemu(_)) if board.ended_well()? => return Ok(()),
            Err(error) => return Err(error),
        }
        // Before it takes commands they would be lost.
        if board.obeys() {
            for line in typed.try_iter() {
                if observe && line.trim() == "observed" {
                    print_observed(board, say)?;
                } else {
                    board.type_line(&line)?;
                }
            }
        }
    }
}

/// Says what the pools did so far. A log that did not come through does not stop the board.
fn print_observed(board: &mut Board, say: &dyn Fn(String)) -> Result<(), BoardError> {
    match board.observed() {
        Ok(observed) => say(observed.to_string()),
        Err(error @ (BoardError::Board(_) | BoardError::Data(_))) => say(format!("qemu/board: {error}")),
        Err(error) => return Err(error),
    }
    Ok(())
}
