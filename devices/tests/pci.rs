//! A PCI function as software on its bus sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bus::{DmaAddr, Mmio, Width};
use devices::pci::{Bar, InterruptOutput, InterruptPin, MsixConfig, PciConfig, PciFunction, PciSlot};
use devices::{Device, DmaError};
use parking_lot::Mutex;
use proptest::prelude::*;
use vm_memory::{GuestAddress, GuestMemoryMmap};

/// Notes its accesses; one register at 0.
#[derive(Default)]
struct Toy {
    register: AtomicU32,
    seen: Mutex<Vec<(u64, Width)>>,
}

impl Mmio for Toy {
    fn read(&self, offset: u64, width: Width) -> u64 {
        self.seen.lock().push((offset, width));
        if offset == 0 { self.register.load(Ordering::SeqCst).into() } else { 0 }
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        self.seen.lock().push((offset, width));
        if offset == 0 {
            self.register.store(value as u32, Ordering::SeqCst);
        }
    }
}

impl Device for Toy {
    fn step(&self, _: Duration) {}

    fn power_on(&self) {
        self.register.store(0, Ordering::SeqCst);
    }
}

/// Levels of the pin and messages, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Out {
    Pin(bool),
    Message(u16),
}

#[derive(Default)]
struct Output {
    seen: Mutex<Vec<Out>>,
    masks: bool,
}

impl Output {
    fn take(&self) -> Vec<Out> {
        std::mem::take(&mut self.seen.lock())
    }
}

impl InterruptOutput for Output {
    fn intx(&self, asserted: bool) {
        self.seen.lock().push(Out::Pin(asserted));
    }

    fn message(&self, vector: u16) {
        self.seen.lock().push(Out::Message(vector));
    }

    fn masks_vectors(&self) -> bool {
        self.masks
    }
}

struct Board {
    slot: PciSlot,
    function: PciFunction,
    toy: Arc<Toy>,
    output: Arc<Output>,
}

const PM: u64 = 0x40;
const MSI: u64 = 0x48;
const MSIX: u64 = 0x60;

fn config() -> PciConfig {
    let msix = MsixConfig { vectors: 4, table_bar: 2, table_offset: 0x100, pba_bar: 2, pba_offset: 0x800 };
    PciConfig::new(0x153f, 0x1006, 0x0c0380)
        .revision(0x21)
        .subsystem(0x1af4, 0x1100)
        .bar(0, Bar::memory32(0x1000).device())
        .bar(2, Bar::memory64(0x1_0000_0000).prefetchable())
        .msi(4)
        .msix(msix)
}

impl Board {
    fn new(config: PciConfig) -> Self {
        Self::with(config, false)
    }

    /// Decoding and mastering are on.
    fn with(config: PciConfig, masks: bool) -> Self {
        let slot = PciSlot::new(config).expect("a function");
        let toy = Arc::new(Toy::default());
        let function = PciFunction::new(slot.clone(), toy.clone());
        let output = Arc::new(Output { masks, ..Output::default() });
        function.set_interrupt_output(Some(output.clone()));
        function.config_write(4, &[6, 0]);
        output.take();
        Self { slot, function, toy, output }
    }

    fn get(&self, offset: u64, len: usize) -> u64 {
        let mut bytes = [0; 8];
        self.function.config_read(offset, &mut bytes[..len]);
        u64::from_le_bytes(bytes)
    }

    fn set(&self, offset: u64, value: u32) {
        self.function.config_write(offset, &value.to_le_bytes());
    }

    fn set16(&self, offset: u64, value: u16) {
        self.function.config_write(offset, &value.to_le_bytes());
    }

