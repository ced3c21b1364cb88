//! What all gadgets have in common: the control requests that no function needs to know (Linux: composite.c).

use std::time::Duration;

use usb::ch9::{DescriptorType, DeviceDescriptor, DeviceQualifier, Recipient, Request};
use usb::gadget::{self, Completion, End, Stall};
use usb::{Direction, EndpointAddress, Gadget, SetupPacket, Speed, Udc};
use zerocopy::IntoBytes;

use crate::configuration::Configuration;
use crate::strings::Strings;

/// The longest data stage, `USB_COMP_EP0_BUFSIZ` of Linux. A longer IN is cut, a longer OUT refused.
pub const EP0_BUFFER: u16 = 4096;

/// `bMaxPacketSize0` at both speeds (USB 2.0 §5.5.3).
pub const EP0_MAX_PACKET: u8 = 64;

/// What a gadget says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device descriptor; `bMaxPacketSize0` and `bNumConfigurations` are filled in.
    pub device: DeviceDescriptor,
    /// Its strings.
    pub strings: Strings,
    /// Its configurations in the order of their indices.
    pub configurations: Vec<Configuration>,
}

/// How a function answers a control request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// IN: this data, cut to `wLength`.
    Data(Vec<u8>),
    /// OUT: the data is wanted; it comes through [`Functions::received`]. Without data (`wLength` 0) it comes as well.
    Receive,
    /// No data stage: done.
    Done,
}

/// The functions of all configurations of a gadget (Linux: `struct usb_function`).
///
/// Calls name the configuration by its value. Only interfaces that the descriptors show are asked for.
pub trait Functions: Send {
    /// Selects an alternate setting; all interfaces get 0 when their configuration is chosen. Requests of an earlier
    /// setting are over.
    ///
    /// # Errors
    /// [`Stall`] if there is no such setting, or the controller refuses an endpoint.
    fn set_alternate(
        &mut self,
        udc: &mut dyn Udc,
        configuration: u8,
        interface: u8,
        alternate: u8,
    ) -> Result<(), Stall>;

    /// The alternate setting of an interface.
    fn alternate(&self, configuration: u8, interface: u8) -> u8;

    /// The configuration is gone: disables every endpoint that is enabled.
    fn disable(&mut self, udc: &mut dyn Udc);

    /// A request that is not the composite core's. `wLength` is at most [`EP0_BUFFER`].
    ///
    /// # Errors
    /// [`Stall`] refuses it.
    fn control(&mut self, udc: &mut dyn Udc, configuration: u8, setup: SetupPacket) -> Result<Answer, Stall>;

    /// The data of a request that [`Functions::control`] answered with [`Answer::Receive`].
    fn received(&mut self, udc: &mut dyn Udc, setup: SetupPacket, data: &[u8]) {
        let _ = (udc, setup, data);
    }

    /// A request of an endpoint other than 0 came back.
    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion);

    /// The bus is idle (Linux: `usb_function.suspend`).
    fn suspend(&mut self, udc: &mut dyn Udc) {
        let _ = udc;
    }

    /// The bus is active again (Linux: `usb_function.resume`).
    fn resume(&mut self, udc: &mut dyn Udc) {
        let _ = udc;
    }

    /// See [`Gadget::step`].
    fn step(&mut self, udc: &mut dyn Udc, now: Duration) -> Option<Duration> {
        let _ = (udc, now);
        None
    }

    /// See [`Gadget::end`].
    fn end(&mut self) -> Option<End> {
        None
    }
}

/// A gadget made of `F`, the functions of its configurations.
#[derive(Debug)]
pub struct Composite<F> {
    identity: Identity,
    functions: F,
    /// Value of the chosen configuration, 0 without one.
    configuration: u8,
    /// The request queued last on endpoint 0, and the SETUP whose OUT data it takes.
    ep0: (u64, Option<SetupPacket>),
    /// Data stage buffer to use again.
    spare: Vec<u8>,
}

impl<F: Functions> Composite<F> {
    /// A gadget that is not configured.
    #[must_use]
    pub fn with_functions(identity: Identity, functions: F) -> Self {
        Self { identity, functions, configuration: 0, ep0: (0, None), spare: Vec::new() }
    }

