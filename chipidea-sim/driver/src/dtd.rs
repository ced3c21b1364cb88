//! The transfer descriptor (Linux: `struct ci_hw_td`).

use bitfield_struct::bitfield;
use bus::DmaAddr;
use pool::{Block, CpuFault, DmaApi};

/// Bytes that the structure uses: what ci_hdrc asks its pool for.
pub(crate) const SIZE: u64 = 28;
/// T of the next pointer: the list ends.
pub(crate) const TERMINATE: u32 = 1;
/// Bits of the next pointer that are an address (`TD_ADDR_MASK`).
pub(crate) const ADDRESS: u32 = !0x1f;
/// Page pointers of a dTD (`TD_PAGE_COUNT`).
pub(crate) const PAGES: u64 = 5;
/// What a page pointer covers (`CI_HDRC_PAGE_SIZE`).
pub(crate) const PAGE: u64 = 4096;

const TOKEN: u64 = 4;
const FIRST_PAGE: u64 = 8;

/// The second word: state and size.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct Token {
    #[bits(3)]
    __: u8,
    /// TR_ERR.
    pub transaction_error: bool,
    __: bool,
    /// DT_ERR.
    pub data_error: bool,
    /// HALTED.
    pub halted: bool,
    /// ACTIVE: the controller owns it.
    pub active: bool,
    #[bits(2)]
    __: u8,
    /// MultO.
    #[bits(2)]
    pub mult: u8,
    #[bits(3)]
    __: u8,
    /// IOC: interrupt on completion.
    pub interrupt: bool,
    /// Bytes left.
    #[bits(15)]
    pub total: u16,
    __: bool,
}

/// A dTD in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferDescriptor {
    pub(crate) block: Block,
}

impl TransferDescriptor {
    /// Its address as a link holds it: the low 32 bits.
    pub(crate) const fn link(self) -> u32 {
        self.block.dma.0 as u32
    }

    /// Sets the token.
    pub(crate) fn set_token(self, dma: &DmaApi, token: Token) -> Result<(), CpuFault> {
        dma.store_u32(self.block.cpu.offset(TOKEN), token.into())
    }

    /// Reads the token.
    pub(crate) fn token(self, dma: &DmaApi) -> Result<Token, CpuFault> {
        dma.load_u32(self.block.cpu.offset(TOKEN)).map(Token::from)
    }

    /// Sets the page pointers to a buffer at `data`; only the first keeps its offset.
    pub(crate) fn set_buffer(self, dma: &DmaApi, data: DmaAddr) -> Result<(), CpuFault> {
        // Bus addresses of a device with a 32-bit mask.
        let data = data.0 as u32;
        for i in 0..PAGES {
            let step = (i * PAGE) as u32;
            let pointer = if i == 0 { data } else { data.wrapping_add(step) & !(PAGE as u32 - 1) };
            dma.store_u32(self.block.cpu.offset(FIRST_PAGE + 4 * i), pointer)?;
        }
        Ok(())
    }

    /// Sets the next pointer.
    pub(crate) fn set_next(self, dma: &DmaApi, next: u32) -> Result<(), CpuFault> {
        dma.store_u32(self.block.cpu, next)
    }
}

/// Most bytes of a dTD whose buffer begins at `data` (`prepare_td_for_non_sg`): a buffer that is not page aligned
/// spans one page more.
pub(crate) const fn most_bytes(data: DmaAddr) -> u64 {
    if data.is_aligned(PAGE) { PAGES * PAGE } else { (PAGES - 1) * PAGE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_lies_where_the_manual_has_it() {
        let token = Token::new().with_active(true).with_interrupt(true).with_total(0x5000);
        assert_eq!(u32::from(token), 1 << 7 | 1 << 15 | 0x5000 << 16);
        let failed = Token::new().with_halted(true).with_data_error(true).with_transaction_error(true);
        assert_eq!(u32::from(failed), 1 << 6 | 1 << 5 | 1 << 3);
        assert_eq!(u32::from(Token::new().with_mult(3)), 3 << 10);
    }

    #[test]
    fn an_unaligned_buffer_gets_16_kib() {
        assert_eq!(most_bytes(DmaAddr(0x8000_1000)), 20 << 10);
        assert_eq!(most_bytes(DmaAddr(0x8000_1002)), 16 << 10);
    }
}
