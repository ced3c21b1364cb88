//! A gadget that does as it is told and remembers what happened.

use usb::ch9::EndpointDescriptor;
use usb::gadget::{Completion, Request, RequestError, Stall, Udc, UdcError};
use usb::{Direction, EndpointAddress, Gadget, SetupPacket, Speed, TransferType};

use super::pattern;

/// What happened, without the data of bulk endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Setup(SetupPacket),
    Complete(EndpointAddress, u64, Result<usize, RequestError>),
    Reset,
    Disconnect,
    Suspend,
    Resume,
}

/// Answers GET_DESCRIPTOR with a pattern of the asked length up to 130 bytes, vendor requests OUT by taking their data,
/// SET_CONFIGURATION by enabling endpoint 1 both ways, and refuses the rest.
#[derive(Default)]
pub(crate) struct TestGadget {
    pub(crate) events: Vec<Event>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) configured: bool,
    /// Answer nothing: the status stage waits.
    pub(crate) lazy: bool,
    /// Queue again what completes on endpoint 1, while data moves.
    pub(crate) requeue: bool,
    /// Why endpoint 0 took no request.
    pub(crate) refused: Vec<UdcError>,
    next_id: u64,
}

pub(crate) const DESCRIPTOR_LEN: usize = 130;

impl TestGadget {
    pub(crate) fn queue_ep0(&mut self, udc: &mut dyn Udc, data: Vec<u8>, zero: bool) -> Result<(), Stall> {
        self.next_id += 1;
        let request = Request { id: self.next_id, data, zero, ..Request::default() };
        udc.queue(EndpointAddress::out(0), request).map_err(|refused| {
            self.refused.push(refused.error);
            Stall
        })
    }

    pub(crate) fn completed(&mut self) -> Vec<(u64, Result<usize, RequestError>)> {
        self.completions.drain(..).filter(|c| !c.endpoint.is_ep0()).map(|c| (c.request.id, c.status)).collect()
    }

    fn unconfigure(&mut self, udc: &mut dyn Udc) {
        if std::mem::take(&mut self.configured) {
            for endpoint in [EndpointAddress::out(1), EndpointAddress::r#in(1)] {
                udc.disable(endpoint).expect("it was enabled");
            }
        }
    }
}

impl Gadget for TestGadget {
    fn setup(&mut self, udc: &mut dyn Udc, setup: SetupPacket) -> Result<(), Stall> {
        self.events.push(Event::Setup(setup));
        let length = usize::from(setup.length.get());
        if self.lazy {
            return Ok(());
        }
        match (setup.request_type, setup.request) {
            (0x80, 6) => {
                let data = pattern(length.min(DESCRIPTOR_LEN));
                self.queue_ep0(udc, data, length > DESCRIPTOR_LEN)
            }
            (0x00, 9) => {
                self.unconfigure(udc);
                if setup.value.get() != 0 {
                    let max_packet = if udc.speed() == Some(Speed::High) { 512 } else { 64 };
                    for endpoint in [EndpointAddress::out(1), EndpointAddress::r#in(1)] {
                        let descriptor = EndpointDescriptor::new(endpoint, TransferType::Bulk, max_packet, 0);
                        udc.enable(&descriptor).map_err(|_| Stall)?;
                    }
                    self.configured = true;
                }
                self.queue_ep0(udc, Vec::new(), false)
            }
            (0x40, _) => self.queue_ep0(udc, vec![0; length], false),
            _ => Err(Stall),
        }
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        let Completion { endpoint, request, status } = &completion;
        self.events.push(Event::Complete(*endpoint, request.id, *status));
        if self.requeue && endpoint.number == 1 && status.is_ok() {
            let mut request = request.clone();
            if endpoint.direction == Direction::Out {
                request.data.fill(0);
            }
            udc.queue(*endpoint, request).expect("there is room");
        }
        self.completions.push(completion);
    }

    fn reset(&mut self, udc: &mut dyn Udc) {
        self.events.push(Event::Reset);
        self.unconfigure(udc);
    }

    fn disconnect(&mut self, udc: &mut dyn Udc) {
        self.events.push(Event::Disconnect);
        self.unconfigure(udc);
    }

    fn suspend(&mut self, _udc: &mut dyn Udc) {
        self.events.push(Event::Suspend);
    }

    fn resume(&mut self, _udc: &mut dyn Udc) {
        self.events.push(Event::Resume);
    }
}
