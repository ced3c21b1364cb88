//! A device that walks a table in memory and answers every entry.

use bus::{Belief, DmaAddr, Kind, LayoutContract, Mmio, Width};
use devices::{DmaError, DmaPort};
use parking_lot::Mutex;

use super::interface::{ANSWER, COMMAND, DOORBELL, ENTRY_SIZE, TABLE_BASE, TABLE_COUNT};

/// An entry, as the device numbers it.
static ENTRY: Kind = Kind { name: "table entry", label: |index, f| write!(f, "table entry {index}") };

/// What the device assumes of memory.
static TABLE: LayoutContract = LayoutContract {
    register: "TABLE_BASE",
    statement: "entries of 1024 bytes, ascending and adjacent, across pages too",
    source: "scenario two-pages",
    align: ENTRY_SIZE,
    kind: &ENTRY,
    size: ENTRY_SIZE,
    stride: ENTRY_SIZE,
};

/// The device.
pub(super) struct TableWalker {
    port: DmaPort,
    registers: Mutex<Registers>,
}

#[derive(Clone, Copy, Default)]
struct Registers {
    base: u64,
    count: u32,
}

impl TableWalker {
    pub(super) fn new(port: DmaPort) -> Self {
        Self { port, registers: Mutex::default() }
    }

    /// Walks the table until memory ends.
    fn walk(&self, Registers { base, count }: Registers) -> Result<(), DmaError> {
        for index in 0..count {
            let entry = DmaAddr(base).offset(u64::from(index) * ENTRY_SIZE);
            let command = self.port.load_u32(entry.offset(COMMAND), Belief::new(&ENTRY, index, "command"))?;
            self.port.store_u32(entry.offset(ANSWER), !command, Belief::new(&ENTRY, index, "answer"))?;
        }
        Ok(())
    }
}

impl Mmio for TableWalker {
    fn read(&self, offset: u64, _width: Width) -> u64 {
        let registers = self.registers.lock();
        match offset {
            TABLE_BASE => registers.base,
            TABLE_COUNT => registers.count.into(),
            _ => 0,
        }
    }

    fn write(&self, offset: u64, _width: Width, value: u64) {
        let mut registers = self.registers.lock();
        match offset {
            TABLE_BASE => registers.base = value & !(ENTRY_SIZE - 1),
            TABLE_COUNT => registers.count = value as u32,
            DOORBELL => {
                self.port.layout(&TABLE, DmaAddr(registers.base), registers.count);
                // A walk that leaves memory ends there: what is not answered tells.
                let _ = self.walk(*registers);
            }
            _ => {}
        }
    }
}
