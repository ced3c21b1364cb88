//! The host's side: `usb::UsbPort`.

use std::sync::Arc;

use usb::Speed;
use usb::ch9::{Direction, SetupPacket};
use usb::wire::{DataPid, Handshake, HostAck, InReply, Packet, PortListener, Target, UsbPort};

use crate::fault::{Fault, Token};
use crate::state::{Shared, State};

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
        let Some(Some(endpoint)) = self.outs.get_mut(usize::from(to.endpoint)) else { return Handshake::Silence };
        if waits {
            return Handshake::Nak;
        }
        let (answer, taken) = endpoint.receive(pid, data);
        self.fresh |= taken;
        self.unseen |= taken;
        answer
    }

    fn data_in(&mut self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply {
        let Some(Some(endpoint)) = self.ins.get_mut(usize::from(from.endpoint)) else { return InReply::Silence };
        let (reply, taken) = endpoint.transmit(buffer, ack);
        self.fresh |= taken;
        self.unseen |= taken;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use usb::ch9::EndpointAddress;
    use usb_device::bus::UsbBus;
    use usb_device::endpoint::EndpointType;
    use usb_device::{UsbDirection, UsbError};

    use super::*;
    use crate::bus::BenchBus;

    const SIZES: [u16; 3] = [8, 64, 16];

    /// A bus with endpoints 0 to 2 in both directions, attached.
    fn peripheral() -> (Arc<Shared>, BenchBus) {
        let shared = Arc::new(Shared::default());
        let mut bus = BenchBus::new(Arc::clone(&shared));
        for (kind, size) in [EndpointType::Control, EndpointType::Bulk, EndpointType::Interrupt].into_iter().zip(SIZES)
        {
            for direction in [UsbDirection::Out, UsbDirection::In] {
                bus.alloc_ep(direction, None, kind, size, 1).unwrap();
            }
        }
        bus.enable();
        shared.set_vbus(true);
        (shared, bus)
    }

    proptest! {
        #[test]
        fn nothing_that_either_side_does_panics_or_breaks_a_packet(
            steps in prop::collection::vec((0..16u8, 0..4u8, 0..18u8, prop::collection::vec(any::<u8>(), 0..80)), 0..200)
        ) {
            let (shared, bus) = peripheral();
            for (what, address, endpoint, data) in steps {
                let to = Target { address, endpoint };
                let pid = if data.len() % 2 == 0 { DataPid::Data0 } else { DataPid::Data1 };
                let own = |direction: u8| (endpoint | direction).into();
                match what {
                    0 => { shared.reset(Speed::High); }
                    1 => shared.suspend(),
                    2 => shared.resume(),
                    3 => shared.set_vbus(!data.is_empty()),
                    4 | 5 => {
                        let mut setup = [0; 8];
                        setup.iter_mut().zip(&data).for_each(|(byte, &data)| *byte = data);
                        UsbPort::setup(&*shared, to, &setup);
                    }
                    6 | 7 => { UsbPort::data_out(&*shared, to, pid, &data); }
                    8 | 9 => {
                        let mut buffer = vec![0; data.len()];
                        let reply = UsbPort::data_in(&*shared, to, &mut buffer, HostAck::Sent);
                        if let InReply::Data { len, .. } = reply {
                            prop_assert!(len <= usize::from(SIZES[usize::from(endpoint)]));
                        }
                    }
                    10 => bus.set_stalled(own(if address == 0 { 0 } else { 0x80 }), data.len() > 40),
                    11 => bus.set_device_address(address),
                    12 => {
                        let result = bus.write(own(0x80), &data);
                        if let Some(&size) = SIZES.get(usize::from(endpoint)) {
                            prop_assert_eq!(result == Err(UsbError::BufferOverflow), data.len() > usize::from(size));
                        }
                    }
                    13 => {
                        let mut buffer = vec![0; data.len()];
                        if let Ok(len) = bus.read(own(0), &mut buffer) {
                            prop_assert!(len <= buffer.len());
                        }
                    }
                    14 => bus.reset(),
                    _ => { let _ = bus.poll(); }
                }
            }
            // A reset brings it back.
            shared.set_vbus(true);
            shared.reset(Speed::Full);
            bus.reset();
            prop_assert_eq!(UsbPort::setup(&*shared, Target { address: 0, endpoint: 0 }, &[0; 8]), Handshake::Ack);
            prop_assert_eq!(shared.toggle(EndpointAddress::out(1)), Some(DataPid::Data0));
        }
    }
}
