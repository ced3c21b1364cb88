//! The pools that a bench measures: policies by their names, kernel files by their paths.

use std::ffi::OsString;
use std::path::{Component, Path};

use c_bridge::BareFile;
use pool_bench::{KernelSubject, Subject};
use scenarios::{Policy, policy};

use crate::cli::KernelC;
use crate::error::Error;
use crate::kernel_c::refused;
use crate::names;

/// What is measured, and what ratios refer to.
pub(super) struct Subjects {
    all: Vec<One>,
    baseline: usize,
}

struct One {
    subject: Box<dyn Subject>,
    /// What names it on the command line.
    words: Vec<OsString>,
    /// Other names of it, and what to tell of it.
    path: Option<String>,
}

impl Subjects {
    /// Those that are named, or the policies of Linux's kind; kernel files behind them, and the baseline if it is not there.
    pub(super) fn named(pools: &[String], kernel_c: &KernelC, baseline: Option<&str>) -> Result<Self, Error> {
        let mut subjects = Self::alone(pools, kernel_c)?;
        if pools.is_empty() {
            let table = policy::table().into_iter().map(One::policy);
            subjects.all = table.chain(subjects.all).collect();
        }
        subjects.baseline = subjects.baseline_of(baseline)?;
        Ok(subjects)
    }

    /// Those that are named and no others.
    pub(super) fn alone(pools: &[String], kernel_c: &KernelC) -> Result<Self, Error> {
        if kernel_c.asan || kernel_c.tsan {
            return Err(Error::usage("--asan and --tsan measure the sanitizer, not the pool: use them with check"));
        }
        let mut all = Vec::new();
        for (index, name) in pools.iter().enumerate() {
            if pools[..index].contains(name) {
                return Err(Error::usage(format!("--pool {name} is given twice: each pool is measured once")));
            }
            all.push(One::policy(names::pool(name)?));
        }
        let labels = labels(kernel_c)?;
        for (path, label) in kernel_c.dmapool_c.iter().zip(labels) {
            all.push(One::kernel_file(path, label, kernel_c)?);
        }
        Ok(Self { all, baseline: 0 })
    }

    fn baseline_of(&mut self, wanted: Option<&str>) -> Result<usize, Error> {
        let is_it = |one: &One| match wanted {
            Some(wanted) => one.subject.name() == wanted || one.path.as_deref() == Some(wanted),
            None => one.path.is_some(),
        };
        if let Some(index) = self.all.iter().position(is_it) {
            return Ok(index);
        }
        let policy = wanted.map_or_else(|| Ok(Policy::current()), names::pool)?;
        let known = self.all.iter().position(|one| one.subject.name() == policy.name);
        Ok(known.unwrap_or_else(|| {
            self.all.push(One::policy(policy));
            self.all.len() - 1
        }))
    }

    pub(super) fn all(&self) -> Vec<&dyn Subject> {
        self.all.iter().map(|one| &*one.subject).collect()
    }

    pub(super) const fn baseline(&self) -> usize {
        self.baseline
    }

    /// What names a subject on the command line.
    pub(super) fn words(&self, subject: usize) -> &[OsString] {
        &self.all[subject].words
    }

    /// What a reader must know of kernel files.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |one: &One| {
            let (name, path) = (one.subject.name(), one.path.as_ref()?);
            let debug = if one.words.len() > 2 { ", debug build" } else { "" };
            Some(format!(
                "{name} is {path}, compiled unmodified for user space{debug}; its locks are one exchange and one store"
            ))
        };
        self.all.iter().filter_map(note).collect()
    }
}

impl One {
    fn policy(policy: Policy) -> Self {
        let words = vec!["--pool".into(), policy.name.as_ref().into()];
        Self { subject: Box::new(policy), words, path: None }
    }

    fn kernel_file(path: &Path, label: String, kernel_c: &KernelC) -> Result<Self, Error> {
        let file = BareFile::open(path, &kernel_c.options()).map_err(refused)?;
        let mut words: Vec<OsString> = vec!["--dmapool-c".into(), path.into()];
        if kernel_c.dmapool_debug {
            words.push("--dmapool-debug".into());
        }
        let path = Some(path.display().to_string());
        Ok(Self { subject: Box::new(KernelSubject::new(label, file)), words, path })
    }
}

/// Kernel files by what is short and tells them apart: the end of their paths, `mm/dmapool.c` of a tree being left out.
fn labels(kernel_c: &KernelC) -> Result<Vec<String>, Error> {
    let paths: Vec<Vec<String>> = kernel_c.dmapool_c.iter().map(|path| parts(path)).collect();
    let same = |(index, path): (usize, &Vec<String>)| paths[..index].contains(path);
    if let Some(twice) = paths.iter().enumerate().position(same) {
        let path = kernel_c.dmapool_c[twice].display();
        return Err(Error::usage(format!("--dmapool-c {path} is given twice: each file is measured once")));
    }
    let end = |path: &[String], parts: usize| path[path.len().saturating_sub(parts)..].join("/");
    let label = |path: &Vec<String>| {
        let is_alone =
            |parts: &usize| paths.iter().filter(|other| end(other, *parts) == end(path, *parts)).count() == 1;
        end(path, (1..path.len()).find(is_alone).unwrap_or(path.len()))
    };
    Ok(paths.iter().map(label).collect())
}

/// The words of a path, without what every kernel tree has.
fn parts(path: &Path) -> Vec<String> {
    let tree = path.ancestors().nth(2).filter(|tree| path.ends_with("mm/dmapool.c") && tree.file_name().is_some());
    let part = |part: Component<'_>| match part {
        Component::RootDir | Component::CurDir => None,
        part => Some(part.as_os_str().to_string_lossy().into_owned()),
    };
    tree.unwrap_or(path).components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(paths: &[&str]) -> Result<Vec<String>, Error> {
        labels(&KernelC { dmapool_c: paths.iter().map(Into::into).collect(), ..KernelC::default() })
    }

    #[test]
    fn a_file_is_called_by_the_end_of_its_path_that_no_other_has() {
        for (paths, expected) in [
            (&["/src/linux-6.12/mm/dmapool.c", "/src/linux-6.1"][..], &["linux-6.12", "linux-6.1"][..]),
            (&["/a/linux/mm/dmapool.c", "/b/linux/mm/dmapool.c"], &["a/linux", "b/linux"]),
            (&["dmapool.c", "new/dmapool.c", "mm/dmapool.c"], &["dmapool.c", "new/dmapool.c", "mm/dmapool.c"]),
            (&["./dmapool.c"], &["dmapool.c"]),
            (&[], &[]),
        ] {
            assert_eq!(labelled(paths).expect("no file twice"), expected);
        }
    }

    #[test]
    fn a_file_is_measured_once() {
        for twice in [["/t/mm/dmapool.c", "/t"], ["x.c", "./x.c"]] {
            assert!(labelled(&twice).expect_err("twice").message.contains("is given twice"));
        }
    }
}
