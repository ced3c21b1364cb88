//! The client's memory, as a device reaches it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus::DmaAddr;
use devices::{DmaError, DmaMemory};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use vm_memory::mmap::MmapRegionError;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

use crate::messages::MessageDma;
use crate::protocol::MAX_DMA_MAPS;

/// A virtual machine's memory. It is there while a client is: without one no address has memory.
///
/// Memory with a file descriptor is mapped. Memory without is reached by messages, which a client must be able to
/// answer while it waits for a register: QEMU is not, see the crate's documentation. Regions come and go at any time; an
/// access may go across their borders.
#[derive(Default)]
pub struct ClientMemory {
    /// By first address; they do not overlap.
    regions: RwLock<BTreeMap<u64, Region>>,
    messages: Mutex<Option<Arc<MessageDma>>>,
}

/// Which accesses of the device a region takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

struct Region {
    size: u64,
    access: Access,
    /// `None`: by messages.
    mapped: Option<MmapRegion>,
}

/// The part of an access that lies in one region.
struct Part {
    addr: u64,
    /// Which bytes of the access.
    from: usize,
    to: usize,
}

impl ClientMemory {
    /// Memory without a client.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A client is there, and answers messages.
    pub(crate) fn connect(&self, messages: MessageDma) {
        *self.messages.lock() = Some(Arc::new(messages));
    }

    /// The client is gone, and its memory too.
    pub(crate) fn disconnect(&self) {
        *self.messages.lock() = None;
        self.regions.write().clear();
    }

    /// DMA_MAP.
    pub(crate) fn map(
        &self,
        address: u64,
        size: u64,
        access: Access,
        file: Option<(OwnedFd, u64)>,
    ) -> Result<(), Errno> {
        let last = size.checked_sub(1).and_then(|rest| address.checked_add(rest)).ok_or(Errno::INVAL)?;
        let mapped = file.map(|(descriptor, offset)| map_file(descriptor, offset, size, access)).transpose()?;
        let mut regions = self.regions.write();
        if regions.len() >= MAX_DMA_MAPS {
            return Err(Errno::NOSPC);
        }
        let below = regions.range(..=last).next_back();
        if below.is_some_and(|(start, region)| start + (region.size - 1) >= address) {
            return Err(Errno::EXIST);
        }
        regions.insert(address, Region { size, access, mapped });
        Ok(())
    }

    /// DMA_UNMAP: exactly a region that was mapped. When this returns, no access to it is under way.
    pub(crate) fn unmap(&self, address: u64, size: u64) -> Result<(), Errno> {
        let mut regions = self.regions.write();
        if regions.get(&address).is_none_or(|region| region.size != size) {
            return Err(Errno::NOENT);
        }
        regions.remove(&address);
        Ok(())
    }

    /// DMA_UNMAP of everything.
    pub(crate) fn unmap_all(&self) {
        self.regions.write().clear();
    }

    /// Calls `mapped` or `by_message` for each region that `len` bytes at `addr` lie in.
    fn each(
        &self,
        addr: DmaAddr,
        len: usize,
        allowed: impl Fn(Access) -> bool,
        mut mapped: impl FnMut(&MmapRegion, u64, Part) -> Option<()>,
        mut by_message: impl FnMut(&MessageDma, Part) -> Option<()>,
    ) -> Result<(), DmaError> {
        let none = DmaError::NoMemory { addr, len: len as u64 };
        addr.0.checked_add((len as u64).saturating_sub(1)).ok_or(none)?;
        let mut from = 0;
        while from < len {
            let at = addr.0 + from as u64;
            let regions = self.regions.read();
            let (start, region) = regions.range(..=at).next_back().ok_or(none)?;
            let offset = at - start;
            if offset >= region.size || !allowed(region.access) {
                return Err(none);
            }
            let to = len.min(from.saturating_add(usize::try_from(region.size - offset).unwrap_or(usize::MAX)));
            let part = Part { addr: at, from, to };
            match &region.mapped {
                Some(mapping) => mapped(mapping, offset, part).ok_or(none)?,
                None => {
                    // The client may unmap, and wait for that, before it answers.
                    drop(regions);
                    let messages = self.messages.lock().clone().ok_or(none)?;
                    by_message(&messages, part).ok_or(none)?;
                }
            }
            from = to;
        }
        Ok(())
    }

