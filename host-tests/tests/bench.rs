//! The bench tells what it cannot do, and judges what it sees.

use std::sync::Arc;

use gadgets::{EthernetConfig, EthernetGadget};
use pool::{AllocError, Block, CreateError, DestroyError, Flags, FreeError, Policy, Pool};
use scenarios::{Bench, BenchError, CheckOptions, CpuAddr, DriverSide, Failure, Status, Verdict};
use usb::ch9::{EndpointDescriptor, TransferType};
use usb::gadget::{Completion, Gadget, QueueError, Request, Stall, Udc, UdcDriver, UdcError};
use usb::{EndpointAddress, SetupPacket, Speed};

#[test]
fn a_bench_that_cannot_be_set_up_says_why() {
    let run = |endpoints| Bench::new().endpoints(endpoints).run("ecm").map(drop);
    assert_eq!(run(3), Err(BenchError::TooFewEndpoints { scenario: "ecm".into(), needed: 4, endpoints: 3 }));
    let session = |endpoints| Bench::new().endpoints(endpoints).session("none", async |_| Ok(())).map(drop);
    assert_eq!(session(1), Err(BenchError::Endpoints(1)));
    assert_eq!(session(17), Err(BenchError::Endpoints(17)));
    for page_size in [0, 3, 100, 2048, 4097, 8192, 1 << 20] {
        let run = Bench::new().page_size(page_size).run("stall").map(drop);
        assert_eq!(run, Err(BenchError::PageSize(page_size)));
    }
    for bits in [0, 31, 65] {
        let run = Bench::new().dma_mask(bits).run("stall").map(drop);
        assert_eq!(run, Err(BenchError::DmaMask(bits)));
    }
    // With memory above 4 GiB the processor's addresses go on 2 GiB behind the base.
    for base in [0xffff_ffff_8000_0000, 0xffff_f000, 0x1_0000_0000, 0x1000] {
        let run = |bits| Bench::new().cpu_base(CpuAddr(base)).dma_mask(bits).run("stall").map(drop);
        assert_eq!(run(40), Err(BenchError::HighMemory(CpuAddr(base))), "{base:#x}");
        assert_eq!(run(32), Ok(()), "{base:#x}");
    }
    for base in [0, 1, 0x8000_0000, 0x7fff_f000, 0x80ff_f000, u64::MAX - 0xfff] {
        let base = CpuAddr(base);
        assert_eq!(Bench::new().cpu_base(base).run("stall").map(drop), Err(BenchError::CpuBase(base)));
    }
    let scenario = scenarios::scenario::by_name("ecm").expect("a scenario of the table");
    let traced = Bench::new().endpoints(3).trace_scenario(&*scenario).map(drop);
    assert!(matches!(traced, Err(BenchError::TooFewEndpoints { .. })), "{traced:?}");
    let check = |options: CheckOptions| scenarios::check(&options, &|_, _| {}).map(drop);
    let none = check(CheckOptions { pools: Vec::new(), ..CheckOptions::default() });
    assert_eq!(none, Err(BenchError::Nothing("pool")));
    let wrong = check(CheckOptions { scenarios: vec!["emc".to_owned()], ..CheckOptions::default() });
    assert!(matches!(wrong, Err(BenchError::UnknownScenario { .. })), "{wrong:?}");
    let unknown = Bench::new().run("emc").map(drop).map_err(|error| error.to_string());
    assert!(unknown.is_err_and(|text| text.contains("there is no scenario emc; there are: bootloader-to-ethernet")));
}

#[test]
fn a_run_that_does_not_use_the_pool_is_inconclusive() {
    let run = Bench::new().session("idle", async |_| Ok(())).expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::Inconclusive);
    assert!(run.reason()[0].starts_with("too little was exercised"), "{:?}", run.reason());
}