    /// What the gadget says about itself.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Value of the chosen configuration, 0 without one.
    #[must_use]
    pub fn configuration(&self) -> u8 {
        self.configuration
    }

    /// The functions.
    #[must_use]
    pub fn functions(&self) -> &F {
        &self.functions
    }

    /// The functions, to change.
    pub fn functions_mut(&mut self) -> &mut F {
        &mut self.functions
    }

    /// The device descriptor as the host reads it.
    #[must_use]
    pub fn device_descriptor(&self) -> DeviceDescriptor {
        DeviceDescriptor {
            max_packet_size0: EP0_MAX_PACKET,
            configurations: self.identity.configurations.len() as u8,
            ..self.identity.device
        }
    }

    fn device_qualifier(&self) -> DeviceQualifier {
        let device = self.device_descriptor();
        DeviceQualifier {
            length: 10,
            descriptor_type: DescriptorType::DeviceQualifier.0,
            bcd_usb: device.bcd_usb,
            class: device.class,
            sub_class: device.sub_class,
            protocol: device.protocol,
            max_packet_size0: EP0_MAX_PACKET,
            configurations: device.configurations,
            reserved: 0,
        }
    }

    fn configured(&self) -> Result<&Configuration, Stall> {
        let value = self.configuration;
        self.identity.configurations.iter().find(|known| value != 0 && known.value() == value).ok_or(Stall)
    }

    fn get_descriptor(&self, udc: &dyn Udc, setup: SetupPacket) -> Result<Vec<u8>, Stall> {
        let [index, kind] = setup.value.get().to_le_bytes();
        let kind = DescriptorType(kind);
        let dual_speed = udc.max_speed() >= Speed::High;
        let high_now = udc.speed() == Some(Speed::High);
        match kind {
            DescriptorType::Device => Ok(self.device_descriptor().as_bytes().to_vec()),
            DescriptorType::DeviceQualifier if dual_speed => Ok(self.device_qualifier().as_bytes().to_vec()),
            DescriptorType::OtherSpeedConfiguration if !dual_speed => Err(Stall),
            DescriptorType::Configuration | DescriptorType::OtherSpeedConfiguration => {
                let high = high_now != (kind == DescriptorType::OtherSpeedConfiguration);
                let speed = if high { Speed::High } else { Speed::Full };
                let configuration = self.identity.configurations.get(usize::from(index)).ok_or(Stall)?;
                Ok(configuration.descriptor(speed, kind))
            }
            DescriptorType::String => {
                self.identity.strings.descriptor(index, setup.index.get(), udc.name()).ok_or(Stall)
            }
            _ => Err(Stall),
        }
    }

    fn unconfigure(&mut self, udc: &mut dyn Udc) {
        self.configuration = 0;
        self.functions.disable(udc);
    }

    fn set_configuration(&mut self, udc: &mut dyn Udc, value: u16) -> Result<(), Stall> {
        if value == 0 {
            self.unconfigure(udc);
            return Ok(());
        }
        let index =
            self.identity.configurations.iter().position(|known| u16::from(known.value()) == value).ok_or(Stall)?;
        self.unconfigure(udc);
        let configuration = &self.identity.configurations[index];
        let value = configuration.value();
        for &interface in configuration.interfaces() {
            if let Err(Stall) = self.functions.set_alternate(udc, value, interface, 0) {
                self.functions.disable(udc);
                return Err(Stall);
            }
        }
        udc.set_self_powered(configuration.self_powered());
        self.configuration = value;
        Ok(())
    }

    /// The interface that `wIndex` names, if the configuration has it.
    fn interface(&self, setup: SetupPacket) -> Result<u8, Stall> {
        let [interface, _] = setup.index.get().to_le_bytes();
        let known = self.configured()?.interfaces().contains(&interface);
        if known { Ok(interface) } else { Err(Stall) }
    }

