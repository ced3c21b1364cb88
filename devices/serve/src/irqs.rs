//! Interrupts as VFIO has them: eventfds that the client gives (linux/vfio.h, `VFIO_DEVICE_SET_IRQS`).

use std::os::fd::{AsFd, OwnedFd};

use devices::pci::{InterruptOutput, PciFunction};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE, VFIO_IRQ_INFO_NORESIZE,
    VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_TYPE_MASK, VFIO_IRQ_SET_ACTION_UNMASK,
    VFIO_IRQ_SET_DATA_BOOL, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_IRQ_SET_DATA_TYPE_MASK,
    VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS,
};

/// The client's side of a function's interrupts.
pub(crate) struct Irqs {
    counts: [u32; VFIO_PCI_NUM_IRQS as usize],
    state: Mutex<State>,
}

struct State {
    pin: Pin,
    /// Eventfds of MSI and of MSI-X, one of which is in use.
    msi: Vec<Option<OwnedFd>>,
    msix: Vec<Option<OwnedFd>>,
    /// Messages that no eventfd was there for.
    pending: Vec<bool>,
}

/// INTx: a level for the device, edges for the client, who unmasks it when it has served one.
#[derive(Default)]
struct Pin {
    level: bool,
    masked: bool,
    trigger: Option<OwnedFd>,
}

/// SET_IRQS, its range being within the index.
pub(crate) struct SetIrqs<'a> {
    pub(crate) index: u32,
    pub(crate) flags: u32,
    pub(crate) start: u32,
    pub(crate) count: u32,
    pub(crate) bools: &'a [u8],
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Irqs {
    pub(crate) fn new(function: &PciFunction) -> Self {
        let mut counts = [0; VFIO_PCI_NUM_IRQS as usize];
        counts[VFIO_PCI_INTX_IRQ_INDEX as usize] = function.has_interrupt_pin().into();
        counts[VFIO_PCI_MSI_IRQ_INDEX as usize] = function.msi_vectors().into();
        counts[VFIO_PCI_MSIX_IRQ_INDEX as usize] = function.msix_vectors().into();
        let none = |count: u16| (0..count).map(|_| None).collect::<Vec<_>>();
        let most = function.msi_vectors().max(function.msix_vectors());
        let state = State {
            pin: Pin::default(),
            msi: none(function.msi_vectors()),
            msix: none(function.msix_vectors()),
            pending: vec![false; most.into()],
        };
        Self { counts, state: Mutex::new(state) }
    }

    /// GET_IRQ_INFO: flags and count.
    pub(crate) fn info(&self, index: u32) -> Result<(u32, u32), Errno> {
        let count = *self.counts.get(index as usize).ok_or(Errno::INVAL)?;
        let flags = match index {
            VFIO_PCI_INTX_IRQ_INDEX => VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
            VFIO_PCI_MSI_IRQ_INDEX => VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE,
            // Of PCI Express only, as in Linux's vfio-pci. A count of 0 would make QEMU warn.
            VFIO_PCI_ERR_IRQ_INDEX => return Err(Errno::INVAL),
            _ => VFIO_IRQ_INFO_EVENTFD,
        };
        Ok((flags, count))
    }

    /// SET_IRQS.
    pub(crate) fn set(&self, request: SetIrqs<'_>) -> Result<(), Errno> {
        let SetIrqs { index, flags, start, count, bools, descriptors } = request;
        let all = *self.counts.get(index as usize).ok_or(Errno::INVAL)?;
        let end = start.checked_add(count).filter(|end| *end <= all).ok_or(Errno::INVAL)?;
        let (data, action) = (flags & VFIO_IRQ_SET_DATA_TYPE_MASK, flags & VFIO_IRQ_SET_ACTION_TYPE_MASK);
        if data | action != flags || (data != VFIO_IRQ_SET_DATA_EVENTFD && !descriptors.is_empty()) {
            return Err(Errno::INVAL);
        }
        let mut state = self.state.lock();
        if count == 0 {
            let disables = data == VFIO_IRQ_SET_DATA_NONE && action == VFIO_IRQ_SET_ACTION_TRIGGER && start == 0;
            return if disables { state.disable(index) } else { Err(Errno::INVAL) };
        }
        let range = start as usize..end as usize;
        match data {
            VFIO_IRQ_SET_DATA_NONE => range.into_iter().try_for_each(|number| state.act(index, number, action)),
            VFIO_IRQ_SET_DATA_BOOL => {
                if bools.len() != range.len() {
                    return Err(Errno::INVAL);
                }
                let mut chosen = range.zip(bools).filter(|(_, chosen)| **chosen != 0);
                chosen.try_for_each(|(number, _)| state.act(index, number, action))
            }
            VFIO_IRQ_SET_DATA_EVENTFD if action == VFIO_IRQ_SET_ACTION_TRIGGER => {
                if descriptors.is_empty() {
                    // None is the eventfd that ends a vector's signals.
                    return range.into_iter().try_for_each(|number| state.assign(index, number, None));
                }
                if descriptors.len() != range.len() {
                    return Err(Errno::INVAL);
                }
                range.zip(descriptors).try_for_each(|(number, trigger)| state.assign(index, number, Some(trigger)))
            }
            // An eventfd of KVM that unmasks: without it QEMU unmasks by message.
            VFIO_IRQ_SET_DATA_EVENTFD => Err(Errno::OPNOTSUPP),
            _ => Err(Errno::INVAL),
        }
    }
}

