//! The bench: runs firmware and a host in virtual time.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use usb::Speed;
use usb::wire::UsbPort;
use usb_host::{Host, HostConfig, MemoryLog, PortPath};

use crate::bus::BenchBus;
use crate::error::{BenchError, Seen};
use crate::fault::{Fault, Transaction};
use crate::host::ClassHost;
use crate::limits::Limits;
use crate::mistake::Mistake;
use crate::state::Shared;
use crate::trace::TraceLine;

/// A frame (USB 2.0 §8.4.3): the firmware is polled at least that often.
const FRAME: Duration = Duration::from_millis(1);
/// Turns of the firmware at one instant, each of which moved something, before it has to wait for the next frame: more
/// than a frame of high-speed packets needs.
const TURNS_AN_INSTANT: u32 = 500;
/// Virtual time for a run.
const PATIENCE: Duration = Duration::from_secs(600);
/// Lines of the trace that a failure shows.
const SHOWN: usize = 40;

/// A bench for one device. It gives the device its [`BenchBus`] and runs it with a host.
///
/// ```
/// use usb_class_bench::Bench;
/// use usb_device::prelude::*;
/// use usb_device::bus::UsbBusAllocator;
///
/// let bench = Bench::new();
/// let allocator = UsbBusAllocator::new(bench.bus());
/// let mut serial = usbd_serial::SerialPort::new(&allocator);
/// let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27dd))
///     .device_class(usbd_serial::USB_CLASS_CDC)
///     .build();
/// let vendor = bench.run(
///     || { device.poll(&mut [&mut serial]); },
///     async |host| host.device().await.map(|device| device.descriptor().vendor.get()),
/// )??;
/// assert_eq!(vendor, 0x16c0);
/// # Ok::<(), usb_class_bench::BenchError>(())
/// ```
pub struct Bench {
    shared: Arc<Shared>,
    config: HostConfig,
    frame: Duration,
    patience: Duration,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("config", &self.config).field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// A full-speed peripheral with all endpoints that USB has, on a sound wire, at a high-speed port `1-1`.
    #[must_use]
    pub fn new() -> Self {
        let port = PortPath { bus: 1, ports: vec![1] };
        let config = HostConfig { port, deferred: true, ..HostConfig::default() };
        Self { shared: Arc::default(), config, frame: FRAME, patience: PATIENCE }
    }

