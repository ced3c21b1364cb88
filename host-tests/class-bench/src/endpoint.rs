//! An endpoint's hardware: one packet each way, a toggle, a halt (USB 2.0 §8.4.6, §8.6).

use usb::ch9::TransferType;
use usb::wire::{DataPid, Handshake, HostAck, InReply};

/// What both directions have.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) transfer: TransferType,
    pub(crate) max_packet: u16,
    pub(crate) stalled: bool,
    pub(crate) toggle: DataPid,
    /// OUT: received and not read. IN: written and not acknowledged.
    pub(crate) packet: Option<Vec<u8>>,
    /// IN: a packet was acknowledged, which the firmware does not know yet.
    pub(crate) complete: bool,
}

impl Endpoint {
    pub(crate) fn new(transfer: TransferType, max_packet: u16) -> Self {
        Self { transfer, max_packet, stalled: false, toggle: DataPid::Data0, packet: None, complete: false }
    }

    /// As after a bus reset.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.transfer, self.max_packet);
    }

    /// A SETUP on a control endpoint: it ends a halt, what is under way is dropped, data begins with DATA1 (USB 2.0
    /// §8.5.3).
    pub(crate) fn begin_control(&mut self) {
        self.reset();
        self.toggle = DataPid::Data1;
    }

    /// An OUT packet; whether a new one was taken.
    pub(crate) fn receive(&mut self, pid: DataPid, data: &[u8]) -> (Handshake, bool) {
        let fits = data.len() <= usize::from(self.max_packet);
        if self.transfer == TransferType::Isochronous {
            // No handshake, no retry: the latest data is the good one (USB 2.0 §8.5.5).
            if fits {
                self.packet = Some(data.to_vec());
            }
            return (Handshake::Silence, fits);
        }
        if self.stalled {
            return (Handshake::Stall, false);
        }
        if !fits {
            return (Handshake::Silence, false);
        }
        if pid != self.toggle {
            return (Handshake::Ack, false);
        }
        if self.packet.is_some() {
            return (Handshake::Nak, false);
        }
        self.packet = Some(data.to_vec());
        self.toggle = pid.toggled();
        (Handshake::Ack, true)
    }

    /// An IN packet; whether the firmware may write the next one.
    pub(crate) fn transmit(&mut self, buffer: &mut [u8], ack: HostAck) -> (InReply, bool) {
        let isochronous = self.transfer == TransferType::Isochronous;
        if self.stalled && !isochronous {
            return (InReply::Stall, false);
        }
        let Some(packet) = &self.packet else {
            let nothing = if isochronous { InReply::Data { pid: DataPid::Data0, len: 0 } } else { InReply::Nak };
            return (nothing, false);
        };
        let len = packet.len();
        let shown = len.min(buffer.len());
        buffer[..shown].copy_from_slice(&packet[..shown]);
        let reply = InReply::Data { pid: self.toggle, len };
        let taken = isochronous || ack == HostAck::Sent;
        if taken {
            self.packet = None;
            self.complete = true;
            if !isochronous {
                self.toggle = self.toggle.toggled();
            }
        }
        (reply, taken)
    }
}
