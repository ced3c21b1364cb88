//! A host that sends packets one after the other and keeps its toggles.

use std::sync::Arc;

use usb::wire::{BurstEnd, DataPid, Handshake, HostAck, InReply, Target, UsbPort};
use usb::{EndpointAddress, Speed};

/// Tries of a stage that gets NAK.
const MOST_NAKS: u32 = 20;
const EP0_MAX_PACKET: usize = 64;

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostError {
    Stall,
    Silence,
    Babble,
    /// NAK to the end.
    Timeout,
}

pub(crate) struct Host {
    pub(crate) port: Arc<dyn UsbPort>,
    pub(crate) address: u8,
    pub(crate) max: Speed,
    toggles: [DataPid; 32],
}

/// A control transfer under way.
pub(crate) struct Control {
    data: Vec<u8>,
    length: usize,
    done: usize,
    pid: DataPid,
    in_status: bool,
    naks: u32,
}

impl Host {
    pub(crate) fn new(port: Arc<dyn UsbPort>) -> Self {
        Self { port, address: 0, max: Speed::High, toggles: [DataPid::Data0; 32] }
    }

    pub(crate) fn reset(&mut self) {
        self.port.reset(self.max);
        self.address = 0;
        self.toggles = [DataPid::Data0; 32];
    }

    /// Somebody else took a packet.
    pub(crate) fn toggle(&mut self, endpoint: EndpointAddress) {
        let pid = &mut self.toggles[toggle(endpoint)];
        *pid = pid.toggled();
    }

    pub(crate) fn reset_toggle(&mut self, endpoint: EndpointAddress) {
        self.toggles[toggle(endpoint)] = DataPid::Data0;
    }

    pub(crate) fn ep0(&self) -> Target {
        Target { address: self.address, endpoint: 0 }
    }

    fn setup(&self, setup: [u8; 8]) -> Result<(), HostError> {
        match self.port.setup(self.ep0(), &setup) {
            Handshake::Ack => Ok(()),
            _ => Err(HostError::Silence),
        }
    }

    pub(crate) fn begin_in(&mut self, setup: [u8; 8]) -> Result<Control, HostError> {
        self.setup(setup)?;
        let length = usize::from(u16::from_le_bytes([setup[6], setup[7]]));
        Ok(Control { data: Vec::new(), length, done: 0, pid: DataPid::Data1, in_status: false, naks: 0 })
    }

    pub(crate) fn begin_out(&mut self, setup: [u8; 8], data: &[u8]) -> Result<Control, HostError> {
        let mut control = self.begin_in(setup)?;
        assert_eq!(control.length, data.len());
        control.data = data.to_vec();
        Ok(control)
    }

    /// A transfer of `length` bytes whose SETUP somebody else sent.
    pub(crate) fn resume_in(&self, length: usize) -> Control {
        Control { data: Vec::new(), length, done: 0, pid: DataPid::Data1, in_status: false, naks: 0 }
    }

    fn nak(control: &mut Control) -> Result<(), HostError> {
        control.naks += 1;
        if control.naks > MOST_NAKS { Err(HostError::Timeout) } else { Ok(()) }
    }

    /// Goes on; the data when the status stage is over.
    pub(crate) fn advance_in(&mut self, control: &mut Control) -> Result<Option<Vec<u8>>, HostError> {
        if !control.in_status {
            let mut packet = [0; EP0_MAX_PACKET];
            match self.port.data_in(self.ep0(), &mut packet, HostAck::Sent) {
                InReply::Data { pid, len } => {
                    assert_eq!(pid, control.pid, "data toggle of endpoint 0");
                    control.pid = pid.toggled();
                    control.data.extend_from_slice(&packet[..len]);
                    control.in_status = len < EP0_MAX_PACKET || control.data.len() >= control.length;
                }
                InReply::Nak => Self::nak(control)?,
                InReply::Stall => return Err(HostError::Stall),
                InReply::Silence => return Err(HostError::Silence),
            }
            return Ok(None);
        }
        match self.port.data_out(self.ep0(), DataPid::Data1, &[]) {
            Handshake::Ack => return Ok(Some(std::mem::take(&mut control.data))),
            Handshake::Nak => Self::nak(control)?,
            Handshake::Stall => return Err(HostError::Stall),
            Handshake::Silence => return Err(HostError::Silence),
        }
        Ok(None)
    }

    /// Goes on; whether the status stage is over.
    pub(crate) fn advance_out(&mut self, control: &mut Control) -> Result<bool, HostError> {
        if control.done < control.data.len() {
            let end = (control.done + EP0_MAX_PACKET).min(control.data.len());
            match self.port.data_out(self.ep0(), control.pid, &control.data[control.done..end]) {
                Handshake::Ack => {
                    control.done = end;
                    control.pid = control.pid.toggled();
                }
                Handshake::Nak => Self::nak(control)?,
                Handshake::Stall => return Err(HostError::Stall),
                Handshake::Silence => return Err(HostError::Silence),
            }
            return Ok(false);
        }
        match self.port.data_in(self.ep0(), &mut [0; EP0_MAX_PACKET], HostAck::Sent) {
            InReply::Data { pid, len } => {
                assert_eq!((pid, len), (DataPid::Data1, 0), "the status stage is an empty DATA1");
                return Ok(true);
            }
            InReply::Nak => Self::nak(control)?,
            InReply::Stall => return Err(HostError::Stall),
            InReply::Silence => return Err(HostError::Silence),
        }
        Ok(false)
    }

    fn max_packet(&self) -> usize {
        if self.max == Speed::High { 512 } else { 64 }
    }

    /// One burst; whether the transfer is over.
    pub(crate) fn bulk_in(&mut self, endpoint: u8, most: usize, data: &mut Vec<u8>) -> Result<bool, HostError> {
        let from = Target { address: self.address, endpoint };
        let mut buffer = vec![0; most - data.len()];
        let max_packet = self.max_packet();
        let pid = &mut self.toggles[toggle(EndpointAddress::r#in(endpoint))];
        let burst = self.port.burst_in(from, pid, max_packet, &mut buffer);
        data.extend_from_slice(&buffer[..burst.bytes]);
        match burst.end {
            BurstEnd::Done | BurstEnd::Short => Ok(true),
            BurstEnd::Nak => Ok(false),
            BurstEnd::Stall => Err(HostError::Stall),
            BurstEnd::Silence => Err(HostError::Silence),
            BurstEnd::Babble => Err(HostError::Babble),
        }
    }

    /// One burst; bytes that were taken.
    pub(crate) fn bulk_out(&mut self, endpoint: u8, data: &[u8]) -> Result<usize, HostError> {
        let to = Target { address: self.address, endpoint };
        let max_packet = self.max_packet();
        let pid = &mut self.toggles[toggle(EndpointAddress::out(endpoint))];
        let burst = self.port.burst_out(to, pid, max_packet, data);
        match burst.end {
            BurstEnd::Stall => Err(HostError::Stall),
            BurstEnd::Silence => Err(HostError::Silence),
            _ => Ok(burst.bytes),
        }
    }
}

fn toggle(endpoint: EndpointAddress) -> usize {
    usize::from(endpoint.to_byte() & 0x0f) + usize::from(endpoint.to_byte() >> 3)
}
