//! An enumerated device, for drivers and scenarios.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use usb::ch9::{DeviceDescriptor, Direction, EndpointAddress, Feature, Recipient, Request, SetupPacket, Speed};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use zerocopy::IntoBytes;

use crate::bus::{Bus, CONTROL_TIMEOUT, UrbTransfer};
use crate::config::HostConfig;
use crate::configuration::{AltSetting, Configuration, is_usable};
use crate::controller::{Cancel, Completion, HostController, UrbId};
use crate::description::Strings;
use crate::enumeration::{self, Known, PORT_INIT_TRIES};
use crate::error::HubError;
use crate::strings::{Language, read_string};

/// The longest read in bytes: what a length in Linux's `struct urb` could say, halved.
const MOST_LENGTH: usize = 1 << 30;

/// A device behind the host's port. Clones are the same device; once it is unplugged, everything ends with -19.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    bus: Arc<Bus>,
    number: u8,
    speed: Speed,
    descriptor: DeviceDescriptor,
    configurations: Vec<Configuration>,
    strings: Strings,
    language: Language,
    selected: Mutex<Selected>,
    gone: watch::Sender<bool>,
    /// A reset found that the device must be enumerated anew.
    lost: std::sync::atomic::AtomicBool,
}

/// The configuration in use and its interfaces' alternate settings.
#[derive(Default)]
struct Selected {
    value: Option<u8>,
    /// (interface, alternate setting)
    alternates: Vec<(u8, u8)>,
}

/// What describes a device, once it is read.
pub(crate) struct Description {
    pub(crate) speed: Speed,
    pub(crate) descriptor: DeviceDescriptor,
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) strings: Strings,
    pub(crate) language: Language,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { number, speed, descriptor, .. } = &*self.0;
        write!(f, "Device({number}, {speed}, {:04x}:{:04x})", descriptor.vendor, descriptor.product)
    }
}

impl Device {
    pub(crate) fn new(bus: Arc<Bus>, number: u8, description: Description) -> Self {
        let Description { speed, descriptor, configurations, strings, language } = description;
        Self(Arc::new(Inner {
            bus,
            number,
            speed,
            descriptor,
            configurations,
            strings,
            language,
            selected: Mutex::default(),
            gone: watch::Sender::new(false),
            lost: false.into(),
        }))
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.0.bus
    }

    /// The host's names and the port.
    #[must_use]
    pub fn host_config(&self) -> &HostConfig {
        &self.0.bus.config
    }

    /// The controller below.
    #[must_use]
    pub fn controller(&self) -> &Arc<HostController> {
        &self.0.bus.controller
    }

