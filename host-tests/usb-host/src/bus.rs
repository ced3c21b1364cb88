//! What all async parts share: the controller, the log with its clock, transfers with timeouts.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Sleep, sleep};
use usb::ch9::{DescriptorType, Direction, EndpointAddress, SetupPacket};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};

use crate::config::HostConfig;
use crate::controller::{Cancel, HostController, Progress, Strike, UrbId};
use crate::error::HubError;
use crate::log::Log;
use crate::standstill::Standstill;

/// Time for a control transfer (USB_CTRL_GET_TIMEOUT, USB_CTRL_SET_TIMEOUT).
pub const CONTROL_TIMEOUT: Duration = Duration::from_millis(5000);

pub(crate) struct Bus {
    pub(crate) controller: Arc<HostController>,
    pub(crate) config: HostConfig,
    log: Arc<dyn Log>,
    /// `usb 5-1.3`.
    device_name: String,
    /// `usb 5-1-port3`.
    port_name: String,
    /// `xhci_hcd 0000:31:00.3`.
    controller_name: String,
    started: OnceLock<Instant>,
    /// The controller has work.
    work: Arc<Notify>,
    /// The hub has work.
    pub(crate) hub: Notify,
    /// Held while the port is reset and its device addressed (`address0_mutex`).
    pub(crate) port_lock: tokio::sync::Mutex<()>,
}

impl Bus {
    pub(crate) fn new(controller: Arc<HostController>, config: HostConfig, log: Arc<dyn Log>) -> Arc<Self> {
        let work = Arc::new(Notify::new());
        let waker = Arc::clone(&work);
        controller.set_waker(Some(Arc::new(move || waker.notify_one())));
        controller.space_strikes(!config.strike_interval.is_zero());
        Arc::new(Self {
            device_name: format!("usb {}", config.port),
            port_name: format!("usb {}", config.port.port_name()),
            controller_name: format!("{} {}", config.hcd, config.pci),
            controller,
            config,
            log,
            started: OnceLock::new(),
            work,
            hub: Notify::new(),
            port_lock: tokio::sync::Mutex::new(()),
        })
    }

    /// Time since the machine's start.
    pub(crate) fn now(&self) -> Duration {
        self.config.origin + self.started.get_or_init(Instant::now).elapsed()
    }

    pub(crate) fn log(&self, source: &str, text: impl std::fmt::Display) {
        self.log.line(self.now(), &format!("{source}: {text}"));
    }

    pub(crate) fn log_device(&self, text: impl std::fmt::Display) {
        self.log(&self.device_name, text);
    }

    pub(crate) fn log_port(&self, text: impl std::fmt::Display) {
        self.log(&self.port_name, text);
    }

    pub(crate) fn log_controller(&self, text: impl std::fmt::Display) {
        self.log(&self.controller_name, text);
    }

    /// Runs the controller; what is left is for the pump. All of it, if transfers are deferred.
    pub(crate) fn kick(&self) {
        if self.config.deferred || self.controller.run() == Progress::More {
            self.work.notify_one();
        }
    }

    /// Runs the controller whenever it has work, and again after strikes, for ever.
    pub(crate) async fn pump(&self) {
        let mut retry = Retry(None);
        let mut standstill = Standstill::new();
        loop {
            standstill.turn().await;
            tokio::select! {
                // The timer first: work that never ends must not keep the tries back.
                biased;
                strike = retry.due() => self.controller.retry(strike),
                () = self.work.notified() => {}
            }
            while self.controller.run() == Progress::More {
                standstill.turn().await;
                tokio::task::yield_now().await;
            }
            // Strikes that come while the timer runs wait for the next.
            if retry.0.is_none() {
                let timer = |strike| (Box::pin(sleep(self.config.strike_interval)), strike);
                retry.0 = self.controller.last_strike().map(timer);
            }
            if self.controller.has_changes() {
                self.hub.notify_one();
            }
        }
    }

    pub(crate) fn submit(self: &Arc<Self>, urb: Urb) -> UrbTransfer {
        let (sender, receiver) = oneshot::channel();
        let id = self.controller.submit(
            urb,
            Box::new(move |done| {
                // The waiting side may have gone.
                let _ = sender.send(done);
            }),
        );
        self.kick();
        UrbTransfer { bus: Arc::clone(self), id, receiver, over: false }
    }

