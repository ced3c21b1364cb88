//! `--asan` and `--tsan`: a sanitizer's library has to be loaded before everything else, so poolproof runs itself under it.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use c_bridge::Sanitizer;

use crate::cli::KernelC;
use crate::error::Error;
use crate::exit::Exit;

/// Set for the run that is under a sanitizer.
const INSIDE: &str = "POOLPROOF_SANITIZED";
/// Faults are caught by the guard around the file, as without a sanitizer; poolproof itself has no checks compiled in.
const OPTIONS: &str = "halt_on_error=0:exitcode=0:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigill=0:\
                       handle_sigfpe=0:handle_abort=0:report_signal_unsafe=0:ignore_noninstrumented_modules=1";

/// Runs this command under the sanitizer that it asks for, and gives its status: 1 if the sanitizer reported anything. `None` if
/// it asks for none, or runs under it already.
pub(crate) fn rerun(kernel_c: &KernelC) -> Result<Option<ExitCode>, Error> {
    let Some(sanitizer) = kernel_c.options().sanitizer.filter(|_| env::var_os(INSIDE).is_none()) else {
        return Ok(None);
    };
    let library = library(sanitizer)?;
    let folder = tempfile::tempdir().map_err(|error| Error::internal(format!("no place for reports: {error}")))?;
    let preload = env::var("LD_PRELOAD").map_or_else(|_| library.clone(), |others| format!("{library}:{others}"));
    let options = format!("{OPTIONS}:log_path={}", folder.path().join("report").display());
    let program = env::current_exe().map_err(|error| Error::internal(format!("where poolproof itself is: {error}")))?;
    let mut command = Command::new("setarch");
    command.arg("-R").arg(&program);
    // ThreadSanitizer wants addresses where they are without randomization.
    if sanitizer != Sanitizer::Thread || Command::new("setarch").arg("--version").output().is_err() {
        command = Command::new(&program);
    }
    command.args(env::args_os().skip(1));
    command.env(INSIDE, "1").env("LD_PRELOAD", preload);
    command.env("ASAN_OPTIONS", &options).env("TSAN_OPTIONS", &options);
    let status = command.status().map_err(|error| Error::internal(format!("cannot run under {library}: {error}")))?;
    let reports = reports(folder.path());
    let inner = status.code().and_then(|code| u8::try_from(code).ok());
    if reports.is_empty() {
        return Ok(Some(ExitCode::from(inner.unwrap_or(Exit::Internal as u8))));
    }
    let mut err = io::stderr();
    for report in &reports {
        // If stderr is not there, the status still tells.
        let _ = writeln!(err, "{}", report.trim_end());
    }
    let _ = writeln!(err, "poolproof: {}Sanitizer reported what is above", title(sanitizer));
    // A run that could not be made is no finding.
    let exit = inner.filter(|&code| code > Exit::Broken as u8).unwrap_or(Exit::Broken as u8);
    Ok(Some(ExitCode::from(exit)))
}

const fn title(sanitizer: Sanitizer) -> &'static str {
    match sanitizer {
        Sanitizer::Address => "Address",
        Sanitizer::Thread => "Thread",
    }
}

/// Where the compiler has the sanitizer's library.
fn library(sanitizer: Sanitizer) -> Result<String, Error> {
    let name = sanitizer.library();
    let missing = |reason: String| {
        Error::internal(format!("--{}san: {reason}; install the compiler's {name}", &sanitizer.name()[..1]))
    };
    let compiler = c_bridge::compiler().map_err(|error| Error::internal(error.to_string()))?;
    let output = Command::new(&compiler).arg(format!("-print-file-name={name}")).output();
    let output = output.map_err(|error| missing(format!("{}: {error}", compiler.display())))?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let whole = fs::canonicalize(&path).map_err(|error| missing(format!("{}: {error}", path.display())))?;
    if path.is_absolute() { Ok(whole.display().to_string()) } else { Err(missing(format!("there is no {name}"))) }
}

/// What the sanitizer wrote.
fn reports(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read(file.path()).ok());
    texts.map(|text| String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.trim().is_empty()).collect()
}