    fn bar(&self, bar: usize, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.function.bar_read(bar, offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }
}

#[test]
fn the_header_says_what_the_function_is() {
    let board = Board::new(config());
    assert_eq!(board.get(0x00, 4), 0x1006_153f);
    assert_eq!(board.get(0x08, 4), 0x0c03_8021);
    assert_eq!(board.get(0x0e, 1), 0, "type 0, one function");
    assert_eq!(board.get(0x2c, 4), 0x1100_1af4);
    assert_eq!(board.get(0x3d, 1), 1, "INTA");
    for offset in [0x00, 0x08, 0x2c, 0x34] {
        let before = board.get(offset, 4);
        board.set(offset, !0);
        assert_eq!(board.get(offset, 4), before, "{offset:#x} is read-only");
    }
    board.set(0x3c, !0);
    assert_eq!(board.get(0x3c, 4), 0x01ff, "the line is software's, the pin is not");
    board.set16(4, !0);
    assert_eq!(board.get(4, 2), 0x0406, "memory, bus master, interrupt disable");
}

#[test]
fn bars_are_sized_by_writing_ones() {
    let board = Board::new(config());
    for offset in (0x10..0x34).step_by(4).filter(|offset| *offset != 0x2c) {
        board.set(offset, !0);
    }
    let bars: Vec<u64> = (0..6).map(|bar| board.get(0x10 + 4 * bar, 4)).collect();
    // BAR2 has 4 GiB: nothing of its low half is writable; BAR3 is its high half.
    assert_eq!(bars, [0xffff_f000, 0, 0x0000_000c, 0xffff_ffff, 0, 0]);
    assert_eq!(board.get(0x30, 4), 0, "no expansion ROM, whatever is written");
    board.set(0x10, 0xe000_0fff);
    assert_eq!(board.get(0x10, 4), 0xe000_0000);
}

#[test]
fn the_list_of_capabilities_is_found() {
    let board = Board::new(config());
    assert_eq!(board.get(6, 2) & 0x10, 0x10);
    let mut list = Vec::new();
    let mut at = board.get(0x34, 1);
    while at != 0 {
        list.push((at, board.get(at, 1)));
        at = board.get(at + 1, 1);
    }
    assert_eq!(list, [(PM, 1), (MSI, 5), (MSIX, 0x11)]);
    assert_eq!(board.get(PM + 2, 2), 3);
    assert_eq!(board.get(MSI + 2, 2), 0x184, "4 vectors, 64 bits, masks");
    assert_eq!(board.get(MSIX + 2, 2), 3, "4 vectors");
    assert_eq!((board.get(MSIX + 4, 4), board.get(MSIX + 8, 4)), (0x102, 0x802));
    let bare = Board::new(PciConfig::new(1, 2, 3).power_management(false).pin(None));
    assert_eq!((bare.get(0x34, 1), bare.get(6, 2), bare.get(0x3d, 1)), (0, 0, 0));
}

#[test]
fn registers_answer_while_memory_is_decoded() {
    let board = Board::new(config());
    board.function.bar_write(0, 0, &[1, 2, 3, 4]);
    assert_eq!(board.bar(0, 0), 0x0403_0201);
    board.set16(4, 4);
    assert_eq!(board.bar(0, 0), !0);
    board.function.bar_write(0, 0, &[0; 4]);
    board.set16(4, 6);
    assert_eq!(board.bar(0, 0), 0x0403_0201, "the write was lost");
    for (bar, offset) in [(0, 0x1000), (0, 0xffe), (0, u64::MAX), (1, 0), (3, 0), (6, 0), (usize::MAX, 0)] {
        assert_eq!(board.bar(bar, offset), !0, "BAR {bar}, {offset:#x}");
    }
    assert_eq!(board.bar(2, 0x4000_0000), 0, "a BAR without a register there");
}

#[test]
fn an_access_is_cut_where_it_is_not_aligned() {
    let board = Board::new(config());
    board.function.bar_read(0, 1, &mut [0; 16]);
    use Width::{U8, U16, U32, U64};
    assert_eq!(*board.toy.seen.lock(), [(1, U8), (2, U16), (4, U32), (8, U64), (16, U8)]);
}

#[test]
fn d3hot_is_deaf_and_dumb() {
    let board = Board::new(config());
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000)]).expect("memory");
    let memory = board.slot.memory(Arc::new(memory));
    board.slot.line(0).set(true);
    board.set16(PM + 4, 2);
    assert_eq!(board.get(PM + 4, 2), 8, "no D2; nothing is lost by D3hot");
    board.output.take();
    board.set16(PM + 4, 3);
    assert_eq!(board.bar(0, 0), !0);
    assert!(memory.read(DmaAddr(0), &mut [0]).is_err());
    assert_eq!(board.output.take(), [Out::Pin(false)]);
    board.set16(PM + 4, 0);
    assert_eq!(board.bar(0, 0), 0);
    assert!(memory.read(DmaAddr(0), &mut [0]).is_ok());
    assert_eq!(board.output.take(), [Out::Pin(true)]);
}

