//! The host's side: `usb::UsbPort`.

use std::sync::Arc;

use usb::Speed;
use usb::ch9::{Direction, SetupPacket};
use usb::wire::{DataPid, Handshake, HostAck, InReply, Packet, PortListener, Target, UsbPort};

use crate::fault::{Fault, Token};
use crate::state::{NUMBERS, Shared, State};

impl State {
    fn setup(&mut self, to: Target, bytes: [u8; 8]) -> Handshake {
        let (Some(out), Some(input)) = (&mut self.outs[0], &mut self.ins[0]) else { return Handshake::Silence };
        if to.endpoint != 0 {
            return Handshake::Silence;
        }
        // A packet that was acknowledged before is still to be told.
        let complete = input.complete;
        out.begin_control();
        input.begin_control();
        input.complete = complete;
        self.setup = Some(bytes);
        self.request = Some(SetupPacket::from_bytes(bytes));
        self.next_address = None;
        self.fresh = true;
        Handshake::Ack
    }

    fn data_out(&mut self, to: Target, pid: DataPid, data: &[u8]) -> Handshake {
        // Data waits until its SETUP is read.
        let waits = to.endpoint == 0 && self.setup.is_some();
        let Some(endpoint) = &mut self.outs[usize::from(to.endpoint) % NUMBERS] else { return Handshake::Silence };
        if waits {
            return Handshake::Nak;
        }
        let (answer, taken) = endpoint.receive(pid, data);
        self.fresh |= taken;
        answer
    }

    fn data_in(&mut self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply {
        let Some(endpoint) = &mut self.ins[usize::from(from.endpoint) % NUMBERS] else { return InReply::Silence };
        let (reply, taken) = endpoint.transmit(buffer, ack);
        self.fresh |= taken;
        if taken && from.endpoint == 0 && self.request.is_some_and(|request| request.direction() == Direction::Out) {
            self.status_acknowledged();
        }
        reply
    }
}

impl UsbPort for Shared {
    fn set_listener(&self, listener: Option<Arc<dyn PortListener>>) {
        Self::set_listener(self, listener);
    }

    fn set_vbus(&self, on: bool) {
        {
            let mut state = self.state.lock();
            state.vbus = on;
            if !on {
                state.forget_traffic();
            }
        }
        self.packet(Packet::Vbus(on), Fault::None);
        self.wake.notify_one();
    }

    fn attached(&self) -> Option<Speed> {
        let state = self.state.lock();
        state.attached().then(|| if state.limits.speed == Speed::Low { Speed::Low } else { Speed::Full })
    }

    fn reset(&self, max: Speed) -> Option<Speed> {
        let speed = {
            let mut state = self.state.lock();
            let speed = state.attached().then(|| state.limits.speed.min(max));
            if speed.is_some() {
                state.bus_reset();
            }
            speed
        };
        self.packet(Packet::Reset(speed), Fault::None);
        self.wake.notify_one();
        speed
    }

    fn suspend(&self) {
        {
            let mut state = self.state.lock();
            state.suspended = true;
            state.suspend_told = false;
        }
        self.packet(Packet::Suspend, Fault::None);
        self.wake.notify_one();
    }

    fn resume(&self) {
        {
            let mut state = self.state.lock();
            state.resume_pending = state.suspended && state.suspend_told;
            state.suspended = false;
            state.suspend_told = false;
        }
        self.packet(Packet::Resume, Fault::None);
        self.wake.notify_one();
    }

    fn setup(&self, to: Target, setup: &[u8; 8]) -> Handshake {
        let fault = self.fault(to, Token::Setup);
        let answer = {
            let mut state = self.state.lock();
            let mut send = || if state.hears(to) { state.setup(to, *setup) } else { Handshake::Silence };
            out_with(fault, &mut send)
        };
        self.packet(Packet::Setup(to, *setup, answer), fault);
        self.wake.notify_one();
        answer
    }

    fn data_out(&self, to: Target, pid: DataPid, data: &[u8]) -> Handshake {
        let fault = self.fault(to, Token::Out);
        let answer = {
            let mut state = self.state.lock();
            let mut send = || if state.hears(to) { state.data_out(to, pid, data) } else { Handshake::Silence };
            out_with(fault, &mut send)
        };
        self.packet(Packet::Out(to, pid, data.to_vec(), answer), fault);
        self.wake.notify_one();
        answer
    }

    fn data_in(&self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply {
        let fault = self.fault(from, Token::In);
        let ack = if fault == Fault::LostHandshake { HostAck::Lost } else { ack };
        let reply = {
            let mut state = self.state.lock();
            if fault != Fault::LostPacket && state.hears(from) {
                state.data_in(from, buffer, ack)
            } else {
                InReply::Silence
            }
        };
        let shown = match reply {
            InReply::Data { len, .. } => buffer[..len.min(buffer.len())].to_vec(),
            _ => Vec::new(),
        };
        self.packet(Packet::In(from, reply, shown), fault);
        self.wake.notify_one();
        reply
    }
}

/// A packet towards the device, with what happens to it.
fn out_with(fault: Fault, send: &mut dyn FnMut() -> Handshake) -> Handshake {
    match fault {
        Fault::None => send(),
        Fault::LostPacket => Handshake::Silence,
        Fault::LostHandshake => {
            send();
            Handshake::Silence
        }
        Fault::Repeated => {
            send();
            send()
        }
    }
}