impl State {
    fn vectors(&mut self, index: u32) -> Result<&mut Vec<Option<OwnedFd>>, Errno> {
        match index {
            VFIO_PCI_MSI_IRQ_INDEX => Ok(&mut self.msi),
            VFIO_PCI_MSIX_IRQ_INDEX => Ok(&mut self.msix),
            _ => Err(Errno::INVAL),
        }
    }

    fn disable(&mut self, index: u32) -> Result<(), Errno> {
        if index == VFIO_PCI_INTX_IRQ_INDEX {
            self.pin.trigger = None;
            self.pin.masked = false;
            return Ok(());
        }
        self.pending.fill(false);
        if let Ok(vectors) = self.vectors(index) {
            vectors.fill_with(|| None);
        }
        Ok(())
    }

    fn assign(&mut self, index: u32, number: usize, trigger: Option<OwnedFd>) -> Result<(), Errno> {
        if index == VFIO_PCI_INTX_IRQ_INDEX {
            self.pin = Pin { level: self.pin.level, masked: false, trigger };
            self.pin.fire();
            return Ok(());
        }
        let waits = self.pending.get(number).copied().unwrap_or(false);
        let place = self.vectors(index)?.get_mut(number).ok_or(Errno::INVAL)?;
        *place = trigger;
        if let Some(trigger) = place.as_ref().filter(|_| waits) {
            signal(trigger);
            self.pending[number] = false;
        }
        Ok(())
    }

    /// MASK, UNMASK, or TRIGGER by the client itself.
    fn act(&mut self, index: u32, number: usize, action: u32) -> Result<(), Errno> {
        if index != VFIO_PCI_INTX_IRQ_INDEX {
            let trigger = self.vectors(index)?.get(number).ok_or(Errno::INVAL)?;
            if action != VFIO_IRQ_SET_ACTION_TRIGGER {
                return Err(Errno::INVAL);
            }
            trigger.iter().for_each(signal);
            return Ok(());
        }
        match action {
            VFIO_IRQ_SET_ACTION_MASK => self.pin.masked = true,
            VFIO_IRQ_SET_ACTION_UNMASK => {
                self.pin.masked = false;
                self.pin.fire();
            }
            VFIO_IRQ_SET_ACTION_TRIGGER => self.pin.trigger.iter().for_each(signal),
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }
}

impl Pin {
    /// Signals a level once, until it is unmasked.
    fn fire(&mut self) {
        if let Some(trigger) = self.trigger.as_ref().filter(|_| self.level && !self.masked) {
            self.masked = true;
            signal(trigger);
        }
    }
}

impl InterruptOutput for Irqs {
    fn intx(&self, asserted: bool) {
        let mut state = self.state.lock();
        state.pin.level = asserted;
        state.pin.fire();
    }

    fn message(&self, vector: u16) {
        let mut state = self.state.lock();
        let number = usize::from(vector);
        let trigger = [&state.msix, &state.msi].into_iter().find_map(|vectors| vectors.get(number)?.as_ref());
        match trigger {
            Some(trigger) => signal(trigger),
            None => {
                if let Some(pending) = state.pending.get_mut(number) {
                    *pending = true;
                }
            }
        }
    }

    fn masks_vectors(&self) -> bool {
        true
    }
}

/// Adds one to an eventfd. Whatever else the client gave, this does not block: what takes no bytes gets none.
fn signal(trigger: &OwnedFd) {
    let mut fds = [PollFd::from_borrowed_fd(trigger.as_fd(), PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT) {
        // A client that gave something else gets no interrupt.
        let _ = rustix::io::write(trigger, &1_u64.to_ne_bytes());
    }
}
