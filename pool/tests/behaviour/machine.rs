//! A small machine for tests.

use std::fmt;
use std::sync::Arc;

use bus::{Access, AccessKind, Belief, CpuAddr, DmaAddr, Kind, Owner, Watch};
use pool::{DmaPool, Geometry, Ledger, Memory, PageAllocator, PageOrder, PageSource, Policy, Span};
use vm_memory::{Bytes, GuestAddress};

/// Where devices see the machine's memory.
pub(crate) const DMA: u64 = 0x8000_0000;
/// Where the processor does.
pub(crate) const CPU: u64 = 0xffff_8000_4000_0000;

/// Queue heads, for claims and beliefs.
pub(crate) static QUEUE_HEAD: Kind =
    Kind { name: "dQH", label: |index, f: &mut fmt::Formatter<'_>| write!(f, "dQH {index}") };

/// Memory, its pages and a ledger.
pub(crate) struct Machine {
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<PageAllocator>,
    pub(crate) source: Arc<dyn PageSource>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Machine {
    /// 4 MiB, pages of 4 KiB in ascending order.
    pub(crate) fn new() -> Self {
        Self::with(4096, PageOrder::Forward)
    }

    pub(crate) fn with(page_size: u64, order: PageOrder) -> Self {
        let span = Span { cpu: CpuAddr(CPU), dma: DmaAddr(DMA), len: 4 << 20 };
        let memory = Memory::new(&[span]).expect("4 MiB");
        let pages = PageAllocator::new(Arc::clone(&memory), page_size, u64::MAX, order);
        let source: Arc<dyn PageSource> = Arc::clone(&pages) as _;
        let ledger = Ledger::new(Arc::clone(&memory));
        Self { memory, pages, source, ledger }
    }

    pub(crate) fn pool(&self, policy: &Policy, geometry: Geometry) -> DmaPool {
        DmaPool::create("pool", policy, geometry, &self.memory, &self.source, &self.ledger).expect("a right geometry")
    }

    /// What a device reads.
    pub(crate) fn device_reads(&self, addr: DmaAddr, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.guest().read_slice(&mut bytes, GuestAddress(addr.0)).expect("memory");
        bytes
    }

    /// A device's write, seen by nobody.
    pub(crate) fn device_writes(&self, addr: DmaAddr, bytes: &[u8]) {
        self.memory.guest().write_slice(bytes, GuestAddress(addr.0)).expect("memory");
    }

    /// The ledger sees a device's access.
    pub(crate) fn access(&self, kind: AccessKind, addr: DmaAddr, len: u64) {
        self.ledger.access(&Access { addr, len, kind, belief: Belief::new(&QUEUE_HEAD, 3, "token") });
    }

    /// A device's write, which the ledger sees.
    pub(crate) fn device_stores(&self, addr: DmaAddr, bytes: &[u8]) {
        let (len, belief) = (bytes.len() as u64, Belief::new(&QUEUE_HEAD, 3, "token"));
        self.ledger.write(&Access { addr, len, kind: AccessKind::Write, belief }, bytes);
        self.device_writes(addr, bytes);
    }

    /// The names of what was found, in order.
    pub(crate) fn found(&self) -> Vec<&'static str> {
        self.ledger.findings().iter().map(pool::Finding::name).collect()
    }
}

/// The claim of a queue head.
pub(crate) fn queue_head(index: u32) -> Owner {
    Owner::new(&QUEUE_HEAD, index)
}

pub(crate) fn geometry(size: u64, align: u64, boundary: u64) -> Geometry {
    Geometry { size, align, boundary }
}
