//! Gadget Zero 0525:a4a0 with its source and sink (Linux: legacy/zero.c, f_sourcesink.c): raw bulk traffic, as fast as
//! controller and host can.

use std::collections::VecDeque;
use std::time::Duration;

use usb::ch9::DeviceDescriptor;
use usb::gadget::{Completion, Request, RequestError, Stall};
use usb::{Direction, EndpointAddress, SetupPacket, Speed, Udc};
use zerocopy::IntoBytes;

use crate::composite::{Answer, Composite, EP0_BUFFER, Functions, Identity};
use crate::configuration::{Configuration, SELF_POWERED};
use crate::endpoint::{Endpoint, disable_both, enable_both};
use crate::strings::{Strings, Text, US_ENGLISH};
use crate::vendor;

/// `bConfigurationValue`.
pub const CONFIGURATION: u8 = 3;
/// The source.
pub const BULK_IN: Endpoint = Endpoint::bulk(EndpointAddress::r#in(1));
/// The sink.
pub const BULK_OUT: Endpoint = Endpoint::bulk(EndpointAddress::out(1));

/// Fills the control buffer, OUT (as Intel's compliance devices do).
const CONTROL_WRITE: (u8, u8) = (0x40, 0x5b);
/// Gives the control buffer back, IN.
const CONTROL_READ: (u8, u8) = (0xc0, 0x5c);

/// What the source sends and the sink expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pattern {
    /// Zeros.
    #[default]
    Zeros,
    /// Within each packet, the offset modulo 63.
    Mod63,
    /// The source sends zeros, the sink takes anything.
    Unchecked,
}

impl Pattern {
    /// `length` bytes of it in packets of `max_packet` bytes.
    #[must_use]
    pub fn bytes(self, length: usize, max_packet: usize) -> Vec<u8> {
        match self {
            Self::Zeros | Self::Unchecked => vec![0; length],
            Self::Mod63 => (0..length).map(|at| (at % max_packet.max(1) % 63) as u8).collect(),
        }
    }
}

/// What a source and sink is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSinkConfig {
    /// The kernel's release, part of the manufacturer string.
    pub release: String,
    /// `bcdDevice`: the kernel's version.
    pub bcd_device: u16,
    /// The data.
    pub pattern: Pattern,
    /// Size of a request in bytes, up to 1 MiB. It is rounded up to whole packets.
    pub buflen: usize,
    /// Requests queued for each direction, up to 64.
    pub qlen: usize,
}

impl Default for SourceSinkConfig {
    /// g_zero's: 32 requests of 4096 zeros.
    fn default() -> Self {
        Self { release: "6.2.0-rc4".to_owned(), bcd_device: 0x0602, pattern: Pattern::Zeros, buflen: 4096, qlen: 32 }
    }
}

/// What went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes that the host took from the source.
    pub sourced: u64,
    /// Bytes that the sink took from the host.
    pub sunk: u64,
    /// Transfers into the sink that were not of the pattern. The first halts the sink, as in Linux.
    pub mismatches: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// Gadget Zero with source and sink.
pub type SourceSinkGadget = Composite<SourceSink>;

impl Composite<SourceSink> {
    /// The gadget, not yet configured.
    #[must_use]
    pub fn new(config: SourceSinkConfig) -> Self {
        Self::with_functions(identity(&config), SourceSink::new(&config))
    }

    /// What went through since the gadget was made.
    #[must_use]
    pub fn transferred(&self) -> Transferred {
        self.functions().transferred
    }
}

fn identity(config: &SourceSinkConfig) -> Identity {
    let texts: [Text; 4] = [
        Text::WithDriver(format!("Linux {} with ", config.release)),
        "Gadget Zero".into(),
        "0123456789.0123456789.0123456789".into(),
        "source and sink data".into(),
    ];
    let interface = vendor::interface(0, 0, 2);
    let body = |speed| {
        let (source, sink) = (BULK_IN.at(speed).as_bytes(), BULK_OUT.at(speed).as_bytes());
        // Linux lists them the other way round at full speed.
        let endpoints = if speed == Speed::High { [source, sink] } else { [sink, source] };
        [interface.as_bytes(), &endpoints.concat()].concat()
    };
    Identity {
        device: DeviceDescriptor {
            manufacturer_index: 1,
            product_index: 2,
            serial_index: 3,
            ..vendor::device(config.bcd_device)
        },
        strings: Strings::new().with(US_ENGLISH, texts),
        configurations: vec![Configuration::new(CONFIGURATION, SELF_POWERED, body).with_string(4)],
    }
}

