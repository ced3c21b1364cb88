//! The bootloader gadget 18d1:d00d: fastboot over two bulk endpoints, as little kernel has it.

mod protocol;
mod sparse;
mod storage;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use usb::ch9::{DescriptorType, DeviceDescriptor, InterfaceDescriptor};
use usb::gadget::{Completion, End, Request, RequestError, Stall};
use usb::{Direction, EndpointAddress, SetupPacket, Udc};
use zerocopy::IntoBytes;

pub use protocol::{CommandError, MAX_COMMAND, MAX_RESPONSE, Response};
pub use storage::{Storage, StorageError};

use crate::composite::{Answer, Composite, EP0_MAX_PACKET, Functions, Identity};
use crate::configuration::{BUS_POWERED, Configuration};
use crate::endpoint::{Endpoint, disable_both, enable_both};
use crate::strings::{Strings, Text, US_ENGLISH};
use protocol::{Bootloader, Next};

/// `bConfigurationValue`.
pub const CONFIGURATION: u8 = 1;
/// Responses to the host.
pub const BULK_IN: Endpoint = Endpoint::bulk(EndpointAddress::r#in(1));
/// Commands and data from the host.
pub const BULK_OUT: Endpoint = Endpoint::bulk(EndpointAddress::out(1));

/// Responses that may wait for a host that only writes; further commands stay with the host, which gets NAK.
const MAX_RESPONSES: usize = 64;

/// What a bootloader is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastbootConfig {
    /// Serial number.
    pub serial: String,
    /// Variable `product`.
    pub product: String,
    /// Largest download in bytes.
    pub max_download: u32,
    /// Size of a download request in bytes. It is rounded up to whole packets.
    pub request_size: usize,
    /// Download requests queued at a time.
    pub depth: usize,
    /// Partitions, each a name and a size in bytes.
    pub partitions: Vec<(String, u64)>,
}

impl Default for FastbootConfig {
    /// The recorded board with 64 MiB for downloads and the partitions `aboot`, `boot`, `recovery` and `userdata`.
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        let partitions = [("aboot", MIB), ("boot", 32 * MIB), ("recovery", 32 * MIB), ("userdata", 1024 * MIB)];
        Self {
            serial: "0123abcd".to_owned(),
            product: "msm8916".to_owned(),
            max_download: 64 << 20,
            request_size: 16 * 1024,
            depth: 4,
            partitions: partitions.map(|(name, size)| (name.to_owned(), size)).to_vec(),
        }
    }
}

/// How the bootloader ends, for the machine around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Start this image.
    Boot(Vec<u8>),
    /// Start what is in the flash.
    Continue,
    /// Restart the machine.
    Reboot,
    /// Restart into the bootloader.
    RebootBootloader,
}

impl Event {
    /// For a machine that asks the gadget alone ([`usb::Gadget::end`]). It restarts into its bootloader either way.
    fn end(&self) -> End {
        match self {
            Self::Boot(_) | Self::Continue => End::Start,
            Self::Reboot | Self::RebootBootloader => End::Restart,
        }
    }
}

/// The bootloader gadget.
pub type FastbootGadget = Composite<Fastboot>;

impl Composite<Fastboot> {
    /// The gadget, not yet configured.
    #[must_use]
    pub fn new(config: FastbootConfig) -> Self {
        Self::with_functions(identity(&config), Fastboot::new(config))
    }

    /// How the bootloader ends, once the host has the response to the command that ends it. Given once.
    pub fn take_event(&mut self) -> Option<Event> {
        self.functions_mut().event.take()
    }

    /// The partitions.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.functions().bootloader.storage
    }

    /// What was downloaded last; nothing once the bootloader ends.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        &self.functions().bootloader.image
    }
}

fn identity(config: &FastbootConfig) -> Identity {
    let texts: [Text; 4] = ["Google".into(), "Android".into(), config.serial.as_str().into(), "fastboot".into()];
    let interface = InterfaceDescriptor {
        length: 9,
        descriptor_type: DescriptorType::Interface.0,
        number: 0,
        alternate: 0,
        endpoints: 2,
        class: 0xff,
        sub_class: 0x42,
        protocol: 0x03,
        string_index: 4,
    };
    let body = |speed| [interface.as_bytes(), BULK_IN.at(speed).as_bytes(), BULK_OUT.at(speed).as_bytes()].concat();
    Identity {
        device: DeviceDescriptor {
            length: 18,
            descriptor_type: DescriptorType::Device.0,
            bcd_usb: 0x0200.into(),
            class: 0,
            sub_class: 0,
            protocol: 0,
            max_packet_size0: EP0_MAX_PACKET,
            vendor: 0x18d1.into(),
            product: 0xd00d.into(),
            bcd_device: 0x0100.into(),
            manufacturer_index: 1,
            product_index: 2,
            serial_index: 3,
            configurations: 1,
        },
        strings: Strings::new().with(US_ENGLISH, texts),
        configurations: vec![Configuration::new(CONFIGURATION, BUS_POWERED, body).with_power(256)],
    }
}

