//! The command line.

pub(crate) mod bench;
mod udc_c;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use scenarios::{PageOrder, Schedule, Sweep};

pub(crate) use udc_c::UdcC;

/// Proves DMA pool changes against the device models that live on them.
///
/// Exit status: 0 no failure found, 1 broken, 125 what was to be tested is absent or was not reached, 129 wrong usage, 130 and
/// above internal error.
#[derive(Parser, Debug)]
#[command(name = "poolproof", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run pools against scenarios and print a table of verdicts
    Check(Check),
    /// Run one scenario on one pool and print the host's log with virtual time
    Run(Run),
    /// Explain what a real board says about its controller: debugfs files and tracepoints of the kernel's driver
    ///
    /// Files are taken together; each may hold several of the board's files, or be a log with them in it. On the board, as
    /// root: `tail -n +1 /sys/kernel/debug/usb/ci_hdrc.0/{device,qheads,requests,registers}`.
    ///
    /// Exit status: 0 nothing wrong was seen, 1 something is wrong, 129 wrong usage or nothing of a controller in the input,
    /// 130 and above internal error.
    Explain(Explain),
    /// Put one fault after the other into pools and the driver, and show what catches each
    ///
    /// Exit status: 0 every mutant is caught, or is known to survive and why; 1 another one survived, one was caught that is
    /// known to survive, or something was found where there is no fault; 129 wrong usage, 130 and above internal error.
    Mutants(Mutants),
    /// Measure what pools cost, in user space on cached memory
    ///
    /// Exit status: 0 measured, 125 what was to be measured is absent or does not compile, 129 wrong usage, 130 and above
    /// internal error, or no valgrind to count instructions with.
    Bench(bench::Bench),
    /// List pools, scenarios and devices
    List,
    /// Run a command with a simulated board on its USB bus
    ///
    /// The command and the programs that it starts see this bus through libc, in the place of the machine's own. A static or
    /// setuid program, before which nothing can be put, is refused as the command; where the command starts one, and in
    /// programs that make system calls without libc (as the Rust crate nusb), the machine's own bus is seen.
    ///
    /// Exit status: the command's own, 128 and the number of a signal that ended it; 129 wrong usage, 130 and above
    /// internal error.
    #[cfg(target_os = "linux")]
    Usb(Usb),
    /// Serve a device to a virtual machine, with a USB host at its other end
    #[cfg(target_os = "linux")]
    Serve(Serve),
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The device whose driver printed it
    #[arg(value_enum)]
    pub(crate) device: Device,

    /// What the board printed; - is standard input
    #[arg(required = true, value_name = "FILE|-")]
    pub(crate) files: Vec<PathBuf>,

    /// What to print
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    pub(crate) format: ExplainFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// For people
    Text,
    /// One object
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The device
    #[arg(value_enum)]
    pub(crate) device: Device,

    /// The socket that QEMU connects to. One that nobody listens on is replaced
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,

    /// Which driver of Linux finds the controller
    #[arg(long, value_enum, default_value_t = Glue::Pci)]
    pub(crate) glue: Glue,

    /// Endpoint numbers of the controller, 2 to 16
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) endpoints: u8,

    /// The host's port: a bus and hub ports
    #[arg(long, value_name = "PATH", default_value = "5-1.3")]
    pub(crate) port: String,

    /// The fastest speed of the host's port
    #[arg(long, value_enum, default_value_t = PortSpeed::High)]
    pub(crate) speed: PortSpeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// Chipidea USB device controller
    Chipidea,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Glue {
    /// ci_hdrc_pci, by PCI id 153f:1006
    Pci,
    /// ci_hdrc_msm, by a device tree node over BAR 0 of 153f:1007
    Msm,
}

#[derive(Args, Debug)]
pub(crate) struct Usb {
    /// What drives the controller
    #[arg(long, value_enum, default_value_t = Board::Model)]
    pub(crate) board: Board,

    /// What the board is to its host
    #[arg(long, value_enum, default_value_t = Gadget::Ethernet)]
    pub(crate) gadget: Gadget,

    /// The pool, of a board in this program; with a boot loader, of the system that it starts [default: linked]
    #[arg(long, value_name = "NAME", conflicts_with = "dmapool_c")]
    pub(crate) pool: Option<String>,

    #[command(flatten)]
    pub(crate) kernel_c: KernelC,

    /// The kernel of a board in QEMU: a series that qemu/setup brought [default: 6.12]
    #[arg(long, value_name = "SERIES")]
    pub(crate) kernel: Option<String>,

    /// The host's port: a bus, 1 to 255, and one to six hub ports from 1 to 15
    #[arg(long, value_name = "PATH", default_value = "5-1.3")]
    pub(crate) port: String,

