//! Signals that end this program, so that nothing is left behind; a command that it runs ends first.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpgid, getpgrp, getpid, kill_process, set_child_subreaper, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

use crate::error::Error;

/// The signals that come to this program.
pub(crate) struct Signals {
    received: SignalsInfo<WithRawSiginfo>,
    /// The last one's number.
    last: Arc<AtomicUsize>,
    /// Children that are no command's.
    spared: Vec<Pid>,
}

/// A signal and where it is from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) signal: i32,
    /// The terminal sent it to every process of its foreground group.
    to_group: bool,
}

impl Signals {
    /// How long the command and what it has started may take to end after a signal.
    const GRACE: Duration = Duration::from_secs(2);

    /// Takes the signals that were not ignored when this program started: `nohup` means it.
    pub(crate) fn register() -> Result<Self, Error> {
        let ignored = ignored();
        let taken = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let failed = |error| Error::internal(format!("signals: {error}"));
        let last = Arc::new(AtomicUsize::new(0));
        for signal in taken.clone() {
            // Signal numbers are small and positive.
            flag::register_usize(signal, Arc::clone(&last), signal as usize).map_err(failed)?;
        }
        Ok(Self { received: SignalsInfo::new(taken).map_err(failed)?, last, spared: Vec::new() })
    }

    /// The number of the last signal that came, 0 before the first: for others that wait.
    pub(crate) fn last(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.last)
    }

    /// The children of now, inherited or this program's own, are not to be ended with the command that is started next.
    pub(crate) fn spare_children(&mut self) {
        self.spared = children("self");
    }

    /// A signal that came since the last look.
    pub(crate) fn take(&mut self) -> Option<Received> {
        /// What the kernel itself sent, not a process by kill(2) (sigaction(2), `si_code`).
        const SI_KERNEL: i32 = 0x80;
        let info = self.received.pending().next()?;
        let by_key = matches!(info.si_signo, SIGINT | SIGQUIT);
        Some(Received { signal: info.si_signo, to_group: by_key && info.si_code == SI_KERNEL })
    }

    /// Waits for the command, looking every now and then. A signal goes on to it and, when it has ended, to what it leaves
    /// running; what does not end by that is killed. One that the terminal sent to the command too is the command's
    /// affair.
    pub(crate) fn wait(&mut self, mut child: Child, look: Duration) -> Result<ExitStatus, Error> {
        let lost = |error: io::Error| Error::internal(format!("the command is lost: {error}"));
        loop {
            if let Some(status) = child.try_wait().map_err(lost)? {
                return Ok(status);
            }
            match self.take() {
                Some(received) if received.to_group && is_in_our_group(&child) => {}
                Some(received) => return end(child, received.signal, &self.spared, look).map_err(lost),
                None => thread::sleep(look),
            }
        }
    }
}

/// As a shell shows that a signal ended a program; but for SIGHUP, whose 129 would be wrong usage.
pub(crate) fn ended_by(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(255).max(130))
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// A shell with job control, or what has left the terminal, is in a group of its own.
fn is_in_our_group(child: &Child) -> bool {
    pid(child).is_some_and(|pid| getpgid(Some(pid)) == Ok(getpgrp()))
}

/// Ends the command by a signal, then what it leaves running. What was there before the command is nobody's to end, nor
/// what comes of it.
fn end(mut child: Child, signal: i32, inherited: &[Pid], look: Duration) -> io::Result<ExitStatus> {
    let mut spared = BTreeSet::from_iter(inherited.iter().map(|pid| pid.as_raw_pid()));
    spare_descendants(&mut spared);
    // Children of the command become ours when it ends, instead of init's.
    set_child_subreaper(Some(getpid()))?;
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    let grace = Instant::now() + Signals::GRACE;
    let mut told = Vec::new();
    let mut status = None;
    loop {
        status = status.map_or_else(|| child.try_wait(), |status| Ok(Some(status)))?;
        let command = if status.is_some() { None } else { pid(&child) };
        spare_descendants(&mut spared);
        let left = children("self").into_iter().filter(|pid| !spared.contains(&pid.as_raw_pid()));
        let left = left.filter(|pid| Some(*pid) != command);
        let left: Vec<Pid> =
            left.filter(|pid| !matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_)))).collect();
        if let (Some(status), true) = (status, left.is_empty()) {
            return Ok(status);
        }
        for pid in left.into_iter().chain(command) {
            // What fails here has ended meanwhile.
            if Instant::now() > grace {
                let _ = kill_process(pid, Signal::KILL);
            } else if !told.contains(&pid) {
                let _ = kill_process(pid, signal);
                told.push(pid);
            }
        }
        thread::sleep(look);
    }
}

/// Adds what the processes have started: it becomes ours when they end.
fn spare_descendants(spared: &mut BTreeSet<i32>) {
    let mut new: Vec<i32> = spared.iter().copied().collect();
    while let Some(parent) = new.pop() {
        new.extend(
            children(&parent.to_string()).into_iter().map(Pid::as_raw_pid).filter(|child| spared.insert(*child)),
        );
    }
}

/// A process's children, whichever of its threads has them (proc_tid_children(5)).
fn children(process: &str) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The signals that this program ignores, a bit each from the lowest (proc_pid_status(5), `SigIgn`).
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
