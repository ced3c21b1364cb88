//! A tiny driver side: memory, an interrupt line, a watch, and registers at offsets of its own.

// Each test binary uses its part of it.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bus::{Access, DmaAddr, Event, IrqLine, LayoutContract, Mmio, Trace, TraceSink, Watch};
use chipidea_sim::{Chipidea, Config, Layout};
use devices::{DmaFault, DmaPort};
use parking_lot::Mutex;
use usb::wire::{DataPid, Handshake, HostAck, InReply, PortListener, Target};
use usb::{EndpointAddress, Speed, UsbPort};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

pub const BASE: u32 = 0x8000_0000;
pub const HEADS: u32 = BASE + 0x1000;
pub const DTDS: u32 = BASE + 0x2000;
pub const BUFFERS: u32 = BASE + 0x1_0000;

pub const T: u32 = 1;
pub const ACTIVE: u32 = 1 << 7;
pub const HALTED: u32 = 1 << 6;
pub const DT_ERR: u32 = 1 << 5;
pub const TR_ERR: u32 = 1 << 3;
pub const IOC: u32 = 1 << 15;

pub const IOS: u32 = 1 << 15;
pub const ZLT: u32 = 1 << 29;

pub const UI: u32 = 1;
pub const UEI: u32 = 1 << 1;
pub const PCI: u32 = 1 << 2;
pub const SEI: u32 = 1 << 4;
pub const URI: u32 = 1 << 6;
pub const SLI: u32 = 1 << 8;

pub const RS: u32 = 1;
pub const RST: u32 = 2;
pub const SUTW: u32 = 1 << 13;
pub const ATDTW: u32 = 1 << 14;

/// Operational registers as `ci_regs_nolpm` and `ci_regs_lpm` of Linux have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum R {
    Cmd,
    Sts,
    Intr,
    FrIndex,
    Addr,
    List,
    Ulpi,
    PortSc,
    DevLc,
    OtgSc,
    Mode,
    SetupStat,
    Prime,
    Flush,
    Stat,
    Complete,
    Ctrl(u8),
}

impl R {
    pub fn offset(self, lpm: bool) -> u64 {
        let (non_lpm, with_lpm) = match self {
            Self::Cmd => (0x00, 0x00),
            Self::Sts => (0x04, 0x04),
            Self::Intr => (0x08, 0x08),
            Self::FrIndex => (0x0c, 0x0c),
            Self::Addr => (0x14, 0x14),
            Self::List => (0x18, 0x18),
            Self::Ulpi => (0x30, 0x30),
            Self::PortSc => (0x44, 0x44),
            Self::DevLc => (0x84, 0x84),
            Self::OtgSc => (0x64, 0xc4),
            Self::Mode => (0x68, 0xc8),
            Self::SetupStat => (0x6c, 0xd8),
            Self::Prime => (0x70, 0xdc),
            Self::Flush => (0x74, 0xe0),
            Self::Stat => (0x78, 0xe4),
            Self::Complete => (0x7c, 0xe8),
            Self::Ctrl(n) => (0x80 + 4 * u64::from(n), 0xec + 4 * u64::from(n)),
        };
        if lpm { with_lpm } else { non_lpm }
    }
}

#[derive(Default)]
pub struct Line {
    pub level: AtomicBool,
    pub rises: AtomicU32,
}

