//! A chapter 9 device at packet level, with faults by packet.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use usb::ch9::{
    DescriptorType, Direction, EndpointAddress, Feature, Request, RequestType, SetupPacket, Speed, language_descriptor,
    string_descriptor,
};
use usb::wire::{DataPid, Handshake, HostAck, InReply, PortListener, Target, UsbPort};

/// A packet that the host sends, as faults see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Setup(SetupPacket),
    Out(u8),
    In(u8),
}

/// What goes wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Nak,
    Stall,
    /// The device does not hear it.
    Silence,
    /// The device hears it, its answer is lost.
    LostAnswer,
    /// The host's ACK for an IN packet is lost: the device sends it again.
    LostAck,
    WrongToggle,
    Babble,
    /// The device is unplugged before it.
    Detach,
}

/// Answers a class request, with the data that came.
pub type ClassFn = Box<dyn FnMut(SetupPacket, &[u8]) -> Option<Vec<u8>> + Send>;

/// What a device says of itself and does.
pub struct Model {
    pub device: Vec<u8>,
    pub qualifier: Option<Vec<u8>>,
    pub configurations: Vec<Vec<u8>>,
    pub strings: Vec<String>,
    pub high_speed: bool,
    /// Answers class and vendor requests; `None` is STALL.
    pub class: ClassFn,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, qualifier, configurations, strings, .. } = self;
        write!(f, "{device:02x?} {qualifier:02x?} {configurations:02x?} {strings:?}")
    }
}

/// `(packet number since the start, packet, current request)`.
pub type FaultFn = Box<dyn FnMut(usize, Token, Option<SetupPacket>) -> Fault + Send>;

#[derive(Default)]
struct Endpoint {
    toggle: DataPid,
    halted: bool,
    /// IN: packets to send.
    packets: VecDeque<Vec<u8>>,
    /// OUT: everything received.
    received: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Control {
    setup: Option<SetupPacket>,
    /// Bytes to send, from `sent` on.
    reply: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    toggle: DataPid,
    stalled: bool,
}

struct State {
    model: Model,
    fault: FaultFn,
    packets: usize,
    /// Looks at it for which it is still busy.
    busy: usize,
    plugged: bool,
    vbus: bool,
    listener: Option<Arc<dyn PortListener>>,
    speed: Option<Speed>,
    address: u8,
    new_address: Option<u8>,
    control: Control,
    endpoints: BTreeMap<u8, Endpoint>,
    requests: Vec<SetupPacket>,
    wakeup_armed: bool,
    suspended: bool,
    resets: usize,
}

pub struct Mock(Mutex<State>);

impl Mock {
    pub fn new(model: Model) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            model,
            fault: Box::new(|_, _, _| Fault::None),
            packets: 0,
            busy: 0,
            plugged: false,
            vbus: false,
            listener: None,
            speed: None,
            address: 0,
            new_address: None,
            control: Control::default(),
            endpoints: BTreeMap::new(),
            requests: Vec::new(),
            wakeup_armed: false,
            suspended: false,
            resets: 0,
        })))
    }

    pub fn plugged(model: Model) -> Arc<Self> {
        let mock = Self::new(model);
        mock.0.lock().plugged = true;
        mock
    }

    pub fn set_fault(&self, fault: impl FnMut(usize, Token, Option<SetupPacket>) -> Fault + Send + 'static) {
        self.0.lock().fault = Box::new(fault);
    }

    /// Busy for the next `looks` looks.
    pub fn set_busy(&self, looks: usize) {
        self.0.lock().busy = looks;
    }

    pub fn plug(&self, plugged: bool) {
        let listener = {
            let mut state = self.0.lock();
            state.plugged = plugged;
            state.speed = None;
            state.listener.clone()
        };
        if let Some(listener) = listener {
            listener.attach_changed();
        }
    }

    pub fn requests(&self) -> Vec<SetupPacket> {
        self.0.lock().requests.clone()
    }

    pub fn packets(&self) -> usize {
        self.0.lock().packets
    }

    pub fn resets(&self) -> usize {
        self.0.lock().resets
    }

    pub fn is_suspended(&self) -> bool {
        self.0.lock().suspended
    }

    pub fn wakeup_armed(&self) -> bool {
        self.0.lock().wakeup_armed
    }

    pub fn with_model(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.0.lock().model);
    }

    /// Queues one IN packet and hints.
    pub fn push_in(&self, endpoint: u8, packet: Vec<u8>) {
        self.0.lock().endpoints.entry(endpoint | 0x80).or_default().packets.push_back(packet);
        self.ready(EndpointAddress::r#in(endpoint & 0xf));
    }

    pub fn received(&self, endpoint: u8) -> Vec<Vec<u8>> {
        self.0.lock().endpoints.get(&endpoint).map(|endpoint| endpoint.received.clone()).unwrap_or_default()
    }

    pub fn ready(&self, endpoint: EndpointAddress) {
        let listener = self.0.lock().listener.clone();
        if let Some(listener) = listener {
            listener.ready(endpoint);
        }
    }

    pub fn remote_wakeup(&self) {
        let listener = self.0.lock().listener.clone();
        if let Some(listener) = listener {
            listener.remote_wakeup();
        }
    }

    pub fn halt(&self, endpoint: u8) {
        self.0.lock().endpoints.entry(endpoint).or_default().halted = true;
    }

    /// The fault for a packet; `None` when the device is not there for it.
    fn fault(&self, address: u8, token: Token) -> Option<Fault> {
        let (fault, listener) = {
            let mut state = self.0.lock();
            let state = &mut *state;
            if state.speed.is_none() || state.suspended || address != state.address {
                return None;
            }
            state.packets += 1;
            let fault = (state.fault)(state.packets, token, state.control.setup);
            if fault == Fault::Detach {
                state.plugged = false;
                state.speed = None;
            }
            (fault, state.listener.clone())
        };
        match fault {
            Fault::Silence => None,
            Fault::Detach => {
                // As the contract says, without the device's lock; the host is within a wire call.
                if let Some(listener) = listener {
                    listener.attach_changed();
                }
                None
            }
            fault => Some(fault),
        }
    }
}

