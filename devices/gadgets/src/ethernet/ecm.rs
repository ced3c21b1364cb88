//! The CDC Ethernet function (CDC ECM 1.2; Linux: f_ecm.c).

use usb::gadget::{Completion, Stall};
use usb::{SetupPacket, Speed, Udc};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, Unaligned};

use super::descriptors::{CONTROL_INTERFACE, DATA_INTERFACE, ECM_NOTIFY};
use super::link::{Framing, Link, filter};
use super::notify::{Notified, Notify};
use crate::composite::Answer;

/// SET_ETHERNET_PACKET_FILTER (CDC ECM 1.2 §6.2.4) to an interface.
const SET_PACKET_FILTER: (u8, u8) = (0x21, 0x43);

/// `bmRequestType` of a notification: IN, class, interface.
const NOTIFICATION: u8 = 0xa1;
/// NETWORK_CONNECTION (CDC 1.2 §6.3.1).
const NETWORK_CONNECTION: u8 = 0x00;
/// CONNECTION_SPEED_CHANGE (CDC ECM 1.2 §6.3.3).
const CONNECTION_SPEED_CHANGE: u8 = 0x2a;

/// CONNECTION_SPEED_CHANGE with its data (CDC ECM 1.2 table 13).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct SpeedChange {
    header: SetupPacket,
    /// Bits per second to the host.
    down: U32,
    /// Bits per second from the host.
    up: U32,
}

const _: () = assert!(size_of::<SpeedChange>() == 16);

/// Peak bulk rate in bits per second (`ecm_bitrate`): 19 packets of 64 bytes a millisecond, or 13 of 512 a microframe.
pub(super) fn bit_rate(speed: Speed) -> u32 {
    if speed == Speed::High { 13 * 512 * 8 * 1000 * 8 } else { 19 * 64 * 1000 * 8 }
}

/// What is to be told next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Connection,
    Speed,
}

/// The function's state; the frames are the link's.
#[derive(Debug)]
pub(super) struct Ecm {
    notify: Notify,
    next: Next,
    /// Whether the data interface has its endpoints.
    active: bool,
    /// Whether it ever had: that is what the host is told (`is_open`, which only an interface that goes down takes back).
    open: bool,
}

impl Ecm {
    pub(super) fn new() -> Self {
        Self { notify: Notify::new(ECM_NOTIFY), next: Next::Nothing, active: false, open: false }
    }

    pub(super) fn set_alternate(
        &mut self,
        udc: &mut dyn Udc,
        link: &mut Link,
        interface: u8,
        alternate: u8,
    ) -> Result<(), Stall> {
        match (interface, alternate) {
            (CONTROL_INTERFACE, 0) => {
                self.next = Next::Nothing;
                self.notify.enable(udc)
            }
            (DATA_INTERFACE, 0 | 1) => {
                link.disconnect(udc);
                self.active = false;
                if alternate == 1 {
                    link.connect(udc, Framing::Ecm, filter::DEFAULT)?;
                    self.active = true;
                    self.open = true;
                    // The network interface is up (`ecm_open`): it is told here, and again below.
                    self.tell_connection(udc, link);
                    link.refill(udc);
                }
                self.tell_connection(udc, link);
                Ok(())
            }
            _ => Err(Stall),
        }
    }

    pub(super) fn alternate(&self, interface: u8) -> u8 {
        u8::from(interface == DATA_INTERFACE && self.active)
    }

    pub(super) fn disable(&mut self, udc: &mut dyn Udc, link: &mut Link) {
        link.disconnect(udc);
        self.active = false;
        self.next = Next::Nothing;
        self.notify.disable(udc);
    }

    pub(super) fn control(&mut self, link: &mut Link, setup: SetupPacket) -> Result<Answer, Stall> {
        let for_us = setup.index.get() == u16::from(CONTROL_INTERFACE) && setup.length.get() == 0;
        if (setup.request_type, setup.request) != SET_PACKET_FILTER || !for_us {
            return Err(Stall);
        }
        link.set_filter(setup.value.get());
        Ok(Answer::Done)
    }

    pub(super) fn complete(&mut self, udc: &mut dyn Udc, link: &mut Link, completion: &Completion) {
        match self.notify.complete(completion) {
            Notified::Stale => return,
            Notified::Gone => self.next = Next::Nothing,
            Notified::Over => {}
        }
        self.tell(udc, link);
    }

    /// Begins the notifications anew (`ecm_notify`).
    fn tell_connection(&mut self, udc: &mut dyn Udc, link: &mut Link) {
        self.next = Next::Connection;
        self.tell(udc, link);
    }

    /// Sends the next notification if none is in flight (`ecm_do_notify`).
    pub(super) fn tell(&mut self, udc: &mut dyn Udc, link: &mut Link) {
        if self.notify.is_busy() {
            return;
        }
        let notification = |request, value, length| {
            SetupPacket::new(NOTIFICATION, request, value, u16::from(CONTROL_INTERFACE), length)
        };
        let (data, then) = match self.next {
            Next::Nothing => return,
            Next::Connection => {
                let connection = notification(NETWORK_CONNECTION, u16::from(self.open), 0);
                (connection.as_bytes().to_vec(), Next::Speed)
            }
            Next::Speed => {
                let rate = U32::new(bit_rate(udc.speed().unwrap_or(Speed::Full)));
                let header = notification(CONNECTION_SPEED_CHANGE, 0, 8);
                (SpeedChange { header, down: rate, up: rate }.as_bytes().to_vec(), Next::Nothing)
            }
        };
        if self.notify.send(udc, link.next_id(), data) {
            self.next = then;
        }
    }
}
