//! Addresses, enumeration, reset and suspend in every state (USB 2.0 §9.1).

use usb::ch9::{DescriptorType, DeviceDescriptor, Feature, Request, SetupPacket};
use usb::urb::UrbError;
use usb::wire::{HostAck, InReply, UsbPort};

use super::known::{self, Seen};
use super::report::Outcome;
use super::session::{ADDRESS, Answer, Session, State, show};
use super::shape::Shape;

const GET_CONFIGURATION: SetupPacket = SetupPacket::new(0x80, Request::GetConfiguration.0, 0, 0, 1);
const GET_STATUS: SetupPacket = SetupPacket::new(0x80, Request::GetStatus.0, 0, 0, 2);

pub(super) async fn check(session: &mut Session<'_>, shape: &Shape) {
    enumerate(session, shape).await;
    set_address(session).await;
    for state in State::ALL {
        reset(session, shape, state).await;
    }
    for state in [State::Default, State::Address, State::Configured] {
        suspend(session, state).await;
    }
    reset_asleep(session).await;
    wakeup(session, shape).await;
    configured_then_not(session).await;
    silent_endpoints(session, shape).await;
}

fn device_descriptor(answer: &Answer, length: usize) -> bool {
    matches!(answer, Ok(bytes) if bytes.len() == length && bytes[1] == DescriptorType::Device.0)
}

/// Both of Linux's schemes, and a host that is content with the first packet (core/hub.c, `hub_port_init`).
async fn enumerate(session: &mut Session<'_>, shape: &Shape) {
    const CITE: &str = "USB 2.0 §9.1.2";
    const LENGTH: u16 = size_of::<DeviceDescriptor>() as u16;
    let known = session.max_packet0;

    // 64 bytes at address 0 with a guessed packet size, reset, address.
    let scheme = async |session: &mut Session<'_>, guess: u16| -> Result<String, String> {
        session.max_packet0 = guess;
        session.reset().await?;
        let first = session.descriptor(DescriptorType::Device, 0, 0, 64).await;
        if !matches!(&first, Ok(bytes) if bytes.len() >= 8) {
            return Err(format!("the first read of 64 bytes gave {}", show(&first)));
        }
        session.max_packet0 = known;
        session.reset().await?;
        let answer = session.set_address(ADDRESS).await;
        answer.map_err(|error| format!("SET_ADDRESS: {error}"))?;
        let answer = session.descriptor(DescriptorType::Device, 0, 0, LENGTH).await;
        if device_descriptor(&answer, LENGTH.into()) { Ok(show(&answer)) } else { Err(show(&answer)) }
    };
    let result = scheme(session, 64).await;
    session.max_packet0 = known;
    session.result("enumeration.new_scheme", CITE, result);
    let result = scheme(session, known).await;
    session.max_packet0 = known;
    session.result("enumeration.new_scheme.known_size", CITE, result);

    // Address first, then 8 bytes.
    let old = async |session: &mut Session<'_>| -> Result<String, String> {
        session.reset().await?;
        session.set_address(ADDRESS).await.map_err(|error| format!("SET_ADDRESS: {error}"))?;
        let answer = session.descriptor(DescriptorType::Device, 0, 0, 8).await;
        if !matches!(&answer, Ok(bytes) if *bytes == shape.device_bytes[..8.min(shape.device_bytes.len())]) {
            return Err(show(&answer));
        }
        session.is_alive().await.map(|()| show(&answer))
    };
    let result = old(session).await;
    session.result("enumeration.old_scheme", CITE, result);
}

