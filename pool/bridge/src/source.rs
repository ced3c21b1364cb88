//! A kernel file of the user's: where it is, and what it names.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::BuildError;

/// Bytes of a C file at most. The kernel's largest have less than one MiB.
const LARGEST: u64 = 16 << 20;

/// A C file, alone or in a kernel tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its text, as it is compiled.
    pub text: Vec<u8>,
    /// Whether that is not what is at `path`.
    pub is_edited: bool,
    /// The tree that it lies in.
    pub tree: Option<PathBuf>,
}

impl Source {
    /// Finds `file`, such as `mm/dmapool.c`: `path` is that file, or a tree with it.
    ///
    /// # Errors
    /// [`BuildError::Absent`].
    pub fn find(path: &Path, file: &'static str) -> Result<Self, BuildError> {
        let absent = |reason: String| BuildError::Absent { path: path.to_owned(), reason, file };
        let found = fs::metadata(path).map_err(|error| absent(error.to_string()))?;
        let path = if found.is_dir() { path.join(file) } else { path.to_owned() };
        let absent_there = |error: io::Error| absent(format!("{}: {error}", path.display()));
        let meta = fs::metadata(&path).map_err(absent_there)?;
        // A device or a pipe may never end, and the compiler reads it again.
        if !meta.is_file() || meta.len() > LARGEST {
            return Err(absent(format!("no C file has this kind or size, {} bytes", meta.len())));
        }
        let text = fs::read(&path).map_err(absent_there)?;
        // What begins with a dash is an option to the compiler.
        let path = if path.as_os_str().as_encoded_bytes().starts_with(b"-") { Path::new(".").join(path) } else { path };
        let depth = Path::new(file).components().count();
        let whole = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let tree = whole.ancestors().nth(depth).filter(|_| whole.ends_with(file)).map(Path::to_owned);
        Ok(Self { path, text, is_edited: false, tree })
    }

    /// The tree's own header of that name, such as `linux/dmapool.h`.
    pub(crate) fn header(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.tree.as_ref()?.join("include").join(name)).ok()
    }

    /// The file beside it that it includes by that name, if there is one.
    pub(crate) fn beside(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path.parent()?.join(name)).ok()
    }
}

/// The headers that a text includes: with `<` those of the kernel, with `"` those beside it.
pub(crate) fn includes(text: &[u8], open: char) -> BTreeSet<String> {
    let close = if open == '<' { '>' } else { open };
    let text = String::from_utf8_lossy(text);
    let named = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        Some(rest.strip_prefix(open)?.split_once(close)?.0.to_owned())
    });
    named.filter(|name| !name.split('/').any(|part| part == ".." || part.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_found_as_they_are_written() {
        let text = b"#include <linux/list.h>\n # include\t<asm/io.h> /* why */\n#include \"slab.h\"\n// #include <no.h>\n#include <../up.h>\n";
        assert_eq!(includes(text, '<').into_iter().collect::<Vec<_>>(), ["asm/io.h", "linux/list.h"]);
        assert_eq!(includes(text, '"').into_iter().collect::<Vec<_>>(), ["slab.h"]);
    }
}