    fn answer(&mut self, udc: &mut dyn Udc, setup: SetupPacket) -> Result<Answer, Stall> {
        let no_data = setup.length.get() == 0;
        match (setup.standard(), setup.request_type) {
            (Some(Request::GetDescriptor), 0x80) => self.get_descriptor(udc, setup).map(Answer::Data),
            (Some(Request::SetConfiguration), 0x00) if no_data => {
                self.set_configuration(udc, setup.value.get()).map(|()| Answer::Done)
            }
            (Some(Request::GetConfiguration), 0x80) => Ok(Answer::Data(vec![self.configuration])),
            (Some(Request::SetInterface), 0x01) if no_data => {
                let interface = self.interface(setup)?;
                let alternate = u8::try_from(setup.value.get()).map_err(|_| Stall)?;
                self.functions.set_alternate(udc, self.configuration, interface, alternate).map(|()| Answer::Done)
            }
            (Some(Request::GetInterface), 0x81) => {
                let interface = self.interface(setup)?;
                Ok(Answer::Data(vec![self.functions.alternate(self.configuration, interface)]))
            }
            // An interface has no status bits (USB 2.0 §9.4.5).
            (Some(Request::GetStatus), 0x81) => self.interface(setup).map(|_| Answer::Data(vec![0, 0])),
            _ => {
                if setup.recipient() == Recipient::Interface {
                    self.interface(setup)?;
                }
                let configuration = self.configured()?.value();
                self.functions.control(udc, configuration, setup)
            }
        }
    }

    /// Queues the data stage, or the status stage of a request without one.
    fn reply(&mut self, udc: &mut dyn Udc, setup: SetupPacket, answer: Answer) -> Result<(), Stall> {
        let length = usize::from(setup.length.get());
        let direction = setup.direction();
        let (data, zero, waits) = match answer {
            Answer::Data(mut data) if direction == Direction::In => {
                data.truncate(length);
                let full_packets = !data.is_empty() && data.len().is_multiple_of(usize::from(EP0_MAX_PACKET));
                let zero = full_packets && data.len() < length;
                (data, zero, None)
            }
            Answer::Receive if direction == Direction::Out => {
                let mut data = std::mem::take(&mut self.spare);
                data.clear();
                data.resize(length, 0);
                (data, false, Some(setup))
            }
            Answer::Done if length == 0 => (Vec::new(), false, None),
            Answer::Data(_) | Answer::Receive | Answer::Done => return Err(Stall),
        };
        let id = self.ep0.0.wrapping_add(1);
        self.ep0 = (id, waits);
        let request = gadget::Request { id, data, zero, ..gadget::Request::default() };
        udc.queue(EndpointAddress::out(0), request).map_err(|_| {
            self.ep0.1 = None;
            Stall
        })
    }

    fn lost(&mut self, udc: &mut dyn Udc) {
        self.ep0.1 = None;
        self.unconfigure(udc);
    }
}

impl<F: Functions> Gadget for Composite<F> {
    fn setup(&mut self, udc: &mut dyn Udc, mut setup: SetupPacket) -> Result<(), Stall> {
        // A new SETUP ends the control transfer before it (USB 2.0 §8.5.3).
        self.ep0.1 = None;
        if setup.length.get() > EP0_BUFFER {
            match setup.direction() {
                Direction::In => setup.length = EP0_BUFFER.into(),
                Direction::Out => return Err(Stall),
            }
        }
        let answer = self.answer(udc, setup)?;
        self.reply(udc, setup, answer)
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        if !completion.endpoint.is_ep0() {
            self.functions.complete(udc, completion);
            return;
        }
        let data = completion.request.data;
        if completion.request.id == self.ep0.0
            && let Some(setup) = self.ep0.1.take()
            && let Ok(length) = completion.status
        {
            self.functions.received(udc, setup, data.get(..length).unwrap_or(&data));
        }
        self.spare = data;
    }

    fn reset(&mut self, udc: &mut dyn Udc) {
        self.lost(udc);
    }

    fn disconnect(&mut self, udc: &mut dyn Udc) {
        self.lost(udc);
    }

    fn suspend(&mut self, udc: &mut dyn Udc) {
        self.functions.suspend(udc);
    }

    fn resume(&mut self, udc: &mut dyn Udc) {
        self.functions.resume(udc);
    }

    fn step(&mut self, udc: &mut dyn Udc, now: Duration) -> Option<Duration> {
        self.functions.step(udc, now)
    }

    fn end(&mut self) -> Option<End> {
        self.functions.end()
    }
}
