//! From events to sections.

use devices::DmaEvent;
use usb::Speed;
use usb::wire::Packet;

use crate::descriptor::{Link, Token};
use crate::registers::{DeviceAddr, UsbCmd, UsbSts};
use crate::slot::Slot;
use crate::trace::RegisterEvent;

use super::slots::{Found, View, found};
use super::{Section, names};

/// The story so far.
pub(super) struct Story {
    /// Power, resets, control transfers. There is always one.
    sections: Vec<Section>,
    /// By slot; those of endpoint 0 stay empty.
    endpoints: Vec<Section>,
    views: Vec<View>,
    setup: Option<[u8; 8]>,
    speed: Option<Speed>,
    /// Whether the SETUP of this section has its answer, or there is none.
    answered: bool,
    vbus: bool,
    /// USBCMD as last written.
    command: UsbCmd,
    /// A pull-up that went while VBUS was off, told at the section's end.
    pullup_gone: Option<String>,
    /// Tripwires after an answer.
    late_tripwires: usize,
}

impl Story {
    pub(super) fn new() -> Self {
        let slots = (0..32).map(Slot::from_number);
        Self {
            sections: vec![Section::new("power-on")],
            endpoints: slots.map(|slot| Section::new(slot.to_string())).collect(),
            views: vec![View::default(); 32],
            setup: None,
            speed: None,
            answered: true,
            vbus: false,
            command: UsbCmd::new(),
            pullup_gone: None,
            late_tripwires: 0,
        }
    }

    /// Adds a line to what goes on now.
    pub(super) fn line(&mut self, line: impl Into<String>) {
        if let Some(section) = self.sections.last_mut() {
            section.lines.push(line.into());
        }
    }

    fn begin(&mut self, title: impl Into<String>) {
        self.tell_pullup();
        self.sections.push(Section::new(title));
        self.answered = true;
    }

    fn tell_pullup(&mut self) {
        if let Some(line) = self.pullup_gone.take() {
            self.line(line);
        }
    }

    fn is_untouched(&self) -> bool {
        matches!(&self.sections[..], [first] if first.lines.is_empty())
    }

    /// Adds a line to what is told of a slot.
    fn slot_line(&mut self, slot: Slot, line: String) {
        if slot.endpoint() == 0 {
            self.line(format!("{slot} {line}"));
        } else {
            self.endpoints[slot.index()].lines.push(line);
        }
    }

    pub(super) fn wire(&mut self, packet: &Packet) {
        if let Packet::Vbus(on) = packet {
            self.vbus = *on;
        }
        match packet {
            Packet::Setup(to, bytes, _) if to.endpoint == 0 => self.setup = Some(*bytes),
            Packet::Reset(speed) => self.speed = *speed,
            // Before the driver has looked at the controller nothing comes or goes.
            Packet::Vbus(_) if self.is_untouched() => {}
            Packet::Vbus(on) => self.begin(if *on { "VBUS on" } else { "VBUS off" }),
            Packet::Suspend => self.begin("suspend"),
            Packet::Resume => self.begin("resume"),
            Packet::Setup(..) | Packet::Out(..) | Packet::In(..) => {}
        }
    }

    pub(super) fn written(&mut self, event: &RegisterEvent) {
        let value = event.value;
        match event.name {
            Some("USBSTS") => self.status_written(value),
            Some("USBCMD") => self.command_written(value),
            Some("ENDPTSETUPSTAT") if value == 0 => {}
            Some("ENDPTSETUPSTAT") => {
                let bytes = self.setup.take().unwrap_or_default();
                let bytes = bytes.map(|byte| format!("{byte:02x}")).join(" ");
                self.begin(format!("SETUP {bytes}"));
                self.answered = false;
                self.line(format!("ENDPTSETUPSTAT = {value:08x}"));
            }
            Some("ENDPTCOMPLETE") => names::slots(value).for_each(|slot| self.complete_cleared(slot)),
            Some("ENDPTPRIME") => self.primed(value),
            Some("ENDPTFLUSH") => {
                names::slots(value).for_each(|slot| self.views[slot.index()].flushed());
                self.line(format!("ENDPTFLUSH = {}", names::slot_list(value)));
            }
            Some("ENDPTLISTADDR") => self.line(format!("ENDPTLISTADDR = {}", names::list_address(value))),
            Some("DEVICEADDR") => {
                let written = DeviceAddr::from_bits(value);
                let advance = if written.advance() { ", in advance" } else { "" };
                self.line(format!("DEVICEADDR = {}{advance}", written.address()));
            }
            Some("ENDPTCTRL") => {
                self.answered |= event.index == Some(0);
                self.line(format!("ENDPTCTRL{} = {value:08x}", event.index.unwrap_or(0)));
            }
            Some(name) => self.line(format!("{name} = {value:08x}")),
            None => self.line(format!("{:#x} = {value:08x}", event.offset)),
        }
    }

