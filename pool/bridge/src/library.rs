//! A compiled file in this program.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;

use crate::error::BuildError;
use crate::guard;

/// A loaded shared object. It stays for good: pools that were not destroyed are its.
pub struct Library {
    loaded: Loaded,
    /// The file that it was made of, for messages.
    source: PathBuf,
}

/// What is loaded already, by object.
static LOADED: Mutex<Option<HashMap<PathBuf, &'static Library>>> = Mutex::new(None);

impl Library {
    /// Loads `object`, made of `source`, and what brings calls into it back.
    ///
    /// # Errors
    /// [`BuildError::Load`] in the loader's words.
    pub fn load(object: &Path, source: &Path) -> Result<&'static Self, BuildError> {
        let mut loaded = LOADED.lock();
        let all = loaded.get_or_insert_default();
        if let Some(&library) = all.get(object) {
            return Ok(library);
        }
        let error = |reason: String| BuildError::Load { path: source.to_owned(), reason };
        // SAFETY: the object was compiled from the user's file and the shim; neither has constructors, and the file runs only
        // when it is called.
        let opened = unsafe { Loaded::open(Some(object), RTLD_NOW | RTLD_LOCAL) };
        let opened = opened.map_err(|cause| error(cause.to_string()))?;
        let library: &'static Self = Box::leak(Box::new(Self { loaded: opened, source: source.to_owned() }));
        guard::install().map_err(|cause| error(format!("signal handlers: {cause}")))?;
        all.insert(object.to_owned(), library);
        Ok(library)
    }

    /// A function or object of that name; `T` must be its type in the C text.
    ///
    /// # Errors
    /// [`BuildError::Load`] if there is none.
    pub fn symbol<T: Copy>(&self, name: &CStr) -> Result<T, BuildError> {
        // SAFETY: the types in `abi` are those of shim/, whose text is compiled in with this crate.
        let symbol = unsafe { self.loaded.get::<T>(name.to_bytes_with_nul()) };
        let symbol =
            symbol.map_err(|error| BuildError::Load { path: self.source.clone(), reason: error.to_string() })?;
        Ok(*symbol)
    }
}
