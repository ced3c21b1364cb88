//! An endpoint of one direction: its dQH and what is queued on it (Linux: `struct ci_hw_ep`).

use std::collections::VecDeque;

use usb::gadget::Request;
use usb::{EndpointAddress, TransferType};

use crate::buffer::Buffer;
use crate::dqh::QueueHead;
use crate::dtd::TransferDescriptor;

/// How an endpoint is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointSetup {
    /// Transfer type. Control is for endpoint 0.
    pub transfer_type: TransferType,
    /// Bytes in a full packet.
    pub max_packet: u16,
    /// Packets a microframe, 1 to 3; over 1 only for isochronous endpoints.
    pub mult: u8,
}

/// An endpoint.
pub(crate) struct Endpoint {
    pub(crate) address: EndpointAddress,
    pub(crate) head: QueueHead,
    /// `None` while it is disabled.
    pub(crate) setup: Option<EndpointSetup>,
    /// Whether it ever was enabled: only then does ci_hdrc know its number and direction.
    pub(crate) named: bool,
    /// Requests in the order of their transfer.
    pub(crate) queue: VecDeque<Queued>,
    /// The dTDs of all queued requests, in the order of the list in memory.
    pub(crate) descriptors: VecDeque<TransferDescriptor>,
    /// The dTD retired last: the controller may still read its next pointer (`pending_td`).
    pub(crate) pending: Option<TransferDescriptor>,
    /// Number of the next dTD.
    pub(crate) next_number: u16,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) request: Request,
    /// `None` for an empty request.
    pub(crate) buffer: Option<Buffer>,
    /// How many of the endpoint's dTDs are its own.
    pub(crate) descriptors: usize,
    /// Bytes that retired dTDs did not move.
    pub(crate) missing: usize,
}

impl Endpoint {
    /// A disabled endpoint.
    pub(crate) fn new(address: EndpointAddress, head: QueueHead) -> Self {
        Self {
            address,
            head,
            setup: None,
            named: false,
            queue: VecDeque::new(),
            descriptors: VecDeque::new(),
            pending: None,
            next_number: 0,
        }
    }

    /// Whether it is enabled for control transfers.
    pub(crate) fn is_control(&self) -> bool {
        self.setup.is_some_and(|setup| setup.transfer_type == TransferType::Control)
    }

    /// Where the dTDs of request `index` begin.
    pub(crate) fn first_descriptor(&self, index: usize) -> usize {
        self.queue.iter().take(index).map(|queued| queued.descriptors).sum()
    }
}