impl IrqLine for Line {
    fn set(&self, asserted: bool) {
        if !self.level.swap(asserted, Ordering::SeqCst) && asserted {
            self.rises.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Keeps what it is shown, as text.
#[derive(Default)]
pub struct Log(pub Mutex<Vec<String>>);

impl Log {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Watch for Log {
    fn access(&self, access: &Access) {
        self.0.lock().push(format!("{:?} {} {}", access.kind, access.len, access.belief));
    }

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        self.0.lock().push(format!("layout {} {written} {count}", contract.register));
    }
}

impl TraceSink for Log {
    fn record(&self, source: &'static str, event: &dyn Event) {
        self.0.lock().push(format!("{source}: {event}"));
    }
}

impl PortListener for Log {
    fn attach_changed(&self) {
        self.0.lock().push("attach changed".to_owned());
    }

    fn ready(&self, endpoint: EndpointAddress) {
        self.0.lock().push(format!("ready {endpoint}"));
    }

    fn remote_wakeup(&self) {
        self.0.lock().push("remote wakeup".to_owned());
    }
}

pub struct Board {
    pub memory: Arc<GuestMemoryMmap>,
    pub sim: Arc<Chipidea>,
    pub irq: Arc<Line>,
    pub watch: Arc<Log>,
    op: u64,
    lpm: bool,
}

impl Board {
    pub fn new(config: Config) -> Self {
        Self::build(config, Vec::new(), Trace::off())
    }

    pub fn build(config: Config, faults: Vec<DmaFault>, trace: Trace) -> Self {
        let watch = Arc::new(Log::default());
        let shown = watch.clone();
        Self::over(config, watch, |port| port.watched(shown).with_faults(faults).traced(trace))
    }

    /// Without a watch.
    pub fn unwatched(config: Config) -> Self {
        Self::over(config, Arc::default(), |port| port)
    }

    fn over(config: Config, watch: Arc<Log>, port: impl FnOnce(DmaPort) -> DmaPort) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(u64::from(BASE)), 0x10_0000)]).expect("1 MiB");
        let memory = Arc::new(memory);
        let irq = Arc::new(Line::default());
        let dma = port(DmaPort::new("chipidea", memory.clone()));
        let (op, lpm) = (u64::from(config.cap_offset) + 0x40, config.layout == Layout::Lpm);
        let sim = Chipidea::new(config, dma, irq.clone());
        Self { memory, sim, irq, watch, op, lpm }
    }

    /// Powered, started as ci_hdrc does it, and reset by a host that can do `max`; nothing pending.
    pub fn running(config: Config, max: Speed) -> Self {
        Self::started(Self::new(config), max)
    }

    pub fn started(self, max: Speed) -> Self {
        self.sim.set_vbus(true);
        self.start();
        assert!(self.bus_reset(max).is_some(), "attached");
        self.w(R::Sts, !0);
        self
    }

    pub fn high() -> Self {
        Self::running(Config::default(), Speed::High)
    }

    pub fn start(&self) {
        self.w(R::Cmd, RST);
        self.w(R::Mode, 2);
        self.w(R::Mode, 2 | 8);
        self.head(0, IOS | ZLT | 64 << 16);
        self.head(1, IOS | ZLT | 64 << 16);
        self.w(R::List, HEADS);
        self.w(R::Intr, UI | UEI | PCI | SEI | URI | SLI);
        self.w(R::Cmd, self.r(R::Cmd) | RS);
    }

    pub fn r(&self, register: R) -> u32 {
        self.sim.read32(self.op + register.offset(self.lpm))
    }

    pub fn w(&self, register: R, value: u32) {
        self.sim.write32(self.op + register.offset(self.lpm), value);
    }

    pub fn bus_reset(&self, max: Speed) -> Option<Speed> {
        UsbPort::reset(&*self.sim, max)
    }

    pub fn level(&self) -> bool {
        self.irq.level.load(Ordering::SeqCst)
    }

    pub fn peek(&self, at: u32) -> u32 {
        self.memory.read_obj(GuestAddress(u64::from(at))).expect("memory")
    }

    pub fn poke(&self, at: u32, value: u32) {
        self.memory.write_obj(value, GuestAddress(u64::from(at))).expect("memory");
    }

    pub fn bytes(&self, at: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(u64::from(at))).expect("memory");
        bytes
    }

    pub fn fill(&self, at: u32, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(u64::from(at))).expect("memory");
    }

    /// Enables both directions of endpoint `n` as bulk, with a max packet of `max` and ZLT.
    pub fn bulk(&self, n: u8, max: u32) {
        self.head(2 * u32::from(n), ZLT | max << 16);
        self.head(2 * u32::from(n) + 1, ZLT | max << 16);
        self.w(R::Ctrl(n), 0x00c8_00c8);
    }

    /// A dQH with an empty list.
    pub fn head(&self, slot: u32, capabilities: u32) {
        let at = HEADS + 64 * slot;
        self.fill(at, &[0; 64]);
        self.poke(at, capabilities);
        self.poke(at + 8, T);
    }

    /// The `index`-th dTD: `len` bytes at `buffer`, last of its list.
    pub fn dtd(&self, index: u32, buffer: u32, len: u32, flags: u32) -> u32 {
        let at = dtd(index);
        self.poke(at, T);
        self.poke(at + 4, len << 16 | ACTIVE | flags);
        self.poke(at + 8, buffer);
        for page in 1..5 {
            self.poke(at + 8 + 4 * page, (buffer & !0xfff) + 0x1000 * page);
        }
        at
    }

    pub fn link(&self, from: u32, to: u32) {
        self.poke(dtd(from), dtd(to));
    }

    /// Puts the dTD at `at` into the dQH of `slot` and primes it.
    pub fn prime(&self, slot: u32, at: u32) {
        let head = HEADS + 64 * slot;
        self.poke(head + 8, at);
        self.poke(head + 12, self.peek(head + 12) & !(ACTIVE | HALTED));
        self.w(R::Prime, bit(slot));
        assert_eq!(self.r(R::Prime), 0, "prime clears itself");
    }

    pub fn token(&self, index: u32) -> u32 {
        self.peek(dtd(index) + 4)
    }

    pub fn setup(&self, bytes: [u8; 8]) -> Handshake {
        self.sim.setup(ep(0), &bytes)
    }

    pub fn out(&self, n: u8, pid: DataPid, data: &[u8]) -> Handshake {
        self.sim.data_out(ep(n), pid, data)
    }

    pub fn input(&self, n: u8) -> (InReply, Vec<u8>) {
        let mut buffer = vec![0; 1024];
        let reply = self.sim.data_in(ep(n), &mut buffer, HostAck::Sent);
        if let InReply::Data { len, .. } = reply {
            buffer.truncate(len);
        } else {
            buffer.clear();
        }
        (reply, buffer)
    }
}

pub const fn dtd(index: u32) -> u32 {
    DTDS + 64 * index
}

pub const fn bit(slot: u32) -> u32 {
    1 << (slot / 2 + 16 * (slot & 1))
}

pub const fn ep(endpoint: u8) -> Target {
    Target { address: 0, endpoint }
}

pub const fn data(pid: DataPid, len: usize) -> InReply {
    InReply::Data { pid, len }
}
