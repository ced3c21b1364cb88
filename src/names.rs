//! Looking names up, with help for those that are wrong.

use crate::error::Error;

/// A wrong name is repeated up to here, with what is not printable escaped.
const LONGEST_ECHO: usize = 64;

/// Finds `wanted` among `all` by its name.
pub(crate) fn find<T>(what: &str, wanted: &str, all: Vec<T>, name: impl Fn(&T) -> &str) -> Result<T, Error> {
    if let Some(index) = all.iter().position(|one| name(one) == wanted) {
        return Ok(all.into_iter().nth(index).expect("the index was just found"));
    }
    let names: Vec<&str> = all.iter().map(&name).collect();
    let nearest = names.iter().max_by(|a, b| {
        let likeness = |name: &str| strsim::jaro_winkler(wanted, name);
        likeness(a).total_cmp(&likeness(b))
    });
    let nearest = nearest.map_or_else(String::new, |nearest| format!(" Did you mean `{nearest}`?"));
    let wanted: String = wanted.chars().take(LONGEST_ECHO).collect();
    let wanted = wanted.escape_debug();
    Err(Error::usage(format!("there is no {what} `{wanted}`.{nearest} There are: {}", names.join(", "))))
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
}
