//! What usb-device 0.3 does otherwise than USB 2.0, in every device that is built on it.

/// How a request ended, as far as a deviation is recognised by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was served.
    Served,
    /// It was refused.
    Refused,
    /// Neither: a state that is not as it should be.
    State,
}

struct Known {
    /// The end of the check's name.
    name: &'static str,
    /// States in which it is known; the beginning of the check's name.
    states: &'static [&'static str],
    seen: Seen,
    reason: &'static str,
}

const ADDRESSED: &[&str] = &["address.", "configured.", "resumed."];
const ADDRESS: &[&str] = &["address."];
const ALL: &[&str] = &["default.", "address.", "configured.", "resumed."];
const ANY: &[&str] = &[""];

const STATELESS: &str = "usb-device does not look at the device's state here";
const UNKNOWN: &str = "usb-device does not look whether there is such an interface or endpoint";
const NO_HOOK: &str = "UsbBus is not told of SET_CONFIGURATION and SET_INTERFACE";

/// Every known deviation of usb-device 0.3.2.
const KNOWN: &[Known] = &[
    Known { name: "get_status.interface", states: ADDRESS, seen: Seen::Served, reason: STATELESS },
    Known { name: "get_status.endpoint", states: ADDRESS, seen: Seen::Served, reason: STATELESS },
    Known { name: "get_status.no_interface", states: ADDRESSED, seen: Seen::Served, reason: UNKNOWN },
    Known { name: "get_status.no_endpoint", states: ADDRESSED, seen: Seen::Served, reason: UNKNOWN },
    Known { name: "feature.halt.endpoint", states: ADDRESS, seen: Seen::Served, reason: STATELESS },
    Known { name: "feature.halt.no_endpoint", states: ADDRESSED, seen: Seen::Served, reason: UNKNOWN },
    Known {
        name: "feature.remote_wakeup",
        states: ADDRESSED,
        seen: Seen::Served,
        reason: "usb-device serves it for devices that cannot wake their host",
    },
    Known {
        name: "set_address.zero",
        states: &["default.", "address."],
        seen: Seen::Refused,
        reason: "usb-device takes the addresses 1 to 127 only",
    },
    Known { name: "get_interface", states: ADDRESS, seen: Seen::Served, reason: STATELESS },
    Known { name: "get_interface.no_interface", states: ADDRESSED, seen: Seen::Served, reason: UNKNOWN },
    Known { name: "set_interface.default", states: ADDRESS, seen: Seen::Served, reason: STATELESS },
    Known { name: "set_interface.no_interface", states: ADDRESSED, seen: Seen::Served, reason: UNKNOWN },
    Known {
        name: "get_descriptor.configuration.no_such",
        states: ALL,
        seen: Seen::Served,
        reason: "usb-device has one configuration and serves it for every index",
    },
    Known {
        name: "set_feature.test_mode",
        states: ADDRESSED,
        seen: Seen::Refused,
        reason: "usb-device has no test modes",
    },
    Known {
        name: "get_descriptor.qualifier",
        states: ALL,
        seen: Seen::Refused,
        reason: "usb-device has one set of descriptors, for one speed",
    },
    Known {
        name: "get_descriptor.other_speed",
        states: ALL,
        seen: Seen::Refused,
        reason: "usb-device has one set of descriptors, for one speed",
    },
    Known { name: "address.endpoints_silent", states: ANY, seen: Seen::State, reason: NO_HOOK },
    Known { name: "toggle.set_configuration", states: ANY, seen: Seen::State, reason: NO_HOOK },
    Known { name: "toggle.set_interface", states: ANY, seen: Seen::State, reason: NO_HOOK },
    Known { name: "halt.set_configuration", states: ANY, seen: Seen::State, reason: NO_HOOK },
];

/// Why the failure of the check `name` is usb-device's.
pub(crate) fn reason(name: &str, seen: Seen) -> Option<&'static str> {
    let fits = |known: &&Known| {
        known.seen == seen
            && known.states.iter().any(|state| {
                name.strip_prefix(state).is_some_and(|request| {
                    request == known.name
                        || request.strip_prefix("set_").is_some_and(|request| request == known.name)
                        || request.strip_prefix("clear_").is_some_and(|request| request == known.name)
                })
            })
    };
    KNOWN.iter().find(fits).map(|known| known.reason)
}
