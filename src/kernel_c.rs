//! Kernel C files as pools: `--dmapool-c`.

use std::path::Path;

use c_bridge::{BuildError, KernelFile, Options, Sanitizer};
use scenarios::Policy;

use crate::cli::KernelC;
use crate::error::Error;
use crate::exit::Exit;

impl KernelC {
    /// How they are compiled.
    pub(crate) fn options(&self) -> Options {
        let sanitizer = if self.asan {
            Some(Sanitizer::Address)
        } else if self.tsan {
            Some(Sanitizer::Thread)
        } else {
            None
        };
        Options { debug: self.dmapool_debug, sanitizer, ..Options::default() }
    }

    /// The files as pools, each by its path as it was given.
    pub(crate) fn policies(&self) -> Result<Vec<Policy>, Error> {
        let twice = self.dmapool_c.iter().enumerate().find(|(index, path)| self.dmapool_c[..*index].contains(path));
        if let Some((_, path)) = twice {
            return Err(Error::usage(format!("--dmapool-c {} is given twice", path.display())));
        }
        self.dmapool_c.iter().map(|path| self.policy(path, &path.display().to_string())).collect()
    }

    /// One file as a pool.
    pub(crate) fn policy(&self, path: &Path, name: &str) -> Result<Policy, Error> {
        Ok(KernelFile::open(path, &self.options()).map_err(refused)?.policy(name))
    }

    /// The words of a command line that name a pool: a file's path, or a pool's name.
    pub(crate) fn words(&self, pool: &str) -> String {
        if !self.dmapool_c.iter().any(|path| path.display().to_string() == pool) {
            return format!("--pool {pool}");
        }
        let mut words = format!("--dmapool-c {pool}");
        for (flag, name) in [(self.dmapool_debug, "--dmapool-debug"), (self.asan, "--asan"), (self.tsan, "--tsan")] {
            if flag {
                words += &format!(" {name}");
            }
        }
        words
    }
}

/// A file that is not there or does not compile cannot be tested, which a bisection skips; the rest is the machine's fault.
pub(crate) fn refused(error: BuildError) -> Error {
    let exit = if error.is_the_files() { Exit::Untested } else { Exit::Internal };
    Error { message: format!("--dmapool-c: {error}"), exit }
}
