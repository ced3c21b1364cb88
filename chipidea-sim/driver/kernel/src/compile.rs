//! From udc.c, headers and the glue to a shared object: compiled once for each content, unmodified.
//!
//! The content is what the preprocessor makes of them, so that a change in any header counts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use c_bridge::BuildError;
use c_bridge::parts::{Compiled, Compiler, Key, Source, cached};

use crate::error::OpenError;
use crate::glue;
use crate::headers::Headers;

/// As the kernel is compiled (Makefile, KBUILD_CFLAGS; scripts/Makefile.lib), but for what needs a kernel.
const KERNEL: [&str; 17] = [
    "-nostdinc",
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-fshort-wchar",
    "-funsigned-char",
    "-fno-strict-aliasing",
    "-fno-common",
    "-fwrapv",
    "-fno-delete-null-pointer-checks",
    "-fno-stack-protector",
    "-fno-omit-frame-pointer",
    "-D__KERNEL__",
    "-DMODULE",
    "-DKBUILD_MODFILE=\"ci_hdrc\"",
    "-D__KBUILD_MODNAME=kmod_ci_hdrc",
];
const NAMES: [&str; 2] = ["-DKBUILD_MODNAME=\"ci_hdrc\"", "-DKBUILD_BASENAME=\"udc\""];
const WARNINGS: [&str; 4] =
    ["-w", "-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types", "-Werror=int-conversion"];
const PROGRAM: [&str; 5] = ["-std=gnu11", "-O2", "-g1", "-fPIC", "-fno-omit-frame-pointer"];

/// Compiles `source` against `headers`, or finds it compiled.
pub(crate) fn compile(source: &Source, headers: &Headers, cache: Option<PathBuf>) -> Result<Compiled, OpenError> {
    let compiler = Compiler::find()?;
    let work = Work::new(&compiler, source, headers)?;
    let key = work.key()?;
    Ok(cached(&key, cache, |_, object| work.make(object))?)
}

/// A folder with the glue, and the commands over it.
struct Work<'a> {
    folder: tempfile::TempDir,
    compiler: &'a Compiler,
    source: &'a Source,
    kernel: Vec<OsString>,
}

impl<'a> Work<'a> {
    fn new(compiler: &'a Compiler, source: &'a Source, headers: &Headers) -> Result<Self, BuildError> {
        let no_place = |error: std::io::Error| BuildError::NoPlace(error.to_string());
        let folder = tempfile::Builder::new().prefix("poolproof-").tempdir().map_err(no_place)?;
        glue::write(folder.path()).map_err(no_place)?;
        let mut kernel: Vec<OsString> = KERNEL.iter().chain(&NAMES).chain(&WARNINGS).map(OsString::from).collect();
        kernel.extend(["-isystem".into(), compilers_own(compiler)?.into()]);
        let beside = source.path.parent().map(Path::to_owned).into_iter();
        for path in headers.folders().into_iter().chain(beside) {
            kernel.extend(["-I".into(), path.into()]);
        }
        kernel.extend(["-include".into(), folder.path().join("config.h").into()]);
        Ok(Self { folder, compiler, source, kernel })
    }

    /// A hash over everything that the object is made of.
    fn key(&self) -> Result<String, BuildError> {
        let mut key = Key::default();
        key.add(self.compiler.identity().as_bytes());
        for flag in PROGRAM.iter().chain(&KERNEL).chain(&NAMES).chain(&WARNINGS) {
            key.add(flag.as_bytes());
        }
        for (place, text) in glue::files() {
            key.add(place.as_bytes());
            key.add(text.as_bytes());
        }
        // Messages and debug information name it.
        key.add(self.source.path.as_os_str().as_encoded_bytes());
        let udc = self.preprocessing(&self.source.path)?;
        let all = self.preprocessing(&self.glue("all.c"))?;
        for output in [udc, all] {
            key.add(&output.text()?);
        }
        Ok(key.finish())
    }

    fn glue(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the preprocessor over `file`.
    fn preprocessing(&self, file: &Path) -> Result<Preprocessing, BuildError> {
        let mut command = self.kernel_command();
        // The glue's folder has another name each time.
        command.args(["-E", "-P"]).arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| BuildError::NoCompiler(error.to_string()))?;
        Ok(Preprocessing { child, source: self.source.path.clone() })
    }

    fn kernel_command(&self) -> Command {
        let mut command = self.compiler.command();
        command.args(&self.kernel);
        command
    }

    fn make(&self, object: &Path) -> Result<(), BuildError> {
        let source = &self.source.path;
        let (udc, all, calls) = (self.glue("udc.o"), self.glue("all.o"), self.glue("calls.o"));
        let mut command = self.kernel_command();
        command.arg("-c").arg(source).arg("-o").arg(&udc);
        Compiler::run(command, source)?;
        let mut command = self.kernel_command();
        command.arg("-c").arg(self.glue("all.c")).arg("-o").arg(&all);
        Compiler::run(command, source)?;
        let mut command = self.compiler.command();
        command.args(PROGRAM).arg("-I").arg(self.folder.path());
        command.arg("-c").arg(self.glue("calls.c")).arg("-o").arg(&calls);
        Compiler::run(command, source)?;
        let mut command = self.compiler.command();
        command.args(["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs"]).args([udc, all, calls]).arg("-o").arg(object);
        Compiler::run(command, source)
    }
}

/// A preprocessor that runs.
struct Preprocessing {
    child: std::process::Child,
    source: PathBuf,
}

impl Preprocessing {
    fn text(self) -> Result<Vec<u8>, BuildError> {
        let output = self.child.wait_with_output().map_err(|error| BuildError::NoCompiler(error.to_string()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let words = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Err(BuildError::Compile { path: self.source, missing: Vec::new(), words })
    }
}

/// The folder of the compiler's own headers, such as `stdarg.h`.
fn compilers_own(compiler: &Compiler) -> Result<PathBuf, BuildError> {
    let output = compiler.command().arg("-print-file-name=include").output();
    let output = output.map_err(|error| BuildError::NoCompiler(error.to_string()))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if output.status.success() && folder.is_dir() {
        return Ok(folder);
    }
    Err(BuildError::NoCompiler("it does not say where its own headers are (-print-file-name=include)".to_owned()))
}
