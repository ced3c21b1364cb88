//! Prepared headers of a kernel: Debian's, or those of a tree that was built.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// What a build leaves behind, and udc.c needs.
const CONFIGURATION: &str = "include/generated/autoconf.h";
const GENERATED: &str = "arch/x86/include/generated";
const VERSION: &str = "include/generated/uapi/linux/version.h";
const SOURCE: &str = "include/linux/kernel.h";

/// The version that the glue was written for.
const GLUE_FITS: (u32, u32) = (6, 1);

/// Where headers are: those that a build made, and those of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    build: PathBuf,
    source: PathBuf,
}

impl Headers {
    /// Finds them in `folder`, or in the one folder below it that has any.
    pub(crate) fn find(folder: &Path) -> Result<Self, OpenError> {
        let wrong = |reason: String| OpenError::Headers { path: folder.to_owned(), reason };
        // The compiler runs elsewhere.
        let whole = fs::canonicalize(folder).map_err(|error| wrong(error.to_string()))?;
        let build = find_build(&whole).ok_or_else(|| wrong(format!("there is no {CONFIGURATION}")))?;
        if !build.join(GENERATED).is_dir() {
            return Err(wrong(format!("there is no {GENERATED}: they are not for x86")));
        }
        // What the kernel's inlines call has other names in other versions.
        match version(&build) {
            Some(GLUE_FITS) => {}
            Some((major, minor)) => {
                return Err(wrong(format!("they are of Linux {major}.{minor}, and the glue fits 6.1")));
            }
            None => return Err(wrong(format!("there is no version in {VERSION}"))),
        }
        let source = find_source(&build).ok_or_else(|| wrong(format!("there is no {SOURCE} that belongs to them")))?;
        Ok(Self { build, source })
    }

    /// Whether `folder` has headers.
    pub(crate) fn are_in(folder: &Path) -> bool {
        folder.join(CONFIGURATION).is_file()
    }

    /// Folders to look in, in the order of the kernel's Makefile (LINUXINCLUDE).
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let Self { build, source } = self;
        vec![
            source.join("arch/x86/include"),
            build.join(GENERATED),
            source.join("include"),
            build.join("include"),
            source.join("arch/x86/include/uapi"),
            build.join(GENERATED).join("uapi"),
            source.join("include/uapi"),
            build.join("include/generated/uapi"),
        ]
    }
}

/// The version of a kernel: major and minor.
fn version(build: &Path) -> Option<(u32, u32)> {
    let text = fs::read_to_string(build.join(VERSION)).ok()?;
    let code = text.lines().find_map(|line| line.strip_prefix("#define LINUX_VERSION_CODE "))?;
    let code: u32 = code.trim().parse().ok()?;
    Some((code >> 16, code >> 8 & 0xff))
}

fn find_build(folder: &Path) -> Option<PathBuf> {
    if Headers::are_in(folder) {
        return Some(folder.to_owned());
    }
    let below = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut found = below.filter(|path| Headers::are_in(path));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The tree itself, the one that a build elsewhere points to, or Debian's `-common` beside it.
fn find_source(build: &Path) -> Option<PathBuf> {
    let mut candidates = vec![build.to_owned(), build.join("source")];
    let mut name = build.file_name()?.to_str()?;
    while let Some((shorter, _)) = name.rsplit_once('-') {
        candidates.push(build.with_file_name(format!("{shorter}-common")));
        name = shorter;
    }
    candidates.into_iter().find(|folder| folder.join(SOURCE).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let text = if name == VERSION { "#define LINUX_VERSION_CODE 393648\n" } else { "" };
        fs::write(path, text).expect("written");
    }

    #[test]
    fn headers_are_found_as_debian_and_a_build_lay_them_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("there");
        let debian = root.join("debian/linux-headers-6.1.0-50-cloud-amd64");
        let common = root.join("debian/linux-headers-6.1.0-50-common");
        file(&debian, CONFIGURATION);
        file(&debian, VERSION);
        file(&debian, &format!("{GENERATED}/asm/a.h"));
        file(&common, SOURCE);
        let found = Headers { build: debian.clone(), source: common };
        assert_eq!(Headers::find(&debian), Ok(found.clone()));
        assert_eq!(Headers::find(&root.join("debian")), Ok(found), "the one folder that has any");
        let tree = root.join("tree");
        for name in [CONFIGURATION, VERSION, SOURCE, "arch/x86/include/generated/asm/a.h"] {
            file(&tree, name);
        }
        assert_eq!(Headers::find(&tree), Ok(Headers { build: tree.clone(), source: tree }));
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let reason =
            |folder: &Path| Headers::find(folder).map_err(|error| error.to_string()).expect_err("not all is there");
        assert!(reason(&folder.path().join("none")).contains("No such file"));
        assert!(reason(folder.path()).contains("there is no include/generated/autoconf.h; expected Debian's"));
        file(folder.path(), CONFIGURATION);
        assert!(reason(folder.path()).contains("they are not for x86"));
        file(folder.path(), &format!("{GENERATED}/asm/a.h"));
        assert!(reason(folder.path()).contains("there is no version in "));
        let version = folder.path().join(VERSION);
        file(folder.path(), VERSION);
        assert!(reason(folder.path()).contains("there is no include/linux/kernel.h that belongs to them"));
        fs::write(version, "#define LINUX_VERSION_CODE 396405\n").expect("written");
        assert!(reason(folder.path()).contains("they are of Linux 6.12, and the glue fits 6.1"));
    }
}
