//! Transactions without a handshake: when they are tried again.

mod mock;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mock::{Fault, Mock, Token, ethernet};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use usb::ch9::{DescriptorType, EndpointAddress, Request, SetupPacket, Speed};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb_host::controller::{Progress, UrbId};
use usb_host::{Cancel, Device, Host, HostConfig, HostController, MemoryLog};

const IN: EndpointAddress = EndpointAddress::r#in(1);
const OUT: EndpointAddress = EndpointAddress::out(1);
const INTERVAL: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(600);

/// A controller whose strikes are spaced, its device at address 0.
struct Bench {
    mock: Arc<Mock>,
    controller: Arc<HostController>,
    done: Arc<Mutex<Vec<UrbDone>>>,
}

impl Bench {
    fn new() -> Self {
        let mock = Mock::plugged(ethernet());
        let controller = HostController::new(mock.clone());
        controller.set_power(true);
        assert_eq!(controller.reset_port(Speed::Full), Some(Speed::Full));
        for endpoint in [IN, OUT] {
            controller.enable_endpoint(0, endpoint, 64);
        }
        controller.space_strikes(true);
        Self { mock, controller, done: Arc::default() }
    }

    fn submit(&self, endpoint: EndpointAddress) -> UrbId {
        let buffer = vec![0; 64];
        let urb =
            Urb { address: 0, endpoint, transfer: Transfer::Bulk, buffer, zero_packet: false, short_not_ok: false };
        let done = self.done.clone();
        self.controller.submit(urb, Box::new(move |urb| done.lock().push(urb)))
    }

    /// Packets that went out in a run that ended idle.
    fn run(&self) -> usize {
        let before = self.mock.packets();
        assert_eq!(self.controller.run(), Progress::Idle);
        self.mock.packets() - before
    }

    fn retry(&self) {
        self.controller.retry(self.controller.last_strike().expect("nothing waits"));
    }

    fn ended(&self) -> Vec<Result<(), UrbError>> {
        self.done.lock().drain(..).map(|done| done.status).collect()
    }
}

fn is_silent(endpoint: Token) -> impl FnMut(usize, Token, Option<SetupPacket>) -> Fault + Send {
    move |_, token, _| if token == endpoint { Fault::Silence } else { Fault::None }
}

#[test]
fn a_spaced_try_waits_until_it_is_asked_for() {
    let bench = Bench::new();
    let wakes = Arc::new(AtomicUsize::new(0));
    let count = wakes.clone();
    bench.controller.set_waker(Some(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    })));
    bench.mock.set_fault(is_silent(Token::In(1)));
    bench.submit(IN);
    for strike in 1..3 {
        assert_eq!((bench.run(), bench.run()), (1, 0));
        assert_eq!(wakes.load(Ordering::Relaxed), strike);
        // A hint tells nothing of it.
        bench.mock.ready(IN);
        assert_eq!(bench.run(), 0);
        // The others go on.
        bench.submit(OUT);
        assert_eq!(bench.run(), 1);
        assert_eq!(bench.ended(), [Ok(())]);
        bench.retry();
        assert_eq!(bench.controller.last_strike(), None);
    }
    assert_eq!(bench.run(), 1);
    assert_eq!(bench.ended(), [Err(UrbError::Protocol)]);
    assert_eq!((bench.controller.last_strike(), wakes.load(Ordering::Relaxed)), (None, 2));
}

#[test]
fn a_try_after_a_later_strike_goes_on_waiting() {
    let bench = Bench::new();
    bench.mock.set_fault(|_, _, _| Fault::Silence);
    bench.submit(IN);
    assert_eq!(bench.run(), 1);
    let first = bench.controller.last_strike().unwrap();
    bench.submit(OUT);
    assert_eq!(bench.run(), 1);
    let second = bench.controller.last_strike().unwrap();
    assert!(first < second);
    bench.controller.retry(first);
    assert_eq!(bench.run(), 1);
    bench.controller.retry(first);
    assert_eq!(bench.run(), 0);
    bench.retry();
    assert_eq!(bench.run(), 2);
    assert_eq!(bench.ended(), [Err(UrbError::Protocol)]);
}

