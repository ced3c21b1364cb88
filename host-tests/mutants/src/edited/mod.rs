//! A kernel C file with one fault at a time, as changes of its lines: the pool is the kernel's, and so is what breaks.

mod edits;

use std::path::Path;

use c_bridge::{BuildError, KernelFile, Options};
use rayon::prelude::*;

use crate::catalogue::Mutant;

use edits::EDITS;

/// The mutants of a kernel file.
#[derive(Debug)]
pub struct Edited {
    /// The file as it is: what the mutants are held against.
    pub baseline: Mutant,
    /// Every fault that fits it.
    pub mutants: Vec<Mutant>,
    /// Names of those that do not: it has not the lines, or compiles no more.
    pub unfit: Vec<&'static str>,
}

/// Compiles the file at `path` as it is, and once for each fault.
///
/// # Errors
/// [`BuildError`] if the file as it is cannot be compiled.
pub fn edited(path: &Path, options: &Options) -> Result<Edited, BuildError> {
    let name = path.display().to_string();
    let baseline = Mutant::of_file(KernelFile::open(path, options)?.policy(&name), &name, &name, "as it is");
    let tried = EDITS.par_iter().map(|edit| match KernelFile::open_edited(path, options, |text| edit.apply(text)) {
        Ok(Some(file)) => Ok(Mutant::of_file(file.policy(edit.name), edit.name, &name, edit.about)),
        Ok(None) | Err(BuildError::Compile { .. }) => Err(Ok(edit.name)),
        Err(error) => Err(Err(error)),
    });
    let (mut mutants, mut unfit) = (Vec::new(), Vec::new());
    for mutant in tried.collect::<Vec<_>>() {
        match mutant {
            Ok(mutant) => mutants.push(mutant),
            Err(Ok(name)) => unfit.push(name),
            Err(Err(error)) => return Err(error),
        }
    }
    Ok(Edited { baseline, mutants, unfit })
}
