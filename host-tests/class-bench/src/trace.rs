//! What happened on the wire and in the firmware, for failures.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use usb::ch9::EndpointAddress;
use usb::wire::Packet;

use crate::fault::Fault;

/// Lines that are kept; the oldest go first.
const KEPT: usize = 4096;

/// What the firmware did at its bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It pulled D+ up.
    Enable,
    /// It handled a bus reset.
    Reset,
    /// It took an address.
    SetAddress(u8),
    /// It gave a packet to be sent, of that length.
    Write(EndpointAddress, usize),
    /// It took a received packet, of that length.
    Read(EndpointAddress, usize),
    /// It halted an endpoint.
    Stall(EndpointAddress),
    /// It ended an endpoint's halt.
    Unstall(EndpointAddress),
    /// It signals resume.
    RemoteWakeup,
    /// It asked to be disconnected for a moment.
    ForceReset,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet, as the host saw its end.
    Packet(Packet, Fault),
    /// The firmware at its bus.
    Firmware(Action),
}

/// A line of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Virtual time since the run began.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enable => f.write_str("enable"),
            Self::Reset => f.write_str("reset"),
            Self::SetAddress(address) => write!(f, "set address {address}"),
            Self::Write(endpoint, len) => write!(f, "write {endpoint} {len} bytes"),
            Self::Read(endpoint, len) => write!(f, "read {endpoint} {len} bytes"),
            Self::Stall(endpoint) => write!(f, "stall {endpoint}"),
            Self::Unstall(endpoint) => write!(f, "unstall {endpoint}"),
            Self::RemoteWakeup => f.write_str("remote wakeup"),
            Self::ForceReset => f.write_str("force reset"),
        }
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:5}.{:06}] ", self.at.as_secs(), self.at.subsec_micros())?;
        match &self.event {
            Event::Packet(packet, Fault::None) => write!(f, "{packet}"),
            Event::Packet(packet, fault) => write!(f, "{packet} ({fault:?})"),
            Event::Firmware(action) => write!(f, "    firmware: {action}"),
        }
    }
}

/// The last lines.
#[derive(Default)]
pub(crate) struct Ring(VecDeque<TraceLine>);

impl Ring {
    pub(crate) fn push(&mut self, line: TraceLine) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    pub(crate) fn lines(&self) -> Vec<TraceLine> {
        self.0.iter().cloned().collect()
    }

    /// The last lines, at most `count`.
    pub(crate) fn tail(&self, count: usize) -> Vec<TraceLine> {
        self.0.iter().skip(self.0.len().saturating_sub(count)).cloned().collect()
    }
}
