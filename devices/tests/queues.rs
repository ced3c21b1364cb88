//! A device of another shape on the same ground: submission and completion queues with doorbells and a message vector
//! each, as NVMe has them (NVMe Base 2.0 §3.3, §3.1.3). Nothing of `bus` or `devices` is made for USB.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::{Belief, DmaAddr, IrqLine, Kind, Mmio, Width};
use devices::{Device, DmaPort, Effects};
use parking_lot::Mutex;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

static SUBMISSION: Kind =
    Kind { name: "submission entry", label: |n, f: &mut fmt::Formatter<'_>| write!(f, "submission entry {n}") };
static COMPLETION: Kind =
    Kind { name: "completion entry", label: |n, f: &mut fmt::Formatter<'_>| write!(f, "completion entry {n}") };

const DEPTH: u64 = 4;
const SUBMISSION_BASE: u64 = 0x28;
const COMPLETION_BASE: u64 = 0x30;
const DOORBELL: u64 = 0x1000;
const MEMORY: u64 = 0x8000_0000;

/// Answers every submitted word with its complement and a phase bit.
struct Complementer {
    dma: DmaPort,
    vector: Arc<dyn IrqLine>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    submission_base: u64,
    completion_base: u64,
    head: u64,
    completed: u64,
}

#[derive(Debug, PartialEq)]
enum Effect {
    Message,
}

impl Mmio for Complementer {
    fn read(&self, offset: u64, _: Width) -> u64 {
        match offset {
            SUBMISSION_BASE => self.state.lock().submission_base,
            COMPLETION_BASE => self.state.lock().completion_base,
            _ => 0,
        }
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        let mut effects = Effects::new();
        {
            let mut state = self.state.lock();
            match (offset, width) {
                (SUBMISSION_BASE, Width::U64) => state.submission_base = value,
                (COMPLETION_BASE, Width::U64) => state.completion_base = value,
                (DOORBELL, Width::U32) => self.ring(&mut state, value % DEPTH, &mut effects),
                _ => {}
            }
        }
        effects.deliver(|Effect::Message| self.vector.message());
    }
}

impl Complementer {
    fn ring(&self, state: &mut State, tail: u64, effects: &mut Effects<Effect>) {
        while state.head != tail {
            let entry = DmaAddr(state.submission_base + 4 * state.head);
            let Ok(word) = self.dma.load_u32(entry, Belief::new(&SUBMISSION, state.head as u32, "")) else { return };
            let slot = state.completed % DEPTH;
            let phase = u32::from((state.completed / DEPTH).is_multiple_of(2));
            let entry = DmaAddr(state.completion_base + 8 * slot);
            let belief = |field| Belief::new(&COMPLETION, slot as u32, field);
            // The phase tag comes last: it is what the driver looks at.
            if self.dma.store_u32(entry, !word, belief("result")).is_err()
                || self.dma.store_u32(entry.offset(4), phase, belief("phase tag")).is_err()
            {
                return;
            }
            state.head = (state.head + 1) % DEPTH;
            state.completed += 1;
            effects.push(Effect::Message);
        }
    }
}

impl Device for Complementer {
    fn step(&self, _: Duration) {}

    fn power_on(&self) {
        *self.state.lock() = State::default();
    }
}

/// A vector whose handler looks at the device from inside the message: no lock may be held then.
#[derive(Default)]
struct Vector {
    edges: Mutex<Vec<bool>>,
    device: Mutex<Option<std::sync::Weak<Complementer>>>,
    seen: Mutex<u64>,
}

impl IrqLine for Vector {
    fn set(&self, asserted: bool) {
        self.edges.lock().push(asserted);
        if let Some(device) = self.device.lock().as_ref().and_then(std::sync::Weak::upgrade) {
            *self.seen.lock() = device.read(COMPLETION_BASE, Width::U64);
        }
    }
}

#[test]
fn doorbells_phase_tags_and_message_vectors_fit() {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(MEMORY), 0x1000)]).expect("4 KiB of memory");
    let vector = Arc::new(Vector::default());
    let dma = DmaPort::new("complementer", Arc::new(memory.clone()));
    let device = Arc::new(Complementer { dma, vector: Arc::clone(&vector) as _, state: Mutex::default() });
    *vector.device.lock() = Some(Arc::downgrade(&device));
    device.write(SUBMISSION_BASE, Width::U64, MEMORY);
    device.write(COMPLETION_BASE, Width::U64, MEMORY + 0x800);

    for turn in 0..10_u32 {
        let slot = u64::from(turn) % DEPTH;
        memory.write_obj(turn, GuestAddress(MEMORY + 4 * slot)).expect("memory is there");
        device.write32(DOORBELL, (turn + 1) % DEPTH as u32);
        let (result, phase): (u32, u32) = {
            let at = |offset| GuestAddress(MEMORY + 0x800 + 8 * slot + offset);
            (memory.read_obj(at(0)).expect("memory is there"), memory.read_obj(at(4)).expect("memory is there"))
        };
        assert_eq!((result, phase), (!turn, u32::from((turn / DEPTH as u32).is_multiple_of(2))), "turn {turn}");
    }
    assert_eq!(*vector.edges.lock(), [true, false].repeat(10), "a message is an edge");
    assert_eq!(*vector.seen.lock(), MEMORY + 0x800);
    device.power_on();
    assert_eq!(device.read(COMPLETION_BASE, Width::U64), 0);
}
