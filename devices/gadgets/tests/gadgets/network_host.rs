//! A host with a network stack, on either configuration of the Ethernet gadget.

use std::collections::VecDeque;
use std::time::Duration;

use gadgets::ethernet::{EthernetConfig, EthernetGadget, Framing};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use usb::{SetupPacket, Speed};

use crate::host::Host;

pub(crate) const BOARD: IpAddress = IpAddress::v4(192, 168, 7, 2);

/// Frames on their way.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) to_board: VecDeque<Vec<u8>>,
    pub(crate) from_board: VecDeque<Vec<u8>>,
}

pub(crate) struct Arrived(Vec<u8>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

pub(crate) struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = vec![0; len];
        let result = fill(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Frames {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _timestamp: Instant) -> Option<(Arrived, Leaving<'_>)> {
        let frame = self.from_board.pop_front()?;
        Some((Arrived(frame), Leaving(&mut self.to_board)))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<Leaving<'_>> {
        (self.to_board.len() < 16).then_some(Leaving(&mut self.to_board))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

pub(crate) struct NetworkHost {
    pub(crate) usb: Host<EthernetGadget>,
    pub(crate) framing: Framing,
    pub(crate) frames: Frames,
    pub(crate) interface: Interface,
    pub(crate) sockets: SocketSet<'static>,
}

/// The words of an RNDIS message after its type and length.
pub(crate) fn rndis_message(message_type: u32, words: &[u32]) -> Vec<u8> {
    let length = 8 + 4 * words.len() as u32;
    [message_type, length].iter().chain(words).flat_map(|word| word.to_le_bytes()).collect()
}

impl NetworkHost {
    pub(crate) fn new(framing: Framing, speed: Speed) -> Self {
        let mut usb = Host::new(EthernetGadget::new(EthernetConfig::default()), speed);
        match framing {
            Framing::Ecm => {
                usb.set_configuration(1).unwrap();
                usb.set_interface(1, 1).unwrap();
            }
            Framing::Rndis => {
                usb.set_configuration(2).unwrap();
                // INITIALIZE, SET OID_GEN_CURRENT_PACKET_FILTER 0x2d
                for message in [rndis_message(2, &[1, 1, 0, 16384]), rndis_message(5, &[2, 0x0001010e, 4, 20, 0, 0x2d])]
                {
                    let command = SetupPacket::new(0x21, 0, 0, 0, message.len() as u16);
                    usb.control(command, &message).unwrap();
                    let response = SetupPacket::new(0xa1, 1, 0, 0, 1025);
                    let answer = usb.control(response, &[]).unwrap();
                    assert_eq!(answer[12..16], [0; 4], "status");
                }
            }
        }
        let mut frames = Frames::default();
        let mac = EthernetAddress([0x02, 0x50, 0x50, 0, 0, 0x01]);
        let mut interface = Interface::new(Config::new(mac.into()), &mut frames, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::v4(192, 168, 7, 1), 24)).unwrap();
        });
        Self { usb, framing, frames, interface, sockets: SocketSet::new(Vec::new()) }
    }

    fn wrap(&self, frame: Vec<u8>) -> Vec<u8> {
        match self.framing {
            Framing::Ecm => frame,
            Framing::Rndis => {
                let length = frame.len() as u32;
                let mut packet = rndis_message(1, &[36, length, 0, 0, 0, 0, 0, 0, 0]);
                packet[4..8].copy_from_slice(&(length + 44).to_le_bytes());
                packet.extend(frame);
                packet
            }
        }
    }

    fn unwrap(&self, transfer: Vec<u8>) -> Vec<u8> {
        match self.framing {
            Framing::Ecm => transfer,
            Framing::Rndis => {
                let word = |at: usize| u32::from_le_bytes(transfer[at..at + 4].try_into().unwrap()) as usize;
                assert_eq!((word(0), word(8)), (1, 36));
                assert_eq!(word(4), 44 + word(12));
                assert!(transfer.len() - word(4) <= 1, "at most a byte of padding");
                transfer[44..44 + word(12)].to_vec()
            }
        }
    }

    /// A millisecond of both sides.
    pub(crate) fn turn(&mut self) {
        let now = Instant::from_micros(self.usb.now.as_micros() as i64);
        self.interface.poll(now, &mut self.frames, &mut self.sockets);
        while let Some(frame) = self.frames.to_board.pop_front() {
            let transfer = self.wrap(frame);
            while !self.usb.send(1, &transfer) {
                self.usb.step();
            }
        }
        loop {
            self.usb.step();
            let Some(request) = self.usb.receive_request(1) else { break };
            assert_eq!(request.zero, self.framing == Framing::Ecm);
            let full = if self.usb.udc.speed == Some(Speed::High) { 512 } else { 64 };
            assert!(request.zero || request.data.len() % full != 0, "nothing ends this transfer");
            let frame = self.unwrap(request.data);
            self.frames.from_board.push_back(frame);
        }
        self.usb.now += Duration::from_millis(1);
    }

    /// Turns until `done`, for at most ten virtual minutes.
    pub(crate) fn turn_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.usb.now + Duration::from_secs(600);
        while !done(self) {
            assert!(self.usb.now < end, "{what}");
            self.turn();
        }
    }

    pub(crate) fn connect(&mut self, port: u16, local: u16) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 65536]);
        let handle = self.sockets.add(tcp::Socket::new(buffer(), buffer()));
        let socket = self.sockets.get_mut::<tcp::Socket<'static>>(handle);
        socket.connect(self.interface.context(), (BOARD, port), local).unwrap();
        self.turn_until("connected", |host| host.tcp(handle).may_send());
        handle
    }

    pub(crate) fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Everything until the board closes, or `length` bytes.
    pub(crate) fn read(&mut self, handle: SocketHandle, length: usize) -> Vec<u8> {
        let mut data = Vec::new();
        self.turn_until("read", |host| {
            let socket = host.tcp(handle);
            while data.len() < length && socket.can_recv() {
                socket.recv(|bytes| (bytes.len(), data.extend_from_slice(bytes))).unwrap();
            }
            data.len() >= length || !socket.may_recv()
        });
        data
    }

    pub(crate) fn write(&mut self, handle: SocketHandle, data: &[u8]) {
        let mut sent = 0;
        self.turn_until("written", |host| {
            sent += host.tcp(handle).send_slice(&data[sent..]).unwrap();
            sent == data.len()
        });
    }
}
