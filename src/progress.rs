//! A progress bar for people who wait.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on stderr, if that is a terminal.
pub(crate) struct Progress {
    begin: Instant,
    bar: ProgressBar,
}

impl Progress {
    /// Of a check's rows.
    pub(crate) fn new() -> Self {
        Self::of("rows")
    }

    /// Of `what`, in the plural.
    pub(crate) fn of(what: &str) -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {what} {{elapsed}}"));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { begin: Instant::now(), bar }
    }

    /// Shows that `done` of `all` are done.
    pub(crate) fn show(&self, done: usize, all: usize) {
        if self.begin.elapsed() > PATIENCE {
            self.bar.set_length(all as u64);
            self.bar.set_position(done as u64);
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
