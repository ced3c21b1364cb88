//! Faults as data.

/// Makes the enum `Fault` of a pool: each fault has a name for the command line and one line about it.
macro_rules! faults {
    ($($variant:ident = $name:literal, $about:literal;)+) => {
        /// What the pool does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Fault {
            $(#[doc = $about] $variant,)+
        }

        impl Fault {
            pub(super) const ALL: &[Self] = &[$(Self::$variant),+];

            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            pub(super) const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)+
                }
            }
        }
    };
}

pub(crate) use faults;
