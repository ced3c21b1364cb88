//! What a device does to memory once a layout does not hold: seen, so that no reason has to be assumed.

use std::sync::Arc;
use std::sync::OnceLock;

use bus::{Access, DmaAddr, Kind, LayoutContract, Owner, Watch};
use parking_lot::Mutex;
use pool::{Finding, Ledger, Memory};

use crate::sides;

/// Accesses that are kept.
const MOST_ACCESSES: usize = 64;

/// An access of the device to memory that the driver does not mean to be what the device believes.
#[derive(Clone, Copy, Debug)]
pub struct Witnessed {
    /// The access, with what the device believed.
    pub access: Access,
    /// What the driver means it to be; `None` if it is nobody's.
    pub owner: Option<Owner>,
    /// The word that stood there before the access.
    pub word: Option<u32>,
}

/// The ledger, and a note of what follows from a broken layout.
pub(crate) struct Witness {
    ledger: Arc<Ledger>,
    memory: Arc<Memory>,
    /// What the array holds whose layout is broken.
    misplaced: OnceLock<&'static Kind>,
    accesses: Mutex<Vec<Witnessed>>,
}

impl Witness {
    pub(crate) fn new(ledger: Arc<Ledger>, memory: Arc<Memory>) -> Arc<Self> {
        Arc::new(Self { ledger, memory, misplaced: OnceLock::new(), accesses: Mutex::default() })
    }

    pub(crate) fn accesses(&self) -> Vec<Witnessed> {
        self.accesses.lock().clone()
    }

    fn seen(&self, access: &Access) {
        if let Some(misplaced) = self.misplaced.get() {
            self.note(access, misplaced);
        }
    }

    fn note(&self, access: &Access, misplaced: &Kind) {
        let owner = self.ledger.owner_at(access.addr);
        let mistaken = match owner {
            Some(owner) => owner.kind.name == access.belief.kind.name && !sides::agree(access.belief, owner),
            None => access.belief.kind.name == misplaced.name,
        };
        let mut accesses = self.accesses.lock();
        if mistaken && accesses.len() < MOST_ACCESSES {
            let word = self.memory.cpu(access.addr).and_then(|cpu| self.memory.load_u32(cpu).ok());
            accesses.push(Witnessed { access: *access, owner, word });
        }
    }
}

impl Watch for Witness {
    fn access(&self, access: &Access) {
        self.ledger.access(access);
        self.seen(access);
    }

    fn write(&self, access: &Access, data: &[u8]) {
        self.ledger.write(access, data);
        self.seen(access);
    }

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        self.ledger.layout(contract, written, count);
        let findings = self.ledger.findings();
        let mut layouts = findings.iter().filter_map(|finding| match finding {
            Finding::LayoutContract(layout) => Some(layout.contract.kind),
            _ => None,
        });
        if let Some(kind) = layouts.next() {
            self.misplaced.get_or_init(|| kind);
        }
    }
}
