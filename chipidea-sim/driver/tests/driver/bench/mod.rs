//! A machine with the model, the driver, a gadget, and a host that moves packets by hand.

mod gadget;
mod host;
mod wire;

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr, Mmio};
use chipidea_driver::{ChipideaUdc, Config, DqhSource};
use chipidea_sim::Chipidea;
use devices::DmaPort;
use pool::{DmaApi, Ledger, Memory, PageAllocator, PageOrder, Policy, Span};
use usb::{UdcDriver, UsbPort};

pub(crate) use gadget::{Event, TestGadget};
pub(crate) use host::{Host, HostError};
pub(crate) use wire::{Access, Line, Tap};

/// 16 MiB whose device addresses are below 4 GiB and never equal to the processor's.
const SPAN: Span = Span { cpu: CpuAddr(0xffff_8880_0400_0000), dma: DmaAddr(0x8000_0000), len: 16 << 20 };

/// What a bench is made of.
pub(crate) struct Parts {
    pub(crate) policy: Policy,
    /// The processor's address of memory.
    pub(crate) cpu: CpuAddr,
    pub(crate) config: Config,
    pub(crate) model: chipidea_sim::Config,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            policy: Policy::current(),
            cpu: SPAN.cpu,
            config: Config::default(),
            model: chipidea_sim::Config::default(),
        }
    }
}

impl Parts {
    pub(crate) fn endpoints(endpoints: u8) -> Self {
        Self { model: chipidea_sim::Config { endpoints, ..chipidea_sim::Config::default() }, ..Self::default() }
    }

    pub(crate) fn static_heads(self) -> Self {
        Self { config: Config { dqh_source: DqhSource::Static, ..self.config }, ..self }
    }
}

/// Memory with a ledger and pages.
pub(crate) struct Machine {
    pub(crate) memory: Arc<Memory>,
    pub(crate) source: Arc<PageAllocator>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) api: DmaApi,
}

impl Machine {
    pub(crate) fn new(policy: Policy) -> Self {
        Self::at(SPAN.cpu, policy)
    }

    fn at(cpu: CpuAddr, policy: Policy) -> Self {
        let memory = Memory::new(&[Span { cpu, ..SPAN }]).expect("16 MiB");
        let source = PageAllocator::new(Arc::clone(&memory), 4096, u64::from(u32::MAX), PageOrder::Forward);
        let ledger = Ledger::new(Arc::clone(&memory));
        let api = DmaApi::new(Arc::clone(&memory), Arc::clone(&source) as _, policy, Arc::clone(&ledger));
        Self { memory, source, ledger, api }
    }

    /// Nothing is allocated or mapped, and nothing was wrong.
    pub(crate) fn assert_clean(&self) {
        let findings = self.ledger.findings();
        assert!(findings.is_empty(), "{findings:#?}");
        self.assert_nothing_leaked();
    }

    pub(crate) fn assert_nothing_leaked(&self) {
        assert_eq!(self.ledger.live_blocks(), []);
        assert_eq!(self.ledger.live_mappings(), []);
    }
}

/// Everything put together.
pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) model: Arc<Chipidea>,
    pub(crate) line: Arc<Line>,
    pub(crate) tap: Arc<Tap>,
    pub(crate) udc: ChipideaUdc,
    pub(crate) gadget: TestGadget,
    pub(crate) host: Host,
}

impl Bench {
    pub(crate) fn of(parts: Parts) -> Self {
        let Parts { policy, cpu, config, model } = parts;
        let machine = Machine::at(cpu, policy);
        let line = Arc::new(Line::default());
        let guest = Arc::new(machine.memory.guest().clone());
        let dma = DmaPort::new("chipidea", guest).watched(Arc::clone(&machine.ledger) as _);
        let model = Chipidea::new(model, dma, Arc::clone(&line) as _);
        let tap = Arc::new(Tap::new(Arc::clone(&model) as Arc<dyn Mmio>));
        let api = machine.api.clone().preempted(Arc::clone(&tap) as _);
        let udc = ChipideaUdc::probe(Arc::clone(&tap) as _, api, config).expect("the driver probes");
        let host = Host::new(Arc::clone(&model) as Arc<dyn UsbPort>);
        Self { machine, model, line, tap, udc, gadget: TestGadget::default(), host }
    }

