//! udc.c as a gadget sees it, from within a call or not.

use std::ffi::c_int;
use std::ptr;

use usb::ch9::EndpointDescriptor;
use usb::gadget::{QueueError, Request, UdcError};
use usb::{Direction, EndpointAddress, Speed, TransferType, Udc};
use zerocopy::IntoBytes;

use crate::abi;
use crate::error::refused;
use crate::shared::{InFlight, Shared};

/// `enum usb_device_speed`
const FULL: c_int = 2;
const HIGH: c_int = 3;

/// A driver, for one that it calls.
pub(crate) struct Handle<'a>(pub(crate) &'a Shared);

impl Handle<'_> {
    fn connected(&self) -> Result<(), UdcError> {
        self.speed().map(|_| ()).ok_or(UdcError::NotConnected)
    }

    fn token_of(&self, endpoint: EndpointAddress, id: u64) -> Option<(u64, *mut std::ffi::c_void)> {
        let state = self.0.state.borrow();
        // Endpoint 0 is one endpoint to a gadget.
        let is_there = |at: EndpointAddress| at == endpoint || at.is_ep0() && endpoint.is_ep0();
        let found = state.requests.iter().find(|one| one.request.id == id && is_there(one.endpoint));
        found.map(|in_flight| (in_flight.token, in_flight.handle))
    }
}

