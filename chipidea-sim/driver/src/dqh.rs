//! The device queue head (Linux: `struct ci_hw_qh`).

use bitfield_struct::bitfield;
use pool::{Block, CpuFault, DmaApi};

use crate::dtd::Token;

/// Bytes that the structure uses: what ci_hdrc asks its pool for.
pub(crate) const SIZE: u64 = 48;
/// Distance from one dQH to the next in the controller's table.
pub(crate) const STRIDE: u64 = 64;

const NEXT: u64 = 8;
const TOKEN: u64 = 12;
const SETUP: u64 = 40;

/// Endpoint capabilities, the first word.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct Capabilities {
    #[bits(15)]
    __: u32,
    /// IOS: a SETUP interrupts.
    pub interrupt_on_setup: bool,
    /// Bytes in a full packet.
    #[bits(11)]
    pub max_packet: u16,
    #[bits(2)]
    __: u8,
    /// ZLT: 1 switches automatic empty packets off.
    pub zlt: bool,
    /// Mult: packets a microframe of an isochronous endpoint.
    #[bits(2)]
    pub mult: u8,
}

/// A dQH in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueHead {
    pub(crate) block: Block,
}

impl QueueHead {
    /// The capabilities.
    pub(crate) fn capabilities(self, dma: &DmaApi) -> Result<Capabilities, CpuFault> {
        dma.load_u32(self.block.cpu).map(Capabilities::from)
    }

    /// Changes the capabilities.
    pub(crate) fn set_capabilities(self, dma: &DmaApi, capabilities: Capabilities) -> Result<(), CpuFault> {
        dma.store_u32(self.block.cpu, capabilities.into())
    }

    /// Ends the list (`ep_enable`).
    pub(crate) fn terminate(self, dma: &DmaApi) -> Result<(), CpuFault> {
        let next = self.block.cpu.offset(NEXT);
        dma.store_u32(next, dma.load_u32(next)? | crate::dtd::TERMINATE)
    }

    /// Makes `next` the dTD that the next prime takes (`_hardware_enqueue`).
    pub(crate) fn point_at(self, dma: &DmaApi, next: u32) -> Result<(), CpuFault> {
        dma.store_u32(self.block.cpu.offset(NEXT), next)?;
        let token = self.block.cpu.offset(TOKEN);
        let clean = Token::from(dma.load_u32(token)?).with_halted(false).with_active(false);
        dma.store_u32(token, clean.into())
    }

    /// The SETUP packet that the controller stored.
    pub(crate) fn setup(self, dma: &DmaApi) -> Result<[u8; 8], CpuFault> {
        let low = dma.load_u32(self.block.cpu.offset(SETUP))?;
        let high = dma.load_u32(self.block.cpu.offset(SETUP + 4))?;
        Ok((u64::from(high) << 32 | u64::from(low)).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_lie_where_the_manual_has_them() {
        let ep0 = Capabilities::new().with_interrupt_on_setup(true).with_max_packet(64).with_zlt(true);
        assert_eq!(u32::from(ep0), 1 << 15 | 64 << 16 | 1 << 29);
        assert_eq!(u32::from(Capabilities::new().with_mult(3)), 3 << 30);
    }
}
