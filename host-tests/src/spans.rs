//! Where a board's memory lies.

use bus::{CpuAddr, DmaAddr};
use pool::Span;

use crate::error::BenchError;

/// Length of a board's memory in bytes.
const MEMORY: u64 = 16 << 20;
/// Where it lies for devices. The bus offset is not 0, and the processor's addresses differ in every bit group.
pub(crate) const DMA_BASE: DmaAddr = DmaAddr(0x8000_0000);
/// Where it lies for the processor: arm64's linear map. Bit 15 is clear.
pub const CPU_BASE: CpuAddr = CpuAddr(0xffff_0000_4000_0000);

/// Length in bytes of the memory above 4 GiB that a board has whose driver says that its device reaches it.
const HIGH_MEMORY: u64 = 4 << 20;
/// Where that lies for devices. For the processor it is as far from the rest, as in a linear map.
const HIGH_BASE: DmaAddr = DmaAddr(1 << 32);

/// Bits of a DMA mask beyond which a device reaches memory above 4 GiB.
pub(crate) const LOW_BITS: u32 = 32;

/// The memory of a board, for the processor at `base`, with a device that reaches `mask_bits` bits of address.
pub(crate) fn spans(base: CpuAddr, mask_bits: u32) -> Result<Vec<Span>, BenchError> {
    if !(LOW_BITS..=64).contains(&mask_bits) {
        return Err(BenchError::DmaMask(mask_bits));
    }
    let mut spans = vec![Span { cpu: base, dma: DMA_BASE, len: MEMORY }];
    if base.0 == 0 || !base.is_aligned(4096) || !are_apart(&spans) {
        return Err(BenchError::CpuBase(base));
    }
    if mask_bits > LOW_BITS {
        let cpu = base.0.checked_add(HIGH_BASE.0 - DMA_BASE.0).ok_or(BenchError::HighMemory(base))?;
        spans.push(Span { cpu: CpuAddr(cpu), dma: HIGH_BASE, len: HIGH_MEMORY });
        if !are_apart(&spans) {
            return Err(BenchError::HighMemory(base));
        }
    }
    Ok(spans)
}

/// Whether no address of the processor is one of the devices' too: mixing the two must fail.
fn are_apart(spans: &[Span]) -> bool {
    spans.iter().all(|one| {
        let end = one.cpu.0.checked_add(one.len);
        end.is_some_and(|end| spans.iter().all(|other| end <= other.dma.0 || one.cpu.0 >= other.dma.0 + other.len))
    })
}

/// The mask itself: the highest address that the device reaches.
pub(crate) const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
