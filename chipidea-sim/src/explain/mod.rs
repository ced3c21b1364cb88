//! What a real board says about its controller, in plain words.
//!
//! ci_hdrc shows its structures in `/sys/kernel/debug/usb/ci_hdrc.0` (mainline's `drivers/usb/chipidea/debug.c`) and has two
//! tracepoints (`trace.h`). [`explain`] reads what they print, holds it against what the controller assumes, and says what
//! the hardware will see. Everything that it knows of the hardware is the model's: [`ENDPTLISTADDR`](crate::ENDPTLISTADDR),
//! the register table, dQH and dTD.
//!
//! # What is read
//! | file | what of it |
//! |---|---|
//! | `qheads` | addresses and all twelve words of each dQH, RX and TX |
//! | `requests` | the dTDs that are queued, seven words each |
//! | `registers` | USBINTR, USBSTS, USBMODE, USBCMD, PORTSC and, if there is one, OTGSC |
//! | `device`, `role`, `otg` | speed, gadget, role, state |
//! | `ci_prepare_td`, `ci_complete_td` | endpoint, dTD, total bytes, status |
//!
//! The formats of Linux 5.15 to 7.x are one: what differs is that `role` is there up to 6.3. (Sources of 6.1, 6.12 and 7.3 were
//! compared; 5.15 lies between them and 4.x, which has no tracepoints and is otherwise the same.) Addresses of tracepoints come
//! in 8 or 16 digits. A line's end counts, so that the text may come from a console, a kernel's log, `grep -r` or `qemu/board`. Of
//! several dumps in one text the last is explained. Lines that are damaged are counted, and what is missing is left open.
//!
//! The kernel's `registers` has no ENDPT register. They can be added, read by other means, as lines of the same form:
//! `ENDPTSTAT reg: 00010000`. Then they are held against the rest.
//!
//! # What a dump cannot tell
//! Files are read one after the other: what one says may be over when the next is read, and only addresses stay. Nothing
//! shows dTDs that are not queued any more, buffers, caches, or what the controller holds inside. What the hardware does with
//! what it finds is derived from the manual and this model.

mod dump;
mod heads;
mod read;
mod registers;
mod requests;
mod table;
mod text;
mod tracepoints;
mod words;

use std::fmt;

/// One file, or several in one text.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, with or without folders. `requests` tells an empty file from one that is not there, and `role` says what its
    /// only word is; other names mean nothing.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// What is known of a board, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What was read, one piece a line: `qheads: 16 endpoint numbers`.
    pub read: Vec<String>,
    /// What could not be read, and what is open because of it.
    pub gaps: Vec<String>,
    /// What the board says, by subject.
    pub sections: Vec<Section>,
}

/// Statements on one subject.
#[derive(Clone, Debug)]
pub struct Section {
    /// The subject: `dQH table`.
    pub title: &'static str,
    /// What is said of it.
    pub statements: Vec<Statement>,
}

/// One thing that follows from the dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whether it is wrong.
    pub weight: Weight,
    /// In plain words.
    pub text: String,
    /// The lines that it follows from.
    pub evidence: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// As it should be.
    Fine,
    /// It may be wrong, or may have been on its way when the files were read.
    Odd,
    /// No board that works says this.
    Wrong(Blame),
}

/// Whose promise or assumption does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// Not known.
    Unknown,
    /// The driver assumed more than its pool promises.
    Client,
    /// The pool broke a promise.
    Pool,
}

/// The whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing wrong was seen.
    NoFailureFound,
    /// The pool kept what can be seen of its promises, and its client assumed more.
    ClientAssumptionViolated,
    /// The pool broke a promise.
    PoolContractViolated,
    /// Something is wrong that no contract names.
    FailureFound,
}

