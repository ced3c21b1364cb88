//! The port shows, fails and traces every access.

use std::fmt;
use std::sync::Arc;

use bus::{Access, AccessKind, Belief, DmaAddr, Event, Kind, LayoutContract, Trace, TraceSink, Watch};
use devices::{CheckedMemory, DmaError, DmaFault, DmaPort, FaultEffect};
use parking_lot::Mutex;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

static RING: Kind = Kind { name: "ring", label: |index, f: &mut fmt::Formatter<'_>| write!(f, "ring {index}") };
const BASE: u64 = 0x8000_0000;

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Watch for Seen {
    fn access(&self, access: &Access) {
        self.0.lock().push(format!("{:?} {} {} {}", access.kind, access.addr, access.len, access.belief));
    }

    fn layout(&self, _: &'static LayoutContract, _: DmaAddr, _: u32) {}
}

impl TraceSink for Seen {
    fn record(&self, source: &'static str, event: &dyn Event) {
        self.0.lock().push(format!("{source}: {event}"));
    }
}

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(BASE), 0x10000)]).expect("64 KiB of memory")
}

#[test]
fn an_access_is_watched_and_traced_in_the_devices_words() {
    let (watch, trace) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
    let port = DmaPort::new("toy", Arc::new(memory())).watched(watch.clone()).traced(Trace::to(trace.clone()));
    let belief = Belief::new(&RING, 3, "head");
    port.store_u32(DmaAddr(BASE + 8), 0xcafe, belief).expect("memory is there");
    assert_eq!(port.load_u32(DmaAddr(BASE + 8), belief), Ok(0xcafe));
    assert_eq!(*watch.0.lock(), ["Write 0x80000008 4 ring 3 head", "Read 0x80000008 4 ring 3 head"]);
    assert_eq!(*trace.0.lock(), ["toy: write ring 3 head = 0000cafe", "toy: read  ring 3 head = 0000cafe"]);
}

#[test]
fn errors_carry_their_operands() {
    let port = DmaPort::new("toy", Arc::new(memory()));
    let belief = Belief::new(&RING, 0, "");
    let addr = DmaAddr(BASE + 0x10000 - 2);
    assert_eq!(port.read(addr, &mut [0; 4], belief), Err(DmaError::NoMemory { addr, len: 4 }));
    assert_eq!(port.load_u32(addr, belief), Err(DmaError::Misaligned { addr, size: 4 }));
}

#[test]
fn faults_strike_what_they_name_and_no_more() {
    let fault = |effect, after| DmaFault {
        kind: Some("ring"),
        index: Some(1),
        access: Some(AccessKind::Read),
        after,
        times: 1,
        effect,
    };
    let port = DmaPort::new("toy", Arc::new(memory()))
        .with_faults(vec![fault(FaultEffect::BusError, 1), fault(FaultEffect::Flip(0x80), 0)]);
    let (addr, hit, miss) = (DmaAddr(BASE), Belief::new(&RING, 1, ""), Belief::new(&RING, 2, ""));
    assert_eq!(port.load_u32(addr, miss), Ok(0));
    assert_eq!(port.load_u32(addr, hit), Ok(0), "the first match passes");
    assert_eq!(port.load_u32(addr, hit), Err(DmaError::Injected { addr }));
    assert_eq!(port.load_u32(addr, hit), Ok(0x80), "the second fault");
    assert_eq!(port.load_u32(addr, hit), Ok(0), "both are used up");
}

#[test]
fn queue_code_on_vm_memory_is_watched_too() {
    let watch = Arc::new(Seen::default());
    let memory = memory();
    let port = DmaPort::new("toy", Arc::new(memory.clone())).watched(watch.clone());
    let checked = CheckedMemory::new(&memory, &port, Belief::new(&RING, 7, "avail"));
    checked.write_obj(0x1234_u16, GuestAddress(BASE + 2)).expect("memory is there");
    let index: u16 = checked.read_obj(GuestAddress(BASE + 2)).expect("memory is there");
    assert_eq!(index, 0x1234);
    assert_eq!(*watch.0.lock(), ["Write 0x80000002 2 ring 7 avail", "Read 0x80000002 2 ring 7 avail"]);
}
