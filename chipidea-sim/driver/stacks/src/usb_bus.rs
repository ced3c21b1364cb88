//! `usb_device::bus::UsbBus` on the packets of the controller.

use std::fmt;
use std::sync::Arc;

use bus::Mmio;
use chipidea_driver::{Config, EngineError};
use parking_lot::Mutex;
use pool::DmaApi;
use usb::{Direction, EndpointAddress, Speed, TransferType};
use usb_device::bus::{PollResult, UsbBus};
use usb_device::endpoint::{EndpointAddress as StackAddress, EndpointType};
use usb_device::{UsbDirection, UsbError};

use crate::error::{AllocateError, PacketError};
use crate::firmware::Firmware;
use crate::packets::{Packets, Power};

/// The controller as `usb-device` sees it. Clones are the same controller; the last one to go gives everything back.
///
/// Poll the stack while the controller's interrupt is asserted, and on while [`ChipideaBus::has_news`].
#[derive(Clone)]
pub struct ChipideaBus(Arc<Mutex<Packets>>);

impl Firmware {
    /// The stack that was built on `bus`. `poll` polls it once, with its classes.
    pub fn new(bus: &ChipideaBus, poll: impl FnMut() + Send + 'static) -> Self {
        Self::on(Arc::clone(&bus.0), poll, Packets::has_news)
    }
}

impl ChipideaBus {
    /// Finds the controller and allocates its queue heads. It runs when the stack is built
    /// ([`usb_device::device::UsbDeviceBuilder::build`]).
    ///
    /// A class of full speed, with bulk packets of 64 bytes, wants [`Config::max_speed`] to be [`Speed::Full`].
    ///
    /// # Errors
    /// The controller cannot be a device, or there is no memory. Nothing stays allocated then.
    pub fn probe(mmio: Arc<dyn Mmio>, dma: DmaApi, config: Config) -> Result<Self, EngineError> {
        Ok(Self(Arc::new(Mutex::new(Packets::probe(mmio, dma, config)?))))
    }

    /// Whether something happened that the last polls did not tell: the stack is to be polled again, interrupt or not.
    /// A packet that a class leaves unread is no news.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.0.lock().has_news()
    }

    /// The bus speed; it holds after a bus reset.
    #[must_use]
    pub fn speed(&self) -> Speed {
        self.0.lock().speed()
    }

    /// Signals resume if the bus is suspended (PORTSC.FPR). Returns whether it was. The caller asks its stack first
    /// whether the host allowed it.
    pub fn remote_wakeup(&self) -> bool {
        self.0.lock().wake_up()
    }

    /// What went wrong since the last call, in lines. At most 64 wait.
    #[must_use]
    pub fn take_log(&self) -> Vec<String> {
        self.0.lock().take_log()
    }

    /// Stops the controller and gives every queue head, descriptor, buffer and pool back. The stack finds a dead bus
    /// from now on. A second call does nothing.
    ///
    /// # Errors
    /// The first thing that could not be given back; the rest was.
    pub fn shutdown(&self) -> Result<(), EngineError> {
        self.0.lock().shutdown()
    }
}

impl UsbBus for ChipideaBus {
    // DEVICEADDR.USBADRA: the controller takes the address when the host acknowledges the status stage.
    const QUIRK_SET_ADDRESS_BEFORE_STATUS: bool = true;

    fn alloc_ep(
        &mut self,
        ep_dir: UsbDirection,
        ep_addr: Option<StackAddress>,
        ep_type: EndpointType,
        max_packet_size: u16,
        _interval: u8,
    ) -> usb_device::Result<StackAddress> {
        let direction = if ep_dir == UsbDirection::In { Direction::In } else { Direction::Out };
        let transfer_type = match ep_type {
            EndpointType::Control => TransferType::Control,
            EndpointType::Isochronous { .. } => TransferType::Isochronous,
            EndpointType::Bulk => TransferType::Bulk,
            EndpointType::Interrupt => TransferType::Interrupt,
        };
        let number = match ep_addr.map(own_address) {
            Some(Some(address)) if address.direction == direction => Some(address.number),
            Some(_) => return Err(UsbError::InvalidEndpoint),
            None => None,
        };
        let address = self.0.lock().allocate(direction, number, transfer_type, max_packet_size)?;
        Ok(address.to_byte().into())
    }

