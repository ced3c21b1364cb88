//! The engine alone: a driver that answers chapter 9 itself, as other stacks on it do.

use std::collections::VecDeque;
use std::sync::Arc;

use bus::Mmio;
use chipidea_driver::{Config, EndpointSetup, Engine, EngineError};
use chipidea_sim::Chipidea;
use devices::DmaPort;
use pool::Policy;
use usb::gadget::{Request, RequestError};
use usb::wire::{DataPid, Handshake, HostAck, InReply, Target};
use usb::{EndpointAddress, SetupPacket, Speed, TransferType, UsbPort};

use crate::bench::{Line, Machine, pattern};

const EP0: [EndpointAddress; 2] = [EndpointAddress::out(0), EndpointAddress::r#in(0)];

struct Raw {
    machine: Machine,
    model: Arc<Chipidea>,
    line: Arc<Line>,
    engine: Engine,
}

impl Raw {
    /// Attached, and after a bus reset.
    fn new() -> Self {
        let machine = Machine::new(Policy::current());
        let line = Arc::new(Line::default());
        let dma = DmaPort::new("chipidea", Arc::new(machine.memory.guest().clone()))
            .watched(Arc::clone(&machine.ledger) as _);
        let model = Chipidea::new(chipidea_sim::Config::default(), dma, Arc::clone(&line) as _);
        model.set_vbus(true);
        let engine = Engine::probe(Arc::clone(&model) as Arc<dyn Mmio>, machine.api.clone(), Config::default());
        let mut engine = engine.expect("probes");
        let setup = EndpointSetup { transfer_type: TransferType::Control, max_packet: 64, mult: 1 };
        for address in EP0 {
            engine.enable(address, setup).expect("endpoint 0");
        }
        engine.reset_controller().expect("resets");
        engine.start().expect("starts");
        engine.set_pullup(true);
        assert!(engine.vbus());
        assert!(model.attached().is_some());
        model.reset(Speed::High);
        assert!(line.is_up());
        let interrupts = engine.take_interrupts();
        assert!(interrupts.reset() && interrupts.port_change());
        engine.restart_after_bus_reset().expect("restarts");
        assert_eq!(engine.speed(), Speed::High);
        assert!(!line.is_up());
        Self { machine, model, line, engine }
    }

    fn setup(&mut self, to: Target, bytes: [u8; 8]) -> SetupPacket {
        assert_eq!(self.model.setup(to, &bytes), Handshake::Ack);
        assert!(self.line.is_up());
        assert!(self.engine.take_interrupts().transfer());
        assert!(self.engine.acknowledge_setup());
        assert!(!self.engine.acknowledge_setup());
        self.engine.read_setup().expect("the tripwire holds")
    }

    fn data_in(&self, from: Target) -> Option<Vec<u8>> {
        let mut packet = [0; 64];
        match self.model.data_in(from, &mut packet, HostAck::Sent) {
            InReply::Data { len, .. } => Some(packet[..len].to_vec()),
            _ => None,
        }
    }

    fn retire(&mut self, address: EndpointAddress) -> Option<Result<usize, RequestError>> {
        self.engine.take_interrupts();
        assert!(self.engine.take_complete(address));
        assert!(!self.engine.take_complete(address));
        self.engine.retire(address).expect("memory").map(|completion| completion.status)
    }
}

#[test]
fn stages_are_transfers_of_endpoint_0() {
    let mut raw = Raw::new();
    let to = Target { address: 0, endpoint: 0 };
    let setup = raw.setup(to, [0x80, 6, 0, 1, 0, 0, 64, 0]);
    assert_eq!(setup.to_bytes(), [0x80, 6, 0, 1, 0, 0, 64, 0]);
    assert_eq!(raw.data_in(to), None, "nothing is primed");
    raw.engine.submit(EP0[1], Request { id: 1, data: pattern(18), ..Request::default() }).expect("room");
    assert_eq!(raw.engine.retire(EP0[1]), Ok(None));
    assert_eq!(raw.data_in(to), Some(pattern(18)));
    assert_eq!(raw.retire(EP0[1]), Some(Ok(18)));
    raw.engine.submit(EP0[0], Request::default()).expect("room");
    assert_eq!(raw.model.data_out(to, DataPid::Data1, &[]), Handshake::Ack);
    assert_eq!(raw.retire(EP0[0]), Some(Ok(0)));
    raw.engine.shutdown(&mut VecDeque::new()).expect("everything is given back");
    raw.machine.assert_clean();
}

#[test]
fn an_address_in_advance_holds_after_the_status_stage() {
    let mut raw = Raw::new();
    let (old, new) = (Target { address: 0, endpoint: 0 }, Target { address: 7, endpoint: 0 });
    raw.setup(old, [0, 5, 7, 0, 0, 0, 0, 0]);
    raw.engine.set_address_in_advance(7);
    raw.engine.submit(EP0[1], Request::default()).expect("room");
    assert_eq!(raw.model.setup(new, &[0; 8]), Handshake::Silence, "not yet");
    assert_eq!(raw.data_in(old), Some(Vec::new()));
    assert_eq!(raw.retire(EP0[1]), Some(Ok(0)));
    assert_eq!(raw.engine.address(), 7);
    assert_eq!(raw.model.setup(old, &[0; 8]), Handshake::Silence);
    assert_eq!(raw.setup(new, [0x80, 8, 0, 0, 0, 0, 1, 0]).request, 8);
    raw.engine.shutdown(&mut VecDeque::new()).expect("everything is given back");
    raw.machine.assert_clean();
}

#[test]
fn a_stalled_request_and_a_queue_that_ends() {
    let mut raw = Raw::new();
    let to = Target { address: 0, endpoint: 0 };
    raw.setup(to, [0xc0, 1, 0, 0, 0, 0, 1, 0]);
    raw.engine.set_halt(EP0[0], true).expect("both ways");
    assert_eq!(raw.engine.halted(EP0[1]), Ok(true));
    assert_eq!(raw.model.data_in(to, &mut [0; 64], HostAck::Sent), InReply::Stall);
    let bulk = EndpointAddress::out(1);
    let setup = EndpointSetup { transfer_type: TransferType::Bulk, max_packet: 512, mult: 1 };
    raw.engine.enable(bulk, setup).expect("free");
    assert_eq!(raw.engine.enable(bulk, setup), Err(EngineError::Busy(bulk)));
    assert_eq!(raw.engine.endpoint_setup(bulk), Some(setup));
    raw.engine.submit(bulk, Request { id: 5, data: vec![0; 512], ..Request::default() }).expect("room");
    assert_eq!((raw.engine.queued(bulk), raw.engine.first_queued(bulk)), (1, Some(5)));
    assert_eq!(raw.engine.disable(bulk), Err(EngineError::Busy(bulk)), "nuke comes first");
    let mut done = VecDeque::new();
    raw.engine.nuke(bulk, &mut done);
    assert_eq!(done.pop_front().map(|completion| completion.status), Some(Err(RequestError::Shutdown)));
    raw.engine.disable(bulk).expect("empty");
    assert_eq!(raw.engine.disable(bulk), Err(EngineError::NoEndpoint(bulk)));
    let nowhere = EndpointAddress::out(200);
    assert!(!raw.engine.take_complete(nowhere));
    assert_eq!(raw.engine.retire(nowhere), Err(EngineError::NoEndpoint(nowhere)));
    raw.engine.shutdown(&mut done).expect("everything is given back");
    assert!(raw.engine.is_shut_down());
    raw.machine.assert_clean();
}

#[test]
fn toggles_start_again_when_told() {
    let mut raw = Raw::new();
    let bulk = EndpointAddress::r#in(1);
    let setup = EndpointSetup { transfer_type: TransferType::Bulk, max_packet: 512, mult: 1 };
    raw.engine.enable(bulk, setup).expect("free");
    let from = Target { address: 0, endpoint: 1 };
    for expected in [DataPid::Data0, DataPid::Data1, DataPid::Data0] {
        raw.engine.submit(bulk, Request::default()).expect("room");
        let reply = raw.model.data_in(from, &mut [0; 512], HostAck::Sent);
        assert_eq!(reply, InReply::Data { pid: expected, len: 0 });
        assert_eq!(raw.retire(bulk), Some(Ok(0)));
        if expected == DataPid::Data1 {
            raw.engine.submit(bulk, Request::default()).expect("room");
            raw.model.data_in(from, &mut [0; 512], HostAck::Sent);
            assert_eq!(raw.retire(bulk), Some(Ok(0)));
            raw.engine.reset_toggle(bulk).expect("enabled");
        }
    }
    raw.engine.shutdown(&mut VecDeque::new()).expect("everything is given back");
    raw.machine.assert_clean();
}
