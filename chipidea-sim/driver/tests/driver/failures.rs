//! Pools, pages and registers that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bus::{Mmio, Width};
use chipidea_driver::{ChipideaUdc, Config, DqhSource, Workarounds};
use pool::{AllocError, Block, DestroyError, Flags, FreeError, PageError, Policy, Pool};
use usb::gadget::{Request, UdcError};
use usb::{EndpointAddress, Speed, Udc, UdcDriver, UsbPort};

use crate::bench::{Bench, HostError, Machine, Parts, TestGadget, pattern};

/// A pool that has no block any more after some allocations; shared by all pools of a bench.
struct Scarce {
    inner: Box<dyn Pool>,
    left: Arc<AtomicI64>,
}

impl Pool for Scarce {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(AllocError::Page(PageError::Injected));
        }
        self.inner.alloc(flags)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        self.inner.free(block)
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        self.inner.destroy()
    }

    fn pages(&self) -> usize {
        self.inner.pages()
    }
}

fn scarce(left: &Arc<AtomicI64>) -> Policy {
    let linked = Policy::current();
    let (create, left) = (Arc::clone(&linked.create), Arc::clone(left));
    Policy {
        create: Arc::new(move |memory, source, geometry| {
            let inner = create(memory, source, geometry)?;
            Ok(Box::new(Scarce { inner, left: Arc::clone(&left) }))
        }),
        ..linked
    }
}

#[test]
fn a_probe_that_runs_out_of_dqhs_leaves_nothing() {
    for has in 0..8 {
        let left = Arc::new(AtomicI64::new(has));
        let machine = Machine::new(scarce(&left));
        let before = machine.source.free_pages();
        let bench = Bench::of(Parts::endpoints(4));
        let error = ChipideaUdc::probe(bench.tap, machine.api.clone(), Config::default()).expect_err("8 are needed");
        assert!(matches!(error, UdcError::NoMemory(_)), "{error}");
        assert_eq!(machine.source.free_pages(), before);
        machine.assert_clean();
    }
}

#[test]
fn a_request_that_runs_out_of_dtds_comes_back_whole() {
    for has in 0..5 {
        for queued_before in [false, true] {
            let left = Arc::new(AtomicI64::new(i64::MAX));
            let mut bench = Bench::configured(Parts { policy: scarce(&left), ..Parts::default() });
            let endpoint = EndpointAddress::r#in(1);
            if queued_before {
                bench.udc.queue(endpoint, Request { data: vec![7; 100], ..Request::default() }).expect("room");
            }
            let mappings = bench.machine.ledger.live_mappings();
            let blocks = bench.machine.ledger.live_blocks();
            left.store(has, Ordering::Relaxed);
            let request = Request { id: 1, data: pattern(100 << 10), ..Request::default() };
            let refused = bench.udc.queue(endpoint, request.clone()).expect_err("5 dTDs are needed");
            assert!(matches!(refused.error, UdcError::NoMemory(_)), "{}", refused.error);
            assert_eq!(refused.request, request);
            assert_eq!(bench.machine.ledger.live_mappings(), mappings);
            assert_eq!(bench.machine.ledger.live_blocks(), blocks);
            left.store(i64::MAX, Ordering::Relaxed);
            if queued_before {
                assert_eq!(bench.bulk_in(1, 512), Ok(vec![7; 100]));
            }
            bench.udc.queue(endpoint, request.clone()).expect("room again");
            assert_eq!(bench.bulk_in(1, 100 << 10), Ok(request.data));
            bench.shut_down().assert_clean();
        }
    }
}

#[test]
fn without_dtds_endpoint_0_stalls() {
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let mut bench = Bench::attached(Parts { policy: scarce(&left), ..Parts::default() });
    left.store(0, Ordering::Relaxed);
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Err(HostError::Stall));
    assert_eq!(bench.control_in([0x80, 0, 0, 0, 0, 0, 2, 0]), Err(HostError::Stall));
    assert_eq!(bench.control_out([0, 5, 9, 0, 0, 0, 0, 0], &[]), Err(HostError::Stall));
    left.store(i64::MAX, Ordering::Relaxed);
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Ok(pattern(18)));
    bench.shut_down().assert_clean();
}

#[test]
fn a_status_stage_that_cannot_be_queued_stalls_beginning_with_the_data() {
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let mut bench = Bench::attached(Parts { policy: scarce(&left), ..Parts::default() });
    left.store(1, Ordering::Relaxed);
    let before = bench.tap.written(0x140 + 0x80).len();
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Err(HostError::Stall));
    let ctrl0 = bench.tap.written(0x140 + 0x80);
    assert_eq!(ctrl0[before..], [0x0081_0080, 0x0081_0081], "IN, then OUT");
}

