//! What network drivers share: URBs in flight, halts, throttling, carrier (drivers/net/usb/usbnet.c).
//!
//! Frames move in the completions of URBs, without a task between. One task a device does what needs time: clearing
//! halts, waiting after errors, asking the notification endpoint again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use usb::ch9::{EndpointAddress, EndpointDescriptor, Speed};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use zerocopy::IntoBytes;

use crate::device::Device;
use crate::net::cdc::{Function, NOTIFICATION_LENGTH};
use crate::net::netdev::{Driver, SendError, Statistics};
use crate::net::rndis::{PacketHeader, unwrap_frames};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Payload of an Ethernet frame.
pub(crate) const MTU: usize = 1500;

/// Memory for URBs in flight each way, at high speed (MAX_QUEUE_MEMORY).
const MAX_QUEUE_MEMORY: usize = 60 * 1518;
/// URBs in flight each way at full speed.
const SLOW_QUEUE: usize = 4;
/// Frames that wait for their reader before reception pauses.
const MOST_FRAMES: usize = 1024;
/// Rest after transfer errors (THROTTLE_JIFFIES).
const THROTTLE: Duration = Duration::from_millis(125);
/// Of [`RX_WINDOW`] transfers so many may fail before reception rests.
const RX_MOST_ERRORS: u32 = 20;
const RX_WINDOW: u32 = 30;

/// How frames lie in bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A frame is a transfer.
    Plain,
    /// Behind 44 bytes, several in a transfer.
    Rndis,
}

/// What a driver's binding came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) driver: Driver,
    pub(crate) framing: Framing,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: usize,
    /// Bytes of the longest transfer to the device.
    pub(crate) hard_mtu: usize,
    pub(crate) rx_urb_size: usize,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// The device or its endpoints are gone (`netif_device_detach`).
    detached: bool,
    carrier: bool,
    frames: VecDeque<Vec<u8>>,
    rx_in_flight: usize,
    tx_in_flight: usize,
    /// Buffers of finished URBs.
    spare: Vec<Vec<u8>>,
    rx_halted: bool,
    tx_halted: bool,
    /// Errors rest until then.
    throttled: Option<Instant>,
    /// When the notification endpoint is asked again.
    status_due: Option<Instant>,
    /// The other half of a SPEED_CHANGE comes next (EVENT_STS_SPLIT).
    status_split: bool,
    window: u32,
    window_errors: u32,
    statistics: Statistics,
}

/// A network function with its queues.
pub(super) struct UsbNet {
    pub(super) device: Device,
    pub(super) link: Link,
    pub(super) name: &'static str,
    bulk_in: EndpointAddress,
    bulk_out: EndpointAddress,
    out_packet: usize,
    status: Option<EndpointDescriptor>,
    /// `cdc_ether 5-1.3:1.0 usb0`
    log_name: String,
    rx_queue: usize,
    tx_queue: usize,
    state: Mutex<State>,
    /// The task has something to do.
    event: Notify,
    /// The owner has something to do.
    changed: Notify,
}

impl UsbNet {
    /// The end of `usbnet_probe`: registers the device, says so, starts reception. [`UsbNet::serve`] is to be run.
    pub(super) fn register(device: &Device, mut link: Link, function: &Function, source: &str) -> Arc<Self> {
        let zero = link.mac == [0; 6];
        // A link of two hosts, without an address of its own.
        let name = if zero || link.mac[0] & 2 != 0 { "usb0" } else { "eth0" };
        if zero || link.mac[0] & 1 != 0 {
            // Linux takes a random one; this one is the same in every run.
            link.mac = [0x02, 0, 0, 0, 0, device.number()];
        }
        let queue = |size: usize| match device.speed() {
            Speed::High => (MAX_QUEUE_MEMORY / size.max(1)).max(1),
            Speed::Full | Speed::Low => SLOW_QUEUE,
        };
        let net = Arc::new(Self {
            device: device.clone(),
            name,
            bulk_in: function.bulk_in.endpoint(),
            bulk_out: function.bulk_out.endpoint(),
            out_packet: function.bulk_out.max_packet().into(),
            status: function.status,
            log_name: format!("{source} {name}"),
            rx_queue: queue(link.rx_urb_size),
            tx_queue: queue(link.hard_mtu),
            state: Mutex::new(State { carrier: true, status_due: Some(Instant::now()), ..State::default() }),
            event: Notify::new(),
            changed: Notify::new(),
            link,
        });
        let mac = link.mac.map(|byte| format!("{byte:02x}")).join(":");
        net.log(format_args!("register '{}' at {}, {mac}", link.driver.name(), net.place()));
        net.fill_rx();
        net
    }