/// What the OUT endpoint waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Command,
    /// A download of this many bytes.
    Data(usize),
    /// Nothing more: the bootloader ends.
    Nothing,
}

/// The fastboot function.
#[derive(Debug)]
pub struct Fastboot {
    bootloader: Bootloader,
    request_size: usize,
    depth: usize,
    /// Bytes in a packet; 0 while the endpoints are disabled.
    max_packet: usize,
    waiting: Waiting,
    next_id: u64,
    /// First request since the endpoints were enabled; the ones before are only coming back.
    first_id: u64,
    /// OUT requests queued, and the room in them.
    queued: usize,
    room: usize,
    /// IN requests queued.
    responding: usize,
    /// Responses that the controller has not taken yet.
    unsent: VecDeque<Request>,
    /// The response that ends the bootloader.
    last_words: Option<(u64, Event)>,
    event: Option<Event>,
    end: Option<End>,
    spare: Vec<Vec<u8>>,
}

impl Fastboot {
    fn new(config: FastbootConfig) -> Self {
        Self {
            request_size: config.request_size.clamp(1, 1 << 20),
            depth: config.depth.clamp(1, 64),
            bootloader: Bootloader::new(config),
            max_packet: 0,
            waiting: Waiting::Command,
            next_id: 0,
            first_id: 0,
            queued: 0,
            room: 0,
            responding: 0,
            unsent: VecDeque::new(),
            last_words: None,
            event: None,
            end: None,
            spare: Vec::new(),
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Queues what the OUT endpoint needs.
    ///
    /// Every request is whole packets, so that no packet is cut. The room queued never reaches a packet more than the
    /// bytes that are missing, however the host splits them: when the last byte is there, no request is left over.
    fn refill(&mut self, udc: &mut dyn Udc) {
        if self.max_packet == 0 {
            return;
        }
        loop {
            let (size, depth) = match self.waiting {
                Waiting::Nothing => return,
                Waiting::Command if self.responding + self.unsent.len() >= MAX_RESPONSES => return,
                Waiting::Command => (self.max_packet, 1),
                Waiting::Data(announced) => {
                    let missing = announced.saturating_sub(self.bootloader.image.len()).saturating_sub(self.room);
                    if missing == 0 {
                        return;
                    }
                    (missing.min(self.request_size).next_multiple_of(self.max_packet), self.depth)
                }
            };
            if self.queued >= depth {
                return;
            }
            let mut data = self.spare.pop().unwrap_or_default();
            data.resize(size, 0);
            let request = Request { id: self.next_id(), data, ..Request::default() };
            if let Err(refused) = udc.queue(BULK_OUT.address(), request) {
                self.spare.push(refused.request.data);
                return;
            }
            self.queued += 1;
            self.room += size;
        }
    }

    /// Answers the host; the name of the request that does it.
    fn respond(&mut self, udc: &mut dyn Udc, response: &Response) -> u64 {
        let id = self.next_id();
        self.unsent.push_back(Request { id, data: response.to_bytes(), ..Request::default() });
        self.send(udc);
        id
    }

    /// Queues the responses in their order, as far as the controller takes them.
    fn send(&mut self, udc: &mut dyn Udc) {
        while let Some(request) = self.unsent.pop_front() {
            if let Err(refused) = udc.queue(BULK_IN.address(), request) {
                self.unsent.push_front(refused.request);
                return;
            }
            self.responding += 1;
        }
    }

    fn command(&mut self, udc: &mut dyn Udc, command: &[u8]) {
        // An empty packet only ends the transfer before it.
        if command.is_empty() {
            return;
        }
        let (responses, next) = self.bootloader.execute(command);
        let last = responses.iter().map(|response| self.respond(udc, response)).last();
        match next {
            Next::Command => {}
            Next::Download(size) => {
                let size = size as usize;
                let mut image = Vec::new();
                // Without the reserve the image grows as data comes.
                let _ = image.try_reserve_exact(size);
                self.bootloader.image = Arc::new(image);
                self.waiting = Waiting::Data(size);
            }
            Next::Leave(event) => {
                self.waiting = Waiting::Nothing;
                match last {
                    Some(id) => self.last_words = Some((id, event)),
                    None => self.leave(event),
                }
            }
        }
    }

    fn data(&mut self, udc: &mut dyn Udc, announced: usize, data: &[u8]) {
        // Nobody else has it before it is complete.
        let image = Arc::make_mut(&mut self.bootloader.image);
        let missing = announced.saturating_sub(image.len());
        let received = image.len() + data.len();
        image.extend_from_slice(data.get(..missing).unwrap_or(data));
        if received < announced {
            return;
        }
        let response = if received > announced {
            *image = Vec::new();
            Response::Fail(CommandError::Excess { received, announced })
        } else {
            Response::Okay(String::new())
        };
        self.waiting = Waiting::Command;
        self.respond(udc, &response);
    }

    fn received(&mut self, udc: &mut dyn Udc, completion: Completion) {
        let buffer = completion.request.data;
        self.queued = self.queued.saturating_sub(1);
        self.room = self.room.saturating_sub(buffer.len());
        match completion.status {
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or(&buffer);
                match self.waiting {
                    Waiting::Command => self.command(udc, bytes),
                    Waiting::Data(announced) => self.data(udc, announced, bytes),
                    Waiting::Nothing => {}
                }
                self.spare.push(buffer);
                self.refill(udc);
            }
            // The next step queues again: an endpoint that fails at once must not keep us busy.
            Err(error) => {
                self.spare.push(buffer);
                let over = matches!(error, RequestError::Shutdown | RequestError::Dequeued);
                if let Waiting::Data(_) = self.waiting
                    && !over
                {
                    let failed = CommandError::Broken(std::mem::take(&mut self.bootloader.image).len());
                    self.waiting = Waiting::Command;
                    self.respond(udc, &Response::Fail(failed));
                }
            }
        }
    }

    fn sent(&mut self, udc: &mut dyn Udc, completion: &Completion) {
        self.responding = self.responding.saturating_sub(1);
        if let Some((_, event)) = self.last_words.take_if(|(id, _)| *id == completion.request.id)
            && completion.status.is_ok()
        {
            self.leave(event);
        }
        self.send(udc);
        self.refill(udc);
    }

    fn leave(&mut self, event: Event) {
        // What was downloaded is lost with the memory.
        self.bootloader.image = Arc::default();
        self.end = Some(event.end());
        self.event = Some(event);
    }

    fn enable(&mut self, udc: &mut dyn Udc) -> Result<(), Stall> {
        let speed = enable_both(udc, &BULK_IN, &BULK_OUT)?;
        self.max_packet = usize::from(BULK_OUT.at(speed).max_packet());
        self.first_id = self.next_id + 1;
        self.refill(udc);
        Ok(())
    }
}

impl Functions for Fastboot {
    fn set_alternate(
        &mut self,
        udc: &mut dyn Udc,
        _configuration: u8,
        _interface: u8,
        alternate: u8,
    ) -> Result<(), Stall> {
        if alternate != 0 {
            return Err(Stall);
        }
        self.disable(udc);
        self.enable(udc)
    }

