//! A controller driver without a controller: it keeps what the gadget queues, and the test plays the host.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use usb::ch9::EndpointDescriptor;
use usb::gadget::{Completion, QueueError, Request, RequestError, Stall, UdcError};
use usb::{Direction, EndpointAddress, Gadget, SetupPacket, Speed, Udc};

/// The mock.
pub(crate) struct MockUdc {
    pub(crate) max_speed: Speed,
    pub(crate) speed: Option<Speed>,
    pub(crate) enabled: BTreeMap<EndpointAddress, EndpointDescriptor>,
    pub(crate) queued: BTreeMap<EndpointAddress, VecDeque<Request>>,
    pub(crate) ep0: Option<Request>,
    pub(crate) back: VecDeque<Completion>,
    pub(crate) self_powered: bool,
    pub(crate) refuse: Option<EndpointAddress>,
    /// Whether requests are refused for want of memory, other than endpoint 0's.
    pub(crate) exhausted: bool,
    /// Broken promises: an id queued twice, two requests on endpoint 0.
    pub(crate) violations: Vec<String>,
}

impl MockUdc {
    pub(crate) fn new(max_speed: Speed) -> Self {
        Self {
            max_speed,
            speed: None,
            enabled: BTreeMap::new(),
            queued: BTreeMap::new(),
            ep0: None,
            back: VecDeque::new(),
            self_powered: false,
            refuse: None,
            exhausted: false,
            violations: Vec::new(),
        }
    }

    pub(crate) fn depth(&self, endpoint: EndpointAddress) -> usize {
        self.queued.get(&endpoint).map_or(0, VecDeque::len)
    }

    pub(crate) fn memory(&self) -> usize {
        self.queued.values().flatten().map(|request| request.data.len()).sum()
    }
}

impl Udc for MockUdc {
    fn name(&self) -> &str {
        "ci_hdrc_msm"
    }

    fn max_speed(&self) -> Speed {
        self.max_speed
    }

    fn endpoints(&self) -> u8 {
        16
    }

    fn speed(&self) -> Option<Speed> {
        self.speed
    }

    fn enable(&mut self, descriptor: &EndpointDescriptor) -> Result<(), UdcError> {
        let endpoint = descriptor.endpoint();
        if self.refuse == Some(endpoint) {
            return Err(UdcError::NoEndpoint(endpoint));
        }
        if self.enabled.insert(endpoint, *descriptor).is_some() {
            return Err(UdcError::Busy(endpoint));
        }
        Ok(())
    }

    fn disable(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        self.enabled.remove(&endpoint).ok_or(UdcError::NoEndpoint(endpoint))?;
        for request in self.queued.remove(&endpoint).unwrap_or_default() {
            self.back.push_back(Completion { endpoint, request, status: Err(RequestError::Shutdown) });
        }
        Ok(())
    }

    fn queue(&mut self, endpoint: EndpointAddress, request: Request) -> Result<(), QueueError> {
        if endpoint.is_ep0() {
            if self.ep0.is_some() {
                self.violations.push("two requests on endpoint 0".to_owned());
            }
            self.ep0 = Some(request);
            return Ok(());
        }
        if !self.enabled.contains_key(&endpoint) {
            return Err(QueueError { error: UdcError::NoEndpoint(endpoint), request });
        }
        if self.exhausted {
            return Err(QueueError { error: UdcError::NoMemory("no dTD".to_owned()), request });
        }
        let queue = self.queued.entry(endpoint).or_default();
        if queue.iter().any(|other| other.id == request.id) {
            self.violations.push(format!("{endpoint}: request {} queued twice", request.id));
            return Err(QueueError { error: UdcError::Busy(endpoint), request });
        }
        queue.push_back(request);
        Ok(())
    }

    fn dequeue(&mut self, endpoint: EndpointAddress, id: u64) -> Result<(), UdcError> {
        let queue = self.queued.entry(endpoint).or_default();
        let at = queue.iter().position(|request| request.id == id).ok_or(UdcError::NoRequest { endpoint, id })?;
        let request = queue.remove(at).ok_or(UdcError::NoRequest { endpoint, id })?;
        self.back.push_back(Completion { endpoint, request, status: Err(RequestError::Dequeued) });
        Ok(())
    }

    fn set_halt(&mut self, _endpoint: EndpointAddress, _halt: bool) -> Result<(), UdcError> {
        Ok(())
    }

    fn set_wedge(&mut self, _endpoint: EndpointAddress) -> Result<(), UdcError> {
        Ok(())
    }

    fn flush(&mut self, _endpoint: EndpointAddress) -> Result<(), UdcError> {
        Ok(())
    }

    fn set_self_powered(&mut self, on: bool) {
        self.self_powered = on;
    }

    fn pullup(&mut self, _on: bool) -> Result<(), UdcError> {
        Ok(())
    }

    fn wakeup(&mut self) -> Result<(), UdcError> {
        Ok(())
    }
}

/// A gadget on the mock, and the host.
pub(crate) struct Host<G> {
    pub(crate) gadget: G,
    pub(crate) udc: MockUdc,
    pub(crate) now: Duration,
}

impl<G: Gadget> Host<G> {
    /// A gadget after a bus reset at `speed`, on a controller that can do high speed.
    pub(crate) fn new(gadget: G, speed: Speed) -> Self {
        let mut host = Self { gadget, udc: MockUdc::new(Speed::High), now: Duration::ZERO };
        host.reset(speed);
        host
    }

