//! Errata of the controller that a bench can switch on.

use std::fmt;

/// An erratum, with the revision of the controller that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Erratum {
    /// Revision 2.2.
    LostPrime22,
    /// Revision 2.4.
    LostPrime24,
    /// Of i.MX parts.
    Err050101,
}

impl Erratum {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LostPrime22, Self::LostPrime24, Self::Err050101];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LostPrime22 => "lost-prime-2.2",
            Self::LostPrime24 => "lost-prime-2.4",
            Self::Err050101 => "err050101",
        }
    }

    /// One line about it.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::LostPrime22 => {
                "a controller of revision 2.2: a dTD that is added to a primed endpoint may be ignored"
            }
            Self::LostPrime24 => "the same of revision 2.4 (i.MX6)",
            Self::Err050101 => {
                "an IN token to an isochronous IN endpoint's number at another device unprimes an OUT endpoint"
            }
        }
    }
}

impl fmt::Display for Erratum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a scope says of them after the port's speed.
pub(crate) fn in_scope(errata: &[Erratum], workarounds: bool) -> String {
    if errata.is_empty() {
        return String::new();
    }
    let what = if errata.len() == 1 { "erratum" } else { "errata" };
    let names: Vec<&str> = errata.iter().map(|erratum| erratum.name()).collect();
    let worked = if workarounds { "" } else { "not " };
    format!("; {what} {}, {worked}worked around", names.join(", "))
}