#[test]
fn a_handshake_ends_the_count() {
    let bench = Bench::new();
    bench.mock.set_fault(|packet, _, _| if packet % 3 == 0 { Fault::None } else { Fault::Silence });
    for _ in 0..3 {
        bench.submit(OUT);
        assert_eq!(bench.run(), 1);
        bench.retry();
        assert_eq!(bench.run(), 1);
        bench.retry();
        assert_eq!(bench.run(), 1);
    }
    assert_eq!(bench.ended(), [Ok(()); 3]);
}

#[test]
fn what_waits_can_be_taken_back_and_its_successor_is_tried() {
    let bench = Bench::new();
    bench.mock.set_fault(|_, _, _| Fault::Silence);
    let first = bench.submit(OUT);
    bench.submit(OUT);
    assert_eq!(bench.run(), 1);
    assert!(bench.controller.cancel(first, Cancel::Kill));
    assert_eq!(bench.run(), 1);
    assert_eq!(bench.ended(), [Err(UrbError::Killed)]);
    bench.controller.flush_endpoint(0, OUT);
    assert_eq!(bench.controller.last_strike(), None);
    bench.submit(OUT);
    assert_eq!(bench.run(), 1);
    bench.controller.disable_port();
    assert_eq!((bench.run(), bench.controller.last_strike()), (0, None));
    assert_eq!(bench.ended(), [Err(UrbError::Shutdown); 2]);
}

/// An enumerated device with its CDC data interface, and its host.
async fn enumerated(strike_interval: Duration) -> (Arc<Mock>, Device, Host) {
    let mock = Mock::plugged(ethernet());
    let host = host(&mock, strike_interval, Arc::default());
    let device = timeout(LONG, host.device()).await.expect("no device");
    device.set_interface(1, 1).await.unwrap();
    (mock, device, host)
}

fn host(mock: &Arc<Mock>, strike_interval: Duration, log: Arc<MemoryLog>) -> Host {
    let config = HostConfig { max_speed: Speed::Full, strike_interval, ..HostConfig::default() };
    let host = Host::new(mock.clone(), config, log);
    let task = host.clone();
    tokio::spawn(async move { task.run().await });
    host
}

