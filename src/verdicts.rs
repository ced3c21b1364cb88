//! Verdicts of kernel files that are known: a run is determined by the file's content, the options and this program.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use c_bridge::{KernelFile, cache_folder};
use sha2::{Digest, Sha256};

use crate::base::Base;
use crate::cli::Check;
use crate::error::Error;
use crate::exit::Exit;
use crate::kernel_c::refused;

/// Where the verdict of a check is kept.
pub(crate) struct Verdicts {
    file: PathBuf,
    fresh: bool,
}

impl Verdicts {
    /// Of a check of kernel files alone, without a sanitizer and another driver; the verdict of others is not kept.
    pub(crate) fn of(arguments: &Check, base: Option<&Base>) -> Result<Option<Self>, Error> {
        let kernel_c = &arguments.kernel_c;
        let options = kernel_c.options();
        if kernel_c.dmapool_c.is_empty() || options.sanitizer.is_some() || arguments.udc_c.udc_c.is_some() {
            return Ok(None);
        }
        let (Some(cache), Some(program)) = (cache_folder(), program()) else { return Ok(None) };
        let mut hash = Sha256::new();
        let files = base.map(|base| &base.path).into_iter().chain(&kernel_c.dmapool_c);
        for path in files {
            hash.update(KernelFile::content(path, &options).map_err(refused)?);
        }
        // Names of files are in it, and everything else that was asked for.
        hash.update(program);
        hash.update(format!("{:?}", Check { fresh: false, ..arguments.clone() }));
        let key: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Self { file: cache.join("verdicts").join(key), fresh: arguments.fresh }))
    }

    /// What was printed, and the status, if it is known.
    pub(crate) fn known(&self) -> Option<(Vec<u8>, Exit)> {
        let kept = if self.fresh { None } else { fs::read(&self.file).ok() }?;
        let (&status, text) = kept.split_last()?;
        // What another program wrote there, or half, is none.
        let exit = [Exit::NoFailure, Exit::Broken].into_iter().find(|exit| *exit as u8 == status)?;
        Some((text.to_owned(), exit))
    }

    /// Keeps it; where that cannot be done, the next check runs again.
    pub(crate) fn keep(&self, text: &[u8], exit: Exit) {
        let Some(folder) = self.file.parent() else { return };
        let written = fs::create_dir_all(folder)
            .and_then(|()| tempfile::NamedTempFile::new_in(folder))
            .and_then(|part| fs::write(part.path(), [text, &[exit as u8]].concat()).map(|()| part));
        let _ = written.map(|part| part.persist(&self.file));
    }
}

/// What identifies this program: one that is built again is another.
fn program() -> Option<String> {
    let path = env::current_exe().ok()?;
    let meta = fs::metadata(&path).ok()?;
    let built = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} {}", path.display(), meta.len(), built.as_nanos()))
}
