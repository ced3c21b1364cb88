//! Whether a program takes the preloaded library: one that does not would see the machine's own bus without a word.

use std::env;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::elf::{DF_1_PIE, DT_FLAGS_1, ET_DYN, FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use thiserror::Error;

/// Why a program does not take the library.
#[derive(Debug, Error)]
pub enum Unreachable {
    /// There is no such program.
    #[error("{0:?} is no program in PATH")]
    NotFound(PathBuf),
    /// It cannot be looked at.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Unreadable(PathBuf, #[source] io::Error),
    /// No loader looks at LD_PRELOAD.
    #[error("{path} is linked statically: it cannot be shown another bus than the machine's own", path = .0.display())]
    Static(PathBuf),
    /// The loader ignores LD_PRELOAD for it (ld.so(8), secure-execution mode).
    #[error(
        "{path} gets {what} when it starts: the loader lets nobody put a library before it; run a copy without",
        path = .0.display(), what = .1
    )]
    Privileged(PathBuf, &'static str),
    /// Its loader cannot take a library of this machine's kind.
    #[error("{path} is for another kind of machine or of another word size than this program", path = .0.display())]
    Foreign(PathBuf),
}

/// Scripts that name scripts as their interpreters, as deep as Linux follows them (fs/exec.c, `bprm_execve`).
const MOST_INTERPRETERS: usize = 5;

/// The program that a command starts, as execvp(3) finds it, if it takes a preloaded library. A script does if its
/// interpreter does.
///
/// # Errors
/// [`Unreachable`]. What a program starts in its turn is not looked at.
pub fn reachable(program: impl AsRef<OsStr>) -> Result<PathBuf, Unreachable> {
    let found = find(program.as_ref())?;
    let mut file = found.clone();
    for _ in 0..MOST_INTERPRETERS {
        match look(&file)? {
            Some(interpreter) => file = interpreter,
            None => break,
        }
    }
    Ok(found)
}

/// Like execvp(3): a name without a slash is looked up in PATH.
fn find(program: &OsStr) -> Result<PathBuf, Unreachable> {
    let executable =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if program.as_bytes().contains(&b'/') {
        return Ok(program.into());
    }
    // What execvp(3) takes when there is no PATH (confstr, _CS_PATH).
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut places = env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| executable(place)).ok_or_else(|| Unreachable::NotFound(program.into()))
}

/// Looks at one file: its interpreter, if it is a script.
fn look(path: &Path) -> Result<Option<PathBuf>, Unreachable> {
    let unreadable = |error| Unreachable::Unreadable(path.to_owned(), error);
    let status = fs::metadata(path).map_err(unreadable)?;
    if !status.is_file() {
        // As execve(2) says of a folder or a device. A FIFO would be waited for.
        return Err(unreadable(io::Error::from_raw_os_error(libc::EACCES)));
    }
    let mut file = match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        // It may run all the same: a program that may be executed and not read is left to the loader.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut head = Vec::new();
    // BINPRM_BUF_SIZE (uapi/linux/binfmts.h): what the kernel looks at.
    (&mut file).take(256).read_to_end(&mut head).map_err(unreadable)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return Ok(interpreter(line));
    }
    if let Some(what) = privilege(path, &status) {
        return Err(Unreachable::Privileged(path.to_owned(), what));
    }
    let data = ReadCache::new(file);
    match FileKind::parse(&data) {
        Ok(FileKind::Elf64) => elf::<FileHeader64<Endianness>>(path, &data),
        Ok(FileKind::Elf32) => elf::<FileHeader32<Endianness>>(path, &data),
        // Something else that the kernel, or a shell, knows how to start.
        _ => Ok(()),
    }?;
    Ok(None)
}

/// The first word after `#!`.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let word = line.split(|byte| b" \t\0".contains(byte)).find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(word).into())
}

/// Whether the loader can put this file before a program as a shared library.
pub(crate) fn loadable(path: &Path) -> io::Result<()> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let shared = file.metadata()?.is_file() && {
        let data = ReadCache::new(file);
        match FileKind::parse(&data) {
            Ok(FileKind::Elf64) => is_shared_library::<FileHeader64<Endianness>>(&data),
            Ok(FileKind::Elf32) => is_shared_library::<FileHeader32<Endianness>>(&data),
            _ => false,
        }
    };
    let text = "it is no shared library for this machine";
    if shared { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, text)) }
}