#[test]
fn a_failure_without_a_finding_is_inconclusive() {
    let run = Bench::new().session("unlucky", async |session| {
        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
        session.enumerated().await?;
        Err(Failure::new("no luck"))
    });
    let run = run.expect("the bench can be set up");
    assert_eq!((run.verdict, run.failure), (Verdict::Inconclusive, Some(Failure::new("no luck"))));
}

#[test]
fn a_scenario_that_waits_for_ever_is_ended() {
    let run = Bench::new().session("patient", async |session| {
        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
        std::future::pending().await
    });
    let run = run.expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::Inconclusive);
    assert_eq!(run.failure, Some(Failure::new("no end after 3600 s of virtual time")));
}

#[test]
fn a_board_is_booted_once() {
    let run = Bench::new().session("twice", async |session| {
        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
        session.boot(EthernetGadget::new(EthernetConfig::default()))
    });
    let failure = run.expect("the bench can be set up").failure.expect("the second boot fails");
    assert!(failure.error.starts_with("the board runs already"), "{failure}");
}

#[test]
fn a_call_on_the_board_from_inside_one_is_refused() {
    let run = Bench::new().session("inside", async |session| {
        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
        let inside = session.on_board(|_, _| (session.on_board(|_, _| ()), session.halt()));
        let Some((None, Err(_))) = inside else { return Err(Failure::new(format!("{inside:?}"))) };
        session.enumerated().await.map(drop)
    });
    let run = run.expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?}", run.failure);
}

/// Linux's driver, which keeps everything at shutdown.
struct Keeper(chipidea_driver::ChipideaUdc);

impl UdcDriver for Keeper {
    fn irq(&mut self, gadget: &mut dyn Gadget) {
        self.0.irq(gadget);
    }

    fn deliver(&mut self, gadget: &mut dyn Gadget) -> bool {
        self.0.deliver(gadget)
    }

    fn shutdown(&mut self) -> Result<(), UdcError> {
        Ok(())
    }
}

