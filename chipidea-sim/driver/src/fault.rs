//! Faults that can be put into the driver, so that tests show that they would be found.

/// One thing that the driver must do, and does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A dTD is freed as soon as it is retired, though the controller may still read its next pointer.
    FreedEarly,
    /// An append looks at ENDPTSTAT once, and not again when the controller broke the tripwire (USBCMD.ATDTW).
    NoAddTripwire,
    /// A SETUP packet is read once, and not again when another one broke the tripwire (USBCMD.SUTW).
    NoSetupTripwire,
    /// Of a request that could not be queued the dTDs and the mapping stay.
    NotUnwound,
    /// A request that could not be queued is neither refused nor given back.
    LostRequest,
}