    fn alternate(&self, _configuration: u8, _interface: u8) -> u8 {
        0
    }

    fn disable(&mut self, udc: &mut dyn Udc) {
        if std::mem::take(&mut self.max_packet) == 0 {
            return;
        }
        disable_both(udc, &BULK_IN, &BULK_OUT);
        self.first_id = self.next_id + 1;
        (self.queued, self.room, self.responding) = (0, 0, 0);
        self.unsent.clear();
        self.last_words = None;
        if let Waiting::Data(_) = self.waiting {
            self.bootloader.image = Arc::default();
        }
        self.waiting = Waiting::Command;
        self.spare = Vec::new();
    }

    fn control(&mut self, _udc: &mut dyn Udc, _configuration: u8, _setup: SetupPacket) -> Result<Answer, Stall> {
        Err(Stall)
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        if self.max_packet == 0 || completion.request.id < self.first_id {
            return;
        }
        match completion.endpoint.direction {
            Direction::Out => self.received(udc, completion),
            Direction::In => self.sent(udc, &completion),
        }
    }

    fn step(&mut self, udc: &mut dyn Udc, _now: Duration) -> Option<Duration> {
        self.send(udc);
        self.refill(udc);
        None
    }

    fn end(&mut self) -> Option<End> {
        self.end.take()
    }
}
