//! The hub: watches its port, takes devices and loses them (core/hub.c, `hub_port_connect`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use usb::ch9::Speed;
use usb::urb::UrbError;

use crate::bus::Bus;
use crate::choice::choose_configuration;
use crate::description::{announce, check_highspeed, read_configurations, read_strings};
use crate::device::{Description, Device};
use crate::enumeration::{Addressed, PORT_INIT_TRIES, debounce, init};
use crate::error::HubError;
use crate::strings::Language;

/// From power on to power good at a hub's port, at least (`hub_power_on_good_delay`).
const POWER_ON_GOOD: Duration = Duration::from_millis(100);

/// How long a hub signals resume downstream (USB 2.0 §7.1.7.7).
const HUB_RESUME: Duration = Duration::from_millis(20);
/// USB_RESUME_TIMEOUT.
const RESUME_TIMEOUT: Duration = Duration::from_millis(40);
/// Resume recovery (USB 2.0 §7.1.7.7), and the time to fall asleep (USB 2.0 §7.1.7.6).
const TEN: Duration = Duration::from_millis(10);

/// Events that wait for their reader; the oldest go first.
const MOST_EVENTS: usize = 1024;

/// What happened at the port.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// A device was enumerated; its configuration was selected, if it has one and took it.
    Enumerated(Device),
    /// A device could not be enumerated, or went meanwhile: the error of each attempt.
    Failed(Vec<HubError>),
    /// The device of that number is gone.
    Disconnected(u8),
}

pub(crate) struct Hub {
    pub(crate) bus: Arc<Bus>,
    pub(crate) device: watch::Sender<Option<Device>>,
    events: Mutex<VecDeque<HostEvent>>,
    pub(crate) event: Notify,
    numbers: Arc<Mutex<DeviceNumbers>>,
    /// A debounce failed (`unreliable_port`).
    unreliable: AtomicBool,
}

/// The bus's device numbers, 1 to 127 (`choose_devnum`).
struct DeviceNumbers {
    taken: u128,
    next: u8,
}

impl DeviceNumbers {
    /// `hubs` are between the host and the port, each with its number.
    fn new(hubs: usize, first: u8) -> Self {
        let taken = (1..=hubs.min(7)).fold(1, |taken, number| taken | 1 << number);
        Self { taken, next: first.clamp(1, 127) }
    }

    fn choose(&mut self) -> Option<u8> {
        let free = |number: &u8| self.taken & (1 << number) == 0;
        let number = (self.next..=127).find(free).or_else(|| (1..=127).find(free))?;
        self.taken |= 1 << number;
        self.next = if number >= 127 { 1 } else { number + 1 };
        Some(number)
    }

    fn release(&mut self, number: u8) {
        self.taken &= !(1 << number);
    }
}

impl Hub {
    pub(crate) fn new(bus: Arc<Bus>) -> Self {
        let numbers = DeviceNumbers::new(bus.config.port.ports.len(), bus.config.first_device_number);
        Self::numbering(bus, Arc::new(Mutex::new(numbers)))
    }

    /// A hub whose devices get their numbers from the same bus as `other`'s.
    pub(crate) fn beside(other: &Self, bus: Arc<Bus>) -> Self {
        Self::numbering(bus, Arc::clone(&other.numbers))
    }

    fn numbering(bus: Arc<Bus>, numbers: Arc<Mutex<DeviceNumbers>>) -> Self {
        Self {
            bus,
            device: watch::Sender::new(None),
            events: Mutex::default(),
            event: Notify::new(),
            numbers,
            unreliable: false.into(),
        }
    }

    pub(crate) fn take_event(&self) -> Option<HostEvent> {
        self.events.lock().pop_front()
    }

    fn tell(&self, event: HostEvent) {
        let mut events = self.events.lock();
        if events.len() == MOST_EVENTS {
            events.pop_front();
        }
        events.push_back(event);
        drop(events);
        self.event.notify_waiters();
    }

    pub(crate) fn current(&self) -> Option<Device> {
        self.device.borrow().clone()
    }

    /// Powers the port and serves it, for ever.
    pub(crate) async fn run(&self) {
        self.bus.controller.set_power(true);
        sleep(POWER_ON_GOOD).await;
        loop {
            let lost = self.current().is_some_and(|device| device.is_lost());
            let changes = self.bus.controller.take_changes();
            if changes.connection || lost {
                self.connect(changes.connection).await;
            } else if changes.remote_wakeup {
                self.wake_up().await;
            } else {
                self.bus.hub.notified().await;
            }
        }
    }

