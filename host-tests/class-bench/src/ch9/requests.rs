//! Every standard request in every state, with valid and invalid parameters (USB 2.0 §9.4).

use std::time::Duration;

use usb::ch9::{DescriptorType, Feature, Request, SetupPacket, TransferType};
use usb::urb::UrbError;

use super::known::{self, Seen};
use super::report::Outcome;
use super::session::{Answer, Session, State, show};
use super::shape::Shape;

const DEVICE_IN: u8 = 0x80;
const INTERFACE_IN: u8 = 0x81;
const ENDPOINT_IN: u8 = 0x82;
const DEVICE: u8 = 0x00;
const INTERFACE: u8 = 0x01;
const ENDPOINT: u8 = 0x02;

/// An answer to a request without data, or data to be sent (USB 2.0 §9.2.6.4).
const NO_DATA_TIME: Duration = Duration::from_millis(50);
const DATA_TIME: Duration = Duration::from_millis(500);

/// US English.
const ENGLISH: u16 = 0x0409;

/// What the specification wants.
#[derive(Clone)]
enum Want {
    /// These bytes.
    Data(Vec<u8>),
    /// Bytes that satisfy this.
    Sound(fn(&[u8]) -> bool),
    /// Success.
    Accept,
    /// A Request Error: STALL (USB 2.0 §9.2.7).
    Error,
    /// Success or a Request Error, and why.
    Either(&'static str),
    /// Anything that the device survives.
    Open,
}

struct Case {
    name: &'static str,
    citation: &'static str,
    setup: SetupPacket,
    data: Vec<u8>,
    /// In the default, address and configured state.
    wants: [Want; 3],
}

/// The cases of one device.
struct Cases<'a> {
    shape: &'a Shape,
    list: Vec<Case>,
}

pub(super) async fn check(session: &mut Session<'_>, shape: &Shape) {
    let mut cases = Cases { shape, list: Vec::new() };
    cases.status();
    cases.features();
    cases.configuration();
    cases.descriptors();
    cases.interface();
    cases.undefined();
    for state in State::ALL {
        for case in &cases.list {
            one(session, state, case).await;
        }
    }
}

async fn one(session: &mut Session<'_>, state: State, case: &Case) {
    let name = format!("{}.{}", state.name(), case.name);
    if let Err(why) = session.enter(state).await {
        return session.note(name, case.citation, Outcome::Failed, format!("not in this state: {why}"));
    }
    let want = &case.wants[match state {
        State::Default => 0,
        State::Address => 1,
        State::Configured | State::Resumed => 2,
    }];
    let begin = session.host.now();
    let answer = session.control(case.setup, &case.data).await;
    let took = session.host.now() - begin;
    let alive = session.is_alive().await;
    let mut outcome = judge(&name, want, &answer);
    let mut detail = format!("{} → {}", case.setup, show(&answer));
    let limit = if case.setup.length.get() == 0 { NO_DATA_TIME } else { DATA_TIME };
    if took > limit {
        outcome = Outcome::Failed;
        detail += &format!("; it took {} ms, {} are allowed (§9.2.6.4)", took.as_millis(), limit.as_millis());
    }
    if let Err(why) = alive {
        outcome = Outcome::Failed;
        detail += &format!("; {why}");
    }
    if outcome == Outcome::Failed {
        detail += match want {
            Want::Data(_) | Want::Sound(_) => "; other data was to come",
            Want::Accept => "; it was to be accepted",
            Want::Error => "; a STALL was to come",
            Want::Either(_) | Want::Open => "; it was to be accepted or stalled",
        };
    }
    session.note(name, case.citation, outcome, detail);
}

fn judge(name: &str, want: &Want, answer: &Answer) -> Outcome {
    let seen = match answer {
        Ok(_) => Seen::Served,
        Err(UrbError::Stall) => Seen::Refused,
        Err(_) => return Outcome::Failed,
    };
    let holds = match (want, answer) {
        (Want::Data(wanted), Ok(bytes)) => {
            // Other data than a request asks for is never what usb-device does.
            return if wanted == bytes { Outcome::Passed } else { Outcome::Failed };
        }
        (Want::Sound(sound), Ok(bytes)) => sound(bytes),
        (Want::Accept, Ok(_)) | (Want::Error, Err(_)) => true,
        (Want::Data(_) | Want::Sound(_) | Want::Accept, Err(_)) | (Want::Error, Ok(_)) => false,
        (Want::Either(_), Ok(_)) => true,
        (Want::Either(why), Err(_)) => return Outcome::Refused(why),
        (Want::Open, _) => return Outcome::Unspecified,
    };
    match known::reason(name, seen) {
        _ if holds => Outcome::Passed,
        Some(reason) => Outcome::KnownDeviation(reason),
        None => Outcome::Failed,
    }
}

