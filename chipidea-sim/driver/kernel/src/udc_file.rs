//! A `drivers/usb/chipidea/udc.c` of the user's, compiled and loaded.

use std::path::Path;
use std::sync::Arc;

use bus::Mmio;
use c_bridge::Options;
use c_bridge::parts::{Compiled, Key, Library, Names, Source};
use chipidea_driver::Config;
use pool::DmaApi;
use usb::gadget::UdcError;

use crate::abi::Calls;
use crate::compile::compile;
use crate::driver::KernelUdc;
use crate::error::OpenError;
use crate::headers::Headers;

/// Its place in a kernel tree.
const FILE: &str = "drivers/usb/chipidea/udc.c";

/// A file that is loaded.
pub(crate) struct Loaded {
    pub(crate) calls: Calls,
    pub(crate) names: Names,
    /// The object, where it is in no cache.
    _kept: Option<tempfile::TempDir>,
}

/// A `udc.c` that is compiled and loaded. Drivers of it are independent of each other: what it knows of a controller is in
/// `struct ci_hdrc`, and it has no variable of its own.
#[derive(Clone)]
pub struct UdcFile {
    loaded: Arc<Loaded>,
    fingerprint: String,
}

impl UdcFile {
    /// Compiles the file at `path`, or in the kernel tree there, against `headers` (see [`crate`]), and loads it. Without
    /// headers they are the tree's, if that was built.
    ///
    /// # Errors
    /// [`OpenError`] if something is not there, does not compile or cannot be loaded.
    pub fn open(path: &Path, headers: Option<&Path>, options: &Options) -> Result<Self, OpenError> {
        let source = Source::find(path, FILE)?;
        if !cfg!(target_arch = "x86_64") {
            return Err(OpenError::Machine(std::env::consts::ARCH));
        }
        let tree = source.tree.as_deref().filter(|tree| Headers::are_in(tree));
        let Some(headers) = headers.or(tree) else {
            let reason = "none are named, and the file lies in no tree that was built".to_owned();
            return Err(OpenError::Headers { path: path.to_owned(), reason });
        };
        let Compiled { object, kept } = compile(&source, &Headers::find(headers)?, options.cache.clone())?;
        let library = Library::load(&object, &source.path)?;
        let (calls, names) = (Calls::of(library)?, Names { object });
        let mut key = Key::default();
        key.add(&source.text);
        let mut fingerprint = key.finish();
        fingerprint.truncate(16);
        Ok(Self { loaded: Arc::new(Loaded { calls, names, _kept: kept }), fingerprint })
    }

    /// A hash of its text, 16 digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Finds the controller behind `mmio` and binds its driver to a gadget, as [`chipidea_driver::ChipideaUdc::probe`] and
    /// `start` do. Of `config` it takes what `struct ci_hdrc_platform_data` has; a workaround is known to udc.c by the
    /// controller's revision only, so that it has all of them or none.
    ///
    /// # Errors
    /// The controller cannot be a device, there is no memory, or udc.c crashed.
    pub fn start(&self, mmio: Arc<dyn Mmio>, dma: DmaApi, config: &Config) -> Result<KernelUdc, UdcError> {
        KernelUdc::start(Arc::clone(&self.loaded), mmio, dma, config)
    }
}
