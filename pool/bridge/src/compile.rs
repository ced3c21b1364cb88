//! From a kernel file to a shared object: compiled once for each content, unmodified.
//!
//! The kernel's headers that the file names are empty: what they declare stands in `shim/kernel.h`, which is put before the
//! file. Only the interface's own header is the tree's, if the file lies in one. Names that neither has are errors here,
//! and never crashes later.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::error::BuildError;
use crate::shim;
use crate::source::{Source, includes};

/// A sanitizer of the compiler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sanitizer {
    /// AddressSanitizer: accesses beyond an object and after its end.
    Address,
    /// ThreadSanitizer: data races.
    Thread,
}

impl Sanitizer {
    /// As `-fsanitize=` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// Its library, which has to be loaded before everything else.
    #[must_use]
    pub const fn library(self) -> &'static str {
        match self {
            Self::Address => "libasan.so",
            Self::Thread => "libtsan.so",
        }
    }
}

/// How to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// As with CONFIG_SLUB_DEBUG_ON: the pool poisons and checks.
    pub debug: bool,
    /// With a sanitizer; its library must be loaded by then.
    pub sanitizer: Option<Sanitizer>,
    /// Without a watch over locks and memory, for benches.
    pub bare: bool,
    /// Where compiled files are kept; `None` for the user's cache folder.
    pub cache: Option<PathBuf>,
}

/// What belongs to a kernel file of one kind.
pub(crate) struct Kind {
    /// Its place in a kernel tree.
    pub(crate) file: &'static str,
    /// The header of its interface, taken from the tree if there is one.
    pub(crate) header: &'static str,
    /// That header's place in the shim, for a file without a tree.
    pub(crate) own_header: &'static str,
    /// The shim's file with the calls into it.
    pub(crate) entry: &'static str,
}

/// A shared object that can be loaded.
#[derive(Debug)]
pub struct Compiled {
    /// Where it is.
    pub object: PathBuf,
    /// Keeps an object that could not be put into the cache.
    pub kept: Option<tempfile::TempDir>,
}

const WARNINGS: [&str; 8] = [
    "-Wall",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Wno-unused",
    "-Wno-pointer-sign",
    // The kernel's formats are its own.
    "-Wno-format",
    "-Wno-format-extra-args",
];
/// As the kernel is compiled (Makefile, KBUILD_CFLAGS), but for what needs a kernel.
const LANGUAGE: [&str; 9] = [
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-fno-strict-aliasing",
    "-fno-common",
    "-fwrapv",
    "-fno-delete-null-pointer-checks",
    "-fno-omit-frame-pointer",
];

/// What of `source` is compiled how, as a hash of all that.
pub(crate) fn content(source: &Source, kind: &Kind, options: &Options) -> Result<String, BuildError> {
    let header = source.header(kind.header);
    Ok(key(&Compiler::find()?, &flags(options, source, kind), source, header.as_deref()))
}

/// Compiles `source`, or finds it compiled.
pub(crate) fn compile(source: &Source, kind: &Kind, options: &Options) -> Result<Compiled, BuildError> {
    let compiler = Compiler::find()?;
    let flags = flags(options, source, kind);
    let header = source.header(kind.header);
    let key = key(&compiler, &flags, source, header.as_deref());
    cached(&key, options.cache.clone(), |work, made| {
        lay_out(work, source, kind, header.as_deref()).map_err(no_place)?;
        compiler.compile(work, &flags, source, kind, made)
    })
}

/// The object of that key, a hash of all that goes into it, from `cache` (`None` is the user's), or made: `make` is given an
/// empty folder and the object's place in it.
///
/// # Errors
/// Those of `make`, and [`BuildError::NoPlace`].
pub fn cached(
    key: &str,
    cache: Option<PathBuf>,
    make: impl FnOnce(&Path, &Path) -> Result<(), BuildError>,
) -> Result<Compiled, BuildError> {
    let cache = cache.or_else(|| Some(cache_folder()?.join("compiled")));
    if let Some(object) = cache.as_ref().map(|cache| cache.join(format!("{key}.so"))).filter(|object| object.is_file())
    {
        return Ok(Compiled { object, kept: None });
    }
    let work = tempfile::Builder::new().prefix("poolproof-").tempdir().map_err(no_place)?;
    let made = work.path().join("object.so");
    make(work.path(), &made)?;
    // A cache that cannot be written costs a compilation each time, and nothing else.
    match cache.and_then(|cache| keep(&made, &cache, key).ok()) {
        Some(object) => Ok(Compiled { object, kept: None }),
        None => Ok(Compiled { object: made, kept: Some(work) }),
    }
}

/// There is no place to compile in.
pub(crate) fn no_place(error: io::Error) -> BuildError {
    BuildError::NoPlace(format!("{}: {error}", env::temp_dir().display()))
}

