//! `embassy_usb_driver::Driver` on the packets of the controller.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bus::Mmio;
use chipidea_driver::{Config, EngineError};
use embassy_usb_driver::{
    Bus, ControlPipe, Driver, Endpoint, EndpointAddress as StackAddress, EndpointAllocError, EndpointError, EndpointIn,
    EndpointInfo, EndpointOut, EndpointType, Event, Unsupported,
};
use parking_lot::Mutex;
use pool::DmaApi;
use usb::{Direction, EndpointAddress, TransferType};

use crate::error::PacketError;
use crate::firmware::Firmware;
use crate::packets::{Packets, Power};

const EP0_OUT: EndpointAddress = EndpointAddress::out(0);
const EP0_IN: EndpointAddress = EndpointAddress::r#in(0);

/// The controller, and the tasks that wait for it.
struct Shared {
    packets: Arc<Mutex<Packets>>,
    /// Each task once.
    waiting: Mutex<Vec<Waker>>,
}

impl Shared {
    /// Wakes every task that waits. It looks for itself whether its time has come.
    fn wake(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn register(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.lock();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// Waits until `look` finds something.
    async fn until<R>(&self, mut look: impl FnMut(&mut Packets) -> Option<R>) -> R {
        poll_fn(|context| {
            // First, so that no interrupt falls in between.
            self.register(context);
            match look(&mut self.packets.lock()) {
                Some(found) => Poll::Ready(found),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Waits until endpoint 0 has done `step`, or the control transfer is over.
    async fn control<R>(
        &self,
        mut step: impl FnMut(&mut Packets) -> Result<R, PacketError>,
    ) -> Result<R, EndpointError> {
        self.until(
            |packets| if packets.control_is_over() { Some(Err(EndpointError::Disabled)) } else { tried(step(packets)) },
        )
        .await
    }
}

/// The controller as `embassy-usb` sees it. Clones are the same controller; the last part of it to go gives everything
/// back.
///
/// Call [`ChipideaEmbassy::on_interrupt`] while the controller's interrupt is asserted. `embassy-usb`'s futures run
/// on any executor.
#[derive(Clone)]
pub struct ChipideaEmbassy(Arc<Shared>);

impl ChipideaEmbassy {
    /// Finds the controller and allocates its queue heads. It runs when `embassy-usb` runs.
    ///
    /// # Errors
    /// The controller cannot be a device, or there is no memory. Nothing stays allocated then.
    pub fn probe(mmio: Arc<dyn Mmio>, dma: DmaApi, config: Config) -> Result<Self, EngineError> {
        let packets = Arc::new(Mutex::new(Packets::probe(mmio, dma, config)?));
        Ok(Self(Arc::new(Shared { packets, waiting: Mutex::default() })))
    }

    /// The interrupt handler: looks at the controller and wakes the tasks that wait.
    pub fn on_interrupt(&self) {
        self.0.packets.lock().service();
        self.0.wake();
    }

    /// This as a board's driver, whose interrupts wake the tasks. They run elsewhere.
    #[must_use]
    pub fn firmware(&self) -> Firmware {
        let handler = self.clone();
        Firmware::on(Arc::clone(&self.0.packets), move || handler.on_interrupt(), |_| false)
    }

    /// What went wrong since the last call, in lines. At most 64 wait.
    #[must_use]
    pub fn take_log(&self) -> Vec<String> {
        self.0.packets.lock().take_log()
    }

    /// Stops the controller and gives every queue head, descriptor, buffer and pool back. A second call does nothing.
    ///
    /// # Errors
    /// The first thing that could not be given back; the rest was.
    pub fn shutdown(&self) -> Result<(), EngineError> {
        let result = self.0.packets.lock().shutdown();
        self.0.wake();
        result
    }

    fn allocate(
        &self,
        direction: Direction,
        kind: EndpointType,
        address: Option<StackAddress>,
        max_packet_size: u16,
        interval_ms: u8,
    ) -> Result<ChipideaEndpoint, EndpointAllocError> {
        let transfer_type = match kind {
            EndpointType::Control => TransferType::Control,
            EndpointType::Isochronous => TransferType::Isochronous,
            EndpointType::Bulk => TransferType::Bulk,
            EndpointType::Interrupt => TransferType::Interrupt,
        };
        let number = match address.map(own_address) {
            Some(address) if address.direction == direction => Some(address.number),
            Some(_) => return Err(EndpointAllocError),
            None => None,
        };
        let address = self.0.packets.lock().allocate(direction, number, transfer_type, max_packet_size);
        let address = address.map_err(|_| EndpointAllocError)?;
        let info = EndpointInfo { addr: address.to_byte().into(), ep_type: kind, max_packet_size, interval_ms };
        Ok(ChipideaEndpoint { shared: Arc::clone(&self.0), address, info })
    }
}

impl Driver<'_> for ChipideaEmbassy {
    type EndpointOut = ChipideaEndpoint;
    type EndpointIn = ChipideaEndpoint;
    type ControlPipe = ChipideaControl;
    type Bus = ChipideaEmbassyBus;

    fn alloc_endpoint_out(
        &mut self,
        ep_type: EndpointType,
        ep_addr: Option<StackAddress>,
        max_packet_size: u16,
        interval_ms: u8,
    ) -> Result<ChipideaEndpoint, EndpointAllocError> {
        self.allocate(Direction::Out, ep_type, ep_addr, max_packet_size, interval_ms)
    }

    fn alloc_endpoint_in(
        &mut self,
        ep_type: EndpointType,
        ep_addr: Option<StackAddress>,
        max_packet_size: u16,
        interval_ms: u8,
    ) -> Result<ChipideaEndpoint, EndpointAllocError> {
        self.allocate(Direction::In, ep_type, ep_addr, max_packet_size, interval_ms)
    }

    fn start(self, control_max_packet_size: u16) -> (ChipideaEmbassyBus, ChipideaControl) {
        let mut packets = self.0.packets.lock();
        for direction in [Direction::Out, Direction::In] {
            if let Err(error) = packets.allocate(direction, Some(0), TransferType::Control, control_max_packet_size) {
                packets.warn(format!("endpoint 0: {error}"));
            }
        }
        drop(packets);
        let control = ChipideaControl { shared: Arc::clone(&self.0), max_packet_size: control_max_packet_size };
        (ChipideaEmbassyBus { shared: self.0, begun: false }, control)
    }
}

/// The bus as `embassy-usb` sees it.
pub struct ChipideaEmbassyBus {
    shared: Arc<Shared>,
    /// The stack was told that there is power: it enables the bus then.
    begun: bool,
}

impl Bus for ChipideaEmbassyBus {
    async fn enable(&mut self) {
        let mut packets = self.shared.packets.lock();
        if packets.is_started() {
            packets.attach();
        } else if let Err(error) = packets.start() {
            packets.warn(format!("start: {error}"));
        }
    }

    async fn disable(&mut self) {
        self.shared.packets.lock().detach();
        self.shared.wake();
    }

    async fn poll(&mut self) -> Event {
        if !self.begun {
            self.begun = true;
            return Event::PowerDetected;
        }
        let look = |packets: &mut Packets| {
            if packets.take_reset() {
                return Some(Event::Reset);
            }
            packets.take_power().map(|power| match power {
                Power::Suspended => Event::Suspend,
                Power::Resumed => Event::Resume,
                Power::Removed => Event::PowerRemoved,
                Power::Detected => Event::PowerDetected,
            })
        };
        self.shared.until(look).await
    }

    fn endpoint_set_enabled(&mut self, ep_addr: StackAddress, enabled: bool) {
        let mut packets = self.shared.packets.lock();
        let address = own_address(ep_addr);
        // A configuration that is selected again starts anew, too.
        packets.disable(address);
        if enabled {
            packets.enable(address);
        }
        drop(packets);
        self.shared.wake();
    }

    fn endpoint_set_stalled(&mut self, ep_addr: StackAddress, stalled: bool) {
        self.shared.packets.lock().set_stalled(own_address(ep_addr), stalled);
    }

    fn endpoint_is_stalled(&mut self, ep_addr: StackAddress) -> bool {
        self.shared.packets.lock().is_stalled(own_address(ep_addr))
    }

    /// Switches the pull-up off and on, as [`crate::Firmware`]'s host sees it; a real hub wants 2.5 µs between.
    fn force_reset(&mut self) -> Result<(), Unsupported> {
        self.shared.packets.lock().reattach();
        Ok(())
    }

    async fn remote_wakeup(&mut self) -> Result<(), Unsupported> {
        if self.shared.packets.lock().wake_up() { Ok(()) } else { Err(Unsupported) }
    }
}

/// An endpoint but 0, of one direction.
pub struct ChipideaEndpoint {
    shared: Arc<Shared>,
    address: EndpointAddress,
    info: EndpointInfo,
}

impl ChipideaEndpoint {
    /// Waits until the endpoint has done `step`; one that is disabled never does.
    async fn when_ready<R>(
        &self,
        mut step: impl FnMut(&mut Packets, EndpointAddress) -> Result<R, PacketError>,
    ) -> Result<R, EndpointError> {
        let look = |packets: &mut Packets| {
            if packets.is_enabled(self.address) {
                tried(step(packets, self.address))
            } else {
                Some(Err(EndpointError::Disabled))
            }
        };
        self.shared.until(look).await
    }
}

impl Endpoint for ChipideaEndpoint {
    fn info(&self) -> &EndpointInfo {
        &self.info
    }

    async fn wait_enabled(&mut self) {
        self.shared.until(|packets| packets.is_enabled(self.address).then_some(())).await;
    }
}

impl EndpointOut for ChipideaEndpoint {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, EndpointError> {
        self.when_ready(|packets, address| packets.read(address, buf)).await
    }
}

impl EndpointIn for ChipideaEndpoint {
    async fn write(&mut self, buf: &[u8]) -> Result<(), EndpointError> {
        self.when_ready(|packets, address| packets.write(address, buf)).await
    }
}

/// Endpoint 0.
pub struct ChipideaControl {
    shared: Arc<Shared>,
    max_packet_size: u16,
}

impl ControlPipe for ChipideaControl {
    fn max_packet_size(&self) -> usize {
        self.max_packet_size.into()
    }

    async fn setup(&mut self) -> [u8; 8] {
        self.shared.until(|packets| packets.take_setup().map(usb::SetupPacket::to_bytes)).await
    }

    async fn data_out(&mut self, buf: &mut [u8], _first: bool, _last: bool) -> Result<usize, EndpointError> {
        self.shared.control(|packets| packets.read(EP0_OUT, buf)).await
    }

    async fn data_in(&mut self, data: &[u8], _first: bool, last: bool) -> Result<(), EndpointError> {
        self.shared.control(|packets| packets.write(EP0_IN, data)).await?;
        if last {
            // The status stage, for which the SETUP made room.
            self.shared.control(|packets| packets.read(EP0_OUT, &mut [])).await?;
        }
        Ok(())
    }

    async fn accept(&mut self) {
        let accepted = self.shared.control(|packets| packets.write(EP0_IN, &[])).await;
        if accepted.is_ok() {
            let sent =
                |packets: &mut Packets| if packets.is_sending(EP0_IN) { Err(PacketError::WouldBlock) } else { Ok(()) };
            // If the host does not come for it, the next SETUP ends the wait.
            let _ = self.shared.control(sent).await;
        }
    }

    async fn reject(&mut self) {
        self.shared.packets.lock().set_stalled(EP0_OUT, true);
    }

    async fn accept_set_address(&mut self, addr: u8) {
        self.shared.packets.lock().set_address_in_advance(addr);
        self.accept().await;
    }
}

macro_rules! opaque {
    ($($name:ident)*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })*
    };
}

opaque!(ChipideaEmbassy ChipideaEmbassyBus ChipideaEndpoint ChipideaControl);

/// What a stack hears of an attempt; `None` if it is to try again later.
fn tried<R>(result: Result<R, PacketError>) -> Option<Result<R, EndpointError>> {
    match result {
        Ok(done) => Some(Ok(done)),
        Err(PacketError::WouldBlock) => None,
        Err(PacketError::Overflow { .. }) => Some(Err(EndpointError::BufferOverflow)),
        Err(PacketError::NoEndpoint(_) | PacketError::Engine(_)) => Some(Err(EndpointError::Disabled)),
    }
}

fn own_address(address: StackAddress) -> EndpointAddress {
    EndpointAddress::from_byte(address.into())
}
