//! Looking names up, with help for those that are wrong.

use scenarios::{Driver, Policy, policy};

use crate::error::Error;

/// A wrong name is repeated up to here, with what is not printable escaped.
const LONGEST_ECHO: usize = 64;

/// How like a name must be to be meant (Jaro-Winkler, 1 for the same), such as one that is cut.
const ALIKE: f64 = 0.8;
/// Or how many of its letters, at most, are wrong, missing or in each other's place: one in so many.
const LETTERS_A_SLIP: usize = 3;

/// The pool of that name, or of that name and seed.
pub(crate) fn pool(wanted: &str) -> Result<Policy, Error> {
    policy::by_name(wanted).map_err(|error| match error {
        policy::NameError::Unknown { .. } => {
            let table = policy::table();
            let families = policy::families().into_iter().map(|(name, _)| name);
            unknown("pool", wanted, &table.iter().map(|policy| &*policy.name).chain(families).collect::<Vec<_>>())
        }
        error => Error::usage(error.to_string()),
    })
}

/// The driver of that name.
pub(crate) fn driver(wanted: &str) -> Result<Driver, Error> {
    find("driver", wanted, scenarios::drivers(), |driver| &driver.name)
}

/// Finds `wanted` among `all` by its name.
pub(crate) fn find<T>(what: &str, wanted: &str, all: Vec<T>, name: impl Fn(&T) -> &str) -> Result<T, Error> {
    match all.iter().position(|one| name(one) == wanted) {
        Some(index) => Ok(all.into_iter().nth(index).expect("the index was just found")),
        None => Err(unknown(what, wanted, &all.iter().map(&name).collect::<Vec<_>>())),
    }
}

/// There is none of that name; `names` are those that there are.
fn unknown(what: &str, wanted: &str, names: &[&str]) -> Error {
    let likeness = |name: &str| strsim::jaro_winkler(wanted, name);
    let slips = |name: &str| strsim::osa_distance(wanted, name) <= name.len() / LETTERS_A_SLIP;
    let alike = names.iter().filter(|name| likeness(name) >= ALIKE || slips(name));
    let nearest = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let nearest = nearest.map_or_else(String::new, |nearest| format!(" Did you mean `{nearest}`?"));
    let wanted: String = wanted.chars().take(LONGEST_ECHO).collect();
    let wanted = wanted.escape_debug();
    Error::usage(format!("there is no {what} `{wanted}`.{nearest} There are: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_the_nearest_and_all() {
        let error = find("pool", "linkd", vec!["page-list", "linked", "index-stack"], |name| name).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no pool `linkd`. Did you mean `linked`? There are: page-list, linked, index-stack"
        );
    }

    #[test]
    fn only_a_name_that_is_alike_is_suggested() {
        const NAMES: [&str; 8] = [
            "linked",
            "linked-descending",
            "page-list",
            "index-stack",
            "bootloader-to-ethernet",
            "rndis",
            "ecm",
            "stall",
        ];
        let suggested = |wanted: &str| {
            let error = find("name", wanted, NAMES.to_vec(), |name| name).unwrap_err().to_string();
            let name = error.split_once("Did you mean `").and_then(|(_, rest)| rest.split_once('`'));
            name.map(|(name, _)| NAMES.into_iter().find(|one| *one == name).expect("one of the names"))
        };
        for (wanted, name) in [
            ("x", None),
            ("nosuch", None),
            ("", None),
            ("dmapool", None),
            ("Linked", Some("linked")),
            ("linked-desc", Some("linked-descending")),
            ("pagelist", Some("page-list")),
            ("index-stak", Some("index-stack")),
            ("bootloader", Some("bootloader-to-ethernet")),
            ("bootlaoder-to-ethernet", Some("bootloader-to-ethernet")),
            ("rdnis", Some("rndis")),
            ("emc", Some("ecm")),
        ] {
            assert_eq!(suggested(wanted), name, "{wanted}");
        }
    }
}
