//! Control requests that the driver answers itself, as ci_hdrc does (`isr_setup_packet_handler`).

use usb::ch9::{Feature, Recipient, Request as Standard};
use usb::gadget::{Request, UdcError};
use usb::{Direction, EndpointAddress, Gadget, SetupPacket};

use super::ChipideaUdc;
use super::requests::{EP0, Ep0Request};
use crate::fault::Fault;

const DEVICE_OUT: u8 = 0x00;
const ENDPOINT_OUT: u8 = 0x02;
const DEVICE_IN: u8 = 0x80;
const INTERFACE_IN: u8 = 0x81;
const ENDPOINT_IN: u8 = 0x82;

/// wIndex of the OTG status (`OTG_STS_SELECTOR`).
const OTG_STATUS: u16 = 0xf000;
/// Feature selectors of OTG: b_hnp_enable, a_hnp_support, a_alt_hnp_support. Refused without its state machine.
const OTG_FEATURES: std::ops::RangeInclusive<u16> = 3..=5;

/// What becomes of a request.
enum Answer {
    /// The driver did it, or could not.
    Done(Result<(), UdcError>),
    /// It is the gadget's.
    Delegate,
}

const REFUSED: Answer = Answer::Done(Err(UdcError::Unsupported("this request")));

impl ChipideaUdc {
    /// Takes a SETUP that was acknowledged and answers it (`isr_setup_packet_handler`).
    pub(super) fn handle_setup(&mut self, gadget: &mut dyn Gadget) {
        if !self.engine.has(Fault::NoNukeOnSetup) {
            EP0.into_iter().for_each(|endpoint| self.nuke(endpoint));
        }
        // A SET_ADDRESS whose status stage never came did not happen (USB 2.0 §9.4.6).
        self.next_address = None;
        self.deliver_all(gadget);
        let setup = match self.engine.read_setup() {
            Ok(setup) => setup,
            Err(error) => {
                self.engine.warn(format!("setup: {error}"));
                self.stall_ep0(EP0[0]);
                return;
            }
        };
        self.ep0_direction = setup.direction();
        let result = match self.answer(setup) {
            Answer::Done(result) => result,
            Answer::Delegate => {
                if setup.length.get() == 0 {
                    self.ep0_direction = Direction::In;
                }
                let answered = gadget.setup(self, setup);
                self.deliver_all(gadget);
                answered.map_err(|_| UdcError::Unsupported("this request"))
            }
        };
        if result.is_err() {
            self.stall_ep0(EP0[0]);
        }
    }

    /// Stalls endpoint 0, this direction first. If a newer SETUP waits, the controller drops the stall.
    pub(super) fn stall_ep0(&mut self, first: EndpointAddress) {
        if let Err(error) = self.engine.set_halt(first, true) {
            self.engine.warn(format!("error: _ep_set_halt: {error}"));
        }
    }

    fn answer(&mut self, setup: SetupPacket) -> Answer {
        let (value, index, length) = (setup.value.get(), setup.index.get(), setup.length.get());
        let feature = Feature(value);
        match (Standard(setup.request), setup.request_type) {
            (Standard::ClearFeature, ENDPOINT_OUT) if feature == Feature::EndpointHalt => {
                if length != 0 {
                    return REFUSED;
                }
                Answer::Done(self.clear_halt(endpoint_of(index)))
            }
            (Standard::ClearFeature, DEVICE_OUT) if feature == Feature::DeviceRemoteWakeup => {
                self.set_remote_wakeup(length, false)
            }
            (Standard::GetStatus, DEVICE_IN) if index == OTG_STATUS => Answer::Delegate,
            (Standard::GetStatus, DEVICE_IN | INTERFACE_IN | ENDPOINT_IN) => {
                if length != 2 || value != 0 {
                    return REFUSED;
                }
                Answer::Done(self.get_status(setup))
            }
            (Standard::SetAddress, DEVICE_OUT) => {
                // The address has seven bits.
                let address = value.to_le_bytes()[0] & 0x7f;
                if length != 0 || index != 0 {
                    return REFUSED;
                }
                self.next_address = Some(address);
                if self.engine.has(Fault::AddressEarly) {
                    self.engine.set_address(address);
                }
                Answer::Done(self.queue_status_stage())
            }
            (Standard::SetFeature, ENDPOINT_OUT) if feature == Feature::EndpointHalt => {
                if length != 0 {
                    return REFUSED;
                }
                let halted = self.change_halt(endpoint_of(index), true);
                Answer::Done(halted.and_then(|()| self.queue_status_stage()))
            }
            (Standard::SetFeature, DEVICE_OUT) if feature == Feature::DeviceRemoteWakeup => {
                self.set_remote_wakeup(length, true)
            }
            (Standard::SetFeature, DEVICE_OUT) if feature == Feature::TestMode || OTG_FEATURES.contains(&value) => {
                REFUSED
            }
            (Standard::SetFeature, DEVICE_OUT) if length != 0 => REFUSED,
            _ => Answer::Delegate,
        }
    }

    fn set_remote_wakeup(&mut self, length: u16, on: bool) -> Answer {
        if length != 0 {
            return REFUSED;
        }
        self.remote_wakeup = on;
        Answer::Done(self.queue_status_stage())
    }

    /// A wedged endpoint stays halted, and the host hears nothing of it.
    fn clear_halt(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        if !self.is_wedged(endpoint) || self.engine.has(Fault::WedgeForgotten) {
            self.change_halt(endpoint, false)?;
        }
        self.queue_status_stage()
    }

    /// The two bytes of GET_STATUS (USB 2.0 §9.4.5); those of an interface are 0.
    fn get_status(&mut self, setup: SetupPacket) -> Result<(), UdcError> {
        let status = match setup.recipient() {
            Recipient::Device => u8::from(self.remote_wakeup) << 1 | u8::from(self.self_powered),
            Recipient::Endpoint => u8::from(self.engine.halted(endpoint_of(setup.index.get()))?),
            _ => 0,
        };
        let request = Request { data: vec![status, 0], ..Request::default() };
        self.queue_ep0(request, Ep0Request::GetStatus).map_err(|refused| refused.error)
    }
}

/// The endpoint that wIndex names.
fn endpoint_of(index: u16) -> EndpointAddress {
    EndpointAddress::from_byte(index.to_le_bytes()[0])
}