    /// What the peripheral can do.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.shared.state.lock().limits = limits;
        self
    }

    /// The fastest speed of the host's port. A high-speed device at a full-speed port runs at full speed.
    #[must_use]
    pub fn host_speed(mut self, speed: Speed) -> Self {
        self.config.max_speed = speed;
        self
    }

    /// Lets the wire damage packets; see [`crate::every`].
    #[must_use]
    pub fn faults(self, faults: impl FnMut(Transaction) -> Fault + Send + 'static) -> Self {
        self.shared.set_faults(Some(Box::new(faults)));
        self
    }

    /// How often the firmware is polled when nothing happens on the wire; 1 ms at first, at least 1 µs.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.frame = interval.max(Duration::from_micros(1));
        self
    }

    /// Virtual time after which a run ends with [`BenchError::NoEnd`]; 600 s at first.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The peripheral, for `UsbBusAllocator::new`. A bench has one: a second call gives the same endpoints away.
    #[must_use]
    pub fn bus(&self) -> BenchBus {
        BenchBus::new(Arc::clone(&self.shared))
    }

    /// The peripheral as a controller that wants its address before the status stage of SET_ADDRESS
    /// (`UsbBus::QUIRK_SET_ADDRESS_BEFORE_STATUS`).
    #[must_use]
    pub fn bus_with_early_address(&self) -> BenchBus<true> {
        BenchBus::new(Arc::clone(&self.shared))
    }

    /// Virtual time since the run began, for firmware with a clock; after it, how long it was.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.now()
    }

    /// The last 4096 things that happened on the wire and at the bus, over all runs.
    #[must_use]
    pub fn trace(&self) -> Vec<TraceLine> {
        self.shared.trace()
    }

    /// What the firmware did that it must not do, at most the first thousand.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        self.shared.state.lock().mistakes()
    }

    /// Runs the chapter 9 check alone: [`Bench::run`] with [`ClassHost::ch9`].
    ///
    /// # Errors
    /// Those of [`Bench::run`].
    pub fn ch9(&self, firmware: impl FnMut()) -> Result<crate::ch9::Report, BenchError> {
        self.run(firmware, async |host| host.ch9().await)
    }

    /// Plugs the device into a host and runs both until `act` ends; gives what that gave.
    ///
    /// `firmware` is the body of the firmware's main loop: it polls the `UsbDevice` with its classes and does what else
    /// there is to do, without waiting. It is called after every packet that it has taken, before `act` goes on, as long as
    /// it moves something, once a millisecond, and when `act` has ended. `act` is the host's program. All happens on this
    /// thread, in virtual time: a timeout of five seconds takes none. A panic of either goes through, with the last packets
    /// on standard error.
    ///
    /// What both sides use has to be in a `Cell` or `RefCell`.
    ///
    /// # Errors
    /// [`BenchError::NoEnd`] when `act` does not end in time, [`BenchError::InsideRuntime`] and
    /// [`BenchError::Runtime`].
    pub fn run<T>(&self, mut firmware: impl FnMut(), act: impl AsyncFnOnce(&ClassHost) -> T) -> Result<T, BenchError> {
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(BenchError::InsideRuntime);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .map_err(|error| BenchError::Runtime(error.to_string()))?;
        let log = Arc::new(MemoryLog::default());
        let port: Arc<dyn UsbPort> = Arc::clone(&self.shared) as _;
        let host = Host::new(port, self.config.clone(), Arc::clone(&log) as _);
        let class_host =
            ClassHost::new(Arc::clone(&self.shared), host.clone(), Arc::clone(&log), self.config.max_speed);
        let _witness = Witness(&self.shared);
        let outcome = runtime.block_on(async {
            self.shared.start_clock();
            let outcome = tokio::select! {
                biased;
                () = serve(&self.shared, &mut firmware, self.frame) => None,
                _ = host.run() => None,
                outcome = timeout(self.patience, paced(&self.shared, act(&class_host))) => outcome.ok(),
            };
            firmware();
            self.shared.stop_clock();
            outcome
        });
        self.shared.set_vbus(false);
        let seen = || Seen { log: log.lines(), trace: self.shared.trace_tail(SHOWN) };
        outcome.ok_or_else(|| BenchError::NoEnd { patience: self.patience, seen: seen() })
    }
}

/// The host's program, which goes on when the firmware has seen what was taken for it.
async fn paced<T>(shared: &Shared, act: impl Future<Output = T>) -> T {
    let mut act = pin!(act);
    poll_fn(|context| {
        // The processor wakes us: it shares our task.
        if shared.state.lock().unseen { Poll::Pending } else { act.as_mut().poll(context) }
    })
    .await
}

/// The processor, for ever.
async fn serve(shared: &Shared, firmware: &mut impl FnMut(), frame: Duration) {
    let (mut turns, mut instant) = (0, shared.now());
    loop {
        let now = shared.now();
        turns = if now == instant { turns + 1 } else { 0 };
        instant = now;
        if turns == TURNS_AN_INSTANT {
            sleep(frame).await;
        }
        let before = {
            let mut state = shared.state.lock();
            state.unseen = false;
            state.progress
        };
        firmware();
        if shared.state.lock().progress == before {
            tokio::select! {
                biased;
                () = shared.wake.notified() => {}
                () = sleep(frame) => {}
            }
        } else {
            tokio::task::yield_now().await;
        }
    }
}

/// Shows the last packets when a run panics.
struct Witness<'a>(&'a Shared);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show(&self.0.trace_tail(SHOWN));
        }
    }
}

#[expect(clippy::print_stderr, reason = "the test runner shows it beside the panic's own message")]
fn show(lines: &[TraceLine]) {
    eprintln!("the last packets:");
    for line in lines {
        eprintln!("{line}");
    }
}
