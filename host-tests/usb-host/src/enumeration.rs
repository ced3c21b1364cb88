//! From a connection to an addressed device, with Linux's tries and times (core/hub.c, `hub_port_init`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use usb::ch9::{DescriptorType, DeviceDescriptor, EndpointAddress, SetupPacket, Speed};
use usb::urb::UrbError;
use zerocopy::FromBytes;

use crate::address::set_address;
use crate::bus::{Bus, CONTROL_TIMEOUT};
use crate::error::HubError;

/// PORT_INIT_TRIES.
pub(crate) const PORT_INIT_TRIES: u32 = 4;
const PORT_RESET_TRIES: u32 = 5;
const SET_ADDRESS_TRIES: u32 = 2;
const GET_DESCRIPTOR_TRIES: u32 = 2;
const GET_MAXPACKET0_TRIES: u32 = 3;

const DEBOUNCE_TIMEOUT: Duration = Duration::from_millis(2000);
const DEBOUNCE_STEP: Duration = Duration::from_millis(25);
const DEBOUNCE_STABLE: Duration = Duration::from_millis(100);

const SHORT_RESET: Duration = Duration::from_millis(10);
const ROOT_RESET: Duration = Duration::from_millis(60);
const LONG_RESET: Duration = Duration::from_millis(200);
const RESET_TIMEOUT: Duration = Duration::from_millis(800);
/// Reset recovery, 10 ms by USB 2.0 §7.1.7.5 and 40 more.
const RESET_RECOVERY: Duration = Duration::from_millis(10 + 40);

/// The first descriptor read of the new scheme (GET_DESCRIPTOR_BUFSIZE).
const NEW_SCHEME_LENGTH: u16 = 64;
const OLD_SCHEME_LENGTH: u16 = 8;

/// A device that has its address.
pub(crate) struct Addressed {
    pub(crate) speed: Speed,
    pub(crate) descriptor: DeviceDescriptor,
}

/// What is already known of a device that is reset (`usb_reset_and_verify_device`).
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) speed: Speed,
    pub(crate) max_packet0: u8,
}

/// `hub_port_debounce_be_stable`: whether something is connected once that has not changed for 100 ms; `None` after two
/// seconds without a rest.
pub(crate) async fn debounce(bus: &Bus) -> Option<bool> {
    let mut total = Duration::ZERO;
    let mut stable = Duration::ZERO;
    let mut last = None;
    loop {
        let changed = bus.controller.take_changes().connection;
        let connected = bus.controller.port_status().connected;
        if !changed && last == Some(connected) {
            stable += DEBOUNCE_STEP;
            if stable >= DEBOUNCE_STABLE {
                return Some(connected);
            }
        } else {
            stable = Duration::ZERO;
            last = Some(connected);
        }
        if total >= DEBOUNCE_TIMEOUT {
            return None;
        }
        sleep(DEBOUNCE_STEP).await;
        total += DEBOUNCE_STEP;
    }
}

/// `hub_port_reset`: resets until the port is enabled, five times at most.
async fn reset(bus: &Bus, mut delay: Duration) -> Result<Speed, HubError> {
    for attempt in 1..=PORT_RESET_TRIES {
        let result = wait_reset(bus, delay).await;
        match result {
            Ok(speed) => {
                sleep(RESET_RECOVERY).await;
                return Ok(speed);
            }
            Err(HubError::NotConnected) => return result,
            Err(HubError::Busy) if attempt == PORT_RESET_TRIES => return result,
            Err(_) => delay = LONG_RESET,
        }
    }
    bus.log_port("Cannot enable. Maybe the USB cable is bad?");
    Err(HubError::Again)
}

/// `hub_port_wait_reset`: the reset itself, and up to 800 ms until the device shows itself again.
async fn wait_reset(bus: &Bus, mut delay: Duration) -> Result<Speed, HubError> {
    let speed = bus.controller.reset_port(bus.config.max_speed);
    bus.kick();
    let mut waited = Duration::ZERO;
    loop {
        sleep(delay).await;
        if bus.controller.port_status().connected {
            break;
        }
        if waited >= 2 * SHORT_RESET {
            delay = LONG_RESET;
        }
        waited += delay;
        if waited >= RESET_TIMEOUT {
            return Err(HubError::NotConnected);
        }
    }
    if bus.controller.take_changes().connection {
        return Err(HubError::Again);
    }
    bus.controller.port_status().enabled.and(speed).ok_or(HubError::Busy)
}

