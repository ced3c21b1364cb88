//! `--base`: what a kernel file is compared with: another file, or a revision of its own repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::exit::Exit;

/// The file's place in a kernel tree.
const FILE: &str = "mm/dmapool.c";
const HEADER: &str = "include/linux/dmapool.h";

/// A kernel file to compare with.
pub(crate) struct Base {
    /// As it is called in tables.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Keeps what was taken out of a repository.
    _kept: Option<tempfile::TempDir>,
}

impl Base {
    /// Finds `wanted`: a path if there is something, and otherwise a revision of the repository that `file` is in.
    pub(crate) fn find(wanted: &str, file: &Path) -> Result<Self, Error> {
        if Path::new(wanted).exists() {
            return Ok(Self { name: wanted.to_owned(), path: PathBuf::from(wanted), _kept: None });
        }
        let folder = if file.is_dir() {
            file
        } else {
            file.parent().filter(|at| *at != Path::new("")).unwrap_or(Path::new("."))
        };
        let untested = |reason: String| Error {
            message: format!(
                "--base {}: neither a file nor a revision of the repository at {}: {reason}",
                wanted.escape_debug(),
                folder.display()
            ),
            exit: Exit::Untested,
        };
        // A dash would be an option of git's.
        if wanted.starts_with('-') {
            return Err(Error::usage(format!("--base {}: expected a file or a revision", wanted.escape_debug())));
        }
        let place = if file.is_dir() {
            format!("./{FILE}")
        } else {
            format!("./{}", file.file_name().unwrap_or_default().to_string_lossy())
        };
        let text = show(folder, wanted, &place).map_err(untested)?;
        let internal = |error: std::io::Error| Error::internal(format!("no place for --base {wanted}: {error}"));
        let kept = tempfile::tempdir().map_err(internal)?;
        let write = |name: &str, text: &[u8]| {
            let path = kept.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(kept.path())).and_then(|()| fs::write(&path, text))
        };
        write(FILE, &text).map_err(internal)?;
        // The tree's interface belongs to the revision, too; a file outside of a tree has none.
        if let Ok(header) = show(folder, wanted, HEADER) {
            write(HEADER, &header).map_err(internal)?;
        }
        Ok(Self { name: wanted.to_owned(), path: kept.path().join(FILE), _kept: Some(kept) })
    }
}

/// A file as it is in a revision.
fn show(folder: &Path, revision: &str, place: &str) -> Result<Vec<u8>, String> {
    let output = Command::new("git").arg("-C").arg(folder).arg("show").arg(format!("{revision}:{place}")).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("git says nothing").to_owned())
}
