//! What a device does to memory once a layout does not hold: seen, so that no reason has to be assumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bus::{Access, DmaAddr, LayoutContract, Owner, Watch};
use parking_lot::Mutex;
use pool::{Finding, Ledger};

use crate::sides;

/// Mistakes that are kept.
const MOST_MISTAKES: usize = 64;

/// An access of the device to an object that the driver means to be another one of the same kind.
#[derive(Clone, Copy, Debug)]
pub struct Mistake {
    /// The access, with what the device believed.
    pub access: Access,
    /// What the driver means it to be.
    pub owner: Owner,
}

/// The ledger, and the mistakes that follow from a broken layout.
pub(crate) struct Witness {
    ledger: Arc<Ledger>,
    layout_broken: AtomicBool,
    mistakes: Mutex<Vec<Mistake>>,
}

impl Witness {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self { ledger, layout_broken: AtomicBool::new(false), mistakes: Mutex::default() })
    }

    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        self.mistakes.lock().clone()
    }
}

impl Watch for Witness {
    fn access(&self, access: &Access) {
        self.ledger.access(access);
        if !self.layout_broken.load(Ordering::Relaxed) {
            return;
        }
        let Some(owner) = self.ledger.owner_at(access.addr) else { return };
        if owner.kind.name == access.belief.kind.name && !sides::agree(access.belief, owner) {
            let mut mistakes = self.mistakes.lock();
            if mistakes.len() < MOST_MISTAKES {
                mistakes.push(Mistake { access: *access, owner });
            }
        }
    }

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        self.ledger.layout(contract, written, count);
        let broken = self.ledger.findings().iter().any(|finding| matches!(finding, Finding::LayoutContract(_)));
        self.layout_broken.fetch_or(broken, Ordering::Relaxed);
    }
}
