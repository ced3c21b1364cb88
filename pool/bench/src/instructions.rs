//! Instruction counts, which repeat where times do not: valgrind's callgrind runs a program twice, and what it executes
//! more the second time is what the further operations cost.

use std::io;
use std::process::Command;

use thiserror::Error;

/// Why instructions cannot be counted.
#[derive(Debug, Error)]
pub enum InstructionsError {
    /// There is no valgrind.
    #[error("instructions are counted by valgrind, which could not be started ({0}): install it (Debian: valgrind)")]
    NoValgrind(io::Error),
    /// The program failed under valgrind, or valgrind itself did.
    #[error("`{command}` failed under valgrind: {output}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// What it said last.
        output: String,
    },
    /// Valgrind ended well and printed no count.
    #[error("valgrind counted nothing for `{command}`: a line `Collected : N` was expected, as callgrind 3 prints it")]
    NoCount {
        /// The program and its arguments.
        command: String,
    },
}

/// Instructions that a whole run of `command` executes.
///
/// # Errors
/// [`InstructionsError`]
pub fn instructions(command: &Command) -> Result<u64, InstructionsError> {
    let shown = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--"]);
    valgrind.arg(command.get_program()).args(command.get_args());
    let output = valgrind.output().map_err(InstructionsError::NoValgrind)?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(InstructionsError::Failed { command: shown(), output: complaint(&messages).to_owned() });
    }
    collected(&messages).ok_or_else(|| InstructionsError::NoCount { command: shown() })
}

/// Instructions for one operation: those of `more` that `fewer` has not, by the number of its further operations.
///
/// # Errors
/// [`InstructionsError`]
pub fn instructions_each(fewer: &Command, more: &Command, operations: u64) -> Result<f64, InstructionsError> {
    let (fewer, more) = (instructions(fewer)?, instructions(more)?);
    Ok(more.saturating_sub(fewer) as f64 / operations as f64)
}

/// The count in `==1234== Collected : 5678`.
fn collected(messages: &str) -> Option<u64> {
    let mut counts = messages.lines().filter_map(|line| line.split_once("Collected :"));
    counts.next_back()?.1.split_whitespace().next()?.parse().ok()
}

/// The program's last word, or what valgrind says of its end.
fn complaint(messages: &str) -> &str {
    let mut own = messages.lines().filter(|line| !line.starts_with("==") && !line.trim().is_empty());
    let terminated = || messages.lines().find(|line| line.contains("terminating"));
    own.next_back().or_else(terminated).unwrap_or("it said nothing").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_prints() {
        let messages = "==7== Callgrind, a call-graph generating cache profiler\n==7== \n==7== Events    : Ir\n\
                        ==7== Collected : 1234567\n==7== \n==7== I   refs:      1,234,567\n";
        assert_eq!(collected(messages), Some(1234567));
        assert_eq!(collected("==7== Collected : \n"), None);
        assert_eq!(collected("nothing"), None);
    }

    #[test]
    fn what_failed_is_told_in_its_own_words() {
        let signal = "==7== \n==7== Process terminating with default action of signal 11 (SIGSEGV)\n==7== \n";
        assert_eq!(complaint(signal), "==7== Process terminating with default action of signal 11 (SIGSEGV)");
        assert_eq!(
            complaint(&format!("{signal}poolproof: there is no pool\n==7== I refs: 1\n")),
            "poolproof: there is no pool"
        );
        assert_eq!(complaint(""), "it said nothing");
    }
}