/// The folder for what can be made again: `$POOLPROOF_CACHE`, or poolproof in the user's cache folder.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("POOLPROOF_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("poolproof")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/poolproof")))
}

/// Puts an object into the cache, whole or not at all.
fn keep(made: &Path, cache: &Path, key: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(cache)?;
    let part = tempfile::NamedTempFile::new_in(cache)?;
    fs::copy(made, part.path())?;
    let object = cache.join(format!("{key}.so"));
    part.persist(&object)?;
    Ok(object)
}

/// The shim, the interface's header, and an empty file for every other header.
fn lay_out(folder: &Path, source: &Source, kind: &Kind, header: Option<&[u8]>) -> io::Result<()> {
    shim::write(&folder.join("shim"))?;
    let include = folder.join("include");
    let own = shim::FILES.iter().find(|(place, _)| *place == kind.own_header).map_or("", |(_, text)| text);
    let header = header.unwrap_or(own.as_bytes());
    write_below(&include, kind.header, header)?;
    if source.is_edited {
        // Messages name the file that it was.
        let line = format!("#line 1 \"{}\"\n", source.path.display().to_string().escape_default());
        fs::write(text_of(source, folder), [line.as_bytes(), &source.text].concat())?;
    }
    for name in includes(&source.text, '<').iter().chain(&includes(header, '<')) {
        if name != kind.header && !is_the_compilers(name) {
            write_below(&include, name, b"")?;
        }
    }
    Ok(())
}

/// Where the text is that is compiled.
fn text_of(source: &Source, folder: &Path) -> PathBuf {
    if source.is_edited { folder.join("edited.c") } else { source.path.clone() }
}

/// Headers without a folder are the compiler's own, such as `stdarg.h`; the kernel's all have one.
fn is_the_compilers(name: &str) -> bool {
    !name.contains('/')
}

