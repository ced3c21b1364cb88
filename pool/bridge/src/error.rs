//! Why a kernel file cannot be put under test.

use std::path::PathBuf;

use thiserror::Error;

/// Why a kernel file cannot be compiled or loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// There is no such file or tree.
    #[error("{path}: {reason}; expected {file} or a kernel tree with it", path = .path.display())]
    Absent {
        /// As it was asked for.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
        /// The file's place in a kernel tree, such as `mm/dmapool.c`.
        file: &'static str,
    },
    /// There is no C compiler.
    #[error("no C compiler: {0}. Install gcc or clang, or name one in CC")]
    NoCompiler(String),
    /// It does not compile.
    #[error("{path} does not compile{}\n{words}", list_missing(.missing), path = .path.display())]
    Compile {
        /// The file.
        path: PathBuf,
        /// Names of the kernel's that it uses and that are not there.
        missing: Vec<String>,
        /// What the compiler and the linker say.
        words: String,
    },
    /// What was compiled cannot be loaded: poolproof's fault, or the machine's.
    #[error("{path} was compiled and cannot be loaded: {reason}", path = .path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// There is no place for what is compiled.
    #[error("no place for what is compiled: {0}")]
    NoPlace(String),
}

impl BuildError {
    /// Whether it is the file's fault: a bisection skips such a commit.
    #[must_use]
    pub const fn is_the_files(&self) -> bool {
        matches!(self, Self::Absent { .. } | Self::Compile { .. })
    }
}

fn list_missing(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    // What is called from outside, and is to be there.
    let (own, kernels): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| name.starts_with("dma_pool_") || name.starts_with("sg_"));
    if own.is_empty() {
        return format!(": of the kernel's own it uses {}, which poolproof does not have", kernels.join(", "));
    }
    format!(": it does not define {}", own.join(", "))
}