    fn word<R>(&self, addr: DmaAddr, access: impl FnOnce() -> Result<R, DmaError>) -> Result<R, DmaError> {
        if addr.is_aligned(4) { access() } else { Err(DmaError::Misaligned { addr, size: 4 }) }
    }
}

/// Maps a client's file. One that is shorter than the client says would end this process with a signal when touched.
fn map_file(descriptor: OwnedFd, offset: u64, size: u64, access: Access) -> Result<MmapRegion, Errno> {
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    let end = offset.checked_add(size).ok_or(Errno::INVAL)?;
    if !metadata.is_file() || metadata.len() < end {
        return Err(Errno::INVAL);
    }
    let size = usize::try_from(size).map_err(|_| Errno::INVAL)?;
    let prot = if access.write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    MmapRegion::build(Some(FileOffset::new(file, offset)), size, prot, flags).map_err(|error| match error {
        MmapRegionError::Mmap(error) => Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
        _ => Errno::INVAL,
    })
}

impl DmaMemory for ClientMemory {
    fn read(&self, addr: DmaAddr, buffer: &mut [u8]) -> Result<(), DmaError> {
        // Both ways of reading need it, never at once.
        let buffer = std::cell::RefCell::new(buffer);
        let len = buffer.borrow().len();
        self.each(
            addr,
            len,
            |access| access.read,
            |mapping, offset, Part { from, to, .. }| {
                let slice = mapping.get_slice(usize::try_from(offset).ok()?, to - from).ok()?;
                slice.copy_to(&mut buffer.borrow_mut()[from..to]);
                Some(())
            },
            |messages, Part { addr, from, to }| messages.read(addr, &mut buffer.borrow_mut()[from..to]),
        )
    }

    fn write(&self, addr: DmaAddr, data: &[u8]) -> Result<(), DmaError> {
        self.each(
            addr,
            data.len(),
            |access| access.write,
            |mapping, offset, Part { from, to, .. }| {
                let slice = mapping.get_slice(usize::try_from(offset).ok()?, to - from).ok()?;
                slice.copy_from(&data[from..to]);
                Some(())
            },
            |messages, Part { addr, from, to }| messages.write(addr, &data[from..to]),
        )
    }

    fn load_u32(&self, addr: DmaAddr, order: Ordering) -> Result<u32, DmaError> {
        let value = std::cell::Cell::new(0);
        self.word(addr, || {
            self.each(
                addr,
                4,
                |access| access.read,
                |mapping, offset, _| {
                    let slice = mapping.get_slice(usize::try_from(offset).ok()?, 4).ok()?;
                    value.set(slice.load::<u32>(0, order).ok()?);
                    Some(())
                },
                |messages, Part { addr, from, to }| {
                    let mut bytes = [0; 4];
                    messages.read(addr, &mut bytes[from..to])?;
                    value.set(u32::from_ne_bytes(bytes));
                    Some(())
                },
            )
        })?;
        Ok(u32::from_le(value.get()))
    }

    fn store_u32(&self, addr: DmaAddr, value: u32, order: Ordering) -> Result<(), DmaError> {
        let value = value.to_le();
        self.word(addr, || {
            self.each(
                addr,
                4,
                |access| access.write,
                |mapping, offset, _| {
                    let slice = mapping.get_slice(usize::try_from(offset).ok()?, 4).ok()?;
                    slice.store(value, 0, order).ok()
                },
                |messages, Part { addr, from, to }| messages.write(addr, &value.to_ne_bytes()[from..to]),
            )
        })
    }
}

impl std::fmt::Debug for ClientMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientMemory").field("regions", &self.regions.read().len()).finish_non_exhaustive()
    }
}
