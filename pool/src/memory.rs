//! A machine's memory: one array of bytes, two addresses for each.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus::{CpuAddr, DmaAddr};
use thiserror::Error;
use vm_memory::{
    ByteValued, Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion, VolatileMemory,
    VolatileRef, VolatileSlice,
};

/// A stretch of memory and where it lies for the processor and for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Processor's address of the first byte, a multiple of 4 KiB. The last byte may be the last there is.
    pub cpu: CpuAddr,
    /// Devices' address of the first byte, a multiple of 4 KiB. Never equal to `cpu`: mixing the two must fail. Ends below
    /// 2^64.
    pub dma: DmaAddr,
    /// Length in bytes, a multiple of 4 KiB.
    pub len: u64,
}

/// Why memory cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Not a multiple of 4 KiB, empty, or beyond 2^64.
    #[error(
        "span {0:x?}: addresses and length must be multiples of 4 KiB; ends, 2^64 at most, and below it for devices"
    )]
    BadSpan(Span),
    /// Two spans share an address.
    #[error("span {0:x?} overlaps another one")]
    Overlap(Span),
    /// The operating system gave none.
    #[error("no memory from the operating system: {0}")]
    Os(String),
}

/// The processor used an address where there is no memory: a kernel would oops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the processor's address {cpu} is not mapped ({len} bytes)")]
pub struct CpuFault {
    /// First byte.
    pub cpu: CpuAddr,
    /// Length in bytes.
    pub len: u64,
}

/// A machine's memory. Words are little-endian.
pub struct Memory {
    guest: GuestMemoryMmap,
    spans: Vec<Span>,
    /// The bytes of each span: a pool's links are read and written too often to look for them in `guest`.
    regions: Vec<Arc<GuestRegionMmap>>,
}

impl Memory {
    /// Memory in `spans`.
    ///
    /// # Errors
    /// [`MemoryError`], for spans that are misplaced or cannot be had.
    pub fn new(spans: &[Span]) -> Result<Arc<Self>, MemoryError> {
        Self::of(spans, None)
    }

    /// The same in a file, which gets the length of all spans: for who maps it again by its file, where the kernel's own way
    /// for memory without one is not known (valgrind).
    ///
    /// # Errors
    /// [`MemoryError`], for spans that are misplaced or a file that cannot be mapped.
    pub fn in_file(spans: &[Span], file: File) -> Result<Arc<Self>, MemoryError> {
        Self::of(spans, Some(Arc::new(file)))
    }

    fn of(spans: &[Span], file: Option<Arc<File>>) -> Result<Arc<Self>, MemoryError> {
        for (i, &span) in spans.iter().enumerate() {
            let bits = span.cpu.0 | span.dma.0 | span.len;
            let bad = span.len == 0 || bits & 0xfff != 0;
            // Only the processor's addresses may go up to the last: of guest memory the end is an address.
            if bad || span.cpu.0.checked_add(span.len - 1).is_none() || span.dma.0.checked_add(span.len).is_none() {
                return Err(MemoryError::BadSpan(span));
            }
            let overlaps = |a: u64, b: u64, other: &Span| a <= b + (other.len - 1) && b <= a + (span.len - 1);
            if spans[..i].iter().any(|o| overlaps(span.cpu.0, o.cpu.0, o) || overlaps(span.dma.0, o.dma.0, o)) {
                return Err(MemoryError::Overlap(span));
            }
        }
        let mut spans = spans.to_vec();
        spans.sort_by_key(|span| span.dma);
        if let Some(file) = &file {
            let len = spans.iter().map(|span| span.len).sum();
            file.set_len(len).map_err(|error| MemoryError::Os(error.to_string()))?;
        }
        let (mut regions, mut start) = (Vec::with_capacity(spans.len()), 0);
        for span in &spans {
            let part = file.as_ref().map(|file| FileOffset::from_arc(Arc::clone(file), start));
            regions.push(Arc::new(region(span, part)?));
            start += span.len;
        }
        let guest = GuestMemoryMmap::from_arc_regions(regions.clone());
        let guest = guest.map_err(|error| MemoryError::Os(error.to_string()))?;
        Ok(Arc::new(Self { guest, spans, regions }))
    }

