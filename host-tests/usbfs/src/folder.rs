//! The folder with a bus's files, and what is left of those of dead processes.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What the folders' names begin with; the process and random letters follow.
const PREFIX: &str = "usbfs-shim.";
/// The file in it that is locked as long as its process lives, in whichever container: a number of a process says nothing
/// beyond its own.
const LOCK: &str = "lock";

/// A new folder that only this user may enter, with the lock that keeps it. Folders of killed processes are removed.
pub(crate) fn make(within: &Path) -> io::Result<(PathBuf, File)> {
    sweep(within);
    loop {
        let path = new(within)?;
        let lock = File::create(path.join(LOCK))?;
        lock.lock()?;
        // Another process may have swept it away before it was locked.
        if path.join(LOCK).exists() {
            return Ok((path, lock));
        }
    }
}

/// Bytes that can still be written there.
pub(crate) fn room(within: &Path) -> io::Result<u64> {
    let path = CString::new(within.as_os_str().as_bytes())?;
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a terminated path; statvfs fills the structure when it returns 0.
    let status = unsafe {
        if libc::statvfs(path.as_ptr(), status.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        status.assume_init()
    };
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

fn new(within: &Path) -> io::Result<PathBuf> {
    let template = within.join(format!("{PREFIX}{}.XXXXXX", std::process::id()));
    let mut template = CString::new(template.as_os_str().as_bytes())?.into_bytes_with_nul();
    // SAFETY: a terminated, writable template.
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    template.pop();
    Ok(PathBuf::from(OsStr::from_bytes(&template)))
}

/// Removes folders that nobody holds the lock of. One without a lock file is being made; other users' are not ours to open,
/// and in a folder that all may write, they choose what lies there.
fn sweep(within: &Path) {
    let ours = |path: &Path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
    for path in fs::read_dir(within).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| ours(path))
    {
        if !is_own_folder(&path) {
            continue;
        }
        let Ok(lock) = open_lock(&path) else { continue };
        if lock.try_lock().is_ok() {
            // What cannot be removed stays.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// A folder of this user's, and no link, which could lead anywhere.
fn is_own_folder(path: &Path) -> bool {
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    fs::symlink_metadata(path).is_ok_and(|status| status.is_dir() && status.uid() == user)
}

/// The lock file as [`make`] makes it. Anything else is not waited for, as a FIFO would be, and not followed.
fn open_lock(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    let lock = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(folder.join(LOCK))?;
    if lock.metadata()?.is_file() { Ok(lock) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;

    use super::{LOCK, PREFIX, make};

    #[test]
    fn what_dead_processes_left_is_swept_and_what_lives_is_not() {
        let within = std::env::temp_dir().join(format!("sweep-{}", std::process::id()));
        fs::create_dir(&within).unwrap();
        let (living, lock) = make(&within).unwrap();
        let dead = within.join(format!("{PREFIX}1.abcdef"));
        fs::create_dir_all(dead.join("sys")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let (unfinished, other) = (within.join(format!("{PREFIX}2.abcdef")), within.join("other"));
        for folder in [&unfinished, &other] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(other.join(LOCK), "").unwrap();
        let (next, _lock) = make(&within).unwrap();
        assert!(!dead.exists());
        for folder in [&living, &unfinished, &other, &next] {
            assert!(folder.exists(), "{folder:?}");
        }
        // Nobody's lock: not waited for, not followed, not removed.
        let planted = ["fifo", "link"].map(|name| within.join(format!("{PREFIX}{name}")));
        for folder in &planted {
            fs::create_dir(folder).unwrap();
        }
        let fifo = CString::new(planted[0].join(LOCK).into_os_string().into_vec()).unwrap();
        // SAFETY: a terminated path.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        symlink(other.join(LOCK), planted[1].join(LOCK)).unwrap();
        drop(lock);
        make(&within).unwrap();
        assert!(planted.iter().all(|folder| folder.exists()));
        assert!(!living.exists());
        fs::remove_dir_all(&within).unwrap();
    }
}