/// `use_new_scheme`: the new scheme for the larger half of the attempts.
const fn is_new_scheme(attempt: u32) -> bool {
    attempt < PORT_INIT_TRIES.div_ceil(2)
}

/// `hub_port_init`: resets the device, gives it the address `number` and reads its device descriptor. Disables the port
/// when that fails.
pub(crate) async fn init(
    bus: &Arc<Bus>,
    number: u8,
    attempt: u32,
    known: Option<Known>,
) -> Result<Addressed, HubError> {
    let result = try_init(bus, number, attempt, known).await;
    if result.is_err() {
        bus.controller.disable_port();
        bus.kick();
    }
    result
}

async fn try_init(bus: &Arc<Bus>, number: u8, attempt: u32, known: Option<Known>) -> Result<Addressed, HubError> {
    let delay = match known {
        Some(Known { speed: Speed::Low, .. }) => LONG_RESET,
        _ if bus.config.port.on_root_hub() => ROOT_RESET,
        _ => SHORT_RESET,
    };
    let speed = reset(bus, delay).await?;
    if known.is_some_and(|known| known.speed != speed) {
        return Err(UrbError::NoDevice.into());
    }
    bus.log_device(format_args!(
        "{} {speed} USB device number {number} using {}",
        if known.is_some() { "reset" } else { "new" },
        bus.config.hcd
    ));
    let guess = match known {
        Some(known) => u16::from(known.max_packet0),
        None if speed == Speed::Low => 8,
        None => 64,
    };
    let port = Port { bus, number, speed, delay, known, guess };
    let max_packet0 = if is_new_scheme(attempt) { port.new_scheme().await? } else { port.old_scheme().await? };
    port.check_max_packet0(max_packet0)?;

    let bytes = bus
        .get_descriptor(number, DescriptorType::Device, 0, size_of::<DeviceDescriptor>() as u16)
        .await
        .and_then(|bytes| DeviceDescriptor::read_from_bytes(&bytes).map_err(|_| UrbError::MessageSize.into()));
    let descriptor = bytes.inspect_err(|error| {
        if !error.is_gone() {
            bus.log_device(format_args!("device descriptor read/all, error {}", error.errno()));
        }
    })?;
    if descriptor.bcd_usb.get() >= 0x0201 {
        read_bos(bus, number).await;
    }
    Ok(Addressed { speed, descriptor })
}

/// The port during `hub_port_init`.
struct Port<'a> {
    bus: &'a Arc<Bus>,
    number: u8,
    speed: Speed,
    delay: Duration,
    known: Option<Known>,
    /// The packet size of endpoint 0 until the device has told it.
    guess: u16,
}