fn write_below(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let path = folder.join(name);
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

fn flags(options: &Options, source: &Source, kind: &Kind) -> Vec<String> {
    let mut flags: Vec<String> = LANGUAGE.iter().chain(&WARNINGS).map(|&flag| flag.to_owned()).collect();
    flags.extend(["-D_GNU_SOURCE", "-D__KERNEL__"].map(str::to_owned));
    if options.debug {
        flags.push("-DCONFIG_SLUB_DEBUG_ON=1".to_owned());
    }
    if options.bare {
        flags.push("-DPOOLPROOF_BARE=1".to_owned());
    }
    if let Some(sanitizer) = options.sanitizer {
        flags.push(format!("-fsanitize={}", sanitizer.name()));
        if sanitizer == Sanitizer::Address {
            // The other goes on by itself.
            flags.push("-fsanitize-recover=address".to_owned());
        }
    }
    // Without a tree there is no header to say which of the two it is.
    if source.header(kind.header).is_none() && String::from_utf8_lossy(&source.text).contains("dma_pool_create_node(") {
        flags.push("-DPOOLPROOF_CREATE_NODE=1".to_owned());
    }
    flags
}

/// A hash over parts, each for itself, as the name of an object.
#[derive(Debug, Default)]
pub struct Key(Sha256);

impl Key {
    /// Adds a part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// The hash, in hexadecimal.
    #[must_use]
    pub fn finish(self) -> String {
        self.0.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A hash of everything that the object depends on.
fn key(compiler: &Compiler, flags: &[String], source: &Source, header: Option<&[u8]>) -> String {
    let mut hash = Key::default();
    let mut add = |part: &[u8]| hash.add(part);
    add(compiler.identity.as_bytes());
    flags.iter().for_each(|flag| add(flag.as_bytes()));
    for (place, text) in shim::FILES {
        add(place.as_bytes());
        add(text.as_bytes());
    }
    // Its place too: messages and debug information name it.
    add(source.path.as_os_str().as_encoded_bytes());
    add(&source.text);
    add(header.unwrap_or_default());
    for name in includes(&source.text, '"') {
        add(&source.beside(&name).unwrap_or_default());
    }
    hash.finish()
}

/// Where the C compiler is: `$CC`, or cc.
///
/// # Errors
/// [`BuildError::NoCompiler`] if there is none.
pub fn compiler() -> Result<PathBuf, BuildError> {
    Compiler::find().map(|compiler| PathBuf::from(compiler.program))
}

/// A C compiler: `$CC`, or cc.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: OsString,
    arguments: Vec<OsString>,
    /// Changes when another one is installed.
    identity: String,
}

impl Compiler {
    /// Finds it.
    ///
    /// # Errors
    /// [`BuildError::NoCompiler`] if there is none.
    pub fn find() -> Result<Self, BuildError> {
        let named = env::var("CC").ok().filter(|value| !value.trim().is_empty());
        let words: Vec<String> = named.as_deref().unwrap_or("cc").split_whitespace().map(str::to_owned).collect();
        let (program, arguments) = words.split_first().map_or(("cc".to_owned(), &[][..]), |(p, a)| (p.clone(), a));
        let path = find_program(&program)
            .ok_or_else(|| BuildError::NoCompiler(format!("{program} is not there or not executable")))?;
        let whole = fs::canonicalize(&path).unwrap_or(path);
        let meta = fs::metadata(&whole).map_err(|error| BuildError::NoCompiler(format!("{program}: {error}")))?;
        let changed = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let identity = format!("{} {} {} {words:?}", whole.display(), meta.len(), changed.as_nanos());
        Ok(Self { program: program.into(), arguments: arguments.iter().map(OsString::from).collect(), identity })
    }

    /// What tells it from others, and from what it was.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// A command that runs it, to which arguments are added. What it says is in English, and can be read for names.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("LC_ALL", "C");
        command
    }

    /// Runs such a command over `source`.
    ///
    /// # Errors
    /// [`BuildError`]: it does not compile, or the machine has no place for it.
    pub fn run(mut command: Command, source: &Path) -> Result<(), BuildError> {
        let output = command.output().map_err(|error| BuildError::NoCompiler(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        // Killed, without a word, or out of space: not the file's fault.
        if output.status.code().is_none() || words.is_empty() || words.contains("No space left on device") {
            return Err(BuildError::NoPlace(format!("the compiler ended with {}: {words}", output.status)));
        }
        Err(BuildError::Compile { path: source.to_owned(), missing: missing(&words), words })
    }

    fn compile(
        &self,
        work: &Path,
        flags: &[String],
        source: &Source,
        kind: &Kind,
        object: &Path,
    ) -> Result<(), BuildError> {
        let shim = work.join("shim");
        let mut command = self.command();
        command.args(flags).arg("-I").arg(work.join("include"));
        command.arg("-include").arg(shim.join("kernel.h"));
        command.arg(text_of(source, work)).arg(shim.join("runtime/all.c")).arg(shim.join(kind.entry));
        command.args(["-shared", "-Wl,-Bsymbolic"]);
        // A sanitizer's own names come with its library.
        if !flags.iter().any(|flag| flag.starts_with("-fsanitize=")) {
            command.arg("-Wl,-z,defs");
        }
        command.args(["-lpthread", "-lrt"]).arg("-o").arg(object);
        Self::run(command, &source.path)
    }
}

/// A program in PATH, or by its path.
fn find_program(name: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| OsStr::new("/usr/bin:/bin").to_owned());
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Names that are not there, by what compilers and linkers say about them. After an error of another kind the rest follows
/// from that.
fn missing(words: &str) -> Vec<String> {
    let mut names = Vec::new();
    let errors = words.lines().filter(|line| line.contains("error: ") || line.contains("undefined "));
    for name in errors.map_while(missing_in) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The name that a line says is not there.
fn missing_in(line: &str) -> Option<String> {
    const SAID: [&str; 6] = [
        "implicit declaration of function ",
        "undefined reference to ",
        "unknown type name ",
        "call to undeclared function ",
        "use of undeclared identifier ",
        "undefined symbol: ",
    ];
    let named = SAID.iter().find_map(|said| line.split_once(said).map(|(_, rest)| rest));
    // gcc: error: ‘name’ undeclared (first use in this function)
    let name = named.or_else(|| line.split_once(" undeclared ").and_then(|(before, _)| before.rsplit(' ').next()))?;
    let is_of_a_name = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
    let name: String = name.chars().skip_while(|letter| !is_of_a_name(letter)).take_while(is_of_a_name).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_names_are_read_from_what_compilers_say() {
        let gcc = "a.c:3:9: error: implicit declaration of function 'cma_alloc' [-Werror]\n\
                   a.c:4:9: error: 'GFP_WEIRD' undeclared (first use in this function); did you mean 'GFP_DMA'?\n\
                   a.c:5:1: error: unknown type name 'rwlock_t'\n\
                   /usr/bin/ld: a.o: in function `f': a.c:6: undefined reference to `vmap_pfn'\n\
                   /usr/bin/ld: a.c:7: undefined reference to `vmap_pfn'";
        assert_eq!(missing(gcc), ["cma_alloc", "GFP_WEIRD", "rwlock_t", "vmap_pfn"]);
        let clang = "a.c:3:9: error: call to undeclared function 'cma_alloc'; ISO C99 and later do not support this\n\
                     a.c:4:9: error: use of undeclared identifier 'GFP_WEIRD'";
        assert_eq!(missing(clang), ["cma_alloc", "GFP_WEIRD"]);
        let syntax = "a.c:3: error: expected ';'\na.c:9:2: error: 'lock' undeclared (first use in this function)";
        assert_eq!(missing(syntax), [""; 0], "the second follows from the first");
    }
}
