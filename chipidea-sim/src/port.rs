//! The controller's upstream port.

use std::sync::Arc;

use usb::wire::{self, Burst, BurstEnd, DataPid, Handshake, HostAck, InReply, Packet, PortListener, Target, UsbPort};
use usb::{Direction, Speed};

use crate::controller::Chipidea;
use crate::core::Core;
use crate::prime::Work;
use crate::trace::SOURCE;
use crate::transfer::Refusal;

use devices::DmaPort;

impl UsbPort for Chipidea {
    fn set_listener(&self, listener: Option<Arc<dyn PortListener>>) {
        self.listen(listener);
    }

    fn set_vbus(&self, on: bool) {
        self.with(|core, dma| {
            dma.trace().emit(SOURCE, || Packet::Vbus(on));
            core.set_vbus(on);
        });
    }

    fn attached(&self) -> Option<Speed> {
        self.with(|core, _| core.is_attached().then_some(Speed::Full))
    }

    fn reset(&self, max: Speed) -> Option<Speed> {
        self.with(|core, dma| {
            core.go_on(dma);
            let speed = core.bus_reset(max);
            dma.trace().emit(SOURCE, || Packet::Reset(speed));
            speed
        })
    }

    fn suspend(&self) {
        self.with(|core, dma| {
            dma.trace().emit(SOURCE, || Packet::Suspend);
            core.bus_suspend();
        });
    }

    fn resume(&self) {
        self.with(|core, dma| {
            dma.trace().emit(SOURCE, || Packet::Resume);
            core.bus_resume();
        });
    }

    fn setup(&self, to: Target, setup: &[u8; 8]) -> Handshake {
        self.with(|core, dma| {
            let answer = core.setup(dma, to, setup);
            dma.trace().emit(SOURCE, || Packet::Setup(to, *setup, answer));
            answer
        })
    }

    fn data_out(&self, to: Target, pid: DataPid, data: &[u8]) -> Handshake {
        self.with(|core, dma| match begin(core, dma, to, Direction::Out) {
            Ok(mut work) => {
                let answer = packet_out(core, dma, &mut work, to, pid, data);
                core.end(dma, &mut work);
                answer
            }
            Err(refusal) => {
                let answer = refusal.into();
                dma.trace().emit(SOURCE, || Packet::Out(to, pid, data.to_vec(), answer));
                answer
            }
        })
    }

    fn data_in(&self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply {
        self.with(|core, dma| match begin(core, dma, from, Direction::In) {
            Ok(mut work) => {
                let reply = packet_in(core, dma, &mut work, from, buffer, ack);
                core.end(dma, &mut work);
                reply
            }
            Err(refusal) => {
                let reply = refusal.into();
                dma.trace().emit(SOURCE, || Packet::In(from, reply, Vec::new()));
                reply
            }
        })
    }

    fn burst_out(&self, to: Target, pid: &mut DataPid, max_packet: usize, data: &[u8]) -> Burst {
        if data.is_empty() {
            return Burst { bytes: 0, packets: 0, end: BurstEnd::Done };
        }
        self.with(|core, dma| match begin(core, dma, to, Direction::Out) {
            Ok(mut work) => {
                let send = |pid, packet: &[u8]| packet_out(core, dma, &mut work, to, pid, packet);
                let burst = wire::burst_out(send, pid, max_packet, data);
                core.end(dma, &mut work);
                burst
            }
            Err(refusal) => {
                let packet = &data[..max_packet.clamp(1, data.len())];
                dma.trace().emit(SOURCE, || Packet::Out(to, *pid, packet.to_vec(), refusal.into()));
                wire::burst_out(|_, _| refusal.into(), pid, max_packet, data)
            }
        })
    }

    fn burst_in(&self, from: Target, pid: &mut DataPid, max_packet: usize, buffer: &mut [u8]) -> Burst {
        if buffer.is_empty() {
            return Burst { bytes: 0, packets: 0, end: BurstEnd::Done };
        }
        // A host that takes packets of no bytes would take them for ever.
        let max_packet = max_packet.max(1);
        self.with(|core, dma| match begin(core, dma, from, Direction::In) {
            Ok(mut work) => {
                let fetch = |room: &mut [u8]| {
                    // The host acknowledges nothing longer than a packet.
                    let most = max_packet.min(room.len());
                    packet_in(core, dma, &mut work, from, &mut room[..most], HostAck::Sent)
                };
                let burst = wire::burst_in(fetch, pid, max_packet, buffer);
                core.end(dma, &mut work);
                burst
            }
            Err(refusal) => {
                let reply = refusal.into();
                dma.trace().emit(SOURCE, || Packet::In(from, reply, Vec::new()));
                wire::burst_in(|_| reply, pid, max_packet, buffer)
            }
        })
    }
}

/// The dQH behind a token. Memory that does not answer is a system error, and the slot is primed no more.
fn begin(core: &mut Core, dma: &DmaPort, to: Target, direction: Direction) -> Result<Work, Refusal> {
    if direction == Direction::In {
        core.overhear_in(dma, to);
    }
    let slot = core.gate(to, direction)?;
    core.begin(dma, slot).map_err(|_| match direction {
        Direction::Out => {
            core.wait(slot);
            Refusal::Nak
        }
        Direction::In => Refusal::Silence,
    })
}

fn packet_out(core: &mut Core, dma: &DmaPort, work: &mut Work, to: Target, pid: DataPid, data: &[u8]) -> Handshake {
    let answer = core.receive(dma, work, pid, data);
    dma.trace().emit(SOURCE, || Packet::Out(to, pid, data.to_vec(), answer));
    answer
}

fn packet_in(
    core: &mut Core,
    dma: &DmaPort,
    work: &mut Work,
    from: Target,
    buffer: &mut [u8],
    ack: HostAck,
) -> InReply {
    let reply = core.transmit(dma, work, buffer, ack);
    dma.trace().emit(SOURCE, || {
        let len = if let InReply::Data { len, .. } = reply { len.min(buffer.len()) } else { 0 };
        Packet::In(from, reply, buffer[..len].to_vec())
    });
    reply
}