    /// `hub_port_connect`. Without a changed connection there is nothing to debounce.
    async fn connect(&self, changed: bool) {
        self.disconnect();
        if changed {
            match debounce(&self.bus).await {
                Some(true) => {}
                Some(false) => return,
                None => return self.tell_unreliable(),
            }
        } else if !self.bus.controller.port_status().connected {
            return;
        }
        let mut errors = Vec::new();
        for attempt in 0..PORT_INIT_TRIES {
            let Some(number) = self.numbers.lock().choose() else {
                errors.push(HubError::NotConnected);
                break;
            };
            let error = match self.enumerate(number, attempt).await {
                Ok(device) => return self.publish(device).await,
                Err(error) => error,
            };
            self.numbers.lock().release(number);
            errors.push(error);
            if error == HubError::NotConnected {
                break;
            }
            if attempt == (PORT_INIT_TRIES - 1) / 2 {
                self.bus.log_port("attempt power cycle");
                self.bus.controller.set_power(false);
                self.bus.kick();
                sleep(2 * POWER_ON_GOOD).await;
                self.bus.controller.set_power(true);
                sleep(POWER_ON_GOOD).await;
            }
        }
        if !errors.last().is_some_and(|&error| error == HubError::NotConnected || error.is_gone()) {
            self.bus.log_port("unable to enumerate USB device");
        }
        self.disable();
        self.tell(HostEvent::Failed(errors));
    }

    /// Told once.
    fn tell_unreliable(&self) {
        if !self.unreliable.swap(true, Ordering::Relaxed) {
            self.bus.log_port("connect-debounce failed");
        }
    }

    fn disable(&self) {
        self.bus.controller.disable_port();
        self.bus.kick();
    }

    fn disconnect(&self) {
        if let Some(device) = self.device.send_replace(None) {
            let number = device.number();
            self.bus.log_device(format_args!("USB disconnect, device number {number}"));
            device.disconnect();
            self.numbers.lock().release(number);
            self.tell(HostEvent::Disconnected(number));
        }
    }

    /// One attempt: address, descriptors, announcement.
    async fn enumerate(&self, number: u8, attempt: u32) -> Result<Device, HubError> {
        let Addressed { speed, descriptor } = {
            let _port = self.bus.port_lock.lock().await;
            init(&self.bus, number, attempt, None).await?
        };
        if descriptor.bcd_usb.get() >= 0x0200 && speed == Speed::Full {
            check_highspeed(&self.bus, number).await;
        }
        let language = Language::default();
        let configurations = read_configurations(&self.bus, number, &descriptor).await.inspect_err(|error| {
            if !error.is_gone() {
                self.bus.log_device(format_args!("can't read configurations, error {}", error.errno()));
            }
            self.disable();
        })?;
        let strings = read_strings(&self.bus, number, &language, &descriptor).await;
        announce(&self.bus, &descriptor, &strings);
        let description = Description { speed, descriptor, configurations, strings, language };
        Ok(Device::new(Arc::clone(&self.bus), number, description))
    }

    /// `usb_generic_driver_probe`: selects a configuration; a refusal need not be fatal.
    async fn publish(&self, device: Device) {
        let choice = choose_configuration(device.descriptor(), device.configurations());
        let count = device.configurations().len();
        let plural = |count| if count == 1 { "" } else { "s" };
        if choice.rejected > 0 {
            self.bus.log_device(format_args!(
                "rejected {} configuration{} due to insufficient available bus power",
                choice.rejected,
                plural(choice.rejected)
            ));
        }
        if choice.value.is_none() {
            self.bus.log_device(format_args!("no configuration chosen from {count} choice{}", plural(count)));
        }
        if let Some(value) = self.bus.config.configuration.or(choice.value)
            && let Err(error) = device.set_configuration(value).await
            && error != UrbError::NoDevice
        {
            self.bus.log_device(format_args!("can't set config #{value}, error {}", error.errno()));
        }
        self.device.send_replace(Some(device.clone()));
        self.tell(HostEvent::Enumerated(device));
    }

    /// `usb_port_suspend`: with remote wakeup where the device can do it.
    pub(crate) async fn suspend(&self) -> Result<(), HubError> {
        let _port = self.bus.port_lock.lock().await;
        let device = self.current().ok_or(UrbError::NoDevice)?;
        if device.can_wake() {
            device.set_remote_wakeup(true).await?;
        }
        self.bus.controller.suspend_port();
        sleep(TEN).await;
        Ok(())
    }

    /// `usb_port_resume`.
    pub(crate) async fn resume(&self) -> Result<(), HubError> {
        self.signal_resume(RESUME_TIMEOUT).await
    }

    async fn wake_up(&self) {
        // The resume's failure shows at the port.
        let _ = self.signal_resume(HUB_RESUME).await;
    }

    async fn signal_resume(&self, signal: Duration) -> Result<(), HubError> {
        let _port = self.bus.port_lock.lock().await;
        let device = self.current().ok_or(UrbError::NoDevice)?;
        if !self.bus.controller.port_status().suspended {
            return Ok(());
        }
        self.bus.controller.resume_port();
        sleep(signal).await;
        sleep(TEN).await;
        self.bus.controller.finish_resume();
        self.bus.kick();
        let status = device.status().await.inspect_err(|_| device.give_up())?;
        if status & 0b10 != 0 {
            device.set_remote_wakeup(false).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_go_up_and_wrap_over_the_hubs() {
        let mut numbers = DeviceNumbers::new(2, 126);
        assert_eq!(numbers.choose(), Some(126));
        assert_eq!(numbers.choose(), Some(127));
        assert_eq!(numbers.choose(), Some(3));
        numbers.release(126);
        assert_eq!(numbers.choose(), Some(4));
        while numbers.choose().is_some() {}
        numbers.release(126);
        assert_eq!(numbers.choose(), Some(126));
    }
}
