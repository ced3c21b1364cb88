//! The configuration space's bytes: a type 0 header (PCI §6.1), then the capabilities.

use bitfield_struct::bitfield;

use super::capabilities::Capabilities;
use super::config::PciConfig;

/// Length of a conventional function's configuration space in bytes.
pub(super) const LENGTH: usize = 256;

const VENDOR: usize = 0x00;
const DEVICE: usize = 0x02;
pub(super) const COMMAND: usize = 0x04;
pub(super) const STATUS: usize = 0x06;
const REVISION: usize = 0x08;
const CLASS: usize = 0x09;
const CACHE_LINE_SIZE: usize = 0x0c;
pub(super) const BARS: usize = 0x10;
const SUBSYSTEM_VENDOR: usize = 0x2c;
const SUBSYSTEM: usize = 0x2e;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;

/// The command register (PCI §6.2.2).
#[bitfield(u16)]
pub(super) struct Command {
    /// I/O space: read-only here.
    __: bool,
    /// Memory BARs are decoded.
    pub(super) memory: bool,
    /// Bus master.
    pub(super) master: bool,
    #[bits(7)]
    __: u8,
    /// Interrupt disable: INTx is not driven.
    pub(super) interrupt_disable: bool,
    #[bits(5)]
    __: u8,
}

/// The status register (PCI §6.2.3).
#[bitfield(u16)]
pub(super) struct Status {
    #[bits(3)]
    __: u8,
    /// The function asks for INTx, whatever interrupt disable says.
    pub(super) interrupt: bool,
    /// There is a list of capabilities.
    pub(super) capabilities: bool,
    #[bits(11)]
    __: u16,
}

/// Bytes, and which of their bits software can write.
#[derive(Clone, Debug)]
pub(super) struct Space {
    bytes: [u8; LENGTH],
    writable: [u8; LENGTH],
}

impl Space {
    /// As after a reset.
    pub(super) fn new(config: &PciConfig, capabilities: &Capabilities) -> Self {
        let mut space = Self { bytes: [0; LENGTH], writable: [0; LENGTH] };
        space.put16(VENDOR, config.vendor, 0);
        space.put16(DEVICE, config.device, 0);
        let pin = config.pin.map_or(0, |pin| pin as u8);
        let command = Command::new().with_memory(true).with_master(true).with_interrupt_disable(pin != 0);
        space.put16(COMMAND, 0, command.into_bits());
        space.put(REVISION, &[config.revision], &[0]);
        space.put(CLASS, &config.class.to_le_bytes()[..3], &[0; 3]);
        space.put(CACHE_LINE_SIZE, &[0], &[0xff]);
        super::bars::lay_out(&mut space, config);
        space.put16(SUBSYSTEM_VENDOR, config.subsystem.0, 0);
        space.put16(SUBSYSTEM, config.subsystem.1, 0);
        space.put(INTERRUPT_LINE, &[0], &[0xff]);
        space.put(INTERRUPT_PIN, &[pin], &[0]);
        if let Some(first) = capabilities.lay_out(&mut space, config) {
            space.put16(STATUS, Status::new().with_capabilities(true).into_bits(), 0);
            space.put(CAPABILITIES, &[first], &[0]);
        }
        space
    }

    /// Lays a value out, with the bits that software can write.
    pub(super) fn put(&mut self, offset: usize, value: &[u8], writable: &[u8]) {
        self.bytes[offset..offset + value.len()].copy_from_slice(value);
        self.writable[offset..offset + writable.len()].copy_from_slice(writable);
    }

    pub(super) fn put16(&mut self, offset: usize, value: u16, writable: u16) {
        self.put(offset, &value.to_le_bytes(), &writable.to_le_bytes());
    }

    pub(super) fn put32(&mut self, offset: usize, value: u32, writable: u32) {
        self.put(offset, &value.to_le_bytes(), &writable.to_le_bytes());
    }

    /// The byte at `offset`; beyond the end there is none, and a read gives all ones (PCI §6.1).
    pub(super) fn byte(&self, offset: u64) -> u8 {
        usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset).copied()).unwrap_or(0xff)
    }

    /// A write by software: what it cannot write keeps its value.
    pub(super) fn write_byte(&mut self, offset: u64, value: u8) {
        let Some(offset) = usize::try_from(offset).ok().filter(|offset| *offset < LENGTH) else { return };
        let mask = self.writable[offset];
        self.bytes[offset] = self.bytes[offset] & !mask | value & mask;
    }

    pub(super) fn get16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    pub(super) fn get32(&self, offset: usize) -> u32 {
        u32::from(self.get16(offset)) | u32::from(self.get16(offset + 2)) << 16
    }

    /// A write by the function itself.
    pub(super) fn set16(&mut self, offset: usize, value: u16) {
        self.bytes[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }

    pub(super) fn command(&self) -> Command {
        Command::from_bits(self.get16(COMMAND))
    }
}