impl State {
    fn descriptor(&self, setup: SetupPacket) -> Option<Vec<u8>> {
        let [index, kind] = setup.value.get().to_le_bytes();
        match DescriptorType(kind) {
            DescriptorType::Device => Some(self.model.device.clone()),
            DescriptorType::DeviceQualifier => self.model.qualifier.clone(),
            DescriptorType::Configuration => self.model.configurations.get(usize::from(index)).cloned(),
            DescriptorType::String if index == 0 => Some(language_descriptor(&[0x0409])),
            DescriptorType::String => {
                self.model.strings.get(usize::from(index) - 1).map(|text| string_descriptor(text))
            }
            _ => None,
        }
    }

    /// The answer to a request whose data stage, if OUT, is through.
    fn answer(&mut self, setup: SetupPacket) -> Option<Vec<u8>> {
        if setup.kind() != RequestType::Standard {
            let data = std::mem::take(&mut self.control.received);
            return (self.model.class)(setup, &data);
        }
        let value = setup.value.get();
        match Request(setup.request) {
            Request::GetDescriptor => self.descriptor(setup),
            Request::SetAddress => {
                self.new_address = Some(value as u8);
                Some(Vec::new())
            }
            Request::SetConfiguration => {
                for endpoint in self.endpoints.values_mut() {
                    endpoint.toggle = DataPid::Data0;
                    endpoint.halted = false;
                }
                Some(Vec::new())
            }
            Request::SetInterface => {
                for endpoint in self.endpoints.values_mut() {
                    endpoint.toggle = DataPid::Data0;
                }
                Some(Vec::new())
            }
            Request::GetStatus => Some(vec![1 | u8::from(self.wakeup_armed) << 1, 0]),
            Request::SetFeature | Request::ClearFeature => {
                let on = setup.request == Request::SetFeature.0;
                match Feature(value) {
                    Feature::DeviceRemoteWakeup => self.wakeup_armed = on,
                    Feature::EndpointHalt => {
                        let endpoint = self.endpoints.entry(setup.index.get() as u8).or_default();
                        endpoint.halted = on;
                        endpoint.toggle = DataPid::Data0;
                    }
                    _ => return None,
                }
                Some(Vec::new())
            }
            _ => None,
        }
    }

    fn max_packet0(&self) -> usize {
        self.model.device.get(7).map_or(64, |&size| usize::from(size).max(1))
    }