    fn status_written(&mut self, value: u32) {
        let written = UsbSts::from_bits(value);
        if value != u32::MAX && written.bus_reset() {
            let speed = self.speed.map_or_else(|| "no speed".to_owned(), |speed| speed.to_string());
            self.begin(format!("bus reset, {speed}"));
        }
        // Every bit is cleared before the driver knows what there is.
        let telling = if value == u32::MAX { value } else { written.with_interrupt(false).into_bits() };
        if telling != 0 {
            self.line(format!("USBSTS = {telling:08x}"));
        }
    }

    /// A tripwire is two writes. That of an added dTD belongs to the endpoint whose list grows: which is not said.
    fn command_written(&mut self, value: u32) {
        let command = UsbCmd::from_bits(value);
        let before = std::mem::replace(&mut self.command, command);
        let ends_tripwire = before.setup_tripwire() || before.add_dtd_tripwire();
        if before.run() && !command.run() && !self.vbus {
            self.pullup_gone = Some(format!("USBCMD = {value:08x}"));
        } else if command.setup_tripwire() {
            self.line("USBCMD.SUTW, set and cleared");
        } else if command.add_dtd_tripwire() && before.add_dtd_tripwire() {
            // The controller had cleared it meanwhile: the driver tries again.
        } else if command.add_dtd_tripwire() && !self.answered {
            self.line("USBCMD.ATDTW, set and cleared");
        } else if command.add_dtd_tripwire() {
            self.late_tripwires += 1;
        } else if !ends_tripwire {
            self.line(format!("USBCMD = {value:08x}"));
        }
    }

    fn primed(&mut self, bits: u32) {
        if !self.answered {
            self.line(format!("ENDPTPRIME = {}", names::slot_list(bits)));
        } else {
            for slot in names::slots(bits) {
                self.primed_later(slot);
            }
        }
        self.answered |= names::slots(bits).any(|slot| slot.endpoint() == 0);
    }

    fn primed_later(&mut self, slot: Slot) {
        let line = format!("ENDPTPRIME = {slot}");
        if slot.endpoint() == 0 {
            self.line(line);
        } else {
            self.endpoints[slot.index()].lines.push(line);
        }
    }

    fn complete_cleared(&mut self, slot: Slot) {
        let line = format!("ENDPTCOMPLETE = {slot}");
        if slot.endpoint() != 0 {
            return self.endpoints[slot.index()].lines.push(line);
        }
        let section = self.views[slot.index()].completed_in;
        self.sections[section].lines.push(line);
    }

    pub(super) fn memory(&mut self, event: &DmaEvent) {
        let Some((slot, found)) = found(event) else { return };
        let section = self.sections.len() - 1;
        let view = &mut self.views[slot.index()];
        match found {
            Found::Capabilities(capabilities) => view.saw_capabilities(capabilities),
            Found::Loaded(address, dtd) => {
                let line = view.loaded(address, &dtd);
                self.slot_line(slot, line);
            }
            Found::Retired(token) => {
                if token.interrupt_on_complete() {
                    view.completed_in = section;
                }
                if token != Token::new().with_interrupt_on_complete(token.interrupt_on_complete()) {
                    self.slot_line(slot, format!("dTD retired, token {:08x}", token.into_bits()));
                }
            }
            Found::Next(next) => {
                if Link(next).target().is_some() {
                    self.slot_line(slot, "goes on to the next dTD".to_owned());
                }
            }
        }
    }

    /// All sections that have something to tell.
    pub(super) fn end(mut self) -> Vec<Section> {
        self.tell_pullup();
        let mut heads = Section::new("dQH capabilities");
        for (number, view) in self.views.iter().enumerate().filter(|(_, view)| !view.capabilities.is_empty()) {
            let words: Vec<_> = view.capabilities.iter().map(|word| format!("{word:08x}")).collect();
            // There are 32.
            let slot = Slot::from_number(number as u8);
            heads.lines.push(format!("{slot} dQH capabilities = {}", words.join(", then ")));
        }
        let mut tripwires = Section::new("after the answers");
        if self.late_tripwires > 0 {
            tripwires.lines.push(format!("USBCMD.ATDTW, set and cleared: {} times", self.late_tripwires));
        }
        self.sections.append(&mut self.endpoints);
        self.sections.extend([heads, tripwires]);
        self.sections.retain(|section| !section.lines.is_empty());
        self.sections
    }
}