impl Port<'_> {
    /// GET_DESCRIPTOR at address 0, reset, SET_ADDRESS.
    async fn new_scheme(&self) -> Result<u8, HubError> {
        let mut last = HubError::Urb(UrbError::Protocol);
        for retry in 0..GET_DESCRIPTOR_TRIES {
            let max_packet0 = self.max_packet0(0, NEW_SCHEME_LENGTH, retry == 0).await;
            if let Ok(max_packet0) = max_packet0 {
                self.check_unchanged(max_packet0)?;
            }
            if reset(self.bus, self.delay).await? != self.speed {
                return Err(UrbError::NoDevice.into());
            }
            match max_packet0 {
                Ok(max_packet0) => {
                    self.set_address().await?;
                    return Ok(max_packet0);
                }
                Err(error) => {
                    self.tell_read(NEW_SCHEME_LENGTH, error);
                    last = error;
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(last)
    }

    /// SET_ADDRESS, then GET_DESCRIPTOR.
    async fn old_scheme(&self) -> Result<u8, HubError> {
        let mut last = HubError::Urb(UrbError::Protocol);
        for retry in 0..GET_DESCRIPTOR_TRIES {
            // A device that has its address keeps it.
            if retry == 0 {
                self.set_address().await?;
            } else {
                sleep(Duration::from_millis(10)).await;
            }
            match self.max_packet0(self.number, OLD_SCHEME_LENGTH, retry == 0).await {
                Ok(max_packet0) => {
                    self.check_unchanged(max_packet0)?;
                    return Ok(max_packet0);
                }
                Err(error) => {
                    self.tell_read(OLD_SCHEME_LENGTH, error);
                    last = error;
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(last)
    }

    fn tell_read(&self, length: u16, error: HubError) {
        if !error.is_gone() {
            self.bus.log_device(format_args!("device descriptor read/{length}, error {}", error.errno()));
        }
    }

    /// `get_bMaxPacketSize0`: three tries; above full speed the first one ends early at -110, as some devices need a
    /// second reset.
    async fn max_packet0(&self, address: u8, length: u16, first: bool) -> Result<u8, HubError> {
        self.bus.controller.enable_endpoint(address, EndpointAddress::out(0), self.guess);
        let setup = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, length);
        let mut last = HubError::Urb(UrbError::Protocol);
        for _ in 0..GET_MAXPACKET0_TRIES {
            let room = vec![0; usize::from(length)];
            let done = self.bus.control(address, setup, room, CONTROL_TIMEOUT).await;
            // Judged by what came, also when the transfer failed.
            if let (Some(&kind), Some(&max_packet0)) = (done.buffer.get(1), done.buffer.get(7))
                && kind == DescriptorType::Device.0
                && matches!(max_packet0, 8 | 16 | 32 | 64 | 9)
            {
                return Ok(max_packet0);
            }
            last = done.status.err().unwrap_or(UrbError::Protocol).into();
            if last == HubError::Urb(UrbError::TimedOut) && first && self.speed > Speed::Full {
                break;
            }
        }
        Err(last)
    }

    fn check_unchanged(&self, max_packet0: u8) -> Result<(), HubError> {
        if self.known.is_some_and(|known| known.max_packet0 != max_packet0) {
            self.bus.log_device("device reset changed ep0 maxpacket size!");
            return Err(UrbError::NoDevice.into());
        }
        Ok(())
    }

    /// `hub_set_address`, two tries with 200 ms after each, and 10 ms for the device to settle.
    async fn set_address(&self) -> Result<(), HubError> {
        let mut result = Ok(());
        for _ in 0..SET_ADDRESS_TRIES {
            self.bus.controller.enable_endpoint(0, EndpointAddress::out(0), self.guess);
            result = set_address(self.bus, self.number).await;
            if result.is_ok() {
                break;
            }
            sleep(Duration::from_millis(200)).await;
        }
        if let Err(error) = result {
            if !error.is_gone() {
                let number = self.number;
                self.bus.log_device(format_args!("device not accepting address {number}, error {}", error.errno()));
            }
            return Err(error);
        }
        self.bus.controller.enable_endpoint(self.number, EndpointAddress::out(0), self.guess);
        sleep(Duration::from_millis(10)).await;
        Ok(())
    }

    /// Takes the device's packet size for endpoint 0, if it may have that one.
    fn check_max_packet0(&self, max_packet0: u8) -> Result<(), HubError> {
        let size = u16::from(max_packet0);
        if size != self.guess {
            if self.speed == Speed::Low || !matches!(size, 8 | 16 | 32 | 64) {
                self.bus.log_device(format_args!("Invalid ep0 maxpacket: {max_packet0}"));
                return Err(UrbError::MessageSize.into());
            }
            if self.speed == Speed::High {
                self.bus.log_device(format_args!("Using ep0 maxpacket: {max_packet0}"));
            }
        }
        self.bus.controller.enable_endpoint(self.number, EndpointAddress::out(0), size);
        Ok(())
    }
}

/// `usb_get_bos_descriptor`: its failure is told and changes nothing.
async fn read_bos(bus: &Arc<Bus>, address: u8) {
    /// Binary device object store (USB 3.2 §9.6.2).
    const BOS: DescriptorType = DescriptorType(15);
    const HEADER: u16 = 5;
    let header = bus.get_descriptor(address, BOS, 0, HEADER).await.unwrap_or_default();
    let &[length, _, low, high, _] = header.as_slice() else {
        bus.log_device("unable to get BOS descriptor or descriptor too short");
        return;
    };
    if u16::from(length) < HEADER {
        bus.log_device("unable to get BOS descriptor or descriptor too short");
        return;
    }
    let total = u16::from_le_bytes([low, high]);
    if total >= length.into()
        && !matches!(bus.get_descriptor(address, BOS, 0, total).await, Ok(bytes) if bytes.len() == usize::from(total))
    {
        bus.log_device("unable to get BOS descriptor set");
    }
}