    /// Waits for a transfer as `usb_start_wait_urb` does: after `timeout` it is killed and ends with -110.
    pub(crate) async fn wait(self: &Arc<Self>, urb: Urb, timeout: Duration) -> UrbDone {
        let mut transfer = self.submit(urb);
        if let Ok(done) = tokio::time::timeout(timeout, &mut transfer).await {
            return done;
        }
        transfer.cancel(Cancel::Kill);
        let mut done = transfer.await;
        if done.status == Err(UrbError::Killed) {
            done.status = Err(UrbError::TimedOut);
        }
        done
    }

    /// A control transfer. `data` is what goes out, or room for what comes in.
    pub(crate) async fn control(
        self: &Arc<Self>,
        address: u8,
        setup: SetupPacket,
        data: Vec<u8>,
        timeout: Duration,
    ) -> UrbDone {
        let urb = Urb {
            address,
            endpoint: EndpointAddress { number: 0, direction: setup.direction() },
            transfer: Transfer::Control(setup),
            buffer: data,
            zero_packet: false,
            short_not_ok: false,
        };
        self.wait(urb, timeout).await
    }

    /// `usb_control_msg` to the device: what came, cut to its length.
    pub(crate) async fn control_in(
        self: &Arc<Self>,
        address: u8,
        setup: SetupPacket,
        timeout: Duration,
    ) -> Result<Vec<u8>, UrbError> {
        debug_assert_eq!(setup.direction(), Direction::In);
        let room = vec![0; usize::from(setup.length.get())];
        let mut done = self.control(address, setup, room, timeout).await;
        done.status?;
        done.buffer.truncate(done.actual);
        Ok(done.buffer)
    }

    /// `usb_get_descriptor`: up to three tries, again after no data, a wrong type or an error other than -110.
    pub(crate) async fn get_descriptor(
        self: &Arc<Self>,
        address: u8,
        kind: DescriptorType,
        index: u8,
        length: u16,
    ) -> Result<Vec<u8>, HubError> {
        let setup = SetupPacket::get_descriptor(kind, index, 0, length);
        let mut last = Ok(Vec::new());
        for _ in 0..3 {
            match self.control_in(address, setup, CONTROL_TIMEOUT).await {
                Ok(bytes) if bytes.is_empty() => last = Ok(bytes),
                Err(error) if error != UrbError::TimedOut => last = Err(error.into()),
                Ok(bytes) if bytes.len() > 1 && bytes[1] != kind.0 => last = Err(HubError::NoData),
                result => return result.map_err(HubError::from),
            }
        }
        last
    }
}

/// When to try again, and after which strikes.
struct Retry(Option<(Pin<Box<Sleep>>, Strike)>);

impl Retry {
    /// Waits until the tries are due, for ever if none is.
    async fn due(&mut self) -> Strike {
        let Some((timer, strike)) = &mut self.0 else { return std::future::pending().await };
        timer.as_mut().await;
        let strike = *strike;
        self.0 = None;
        strike
    }
}

/// A transfer on its way. Dropped before its end, it is killed.
#[must_use = "a transfer that is dropped is killed"]
pub struct UrbTransfer {
    bus: Arc<Bus>,
    id: UrbId,
    receiver: oneshot::Receiver<UrbDone>,
    over: bool,
}

impl UrbTransfer {
    /// Takes it back; await it for what it moved so far.
    pub fn cancel(&self, how: Cancel) {
        if self.bus.controller.cancel(self.id, how) {
            self.bus.kick();
        }
    }
}

impl Future for UrbTransfer {
    type Output = UrbDone;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<UrbDone> {
        let done = ready!(Pin::new(&mut self.receiver).poll(context));
        self.over = true;
        Poll::Ready(done.unwrap_or(UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::Shutdown) }))
    }
}

impl Drop for UrbTransfer {
    fn drop(&mut self) {
        if !self.over {
            self.cancel(Cancel::Kill);
        }
    }
}
