//! A device whose firmware answers requests, remembers where they were, and looks there again when they are free.
//!
//! It stays in the pool's pages: an IOMMU that gives a device what is mapped for it, page by page, would let it do all
//! this.

use std::fmt;
use std::sync::Arc;

use bus::{Belief, DmaAddr, Mmio, Width};
use devices::{DmaError, DmaMemory, DmaPort};
use parking_lot::Mutex;

use super::interface::{ANSWER, COMMAND, KIND, NOTIFY, REQUEST, REQUEST_SIZE};
use super::links::{Glimpse, Links, recognise};

/// The device.
pub(super) struct Malicious {
    port: DmaPort,
    /// What it wants the kernel to use for requests: memory that it was never given. Its own firmware knows where that
    /// lies on such a machine, as devices address it; where the processor has it, it does not know.
    target: DmaAddr,
    requests: Mutex<Vec<Request>>,
}

/// A request that it was given, under the number of its place in the list.
#[derive(Clone, Copy)]
struct Request {
    at: DmaAddr,
    answered: bool,
}

/// What the device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    /// It saw links, and rewrote that of the block that comes next.
    Link(Links),
    /// It saw no link, and wrote what links would be over so many blocks.
    Blind(usize),
}

impl Malicious {
    pub(super) fn new(memory: Arc<dyn DmaMemory>, target: DmaAddr) -> Self {
        Self { port: DmaPort::new("malicious device", memory), target, requests: Mutex::default() }
    }

    /// The same with its port made so.
    pub(super) fn with(self, make: impl FnOnce(DmaPort) -> DmaPort) -> Self {
        Self { port: make(self.port), ..self }
    }

    /// What the firmware does when nobody asks it for anything.
    pub(super) fn idle(&self) -> Result<Attack, DmaError> {
        let requests = self.requests.lock().clone();
        let had: Vec<(u32, DmaAddr)> =
            (0..).zip(&requests).filter(|(_, request)| request.answered).map(|(index, one)| (index, one.at)).collect();
        let mut glimpses = Vec::new();
        for &(index, at) in &had {
            let mut bytes = [0; 16];
            self.port.read(at, &mut bytes, Belief::new(&KIND, index, "free block"))?;
            glimpses.push(Glimpse { at, bytes });
        }
        let number = |at| had.iter().find(|&&(_, one)| one == at).map_or(0, |&(index, _)| index);
        let kept = requests.iter().find(|request| !request.answered);
        // Half of a request that is in use and half of what lies behind it: an offset reaches every byte of the page.
        let inside = |page: DmaAddr| u32::try_from(kept?.at.0.checked_sub(page.0)? + REQUEST_SIZE / 2).ok();
        match recognise(&glimpses) {
            Some(links @ Links::Pointers { head, to_cpu }) => {
                let address = self.target.0.wrapping_add(to_cpu);
                self.port.write(head, &address.to_le_bytes(), Belief::new(&KIND, number(head), "next pointer"))?;
                Ok(Attack::Link(links))
            }
            Some(links @ Links::Offsets { head, page }) if let Some(offset) = inside(page) => {
                self.port.write(head, &offset.to_le_bytes(), Belief::new(&KIND, number(head), "next offset"))?;
                Ok(Attack::Link(links))
            }
            _ => self.write_blindly(&had),
        }
    }

    /// Writes both kinds of links in turns, as good as it can without having seen one.
    fn write_blindly(&self, had: &[(u32, DmaAddr)]) -> Result<Attack, DmaError> {
        for &(index, at) in had {
            if index.is_multiple_of(2) {
                let pair = [self.target.0.to_le_bytes(), at.0.to_le_bytes()].concat();
                self.port.write(at, &pair, Belief::new(&KIND, index, "next pointer and DMA address"))?;
            } else {
                let offset = (REQUEST_SIZE / 2) as u32;
                self.port.write(at, &offset.to_le_bytes(), Belief::new(&KIND, index, "next offset"))?;
            }
        }
        Ok(Attack::Blind(had.len()))
    }

    /// Takes a request, and answers it unless it is to be kept.
    fn take(&self, at: DmaAddr) -> Result<(), DmaError> {
        let mut requests = self.requests.lock();
        let index = requests.len() as u32;
        let command = self.port.load_u32(at.offset(COMMAND), Belief::new(&KIND, index, "command"))?;
        let answered = command != NOTIFY;
        requests.push(Request { at, answered });
        if answered {
            self.port.store_u32(at.offset(ANSWER), !command, Belief::new(&KIND, index, "answer"))?;
        }
        Ok(())
    }
}

impl Mmio for Malicious {
    fn read(&self, _offset: u64, _width: Width) -> u64 {
        0
    }

    fn write(&self, offset: u64, _width: Width, value: u64) {
        if offset == REQUEST {
            // What cannot be read is not answered, which tells.
            let _ = self.take(DmaAddr(value));
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(Links::Pointers { head, to_cpu }) => write!(
                f,
                "the device sees next pointers in free blocks, learns from them that the processor's addresses are its own \
                 plus {to_cpu:#x}, and rewrites that at {head}, which no other leads to"
            ),
            Self::Link(Links::Offsets { head, page }) => write!(
                f,
                "the device sees next offsets in free blocks, learns from them that their page begins at {page}, and \
                 rewrites that at {head}, which no other leads to"
            ),
            Self::Blind(blocks) => {
                write!(
                    f,
                    "the device sees no links in free blocks, and writes what links would be over {blocks} of them"
                )
            }
        }
    }
}
