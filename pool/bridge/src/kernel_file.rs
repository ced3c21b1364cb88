//! A kernel file: `mm/dmapool.c` of the user's, compiled and loaded.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pool::{CreateError, Memory, PageAllocator, PageOrder, Policy};

use crate::abi::Call;
use crate::calls::Calls;
use crate::compile::{Kind, Options, Sanitizer, compile, content};
use crate::crash::{Crash, Names};
use crate::error::BuildError;
use crate::host::{Context, HOST, Host};
use crate::kernel_pool::KernelPool;
use crate::library::Library;
use crate::machine::Machines;
use crate::probe::probe;
use crate::source::Source;

const KIND: Kind =
    Kind { file: "mm/dmapool.c", header: "linux/dmapool.h", own_header: "dmapool.h", entry: "entry/dmapool.c" };
/// The largest that sysfs gives a file of.
const PAGE: u64 = 4096;

/// A file that is loaded.
pub(crate) struct Loaded {
    pub(crate) library: &'static Library,
    pub(crate) calls: Calls,
    pub(crate) machines: Machines,
    pub(crate) names: Names,
    /// Calls that did not come to an end.
    pub(crate) endless: AtomicU32,
    /// The object, where it is in no cache.
    _kept: Option<tempfile::TempDir>,
}

/// A `mm/dmapool.c` that is compiled and loaded.
#[derive(Clone)]
pub struct KernelFile {
    loaded: Arc<Loaded>,
    path: PathBuf,
    text: Arc<[u8]>,
    variant: String,
    is_debug: bool,
}

impl KernelFile {
    /// Compiles the file at `path`, or in the kernel tree there, and loads it.
    ///
    /// # Errors
    /// [`BuildError`] if it is not there, does not compile or cannot be loaded.
    pub fn open(path: &Path, options: &Options) -> Result<Self, BuildError> {
        Self::of_source(Source::find(path, KIND.file)?, options)
    }

    /// What identifies the file at `path`, its tree's header, and how they are compiled: the same content, the same pool.
    ///
    /// # Errors
    /// [`BuildError`] if it is not there, or there is no compiler.
    pub fn content(path: &Path, options: &Options) -> Result<String, BuildError> {
        content(&Source::find(path, KIND.file)?, &KIND, options)
    }

    /// The same with a changed text, which is in no file; `None` if `edit` says that it does not fit.
    ///
    /// # Errors
    /// As [`KernelFile::open`].
    pub fn open_edited(
        path: &Path,
        options: &Options,
        edit: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Option<Self>, BuildError> {
        let source = Source::find(path, KIND.file)?;
        let Some(text) = edit(&String::from_utf8_lossy(&source.text)) else { return Ok(None) };
        Self::of_source(Source { text: text.into_bytes(), is_edited: true, ..source }, options).map(Some)
    }

    fn of_source(source: Source, options: &Options) -> Result<Self, BuildError> {
        let compiled = compile(&source, &KIND, options)?;
        let library = Library::load(&compiled.object, &source.path)?;
        let calls = Calls::of(library)?;
        let names = Names { object: compiled.object };
        let loaded = Arc::new(Loaded {
            library,
            calls,
            machines: Machines::default(),
            names,
            endless: AtomicU32::new(0),
            _kept: compiled.kept,
        });
        Ok(Self {
            loaded,
            path: source.path,
            text: source.text.into(),
            variant: variant(options),
            is_debug: options.debug,
        })
    }

    /// It as a policy named `name`, which keeps its own data where it is seen to keep it (see [`Policy::metadata`]).
    #[must_use]
    pub fn policy(&self, name: &str) -> Policy {
        let loaded = Arc::clone(&self.loaded);
        let create: Arc<pool::policy::Create> = Arc::new(move |memory, source, geometry| {
            let pool = KernelPool::create(&loaded, &memory, source, geometry)?;
            Ok::<_, CreateError>(Box::new(pool))
        });
        let seen = probe(&create, || self.loaded.endless.load(Ordering::Relaxed) > 0);
        // What is judged begins here.
        self.loaded.endless.store(0, Ordering::Relaxed);
        let about = format!("{} compiled for user space{}", self.path.display(), self.variant);
        let made = Policy::new(name.to_owned(), about, seen.metadata, seen.smallest, move |m, s, g| create(m, s, g));
        let mut policy = made.of_source(&String::from_utf8_lossy(&self.text));
        policy.fingerprint = format!("{}{}", policy.fingerprint, self.variant).into();
        policy.loses_last = seen.loses_last;
        policy.walks = self.is_debug;
        policy
    }

    /// What the sysfs file `pools` of the device of that memory's pools says.
    ///
    /// # Errors
    /// What stands in the way, in words: no pool was made there, or the file crashed.
    pub fn pools_file(&self, memory: &Arc<Memory>) -> Result<String, String> {
        let machine = self.loaded.machines.of(memory, self.loaded.library).map_err(|error| error.to_string())?;
        let mut page = vec![0_u8; PAGE as usize];
        let (device, mut length) = (machine.device(), 0);
        let source = PageAllocator::new(Arc::clone(memory), PAGE, u64::MAX, PageOrder::Forward);
        let host = Host::new(Arc::clone(&machine), source);
        let context = Context { host: &host, error: RefCell::default(), refusal: Cell::default() };
        let at = ptr::from_ref(&context).cast::<c_void>().cast_mut();
        let mut call = Call::new(&raw const HOST, at, PAGE, true);
        // SAFETY: the page has the size of a page, and `length` is a variable here.
        unsafe { (self.loaded.calls.show_pools)(&raw mut call, device, page.as_mut_ptr().cast(), &raw mut length) };
        if let Some(crash) = Crash::of(&call, "pools_show", &machine.mirror, &self.loaded.names) {
            return Err(crash.words);
        }
        let length = usize::try_from(length).map_err(|_| format!("the file is not there: error {length}"))?;
        page.truncate(length);
        Ok(String::from_utf8_lossy(&page).into_owned())
    }

    pub(crate) const fn loaded(&self) -> &Arc<Loaded> {
        &self.loaded
    }
}

/// How it was compiled, where that is not as usual.
fn variant(options: &Options) -> String {
    let mut variant = String::new();
    if options.debug {
        variant += ", debug build";
    }
    match options.sanitizer {
        Some(Sanitizer::Address) => variant += ", AddressSanitizer",
        Some(Sanitizer::Thread) => variant += ", ThreadSanitizer",
        None => {}
    }
    variant
}
