//! The host of a chapter 9 check: control transfers at any address, the device in any state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use usb::ch9::{DescriptorType, EndpointAddress, Request, SetupPacket};
use usb::urb::{Transfer, Urb, UrbError};
use usb::wire::Target;
use usb_host::{Cancel, HostController};

use super::known;
use super::report::{Check, Outcome, Report};
use crate::host::ClassHost;

/// The time of a whole request (USB 2.0 §9.2.6.1).
pub(super) const REQUEST: Duration = Duration::from_secs(5);
/// Reset (USB 2.0 §7.1.7.5) and its recovery (§9.2.6.2).
const RESET: Duration = Duration::from_millis(20);
/// Recovery after SET_ADDRESS (USB 2.0 §9.2.6.3).
const ADDRESS_RECOVERY: Duration = Duration::from_millis(2);
/// Until a device is asleep (USB 2.0 §7.1.7.6); how long resume is signalled, and the recovery after it (§7.1.7.7).
const SUSPEND: Duration = Duration::from_millis(10);
const RESUME: Duration = Duration::from_millis(20);
/// The address that devices get here.
pub(super) const ADDRESS: u8 = 42;

/// Lines of the trace that a failure shows.
const PACKETS: usize = 40;

/// A device's states (USB 2.0 §9.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Default,
    Address,
    Configured,
    /// Configured, suspended and resumed.
    Resumed,
}

impl State {
    pub(super) const ALL: [Self; 4] = [Self::Default, Self::Address, Self::Configured, Self::Resumed];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Address => "address",
            Self::Configured => "configured",
            Self::Resumed => "resumed",
        }
    }
}

/// What came of a request.
pub(super) type Answer = Result<Vec<u8>, UrbError>;

pub(super) struct Session<'a> {
    pub(super) host: &'a ClassHost,
    controller: Arc<HostController>,
    pub(super) address: u8,
    pub(super) max_packet0: u16,
    /// `bConfigurationValue` of the first configuration.
    pub(super) value: u8,
    pub(super) report: Report,
}

impl<'a> Session<'a> {
    pub(super) fn new(host: &'a ClassHost) -> Self {
        let controller = Arc::clone(host.host.controller());
        Self { host, controller, address: 0, max_packet0: 64, value: 1, report: Report::default() }
    }

    /// Records a check.
    pub(super) fn note(&mut self, name: impl Into<String>, citation: &'static str, outcome: Outcome, detail: String) {
        let packets = if outcome == Outcome::Failed { self.host.shared.trace_tail(PACKETS) } else { Vec::new() };
        self.report.checks.push(Check { name: name.into(), citation, outcome, detail, packets });
    }

    /// Records whether something holds that no request's answer shows.
    pub(super) fn expect(&mut self, name: impl Into<String>, citation: &'static str, holds: bool, detail: String) {
        let name = name.into();
        let outcome = match known::reason(&name, known::Seen::State) {
            _ if holds => Outcome::Passed,
            Some(reason) => Outcome::KnownDeviation(reason),
            None => Outcome::Failed,
        };
        self.note(name, citation, outcome, detail);
    }

    /// Records a result.
    pub(super) fn result(&mut self, name: impl Into<String>, citation: &'static str, result: Result<String, String>) {
        let holds = result.is_ok();
        let (Ok(detail) | Err(detail)) = result;
        self.expect(name, citation, holds, detail);
    }

    pub(super) fn enable_endpoint0(&self) {
        self.controller.enable_endpoint(self.address, EndpointAddress::out(0), self.max_packet0);
    }