impl Cases<'_> {
    fn add(&mut self, name: &'static str, citation: &'static str, setup: SetupPacket, wants: [Want; 3]) {
        self.list.push(Case { name, citation, setup, data: Vec::new(), wants });
    }

    fn status(&mut self) {
        let cite = "USB 2.0 §9.4.5";
        let get = |kind, index| SetupPacket::new(kind, Request::GetStatus.0, 0, index, 2);
        let device = Want::Sound(|bytes| bytes.len() == 2 && bytes[0] & !3 == 0 && bytes[1] == 0);
        let zero = || Want::Data(vec![0, 0]);
        self.add("get_status.device", cite, get(DEVICE_IN, 0), [Want::Open, device.clone(), device]);
        if let Some(interface) = self.shape.first_interface() {
            let setup = get(INTERFACE_IN, interface.into());
            self.add("get_status.interface", cite, setup, [Want::Open, Want::Error, zero()]);
        }
        let none = self.shape.no_interface();
        self.add(
            "get_status.no_interface",
            cite,
            get(INTERFACE_IN, none.into()),
            [Want::Open, Want::Error, Want::Error],
        );
        self.add("get_status.endpoint0", cite, get(ENDPOINT_IN, 0), [Want::Open, zero(), zero()]);
        if let Some(endpoint) = self.shape.haltable().first() {
            let setup = get(ENDPOINT_IN, endpoint.to_byte().into());
            self.add("get_status.endpoint", cite, setup, [Want::Open, Want::Error, zero()]);
        }
        if let Some(endpoint) = self.shape.no_endpoint() {
            let setup = get(ENDPOINT_IN, endpoint.to_byte().into());
            self.add("get_status.no_endpoint", cite, setup, [Want::Open, Want::Error, Want::Error]);
        }
    }

    fn features(&mut self) {
        let requests = [
            (Request::ClearFeature, "USB 2.0 §9.4.1", CLEAR_FEATURE),
            (Request::SetFeature, "USB 2.0 §9.4.9", SET_FEATURE),
        ];
        for (request, cite, names) in requests {
            let [wakeup, unknown, halt, halt0, halt_none, no_interface, test_mode] = names;
            let setup = |kind, feature: u16, index: u16| SetupPacket::new(kind, request.0, feature, index, 0);
            let invalid = || [Want::Open, Want::Error, Want::Error];
            let supported = if self.shape.can_wake() { Want::Accept } else { Want::Error };
            let wants = [Want::Open, supported.clone(), supported];
            self.add(wakeup, cite, setup(DEVICE, Feature::DeviceRemoteWakeup.0, 0), wants);
            self.add(unknown, cite, setup(DEVICE, 0x77, 0), invalid());
            if let Some(endpoint) = self.shape.haltable().first() {
                let setup = setup(ENDPOINT, Feature::EndpointHalt.0, endpoint.to_byte().into());
                self.add(halt, cite, setup, [Want::Open, Want::Error, Want::Accept]);
            }
            let either = || Want::Either("endpoint 0 need not have the Halt feature, §9.4.5");
            self.add(halt0, cite, setup(ENDPOINT, Feature::EndpointHalt.0, 0), [Want::Open, either(), either()]);
            if let Some(endpoint) = self.shape.no_endpoint() {
                let setup = setup(ENDPOINT, Feature::EndpointHalt.0, endpoint.to_byte().into());
                self.add(halt_none, cite, setup, invalid());
            }
            let none = self.shape.no_interface();
            self.add(no_interface, cite, setup(INTERFACE, 0, none.into()), invalid());
            // A test mode can be set at high speed only, and not be cleared by a request.
            let can_test = self.shape.high_speed && request == Request::SetFeature;
            let test = if can_test { Want::Accept } else { Want::Error };
            let test_se0_nak = if request == Request::SetFeature { 0x0300 } else { 0 };
            let setup = setup(DEVICE, Feature::TestMode.0, test_se0_nak);
            self.add(test_mode, cite, setup, [Want::Open, test.clone(), test]);
        }
    }

    fn configuration(&mut self) {
        let cite = "USB 2.0 §9.4.2";
        let value = self.shape.header().map_or(1, |header| header.value);
        let get = SetupPacket::new(DEVICE_IN, Request::GetConfiguration.0, 0, 0, 1);
        self.add("get_configuration", cite, get, [Want::Open, Want::Data(vec![0]), Want::Data(vec![value])]);
        let cite = "USB 2.0 §9.4.7";
        let set = |value| SetupPacket::new(DEVICE, Request::SetConfiguration.0, value, 0, 0);
        self.add("set_configuration.zero", cite, set(0), [Want::Open, Want::Accept, Want::Accept]);
        self.add("set_configuration.first", cite, set(value.into()), [Want::Open, Want::Accept, Want::Accept]);
        if self.shape.device.configurations == 1 {
            let other = if value == 0xfe { 0xfd } else { 0xfe };
            self.add("set_configuration.no_such", cite, set(other), [Want::Open, Want::Error, Want::Error]);
        }
        let cite = "USB 2.0 §9.4.6";
        let set = |address| SetupPacket::new(DEVICE, Request::SetAddress.0, address, 0, 0);
        self.add("set_address.too_large", cite, set(128), [Want::Open, Want::Open, Want::Open]);
    }

    fn descriptors(&mut self) {
        let cite = "USB 2.0 §9.4.3";
        let get = |kind, index, language, length| SetupPacket::get_descriptor(kind, index, language, length);
        let same = |want: Want| [want.clone(), want.clone(), want];
        let shape = self.shape;
        let device = &shape.device_bytes;
        let whole = |bytes: &[u8], length: usize| Want::Data(bytes[..bytes.len().min(length)].to_vec());
        for (name, length) in [
            ("get_descriptor.device", 18),
            ("get_descriptor.device.short", 8),
            ("get_descriptor.device.one_byte", 1),
            ("get_descriptor.device.long", 255),
        ] {
            let setup = get(DescriptorType::Device, 0, 0, length);
            self.add(name, cite, setup, same(whole(device, length.into())));
        }
        let setup = get(DescriptorType::Device, 0, 0, 0);
        self.add("get_descriptor.device.nothing", cite, setup, same(Want::Open));
        let configuration = &shape.configuration;
        let total = configuration.len() as u16;
        for (name, length) in [
            ("get_descriptor.configuration", total),
            ("get_descriptor.configuration.short", 9),
            ("get_descriptor.configuration.but_one", total.saturating_sub(1)),
            ("get_descriptor.configuration.long", 4096),
        ] {
            let setup = get(DescriptorType::Configuration, 0, 0, length);
            self.add(name, cite, setup, same(whole(configuration, length.into())));
        }
        let none = shape.device.configurations;
        let setup = get(DescriptorType::Configuration, none, 0, 9);
        self.add("get_descriptor.configuration.no_such", cite, setup, same(Want::Error));

        let has_strings =
            [shape.device.manufacturer_index, shape.device.product_index, shape.device.serial_index] != [0; 3];
        let languages = if has_strings {
            Want::Sound(|bytes| bytes.len() >= 4 && usize::from(bytes[0]) == bytes.len() && bytes[1] == 3)
        } else {
            Want::Either("a device may have no strings, §9.6.7")
        };
        let setup = get(DescriptorType::String, 0, 0, 255);
        self.add("get_descriptor.string.languages", "USB 2.0 §9.6.7", setup, same(languages));
        let setup = get(DescriptorType::String, 0xee, ENGLISH, 255);
        self.add("get_descriptor.string.no_such", cite, setup, same(Want::Error));

        let other = if shape.high_speed {
            Want::Sound(|bytes| bytes.len() >= 9)
        } else {
            Want::Either("a device without high speed has none, §9.6.2")
        };
        let setup = get(DescriptorType::DeviceQualifier, 0, 0, 10);
        self.add("get_descriptor.qualifier", "USB 2.0 §9.6.2", setup, same(other.clone()));
        let setup = get(DescriptorType::OtherSpeedConfiguration, 0, 0, 9);
        self.add("get_descriptor.other_speed", "USB 2.0 §9.6.4", setup, same(other));
        for (name, kind) in [
            ("get_descriptor.interface", DescriptorType::Interface),
            ("get_descriptor.endpoint", DescriptorType::Endpoint),
            ("get_descriptor.unknown", DescriptorType(0x3f)),
        ] {
            self.add(name, cite, get(kind, 0, 0, 255), same(Want::Error));
        }
        let set = SetupPacket::new(DEVICE, Request::SetDescriptor.0, 0x0100, 0, 18);
        let optional = || Want::Either("SET_DESCRIPTOR is optional, §9.4.8");
        let wants = [Want::Open, optional(), optional()];
        let data = device.iter().copied().chain(std::iter::repeat(0)).take(18).collect();
        self.list.push(Case { name: "set_descriptor", citation: "USB 2.0 §9.4.8", setup: set, data, wants });
    }

    fn interface(&mut self) {
        let shape = self.shape;
        let get = |index| SetupPacket::new(INTERFACE_IN, Request::GetInterface.0, 0, index, 1);
        let set = |setting, index| SetupPacket::new(INTERFACE, Request::SetInterface.0, setting, index, 0);
        let invalid = || [Want::Open, Want::Error, Want::Error];
        let none: u16 = shape.no_interface().into();
        if let Some(interface) = shape.first_interface() {
            let cite = "USB 2.0 §9.4.4";
            let wants = [Want::Open, Want::Error, Want::Data(vec![0])];
            self.add("get_interface", cite, get(interface.into()), wants);
            let default = match shape.settings(interface) {
                1 => Want::Either("an interface with one setting may refuse it, §9.4.10"),
                _ => Want::Accept,
            };
            let cite = "USB 2.0 §9.4.10";
            let wants = [Want::Open, Want::Error, default];
            self.add("set_interface.default", cite, set(0, interface.into()), wants);
            self.add("set_interface.no_setting", cite, set(0x7f, interface.into()), invalid());
        }
        self.add("get_interface.no_interface", "USB 2.0 §9.4.4", get(none), invalid());
        self.add("set_interface.no_interface", "USB 2.0 §9.4.10", set(0, none), invalid());
        if let Some(endpoint) = shape.endpoints().first() {
            let setup = SetupPacket::new(ENDPOINT_IN, Request::SynchFrame.0, 0, endpoint.address.into(), 2);
            let isochronous = endpoint.transfer_type() == TransferType::Isochronous;
            let configured = if isochronous {
                Want::Either("an endpoint without a pattern refuses it, §9.4.11")
            } else {
                Want::Error
            };
            self.add("synch_frame", "USB 2.0 §9.4.11", setup, [Want::Open, Want::Error, configured]);
        }
    }

    fn undefined(&mut self) {
        let cite = "USB 2.0 §9.2.7";
        let refused = || [Want::Error, Want::Error, Want::Error];
        for (name, kind, request) in [
            ("undefined.request_2", DEVICE, 2),
            ("undefined.request_4", DEVICE_IN, 4),
            ("undefined.request_13", DEVICE_IN, 13),
            ("undefined.request_255", DEVICE, 255),
            ("undefined.reserved_type", 0x60, 0),
            ("undefined.recipient_other", 0x83, Request::GetStatus.0),
        ] {
            let length = if kind & 0x80 == 0 { 0 } else { 2 };
            self.add(name, cite, SetupPacket::new(kind, request, 0, 0, length), refused());
        }
        let backwards = SetupPacket::new(DEVICE, Request::GetDescriptor.0, 0x0100, 0, 0);
        self.add("undefined.get_descriptor_out", cite, backwards, refused());
        let backwards = SetupPacket::new(DEVICE_IN, Request::SetConfiguration.0, 1, 0, 1);
        self.add("undefined.set_configuration_in", cite, backwards, refused());
    }
}

const CLEAR_FEATURE: [&str; 7] = [
    "clear_feature.remote_wakeup",
    "clear_feature.unknown",
    "clear_feature.halt.endpoint",
    "clear_feature.halt.endpoint0",
    "clear_feature.halt.no_endpoint",
    "clear_feature.no_interface",
    "clear_feature.test_mode",
];
const SET_FEATURE: [&str; 7] = [
    "set_feature.remote_wakeup",
    "set_feature.unknown",
    "set_feature.halt.endpoint",
    "set_feature.halt.endpoint0",
    "set_feature.halt.no_endpoint",
    "set_feature.no_interface",
    "set_feature.test_mode",
];
