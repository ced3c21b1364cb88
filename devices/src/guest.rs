//! Checked memory for device code that walks `vm-memory` itself, such as a virtqueue implementation.

use bus::{Access, AccessKind, Belief, DmaAddr};
use vm_memory::bitmap::BS;
use vm_memory::guest_memory::GuestMemorySliceIterator;
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, Permissions};

use crate::dma::DmaPort;

/// A [`GuestMemory`] that shows every access to a port's watch and faults, all under one belief.
///
/// Queue crates ask for slices of guest memory instead of copying through a port. Their slices are checked when they
/// are handed out; the bytes themselves are not traced.
pub struct CheckedMemory<'a> {
    memory: &'a GuestMemoryMmap,
    port: &'a DmaPort,
    belief: Belief,
}

impl<'a> CheckedMemory<'a> {
    /// Memory as `port` sees it, for the walk of what the device takes for `belief`.
    #[must_use]
    pub const fn new(memory: &'a GuestMemoryMmap, port: &'a DmaPort, belief: Belief) -> Self {
        Self { memory, port, belief }
    }

    fn show(&self, addr: GuestAddress, count: usize, kind: AccessKind) -> bool {
        let access = Access { addr: DmaAddr(addr.0), len: count as u64, kind, belief: self.belief };
        self.port.before(&access).is_ok()
    }
}

impl GuestMemory for CheckedMemory<'_> {
    type PhysicalMemory = GuestMemoryMmap;
    type Bitmap = <<GuestMemoryMmap as GuestMemoryBackend>::R as GuestMemoryRegion>::B;

    fn check_range(&self, addr: GuestAddress, count: usize, _access: Permissions) -> bool {
        GuestMemoryBackend::check_range(self.memory, addr, count)
    }

    fn get_slices<'b>(
        &'b self,
        addr: GuestAddress,
        count: usize,
        access: Permissions,
    ) -> vm_memory::guest_memory::Result<impl GuestMemorySliceIterator<'b, BS<'b, Self::Bitmap>>> {
        let kind = if access.has_write() { AccessKind::Write } else { AccessKind::Read };
        if !self.show(addr, count, kind) {
            return Err(vm_memory::GuestMemoryError::InvalidGuestAddress(addr));
        }
        Ok(GuestMemoryBackend::get_slices(self.memory, addr, count))
    }
}
