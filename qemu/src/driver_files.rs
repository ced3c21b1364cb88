//! What the kernel's controller driver shows of itself.

use scenarios::explain::{Source, explain};

use crate::board::Board;
use crate::error::BoardError;

/// The files of ci_hdrc in debugfs, as a board has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFiles {
    /// Name and text, in the order in which they were read.
    pub files: Vec<(&'static str, String)>,
}

impl DriverFiles {
    /// Those that are read.
    const NAMES: [&'static str; 4] = ["device", "qheads", "requests", "registers"];

    /// Has the board print its driver's files, one by one. The record has them too.
    ///
    /// # Errors
    /// As [`Board::command`].
    pub fn of(board: &mut Board) -> Result<Self, BoardError> {
        let mut files = Vec::with_capacity(Self::NAMES.len());
        for name in Self::NAMES {
            let said = board.command(&format!("debugfs {name}"))?;
            let prefix = format!("{name} | ");
            let lines = said.iter().filter_map(|line| line.strip_prefix(&prefix));
            files.push((name, lines.map(|line| format!("{line}\n")).collect()));
        }
        Ok(Self { files })
    }

    /// What they mean, in plain words.
    #[must_use]
    pub fn explanation(&self) -> String {
        let sources: Vec<_> = self.files.iter().map(|(name, text)| Source { name, text }).collect();
        explain(&sources).map_or_else(|nothing| nothing.to_string(), |explanation| explanation.to_string())
    }
}
