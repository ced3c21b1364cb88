//! A gadget that queues nothing by itself: who holds it tells the driver what to queue, and looks at what comes back.
//! For tests of requests one by one, of suspend and of isochronous endpoints. Linux has no such gadget.

use std::collections::VecDeque;

use usb::ch9::EndpointDescriptor;
use usb::gadget::{Completion, Stall};
use usb::{EndpointAddress, SetupPacket, Speed, TransferType, Udc};
use zerocopy::IntoBytes;

use crate::composite::{Answer, Composite, Functions, Identity};
use crate::configuration::{Configuration, SELF_POWERED};
use crate::endpoint::{Endpoint, disable_both, enable_both};
use crate::strings::Strings;
use crate::vendor;

/// To the host, in interface 0.
pub const BULK_IN: Endpoint = Endpoint::bulk(EndpointAddress::r#in(1));
/// To the board, in interface 0.
pub const BULK_OUT: Endpoint = Endpoint::bulk(EndpointAddress::out(1));
/// Bytes in a packet of the isochronous endpoint.
pub const ISOCHRONOUS_PACKET: u16 = 64;
/// The interface that has an isochronous endpoint in its alternate setting 1: none may have one in its setting 0 that takes
/// bandwidth (USB 2.0 §5.6.3).
pub const STREAMING: u8 = 1;

/// Remote wakeup in `bmAttributes` (USB 2.0 table 9-10).
const REMOTE_WAKEUP: u8 = 0x20;
/// The gadget.
pub type ScriptedGadget = Composite<Scripted>;

/// Bulk endpoints both ways, and one isochronous IN endpoint if it is wanted.
#[derive(Debug)]
pub struct Scripted {
    isochronous: Option<EndpointDescriptor>,
    streaming: bool,
    bulk: bool,
    /// What came back, in this order.
    pub completions: VecDeque<Completion>,
    /// How often the bus fell idle.
    pub suspends: u32,
    /// How often it woke up.
    pub resumes: u32,
}

impl Composite<Scripted> {
    /// The gadget, not yet configured; with the number of its isochronous IN endpoint, or without one.
    #[must_use]
    pub fn new(isochronous: Option<u8>) -> Self {
        let isochronous = isochronous.map(|number| {
            EndpointDescriptor::new(EndpointAddress::r#in(number), TransferType::Isochronous, ISOCHRONOUS_PACKET, 1)
        });
        let functions = Scripted {
            isochronous,
            streaming: false,
            bulk: false,
            completions: VecDeque::new(),
            suspends: 0,
            resumes: 0,
        };
        Self::with_functions(identity(isochronous), functions)
    }
}

fn identity(isochronous: Option<EndpointDescriptor>) -> Identity {
    let body = move |speed: Speed| {
        let bulk = [BULK_IN.at(speed).as_bytes(), BULK_OUT.at(speed).as_bytes()].concat();
        let mut body = [vendor::interface(0, 0, 2).as_bytes(), &bulk].concat();
        if let Some(isochronous) = isochronous {
            body.extend_from_slice(vendor::interface(STREAMING, 0, 0).as_bytes());
            body.extend_from_slice(vendor::interface(STREAMING, 1, 1).as_bytes());
            body.extend_from_slice(isochronous.as_bytes());
        }
        body
    };
    Identity {
        device: vendor::device(0x0100),
        strings: Strings::new(),
        configurations: vec![Configuration::new(1, SELF_POWERED | REMOTE_WAKEUP, body)],
    }
}

impl Scripted {
    fn stop_streaming(&mut self, udc: &mut dyn Udc) {
        if let Some(isochronous) = self.isochronous.filter(|_| std::mem::take(&mut self.streaming)) {
            // After a bus reset the driver may have disabled it already.
            let _ = udc.disable(isochronous.endpoint());
        }
    }

    fn stop_bulk(&mut self, udc: &mut dyn Udc) {
        if std::mem::take(&mut self.bulk) {
            disable_both(udc, &BULK_IN, &BULK_OUT);
        }
    }
}

impl Functions for Scripted {
    fn set_alternate(
        &mut self,
        udc: &mut dyn Udc,
        _configuration: u8,
        interface: u8,
        alternate: u8,
    ) -> Result<(), Stall> {
        match (interface, alternate) {
            (0, 0) => {
                self.stop_bulk(udc);
                enable_both(udc, &BULK_IN, &BULK_OUT)?;
                self.bulk = true;
                Ok(())
            }
            (STREAMING, 0) => {
                self.stop_streaming(udc);
                Ok(())
            }
            (STREAMING, 1) => {
                self.stop_streaming(udc);
                udc.enable(&self.isochronous.ok_or(Stall)?).map_err(|_| Stall)?;
                self.streaming = true;
                Ok(())
            }
            _ => Err(Stall),
        }
    }

    fn alternate(&self, _configuration: u8, interface: u8) -> u8 {
        u8::from(interface == STREAMING && self.streaming)
    }

    fn disable(&mut self, udc: &mut dyn Udc) {
        self.stop_streaming(udc);
        self.stop_bulk(udc);
    }

    fn control(&mut self, _udc: &mut dyn Udc, _configuration: u8, _setup: SetupPacket) -> Result<Answer, Stall> {
        Err(Stall)
    }

    fn complete(&mut self, _udc: &mut dyn Udc, completion: Completion) {
        self.completions.push_back(completion);
    }

    fn suspend(&mut self, _udc: &mut dyn Udc) {
        self.suspends += 1;
    }

    fn resume(&mut self, _udc: &mut dyn Udc) {
        self.resumes += 1;
    }
}
