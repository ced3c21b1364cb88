//! A machine's memory once more, where code can use the processor's addresses as pointers.
//!
//! A kernel file writes pointers into blocks, and what a device makes of them must not change from run to run. So every
//! span is mapped a second time, at a place that has the low 36 bits of its address for the processor.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use bus::CpuAddr;
use libc::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE,
};
use pool::{Memory, Span};
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};

/// Bits of the processor's address that a pointer shares.
const SHARED_BITS: u32 = 36;
const SHARED: u64 = (1 << SHARED_BITS) - 1;
/// Windows of 2^36 bytes for memories that live at the same time, the first free one first. The lower are where
/// ThreadSanitizer wants a program's memory, the upper where AddressSanitizer does.
const LOW_WINDOWS: std::ops::Range<u64> = 1..8;
const HIGH_WINDOWS: std::ops::Range<u64> = 0x110..0x500;

/// Whether a value is an address of that span, or a pointer that stands for one in some mirror.
pub(crate) const fn points_into(value: u64, span: Span) -> bool {
    value.wrapping_sub(span.cpu.0) & SHARED < span.len
}

/// The second mapping of a memory's spans.
///
/// It keeps the pages, and not the memory.
pub struct Mirror {
    spans: Vec<(Span, *mut u8)>,
}

// SAFETY: the pointers are to memory that is mapped as long as the mirror lives, and that any thread may use.
unsafe impl Send for Mirror {}
// SAFETY: as above; nothing changes after `new`.
unsafe impl Sync for Mirror {}

impl Mirror {
    /// Maps `memory`.
    ///
    /// # Errors
    /// No window of addresses is free, or the operating system's.
    pub fn new(memory: &Memory) -> io::Result<Self> {
        let mut last = io::Error::other("no window of addresses is free");
        for window in LOW_WINDOWS.chain(HIGH_WINDOWS) {
            let mut mirror = Self { spans: Vec::new() };
            match memory.spans().iter().try_for_each(|span| mirror.add(memory, *span, window)) {
                Ok(()) => return Ok(mirror),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn add(&mut self, memory: &Memory, span: Span, window: u64) -> io::Result<()> {
        let region = memory.guest().iter().find(|region| region.start_addr().raw_value() == span.dma.0);
        let region = region.ok_or_else(|| io::Error::other("a span has no memory"))?;
        let wanted = (window << SHARED_BITS | span.cpu.0 & SHARED) as *mut libc::c_void;
        let len = span.len as usize;
        // SAFETY: a new mapping where none is: MAP_FIXED_NOREPLACE refuses to replace one.
        let reserved = unsafe {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
            libc::mmap(wanted, len, libc::PROT_NONE, flags, -1, 0)
        };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if reserved != wanted {
            // A kernel before 4.17 takes the address for a wish.
            // SAFETY: the mapping that was just made.
            unsafe { libc::munmap(reserved, len) };
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let mapped = match region.file_offset() {
            // SAFETY: the pages of the file at the place of the reservation above, which is ours.
            Some(file) => unsafe {
                let (descriptor, start) = (file.file().as_raw_fd(), file.start() as libc::off_t);
                libc::mmap(wanted, len, libc::PROT_READ | libc::PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, start)
            },
            // SAFETY: with an old length of 0 the shared pages of the region get a second mapping and keep the first; it takes
            // the place of the reservation above, which is ours.
            None => unsafe { libc::mremap(region.as_ptr().cast(), 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, wanted) },
        };
        if mapped == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // SAFETY: the reservation above.
            unsafe { libc::munmap(wanted, len) };
            return Err(error);
        }
        self.spans.push((span, mapped.cast()));
        Ok(())
    }

    /// The pointer that stands for an address; one that is no memory's stands for itself.
    #[must_use]
    pub fn pointer(&self, cpu: CpuAddr) -> *mut u8 {
        let within = |(span, _): &&(Span, *mut u8)| cpu.0.wrapping_sub(span.cpu.0) < span.len;
        match self.spans.iter().find(within) {
            Some((span, first)) => first.wrapping_add((cpu.0 - span.cpu.0) as usize),
            None => ptr::without_provenance_mut(cpu.0 as usize),
        }
    }

    /// The address that a pointer stands for.
    #[must_use]
    pub fn address(&self, pointer: *const u8) -> CpuAddr {
        let within = |(span, first): &&(Span, *mut u8)| (pointer.addr().wrapping_sub(first.addr()) as u64) < span.len;
        match self.spans.iter().find(within) {
            Some((span, first)) => span.cpu.offset((pointer.addr() - first.addr()) as u64),
            None => CpuAddr(pointer.addr() as u64),
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        for (span, first) in &self.spans {
            // SAFETY: mapped by `add` with this length; nobody has a pointer into it any more.
            unsafe { libc::munmap(first.cast(), span.len as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use bus::DmaAddr;

    use super::*;

    const SPAN: Span = Span { cpu: CpuAddr(0xffff_0000_4000_8000), dma: DmaAddr(0x8000_0000), len: 0x4000 };

    #[test]
    fn a_pointer_is_the_same_memory_and_ends_like_the_address() {
        let file = tempfile::tempfile().expect("a file");
        for memory in [Memory::new(&[SPAN]), Memory::in_file(&[SPAN], file)] {
            is_the_same(&memory.expect("16 KiB"));
        }
    }

    fn is_the_same(memory: &Memory) {
        let mirror = Mirror::new(memory).expect("a window");
        let (cpu, pointer) = (SPAN.cpu.offset(0x128), mirror.pointer(SPAN.cpu.offset(0x128)));
        assert_eq!(pointer.addr() as u64 & SHARED, cpu.0 & SHARED);
        memory.write(cpu, &[1, 2, 3]).expect("mapped");
        // SAFETY: in the mirror.
        assert_eq!(unsafe { pointer.offset(2).read() }, 3);
        // SAFETY: in the mirror.
        unsafe { pointer.write(9) };
        let mut byte = [0];
        memory.read(cpu, &mut byte).expect("mapped");
        assert_eq!(byte, [9]);
        assert_eq!(mirror.address(pointer), cpu);
    }

    #[test]
    fn two_memories_of_the_same_addresses_have_their_own_windows() {
        let memories = [(); 12].map(|()| Memory::new(&[SPAN]).expect("16 KiB"));
        let mirrors: Vec<_> = memories.iter().map(|memory| Mirror::new(memory).expect("a window")).collect();
        for (number, (memory, mirror)) in memories.iter().zip(&mirrors).enumerate() {
            memory.write(SPAN.cpu, &[number as u8]).expect("mapped");
            // SAFETY: in the mirror.
            assert_eq!(unsafe { mirror.pointer(SPAN.cpu).read() }, number as u8);
        }
    }

    #[test]
    fn an_address_of_no_memory_stands_for_itself() {
        let memory = Memory::new(&[SPAN]).expect("16 KiB");
        let mirror = Mirror::new(&memory).expect("a window");
        let nowhere = SPAN.cpu.offset(SPAN.len);
        assert_eq!(mirror.pointer(nowhere).addr() as u64, nowhere.0);
        assert_eq!(mirror.address(mirror.pointer(nowhere)), nowhere);
    }
}
