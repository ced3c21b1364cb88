//! Halts and data toggles of endpoints (USB 2.0 §9.4.5, §9.1.1.5, §9.4.10).

use usb::Direction;
use usb::ch9::{EndpointAddress, Feature, Request, SetupPacket};
use usb::wire::{DataPid, Handshake, HostAck, InReply, UsbPort};

use super::report::Outcome;
use super::session::{Session, State, show};
use super::shape::Shape;

const NOTHING_SENT: &str = "the class sent no packet, so that the toggle stood at DATA0 anyway";

pub(super) async fn check(session: &mut Session<'_>, shape: &Shape) {
    let endpoints = shape.haltable();
    for &endpoint in &endpoints {
        halt(session, endpoint).await;
    }
    for &endpoint in &endpoints {
        for halted in [false, true] {
            clear_begins_with_data0(session, endpoint, halted).await;
        }
    }
    if let Some(&endpoint) = endpoints.iter().find(|endpoint| endpoint.direction == Direction::Out) {
        set_begins_with_data0(session, shape, endpoint).await;
    }
    if let Some(&endpoint) = endpoints.first() {
        configuration_ends_halt(session, endpoint).await;
    }
}

fn tag(endpoint: EndpointAddress) -> String {
    format!("ep{}{}", endpoint.number, if endpoint.direction == Direction::In { "in" } else { "out" })
}

impl Session<'_> {
    async fn feature(&self, request: Request, endpoint: EndpointAddress) -> Result<(), String> {
        let answer = self.request(2, request, Feature::EndpointHalt.0, endpoint.to_byte().into()).await;
        answer.map(|_| ()).map_err(|error| format!("{request:?}(ENDPOINT_HALT): {error}"))
    }

    async fn is_halted(&self, endpoint: EndpointAddress) -> Result<bool, String> {
        let setup = SetupPacket::new(0x82, Request::GetStatus.0, 0, endpoint.to_byte().into(), 2);
        match self.control(setup, &[]).await.as_deref() {
            Ok([low, 0]) if *low < 2 => Ok(*low == 1),
            other => Err(format!("GET_STATUS: {}", show(&other.map(<[u8]>::to_vec).map_err(|&error| error)))),
        }
    }

    /// What a packet to the endpoint gets; nothing moves: IN is not acknowledged, OUT is a repetition.
    fn probe(&self, endpoint: EndpointAddress) -> String {
        match endpoint.direction {
            Direction::In => match self.host.shared.data_in(self.target(endpoint), &mut [0; 1024], HostAck::Lost) {
                InReply::Data { .. } => "data".to_owned(),
                other => format!("{other:?}"),
            },
            Direction::Out => {
                let repeated = self.host.shared.toggle(endpoint).unwrap_or_default().toggled();
                format!("{:?}", self.host.shared.data_out(self.target(endpoint), repeated, &[]))
            }
        }
    }

    /// Moves one packet, if the class lets it; an OUT packet is empty. Whether the toggle stands at DATA1 now.
    async fn move_one(&self, endpoint: EndpointAddress) -> bool {
        let target = self.target(endpoint);
        match endpoint.direction {
            Direction::Out => {
                let _: Handshake = self.host.shared.data_out(target, DataPid::Data0, &[]);
            }
            Direction::In => {
                let _: InReply = self.host.shared.data_in(target, &mut [0; 1024], HostAck::Sent);
            }
        }
        self.host.sleep(std::time::Duration::from_millis(2)).await;
        self.host.shared.toggle(endpoint) == Some(DataPid::Data1)
    }
}

async fn halt(session: &mut Session<'_>, endpoint: EndpointAddress) {
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(State::Configured).await?;
        if session.is_halted(endpoint).await? {
            return Err("halted after SET_CONFIGURATION".to_owned());
        }
        session.feature(Request::SetFeature, endpoint).await?;
        if !session.is_halted(endpoint).await? {
            return Err("GET_STATUS says 0 after SET_FEATURE(ENDPOINT_HALT)".to_owned());
        }
        let halted = session.probe(endpoint);
        if halted != "Stall" {
            return Err(format!("a packet to the halted endpoint got {halted}, not STALL"));
        }
        session.is_alive().await?;
        session.feature(Request::ClearFeature, endpoint).await?;
        if session.is_halted(endpoint).await? {
            return Err("GET_STATUS says 1 after CLEAR_FEATURE(ENDPOINT_HALT)".to_owned());
        }
        let free = session.probe(endpoint);
        if matches!(free.as_str(), "Stall" | "Silence") {
            return Err(format!("a packet to the freed endpoint got {free}"));
        }
        Ok(format!("STALL while halted, {free} afterwards"))
    };
    let result = act(session).await;
    session.result(format!("halt.{}", tag(endpoint)), "USB 2.0 §9.4.5", result);
}