/// When packets to a silent endpoint came.
fn note_silence(mock: &Mock, endpoints: &'static [Token]) -> Arc<Mutex<Vec<(Token, Instant)>>> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    mock.set_fault(move |_, token, _| {
        if !endpoints.contains(&token) {
            return Fault::None;
        }
        noted.lock().push((token, Instant::now()));
        Fault::Silence
    });
    times
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_the_three_tries_take_no_time() {
    let (mock, device, _) = enumerated(Duration::ZERO).await;
    let tries = note_silence(&mock, &[Token::In(1)]);
    let start = Instant::now();
    assert_eq!(device.bulk_in(1, 64, LONG).await, Err(UrbError::Protocol));
    assert_eq!(*tries.lock(), [(Token::In(1), start); 3]);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_interval_spaces_the_three_tries() {
    let (mock, device, _) = enumerated(INTERVAL).await;
    let tries = note_silence(&mock, &[Token::In(1)]);
    let start = Instant::now();
    assert_eq!(device.bulk_in(1, 64, LONG).await, Err(UrbError::Protocol));
    assert_eq!(*tries.lock(), [0, 1, 2].map(|count| (Token::In(1), start + count * INTERVAL)));
}

#[tokio::test(start_paused = true)]
async fn an_interval_holds_for_every_endpoint_and_under_load() {
    let (mock, device, _) = enumerated(INTERVAL).await;
    let tries = note_silence(&mock, &[Token::In(1), Token::In(2)]);
    let (load, first, second) = (device.clone(), device.clone(), device);
    let load = tokio::spawn(async move {
        loop {
            load.bulk_out(1, vec![0; 64], LONG).await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
    });
    let first = tokio::spawn(async move { first.bulk_in(1, 64, LONG).await });
    sleep(INTERVAL / 2).await;
    assert_eq!(second.interrupt_in(2, 16, LONG).await, Err(UrbError::Protocol));
    assert_eq!(first.await.unwrap(), Err(UrbError::Protocol));
    load.abort();
    assert!(mock.received(1).len() > 20);
    for endpoint in [Token::In(1), Token::In(2)] {
        let tries = tries.lock();
        let times: Vec<_> = tries.iter().filter(|(token, _)| *token == endpoint).map(|&(_, time)| time).collect();
        assert_eq!(times.len(), 3);
        for pair in times.windows(2) {
            let interval = pair[1] - pair[0];
            assert!((INTERVAL..=2 * INTERVAL).contains(&interval), "{endpoint:?} {interval:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_comes_between_the_tries() {
    let (mock, device, _) = enumerated(INTERVAL).await;
    let tries = note_silence(&mock, &[Token::In(1)]);
    assert_eq!(device.bulk_in(1, 64, INTERVAL + INTERVAL / 2).await, Err(UrbError::TimedOut));
    assert_eq!(tries.lock().len(), 2);
    mock.set_fault(|_, _, _| Fault::None);
    mock.push_in(1, vec![5; 5]);
    assert_eq!(device.bulk_in(1, 64, LONG).await, Ok(vec![5; 5]));
}

/// A device whose driver takes its new address late: it does not hear anything for that long after SET_ADDRESS.
fn late_for_its_address(mock: &Mock, late: Duration) {
    let mut deaf_until = None;
    mock.set_fault(move |_, token, setup| {
        if deaf_until.is_some_and(|until| Instant::now() < until) {
            return Fault::Silence;
        }
        if setup.is_some_and(|setup| setup.request == Request::SetAddress.0) && token == Token::In(0) {
            deaf_until = Some(Instant::now() + late);
        }
        Fault::None
    });
}

#[tokio::test(start_paused = true)]
async fn a_device_that_takes_its_address_late_wants_an_interval() {
    let silent = "usb 5-1.3: device descriptor read/all, error -71";
    let found = "usb 5-1.3: not running at top speed; connect to a high speed hub";
    // The host waits 10 ms after SET_ADDRESS; usb_get_descriptor makes three transfers of three tries each.
    for (late, interval, line) in [
        (9, 0, found),
        (25, 0, silent),
        (25, 5, found),
        (25, 10, found),
        (39, 5, found),
        (90, 5, silent),
        (90, 40, found),
    ] {
        let mock = Mock::plugged(ethernet());
        late_for_its_address(&mock, Duration::from_millis(late));
        let log = Arc::<MemoryLog>::default();
        let host = host(&mock, Duration::from_millis(interval), log.clone());
        // A device that is not found at once is found by the old scheme, whose first read has a second chance.
        timeout(LONG, host.device()).await.expect("no device");
        assert_eq!(log.texts()[1], line, "{late} {interval}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interval_costs_a_device_that_answers_nothing() {
    let mut logs = Vec::new();
    for interval in [Duration::ZERO, INTERVAL, Duration::MAX] {
        let mock = Mock::plugged(ethernet());
        let log = Arc::<MemoryLog>::default();
        timeout(LONG, host(&mock, interval, log.clone()).device()).await.expect("no device");
        logs.push(log.lines());
    }
    assert!(logs[0] == logs[1] && logs[0] == logs[2], "{logs:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_interval_leaves_a_silent_device_to_the_timeouts() {
    let (mock, device, _) = enumerated(Duration::MAX).await;
    let tries = note_silence(&mock, &[Token::In(1)]);
    assert_eq!(device.bulk_in(1, 64, LONG).await, Err(UrbError::TimedOut));
    assert_eq!(tries.lock().len(), 1);
}

/// A SETUP waits for a machine that is busy, and not for ever.
#[test]
fn a_setup_waits_while_the_machine_is_busy() {
    for (looks, waits) in [(3, 3), (usize::MAX, 400)] {
        let bench = Bench::new();
        bench.mock.set_busy(looks);
        let setup = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 18);
        let endpoint = EndpointAddress::r#in(0);
        let (transfer, buffer) = (Transfer::Control(setup), vec![0; 18]);
        let urb = Urb { address: 0, endpoint, transfer, buffer, zero_packet: false, short_not_ok: false };
        let done = bench.done.clone();
        bench.controller.submit(urb, Box::new(move |urb| done.lock().push(urb)));
        for wait in 0..waits {
            assert_eq!(bench.run(), 0, "wait {wait}");
            bench.retry();
        }
        assert!(bench.run() > 0);
        assert_eq!(bench.done.lock().len(), 1);
    }
}