#[test]
fn memory_wants_a_bus_master_unless_told_otherwise() {
    let memory = || Arc::new(GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000)]).expect("memory"));
    let board = Board::new(config());
    let reached = board.slot.memory(memory());
    board.set16(4, 2);
    assert_eq!(reached.write(DmaAddr(0), &[1]), Err(DmaError::NoMemory { addr: DmaAddr(0), len: 1 }));
    assert!(reached.load_u32(DmaAddr(0), Ordering::Acquire).is_err());
    assert!(reached.store_u32(DmaAddr(0), 1, Ordering::Release).is_err());
    board.set16(4, 6);
    assert_eq!(reached.write(DmaAddr(0), &[1]), Ok(()));
    let slot = PciSlot::new(config().requires_bus_master(false)).expect("a function");
    assert_eq!(slot.memory(memory()).write(DmaAddr(0), &[1]), Ok(()), "nothing was switched on");
}

#[test]
fn intx_is_the_level_of_all_lines() {
    let board = Board::new(config());
    let (first, second) = (board.slot.line(0), board.slot.line(3));
    first.set(true);
    second.set(true);
    first.set(false);
    assert_eq!(board.output.take(), [Out::Pin(true)]);
    assert_eq!(board.get(6, 2) & 8, 8, "interrupt status");
    board.set16(4, 0x406);
    assert_eq!(board.output.take(), [Out::Pin(false)]);
    assert_eq!(board.get(6, 2) & 8, 8, "whatever interrupt disable says");
    board.set16(4, 6);
    second.set(false);
    assert_eq!(board.output.take(), [Out::Pin(true), Out::Pin(false)]);
    first.message();
    assert_eq!(board.output.take(), [], "a pin has no messages");
    board.slot.line(99).set(true);
    assert_eq!(board.output.take(), [], "a line that is not there");
}

#[test]
fn msi_sends_rises_and_holds_what_is_masked() {
    let board = Board::new(config());
    let lines: Vec<_> = (0..4).map(|line| board.slot.line(line)).collect();
    lines[1].set(true);
    board.output.take();
    // Four vectors.
    board.set16(MSI + 2, 0x21);
    assert_eq!(board.output.take(), [Out::Pin(false), Out::Message(1)], "what was up would never rise");
    lines[1].set(true);
    lines[1].set(false);
    lines[2].set(true);
    lines[3].message();
    assert_eq!(board.output.take(), [Out::Message(2), Out::Message(3)]);
    board.set(MSI + 16, 0b1000);
    lines[3].message();
    lines[3].message();
    assert_eq!(board.output.take(), []);
    assert_eq!(board.get(MSI + 20, 4), 0b1000, "pending");
    board.set(MSI + 16, 0);
    assert_eq!(board.output.take(), [Out::Message(3)], "once");
    assert_eq!(board.get(MSI + 20, 4), 0);
    // Two vectors for four lines.
    board.set16(MSI + 2, 0x11);
    lines[3].message();
    assert_eq!(board.output.take(), [Out::Message(1)]);
    // A message is a write to memory.
    board.set16(4, 2);
    lines[0].message();
    assert_eq!(board.output.take(), []);
    board.set16(4, 6);
    assert_eq!(board.output.take(), [Out::Message(0)]);
}

