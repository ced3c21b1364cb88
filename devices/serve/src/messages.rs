//! Memory without a file descriptor: DMA_READ and DMA_WRITE to the client.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zerocopy::IntoBytes;

use crate::connection::{CallError, Connection};
use crate::event::{Event, Events};
use crate::protocol::{DMA_READ, DMA_WRITE, DmaAccess};

/// How long the client may take for an answer. It must be less than the time that the client waits for ours: QEMU's
/// `x-msg-timeout` is 5 s.
const PATIENCE: Duration = Duration::from_secs(1);

/// DMA by messages to one client.
pub(crate) struct MessageDma {
    connection: Arc<Connection>,
    events: Events,
    /// Where in a payload the data begins.
    data_at: OnceLock<usize>,
    told: AtomicBool,
}

/// As specified: behind an address and a count of 64 bits each.
const SPECIFIED: usize = size_of::<DmaAccess>();
/// QEMU 10.1 to 11.1 has a count of 32 bits (hw/vfio-user/protocol.h, `VFIOUserDMARW`): data is four bytes earlier, and
/// four bytes follow it.
const QEMU: usize = SPECIFIED - 4;

impl MessageDma {
    pub(crate) fn new(connection: Arc<Connection>, events: Events) -> Self {
        Self { connection, events, data_at: OnceLock::new(), told: AtomicBool::new(false) }
    }

    pub(crate) fn read(&self, addr: u64, buffer: &mut [u8]) -> Option<()> {
        let data_at = self.data_at(addr)?;
        for (address, part) in (addr..).step_by(self.most()).zip(buffer.chunks_mut(self.most())) {
            let access = DmaAccess { address: address.into(), count: (part.len() as u64).into() };
            let payload = self.call(DMA_READ, &[access.as_bytes()]).ok()?;
            part.copy_from_slice(payload.get(data_at..data_at + part.len())?);
        }
        Some(())
    }

    pub(crate) fn write(&self, addr: u64, data: &[u8]) -> Option<()> {
        let data_at = self.data_at(addr)?;
        for (address, part) in (addr..).step_by(self.most()).zip(data.chunks(self.most())) {
            let access = DmaAccess { address: address.into(), count: (part.len() as u64).into() };
            self.call(DMA_WRITE, &[&access.as_bytes()[..data_at], part, &[0; SPECIFIED][..SPECIFIED - data_at]])
                .ok()?;
        }
        Some(())
    }

    fn most(&self) -> usize {
        self.connection.max_transfer()
    }

    /// Asks, once, for 2^32 bytes: more than any client may be asked for, and no bytes at all where the count has 32
    /// bits.
    fn data_at(&self, addr: u64) -> Option<usize> {
        if let Some(known) = self.data_at.get() {
            return Some(*known);
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            (self.events)(Event::MemoryWithoutFile { address: addr });
        }
        let access = DmaAccess { address: addr.into(), count: (1_u64 << 32).into() };
        let found = match self.call(DMA_READ, &[access.as_bytes()]) {
            Ok(_) => QEMU,
            Err(CallError::Errno(_)) => SPECIFIED,
            Err(CallError::NoAnswer | CallError::Closed) => return None,
        };
        Some(*self.data_at.get_or_init(|| found))
    }

    fn call(&self, command: u16, parts: &[&[u8]]) -> Result<Vec<u8>, CallError> {
        let answer = self.connection.call(command, parts, PATIENCE);
        if answer == Err(CallError::NoAnswer) {
            (self.events)(Event::DmaUnanswered);
        }
        answer
    }
}
