//! Allocations that are made to fail.

use parking_lot::Mutex;

use crate::error::AllocError;
use crate::page::PageError;
use crate::pool::Flags;

/// Says which atomic allocation of a pool fails: the driver gets null from it, as it does under memory pressure.
///
/// Failures of the page source below a pool are the contract stage's ([`contract`](crate::contract)); this one is above the
/// pool, so that it hits a driver whatever the pool has in store.
#[derive(Debug, Default)]
pub struct AllocFailures {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Atomic allocations until the one that fails; `None`: none does.
    left: Option<u64>,
    failed: bool,
}

impl AllocFailures {
    /// From now on the atomic allocation after `before` others fails, and no other.
    pub fn fail_after(&self, before: u64) {
        *self.state.lock() = State { left: Some(before), failed: false };
    }

    /// Whether it has failed by now. Nothing fails any more.
    pub fn end(&self) -> bool {
        std::mem::take(&mut *self.state.lock()).failed
    }

    /// Somebody asks a pool for a block.
    pub(crate) fn asked(&self, flags: Flags) -> Result<(), AllocError> {
        if flags.may_sleep {
            return Ok(());
        }
        let mut state = self.state.lock();
        match state.left {
            Some(0) => {
                *state = State { left: None, failed: true };
                Err(PageError::Injected.into())
            }
            left => {
                state.left = left.map(|left| left - 1);
                Ok(())
            }
        }
    }
}
