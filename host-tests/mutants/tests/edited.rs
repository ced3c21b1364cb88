//! Every fault that is put into Debian's kernels' own mm/dmapool.c is caught. The sources are the user's:
//! `pool/bridge/sources` brings them, and `cargo test -p mutants --test edited -- --ignored` runs this.

use std::env;
use std::path::PathBuf;

use c_bridge::Options;

/// A kernel tree, as far as `pool/bridge/sources` brings it.
fn tree(series: &str) -> PathBuf {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("POOLPROOF_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("poolproof")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/poolproof")))
        .expect("a cache folder");
    let tree = cache.join("linux").join(series);
    assert!(tree.is_dir(), "{} is not there: run pool/bridge/sources", tree.display());
    tree
}

#[test]
#[ignore = "needs kernel sources: pool/bridge/sources"]
fn every_fault_that_is_put_into_the_file_is_caught() {
    for series in ["6.12", "newest"] {
        let edited = mutants::edited(&tree(series), &Options::default()).expect("it compiles");
        assert_eq!(edited.unfit, [""; 0], "{series}");
        let report = mutants::run_against(
            &edited.mutants,
            vec![edited.baseline.clone()],
            &mutants::Options::default(),
            &|_, _| {},
        );
        let report = report.expect("a bench");
        let survived: Vec<_> =
            report.mutants.iter().filter(|trial| trial.outcome() != mutants::Outcome::Caught).collect();
        assert!(!report.is_broken() && survived.is_empty(), "{series}: {survived:?}");
    }
}