async fn set_address(session: &mut Session<'_>) {
    const CITE: &str = "USB 2.0 §9.4.6";
    for (name, state, address) in [
        ("default.set_address.first", State::Default, 1),
        ("default.set_address.last", State::Default, 127),
        ("address.set_address.another", State::Address, 7),
    ] {
        if let Err(why) = session.enter(state).await {
            session.note(name, CITE, Outcome::Failed, why);
            continue;
        }
        let before = session.address;
        let answer = session.set_address(address).await;
        let result = match answer {
            Err(error) => Err(format!("SET_ADDRESS({address}): {error}")),
            Ok(_) => match session.is_alive().await {
                Err(why) => Err(format!("at address {address}: {why}")),
                Ok(()) => {
                    session.address = before;
                    session.enable_endpoint0();
                    let old = session.control(GET_STATUS, &[]).await;
                    session.address = address;
                    match old {
                        Err(UrbError::Protocol) => Ok(format!("answers at {address}, not at {before}")),
                        answer => Err(format!("still answers at address {before}: {}", show(&answer))),
                    }
                }
            },
        };
        session.result(name, CITE, result);
    }
    for (name, state) in [("default.set_address.zero", State::Default), ("address.set_address.zero", State::Address)] {
        if let Err(why) = session.enter(state).await {
            session.note(name, CITE, Outcome::Failed, why);
            continue;
        }
        let answer = session.set_address(0).await;
        let alive = session.is_alive().await;
        let outcome = match (&answer, &alive) {
            (Ok(_), Ok(())) => Outcome::Passed,
            (Err(UrbError::Stall), Ok(())) => {
                known::reason(name, Seen::Refused).map_or(Outcome::Failed, Outcome::KnownDeviation)
            }
            _ => Outcome::Failed,
        };
        let detail = format!("SET_ADDRESS(0) → {}{}", show(&answer), alive.err().unwrap_or_default());
        session.note(name, CITE, outcome, detail);
    }
}

/// After a reset the device is at address 0, without configuration, halts or remote wakeup.
async fn reset(session: &mut Session<'_>, shape: &Shape, state: State) {
    const CITE: &str = "USB 2.0 §9.1.1.3";
    let name = format!("{}.reset", state.name());
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(state).await?;
        if state != State::Default {
            // Refused by a device that cannot wake its host.
            let _ = session.request(0, Request::SetFeature, Feature::DeviceRemoteWakeup.0, 0).await;
        }
        let halted = shape.haltable().first().copied().filter(|_| matches!(state, State::Configured | State::Resumed));
        if let Some(endpoint) = halted {
            let index = endpoint.to_byte().into();
            let _ = session.request(2, Request::SetFeature, Feature::EndpointHalt.0, index).await;
        }
        session.reset().await?;
        session.is_alive().await?;
        session.set_address(ADDRESS).await.map_err(|error| format!("SET_ADDRESS: {error}"))?;
        let configuration = session.control(GET_CONFIGURATION, &[]).await;
        if configuration != Ok(vec![0]) {
            return Err(format!("GET_CONFIGURATION afterwards: {}", show(&configuration)));
        }
        let status = session.control(GET_STATUS, &[]).await;
        if !matches!(status.as_deref(), Ok([low, 0]) if low & 2 == 0) {
            return Err(format!("GET_STATUS afterwards: {}", show(&status)));
        }
        if let Some(endpoint) = halted {
            let answer = session.request(0, Request::SetConfiguration, session.value.into(), 0).await;
            answer.map_err(|error| format!("SET_CONFIGURATION: {error}"))?;
            let setup = SetupPacket::new(0x82, Request::GetStatus.0, 0, endpoint.to_byte().into(), 2);
            let status = session.control(setup, &[]).await;
            if status != Ok(vec![0, 0]) {
                return Err(format!("{endpoint} afterwards: {}", show(&status)));
            }
        }
        Ok("address 0, no configuration, no remote wakeup".to_owned())
    };
    let result = act(session).await;
    session.result(name, CITE, result);
}

/// A device that was asleep is as it was before.
async fn suspend(session: &mut Session<'_>, state: State) {
    const CITE: &str = "USB 2.0 §9.1.1.6";
    let name = format!("{}.suspend", state.name());
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(state).await?;
        session.suspend().await;
        session.resume().await;
        session.is_alive().await?;
        if state != State::Default {
            let expected = if state == State::Configured { session.value } else { 0 };
            let configuration = session.control(GET_CONFIGURATION, &[]).await;
            if configuration != Ok(vec![expected]) {
                return Err(format!("GET_CONFIGURATION afterwards: {}", show(&configuration)));
            }
        }
        Ok("as before".to_owned())
    };
    let result = act(session).await;
    session.result(name, CITE, result);
}