    /// A control transfer at the device's address; for IN, `data` is ignored.
    pub(super) async fn control(&self, setup: SetupPacket, data: &[u8]) -> Answer {
        let direction = setup.direction();
        let buffer = if direction == usb::Direction::In { vec![0; setup.length.get().into()] } else { data.to_vec() };
        let urb = Urb {
            address: self.address,
            endpoint: EndpointAddress { number: 0, direction },
            transfer: Transfer::Control(setup),
            buffer,
            zero_packet: false,
            short_not_ok: false,
        };
        let (sender, mut receiver) = oneshot::channel();
        let id = self.controller.submit(
            urb,
            Box::new(move |done| {
                // The waiting side may have gone.
                let _ = sender.send(done);
            }),
        );
        let _ = self.controller.run();
        let done = match timeout(REQUEST, &mut receiver).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => return Err(UrbError::Shutdown),
            Err(_) => {
                self.controller.cancel(id, Cancel::Kill);
                let _ = self.controller.run();
                return Err(UrbError::TimedOut);
            }
        };
        done.status?;
        let mut bytes = done.buffer;
        bytes.truncate(done.actual);
        Ok(if direction == usb::Direction::In { bytes } else { Vec::new() })
    }

    /// A request without data.
    pub(super) async fn request(&self, request_type: u8, request: Request, value: u16, index: u16) -> Answer {
        self.control(SetupPacket::new(request_type, request.0, value, index, 0), &[]).await
    }

    pub(super) async fn descriptor(&self, kind: DescriptorType, index: u8, language: u16, length: u16) -> Answer {
        self.control(SetupPacket::get_descriptor(kind, index, language, length), &[]).await
    }

    /// Whether the device still serves the first request of every host.
    pub(super) async fn is_alive(&self) -> Result<(), String> {
        match self.descriptor(DescriptorType::Device, 0, 0, 18).await {
            Ok(bytes) if bytes.len() == 18 && bytes[1] == 1 => Ok(()),
            Ok(bytes) => Err(format!("afterwards the device descriptor is {bytes:02x?}")),
            Err(error) => Err(format!("afterwards the device descriptor cannot be read: {error}")),
        }
    }

    /// Bus reset: the default state.
    pub(super) async fn reset(&mut self) -> Result<(), String> {
        let speed = self.controller.reset_port(self.host.max_speed);
        sleep(RESET).await;
        self.address = 0;
        self.enable_endpoint0();
        speed.map(|_| ()).ok_or_else(|| "the device left the bus".to_owned())
    }

    pub(super) async fn set_address(&mut self, address: u8) -> Answer {
        let answer = self.request(0, Request::SetAddress, address.into(), 0).await;
        sleep(ADDRESS_RECOVERY).await;
        if answer.is_ok() {
            self.address = address;
            self.enable_endpoint0();
        }
        answer
    }

    /// Brings the device into a state, by way of a reset.
    pub(super) async fn enter(&mut self, state: State) -> Result<(), String> {
        self.reset().await?;
        if state == State::Default {
            return Ok(());
        }
        self.set_address(ADDRESS).await.map_err(|error| format!("SET_ADDRESS failed: {error}"))?;
        if state == State::Address {
            return Ok(());
        }
        let answer = self.request(0, Request::SetConfiguration, self.value.into(), 0).await;
        answer.map_err(|error| format!("SET_CONFIGURATION({}) failed: {error}", self.value))?;
        if state == State::Resumed {
            self.suspend().await;
            self.resume().await;
        }
        Ok(())
    }

    pub(super) async fn suspend(&self) {
        self.controller.suspend_port();
        sleep(SUSPEND).await;
    }

    pub(super) async fn resume(&self) {
        self.controller.resume_port();
        sleep(RESUME).await;
        self.controller.finish_resume();
        sleep(SUSPEND).await;
    }

    pub(super) fn target(&self, endpoint: EndpointAddress) -> Target {
        Target { address: self.address, endpoint: endpoint.number }
    }
}

/// An answer in words.
pub(super) fn show(answer: &Answer) -> String {
    match answer {
        Ok(bytes) if bytes.is_empty() => "accepted".to_owned(),
        Ok(bytes) if bytes.len() > 20 => format!("{} bytes {:02x?}…", bytes.len(), &bytes[..20]),
        Ok(bytes) => format!("{bytes:02x?}"),
        Err(UrbError::Stall) => "STALL".to_owned(),
        Err(error) => error.to_string(),
    }
}
