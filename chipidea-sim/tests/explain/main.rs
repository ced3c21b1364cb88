//! `explain` on what real kernels printed, and on what was done to that.

mod damage;
mod faults;
mod real;

use std::fs;
use std::path::{Path, PathBuf};

use chipidea_sim::explain::{Explanation, NothingFound, Source, explain};

/// The files of a board with 8 endpoints and a 7.3 kernel by the PCI glue, of one that was told to disconnect, and of two with
/// 16 endpoints by the msm glue.
const GOOD: [&str; 4] = ["6.1-msm", "6.12-msm", "7.3-pci-8-endpoints", "7.3-pci-8-endpoints-disconnected"];
/// Logs of boards whose pool hands out a page from its end.
const DESCENDING: [&str; 2] = ["6.12-descending-16-endpoints.log", "6.12-descending-8-endpoints.log"];

/// Name and text of files.
type Files = Vec<(String, String)>;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain/boards").join(name)
}

/// A file, or the files of a folder by name.
fn board(name: &str) -> Files {
    let path = path(name);
    let text = |path: &Path| fs::read_to_string(path).expect("a text");
    if path.is_file() {
        return vec![(name.to_owned(), text(&path))];
    }
    let entries = fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Files =
        entries.map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), text(&path))).collect();
    files.sort();
    files
}

fn explained(files: &Files) -> Result<Explanation, NothingFound> {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, text }).collect();
    explain(&sources)
}
