//! Policies by the names that people write, families with a seed among them.

use thiserror::Error;

use super::{Policy, high, scatter, shuffle, table};

/// Seeds of `shuffle` that [`hostile`] has: with 2 freed blocks come again at once, with the others late.
const SEEDS: [u64; 4] = [0, 1, 2, 3];

/// Why a name leads to no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// There is none.
    #[error("there is no pool `{}`", name.escape_debug())]
    Unknown {
        /// As asked for.
        name: String,
    },
    /// What stands behind the colon is no seed.
    #[error("pool {family} takes a seed from 0 to {max}, such as {family}:7, and not `{}`", seed.escape_debug(), max = u64::MAX)]
    Seed {
        /// The policy that has seeds.
        family: &'static str,
        /// As asked for.
        seed: String,
    },
    /// It has no seeds.
    #[error("pool {name} takes no seed: the name is `{name}` alone")]
    NoSeed {
        /// The policy's name.
        name: String,
    },
}

/// The policy of that name, hostile ones and `shuffle:SEED` among them. `shuffle` alone is that of seed 0.
///
/// # Errors
/// [`NameError`] with what was asked for.
pub fn by_name(name: &str) -> Result<Policy, NameError> {
    let (plain, seed) = name.split_once(':').map_or((name, None), |(plain, seed)| (plain, Some(seed)));
    if plain == shuffle::NAME {
        return seed.map_or(Ok(0), parse_seed).map(shuffled);
    }
    let unknown = || NameError::Unknown { name: name.to_owned() };
    let policy = table().into_iter().chain([scattered(), highest()]).find(|policy| policy.name == plain);
    match (policy, seed) {
        (Some(policy), None) => Ok(policy),
        (Some(policy), Some(_)) => Err(NameError::NoSeed { name: policy.name.into_owned() }),
        (None, _) => Err(unknown()),
    }
}

/// Digits and nothing else: a sign or a blank is more likely a slip than meant.
fn parse_seed(text: &str) -> Result<u64, NameError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || NameError::Seed { family: shuffle::NAME, seed: text.to_owned() };
    text.parse().ok().filter(|_| digits).ok_or_else(wrong)
}

/// How the hostile policies are written, and one line about each.
#[must_use]
pub fn families() -> Vec<(&'static str, &'static str)> {
    vec![("shuffle:SEED", shuffle::ABOUT), ("scatter", scatter::ABOUT), ("high", high::ABOUT)]
}

/// Policies that keep every promise of dma_pool and please no client that takes more for granted; `shuffle` with a few
/// seeds.
#[must_use]
pub fn hostile() -> Vec<Policy> {
    SEEDS.into_iter().map(shuffled).chain([scattered(), highest()]).collect()
}

fn shuffled(seed: u64) -> Policy {
    shuffle::policy(seed).of_source(concat!(
        include_str!("shuffle.rs"),
        include_str!("checked.rs"),
        include_str!("slots.rs")
    ))
}

fn scattered() -> Policy {
    scatter::policy().of_source(concat!(
        include_str!("scatter.rs"),
        include_str!("checked.rs"),
        include_str!("slots.rs")
    ))
}

fn highest() -> Policy {
    high::policy().of_source(concat!(include_str!("high.rs"), include_str!("checked.rs"), include_str!("slots.rs")))
}