#[rustfmt::skip]
impl Udc for Keeper {
    fn name(&self) -> &str { self.0.name() }
    fn max_speed(&self) -> Speed { self.0.max_speed() }
    fn endpoints(&self) -> u8 { self.0.endpoints() }
    fn speed(&self) -> Option<Speed> { self.0.speed() }
    fn enable(&mut self, descriptor: &EndpointDescriptor) -> Result<(), UdcError> { self.0.enable(descriptor) }
    fn disable(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> { self.0.disable(endpoint) }
    fn queue(&mut self, endpoint: EndpointAddress, request: Request) -> Result<(), QueueError> { self.0.queue(endpoint, request) }
    fn dequeue(&mut self, endpoint: EndpointAddress, id: u64) -> Result<(), UdcError> { self.0.dequeue(endpoint, id) }
    fn set_halt(&mut self, endpoint: EndpointAddress, halt: bool) -> Result<(), UdcError> { self.0.set_halt(endpoint, halt) }
    fn set_wedge(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> { self.0.set_wedge(endpoint) }
    fn flush(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> { self.0.flush(endpoint) }
    fn set_self_powered(&mut self, on: bool) { self.0.set_self_powered(on) }
    fn pullup(&mut self, on: bool) -> Result<(), UdcError> { self.0.pullup(on) }
    fn wakeup(&mut self) -> Result<(), UdcError> { self.0.wakeup() }
}

#[test]
fn a_driver_that_keeps_everything_leaks() {
    let keeper = |side: DriverSide| -> Result<Box<dyn UdcDriver>, UdcError> {
        let mut driver = chipidea_driver::ChipideaUdc::probe(side.mmio, side.dma, Default::default())?;
        driver.start()?;
        Ok(Box::new(Keeper(driver)))
    };
    for scenario in ["bootloader-to-ethernet", "ecm", "replug", "stall"] {
        let run = Bench::new().driver("keeper", keeper).run(scenario).expect("the bench can be set up");
        assert_eq!(run.verdict, Verdict::ClientAssumptionViolated, "{scenario}: {:?}", run.failure);
        assert_eq!(run.first_finding().map(|finding| finding.name()), Some("Leaked"), "{scenario}");
    }
}

/// A gadget that takes back in every completion what it queues there.
struct Restless;

impl Gadget for Restless {
    fn setup(&mut self, udc: &mut dyn Udc, _: SetupPacket) -> Result<(), Stall> {
        let bulk = EndpointAddress::out(1);
        // A refusal would end it, and fail the test.
        let _ = udc.enable(&EndpointDescriptor::new(bulk, TransferType::Bulk, 512, 0));
        let _ = udc.queue(bulk, Request { data: vec![0; 512], ..Request::default() });
        let _ = udc.dequeue(bulk, 0);
        Err(Stall)
    }

    fn complete(&mut self, udc: &mut dyn Udc, _: Completion) {
        let _ = self.setup(udc, SetupPacket::new(0, 0, 0, 0, 0));
    }

    fn reset(&mut self, _: &mut dyn Udc) {}
    fn disconnect(&mut self, _: &mut dyn Udc) {}
}

#[test]
fn a_gadget_that_never_rests_is_stopped() {
    let run = Bench::new().session("restless", async |session| {
        session.boot(Restless)?;
        session.enumerated().await.map(drop)
    });
    let run = run.expect("the bench can be set up");
    assert_ne!(run.verdict, Verdict::NoFailureFound);
    assert!(run.board_log.iter().any(|line| line.contains("the gadget is stopped")), "{:?}", run.board_log);
}

/// A pool that works, and fails in one way.
struct Spoilt<P>(P, Spoil);

#[derive(Clone, Copy)]
enum Spoil {
    /// Zeroed blocks are not.
    Zeroing,
    /// The n-th block and all behind it cannot be had.
    Exhausted(u32),
    /// Every block overlaps the one before.
    Overlap,
}

struct Inner {
    pool: Box<dyn Pool>,
    count: std::sync::atomic::AtomicU32,
    memory: Arc<pool::Memory>,
}

impl Pool for Spoilt<Inner> {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let Self(inner, spoil) = self;
        let count = inner.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match *spoil {
            Spoil::Exhausted(from) if count >= from => Err(AllocError::Other("no more blocks".into())),
            Spoil::Exhausted(_) => inner.pool.alloc(flags),
            Spoil::Zeroing => {
                let block = inner.pool.alloc(flags)?;
                inner
                    .memory
                    .fill(block.cpu.offset(8), 8, 0x5a)
                    .map_err(|fault| AllocError::Other(fault.to_string()))?;
                Ok(block)
            }
            Spoil::Overlap => {
                let Block { cpu, dma } = inner.pool.alloc(flags)?;
                let back = if count % 2 == 1 { 64_u64.wrapping_neg() } else { 0 };
                Ok(Block { cpu: cpu.offset(back), dma: dma.offset(back) })
            }
        }
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        self.0.pool.free(block)
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        self.0.pool.destroy()
    }

    fn pages(&self) -> usize {
        self.0.pool.pages()
    }
}

fn spoilt(spoil: Spoil) -> Policy {
    let sound = Policy::current();
    Policy::new("spoilt", "a pool with a defect", sound.metadata, sound.smallest, move |memory, source, geometry| {
        let pool = (sound.create)(Arc::clone(&memory), source, geometry)?;
        Ok::<_, CreateError>(Box::new(Spoilt(Inner { pool, count: 0.into(), memory }, spoil)))
    })
}

#[test]
fn a_pool_that_breaks_its_contract_is_to_blame() {
    for spoil in [Spoil::Zeroing, Spoil::Overlap] {
        let run = Bench::new().pool(spoilt(spoil)).run("ecm").expect("the bench can be set up");
        assert_eq!(run.verdict, Verdict::PoolContractViolated, "{:?}", run.reason());
    }
}

#[test]
fn a_pool_that_runs_dry_fails_the_scenario_and_nothing_hangs() {
    // In the driver's probe, and in the middle of traffic.
    for from in [0, 5, 31, 33, 40, 60] {
        let run = Bench::new().pool(spoilt(Spoil::Exhausted(from))).run("ecm").expect("the bench can be set up");
        assert_eq!(run.verdict, Verdict::Inconclusive, "{from}: {:?} {:?}", run.failure, run.findings);
        assert!(run.failure.is_some());
    }
}

#[test]
fn a_pool_that_panics_hides_no_other_row() {
    let panics = Policy::new("panics", "it panics", pool::Metadata::OutOfBand, 1, |_, _, _| panic!("no pool today"));
    let options = CheckOptions {
        pools: vec![panics, Policy::current()],
        scenarios: vec!["stall".to_owned()],
        endpoints: vec![4],
        ..CheckOptions::default()
    };
    let report = scenarios::check(&options, &|_, _| {}).expect("the bench can be set up");
    assert_eq!(report.panics, ["panics · stall: no pool today"]);
    assert_eq!(report.rows.len(), 1);
}

#[test]
fn a_broken_pool_breaks_its_contract_row_too() {
    let options = CheckOptions {
        pools: vec![spoilt(Spoil::Zeroing)],
        scenarios: vec!["pool-contract".to_owned(), "stall".to_owned()],
        endpoints: vec![4],
        ..CheckOptions::default()
    };
    let report = scenarios::check(&options, &|_, _| {}).expect("the bench can be set up");
    assert!(report.is_broken());
    assert_eq!(report.rows.len(), 2);
    assert!(report.rows.iter().all(|row| row.status == Status::Broken), "{:#?}", report.rows);
    assert_eq!(report.rows[0].verdict, Verdict::PoolContractViolated);
}

#[test]
fn a_check_covers_every_pool_and_scenario() {
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let progress = |done: usize, all: usize| {
        assert!(done <= all);
        seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let options = CheckOptions { endpoints: vec![8], page_size: 64 << 10, ..CheckOptions::default() };
    let report = scenarios::check(&options, &progress).expect("the bench can be set up");
    let (pools, scenarios) = (pool::policy::table().len(), scenarios::scenario::table().len());
    // The pool's own contract is a row, too.
    assert_eq!(report.rows.len(), pools * (scenarios + 1));
    assert_eq!(seen.into_inner(), report.rows.len());
    assert!(
        !report.is_broken(),
        "{:#?}",
        report.rows.iter().filter(|row| row.status == Status::Broken).collect::<Vec<_>>()
    );
    let known: Vec<_> = report.rows.iter().filter(|row| row.status == Status::KnownBad).collect();
    let named: Vec<_> = known.iter().map(|row| (row.pool.as_str(), row.scenario.as_str())).collect();
    let table = scenarios::scenario::table();
    let judged = table.iter().filter(|scenario| scenario.is_judged() && scenario.name() != "malicious-device");
    let descending = judged.map(|scenario| ("linked-descending", scenario.name()));
    assert_eq!(named, descending.collect::<Vec<_>>());
    assert!(known.iter().all(|row| row.verdict == Verdict::ClientAssumptionViolated));
    let declared = report.rows.iter().filter(|row| row.status == Status::Declared);
    let declared: Vec<_> = declared.map(|row| (row.pool.as_str(), row.scenario.as_str())).collect();
    let in_block = ["linked-descending", "linked"].map(|pool| (pool, "malicious-device"));
    let old = [("page-list", "two-pages"), ("page-list", "malicious-device")];
    assert_eq!(declared, [&old[..], &in_block].concat());
    let reported: Vec<_> = report.rows.iter().filter(|row| row.status == Status::Reported).collect();
    assert_eq!(reported.len(), 6);
    assert!(reported.iter().all(|row| row.scenario == "aged" && row.verdict == Verdict::NotJudged));
}
