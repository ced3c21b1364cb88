//! The folder of a board's socket, until QEMU has connected.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "poolproof-board.";
/// Locked as long as the folder's process lives.
const LOCK: &str = "lock";

/// A folder that goes with it.
pub(crate) struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes a folder that only this user may enter. Those of processes that were killed before QEMU had connected are removed.
pub(crate) fn make() -> io::Result<Folder> {
    let within = env::temp_dir();
    sweep(&within);
    loop {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&within)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        // Another process may have swept it away before it was locked.
        if folder.path().join(LOCK).exists() {
            return Ok(Folder { folder, _lock: lock });
        }
    }
}

fn sweep(within: &Path) {
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let lock = entry.path().join(LOCK);
        // Only a file can be locked, and a pipe would be waited for.
        if !ours || !fs::symlink_metadata(&lock).is_ok_and(|status| status.is_file()) {
            continue;
        }
        if File::open(&lock).is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Another user's stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