/// The source and sink function.
#[derive(Debug)]
pub struct SourceSink {
    pattern: Pattern,
    buflen: usize,
    qlen: usize,
    enabled: bool,
    /// A request of the pattern, to compare with.
    expected: Vec<u8>,
    next_id: u64,
    /// First request since the endpoints were enabled; the ones before are only coming back.
    first_id: u64,
    /// Requests that a failure or the controller gave back, to be queued in the next step.
    waiting: VecDeque<(EndpointAddress, Request)>,
    control: Vec<u8>,
    transferred: Transferred,
}

impl SourceSink {
    fn new(config: &SourceSinkConfig) -> Self {
        Self {
            pattern: config.pattern,
            buflen: config.buflen.clamp(1, 1 << 20),
            qlen: config.qlen.clamp(1, 64),
            enabled: false,
            expected: Vec::new(),
            next_id: 0,
            first_id: 0,
            waiting: VecDeque::new(),
            control: Vec::new(),
            transferred: Transferred::default(),
        }
    }

    fn queue(&mut self, udc: &mut dyn Udc, endpoint: EndpointAddress, request: Request) {
        if let Err(refused) = udc.queue(endpoint, request) {
            self.waiting.push_back((endpoint, refused.request));
        }
    }

    fn enable(&mut self, udc: &mut dyn Udc) -> Result<(), Stall> {
        let speed = enable_both(udc, &BULK_IN, &BULK_OUT)?;
        self.enabled = true;
        self.first_id = self.next_id + 1;
        let max_packet = usize::from(BULK_IN.at(speed).max_packet());
        let size = self.buflen.next_multiple_of(max_packet);
        self.expected = self.pattern.bytes(size, max_packet);
        for endpoint in [BULK_IN.address(), BULK_OUT.address()] {
            for _ in 0..self.qlen {
                self.next_id += 1;
                let data = if endpoint.direction == Direction::In { self.expected.clone() } else { vec![0; size] };
                self.queue(udc, endpoint, Request { id: self.next_id, data, ..Request::default() });
            }
        }
        Ok(())
    }

    fn matches(&self, data: &[u8]) -> bool {
        self.pattern == Pattern::Unchecked || self.expected.get(..data.len()) == Some(data)
    }
}

impl Functions for SourceSink {
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
        if !std::mem::take(&mut self.enabled) {
            return;
        }
        disable_both(udc, &BULK_IN, &BULK_OUT);
        self.first_id = self.next_id + 1;
        self.waiting.clear();
    }

    fn control(&mut self, _udc: &mut dyn Udc, _configuration: u8, setup: SetupPacket) -> Result<Answer, Stall> {
        if setup.value.get() != 0 || setup.index.get() != 0 {
            return Err(Stall);
        }
        match (setup.request_type, setup.request) {
            CONTROL_WRITE => Ok(Answer::Receive),
            CONTROL_READ => {
                let mut data = self.control.clone();
                data.resize(usize::from(setup.length.get().min(EP0_BUFFER)), 0);
                Ok(Answer::Data(data))
            }
            _ => Err(Stall),
        }
    }

    fn received(&mut self, _udc: &mut dyn Udc, _setup: SetupPacket, data: &[u8]) {
        self.control = data.to_vec();
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        if !self.enabled || completion.request.id < self.first_id {
            return;
        }
        let (endpoint, request) = (completion.endpoint, completion.request);
        match (completion.status, endpoint.direction) {
            (Ok(length), Direction::In) => {
                self.transferred.sourced += length as u64;
                self.queue(udc, endpoint, request);
            }
            (Ok(length), Direction::Out) => {
                self.transferred.sunk += length as u64;
                if !self.matches(request.data.get(..length).unwrap_or(&request.data)) {
                    self.transferred.mismatches += 1;
                    // A controller that cannot halt leaves the count.
                    let _ = udc.set_halt(endpoint, true);
                }
                self.queue(udc, endpoint, request);
            }
            (Err(RequestError::Shutdown | RequestError::Dequeued), _) => {}
            // The next step queues it: an endpoint that fails at once must not keep us busy.
            (Err(_), _) => {
                self.transferred.errors += 1;
                self.waiting.push_back((endpoint, request));
            }
        }
    }

    fn step(&mut self, udc: &mut dyn Udc, _now: Duration) -> Option<Duration> {
        for (endpoint, request) in std::mem::take(&mut self.waiting) {
            self.queue(udc, endpoint, request);
        }
        None
    }
}
