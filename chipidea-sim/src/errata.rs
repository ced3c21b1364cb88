//! Errata of single revisions, as data: what such a part does beside what every part does.

use std::fmt;
use std::num::NonZeroU32;

use bus::{DmaAddr, Event};
use devices::{DmaError, DmaPort};
use usb::wire::Target;
use usb::{Direction, EndpointAddress};

use crate::core::Core;
use crate::descriptor::{Dtd, Link};
use crate::kinds::{self, address};
use crate::prime::Work;
use crate::register_map::Reg;
use crate::registers::{DeviceAddr, EndptCtrlHalf};
use crate::slot::Slot;
use crate::trace::SOURCE;

/// What is kept of what errata did: the first of it, enough to explain a failure.
const MOST_STRUCK: usize = 64;

/// A revision of version 2 that has an erratum. The ID register says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Revision {
    /// 2.20a, as in Xilinx Zynq 7000.
    R22,
    /// 2.40, as in i.MX6.
    R24,
}

impl Revision {
    /// VERSION 28:25 and REVISION 24:21 of the ID register.
    pub(crate) const fn identification(self) -> u32 {
        let revision = match self {
            Self::R22 => 2,
            Self::R24 => 4,
        };
        2 << 25 | revision << 21
    }
}

/// A dTD that is added to a primed endpoint is not recognised, and its prime with it is lost: USBCMD.ATDTW and ENDPTSTAT
/// read 1 when the driver adds it, and the endpoint is not primed all the same (as told in Linux 5.16, `usb: chipidea:
/// udc: make controller hardware endpoint primed`; i.MX6 has it as ERR004535).
///
/// In the model (**D**) the controller ends its list where it ended when it fetched its last dTD. It strikes where one dTD
/// was added since, the new end: the next addition finds ENDPTSTAT clear. A request of several dTDs is always recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LostAppends {
    /// Whose it is.
    pub revision: Revision,
    /// It strikes each time that it could for so many times, counted over all endpoints.
    pub every: NonZeroU32,
}

/// The errata that a controller has. None by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Errata {
    /// Revisions 2.2 and 2.4.
    pub lost_appends: Option<LostAppends>,
    /// ERR050101 (i.MX RT, and the i.MX parts that Linux 5.2 speaks of in `usb: chipidea: udc: workaround for endpoint
    /// conflict issue`): while an isochronous IN endpoint is enabled, an IN token to the same endpoint number of *another*
    /// device unprimes an OUT endpoint, without a trace in any register but ENDPTSTAT.
    ///
    /// In the model (**D**) every such token does, and the primed OUT endpoint of the lowest number is the one.
    pub foreign_in_unprimes: bool,
}

/// An erratum struck: an event in traces, and kept for who asks why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck {
    /// See [`LostAppends`].
    LostAppend {
        /// The endpoint whose list went on, and which did not.
        endpoint: EndpointAddress,
        /// The dTD that was added.
        dtd: DmaAddr,
        /// The revision whose erratum it is.
        revision: Revision,
    },
    /// See [`Errata::foreign_in_unprimes`].
    Unprimed {
        /// The OUT endpoint that was primed.
        endpoint: EndpointAddress,
        /// Where the IN token went.
        token: Target,
    },
}

impl Event for Struck {}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::R22 => "2.2",
            Self::R24 => "2.4",
        })
    }
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostAppend { endpoint, dtd, revision } => write!(
                f,
                "prime of {endpoint} was lost: the dTD at {dtd} that was added to its list is not recognised (erratum of \
                 revision {revision})"
            ),
            Self::Unprimed { endpoint, token } => {
                write!(f, "{endpoint} was unprimed by an IN token to {token}, another device (ERR050101)")
            }
        }
    }
}

/// The switches with what came of them.
#[derive(Debug, Default)]
pub(crate) struct Active {
    errata: Errata,
    /// Times that [`LostAppends`] could have struck.
    appends: u32,
    pub(crate) struck: Vec<Struck>,
}

impl Active {
    pub(crate) fn new(errata: Errata) -> Self {
        Self { errata, ..Self::default() }
    }

    fn strike(&mut self, dma: &DmaPort, struck: Struck) {
        dma.trace().emit(SOURCE, || struck);
        if self.struck.len() < MOST_STRUCK {
            self.struck.push(struck);
        }
    }
}

impl Core {
    /// Whether the list ends for the controller although its retired dTD now names the one at `target`.
    pub(crate) fn append_is_lost(&mut self, dma: &DmaPort, work: &Work, target: u32) -> Result<bool, DmaError> {
        let Some(LostAppends { revision, every }) = self.errata.errata.lost_appends else { return Ok(false) };
        if work.next.target().is_some() {
            return Ok(false);
        }
        let position = self.slots[work.slot.index()].position.wrapping_add(1);
        let added: Dtd = dma.read_object(address(target), kinds::dtd(work.slot, position, ""))?;
        if Link(added.next.get()).target().is_some() {
            return Ok(false);
        }
        self.errata.appends = self.errata.appends.wrapping_add(1);
        if !self.errata.appends.is_multiple_of(every.get()) {
            return Ok(false);
        }
        let endpoint = work.slot.address();
        self.errata.strike(dma, Struck::LostAppend { endpoint, dtd: address(target), revision });
        Ok(true)
    }

    /// An IN token goes by on the bus.
    pub(crate) fn overhear_in(&mut self, dma: &DmaPort, token: Target) {
        let own = DeviceAddr::from_bits(self.registers.get(Reg::DeviceAddr)).address();
        if !self.errata.errata.foreign_in_unprimes || token.address == own || !self.is_awake() {
            return;
        }
        let same = self.control(Slot::new(token.endpoint, Direction::In));
        let primed = (0..16).map(|number| Slot::new(number, Direction::Out));
        let primed = primed.into_iter().find(|slot| self.has_bits(Reg::EndptStat, slot.bit()));
        if let Some(slot) = primed.filter(|_| same.enable() && same.kind() == EndptCtrlHalf::ISOCHRONOUS) {
            self.clear_bits(Reg::EndptStat, slot.bit());
            self.errata.strike(dma, Struck::Unprimed { endpoint: slot.address(), token });
        }
    }
}