/// CLEAR_FEATURE(ENDPOINT_HALT) always leads to DATA0, halted or not.
async fn clear_begins_with_data0(session: &mut Session<'_>, endpoint: EndpointAddress, halted: bool) {
    let kind = if halted { "halted" } else { "not_halted" };
    let name = format!("toggle.clear_feature.{kind}.{}", tag(endpoint));
    let mut moved = false;
    let act = async |session: &mut Session<'_>, moved: &mut bool| -> Result<String, String> {
        session.enter(State::Configured).await?;
        *moved = session.move_one(endpoint).await;
        if halted {
            session.feature(Request::SetFeature, endpoint).await?;
        }
        session.feature(Request::ClearFeature, endpoint).await?;
        match session.host.shared.toggle(endpoint) {
            Some(DataPid::Data0) => Ok("DATA0".to_owned()),
            other => Err(format!("the toggle is {other:?}")),
        }
    };
    match act(session, &mut moved).await {
        Ok(detail) if !moved => session.note(name, "USB 2.0 §9.4.5", Outcome::Skipped(NOTHING_SENT), detail),
        result => session.result(name, "USB 2.0 §9.4.5", result),
    }
}

/// SET_CONFIGURATION and SET_INTERFACE lead to DATA0.
async fn set_begins_with_data0(session: &mut Session<'_>, shape: &Shape, endpoint: EndpointAddress) {
    let owner = shape
        .alternates()
        .into_iter()
        .find(|(_, endpoints)| endpoints.iter().any(|candidate| candidate.endpoint() == endpoint));
    let interface = owner.map_or(0, |(interface, _)| interface.number);
    let value = session.value;
    for (name, citation, kind, request, argument, index) in [
        ("toggle.set_configuration", "USB 2.0 §9.1.1.5", 0, Request::SetConfiguration, value, 0),
        ("toggle.set_interface", "USB 2.0 §9.4.10", 1, Request::SetInterface, 0, interface),
    ] {
        let act = async |session: &mut Session<'_>| -> Result<Option<DataPid>, String> {
            session.enter(State::Configured).await?;
            if !session.move_one(endpoint).await {
                return Ok(None);
            }
            let answer = session.request(kind, request, argument.into(), index.into()).await;
            answer.map_err(|error| format!("{request:?}: {error}"))?;
            Ok(session.host.shared.toggle(endpoint))
        };
        match act(session).await {
            Ok(None) => session.note(name, citation, Outcome::Skipped(NOTHING_SENT), String::new()),
            Ok(Some(toggle)) => {
                session.expect(name, citation, toggle == DataPid::Data0, format!("{endpoint} stands at {toggle:?}"));
            }
            Err(_) if request == Request::SetInterface && shape.settings(interface) == 1 => {
                let why = "an interface with one setting may refuse it, §9.4.10";
                session.note(name, citation, Outcome::Refused(why), String::new());
            }
            Err(why) => session.note(name, citation, Outcome::Failed, why),
        }
    }
}

async fn configuration_ends_halt(session: &mut Session<'_>, endpoint: EndpointAddress) {
    const NAME: &str = "halt.set_configuration";
    const CITE: &str = "USB 2.0 §9.4.5";
    let act = async |session: &mut Session<'_>| -> Result<bool, String> {
        session.enter(State::Configured).await?;
        session.feature(Request::SetFeature, endpoint).await?;
        let answer = session.request(0, Request::SetConfiguration, session.value.into(), 0).await;
        answer.map_err(|error| format!("SET_CONFIGURATION: {error}"))?;
        session.is_halted(endpoint).await
    };
    match act(session).await {
        Ok(halted) => {
            let state = if halted { "still halted" } else { "free" };
            session.expect(NAME, CITE, !halted, format!("{endpoint} is {state} after SET_CONFIGURATION"));
        }
        Err(why) => session.note(NAME, CITE, Outcome::Failed, why),
    }
}