impl Verdict {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFailureFound => "NO FAILURE FOUND",
            Self::ClientAssumptionViolated => "CLIENT ASSUMPTION VIOLATED",
            Self::PoolContractViolated => "POOL CONTRACT VIOLATED",
            Self::FailureFound => "FAILURE FOUND",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is nothing of a board in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingFound {
    /// Its first line.
    pub first: Option<String>,
}

impl NothingFound {
    /// How to get what is expected, on the board, a command a line.
    pub const COMMANDS: [&'static str; 4] = [
        "mount -t debugfs none /sys/kernel/debug",
        "cd /sys/kernel/debug/usb/ci_hdrc.0 && tail -n +1 device qheads requests registers",
        "echo 1 >/sys/kernel/tracing/events/chipidea/enable",
        "cat /sys/kernel/tracing/trace",
    ];
}

impl fmt::Display for NothingFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing of a Chipidea controller is in the input")?;
        match &self.first {
            Some(line) => writeln!(f, ", which begins with {}", text::quoted(line))?,
            None => writeln!(f, ", which is empty")?,
        }
        writeln!(
            f,
            "expected: what the kernel's ci_hdrc prints, as `EP=00: RX=80000000 TX=80000040` (qheads), `USBCMD reg: 00080001` \
             (registers) or `ci_prepare_td: ep0in: req: …`. On the board, as root:"
        )?;
        Self::COMMANDS.iter().try_for_each(|command| writeln!(f, "  {command}"))?;
        f.write_str("Old kernels have the folder at /sys/kernel/debug/ci_hdrc.0, some boards another number than 0.")
    }
}

impl std::error::Error for NothingFound {}

/// Explains what `sources` say, taken together.
///
/// # Errors
/// [`NothingFound`], if no line of them is a board's.
///
/// ```
/// use chipidea_sim::explain::{Source, Verdict, explain};
///
/// let text = "EP=00: RX=41399FC0 TX=41399F80\nEP=01: RX=41399F40 TX=41399F00\n";
/// let explanation = explain(&[Source { name: "qheads", text }])?;
/// assert_eq!(explanation.verdict(), Verdict::ClientAssumptionViolated);
/// # Ok::<(), chipidea_sim::explain::NothingFound>(())
/// ```
pub fn explain(sources: &[Source<'_>]) -> Result<Explanation, NothingFound> {
    let dump = read::read(sources);
    if dump.is_nothing() {
        return Err(NothingFound { first: dump.damaged.first.or(dump.foreign.first) });
    }
    let sections = [
        ("dQH table", table::judge(&dump)),
        ("endpoints", heads::judge(&dump)),
        ("queued dTDs", requests::judge(&dump)),
        ("controller", registers::judge(&dump)),
        ("tracepoints", tracepoints::judge(&dump)),
    ];
    let sections = sections.into_iter().filter(|(_, statements)| !statements.is_empty());
    let sections = sections.map(|(title, statements)| Section { title, statements }).collect();
    Ok(Explanation { read: text::read(&dump), gaps: text::gaps(&dump), sections })
}

impl Explanation {
    /// All statements.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.sections.iter().flat_map(|section| &section.statements)
    }

    /// What is wrong.
    pub fn wrong(&self) -> impl Iterator<Item = &Statement> {
        self.statements().filter(|statement| matches!(statement.weight, Weight::Wrong(_)))
    }

    /// The verdict. A broken promise comes before an assumption, and that before the rest: it may be the cause.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.statements().map(|statement| statement.weight).max() {
            Some(Weight::Wrong(Blame::Pool)) => Verdict::PoolContractViolated,
            Some(Weight::Wrong(Blame::Client)) => Verdict::ClientAssumptionViolated,
            Some(Weight::Wrong(Blame::Unknown)) => Verdict::FailureFound,
            Some(Weight::Odd | Weight::Fine) | None => Verdict::NoFailureFound,
        }
    }
}

impl Statement {
    fn new(weight: Weight, text: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self { weight, text: text.into(), evidence: evidence.into() }
    }

    fn fine(text: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Weight::Fine, text, evidence)
    }

    fn odd(text: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Weight::Odd, text, evidence)
    }

    fn wrong(text: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(Weight::Wrong(Blame::Unknown), text, evidence)
    }
}
