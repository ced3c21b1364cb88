//! A scenario that queues requests at the board one by one.

use std::time::Duration;

use gadgets::scripted::{BULK_IN, BULK_OUT, ScriptedGadget};
use usb::EndpointAddress;
use usb::gadget::{Completion, Request, RequestError};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb_host::Device;

use crate::session::{Session, expect_equal};
use crate::shared::Shared;
use crate::verdict::Failure;

/// Time for a transfer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A scenario with its gadget and the device that the host sees.
pub(super) struct Script<'a> {
    pub(super) session: &'a Session,
    pub(super) gadget: Shared<ScriptedGadget>,
    pub(super) device: Device,
}

impl Script<'_> {
    /// Bytes in a full packet of the bulk endpoints.
    pub(super) fn max_packet(&self) -> usize {
        usize::from(BULK_IN.at(self.device.speed()).max_packet())
    }

    /// Queues a request at the board.
    pub(super) fn queue(&self, endpoint: EndpointAddress, request: Request) -> Result<(), Failure> {
        let (id, length) = (request.id, request.data.len());
        let queued =
            self.session.on_board(|driver, _| driver.queue(endpoint, request).map_err(|refused| refused.error));
        expect_equal(&format!("request {id} of {length} bytes is queued on {endpoint}"), &queued, &Some(Ok(())))
    }

    /// The next completion: id, status, and the data that counts.
    pub(super) async fn completed(&self, what: &str) -> Result<(u64, Result<usize, RequestError>, Vec<u8>), Failure> {
        self.session.settle().await;
        let Some(completion) = self.gadget.with(|gadget| gadget.functions_mut().completions.pop_front()) else {
            return Err(Failure::new(format!("{what}: the board's request does not come back")));
        };
        let Completion { mut request, status, .. } = completion;
        request.data.truncate(status.unwrap_or(request.data.len()));
        Ok((request.id, status, request.data))
    }

    /// Nothing came back at the board.
    pub(super) async fn nothing_completed(&self, what: &str) -> Result<(), Failure> {
        self.session.settle().await;
        let came = self.gadget.with(|gadget| gadget.functions().completions.front().map(|done| done.request.id));
        expect_equal(&format!("{what}: the request that comes back"), &came, &None)
    }

    /// The host sends `data`, with an empty packet after the last if it is full and `zero_packet`.
    pub(super) async fn send(&self, data: Vec<u8>, zero_packet: bool, what: &str) -> Result<(), Failure> {
        let endpoint = BULK_OUT.address();
        let urb =
            Urb { address: 0, endpoint, transfer: Transfer::Bulk, buffer: data, zero_packet, short_not_ok: false };
        let done = self.transfer(urb).await;
        done.status.map_err(|error| Failure::new(format!("{what}: bulk OUT, error {}", error.errno())))
    }

    /// What the host reads into a buffer of `room` bytes.
    pub(super) async fn receive(&self, room: usize, what: &str) -> Result<Vec<u8>, Failure> {
        let data = self.device.bulk_in(BULK_IN.address().number, room, TIMEOUT).await;
        data.map_err(|error| Failure::new(format!("{what}: bulk IN, error {}", error.errno())))
    }

    async fn transfer(&self, urb: Urb) -> UrbDone {
        let transfer = self.device.submit(urb);
        let late = UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::TimedOut) };
        tokio::time::timeout(TIMEOUT, transfer).await.unwrap_or(late)
    }
}