impl Udc for Handle<'_> {
    fn name(&self) -> &str {
        self.0.name.to_str().unwrap_or_default()
    }

    fn max_speed(&self) -> Speed {
        Speed::High
    }

    fn endpoints(&self) -> u8 {
        self.0.endpoints.get()
    }

    fn speed(&self) -> Option<Speed> {
        let speed = self.0.ask(
            "speed",
            |_| UdcError::NotConnected,
            |calls, call, udc| {
                // SAFETY: the driver is there: it was probed, and is not removed.
                unsafe { (calls.speed)(call, udc) }
            },
        );
        match speed {
            Ok(FULL) => Some(Speed::Full),
            Ok(HIGH) => Some(Speed::High),
            _ => None,
        }
    }

    fn match_endpoint(&self, kind: TransferType, direction: Direction, taken: &[EndpointAddress]) -> Option<u8> {
        if !self.0.works_around.get() {
            return None;
        }
        let taken = taken.iter().fold(0, |taken, &endpoint| taken | 1 << chipidea_driver::names::slot_of(endpoint));
        let is_in = c_int::from(direction == Direction::In);
        let number = self.0.ask(
            "ci_udc_match_ep",
            |_| UdcError::Unsupported("a wish"),
            |calls, call, udc| {
                // SAFETY: the driver is there.
                unsafe { (calls.match_endpoint)(call, udc, kind as c_int, is_in, taken) }
            },
        );
        number.ok().and_then(|number| u8::try_from(number).ok())
    }

    fn enable(&mut self, descriptor: &EndpointDescriptor) -> Result<(), UdcError> {
        let endpoint = descriptor.endpoint();
        self.0
            .ask(
                "ep_enable",
                |errno| refused(errno, endpoint),
                |calls, call, udc| {
                    // SAFETY: the driver is there, and copies the seven bytes.
                    unsafe { (calls.enable)(call, udc, descriptor.as_bytes().as_ptr()) }
                },
            )
            .map(drop)
    }

    fn disable(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        if endpoint.is_ep0() {
            return Err(UdcError::Unsupported("to disable endpoint 0"));
        }
        self.0
            .ask(
                "ep_disable",
                |errno| refused(errno, endpoint),
                |calls, call, udc| {
                    // SAFETY: the driver is there.
                    unsafe { (calls.disable)(call, udc, endpoint.to_byte()) }
                },
            )
            .map(drop)
    }

    fn queue(&mut self, endpoint: EndpointAddress, mut request: Request) -> Result<(), QueueError> {
        // ep_queue says 0 then, and never completes it.
        if let Err(error) = self.connected() {
            return Err(QueueError { error, request });
        }
        if self.token_of(endpoint, request.id).is_some() {
            return Err(QueueError { error: UdcError::Busy(endpoint), request });
        }
        let Ok(length) = u32::try_from(request.data.len()) else {
            return Err(QueueError { error: UdcError::Unsupported("a request of this length"), request });
        };
        let data = request.data.as_mut_ptr();
        let asked = |token| abi::Request {
            token,
            data: data.cast(),
            length,
            zero: request.zero.into(),
            short_not_ok: request.short_not_ok.into(),
            no_interrupt: request.no_interrupt.into(),
        };
        let token = {
            let state = &mut *self.0.state.borrow_mut();
            state.next_token += 1;
            state.next_token - 1
        };
        let asked = asked(token);
        let in_flight = InFlight { token, endpoint, request, handle: ptr::null_mut() };
        self.0.state.borrow_mut().requests.push(in_flight);
        let mut handle = ptr::null_mut();
        let queued = self.0.ask(
            "ep_queue",
            |errno| refused(errno, endpoint),
            |calls, call, udc| {
                // SAFETY: the driver is there; the request's data stays where it is until the request comes back.
                unsafe { (calls.queue)(call, udc, endpoint.to_byte(), &raw const asked, &raw mut handle) }
            },
        );
        match queued {
            Ok(_) => {
                let requests = &mut self.0.state.borrow_mut().requests;
                if let Some(in_flight) = requests.iter_mut().find(|in_flight| in_flight.token == token) {
                    in_flight.handle = handle;
                }
                Ok(())
            }
            Err(error) => match self.0.take_request(token) {
                Some(in_flight) => Err(QueueError { error, request: in_flight.request }),
                // It came back before the call did, and is on its way to the gadget.
                None => Ok(()),
            },
        }
    }

    fn dequeue(&mut self, endpoint: EndpointAddress, id: u64) -> Result<(), UdcError> {
        let (_, handle) = self.token_of(endpoint, id).ok_or(UdcError::NoRequest { endpoint, id })?;
        self.0
            .ask(
                "ep_dequeue",
                |_| UdcError::NoRequest { endpoint, id },
                |calls, call, udc| {
                    // SAFETY: the driver is there, and has the request: it did not come back.
                    unsafe { (calls.dequeue)(call, udc, endpoint.to_byte(), handle) }
                },
            )
            .map(drop)
    }

    fn set_halt(&mut self, endpoint: EndpointAddress, halt: bool) -> Result<(), UdcError> {
        self.0
            .ask(
                "ep_set_halt",
                |errno| refused(errno, endpoint),
                |calls, call, udc| {
                    // SAFETY: the driver is there.
                    unsafe { (calls.set_halt)(call, udc, endpoint.to_byte(), halt.into()) }
                },
            )
            .map(drop)
    }

    fn set_wedge(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        self.0
            .ask(
                "ep_set_wedge",
                |errno| refused(errno, endpoint),
                |calls, call, udc| {
                    // SAFETY: the driver is there.
                    unsafe { (calls.set_wedge)(call, udc, endpoint.to_byte()) }
                },
            )
            .map(drop)
    }

    fn flush(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        self.0
            .ask(
                "ep_fifo_flush",
                |errno| refused(errno, endpoint),
                |calls, call, udc| {
                    // SAFETY: the driver is there.
                    unsafe { (calls.flush)(call, udc, endpoint.to_byte()) }
                },
            )
            .map(drop)
    }

    fn set_self_powered(&mut self, on: bool) {
        let set = self.0.ask(
            "ci_udc_selfpowered",
            |_| UdcError::NotConnected,
            |calls, call, udc| {
                // SAFETY: the driver is there.
                unsafe { (calls.set_self_powered)(call, udc, on.into()) }
            },
        );
        // It never refuses, and a crash is in the log.
        drop(set);
    }

    fn pullup(&mut self, on: bool) -> Result<(), UdcError> {
        if self.0.is_gone() {
            return Err(UdcError::NotConnected);
        }
        self.0
            .ask("ci_udc_pullup", controller, |calls, call, udc| {
                // SAFETY: the driver is there.
                unsafe { (calls.pullup)(call, udc, on.into()) }
            })
            .map(drop)
    }

    fn wakeup(&mut self) -> Result<(), UdcError> {
        // ci_udc_wakeup says 0 then, and does nothing.
        self.connected()?;
        let refused = |errno: c_int| match -errno {
            libc::EOPNOTSUPP => UdcError::Unsupported("remote wakeup: the host did not allow it"),
            libc::EINVAL => UdcError::Unsupported("remote wakeup: not suspended"),
            _ => controller(errno),
        };
        self.0
            .ask("ci_udc_wakeup", refused, |calls, call, udc| {
                // SAFETY: the driver is there.
                unsafe { (calls.wakeup)(call, udc) }
            })
            .map(drop)
    }
}

/// An error that is about no endpoint.
pub(crate) fn controller(errno: c_int) -> UdcError {
    match -errno {
        libc::ENOMEM => UdcError::NoMemory("udc.c: -ENOMEM".to_owned()),
        libc::ENODEV | libc::ENXIO => UdcError::Unsupported("a controller that cannot be a device"),
        errno => UdcError::Hardware(format!("udc.c: error -{errno}")),
    }
}