    fn enable(&mut self) {
        let mut packets = self.0.lock();
        if let Err(error) = packets.start() {
            packets.warn(format!("start: {error}"));
        }
    }

    fn reset(&self) {
        self.0.lock().enable_endpoints();
    }

    fn set_device_address(&self, addr: u8) {
        self.0.lock().set_address_in_advance(addr);
    }

    fn write(&self, ep_addr: StackAddress, buf: &[u8]) -> usb_device::Result<usize> {
        let address = own_address(ep_addr).ok_or(UsbError::InvalidEndpoint)?;
        self.0.lock().write(address, buf)?;
        Ok(buf.len())
    }

    fn read(&self, ep_addr: StackAddress, buf: &mut [u8]) -> usb_device::Result<usize> {
        let address = own_address(ep_addr).ok_or(UsbError::InvalidEndpoint)?;
        let mut packets = self.0.lock();
        if address == EndpointAddress::out(0) && packets.has_setup() {
            let room = buf.first_chunk_mut().ok_or(UsbError::BufferOverflow)?;
            let setup = packets.take_setup().ok_or(UsbError::WouldBlock)?;
            *room = setup.to_bytes();
            return Ok(room.len());
        }
        Ok(packets.read(address, buf)?)
    }

    fn set_stalled(&self, ep_addr: StackAddress, stalled: bool) {
        if let Some(address) = own_address(ep_addr) {
            self.0.lock().set_stalled(address, stalled);
        }
    }

    fn is_stalled(&self, ep_addr: StackAddress) -> bool {
        own_address(ep_addr).is_some_and(|address| self.0.lock().is_stalled(address))
    }

    fn suspend(&self) {
        // The controller hears the bus resume as it is. Its PHY is not put to sleep.
    }

    fn resume(&self) {}

    fn poll(&self) -> PollResult {
        let mut packets = self.0.lock();
        packets.service();
        if packets.take_reset() {
            return PollResult::Reset;
        }
        match packets.power() {
            Some(Power::Resumed | Power::Detected) => {
                packets.take_power();
                return PollResult::Resume;
            }
            // What moved before the bus fell idle comes first.
            Some(Power::Suspended | Power::Removed) if !packets.has_packets() => {
                packets.take_power();
                return PollResult::Suspend;
            }
            // A stack takes packets for the end of the suspend.
            None if packets.is_idle() => return PollResult::None,
            _ => {}
        }
        let ready = packets.take_ready();
        if !ready.setup && ready.out == 0 && ready.sent == 0 {
            return PollResult::None;
        }
        PollResult::Data { ep_out: ready.out, ep_in_complete: ready.sent, ep_setup: ready.setup.into() }
    }

    /// Switches the pull-up off and on. Only two register writes lie between: enough for a host that is told of every
    /// change; a real hub wants 2.5 µs (USB 2.0 §7.1.7.3).
    fn force_reset(&self) -> usb_device::Result<()> {
        self.0.lock().reattach();
        Ok(())
    }
}

impl fmt::Debug for ChipideaBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChipideaBus").finish_non_exhaustive()
    }
}

impl From<AllocateError> for UsbError {
    fn from(error: AllocateError) -> Self {
        match error {
            AllocateError::Started => Self::InvalidState,
            AllocateError::Taken(_) => Self::InvalidEndpoint,
            AllocateError::Exhausted { .. } => Self::EndpointOverflow,
            AllocateError::PacketSize(_) => Self::EndpointMemoryOverflow,
            AllocateError::Control(_) => Self::Unsupported,
        }
    }
}

impl From<PacketError> for UsbError {
    fn from(error: PacketError) -> Self {
        match error {
            PacketError::WouldBlock => Self::WouldBlock,
            PacketError::Overflow { .. } => Self::BufferOverflow,
            PacketError::NoEndpoint(_) => Self::InvalidEndpoint,
            PacketError::Engine(EngineError::Alloc(_) | EngineError::Page(_)) => Self::EndpointMemoryOverflow,
            PacketError::Engine(_) => Self::InvalidState,
        }
    }
}

/// The endpoint, unless its number has more than four bits.
fn own_address(address: StackAddress) -> Option<EndpointAddress> {
    let byte = u8::from(address);
    (byte & 0x70 == 0).then(|| EndpointAddress::from_byte(byte))
}