    fn control_in(&mut self, buffer: &mut [u8], fault: Fault) -> InReply {
        let Some(setup) = self.control.setup else { return InReply::Nak };
        if self.control.stalled {
            return InReply::Stall;
        }
        if setup.direction() == Direction::Out {
            // Status stage.
            if setup.length.get() > 0 && self.answer(setup).is_none() {
                self.control.stalled = true;
                return InReply::Stall;
            }
            if fault == Fault::None {
                self.control.setup = None;
                if let Some(address) = self.new_address.take() {
                    self.address = address;
                }
            }
            return InReply::Data { pid: DataPid::Data1, len: 0 };
        }
        let end = (self.control.sent + self.max_packet0()).min(self.control.reply.len());
        let packet = &self.control.reply[self.control.sent..end];
        let fits = packet.len().min(buffer.len());
        buffer[..fits].copy_from_slice(&packet[..fits]);
        let reply = InReply::Data { pid: self.control.toggle, len: packet.len() };
        if fault == Fault::None {
            self.control.sent = end;
            self.control.toggle = self.control.toggle.toggled();
        }
        reply
    }
}

impl UsbPort for Mock {
    fn is_busy(&self) -> bool {
        let mut state = self.0.lock();
        let busy = state.busy > 0;
        state.busy = state.busy.saturating_sub(1);
        busy
    }

    fn set_listener(&self, listener: Option<Arc<dyn PortListener>>) {
        self.0.lock().listener = listener;
    }

    fn set_vbus(&self, on: bool) {
        let listener = {
            let mut state = self.0.lock();
            state.vbus = on;
            if !on {
                state.speed = None;
            }
            state.listener.clone()
        };
        if let Some(listener) = listener {
            listener.attach_changed();
        }
    }

    fn attached(&self) -> Option<Speed> {
        let state = self.0.lock();
        (state.plugged && state.vbus).then_some(Speed::Full)
    }

    fn reset(&self, max: Speed) -> Option<Speed> {
        let mut state = self.0.lock();
        state.resets += 1;
        state.speed = (state.plugged && state.vbus).then_some(if state.model.high_speed { max } else { Speed::Full });
        state.address = 0;
        state.new_address = None;
        state.control = Control::default();
        state.suspended = false;
        for endpoint in state.endpoints.values_mut() {
            *endpoint = Endpoint::default();
        }
        state.speed
    }

    fn suspend(&self) {
        self.0.lock().suspended = true;
    }

    fn resume(&self) {
        self.0.lock().suspended = false;
    }

    fn setup(&self, to: Target, setup: &[u8; 8]) -> Handshake {
        let setup = SetupPacket::from_bytes(*setup);
        let Some(fault) = self.fault(to.address, Token::Setup(setup)) else { return Handshake::Silence };
        let mut state = self.0.lock();
        state.requests.push(setup);
        state.control = Control { setup: Some(setup), toggle: DataPid::Data1, ..Control::default() };
        if setup.direction() == Direction::In || setup.length.get() == 0 {
            match state.answer(setup) {
                Some(mut reply) => {
                    reply.truncate(setup.length.get().into());
                    state.control.reply = reply;
                }
                None => state.control.stalled = true,
            }
        }
        if fault == Fault::LostAnswer { Handshake::Silence } else { Handshake::Ack }
    }

    fn data_out(&self, to: Target, pid: DataPid, data: &[u8]) -> Handshake {
        let Some(fault) = self.fault(to.address, Token::Out(to.endpoint)) else { return Handshake::Silence };
        match fault {
            Fault::Nak => return Handshake::Nak,
            Fault::Stall => return Handshake::Stall,
            _ => {}
        }
        let mut state = self.0.lock();
        let state = &mut *state;
        if to.endpoint == 0 {
            let Some(setup) = state.control.setup else { return Handshake::Nak };
            if state.control.stalled {
                return Handshake::Stall;
            }
            if setup.direction() == Direction::In {
                state.control.setup = None;
            } else if pid == state.control.toggle {
                state.control.toggle = pid.toggled();
                state.control.received.extend_from_slice(data);
            }
        } else {
            let endpoint = state.endpoints.entry(to.endpoint).or_default();
            if endpoint.halted {
                return Handshake::Stall;
            }
            // A repeated packet is acknowledged and dropped.
            if pid == endpoint.toggle {
                endpoint.toggle = pid.toggled();
                endpoint.received.push(data.to_vec());
            }
        }
        if fault == Fault::LostAnswer { Handshake::Silence } else { Handshake::Ack }
    }