#[test]
fn msix_has_its_table_and_pending_bits() {
    let board = Board::new(config());
    let lines: Vec<_> = (0..4).map(|line| board.slot.line(line)).collect();
    board.set16(MSIX + 2, 0x8000);
    let control = |vector: u64| 0x100 + 16 * vector + 12;
    assert_eq!(board.bar(2, control(3)), 1, "masked after a reset");
    lines[3].message();
    assert_eq!(board.bar(2, 0x800), 0b1000);
    assert_eq!(board.output.take(), []);
    board.function.bar_write(2, control(3), &[0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(board.bar(2, control(3)), 0, "the rest is reserved");
    assert_eq!(board.output.take(), [Out::Message(3)]);
    assert_eq!(board.bar(2, 0x800), 0);
    board.function.bar_write(2, 0x100, &0xfee0_1003_u32.to_le_bytes());
    assert_eq!(board.bar(2, 0x100), 0xfee0_1000);
    board.function.bar_write(2, 0x800, &[0xff; 8]);
    assert_eq!(board.bar(2, 0x800), 0, "read-only");
    board.set16(MSIX + 2, 0xc000);
    lines[3].message();
    assert_eq!(board.output.take(), [], "the function is masked");
    board.set16(MSIX + 2, 0x8000);
    assert_eq!(board.output.take(), [Out::Message(3)]);
}

#[test]
fn a_side_with_a_table_of_its_own_masks_itself() {
    let board = Board::with(config(), true);
    board.set16(MSIX + 2, 0x8000);
    board.slot.line(2).message();
    assert_eq!(board.output.take(), [Out::Message(2)]);
}

#[test]
fn power_on_forgets_everything() {
    let board = Board::new(config());
    let fresh = |board: &Board| {
        let mut bytes = [0; 256];
        board.function.config_read(0, &mut bytes);
        bytes
    };
    board.function.power_on();
    let before = fresh(&board);
    board.set16(4, 0x406);
    board.set(0x10, 0xe000_0000);
    board.set(MSI + 4, 0xfee0_0000);
    board.set16(MSIX + 2, 0x8000);
    board.set16(PM + 4, 3);
    board.toy.register.store(7, Ordering::SeqCst);
    board.function.power_on();
    assert_eq!(fresh(&board), before);
    assert_eq!(board.toy.register.load(Ordering::SeqCst), 0);
}

#[test]
fn a_function_that_cannot_be_is_refused() {
    let refused = |config: PciConfig| PciSlot::new(config).expect_err("refused").to_string();
    let plain = || PciConfig::new(1, 2, 3);
    let bar = refused(plain().bar(0, Bar::memory32(0x18)));
    assert_eq!(bar, "BAR 0 has 0x18 bytes: expected a power of two from 0x10 to 0x80000000");
    assert_eq!(refused(plain().bar(1, Bar::memory64(8))), "BAR 1 has 0x8 bytes: expected a power of two from 0x10");
    assert!(PciSlot::new(plain().bar(0, Bar::memory32(1 << 32))).is_err());
    let wide = "BAR 5 has 64 bits and needs the next number, which is taken or does not exist";
    assert_eq!(refused(plain().bar(5, Bar::memory64(0x1000))), wide);
    let device = Bar::memory32(0x10).device();
    let two = plain().bar(0, device).bar(3, device);
    assert_eq!(refused(two), "the device's registers are in BAR 0 and BAR 3: expected one");
    assert_eq!(refused(plain().msi(3)), "MSI with 3 vectors: expected 1, 2, 4, 8, 16 or 32");
    let msix = MsixConfig { vectors: 0, table_bar: 0, table_offset: 0, pba_bar: 0, pba_offset: 0x40 };
    let with = |msix| plain().bar(0, Bar::memory32(0x100)).msix(msix);
    assert_eq!(refused(with(msix)), "MSI-X with 0 vectors: expected 1 to 2048");
    let two = MsixConfig { vectors: 2, ..msix };
    assert!(PciSlot::new(with(two)).is_ok());
    assert_eq!(refused(with(MsixConfig { pba_offset: 0x18, ..two })), "the MSI-X table and PBA overlap in BAR 0");
    assert_eq!(refused(with(MsixConfig { table_bar: 7, ..two })), "there is no BAR 7, only 0 to 5");
    let high = MsixConfig { table_offset: 0xe8, ..two };
    let place = "MSI-X table has 0x20 bytes at 0xe8 of BAR 0: not aligned to 8, or not within the BAR";
    assert_eq!(refused(with(high)), place);
}

#[test]
fn pins_have_numbers() {
    let board = Board::new(PciConfig::new(1, 2, 3).pin(Some(InterruptPin::D)));
    assert_eq!(board.get(0x3d, 1), 4);
}

proptest! {
    #[test]
    fn no_access_is_too_strange(
        accesses in prop::collection::vec(
            (any::<bool>(), 0..8_usize, prop_oneof![0..0x120_u64, 0xff0..0x1010_u64, any::<u64>()], 0..40_usize, any::<u8>()),
            0..60,
        ),
    ) {
        let board = Board::new(config());
        let line = board.slot.line(1);
        for (write, bar, offset, len, value) in accesses {
            let mut data = vec![value; len];
            match (write, bar) {
                (true, 7) => board.function.config_write(offset, &data),
                (false, 7) => board.function.config_read(offset, &mut data),
                (true, bar) => board.function.bar_write(bar, offset, &data),
                (false, bar) => board.function.bar_read(bar, offset, &mut data),
            }
            line.set(value & 1 != 0);
        }
        prop_assert_eq!(board.get(0, 4), 0x1006_153f);
        prop_assert_eq!(board.get(0x30, 4), 0);
    }
}