/// An executable that may lie anywhere is marked by a flag alone (DF_1_PIE).
fn is_shared_library<'data, Elf: FileHeader<Endian = Endianness>>(data: impl ReadRef<'data>) -> bool {
    let look = || {
        let header = Elf::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let programs = header.program_headers(endian, data).ok()?;
        let dynamic = programs.iter().find_map(|program| program.dynamic(endian, data).ok().flatten())?;
        let mut flags = dynamic.iter().filter(|entry| entry.tag(endian) == DT_FLAGS_1);
        let executable = flags.any(|entry| entry.val(endian) & DF_1_PIE.0 != 0);
        Some(header.e_type(endian) == ET_DYN && is_for_this_machine(header, endian) && !executable)
    };
    look().unwrap_or(false)
}

fn elf<'data, Elf: FileHeader<Endian = Endianness>>(path: &Path, data: impl ReadRef<'data>) -> Result<(), Unreachable> {
    // A file that is no whole program is the loader's to refuse.
    let Ok(header) = Elf::parse(data) else { return Ok(()) };
    let Ok(endian) = header.endian() else { return Ok(()) };
    let Ok(programs) = header.program_headers(endian, data) else { return Ok(()) };
    if !is_for_this_machine(header, endian) {
        Err(Unreachable::Foreign(path.to_owned()))
    } else if !programs.iter().any(|program| program.p_type(endian) == PT_INTERP) {
        Err(Unreachable::Static(path.to_owned()))
    } else {
        Ok(())
    }
}

fn is_for_this_machine<Elf: FileHeader<Endian = Endianness>>(header: &Elf, endian: Endianness) -> bool {
    let same_width = cfg!(target_pointer_width = "64") == header.is_type_64();
    // Where this program cannot be read, the loader knows.
    same_width && machine().is_none_or(|machine| machine == header.e_machine(endian).0)
}

/// The machine that this code was compiled for, as its executable says.
fn machine() -> Option<u16> {
    let mut head = [0; 20];
    File::open("/proc/self/exe").and_then(|mut file| file.read_exact(&mut head)).ok()?;
    // e_machine (gABI, ELF header), in this machine's order of bytes.
    Some(u16::from_ne_bytes([head[18], head[19]]))
}

/// What a program gets at its start that puts its loader into secure-execution mode.
fn privilege(path: &Path, status: &fs::Metadata) -> Option<&'static str> {
    // SAFETY: these calls take nothing and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mode = status.permissions().mode();
    if mode & libc::S_ISUID != 0 && status.uid() != uid {
        return Some("another user's rights (setuid)");
    }
    if mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 && status.gid() != gid {
        return Some("another group's rights (setgid)");
    }
    let text = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: terminated strings, and no buffer.
    let size = unsafe { libc::getxattr(text.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    (size > 0 && uid != 0).then_some("capabilities of its file")
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::{Unreachable, interpreter, loadable, reachable};

    /// Both would be waited for.
    #[test]
    fn a_fifo_is_no_program_and_no_interpreter() {
        let folder = std::env::temp_dir().join(format!("program-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (fifo, script) = (folder.join("fifo"), folder.join("script"));
        let path = CString::new(fifo.as_os_str().as_bytes()).unwrap();
        // SAFETY: a terminated path.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o777) }, 0);
        fs::write(&script, format!("#!{}\n", fifo.display())).unwrap();
        for program in [&fifo, &script, &folder] {
            let error = reachable(program).unwrap_err();
            assert!(
                matches!(&error, Unreachable::Unreadable(_, why) if why.raw_os_error() == Some(libc::EACCES)),
                "{error}"
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_a_shared_library_of_this_machine_is_preloaded() {
        let libc = fs::read_to_string("/proc/self/maps").unwrap();
        let libc = libc.split_whitespace().find(|word| word.contains("libc.so")).expect("its own libc");
        loadable(Path::new(libc)).unwrap();
        for path in ["/", "/etc/passwd", "/dev/null", "/nowhere", "/proc/self/exe"] {
            loadable(Path::new(path)).unwrap_err();
        }
    }

    #[test]
    fn the_interpreter_is_the_first_word() {
        for line in ["/bin/sh\necho", " /bin/sh -e\n", "\t/bin/sh", "/bin/sh\0"] {
            assert_eq!(interpreter(line.as_bytes()).as_deref(), Some(Path::new("/bin/sh")), "{line:?}");
        }
        assert_eq!(interpreter(b"  \necho"), None);
    }
}