    /// The fastest speed of the host's port
    #[arg(long, value_enum, default_value_t = PortSpeed::High)]
    pub(crate) speed: PortSpeed,

    /// Endpoint numbers of the controller, 4 to 16
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(4..=16))]
    pub(crate) endpoints: u8,

    /// The command and its arguments. Static and setuid programs are refused: nothing can be put before them
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Board {
    /// A port of Linux's driver on a pool of ours, in this program
    Model,
    /// A Linux kernel in QEMU, with its own driver and pools
    Qemu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gadget {
    /// RNDIS and CDC Ethernet, 0525:a4a2
    Ethernet,
    /// A boot loader with fastboot, 18d1:d00d
    Fastboot,
    /// Gadget Zero with source and sink, 0525:a4a0
    SourceSink,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Check {
    /// Test this pool only, and excuse no recorded defect; shuffle takes a seed, as in shuffle:7
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Option<String>,

    #[command(flatten)]
    pub(crate) kernel_c: KernelC,

    /// Compare the file of --dmapool-c with this one, or with what it is in this revision of its repository, and print a table
    /// for a changelog first
    #[arg(long, value_name = "FILE|REV", requires = "dmapool_c", conflicts_with = "pool")]
    pub(crate) base: Option<String>,

    /// Run kernel files again whose verdict is known: the same content, options and poolproof gave it before
    #[arg(long, requires = "dmapool_c")]
    pub(crate) fresh: bool,

    /// Test the hostile pools instead (shuffle with seeds 0 to 3, scatter, high), which keep dma_pool's promises and nothing
    /// else, and excuse nothing
    #[arg(long, conflicts_with_all = ["pool", "dmapool_c"])]
    pub(crate) hostile: bool,

    /// Test this driver of the controller only: scenarios with a client of their own (two-pages, malicious-device) are left out. Without it,
    /// ci_hdrc and they
    #[arg(long, value_name = "NAME", conflicts_with = "udc_c")]
    pub(crate) driver: Option<String>,

    #[command(flatten)]
    pub(crate) udc_c: UdcC,

    /// Run this scenario only
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Option<String>,

    /// Endpoint numbers of the controller, 2 to 16; most scenarios need 4 [default: 4, 8 and 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) endpoints: Option<u8>,

    #[command(flatten)]
    pub(crate) machine: Machine,

    /// Schedules for each raced scenario: so many, sampled by the seed, or `all` that have one step (with the fewest endpoints;
    /// with more, a sample)
    #[arg(long, value_name = "N|all", default_value = "4", value_parser = sweep)]
    pub(crate) schedules: Sweep,

    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Print only what is broken
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Judge what the pools of a real machine did, by its own log, instead: a file, or - for what comes in
    ///
    /// One event a line, `TIME alloc pool=ADDRESS cpu=ADDRESS dma=ADDRESS caller=SYMBOL`, `TIME free …`; `create` and
    /// `destroy` with `name= size= align= boundary= device=` tell more of a pool. ftrace's and bpftrace's words around it
    /// are understood. pool/observe/kprobe-events.sh and dmapool.bt make such logs. Exit status 125: there is no
    /// such file, or no allocation in it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pool", "dmapool_c", "scenario", "endpoints", "format", "page_size", "page_order", "cpu_base", "seed", "driver", "udc_c", "hostile", "schedules", "errata", "no_workaround"])]
    pub(crate) observed: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The scenario
    pub(crate) scenario: String,

    /// The pool; shuffle takes a seed, as in shuffle:7
    #[arg(long, value_name = "NAME", default_value = "linked", conflicts_with = "dmapool_c")]
    pub(crate) pool: String,

    #[command(flatten)]
    pub(crate) kernel_c: KernelC,

    /// The driver of the controller
    #[arg(long, value_name = "NAME", default_value = "ci_hdrc", conflicts_with = "udc_c")]
    pub(crate) driver: String,

    #[command(flatten)]
    pub(crate) udc_c: UdcC,

    /// The host's port: a bus and hub ports
    #[arg(long, value_name = "PATH", default_value = "5-1.3")]
    pub(crate) port: String,

    /// The fastest speed of the host's port
    #[arg(long, value_enum, default_value_t = PortSpeed::High)]
    pub(crate) speed: PortSpeed,

    /// Endpoint numbers of the controller, 2 to 16
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) endpoints: u8,

    #[command(flatten)]
    pub(crate) machine: Machine,

    /// What happens at which of the driver's accesses, in a raced scenario: `setup@12`, or with commas between steps
    /// `in@4/next+3,irq@2+8`; see `poolproof list`
    #[arg(long, value_name = "STEPS", default_value = "none")]
    pub(crate) schedule: Schedule,

    /// Print every register access, descriptor access and packet
    #[arg(long)]
    pub(crate) trace: bool,

    /// Write what the board's driver shows in debugfs at the end: qheads, requests, registers, as the kernel's does
    #[arg(long, value_name = "DIR")]
    pub(crate) debugfs: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Mutants {
    /// These only [default: all]; with --dmapool-c faults of that file, from Linux 6.4 on, in the place of those of poolproof's
    /// pools and driver
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) kernel_c: KernelC,

    /// Show every scenario that catches a mutant, and not the first only
    #[arg(long)]
    pub(crate) all: bool,

    /// Seed of everything that is chosen at random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The kernel's own C files as pools.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct KernelC {
    /// Test this mm/dmapool.c, or that of this kernel tree, compiled unmodified for user space; may be repeated. Excuses
    /// nothing. Exit status 125: it is absent or does not compile
    #[arg(long, value_name = "PATH")]
    pub(crate) dmapool_c: Vec<PathBuf>,

    /// Compile kernel files as with CONFIG_SLUB_DEBUG_ON: they poison and check blocks
    #[arg(long, requires = "dmapool_c")]
    pub(crate) dmapool_debug: bool,

    /// Compile kernel files with AddressSanitizer
    #[arg(long, requires = "dmapool_c", conflicts_with = "tsan")]
    pub(crate) asan: bool,

    /// Compile kernel files with ThreadSanitizer
    #[arg(long, requires = "dmapool_c")]
    pub(crate) tsan: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Machine {
    /// Page size of the machine
    #[arg(long, value_enum, value_name = "SIZE", default_value_t = PageSize::K4)]
    pub(crate) page_size: PageSize,

    /// Which free page comes first: forward, backward, scattered or scattered:SEED
    #[arg(long, value_name = "ORDER", default_value = "forward")]
    pub(crate) page_order: PageOrder,

    /// Processor's address of memory, a multiple of 4 KiB; bit 15 decides what an in-block link looks like to a device
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) cpu_base: Option<u64>,

    /// Seed of everything that is chosen at random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Give the controller this erratum; may be repeated. Linux's workaround for lost-prime-2.4 does not help every function
    #[arg(long, value_name = "NAME", value_parser = erratum())]
    pub(crate) errata: Vec<scenarios::Erratum>,

    /// Take the driver's workarounds for errata out
    #[arg(long)]
    pub(crate) no_workaround: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One object
    Json,
    /// Kernel TAP
    Ktap,
    /// JUnit XML
    Junit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PortSpeed {
    /// 12 Mbit/s
    Full,
    /// 480 Mbit/s
    High,
}

impl From<PortSpeed> for scenarios::Speed {
    fn from(speed: PortSpeed) -> Self {
        match speed {
            PortSpeed::Full => Self::Full,
            PortSpeed::High => Self::High,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageSize {
    /// 4 KiB
    #[value(name = "4k", aliases = ["4", "4096"])]
    K4,
    /// 16 KiB
    #[value(name = "16k", aliases = ["16", "16384"])]
    K16,
    /// 64 KiB
    #[value(name = "64k", aliases = ["64", "65536"])]
    K64,
}

impl PageSize {
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::K4 => 4096,
            Self::K16 => 16384,
            Self::K64 => 65536,
        }
    }
}

/// How many schedules, or all of one step.
fn sweep(text: &str) -> Result<Sweep, String> {
    if text == "all" {
        return Ok(Sweep::All);
    }
    text.parse().map(Sweep::Sample).map_err(|error| format!("{error}; expected a number of schedules, or `all`"))
}

/// An erratum by its name.
fn erratum() -> impl TypedValueParser<Value = scenarios::Erratum> {
    let all = scenarios::Erratum::ALL;
    let known = all.map(|erratum| PossibleValue::new(erratum.name()).help(erratum.about()));
    // What the parser lets through is one of them.
    PossibleValuesParser::new(known)
        .map(move |name| all.into_iter().find(|known| known.name() == name).unwrap_or(all[0]))
}

/// An address in decimal or, with 0x, in hexadecimal.
fn address(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a number such as 0xffff000040008000";
    if text.contains(['+', '-']) {
        return Err(EXPECTED.to_owned());
    }
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16),
        None => text.parse(),
    };
    match parsed {
        Ok(address) if address % 4096 == 0 => Ok(address),
        Ok(_) => Err("it must be a multiple of 4 KiB (0x1000)".to_owned()),
        Err(error) => Err(format!("{error}; {EXPECTED}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        assert_eq!(address("0xffff_0000_4000_8000"), Ok(0xffff_0000_4000_8000));
        assert_eq!(address("4096"), Ok(4096));
        assert!(address("0x1").is_err());
        assert!(address("here").is_err());
        assert!(address("+4096").is_err());
        assert!(address("0x+1000").is_err());
    }
}
