//! The model's own trace events. Memory accesses come from the DMA port, packets are [`usb::wire::Packet`].

use std::fmt;

use bus::{AccessKind, Event};

/// Who emits: the source of the model's events.
pub(crate) const SOURCE: &str = "chipidea";

/// A register access, word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterEvent {
    /// The specification's name; `None` for an offset that holds no register.
    pub name: Option<&'static str>,
    /// Number in an array such as ENDPTCTRL.
    pub index: Option<u8>,
    /// Byte offset of the word in the window.
    pub offset: u64,
    /// Which way.
    pub access: AccessKind,
    /// The value read, or the value written with the lanes that were not written as 0.
    pub value: u32,
}

impl Event for RegisterEvent {}

impl fmt::Display for RegisterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.access {
            AccessKind::Read => "read  ",
            AccessKind::Write => "write ",
        })?;
        match self.name {
            Some(name) => f.write_str(name)?,
            None => write!(f, "{:#x}", self.offset)?,
        }
        if let Some(index) = self.index {
            write!(f, "{index}")?;
        }
        write!(f, " = {:08x}", self.value)
    }
}

/// Something that the driver asked for and the model does not do: it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// PORTSC.PTC: a test mode (USB 2.0 §7.1.20).
    TestMode(u8),
    /// USBMODE.CM: host mode, or a mode change without a reset.
    Mode(u8),
}

impl Event for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TestMode(mode) => write!(f, "refused PORTSC.PTC = {mode}: no test modes"),
            Self::Mode(mode) => write!(f, "refused USBMODE.CM = {mode}"),
        }
    }
}