    pub(crate) fn reset(&mut self, speed: Speed) {
        // As ci_hdrc's reset handler: the gadget first, then what it left enabled.
        self.udc.speed = Some(speed);
        self.udc.ep0 = None;
        self.gadget.reset(&mut self.udc);
        self.deliver();
        let left: Vec<_> = self.udc.enabled.keys().copied().collect();
        assert_eq!(left, [], "endpoints that the gadget left enabled over a bus reset");
    }

    /// Hands back what came back.
    pub(crate) fn deliver(&mut self) {
        while let Some(completion) = self.udc.back.pop_front() {
            self.gadget.complete(&mut self.udc, completion);
        }
    }

    /// Lets the gadget do its own work.
    pub(crate) fn step(&mut self) -> Option<Duration> {
        self.deliver();
        let again = self.gadget.step(&mut self.udc, self.now);
        self.deliver();
        again
    }

    fn start(&mut self, setup: SetupPacket) -> Result<Option<Request>, Stall> {
        self.udc.ep0 = None;
        self.gadget.setup(&mut self.udc, setup)?;
        Ok(self.udc.ep0.take())
    }

    fn finish(&mut self, direction: Direction, request: Request, moved: usize) {
        let endpoint = EndpointAddress { number: 0, direction };
        self.udc.back.push_back(Completion { endpoint, request, status: Ok(moved) });
        self.deliver();
    }

    /// A control transfer; `data` is what the host sends. Answers what the host gets.
    pub(crate) fn control(&mut self, setup: SetupPacket, data: &[u8]) -> Result<Vec<u8>, Stall> {
        let mut request = self.start(setup)?.expect("no gadget here delays its status");
        match setup.direction() {
            Direction::In => {
                let answer = request.data.clone();
                assert!(answer.len() <= usize::from(setup.length.get()), "longer than wLength: {setup}");
                let moved = answer.len();
                self.finish(Direction::In, request, moved);
                Ok(answer)
            }
            Direction::Out => {
                assert_eq!(request.data.len(), usize::from(setup.length.get()), "room for wLength bytes: {setup}");
                let moved = data.len().min(request.data.len());
                request.data[..moved].copy_from_slice(&data[..moved]);
                self.finish(Direction::Out, request, moved);
                Ok(Vec::new())
            }
        }
    }

    /// The request that answers `setup`, as it was queued.
    pub(crate) fn queued_answer(&mut self, setup: SetupPacket) -> Result<Request, Stall> {
        Ok(self.start(setup)?.expect("no gadget here delays its status"))
    }

    pub(crate) fn set_configuration(&mut self, value: u16) -> Result<(), Stall> {
        self.control(SetupPacket::new(0x00, 9, value, 0, 0), &[]).map(drop)
    }

    pub(crate) fn set_interface(&mut self, interface: u16, alternate: u16) -> Result<(), Stall> {
        self.control(SetupPacket::new(0x01, 11, alternate, interface, 0), &[]).map(drop)
    }

    /// A transfer that is over, and not yet told to the gadget.
    pub(crate) fn hold_back(&mut self, endpoint: EndpointAddress, moved: usize) {
        let request = self.udc.queued.get_mut(&endpoint).and_then(VecDeque::pop_front).expect("a request is queued");
        self.udc.back.push_back(Completion { endpoint, request, status: Ok(moved) });
    }

    /// One OUT transfer into the first request of an endpoint. Whether there was one.
    pub(crate) fn send(&mut self, number: u8, data: &[u8]) -> bool {
        let endpoint = EndpointAddress::out(number);
        let Some(mut request) = self.udc.queued.get_mut(&endpoint).and_then(VecDeque::pop_front) else { return false };
        let moved = data.len().min(request.data.len());
        request.data[..moved].copy_from_slice(&data[..moved]);
        self.udc.back.push_back(Completion { endpoint, request, status: Ok(moved) });
        self.deliver();
        true
    }

    /// A stream over OUT requests as packets of a controller would fill them: a request ends when it is full or at the
    /// end of the stream. Whether there was room for all.
    pub(crate) fn send_stream(&mut self, number: u8, mut data: &[u8]) -> bool {
        let endpoint = EndpointAddress::out(number);
        while !data.is_empty() {
            let Some(room) = self.udc.queued.get(&endpoint).and_then(|queue| queue.front()) else { return false };
            let (now, rest) = data.split_at(data.len().min(room.data.len()));
            self.send(number, now);
            data = rest;
        }
        true
    }

    /// One IN transfer, the data of the first request of an endpoint.
    pub(crate) fn receive(&mut self, number: u8) -> Option<Vec<u8>> {
        self.receive_request(number).map(|request| request.data)
    }

    /// One IN transfer, as it was queued.
    pub(crate) fn receive_request(&mut self, number: u8) -> Option<Request> {
        let endpoint = EndpointAddress::r#in(number);
        let request = self.udc.queued.get_mut(&endpoint)?.pop_front()?;
        let copy = request.clone();
        let moved = request.data.len();
        self.udc.back.push_back(Completion { endpoint, request, status: Ok(moved) });
        self.deliver();
        Some(copy)
    }
}