#[test]
fn an_interrupt_of_the_host_driver_is_not_ours() {
    // USBSTS and USBINTR with all that interrupts, USBMODE in host mode.
    let machine = Machine::new(Policy::current());
    for (registers_shared, handled) in [(true, false), (false, true)] {
        let cleared = Arc::new(AtomicI64::new(0));
        let seen = Arc::clone(&cleared);
        let rule = move |offset| match offset {
            0x144 => {
                seen.fetch_add(1, Ordering::Relaxed);
                0x147
            }
            0x148 => 0x147,
            0x1a8 => 3,
            _ => 0,
        };
        let config = Config { registers_shared, ..Config::default() };
        let mut udc = ChipideaUdc::probe(registers(rule), machine.api.clone(), config).expect("probes");
        udc.irq(&mut TestGadget::default());
        assert_eq!(cleared.load(Ordering::Relaxed) > 0, handled, "USBSTS was looked at");
        assert_eq!(udc.speed().is_some(), handled);
        udc.shutdown().expect("everything is given back");
    }
    machine.assert_clean();
}

/// Registers that answer from a rule.
struct Ruled<F>(F);

impl<F: Fn(u64) -> u32 + Send + Sync> Mmio for Ruled<F> {
    fn read(&self, offset: u64, _width: Width) -> u64 {
        u64::from(self.0(offset))
    }

    fn write(&self, _offset: u64, _width: Width, _value: u64) {}
}

/// A capability block with the operational registers at 0x140, which `rule` answers.
fn registers(rule: impl Fn(u64) -> u32 + Send + Sync + 'static) -> Arc<dyn Mmio> {
    Arc::new(Ruled(move |offset| match offset {
        0x100 => 0x40,
        0x108 => 0,
        0x124 => 1 << 7 | 4,
        _ => rule(offset),
    }))
}

#[test]
fn registers_that_are_not_there_end_the_probe() {
    let machine = Machine::new(Policy::current());
    let zeros: Arc<dyn Mmio> = Arc::new(Ruled(|_| 0));
    let error = ChipideaUdc::probe(zeros, machine.api.clone(), Config::default()).expect_err("no device");
    assert_eq!(error, UdcError::Hardware("the controller cannot be a device (DCCPARAMS.DC is 0)".to_owned()));
    let ones: Arc<dyn Mmio> = Arc::new(Ruled(|_| u32::MAX));
    let error = ChipideaUdc::probe(ones, machine.api.clone(), Config::default()).expect_err("31 endpoints");
    assert!(matches!(error, UdcError::Hardware(text) if text.contains("DCCPARAMS.DEN is 31")));
    machine.assert_clean();
}

#[test]
fn bits_that_never_change_end_in_an_error() {
    let machine = Machine::new(Policy::current());
    let stuck = registers(|_| u32::MAX);
    let config = Config { registers_shared: false, ..Config::default() };
    let mut udc = ChipideaUdc::probe(stuck, machine.api.clone(), config).expect("probes");
    let error = udc.start().expect_err("USBCMD.RST stays set");
    assert_eq!(error, UdcError::Hardware("USBCMD 0x2 is still set after 1000 reads".to_owned()));
    udc.irq(&mut TestGadget::default());
    assert_eq!(udc.speed(), Some(Speed::High), "a port change");
    let error = udc.flush(EndpointAddress::out(0)).expect_err("ENDPTFLUSH stays set");
    assert_eq!(error, UdcError::Hardware("ENDPTFLUSH 0x1 is still set after 1000 reads".to_owned()));
    assert!(!udc.take_log().is_empty());
    udc.shutdown().expect("everything is given back all the same");
    machine.assert_clean();

    let idle = registers(|_| 0);
    let mut udc = ChipideaUdc::probe(idle, machine.api.clone(), Config::default()).expect("probes");
    let error = udc.start().expect_err("USBMODE.CM stays 0");
    assert!(matches!(error, UdcError::Hardware(text) if text.contains("USBMODE.CM reads 0")));
    udc.shutdown().expect("everything is given back");
    machine.assert_clean();
}

