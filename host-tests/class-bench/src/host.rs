//! The host's program's view of the bench.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use usb::Speed;
use usb::ch9::{DescriptorType, EndpointAddress};
use usb::urb::{Transfer, Urb, UrbError};
use usb::wire::{DataPid, HostAck, InReply, Target, UsbPort};
use usb_host::{Device, Host, HostEvent, HubError, Line, MemoryLog};

use crate::ch9;
use crate::error::{BenchError, Seen};
use crate::mistake::Mistake;
use crate::state::Shared;
use crate::trace::TraceLine;

/// How long the host waits for a pull-up.
const ATTACH: Duration = Duration::from_secs(1);
/// Lines of the trace that an error shows.
const SHOWN: usize = 40;
/// The longest isochronous packet (USB 2.0 §5.6.3).
const MOST_ISOCHRONOUS: usize = 1024;

/// A Linux host with the device at its port.
pub struct ClassHost {
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: Host,
    pub(crate) max_speed: Speed,
    log: Arc<MemoryLog>,
    failed: Mutex<Option<Vec<HubError>>>,
}

impl fmt::Debug for ClassHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassHost").field("device", &self.host.current_device()).finish_non_exhaustive()
    }
}

impl ClassHost {
    pub(crate) fn new(shared: Arc<Shared>, host: Host, log: Arc<MemoryLog>, max_speed: Speed) -> Self {
        Self { shared, host, max_speed, log, failed: Mutex::default() }
    }

    /// The device, once it is enumerated and configured.
    ///
    /// # Errors
    /// [`BenchError::NotAttached`] and [`BenchError::NotEnumerated`].
    pub async fn device(&self) -> Result<Device, BenchError> {
        let mut waited = Duration::ZERO;
        while self.shared.attached().is_none() {
            if waited >= ATTACH {
                return Err(BenchError::NotAttached);
            }
            let step = Duration::from_millis(10);
            sleep(step).await;
            waited += step;
        }
        loop {
            if let Some(device) = self.host.current_device() {
                return Ok(device);
            }
            if let Some(errors) = self.failed.lock().clone() {
                return Err(BenchError::NotEnumerated { errors, seen: self.seen() });
            }
            self.take_event().await;
        }
    }

    async fn take_event(&self) {
        match self.host.event().await {
            HostEvent::Failed(errors) => *self.failed.lock() = Some(errors),
            HostEvent::Enumerated(_) | HostEvent::Disconnected(_) => *self.failed.lock() = None,
        }
    }

    fn seen(&self) -> Seen {
        Seen { log: self.log(), trace: self.shared.trace_tail(SHOWN) }
    }

    /// Lets virtual time pass.
    pub async fn sleep(&self, time: Duration) {
        sleep(time).await;
    }