    /// No memory at all, for who knows addresses only.
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self { guest: GuestMemoryMmap::default(), spans: Vec::new(), regions: Vec::new() })
    }

    /// The same memory for devices, by their addresses.
    #[must_use]
    pub const fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// Where it lies, by rising DMA address.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The devices' address of a byte.
    #[must_use]
    pub fn dma(&self, cpu: CpuAddr) -> Option<DmaAddr> {
        let within = |span: &&Span| cpu.0.wrapping_sub(span.cpu.0) < span.len;
        self.spans.iter().find(within).map(|span| span.dma.offset(cpu.0 - span.cpu.0))
    }

    /// The devices' address of `len` bytes that are one run for both sides.
    #[must_use]
    pub fn run(&self, cpu: CpuAddr, len: u64) -> Option<DmaAddr> {
        let first = self.dma(cpu)?;
        let mut done = 0;
        while done < len {
            let at = cpu.0.checked_add(done)?;
            let span = self.spans.iter().find(|span| at.wrapping_sub(span.cpu.0) < span.len)?;
            let offset = at - span.cpu.0;
            if span.dma.0 + offset != first.0.checked_add(done)? {
                return None;
            }
            done += (span.len - offset).min(len - done);
        }
        Some(first)
    }

    /// The processor's address of a byte.
    #[must_use]
    pub fn cpu(&self, dma: DmaAddr) -> Option<CpuAddr> {
        let within = |span: &&Span| dma.0.wrapping_sub(span.dma.0) < span.len;
        self.spans.iter().find(within).map(|span| span.cpu.offset(dma.0 - span.dma.0))
    }

    /// Copies bytes from memory.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn read(&self, cpu: CpuAddr, buffer: &mut [u8]) -> Result<(), CpuFault> {
        let fault = CpuFault { cpu, len: buffer.len() as u64 };
        match self.within_span(cpu, buffer.len()) {
            Some(bytes) => {
                bytes.copy_to(buffer);
                Ok(())
            }
            None => self.guest.read_slice(buffer, self.across(fault)?).map_err(|_| fault),
        }
    }

    /// Copies bytes to memory.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn write(&self, cpu: CpuAddr, data: &[u8]) -> Result<(), CpuFault> {
        let fault = CpuFault { cpu, len: data.len() as u64 };
        match self.within_span(cpu, data.len()) {
            Some(bytes) => {
                bytes.copy_from(data);
                Ok(())
            }
            None => self.guest.write_slice(data, self.across(fault)?).map_err(|_| fault),
        }
    }

    /// Fills memory with one byte.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn fill(&self, cpu: CpuAddr, len: u64, byte: u8) -> Result<(), CpuFault> {
        // Blocks are small, pages are not, and both are filled all the time.
        if len <= 256 { self.fill_by(cpu, len, &[byte; 256]) } else { self.fill_by(cpu, len, &[byte; 4096]) }
    }

    fn fill_by(&self, cpu: CpuAddr, len: u64, chunk: &[u8]) -> Result<(), CpuFault> {
        let mut done = 0;
        while done < len {
            let now = (len - done).min(chunk.len() as u64);
            self.write(cpu.offset(done), &chunk[..now as usize])?;
            done += now;
        }
        Ok(())
    }

    /// Reads an aligned word in one access.
    ///
    /// # Errors
    /// [`CpuFault`] if it is not mapped or not aligned.
    pub fn load_u32(&self, cpu: CpuAddr) -> Result<u32, CpuFault> {
        let fault = CpuFault { cpu, len: 4 };
        self.guest.load(self.at(cpu, fault)?, Ordering::Acquire).map(u32::from_le).map_err(|_| fault)
    }

    /// Writes an aligned word in one access.
    ///
    /// # Errors
    /// [`CpuFault`] if it is not mapped or not aligned.
    pub fn store_u32(&self, cpu: CpuAddr, value: u32) -> Result<(), CpuFault> {
        let fault = CpuFault { cpu, len: 4 };
        self.guest.store(value.to_le(), self.at(cpu, fault)?, Ordering::Release).map_err(|_| fault)
    }

    /// Reads a word at any address (an offset inside a block that need not be aligned).
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn read_u32(&self, cpu: CpuAddr) -> Result<u32, CpuFault> {
        if let Some(word) = self.word::<u32>(cpu) {
            return Ok(u32::from_le(word.load()));
        }
        let mut bytes = [0; 4];
        self.read(cpu, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Writes a word at any address.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn write_u32(&self, cpu: CpuAddr, value: u32) -> Result<(), CpuFault> {
        if let Some(word) = self.word::<u32>(cpu) {
            word.store(value.to_le());
            return Ok(());
        }
        self.write(cpu, &value.to_le_bytes())
    }

    /// Reads a double word at any address (a kernel pointer inside a block that need not be aligned).
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn read_u64(&self, cpu: CpuAddr) -> Result<u64, CpuFault> {
        if let Some(word) = self.word::<u64>(cpu) {
            return Ok(u64::from_le(word.load()));
        }
        let mut bytes = [0; 8];
        self.read(cpu, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes a double word at any address.
    ///
    /// # Errors
    /// [`CpuFault`] if a byte is not mapped.
    pub fn write_u64(&self, cpu: CpuAddr, value: u64) -> Result<(), CpuFault> {
        if let Some(word) = self.word::<u64>(cpu) {
            word.store(value.to_le());
            return Ok(());
        }
        self.write(cpu, &value.to_le_bytes())
    }

    /// Where a byte is: the bytes of its span, and its place there.
    fn place(&self, cpu: CpuAddr) -> Option<(&MmapRegion, usize)> {
        let within = |(span, _): &(&Span, _)| cpu.0.wrapping_sub(span.cpu.0) < span.len;
        let (span, region) = self.spans.iter().zip(&self.regions).find(within)?;
        Some((region, (cpu.0 - span.cpu.0) as usize))
    }

    /// Bytes that lie in one span, as nearly all do.
    fn within_span(&self, cpu: CpuAddr, len: usize) -> Option<VolatileSlice<'_>> {
        let (region, offset) = self.place(cpu)?;
        region.get_slice(offset, len).ok()
    }

    /// A word that lies in one span, aligned or not.
    fn word<T: ByteValued>(&self, cpu: CpuAddr) -> Option<VolatileRef<'_, T>> {
        let (region, offset) = self.place(cpu)?;
        region.get_ref(offset).ok()
    }

    /// Where bytes begin that lie in several spans: spans that touch for devices need not touch for the processor.
    fn across(&self, fault: CpuFault) -> Result<GuestAddress, CpuFault> {
        self.run(fault.cpu, fault.len).map(|dma| GuestAddress(dma.0)).ok_or(fault)
    }

    fn at(&self, cpu: CpuAddr, fault: CpuFault) -> Result<GuestAddress, CpuFault> {
        self.dma(cpu).map(|dma| GuestAddress(dma.0)).ok_or(fault)
    }
}

/// Memory of one span. Shared, so that it can be mapped a second time, for code that takes the processor's addresses for
/// pointers.
fn region(span: &Span, file: Option<FileOffset>) -> Result<GuestRegionMmap, MemoryError> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = if file.is_some() { 0 } else { libc::MAP_ANONYMOUS };
    let flags = anonymous | libc::MAP_SHARED | libc::MAP_NORESERVE;
    let mapping = MmapRegion::build(file, span.len as usize, protection, flags)
        .map_err(|error| MemoryError::Os(error.to_string()))?;
    GuestRegionMmap::new(mapping, GuestAddress(span.dma.0)).ok_or(MemoryError::BadSpan(*span))
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("spans", &self.spans).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const SPAN: Span = Span { cpu: CpuAddr(0xffff_0000_4000_0000), dma: DmaAddr(0x8000_0000), len: 0x4000 };

    #[test]
    fn one_byte_has_two_addresses() {
        let memory = Memory::new(&[SPAN]).expect("16 KiB");
        let cpu = SPAN.cpu.offset(0x123 * 4);
        memory.store_u32(cpu, 0x1234_5678).expect("mapped");
        assert_eq!(memory.dma(cpu), Some(SPAN.dma.offset(0x123 * 4)));
        assert_eq!(memory.cpu(SPAN.dma.offset(0x123 * 4)), Some(cpu));
        let mut bytes = [0; 4];
        memory.guest().read_slice(&mut bytes, GuestAddress(SPAN.dma.0 + 0x123 * 4)).expect("mapped");
        assert_eq!(bytes, [0x78, 0x56, 0x34, 0x12]);
    }

    #[test]
    fn memory_in_a_file_is_the_files() {
        let span = |offset| Span { cpu: SPAN.cpu.offset(offset), dma: SPAN.dma.offset(offset), len: 0x1000 };
        let file = tempfile::tempfile().expect("a file");
        // By rising address for devices, whatever the order in which they are named.
        let same = file.try_clone().expect("a descriptor");
        let memory = Memory::in_file(&[span(0x8000), span(0)], same).expect("8 KiB");
        memory.write(SPAN.cpu.offset(0x10), &[1]).expect("mapped");
        memory.write(SPAN.cpu.offset(0x8010), &[2]).expect("mapped");
        let mut bytes = vec![];
        (&file).read_to_end(&mut bytes).expect("it can be read");
        assert_eq!((bytes.len(), bytes[0x10], bytes[0x1010]), (0x2000, 1, 2));
        let nothing = File::open("/dev/null").expect("Linux has it");
        assert!(matches!(Memory::in_file(&[SPAN], nothing), Err(MemoryError::Os(_))));
    }

    #[test]
    fn a_devices_address_is_no_use_to_the_processor() {
        let memory = Memory::new(&[SPAN]).expect("16 KiB");
        let wrong = CpuAddr(SPAN.dma.0);
        assert_eq!(memory.load_u32(wrong), Err(CpuFault { cpu: wrong, len: 4 }));
        let last = SPAN.cpu.offset(SPAN.len - 2);
        assert_eq!(memory.read(last, &mut [0; 4]), Err(CpuFault { cpu: last, len: 4 }));
    }

    #[test]
    fn a_run_is_one_for_both_sides() {
        let span = |cpu, dma| Span { cpu: SPAN.cpu.offset(cpu), dma: SPAN.dma.offset(dma), len: 0x1000 };
        // The first two touch on both sides, the third only for the processor.
        let memory = Memory::new(&[span(0, 0), span(0x1000, 0x1000), span(0x2000, 0x8000)]).expect("12 KiB");
        assert_eq!(memory.run(SPAN.cpu, 0x2000), Some(SPAN.dma));
        assert_eq!(memory.run(SPAN.cpu.offset(0xfff), 2), Some(SPAN.dma.offset(0xfff)));
        assert_eq!(memory.run(SPAN.cpu, 0x2001), None);
        assert_eq!(memory.run(SPAN.cpu.offset(0x2000), 0x1000), Some(SPAN.dma.offset(0x8000)));
        assert_eq!(memory.run(SPAN.cpu.offset(0x2000), 0x1001), None);
        assert_eq!(memory.run(SPAN.cpu, u64::MAX), None);
        assert_eq!(memory.run(SPAN.cpu.offset(0x3000), 0), None);
    }

    #[test]
    fn copies_go_where_both_sides_go() {
        let span = |cpu, dma| Span { cpu: SPAN.cpu.offset(cpu), dma: SPAN.dma.offset(dma), len: 0x1000 };
        // The first two touch on both sides, the third only for devices.
        let memory = Memory::new(&[span(0, 0), span(0x1000, 0x1000), span(0x8000, 0x2000)]).expect("12 KiB");
        let (mut bytes, at) = ([0; 8], SPAN.cpu.offset(0xffc));
        memory.write(at, &[1, 2, 3, 4, 5, 6, 7, 8]).expect("mapped");
        memory.read(at, &mut bytes).expect("mapped");
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8]);
        let at = SPAN.cpu.offset(0x1ffc);
        assert_eq!(memory.write(at, &[9; 8]), Err(CpuFault { cpu: at, len: 8 }));
        assert_eq!(memory.read(at, &mut bytes), Err(CpuFault { cpu: at, len: 8 }));
        memory.read(SPAN.cpu.offset(0x8000), &mut bytes).expect("mapped");
        assert_eq!(bytes, [0; 8], "behind it for devices");
    }

    /// Links need not be aligned, and a pool whose spans touch may have one across their border.
    #[test]
    fn words_are_read_as_they_were_written_wherever_they_lie() {
        let span = |offset| Span { cpu: SPAN.cpu.offset(offset), dma: SPAN.dma.offset(offset), len: 0x1000 };
        let memory = Memory::new(&[span(0), span(0x1000)]).expect("8 KiB");
        for at in [0, 6, 0xff9, 0xffd, 0xfff, 0x1000] {
            let at = SPAN.cpu.offset(at);
            memory.write_u64(at, 0x0123_4567_89ab_cdef).expect("mapped");
            assert_eq!(memory.read_u64(at), Ok(0x0123_4567_89ab_cdef), "{at}");
            assert_eq!(memory.read_u32(at), Ok(0x89ab_cdef), "little-endian at {at}");
            memory.write_u32(at, 0x7654_3210).expect("mapped");
            assert_eq!(memory.read_u64(at), Ok(0x0123_4567_7654_3210), "{at}");
        }
        let end = SPAN.cpu.offset(0x1ffd);
        assert_eq!(memory.read_u32(end), Err(CpuFault { cpu: end, len: 4 }));
        assert_eq!(memory.write_u64(end, 1), Err(CpuFault { cpu: end, len: 8 }));
    }

    #[test]
    fn spans_up_to_the_last_address() {
        let last = Span { cpu: CpuAddr(u64::MAX - 0x3fff), dma: DmaAddr(u64::MAX - 0x4fff), len: 0x4000 };
        let first = Span { cpu: CpuAddr(0), dma: DmaAddr(0x1000), len: 0x1000 };
        let memory = Memory::new(&[last, SPAN, first]).expect("three apart");
        assert_eq!(Memory::new(&[first, SPAN, last]).expect("the same").spans(), memory.spans());
        let end = CpuAddr(u64::MAX - 3);
        memory.store_u32(end, 7).expect("mapped");
        assert_eq!(memory.load_u32(end), Ok(7));
        assert_eq!(memory.write(end, &[0; 5]), Err(CpuFault { cpu: end, len: 5 }), "it does not wrap");
        assert_eq!(memory.fill(end, 5, 0), Err(CpuFault { cpu: end, len: 5 }));
        assert_eq!((memory.run(last.cpu, 0x4000), memory.run(last.cpu, 0x4001)), (Some(last.dma), None));
        let inside = Span { cpu: CpuAddr(u64::MAX - 0xfff), dma: DmaAddr(0x10_0000), len: 0x1000 };
        for spans in [[last, inside], [inside, last]] {
            assert_eq!(Memory::new(&spans).err(), Some(MemoryError::Overlap(spans[1])));
        }
        let over = Span { dma: DmaAddr(u64::MAX - 0x3fff), ..last };
        assert_eq!(Memory::new(&[SPAN, over]).err(), Some(MemoryError::BadSpan(over)));
    }

    #[test]
    fn misplaced_spans_are_refused() {
        let odd = Span { dma: DmaAddr(0x8000_0010), ..SPAN };
        assert_eq!(Memory::new(&[odd]).err(), Some(MemoryError::BadSpan(odd)));
        let twice = Span { cpu: CpuAddr(0), ..SPAN };
        assert_eq!(Memory::new(&[SPAN, twice]).err(), Some(MemoryError::Overlap(twice)));
        let far = Span { dma: DmaAddr(u64::MAX - 0xfff), ..SPAN };
        assert_eq!(Memory::new(&[far]).err(), Some(MemoryError::BadSpan(far)));
    }
}