    /// Device number and address.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.0.number
    }

    /// Speed.
    #[must_use]
    pub fn speed(&self) -> Speed {
        self.0.speed
    }

    /// The device descriptor.
    #[must_use]
    pub fn descriptor(&self) -> &DeviceDescriptor {
        &self.0.descriptor
    }

    /// The device descriptor's 18 bytes.
    #[must_use]
    pub fn raw_descriptor(&self) -> &[u8] {
        self.0.descriptor.as_bytes()
    }

    /// All configurations, in the order of their indexes.
    #[must_use]
    pub fn configurations(&self) -> &[Configuration] {
        &self.0.configurations
    }

    /// The strings of the device descriptor.
    #[must_use]
    pub fn strings(&self) -> &Strings {
        &self.0.strings
    }

    /// The configuration in use.
    #[must_use]
    pub fn active_configuration(&self) -> Option<&Configuration> {
        let value = self.0.selected.lock().value?;
        self.configuration(value)
    }

    /// The alternate setting in use of an interface of the configuration in use.
    #[must_use]
    pub fn active_alternate(&self, interface: u8) -> Option<&AltSetting> {
        let number = self.alternate_number(interface)?;
        self.active_configuration()?.interface(interface)?.alternate(number)
    }

    fn alternate_number(&self, interface: u8) -> Option<u8> {
        let selected = self.0.selected.lock();
        selected.alternates.iter().find(|&&(number, _)| number == interface).map(|&(_, alternate)| alternate)
    }

    fn configuration(&self, value: u8) -> Option<&Configuration> {
        self.0.configurations.iter().find(|configuration| configuration.descriptor.value == value)
    }

    /// Whether it was unplugged, or given up.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        *self.0.gone.borrow()
    }

    /// Waits until it is unplugged.
    pub async fn disconnected(&self) {
        let mut gone = self.0.gone.subscribe();
        // The sender lives as long as the device.
        let _ = gone.wait_for(|&gone| gone).await;
    }

    /// Its URBs end, later ones are refused.
    pub(crate) fn disconnect(&self) {
        self.0.gone.send_replace(true);
        self.0.bus.controller.disable_address(self.0.number);
        self.0.bus.kick();
    }

    /// Whether a reset gave it up; it will be enumerated anew.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.lost.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn give_up(&self) {
        self.0.lost.store(true, std::sync::atomic::Ordering::Relaxed);
        self.0.bus.hub.notify_one();
    }

    fn check_present(&self) -> Result<(), UrbError> {
        if self.is_gone() { Err(UrbError::NoDevice) } else { Ok(()) }
    }

    /// Submits a URB to this device, whatever address it names. Dropping the transfer kills it.
    pub fn submit(&self, mut urb: Urb) -> UrbTransfer {
        urb.address = self.submit_address();
        self.0.bus.submit(urb)
    }

    /// Submits a URB with a callback instead of a future. `done` is called from within this call or from the host's
    /// task; it may submit.
    pub fn submit_with(&self, mut urb: Urb, done: Completion) -> UrbId {
        urb.address = self.submit_address();
        let id = self.0.bus.controller.submit(urb, done);
        self.0.bus.kick();
        id
    }

    /// Takes back a URB of [`Device::submit_with`], which completes within this call unless it is on the wire in another
    /// thread. `false` when it is not queued any more.
    pub fn cancel(&self, id: UrbId, how: Cancel) -> bool {
        let found = self.0.bus.controller.cancel(id, how);
        self.0.bus.kick();
        found
    }

    /// An unplugged device's number may be in use again: its URBs go to an address that no endpoint has.
    fn submit_address(&self) -> u8 {
        const NO_ADDRESS: u8 = 0xff;
        if self.is_gone() { NO_ADDRESS } else { self.0.number }
    }

    /// Ends an endpoint's URBs with -108.
    pub fn flush(&self, endpoint: EndpointAddress) {
        self.0.bus.controller.flush_endpoint(self.submit_address(), endpoint);
        self.0.bus.kick();
    }

    /// A control transfer whose data comes from the device, at most `setup`'s length.
    ///
    /// # Errors
    /// -110 after `timeout`, -32 when the device refuses, -19 when it is gone; see [`UrbError`].
    pub async fn control_in(&self, setup: SetupPacket, timeout: Duration) -> Result<Vec<u8>, UrbError> {
        self.check_present()?;
        self.0.bus.control_in(self.0.number, setup, timeout).await
    }

    /// A control transfer with data to the device, or without data.
    ///
    /// # Errors
    /// As [`Device::control_in`]; -22 when `data` has another length than `setup` says.
    pub async fn control_out(&self, setup: SetupPacket, data: &[u8], timeout: Duration) -> Result<(), UrbError> {
        self.check_present()?;
        self.0.bus.control(self.0.number, setup, data.to_vec(), timeout).await.status
    }

    /// A bulk transfer from endpoint `number`: up to `length` bytes, until a short packet.
    ///
    /// # Errors
    /// See [`UrbError`]; -22 beyond 1 GiB. What came before an error is lost: use [`Device::submit`] to keep it.
    pub async fn bulk_in(&self, number: u8, length: usize, timeout: Duration) -> Result<Vec<u8>, UrbError> {
        self.read(EndpointAddress::r#in(number), Transfer::Bulk, length, timeout).await
    }

    /// An interrupt transfer from endpoint `number`.
    ///
    /// # Errors
    /// See [`UrbError`].
    pub async fn interrupt_in(&self, number: u8, length: usize, timeout: Duration) -> Result<Vec<u8>, UrbError> {
        self.read(EndpointAddress::r#in(number), Transfer::Interrupt, length, timeout).await
    }

    /// A bulk transfer to endpoint `number`; the buffer comes back. Without an empty packet at its end.
    ///
    /// # Errors
    /// See [`UrbError`].
    pub async fn bulk_out(&self, number: u8, data: Vec<u8>, timeout: Duration) -> Result<Vec<u8>, UrbError> {
        let done = self.transfer(EndpointAddress::out(number), Transfer::Bulk, data, timeout).await?;
        done.status.map(|()| done.buffer)
    }

    async fn read(
        &self,
        endpoint: EndpointAddress,
        transfer: Transfer,
        length: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, UrbError> {
        if length > MOST_LENGTH {
            return Err(UrbError::Invalid);
        }
        let mut done = self.transfer(endpoint, transfer, vec![0; length], timeout).await?;
        done.status?;
        done.buffer.truncate(done.actual);
        Ok(done.buffer)
    }

    async fn transfer(
        &self,
        endpoint: EndpointAddress,
        transfer: Transfer,
        buffer: Vec<u8>,
        timeout: Duration,
    ) -> Result<UrbDone, UrbError> {
        self.check_present()?;
        let address = self.0.number;
        let urb = Urb { address, endpoint, transfer, buffer, zero_packet: false, short_not_ok: false };
        Ok(self.0.bus.wait(urb, timeout).await)
    }

    /// The text of string `index` in the device's first language (`usb_string`).
    pub async fn string(&self, index: u8) -> Option<String> {
        self.check_present().ok()?;
        read_string(&self.0.bus, self.0.number, &self.0.language, index).await
    }

    /// CLEAR_FEATURE(ENDPOINT_HALT), then DATA0 (`usb_clear_halt`).
    ///
    /// # Errors
    /// Those of the control transfer; the toggle stays then.
    pub async fn clear_halt(&self, endpoint: EndpointAddress) -> Result<(), UrbError> {
        let request = Request::ClearFeature.0;
        let setup =
            SetupPacket::new(Recipient::Endpoint.0, request, Feature::EndpointHalt.0, endpoint.to_byte().into(), 0);
        self.control_out(setup, &[], CONTROL_TIMEOUT).await?;
        self.0.bus.controller.reset_toggle(self.0.number, endpoint);
        Ok(())
    }

    /// SET_CONFIGURATION (`usb_set_configuration`): all endpoints' URBs end with -108, toggles are DATA0, alternate
    /// settings 0. The value 0 leaves the device without a configuration.
    ///
    /// # Errors
    /// -22 when no configuration has that value, else those of the control transfer.
    pub async fn set_configuration(&self, value: u8) -> Result<(), UrbError> {
        self.check_present()?;
        let configuration = self.configuration(value);
        if configuration.is_none() && value != 0 {
            return Err(UrbError::Invalid);
        }
        self.disable_endpoints();
        *self.0.selected.lock() = Selected::default();
        if let Some(configuration) = configuration {
            let alternates = configuration.interfaces.iter().filter_map(|interface| interface.first_alternate());
            let alternates = alternates.map(|alternate| (alternate.descriptor.number, alternate.descriptor.alternate));
            *self.0.selected.lock() = Selected { value: Some(value), alternates: alternates.collect() };
            self.enable_endpoints();
        }
        let setup = SetupPacket::new(0, Request::SetConfiguration.0, value.into(), 0, 0);
        if let Err(error) = self.control_out(setup, &[], CONTROL_TIMEOUT).await {
            self.disable_endpoints();
            *self.0.selected.lock() = Selected::default();
            return Err(error);
        }
        if let Some(configuration) = configuration {
            self.string(configuration.descriptor.string_index).await;
            for interface in &configuration.interfaces {
                if let Some(alternate) = interface.first_alternate() {
                    self.string(alternate.descriptor.string_index).await;
                }
            }
        }
        Ok(())
    }

    /// SET_INTERFACE (`usb_set_interface`): the interface's URBs end with -108, its endpoints' toggles are DATA0.
    ///
    /// # Errors
    /// -22 when there is no such interface or setting, else those of the control transfer; the old setting stays.
    pub async fn set_interface(&self, interface: u8, alternate: u8) -> Result<(), UrbError> {
        self.check_present()?;
        let known = self.active_configuration().and_then(|configuration| configuration.interface(interface));
        let known = known.ok_or(UrbError::Invalid)?;
        let new = known.alternate(alternate).ok_or(UrbError::Invalid)?;
        let old = self.active_alternate(interface);
        for endpoint in old.iter().flat_map(|old| &old.endpoints) {
            self.0.bus.controller.flush_endpoint(self.0.number, endpoint.address());
        }
        self.0.bus.kick();
        let recipient = Recipient::Interface.0;
        let setup = SetupPacket::new(recipient, Request::SetInterface.0, alternate.into(), interface.into(), 0);
        let result = self.control_out(setup, &[], CONTROL_TIMEOUT).await;
        // A device with one setting may refuse the request (USB 2.0 §9.4.10): the halts are cleared instead.
        let by_hand = result == Err(UrbError::Stall) && known.alternates.len() == 1;
        if !by_hand {
            result?;
        }
        for endpoint in old.iter().flat_map(|old| &old.endpoints) {
            self.0.bus.controller.disable_endpoint(self.0.number, endpoint.address());
        }
        self.0.bus.kick();
        for entry in self.0.selected.lock().alternates.iter_mut().filter(|entry| entry.0 == interface) {
            entry.1 = alternate;
        }
        if by_hand {
            for endpoint in &new.endpoints {
                // As in Linux, a device that refuses this too is taken as it is.
                let _ = self.clear_halt(endpoint.address()).await;
            }
        }
        self.enable_alternate(new);
        if old != Some(new) {
            self.string(new.descriptor.string_index).await;
        }
        Ok(())
    }

    /// Resets the port, addresses the device again and restores configuration and alternate settings
    /// (`usb_reset_device`). URBs end with -108.
    ///
    /// # Errors
    /// -19 when that fails or the device describes itself differently: it is disconnected then and enumerated anew.
    pub async fn reset(&self) -> Result<(), HubError> {
        self.check_present()?;
        let result = {
            let _port = self.0.bus.port_lock.lock().await;
            self.reset_and_verify().await
        };
        if result.is_err() {
            self.give_up();
        }
        result.map_err(|_| UrbError::NoDevice.into())
    }

    async fn reset_and_verify(&self) -> Result<(), HubError> {
        let Inner { bus, number, speed, descriptor, .. } = &*self.0;
        let known = Known { speed: *speed, max_packet0: descriptor.max_packet_size0 };
        let mut result = Err(HubError::NotConnected);
        for attempt in 0..PORT_INIT_TRIES {
            result = enumeration::init(bus, *number, attempt, Some(known)).await.map(|found| found.descriptor);
            if matches!(result, Ok(_) | Err(HubError::NotConnected | HubError::Urb(UrbError::NoDevice))) {
                break;
            }
        }
        if result? != *descriptor || !self.describes_itself_the_same().await {
            bus.log_device("device firmware changed");
            return Err(UrbError::NoDevice.into());
        }
        self.restore().await
    }

    /// `descriptors_changed`: the serial number and the configurations, read again.
    async fn describes_itself_the_same(&self) -> bool {
        for (index, configuration) in self.0.configurations.iter().enumerate() {
            let length = configuration.raw.len() as u16;
            let kind = usb::ch9::DescriptorType::Configuration;
            let again = self.0.bus.get_descriptor(self.0.number, kind, index as u8, length).await;
            if !again.is_ok_and(|again| again == configuration.raw) {
                return false;
            }
        }
        self.0.strings.serial.is_none() || self.string(self.0.descriptor.serial_index).await == self.0.strings.serial
    }

    async fn restore(&self) -> Result<(), HubError> {
        let Some(value) = self.0.selected.lock().value else { return Ok(()) };
        let setup = SetupPacket::new(0, Request::SetConfiguration.0, value.into(), 0, 0);
        self.control_out(setup, &[], CONTROL_TIMEOUT).await.inspect_err(|error| {
            let number = error.errno();
            self.0.bus.log_device(format_args!("can't restore configuration #{value} (error={number})"));
        })?;
        self.enable_endpoints();
        let alternates = self.0.selected.lock().alternates.clone();
        for (interface, alternate) in alternates.into_iter().filter(|&(_, alternate)| alternate != 0) {
            self.set_interface(interface, alternate).await.inspect_err(|error| {
                let number = error.errno();
                self.0.bus.log_device(format_args!(
                    "failed to restore interface {interface} altsetting {alternate} (error={number})"
                ));
            })?;
        }
        Ok(())
    }

    fn disable_endpoints(&self) {
        for alternate in self.alternates() {
            for endpoint in &alternate.endpoints {
                self.0.bus.controller.disable_endpoint(self.0.number, endpoint.address());
            }
        }
        self.0.bus.kick();
    }

    fn enable_endpoints(&self) {
        for alternate in self.alternates() {
            self.enable_alternate(alternate);
        }
    }

    fn enable_alternate(&self, alternate: &AltSetting) {
        for endpoint in alternate.endpoints.iter().filter(|endpoint| is_usable(&endpoint.descriptor)) {
            let (address, max_packet) = (endpoint.address(), endpoint.descriptor.max_packet());
            self.0.bus.controller.enable_endpoint(self.0.number, address, max_packet);
        }
    }

    /// The alternate settings in use.
    fn alternates(&self) -> Vec<&AltSetting> {
        let numbers: Vec<u8> = self.0.selected.lock().alternates.iter().map(|&(number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.active_alternate(number)).collect()
    }

    /// Whether it may be told to wake the host: `bmAttributes` bit 5.
    pub(crate) fn can_wake(&self) -> bool {
        self.active_configuration().is_some_and(|configuration| configuration.descriptor.attributes & 0x20 != 0)
    }

    /// DEVICE_REMOTE_WAKEUP on or off.
    pub(crate) async fn set_remote_wakeup(&self, on: bool) -> Result<(), UrbError> {
        let request = if on { Request::SetFeature } else { Request::ClearFeature };
        let setup = SetupPacket::new(Recipient::Device.0, request.0, Feature::DeviceRemoteWakeup.0, 0, 0);
        self.control_out(setup, &[], CONTROL_TIMEOUT).await
    }

    /// GET_STATUS(device): bit 0 self-powered, bit 1 remote wakeup (USB 2.0 figure 9-4).
    ///
    /// # Errors
    /// Those of the control transfer; -71 when it is not two bytes.
    pub async fn status(&self) -> Result<u16, UrbError> {
        let setup = SetupPacket::new(0x80, Request::GetStatus.0, 0, 0, 2);
        debug_assert_eq!(setup.direction(), Direction::In);
        let bytes = self.control_in(setup, CONTROL_TIMEOUT).await?;
        <[u8; 2]>::try_from(bytes).map(u16::from_le_bytes).map_err(|_| UrbError::Protocol)
    }
}
