//! The findings that are kept.

use std::fmt;

use crate::finding::{Blame, Finding};

/// Findings that are kept, whatever they are.
const MOST: usize = 64;
/// First findings of each name that are kept however many there were before.
const OF_A_NAME: u32 = 4;
/// First findings of each blame that are kept however many there were before.
const OF_A_BLAME: u32 = 16;

/// What was found, in order of occurrence; of a flood its beginning and the first of every kind.
#[derive(Default)]
pub(super) struct Kept {
    findings: Vec<Finding>,
    names: Vec<(&'static str, u32)>,
    pools: u32,
    clients: u32,
    dropped: u64,
}

impl Kept {
    pub(super) fn push(&mut self, finding: Finding) {
        let name = finding.name();
        let of_name = match self.names.iter().position(|&(other, _)| other == name) {
            Some(index) => &mut self.names[index].1,
            None => {
                self.names.push((name, 0));
                let last = self.names.len() - 1;
                &mut self.names[last].1
            }
        };
        let of_blame = match finding.blame() {
            Blame::Pool => &mut self.pools,
            Blame::Client => &mut self.clients,
        };
        if self.findings.len() < MOST || *of_name < OF_A_NAME || *of_blame < OF_A_BLAME {
            *of_name += 1;
            *of_blame += 1;
            self.findings.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn all(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn total(&self) -> u64 {
        self.findings.len() as u64 + self.dropped
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.fmt(f)
    }
}