#[test]
fn a_tripwire_that_never_holds_ends_in_a_stall() {
    // USBSTS.UI, ENDPTSETUPSTAT, and a USBCMD whose SUTW reads 0; USBMODE in device mode.
    let machine = Machine::new(Policy::current());
    let rule = |offset| match offset {
        0x144 | 0x148 => 1,
        0x1a8 => 2,
        0x1ac => 1,
        0x1c0 => 0x0001_0001,
        _ => 0,
    };
    let mut udc = ChipideaUdc::probe(registers(rule), machine.api.clone(), Config::default()).expect("probes");
    udc.start().expect("starts");
    udc.irq(&mut TestGadget::default());
    let log = udc.take_log();
    assert_eq!(log[0], "setup: the setup packet changed under 64 reads (USBCMD.SUTW)");
    udc.shutdown().expect("everything is given back");
    machine.assert_clean();
}

#[test]
fn registers_that_say_anything_panic_nobody() {
    for seed in 0..400_u64 {
        let machine = Machine::new(Policy::current());
        let state = parking_lot::Mutex::new(seed);
        let rule = move |_| {
            let mut state = state.lock();
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (*state >> 32) as u32
        };
        let source = if seed % 2 == 0 { DqhSource::Pool } else { DqhSource::Static };
        let (reprime, registers_shared) = (seed % 3 == 0, seed % 5 == 0);
        let workarounds = if reprime { Workarounds::ALWAYS } else { Workarounds::NONE };
        let config = Config { dqh_source: source, workarounds, registers_shared, ..Config::default() };
        let mut udc = ChipideaUdc::probe(registers(rule), machine.api.clone(), config).expect("probes");
        let mut gadget = TestGadget::default();
        let _ = udc.start();
        for id in 0..4 {
            udc.irq(&mut gadget);
            gadget.configured = false;
            let descriptor =
                usb::ch9::EndpointDescriptor::new(EndpointAddress::out(1), usb::TransferType::Bulk, 512, 0);
            let _ = udc.enable(&descriptor);
            let _ = udc.queue(EndpointAddress::out(1), Request { id, data: vec![0; 50_000], ..Request::default() });
            let _ = udc.dequeue(EndpointAddress::out(1), id.wrapping_sub(1));
        }
        gadget.configured = false;
        udc.shutdown().expect("everything is given back");
        udc.deliver(&mut gadget);
        machine.assert_clean();
    }
}

#[test]
fn a_pool_that_says_no_to_destroy_is_heard() {
    /// A pool that never lets go.
    struct Stubborn(Box<dyn Pool>);

    impl Pool for Stubborn {
        fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
            self.0.alloc(flags)
        }

        fn free(&self, block: Block) -> Result<(), FreeError> {
            self.0.free(block)
        }

        fn destroy(&self) -> Result<(), DestroyError> {
            Err(DestroyError::Busy { live: 1, owners: Vec::new() })
        }

        fn pages(&self) -> usize {
            self.0.pages()
        }
    }

    let linked = Policy::current();
    let create = Arc::clone(&linked.create);
    let policy = Policy {
        create: Arc::new(move |memory, source, geometry| Ok(Box::new(Stubborn(create(memory, source, geometry)?)))),
        ..linked
    };
    let mut bench = Bench::of(Parts { policy, ..Parts::default() });
    let error = bench.udc.shutdown().expect_err("busy");
    assert_eq!(error, UdcError::Hardware("pool ci_hw_td: 1 blocks are in use".to_owned()));
    assert_eq!(bench.model.attached(), None);
}

#[test]
fn a_damaged_pool_is_survived() {
    // With 30 dQHs or fewer slot 0 is a free block; bit 15 of its link decides whether the SETUP interrupts.
    for endpoints in [4, 8, 16] {
        for cpu in [0xffff_8880_0400_0000, 0xffff_8880_0400_8000] {
            let policy = pool::policy::by_name("linked-descending").expect("known");
            let parts = Parts { policy, cpu: bus::CpuAddr(cpu), ..Parts::endpoints(endpoints) };
            let mut bench = Bench::attached(parts);
            let answer = bench.control_in([0x80, 6, 0, 1, 0, 0, 64, 0]);
            let interrupts = endpoints < 16 && cpu & 0x8000 != 0;
            let expected = if interrupts { HostError::Stall } else { HostError::Timeout };
            assert_eq!(answer, Err(expected), "{endpoints} endpoints, {cpu:#x}");
            for _ in 0..20 {
                bench.bus_reset();
                let _ = bench.control_in([0x80, 6, 0, 1, 0, 0, 64, 0]);
                let _ = bench.control_out([0, 5, 9, 0, 0, 0, 0, 0], &[]);
            }
            bench.model.set_vbus(false);
            bench.run();
            // The pool may notice or not; nobody panics, and every mapping ends.
            let _ = bench.udc.shutdown();
            bench.udc.deliver(&mut bench.gadget);
            assert_eq!(bench.machine.ledger.live_mappings(), []);
        }
    }
}
