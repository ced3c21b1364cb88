//! What a driver does to the controller, told so that two drivers can be compared.

mod names;
mod slots;
mod story;

use std::any::Any;
use std::fmt;

use bus::{AccessKind, Event, TraceSink};
use devices::DmaEvent;
use parking_lot::Mutex;
use usb::wire::Packet;

use crate::trace::{Refused, RegisterEvent};
use story::Story;

/// A sink that keeps what a driver does: register writes, and the dQHs and dTDs that the controller finds in memory.
///
/// [`Traffic::sections`] tells it in the controller's own names, without an address: of a kernel in a virtual machine as of a
/// driver in the same process, whatever memory each has. Two drivers that do the same to the controller give the same
/// sections, and two runs of one driver too, although its interrupts come at other times:
/// - Reads of registers are left out, and writes that do nothing: 0 to USBSTS, ENDPTCOMPLETE and ENDPTSETUPSTAT.
/// - A dTD that is retired with nothing left of it is left out: ENDPTCOMPLETE says enough.
/// - UI of USBSTS is left out. One interrupt may serve what two would, so there are as many as the driver's processor is slow.
/// - A section begins with VBUS, with the driver's answer to a bus reset (USBSTS.URI), or with its answer to a SETUP
///   (ENDPTSETUPSTAT). An endpoint's bit of ENDPTCOMPLETE is told where the dTD was retired that set it.
/// - Endpoint 0 is told in its control transfers. The others have sections of their own, behind them: what happens on two
///   endpoints has no order. Of their primes and add-dTD tripwires (USBCMD.ATDTW) those that come before the answer to a SETUP
///   are told there too; tripwires that come later are counted, as they name no endpoint. One that the controller clears, and
///   that is set again, is one.
/// - Where RS of USBCMD falls while VBUS is off is not told: the pull-up is off anyway. It is the section's last line.
/// - An address is what it points to. Of a dTD is said whether it is the one that its slot had last (`again`) or `another`: its
///   block may be used again as soon as the driver has freed it. After a flush nothing is said, as all are free then. Of a
///   buffer is said how its five page pointers follow each other, not where in a page it begins, and nothing of its bytes.
///
/// It takes no notice of a driver that answers SETUP packets later than the next one comes: the host has to wait for it.
#[derive(Default)]
pub struct Traffic {
    events: Mutex<Vec<Happened>>,
}

/// A part of the traffic: what led to it, and what the driver did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// `SETUP 80 06 00 01 00 00 40 00`, `bus reset, high-speed`, `ep1 OUT`, for example.
    pub title: String,
    /// One thing each, in order.
    pub lines: Vec<String>,
}

/// What is kept of an event.
enum Happened {
    Written(RegisterEvent),
    Refused(Refused),
    Memory(DmaEvent),
    Wire(Packet),
}

impl Traffic {
    /// A sink for the trace of one controller.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events were kept so far: it stands still while nobody does anything.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.lock().len()
    }

    /// Whether nothing was kept yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The traffic so far.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let mut story = Story::new();
        for event in &*self.events.lock() {
            match event {
                Happened::Written(event) => story.written(event),
                Happened::Refused(refused) => story.line(refused.to_string()),
                Happened::Memory(event) => story.memory(event),
                Happened::Wire(packet) => story.wire(packet),
            }
        }
        story.end()
    }
}

impl TraceSink for Traffic {
    fn record(&self, _source: &'static str, event: &dyn Event) {
        if let Some(happened) = kept(event) {
            self.events.lock().push(happened);
        }
    }
}

/// Of what matters the part that does.
fn kept(event: &dyn Event) -> Option<Happened> {
    let event = event as &dyn Any;
    if let Some(register) = event.downcast_ref::<RegisterEvent>() {
        (register.access == AccessKind::Write).then_some(Happened::Written(*register))
    } else if let Some(memory) = event.downcast_ref::<DmaEvent>() {
        slots::is_told(memory).then(|| Happened::Memory(memory.clone()))
    } else if let Some(packet) = event.downcast_ref::<Packet>() {
        matches!(packet, Packet::Setup(..) | Packet::Reset(_) | Packet::Suspend | Packet::Resume | Packet::Vbus(_))
            .then(|| Happened::Wire(packet.clone()))
    } else {
        event.downcast_ref::<Refused>().copied().map(Happened::Refused)
    }
}

impl Section {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), lines: Vec::new() }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let mut lines = self.lines.iter().peekable();
        while let Some(line) = lines.next() {
            let mut times = 1;
            while lines.next_if_eq(&line).is_some() {
                times += 1;
            }
            match times {
                1 => writeln!(f, "  {line}")?,
                times => writeln!(f, "  {line} ×{times}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traffic").field("events", &self.len()).finish()
    }
}
