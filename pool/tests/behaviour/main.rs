//! How pools, page sources and the ledger behave.

mod blame;
mod driver;
mod ends;
mod hostile;
mod index_stack;
mod leaks;
mod ledger;
mod machine;
mod mappings;
mod model;
mod policies;
mod rogue;
mod shared;
mod sources;
mod threads;

use proptest::test_runner::{Config, RngSeed};

/// Properties run from a fixed seed: a failure comes again, and its smallest case is printed.
fn seeded(seed: u64, cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() }
}