    /// Started, VBUS on, and after the first bus reset.
    pub(crate) fn attached(parts: Parts) -> Self {
        let mut bench = Self::of(parts);
        bench.udc.start().expect("the controller starts");
        bench.model.set_vbus(true);
        bench.run();
        assert!(bench.model.attached().is_some());
        bench.bus_reset();
        bench
    }

    /// Configured: endpoint 1 both ways, bulk.
    pub(crate) fn configured(parts: Parts) -> Self {
        let mut bench = Self::attached(parts);
        bench.control_out([0, 5, 9, 0, 0, 0, 0, 0], &[]).expect("SET_ADDRESS");
        bench.host.address = 9;
        bench.control_out([0, 9, 1, 0, 0, 0, 0, 0], &[]).expect("SET_CONFIGURATION");
        bench
    }

    /// Lets the processor handle what interrupts.
    pub(crate) fn run(&mut self) {
        while self.line.is_up() {
            let before = self.tap.accesses();
            self.udc.irq(&mut self.gadget);
            assert!(self.tap.accesses() - before < 100_000, "the interrupt handler ends");
        }
        self.udc.deliver(&mut self.gadget);
    }

    /// The processor's address of the dQH in `slot`.
    pub(crate) fn head_address(&self, slot: u64) -> CpuAddr {
        let list = self.udc.engine().list_address();
        self.machine.memory.cpu(list.offset(64 * slot)).expect("a dQH")
    }

    /// The word at byte `offset` of the dQH in `slot`.
    pub(crate) fn head(&self, slot: u64, offset: u64) -> u32 {
        self.machine.memory.load_u32(self.head_address(slot).offset(offset)).expect("a dQH")
    }

    pub(crate) fn bus_reset(&mut self) {
        self.host.reset();
        self.run();
    }

    /// A control transfer with data IN.
    pub(crate) fn control_in(&mut self, setup: [u8; 8]) -> Result<Vec<u8>, HostError> {
        let mut control = self.host.begin_in(setup)?;
        loop {
            self.run();
            match self.host.advance_in(&mut control)? {
                Some(data) => {
                    self.run();
                    return Ok(data);
                }
                None => continue,
            }
        }
    }

    /// A control transfer with data OUT, or none.
    pub(crate) fn control_out(&mut self, setup: [u8; 8], data: &[u8]) -> Result<(), HostError> {
        let mut control = self.host.begin_out(setup, data)?;
        loop {
            self.run();
            if self.host.advance_out(&mut control)? {
                self.run();
                return Ok(());
            }
        }
    }

    /// Bulk IN until a short packet or `most` bytes, running the processor while it gets NAK.
    pub(crate) fn bulk_in(&mut self, endpoint: u8, most: usize) -> Result<Vec<u8>, HostError> {
        let mut data = Vec::new();
        for _ in 0..100 {
            let done = self.host.bulk_in(endpoint, most, &mut data)?;
            self.run();
            if done {
                return Ok(data);
            }
        }
        Err(HostError::Timeout)
    }

    /// Bulk OUT of everything.
    pub(crate) fn bulk_out(&mut self, endpoint: u8, data: &[u8]) -> Result<(), HostError> {
        let mut sent = 0;
        for _ in 0..100 {
            sent += self.host.bulk_out(endpoint, &data[sent..])?;
            self.run();
            if sent == data.len() {
                return Ok(());
            }
        }
        Err(HostError::Timeout)
    }

    pub(crate) fn shut_down(mut self) -> Machine {
        self.udc.shutdown().expect("everything is given back");
        self.udc.deliver(&mut self.gadget);
        assert_eq!(self.udc.take_log(), [""; 0]);
        self.machine
    }
}

/// Bytes that show where they belong.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ i >> 13) as u8).collect()
}