async fn reset_asleep(session: &mut Session<'_>) {
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(State::Configured).await?;
        session.suspend().await;
        session.enter(State::Address).await?;
        let configuration = session.control(GET_CONFIGURATION, &[]).await;
        if configuration == Ok(vec![0]) { Ok(show(&configuration)) } else { Err(show(&configuration)) }
    };
    let result = act(session).await;
    session.result("suspended.reset", "USB 2.0 §9.1.1.6", result);
}

/// Remote wakeup shows in the status, is off until it is set, and is not used while it is off.
async fn wakeup(session: &mut Session<'_>, shape: &Shape) {
    const CITE: &str = "USB 2.0 §9.4.5";
    let signals = |session: &Session<'_>| session.host.shared.state.lock().wakeups;
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(State::Configured).await?;
        let before = signals(session);
        session.suspend().await;
        session.host.sleep(std::time::Duration::from_millis(200)).await;
        let after = signals(session);
        session.resume().await;
        if before == after { Ok("silent".to_owned()) } else { Err("it signalled resume".to_owned()) }
    };
    let result = act(session).await;
    session.result("suspended.no_wakeup_unless_enabled", "USB 2.0 §9.1.1.6", result);

    const NAME: &str = "configured.remote_wakeup.status";
    if !shape.can_wake() {
        let why = "the configuration says that it cannot wake its host";
        return session.note(NAME, CITE, Outcome::Skipped(why), String::new());
    }
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(State::Configured).await?;
        let mut shown = Vec::new();
        for (request, bit) in [(None, 0), (Some(Request::SetFeature), 2), (Some(Request::ClearFeature), 0)] {
            if let Some(request) = request {
                let answer = session.request(0, request, Feature::DeviceRemoteWakeup.0, 0).await;
                answer.map_err(|error| format!("{request:?}: {error}"))?;
            }
            let status = session.control(GET_STATUS, &[]).await;
            if !matches!(status.as_deref(), Ok([low, _]) if low & 2 == bit) {
                return Err(format!("GET_STATUS after {request:?}: {}", show(&status)));
            }
            shown.push(show(&status));
        }
        Ok(shown.join(", "))
    };
    let result = act(session).await;
    session.result(NAME, CITE, result);
}

/// SET_CONFIGURATION(0) leads back to the address state.
async fn configured_then_not(session: &mut Session<'_>) {
    let act = async |session: &mut Session<'_>| -> Result<String, String> {
        session.enter(State::Configured).await?;
        let value = session.value;
        for (set, expected) in [(0, 0), (value, value), (value, value), (0, 0)] {
            let answer = session.request(0, Request::SetConfiguration, set.into(), 0).await;
            answer.map_err(|error| format!("SET_CONFIGURATION({set}): {error}"))?;
            let configuration = session.control(GET_CONFIGURATION, &[]).await;
            if configuration != Ok(vec![expected]) {
                return Err(format!("GET_CONFIGURATION after SET_CONFIGURATION({set}): {}", show(&configuration)));
            }
        }
        Ok("the configuration follows".to_owned())
    };
    let result = act(session).await;
    session.result("configured.set_configuration.follows", "USB 2.0 §9.4.7", result);
}

/// Without a configuration, only endpoint 0 answers.
async fn silent_endpoints(session: &mut Session<'_>, shape: &Shape) {
    const NAME: &str = "address.endpoints_silent";
    const CITE: &str = "USB 2.0 §9.1.1.4";
    let Some(endpoint) = shape.haltable().into_iter().find(|endpoint| endpoint.direction == usb::Direction::In) else {
        return session.note(NAME, CITE, Outcome::Skipped("no IN endpoint"), String::new());
    };
    if let Err(why) = session.enter(State::Address).await {
        return session.note(NAME, CITE, Outcome::Failed, why);
    }
    let reply = session.host.shared.data_in(session.target(endpoint), &mut [0; 1024], HostAck::Lost);
    session.expect(NAME, CITE, reply == InReply::Silence, format!("{endpoint} → {reply:?}"));
}