    fn data_in(&self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply {
        let Some(mut fault) = self.fault(from.address, Token::In(from.endpoint)) else { return InReply::Silence };
        match fault {
            Fault::Nak => return InReply::Nak,
            Fault::Stall => return InReply::Stall,
            Fault::Babble => return InReply::Data { pid: DataPid::Data1, len: buffer.len() + 1 },
            _ => {}
        }
        if ack == HostAck::Lost {
            fault = Fault::LostAnswer;
        }
        let mut state = self.0.lock();
        let state = &mut *state;
        let reply = if from.endpoint == 0 {
            state.control_in(buffer, fault)
        } else {
            let endpoint = state.endpoints.entry(from.endpoint | 0x80).or_default();
            if endpoint.halted {
                return InReply::Stall;
            }
            let Some(packet) = endpoint.packets.front() else { return InReply::Nak };
            let fits = packet.len().min(buffer.len());
            buffer[..fits].copy_from_slice(&packet[..fits]);
            let reply = InReply::Data { pid: endpoint.toggle, len: packet.len() };
            if fault == Fault::None {
                endpoint.toggle = endpoint.toggle.toggled();
                endpoint.packets.pop_front();
            }
            reply
        };
        match (fault, reply) {
            (Fault::WrongToggle, InReply::Data { pid, len }) => InReply::Data { pid: pid.toggled(), len },
            (Fault::LostAnswer, _) if ack == HostAck::Sent => InReply::Silence,
            (_, reply) => reply,
        }
    }
}

/// The bootloader gadget of the recorded session.
pub fn fastboot() -> Model {
    let mut raw = vec![9, 2, 32, 0, 1, 1, 0, 0xa0, 0, 9, 4, 0, 0, 2, 0xff, 0x42, 3, 0];
    raw.extend([7, 5, 0x81, 2, 64, 0, 0, 7, 5, 0x01, 2, 64, 0, 0]);
    Model {
        device: vec![18, 1, 0, 2, 0, 0, 0, 64, 0xd1, 0x18, 0x0d, 0xd0, 0x00, 0x01, 1, 2, 3, 1],
        qualifier: None,
        configurations: vec![raw],
        strings: ["Google", "Android", "0123abcd"].map(String::from).to_vec(),
        high_speed: false,
        class: Box::new(|_, _| None),
    }
}

const RNDIS: [u8; 75] = [
    0x09, 0x02, 0x4b, 0x00, 0x02, 0x02, 0x00, 0xc0, 0x00, 0x08, 0x0b, 0x00, 0x02, 0x02, 0x06, 0x00, 0x06, 0x09, 0x04,
    0x00, 0x00, 0x01, 0x02, 0x02, 0xff, 0x04, 0x05, 0x24, 0x00, 0x10, 0x01, 0x05, 0x24, 0x01, 0x00, 0x01, 0x04, 0x24,
    0x02, 0x00, 0x05, 0x24, 0x06, 0x00, 0x01, 0x07, 0x05, 0x82, 0x03, 0x08, 0x00, 0x20, 0x09, 0x04, 0x01, 0x00, 0x02,
    0x0a, 0x00, 0x00, 0x05, 0x07, 0x05, 0x81, 0x02, 0x40, 0x00, 0x00, 0x07, 0x05, 0x01, 0x02, 0x40, 0x00, 0x00,
];

/// The Ethernet gadget of the recorded session. Strings: 3 MAC, 4 to 7 as interface strings.
pub fn ethernet() -> Model {
    let mut cdc = vec![9, 2, 80, 0, 2, 1, 0, 0xc0, 0, 9, 4, 0, 0, 1, 2, 6, 0, 4];
    cdc.extend([5, 0x24, 0, 0x10, 1, 5, 0x24, 6, 0, 1, 13, 0x24, 15, 3, 0, 0, 0, 0, 0xea, 5, 0, 0, 0]);
    cdc.extend([7, 5, 0x82, 3, 16, 0, 32]);
    cdc.extend([9, 4, 1, 0, 0, 10, 0, 0, 0, 9, 4, 1, 1, 2, 10, 0, 0, 5]);
    cdc.extend([7, 5, 0x81, 2, 64, 0, 0, 7, 5, 0x01, 2, 64, 0, 0]);
    assert_eq!(cdc.len(), 80);
    let strings = ["Linux 6.2.0-rc4 with ci_hdrc_msm", "RNDIS/Ethernet Gadget", "02AABBCCDDEE", "Control", "Data"];
    Model {
        device: vec![18, 1, 0, 2, 2, 0, 0, 64, 0x25, 0x05, 0xa2, 0xa4, 0x02, 0x06, 1, 2, 0, 2],
        qualifier: Some(vec![10, 6, 0, 2, 2, 0, 0, 64, 2, 0]),
        configurations: vec![RNDIS.to_vec(), cdc],
        strings: strings.map(String::from).to_vec(),
        high_speed: true,
        class: Box::new(|setup, _| (setup.request == 0x43).then(Vec::new)),
    }
}
