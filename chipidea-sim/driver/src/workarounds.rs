//! Errata of the controller that the driver works around.

/// Whether an erratum is worked around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Workaround {
    /// If the ID register names a revision that has it, as ci_hdrc does.
    #[default]
    ByRevision,
    /// Whatever the ID register says.
    Always,
    /// Never.
    Never,
}

impl Workaround {
    fn is_on(self, revision: Option<u8>, affected: &[u8]) -> bool {
        match self {
            Self::ByRevision => revision.is_some_and(|revision| affected.contains(&revision)),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The errata that are worked around. The default is what Linux does from 6.8 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Workarounds {
    /// A dTD that is added to a primed endpoint may not be recognised: when the next is added, the endpoint is primed
    /// again if ENDPTSTAT is clear (`_hardware_enqueue`, since Linux 5.16). Revision 2.2.
    pub reprime_on_append: Workaround,
    /// The same, when a completion finds a dTD that is still active (`_hardware_dequeue`). Revision 2.4, and since
    /// Linux 6.8 also 2.2. Alone, as on 2.4, it does not help a function that queues again in its completion: the request
    /// that was lost is passed over until data has come for one behind it.
    pub reprime_on_retirement: Workaround,
    /// ERR050101: an IN token to an isochronous IN endpoint's number at another device unprimes an OUT endpoint. Such
    /// endpoints get the highest number that is free, where other devices have few (`ci_udc_match_ep`, since Linux 5.2, on
    /// every revision). Nothing helps where another device uses that number too.
    pub isochronous_in_from_highest: bool,
}

impl Default for Workarounds {
    fn default() -> Self {
        Self {
            reprime_on_append: Workaround::ByRevision,
            reprime_on_retirement: Workaround::ByRevision,
            isochronous_in_from_highest: true,
        }
    }
}

impl Workarounds {
    /// All of them, whatever the ID register says.
    pub const ALWAYS: Self = Self {
        reprime_on_append: Workaround::Always,
        reprime_on_retirement: Workaround::Always,
        isochronous_in_from_highest: true,
    };

    /// A driver that knows no erratum.
    pub const NONE: Self = Self {
        reprime_on_append: Workaround::Never,
        reprime_on_retirement: Workaround::Never,
        isochronous_in_from_highest: false,
    };
}

/// When a prime may have been lost, and is made up for (`reprime_dtd`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reprime {
    pub(crate) on_append: bool,
    pub(crate) on_retirement: bool,
}

impl Reprime {
    /// For a controller of version 2 of this revision, or another one.
    pub(crate) fn of(workarounds: &Workarounds, revision: Option<u8>) -> Self {
        Self {
            on_append: workarounds.reprime_on_append.is_on(revision, &[2]),
            on_retirement: workarounds.reprime_on_retirement.is_on(revision, &[2, 4]),
        }
    }
}
