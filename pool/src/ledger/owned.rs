//! Whose the memory is that a pool handed out and does not own.

use bus::DmaAddr;

use super::PoolRecord;
use super::buffers::Buffer;
use super::map::Map;

/// Whose memory it is, in words; `None` is no memory at all.
pub(super) fn whose(map: &Map, pools: &[PoolRecord], addr: Option<DmaAddr>) -> String {
    let Some(DmaAddr(addr)) = addr else { return "no memory".to_owned() };
    if let Some(page) = map.pool_page(addr) {
        let pool = &pools[page.pool].name;
        return match page.block(addr).filter(|block| block.is_live() && block.contains(addr)) {
            Some(block) => {
                let owner = block.owner.map_or_else(|| "no one named".to_owned(), |owner| owner.to_string());
                format!("in the live block of pool {pool} at {:#x} ({owner})", block.start)
            }
            None => format!("memory of pool {pool} in no live block"),
        };
    }
    let mapped = map.mappings_at(addr).next().is_some();
    match map.buffer(addr, 1, false) {
        Buffer::None if mapped => "memory that is mapped for the device",
        Buffer::None | Buffer::Freed => "memory that is neither a pool's nor the driver's",
        _ if mapped => "a buffer of kmalloc, mapped for the device",
        _ => "a buffer of kmalloc, not mapped for the device",
    }
    .to_owned()
}
