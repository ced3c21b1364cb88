//! Signals that end this program, so that nothing is left behind; a command that it runs ends first.

use std::fs;
use std::io;
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Error;

/// The last signal that came.
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// How long the command and what it has started may take to end after a signal.
    const GRACE: Duration = Duration::from_secs(2);

    /// Takes the signals that were not ignored when this program started: `nohup` means it.
    pub(crate) fn register() -> Result<Self, Error> {
        let received = Arc::new(AtomicUsize::new(0));
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            // Signal numbers are small and positive.
            let registered = signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize);
            registered.map_err(|error| Error::internal(format!("signal {signal}: {error}")))?;
        }
        Ok(Self(received))
    }

    /// The same, for others that wait: who takes a signal out has to end by it.
    pub(crate) fn shared(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    /// A signal that came since the last look.
    pub(crate) fn take(&self) -> Option<i32> {
        i32::try_from(self.0.swap(0, Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    /// Waits for the command, looking every now and then. A signal goes on to it and, when it has ended, to what it leaves
    /// running; what does not end by that is killed.
    pub(crate) fn wait(&self, mut child: Child, look: Duration) -> Result<ExitStatus, Error> {
        let lost = |error: io::Error| Error::internal(format!("the command is lost: {error}"));
        loop {
            if let Some(status) = child.try_wait().map_err(lost)? {
                return Ok(status);
            }
            if let Some(signal) = self.take() {
                return end(child, signal, look).map_err(lost);
            }
            thread::sleep(look);
        }
    }
}

/// As a shell shows that a signal ended a program.
pub(crate) fn ended_by(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(255))
}

/// Ends the command by a signal, then what it leaves running.
fn end(mut child: Child, signal: i32, look: Duration) -> io::Result<ExitStatus> {
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
        let command = if status.is_some() { None } else { i32::try_from(child.id()).ok().and_then(Pid::from_raw) };
        let left = children().into_iter().filter(|pid| Some(*pid) != command);
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

/// This program's children, whichever thread has them (proc_tid_children(5)).
fn children() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
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
