//! Faults that can be put into the driver, so that tests show that they would be found.

macro_rules! faults {
    ($($variant:ident = $name:literal, $about:literal;)+) => {
        /// One thing that the driver must do, and does not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $(#[doc = $about] $variant,)+
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name on a command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// One line about it.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)+
                }
            }
        }
    };
}

faults! {
    // Descriptors.
    FreedEarly = "dtd-freed-early",
        "a dTD is freed as soon as it is retired, though the controller may still read its next pointer";
    MissingTerminate = "missing-terminate", "the last dTD of a request has no T bit";
    CpuAddressInLink = "cpu-address-in-link", "a dTD is linked to the next by the processor's address";
    UnalignedPages = "unaligned-pages", "a dTD carries 20 KiB of a buffer that is not page aligned, too";
    NoInterruptOnComplete = "no-ioc", "no dTD interrupts when it is complete";
    NoZeroLengthPacket = "no-zlp", "no empty packet ends a transfer of full packets";
    ResidueIgnored = "residue-ignored", "the bytes that a dTD did not move count as moved";
    PendingLost = "pending-lost", "the dTD retired last is forgotten when its endpoint's queue ends";
    NotUnwound = "not-unwound", "of a request that could not be queued the dTDs and the mapping stay";
    LostRequest = "lost-request", "a request that could not be queued is neither refused nor given back";
    // Endpoints and races.
    WrongMaxPacket = "wrong-max-packet", "every dQH has a maximum packet length of 64";
    NoIos = "no-ios", "a SETUP does not interrupt (IOS)";
    ForgottenPrime = "forgotten-prime", "an append that the controller did not see any more is not primed";
    NoAddTripwire = "no-atdtw",
        "an append looks at ENDPTSTAT once, and not again when the controller broke the tripwire (USBCMD.ATDTW)";
    NoSetupTripwire = "no-sutw",
        "a SETUP packet is read once, and not again when another one broke the tripwire (USBCMD.SUTW)";
    NoNukeOnSetup = "no-nuke-on-setup", "a SETUP leaves what is queued on endpoint 0";
    NoFlushOnDequeue = "no-flush-on-dequeue", "a request is taken back while its endpoint is primed";
    AllCompleteCleared = "all-complete-cleared", "one endpoint's completion clears those of all (ENDPTCOMPLETE)";
    ToggleNotReset = "toggle-not-reset", "the end of a halt does not reset the data toggle";
    WedgeForgotten = "wedge-forgotten", "the host clears a wedge";
    AddressEarly = "address-early", "an address is taken before the status stage of SET_ADDRESS";
    // Mappings.
    UnmapForgotten = "unmap-forgotten", "a buffer stays mapped when its request is complete";
    UnmapEarly = "unmap-early", "a buffer's mapping ends when its request is primed";
    WrongDirection = "wrong-direction", "buffers are mapped for the other direction";
}