    /// Virtual time since the run began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.now()
    }

    /// The kernel log's lines so far.
    #[must_use]
    pub fn log(&self) -> Vec<Line> {
        self.log.lines()
    }

    /// The last 4096 things that happened on the wire and at the bus.
    #[must_use]
    pub fn trace(&self) -> Vec<TraceLine> {
        self.shared.trace()
    }

    /// What the firmware did that it must not do.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        self.shared.state.lock().mistakes()
    }

    /// The host below, for all that is not here.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Resets the device, addresses it again and restores its configuration (`usb_reset_device`).
    ///
    /// # Errors
    /// Those of [`ClassHost::device`]; -19 when the device did not come back the same.
    pub async fn reset(&self) -> Result<(), BenchError> {
        Ok(self.device().await?.reset().await?)
    }

    /// Suspends the bus, with remote wakeup enabled if the configuration allows it.
    ///
    /// # Errors
    /// Those of [`ClassHost::device`] and of SET_FEATURE.
    pub async fn suspend(&self) -> Result<(), BenchError> {
        self.device().await?;
        Ok(self.host.suspend().await?)
    }

    /// Whether the bus is suspended. It wakes up when the device signals resume.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.host.controller().port_status().suspended
    }

    /// Resumes the bus and asks the device for its status.
    ///
    /// # Errors
    /// Those of [`ClassHost::device`] and of GET_STATUS.
    pub async fn resume(&self) -> Result<(), BenchError> {
        self.device().await?;
        Ok(self.host.resume().await?)
    }

    /// Pulls the cable and waits until the host has noticed. The firmware goes on and sees nothing of it but silence, as
    /// with a device that has its own power.
    pub async fn unplug(&self) {
        self.set_unplugged(true);
        while self.host.current_device().is_some() {
            self.take_event().await;
        }
    }

    /// Plugs the cable in again; then wait for [`ClassHost::device`].
    pub fn plug(&self) {
        *self.failed.lock() = None;
        self.set_unplugged(false);
    }

    fn set_unplugged(&self, unplugged: bool) {
        self.shared.state.lock().unplugged = unplugged;
        self.shared.hint(|listener| listener.attach_changed());
    }

    /// A packet from an isochronous endpoint of the device, without handshake or retry (USB 2.0 §8.5.5). Empty when the
    /// class has nothing; `None` when nobody answers.
    ///
    /// # Errors
    /// Those of [`ClassHost::device`].
    pub async fn isochronous_in(&self, number: u8) -> Result<Option<Vec<u8>>, BenchError> {
        let mut packet = vec![0; MOST_ISOCHRONOUS];
        let reply = self.shared.data_in(self.target(number).await?, &mut packet, HostAck::Sent);
        let InReply::Data { len, .. } = reply else { return Ok(None) };
        packet.truncate(len);
        Ok(Some(packet))
    }

    /// A packet to an isochronous endpoint of the device. Nobody says whether it came.
    ///
    /// # Errors
    /// Those of [`ClassHost::device`].
    pub async fn isochronous_out(&self, number: u8, data: &[u8]) -> Result<(), BenchError> {
        let _ = self.shared.data_out(self.target(number).await?, DataPid::Data0, data);
        Ok(())
    }

    async fn target(&self, number: u8) -> Result<Target, BenchError> {
        Ok(Target { address: self.device().await?.number(), endpoint: number })
    }

    /// An interrupt transfer to endpoint `number`.
    ///
    /// # Errors
    /// Those of [`ClassHost::device`]; -110 after `timeout`, -32 when the endpoint is halted; see [`UrbError`].
    pub async fn interrupt_out(&self, number: u8, data: &[u8], timeout: Duration) -> Result<(), BenchError> {
        let device = self.device().await?;
        let urb = Urb {
            address: device.number(),
            endpoint: EndpointAddress::out(number),
            transfer: Transfer::Interrupt,
            buffer: data.to_vec(),
            zero_packet: false,
            short_not_ok: false,
        };
        // Dropped at the timeout, the transfer is killed.
        let done = tokio::time::timeout(timeout, device.submit(urb)).await.map_err(|_| UrbError::TimedOut)?;
        Ok(done.status?)
    }

    /// A descriptor of the device, at most `length` bytes (USB 2.0 §9.4.3).
    ///
    /// # Errors
    /// Those of [`ClassHost::device`] and of the control transfer.
    pub async fn descriptor(&self, kind: DescriptorType, index: u8, length: u16) -> Result<Vec<u8>, BenchError> {
        let setup = usb::SetupPacket::get_descriptor(kind, index, 0, length);
        Ok(self.device().await?.control_in(setup, usb_host::CONTROL_TIMEOUT).await?)
    }

    /// Holds the device against chapter 9 of USB 2.0; see [`crate::ch9`]. It is reset many times and configured again at
    /// the end, whose failure is a check too.
    pub async fn ch9(&self) -> ch9::Report {
        // Whatever comes of it: nobody else may be at the port.
        let _ = self.device().await;
        ch9::run(self).await
    }
}