    pub(super) fn carrier(&self) -> bool {
        let state = self.state.lock();
        state.carrier && !state.stopped
    }

    pub(super) fn can_send(&self) -> bool {
        self.check_send(&self.state.lock()).is_ok()
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.state.lock().statistics
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn take_frame(self: &Arc<Self>) -> Option<Vec<u8>> {
        let (frame, was_full) = {
            let mut state = self.state.lock();
            let was_full = state.frames.len() + state.rx_in_flight >= MOST_FRAMES;
            (state.frames.pop_front(), was_full)
        };
        if was_full {
            self.fill_rx();
        }
        frame
    }

    /// `usb-0000:31:00.3-1.3, CDC Ethernet Device`
    fn place(&self) -> String {
        let config = self.device.host_config();
        format!("usb-{}-{}, {}", config.pci, config.port.devpath(), self.link.driver.description())
    }

    fn check_send(&self, state: &State) -> Result<(), SendError> {
        if state.stopped || state.detached || !state.carrier {
            Err(SendError::Down)
        } else if state.tx_halted || state.throttled.is_some() || state.tx_in_flight >= self.tx_queue {
            Err(SendError::Busy)
        } else {
            Ok(())
        }
    }

    pub(super) fn send(self: &Arc<Self>, frame: &[u8]) -> Result<(), SendError> {
        let most = self.link.mtu + ETHERNET_HEADER;
        if frame.len() > most {
            return Err(SendError::TooLong { length: frame.len(), most });
        }
        let mut buffer = {
            let mut state = self.state.lock();
            self.check_send(&state)?;
            state.tx_in_flight += 1;
            state.spare.pop().unwrap_or_default()
        };
        buffer.clear();
        if self.link.framing == Framing::Rndis {
            buffer.extend_from_slice(PacketHeader::new(frame.len() as u32).as_bytes());
        }
        buffer.extend_from_slice(frame);
        // Instead of an empty packet, which some devices do not expect, one byte more.
        if buffer.len().is_multiple_of(self.out_packet) {
            buffer.push(0);
        }
        self.submit(self.bulk_out, Transfer::Bulk, buffer, Self::tx_done);
        Ok(())
    }

    fn submit(
        self: &Arc<Self>,
        endpoint: EndpointAddress,
        transfer: Transfer,
        buffer: Vec<u8>,
        done: impl FnOnce(&Arc<Self>, UrbDone) + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        let urb = Urb { address: 0, endpoint, transfer, buffer, zero_packet: false, short_not_ok: false };
        self.device.submit_with(urb, Box::new(move |finished| done(&shared, finished)));
    }

    /// Submits URBs for reception until enough are in flight.
    fn fill_rx(self: &Arc<Self>) {
        for _ in 0..self.rx_queue {
            let mut buffer = {
                let mut state = self.state.lock();
                let full = state.frames.len() + state.rx_in_flight >= MOST_FRAMES;
                let rests =
                    state.stopped || state.detached || !state.carrier || state.rx_halted || state.throttled.is_some();
                if rests || full || state.rx_in_flight >= self.rx_queue {
                    return;
                }
                state.rx_in_flight += 1;
                state.spare.pop().unwrap_or_default()
            };
            buffer.resize(self.link.rx_urb_size, 0);
            self.submit(self.bulk_in, Transfer::Bulk, buffer, Self::rx_done);
        }
    }

    fn rx_done(self: &Arc<Self>, done: UrbDone) {
        let UrbDone { buffer, actual, status } = done;
        let data = buffer.get(..actual).unwrap_or_default();
        let mut state = self.state.lock();
        state.rx_in_flight -= 1;
        let error = match status {
            Ok(()) => !self.take_frames(&mut state, data),
            Err(
                UrbError::Shutdown | UrbError::Unlinked | UrbError::Killed | UrbError::NoDevice | UrbError::Invalid,
            ) => {
                return;
            }
            Err(UrbError::Stall) => {
                state.rx_halted = true;
                self.event.notify_one();
                true
            }
            Err(UrbError::Protocol) => {
                self.throttle(&mut state);
                true
            }
            Err(_) => true,
        };
        state.statistics.rx_errors += u64::from(error);
        state.window += 1;
        state.window_errors += u32::from(error);
        if state.window_errors > RX_MOST_ERRORS {
            self.throttle(&mut state);
        }
        if state.window > RX_WINDOW || state.throttled.is_some() {
            (state.window, state.window_errors) = (0, 0);
        }
        state.spare.push(buffer);
        drop(state);
        self.changed.notify_one();
        self.fill_rx();
    }

    /// The frames of a transfer; `false` when it held none or was no good.
    fn take_frames(&self, state: &mut State, data: &[u8]) -> bool {
        let State { frames, statistics, .. } = state;
        let mut any = false;
        let mut each = |frame: &[u8]| {
            if frame.len() >= ETHERNET_HEADER && frames.len() < MOST_FRAMES + RX_WINDOW as usize {
                frames.push_back(frame.to_vec());
                statistics.rx_frames += 1;
                any = true;
            }
        };
        let sound = match self.link.framing {
            Framing::Plain => {
                each(data);
                true
            }
            Framing::Rndis => unwrap_frames(data, each),
        };
        any && sound
    }

    fn throttle(&self, state: &mut State) {
        if state.throttled.is_none() {
            state.throttled = Some(Instant::now() + THROTTLE);
            self.event.notify_one();
        }
    }

    fn tx_done(self: &Arc<Self>, done: UrbDone) {
        let mut state = self.state.lock();
        state.tx_in_flight -= 1;
        state.spare.push(done.buffer);
        match done.status {
            Ok(()) => state.statistics.tx_frames += 1,
            Err(error) => {
                state.statistics.tx_errors += 1;
                match error {
                    UrbError::Stall => {
                        state.tx_halted = true;
                        self.event.notify_one();
                    }
                    UrbError::Protocol => self.throttle(&mut state),
                    _ => {}
                }
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The task: until the device is gone.
    pub(super) async fn serve(self: Arc<Self>) {
        let gone = self.device.disconnected();
        tokio::pin!(gone);
        loop {
            let due = {
                let state = self.state.lock();
                let status_due = state.status_due.filter(|_| self.status.is_some());
                [state.throttled, status_due].into_iter().flatten().min()
            };
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut gone => break,
                () = self.event.notified() => self.clear_halts().await,
                () = wait => {}
            }
            self.do_what_is_due();
        }
        self.unregister();
    }

    fn do_what_is_due(self: &Arc<Self>) {
        let now = Instant::now();
        let ask = {
            let mut state = self.state.lock();
            let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
            if is_due(state.throttled) {
                state.throttled = None;
                self.changed.notify_one();
            }
            let ask = is_due(state.status_due);
            if ask {
                state.status_due = None;
            }
            ask
        };
        if let (true, Some(status)) = (ask, self.status) {
            let buffer = vec![0; status.max_packet().into()];
            self.submit(status.endpoint(), Transfer::Interrupt, buffer, Self::status_done);
        }
        self.fill_rx();
    }

    /// `usbnet_deferred_kevent`: halted endpoints are emptied and cleared.
    async fn clear_halts(&self) {
        let (rx_halted, tx_halted) = {
            let state = self.state.lock();
            (state.rx_halted, state.tx_halted)
        };
        for (halted, endpoint, what) in [(tx_halted, self.bulk_out, "tx"), (rx_halted, self.bulk_in, "rx")] {
            if !halted {
                continue;
            }
            self.device.flush(endpoint);
            match self.device.clear_halt(endpoint).await {
                Ok(()) | Err(UrbError::Stall | UrbError::Shutdown) => {
                    let mut state = self.state.lock();
                    let flag = if endpoint == self.bulk_in { &mut state.rx_halted } else { &mut state.tx_halted };
                    *flag = false;
                    // A device that refuses to be cleared would halt again at once.
                    self.throttle(&mut state);
                }
                Err(error) => {
                    let number = error.errno();
                    self.log(format_args!("can't clear {what} halt, status {number}"));
                }
            }
        }
    }

    fn log(&self, text: std::fmt::Arguments<'_>) {
        self.device.bus().log(&self.log_name, text);
    }

    fn status_done(self: &Arc<Self>, done: UrbDone) {
        match done.status {
            Err(UrbError::Killed | UrbError::Shutdown | UrbError::NoDevice | UrbError::Invalid) => return,
            Ok(()) if self.link.driver == Driver::CdcEther => {
                self.notified(done.buffer.get(..done.actual).unwrap_or_default());
            }
            _ => {}
        }
        let mut state = self.state.lock();
        state.status_due = Some(Instant::now() + self.status_period());
        self.event.notify_one();
    }

    /// The endpoint's interval, but 8 ms at least (`init_status`): frames at full speed, 2^(n-1) microframes at high
    /// speed (USB 2.0 table 9-13).
    fn status_period(&self) -> Duration {
        let interval = self.status.map_or(1, |status| status.interval);
        match self.device.speed() {
            Speed::High => Duration::from_micros(125 << (interval.clamp(7, 16) - 1)),
            Speed::Full | Speed::Low => Duration::from_millis(interval.max(3).into()),
        }
    }

    /// `usbnet_cdc_status`.
    fn notified(self: &Arc<Self>, bytes: &[u8]) {
        const NETWORK_CONNECTION: u8 = 0x00;
        const SPEED_CHANGE: u8 = 0x2a;
        let Some(header) = bytes.first_chunk::<NOTIFICATION_LENGTH>() else { return };
        let mut state = self.state.lock();
        if std::mem::take(&mut state.status_split) {
            return;
        }
        match header[1] {
            NETWORK_CONNECTION => {
                let carrier = header[2..4] != [0, 0];
                let changed = state.carrier != carrier;
                state.carrier = carrier;
                drop(state);
                if changed {
                    self.changed.notify_one();
                    if carrier {
                        self.fill_rx();
                    } else {
                        self.device.flush(self.bulk_in);
                    }
                }
            }
            SPEED_CHANGE => state.status_split = bytes.len() != NOTIFICATION_LENGTH + 8,
            other => {
                drop(state);
                self.log(format_args!("CDC: unexpected notification {other:02x}!"));
            }
        }
    }

    /// `usbnet_disconnect`.
    pub(super) fn unregister(&self) {
        if self.stop() {
            self.log(format_args!("unregister '{}' {}", self.link.driver.name(), self.place()));
        }
    }

    /// Ends all URBs. `false` when that was done before.
    pub(super) fn stop(&self) -> bool {
        if std::mem::replace(&mut self.state.lock().stopped, true) {
            return false;
        }
        for endpoint in [Some(self.bulk_in), Some(self.bulk_out), self.status.map(|status| status.endpoint())] {
            if let Some(endpoint) = endpoint.filter(|_| !self.device.is_gone()) {
                self.device.flush(endpoint);
            }
        }
        self.changed.notify_one();
        true
    }
}
