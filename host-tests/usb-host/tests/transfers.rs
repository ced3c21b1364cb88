//! The controller by itself: toggles, errors, cancellation, fairness, callbacks.

mod mock;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mock::{Fault, Mock, Token, ethernet, fastboot};
use parking_lot::Mutex;
use tokio::time::timeout;
use usb::ch9::{DescriptorType, EndpointAddress, Request, SetupPacket, Speed};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb::wire::{DataPid, Handshake, HostAck, InReply, PortListener, Target, UsbPort};
use usb_host::controller::Progress;
use usb_host::{Cancel, Device, Host, HostConfig, HostController, NoLog};

const IN: EndpointAddress = EndpointAddress::r#in(1);
const OUT: EndpointAddress = EndpointAddress::out(1);

type Results = Arc<Mutex<Vec<UrbDone>>>;

/// A controller whose device is reset and at address 0.
fn bench() -> (Arc<Mock>, Arc<HostController>, Results) {
    let mock = Mock::plugged(ethernet());
    let controller = HostController::new(mock.clone());
    controller.set_power(true);
    assert_eq!(controller.reset_port(Speed::Full), Some(Speed::Full));
    for endpoint in [IN, OUT] {
        controller.enable_endpoint(0, endpoint, 64);
    }
    (mock, controller, Results::default())
}

fn urb(endpoint: EndpointAddress, buffer: Vec<u8>) -> Urb {
    Urb { address: 0, endpoint, transfer: Transfer::Bulk, buffer, zero_packet: false, short_not_ok: false }
}

fn get_device(length: u16) -> Urb {
    let setup = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, length);
    Urb { transfer: Transfer::Control(setup), ..urb(EndpointAddress::r#in(0), vec![0; length.into()]) }
}

fn keep(results: &Results) -> Box<dyn FnOnce(UrbDone) + Send> {
    let results = results.clone();
    Box::new(move |done| results.lock().push(done))
}

/// Submits, runs, and takes what ended.
fn run(controller: &HostController, results: &Results, urb: Urb) -> Option<UrbDone> {
    controller.submit(urb, keep(results));
    while controller.run() == Progress::More {}
    results.lock().pop()
}

#[test]
fn a_control_transfer_has_three_stages() {
    let (mock, controller, results) = bench();
    let done = run(&controller, &results, get_device(18)).unwrap();
    assert_eq!((done.status, done.actual, done.buffer[1]), (Ok(()), 18, 1));
    let done = run(&controller, &results, get_device(64)).unwrap();
    assert_eq!((done.status, done.actual), (Ok(()), 18));
    let done = run(&controller, &results, Urb { short_not_ok: true, ..get_device(64) }).unwrap();
    assert_eq!((done.status, done.actual), (Err(UrbError::ShortPacket), 18));
    // SETUP, IN, OUT each time.
    assert_eq!(mock.packets(), 9);
    let refused = SetupPacket::get_descriptor(DescriptorType(99), 0, 0, 8);
    let refused = Urb { transfer: Transfer::Control(refused), ..get_device(8) };
    assert_eq!(run(&controller, &results, refused).unwrap().status, Err(UrbError::Stall));
    let wrong_length = Urb { buffer: vec![0; 3], ..get_device(8) };
    assert_eq!(run(&controller, &results, wrong_length).unwrap().status, Err(UrbError::Invalid));
    assert_eq!(
        run(&controller, &results, urb(EndpointAddress::out(5), vec![])).unwrap().status,
        Err(UrbError::Invalid)
    );
}

#[test]
fn bulk_ends_with_short_packets_or_full_buffers() {
    let (mock, controller, results) = bench();
    let done = run(&controller, &results, urb(OUT, vec![7; 128])).unwrap();
    assert_eq!((done.status, done.actual), (Ok(()), 128));
    run(&controller, &results, Urb { zero_packet: true, ..urb(OUT, vec![8; 128]) }).unwrap();
    run(&controller, &results, Urb { zero_packet: true, ..urb(OUT, vec![9; 65]) }).unwrap();
    run(&controller, &results, urb(OUT, vec![])).unwrap();
    let sizes: Vec<_> = mock.received(1).iter().map(Vec::len).collect();
    assert_eq!(sizes, [64, 64, 64, 64, 0, 64, 1, 0]);

    for packet in [64, 10, 64, 64] {
        mock.push_in(1, vec![1; packet]);
    }
    assert_eq!(run(&controller, &results, urb(IN, vec![0; 200])).unwrap().actual, 74);
    assert_eq!(run(&controller, &results, urb(IN, vec![0; 128])).unwrap().actual, 128);
    mock.push_in(1, vec![1; 5]);
    let done = run(&controller, &results, Urb { short_not_ok: true, ..urb(IN, vec![0; 64]) }).unwrap();
    assert_eq!((done.status, done.actual), (Err(UrbError::ShortPacket), 5));
    mock.push_in(1, vec![1; 64]);
    let done = run(&controller, &results, urb(IN, vec![0; 10])).unwrap();
    assert_eq!(done.status, Err(UrbError::Overflow));
}

#[test]
fn toggles_survive_transfers_and_lost_handshakes() {
    let (mock, controller, results) = bench();
    run(&controller, &results, urb(OUT, vec![1; 10])).unwrap();
    mock.set_fault(
        |packet, token, _| {
            if token == Token::Out(1) && packet % 2 == 0 { Fault::LostAnswer } else { Fault::None }
        },
    );
    for byte in 2..6 {
        assert_eq!(run(&controller, &results, urb(OUT, vec![byte; 10])).unwrap().status, Ok(()));
    }
    let first: Vec<_> = mock.received(1).iter().map(|packet| packet[0]).collect();
    assert_eq!(first, [1, 2, 3, 4, 5]);

    for byte in 1..6 {
        mock.push_in(1, vec![byte; 64]);
    }
    mock.push_in(1, vec![]);
    mock.set_fault(
        |packet, token, _| {
            if token == Token::In(1) && packet % 2 == 0 { Fault::LostAck } else { Fault::None }
        },
    );
    let done = run(&controller, &results, urb(IN, vec![0; 1024])).unwrap();
    let first: Vec<_> = done.buffer[..done.actual].chunks(64).map(|packet| packet[0]).collect();
    assert_eq!(first, [1, 2, 3, 4, 5]);

    // A host that starts anew at DATA0 is taken for one that repeats; one that does so after a reset is not.
    mock.set_fault(|_, _, _| Fault::None);
    controller.reset_toggle(0, OUT);
    run(&controller, &results, urb(OUT, vec![6; 10])).unwrap();
    assert_eq!(mock.received(1).len(), 5);
}

#[test]
fn three_strikes_are_a_protocol_error_and_a_stall_is_a_stall() {
    let (mock, controller, results) = bench();
    mock.set_fault(|_, _, _| Fault::Silence);
    for endpoint in [IN, OUT] {
        let before = mock.packets();
        let done = run(&controller, &results, urb(endpoint, vec![0; 64])).unwrap();
        assert_eq!((done.status, done.actual), (Err(UrbError::Protocol), 0));
        assert_eq!(mock.packets() - before, 3);
    }
    mock.set_fault(|_, token, _| if token == Token::In(1) { Fault::WrongToggle } else { Fault::None });
    mock.push_in(1, vec![0; 10]);
    assert_eq!(run(&controller, &results, urb(IN, vec![0; 64])).unwrap().status, Err(UrbError::Protocol));
    mock.set_fault(|_, _, _| Fault::None);
    mock.halt(1);
    assert_eq!(run(&controller, &results, urb(OUT, vec![0; 64])).unwrap().status, Err(UrbError::Stall));
}

#[test]
fn an_idle_endpoint_costs_nothing_until_its_hint() {
    let (mock, controller, results) = bench();
    let wakes = Arc::new(AtomicUsize::new(0));
    let count = wakes.clone();
    controller.set_waker(Some(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    })));
    assert_eq!(run(&controller, &results, urb(IN, vec![0; 64])), None);
    let before = mock.packets();
    for _ in 0..100 {
        assert_eq!(controller.run(), Progress::Idle);
        mock.ready(OUT);
    }
    assert_eq!((mock.packets(), wakes.load(Ordering::Relaxed)), (before, 0));
    mock.push_in(1, vec![5; 3]);
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    // Other endpoints went on meanwhile.
    assert_eq!(run(&controller, &results, get_device(18)).unwrap().buffer[..3], [18, 1, 0]);
    let done = results.lock().pop().unwrap();
    assert_eq!((done.actual, done.buffer[0]), (3, 5));
}

#[test]
fn cancelled_urbs_tell_how_far_they_came() {
    let (mock, controller, results) = bench();
    mock.push_in(1, vec![5; 64]);
    let first = controller.submit(urb(IN, vec![0; 200]), keep(&results));
    let second = controller.submit(urb(IN, vec![0; 200]), keep(&results));
    assert_eq!(controller.run(), Progress::Idle);
    assert!(controller.cancel(second, Cancel::Unlink) && controller.cancel(first, Cancel::Kill));
    assert!(!controller.cancel(first, Cancel::Kill));
    assert_eq!(controller.run(), Progress::Idle);
    let ends: Vec<_> = results.lock().drain(..).map(|done| (done.actual, done.status)).collect();
    assert_eq!(ends, [(0, Err(UrbError::Unlinked)), (64, Err(UrbError::Killed))]);
    // The toggle went on with the packet that was taken.
    mock.push_in(1, vec![6; 3]);
    assert_eq!(run(&controller, &results, urb(IN, vec![0; 64])).unwrap().actual, 3);
}

#[test]
fn an_unplugged_device_ends_all_urbs() {
    let (mock, controller, results) = bench();
    for endpoint in [IN, IN] {
        controller.submit(urb(endpoint, vec![0; 64]), keep(&results));
    }
    assert_eq!(controller.run(), Progress::Idle);
    mock.plug(false);
    assert_eq!(controller.run(), Progress::Idle);
    let ends: Vec<_> = results.lock().drain(..).map(|done| done.status).collect();
    assert_eq!(ends, [Err(UrbError::Shutdown); 2]);
    assert_eq!(run(&controller, &results, get_device(18)).unwrap().status, Err(UrbError::NoDevice));
    // Also when it goes within a wire call.
    mock.plug(true);
    controller.reset_port(Speed::Full);
    mock.set_fault(|_, token, _| if token == Token::In(0) { Fault::Detach } else { Fault::None });
    assert_eq!(run(&controller, &results, get_device(18)).unwrap().status, Err(UrbError::Shutdown));
}

/// Takes and gives as much as is asked for; counts packets by endpoint.
#[derive(Default)]
struct Flood {
    packets: [AtomicUsize; 16],
}

impl UsbPort for Flood {
    fn set_listener(&self, _: Option<Arc<dyn PortListener>>) {}
    fn set_vbus(&self, _: bool) {}
    fn attached(&self) -> Option<Speed> {
        Some(Speed::Full)
    }
    fn reset(&self, max: Speed) -> Option<Speed> {
        Some(max)
    }
    fn suspend(&self) {}
    fn resume(&self) {}
    fn setup(&self, _: Target, _: &[u8; 8]) -> Handshake {
        Handshake::Ack
    }
    fn data_out(&self, to: Target, _: DataPid, _: &[u8]) -> Handshake {
        self.packets[usize::from(to.endpoint)].fetch_add(1, Ordering::Relaxed);
        Handshake::Ack
    }
    fn data_in(&self, from: Target, buffer: &mut [u8], _: HostAck) -> InReply {
        let packet = self.packets[usize::from(from.endpoint)].fetch_add(1, Ordering::Relaxed);
        let pid = if packet.is_multiple_of(2) { DataPid::Data0 } else { DataPid::Data1 };
        InReply::Data { pid, len: buffer.len().min(512) }
    }
}

#[test]
fn a_flood_starves_no_one_and_work_is_bounded() {
    let port = Arc::new(Flood::default());
    let controller = HostController::new(port.clone());
    controller.reset_port(Speed::High);
    for endpoint in [OUT, EndpointAddress::out(2), EndpointAddress::r#in(3)] {
        controller.enable_endpoint(0, endpoint, 512);
    }
    let results = Results::default();
    controller.submit(urb(OUT, vec![0; 64 << 20]), keep(&results));
    assert_eq!(controller.run(), Progress::More);
    let first = port.packets[1].load(Ordering::Relaxed);
    assert!(first * 512 < 4 << 20, "{first}");
    controller.submit(urb(EndpointAddress::out(2), vec![0; 1 << 20]), keep(&results));
    controller.submit(urb(EndpointAddress::r#in(3), vec![0; 1 << 20]), keep(&results));
    while results.lock().len() < 2 {
        assert_eq!(controller.run(), Progress::More);
    }
    let flooded = port.packets[1].load(Ordering::Relaxed) - first;
    assert!(flooded * 512 <= 3 << 20, "{flooded}");
}

#[test]
fn completions_may_submit_and_run() {
    let port = Arc::new(Flood::default());
    let controller = HostController::new(port);
    controller.reset_port(Speed::High);
    controller.enable_endpoint(0, OUT, 512);
    fn again(controller: &Arc<HostController>, left: &Arc<AtomicUsize>) {
        if left.fetch_sub(1, Ordering::Relaxed) > 0 {
            let (next, left) = (controller.clone(), left.clone());
            controller.submit(urb(OUT, vec![1; 10]), Box::new(move |_| again(&next, &left)));
            let _ = controller.run();
        }
    }
    let left = Arc::new(AtomicUsize::new(10_000));
    again(&controller, &left);
    while controller.run() == Progress::More {}
    assert_eq!(left.load(Ordering::Relaxed), usize::MAX);
}

#[test]
fn hints_come_from_other_threads() {
    let (mock, controller, results) = bench();
    let woken = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let signal = woken.clone();
    controller.set_waker(Some(Arc::new(move || {
        *signal.0.lock().unwrap() = true;
        signal.1.notify_one();
    })));
    let device = mock.clone();
    let thread = std::thread::spawn(move || {
        for packet in 0..1000u32 {
            device.push_in(1, packet.to_le_bytes().to_vec());
        }
    });
    for packet in 0..1000u32 {
        controller.submit(urb(IN, vec![0; 64]), keep(&results));
        while {
            let _ = controller.run();
            results.lock().is_empty()
        } {
            let mut ready = woken.0.lock().unwrap();
            while !std::mem::take(&mut *ready) {
                ready = woken.1.wait(ready).unwrap();
            }
        }
        let done = results.lock().pop().unwrap();
        assert_eq!(done.buffer[..done.actual], packet.to_le_bytes());
    }
    thread.join().unwrap();
}

#[test]
fn threads_submit_cancel_and_run_and_every_urb_ends_once() {
    const EACH: usize = 2000;
    let controller = HostController::new(Arc::new(Flood::default()));
    controller.reset_port(Speed::High);
    for endpoint in [OUT, EndpointAddress::out(2)] {
        controller.enable_endpoint(0, endpoint, 512);
    }
    let ends: Arc<Vec<AtomicUsize>> = Arc::new((0..3 * EACH).map(|_| AtomicUsize::new(0)).collect());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (controller, ends) = (&controller, &ends);
            scope.spawn(move || {
                for turn in 0..EACH {
                    let endpoint = EndpointAddress::out(1 + (turn % 2) as u8);
                    let (ends, index) = (ends.clone(), thread * EACH + turn);
                    let done = move |done: UrbDone| {
                        assert!(matches!(done.status, Ok(()) | Err(UrbError::Unlinked | UrbError::Shutdown)));
                        ends[index].fetch_add(1, Ordering::Relaxed);
                    };
                    let id = controller.submit(urb(endpoint, vec![0; 70_000]), Box::new(done));
                    match turn % 5 {
                        0 => drop(controller.cancel(id, Cancel::Unlink)),
                        1 => controller.flush_endpoint(0, endpoint),
                        _ => {}
                    }
                    let _ = controller.run();
                }
            });
        }
    });
    while controller.run() == Progress::More {}
    assert!(ends.iter().all(|ends| ends.load(Ordering::Relaxed) == 1));
}

async fn device(model: mock::Model) -> (Arc<Mock>, Host, Device) {
    device_of(model, HostConfig::default()).await
}

async fn device_of(model: mock::Model, config: HostConfig) -> (Arc<Mock>, Host, Device) {
    let mock = Mock::plugged(model);
    let host = Host::new(mock.clone(), config, Arc::new(NoLog));
    let task = host.clone();
    tokio::spawn(async move { task.run().await });
    let device = timeout(Duration::from_secs(600), host.device()).await.unwrap();
    (mock, host, device)
}

#[tokio::test(start_paused = true)]
async fn transfers_time_out_and_are_dropped() {
    let (mock, _host, device) = device(fastboot()).await;
    let start = tokio::time::Instant::now();
    let five = Duration::from_secs(5);
    assert_eq!(device.bulk_in(1, 64, five).await, Err(UrbError::TimedOut));
    assert_eq!(start.elapsed(), five);
    // What is dropped does not take what comes later.
    drop(device.submit(urb(IN, vec![0; 64])));
    mock.push_in(1, vec![1, 2, 3]);
    assert_eq!(device.bulk_in(1, 64, five).await, Ok(vec![1, 2, 3]));
    let transfer = device.submit(urb(IN, vec![0; 64]));
    transfer.cancel(Cancel::Unlink);
    assert_eq!(transfer.await.status, Err(UrbError::Unlinked));
    assert_eq!(device.bulk_out(1, b"getvar:all".to_vec(), five).await, Ok(b"getvar:all".to_vec()));
    assert_eq!(mock.received(1), [b"getvar:all".to_vec()]);
}

#[tokio::test(start_paused = true)]
async fn deferred_transfers_move_in_the_hosts_own_task_alone() {
    for deferred in [false, true] {
        let config = HostConfig { deferred, ..HostConfig::default() };
        let (mock, _host, device) = device_of(fastboot(), config).await;
        let transfer = device.submit(urb(OUT, vec![7; 3]));
        assert_eq!(mock.received(1).is_empty(), deferred);
        assert_eq!(transfer.await.status, Ok(()));
        let transfer = device.submit(urb(IN, vec![0; 64]));
        transfer.cancel(Cancel::Unlink);
        assert_eq!(transfer.await.status, Err(UrbError::Unlinked));
        assert_eq!(device.bulk_in(1, 64, Duration::from_secs(5)).await, Err(UrbError::TimedOut));
    }
}

#[tokio::test(start_paused = true)]
async fn clearing_a_halt_and_selecting_settings_reset_the_toggles() {
    let (mock, _host, device) = device(ethernet()).await;
    let five = Duration::from_secs(5);
    assert_eq!(device.bulk_in(1, 64, five).await, Err(UrbError::Invalid));
    device.set_interface(1, 1).await.unwrap();
    let send = async |byte: u8| device.bulk_out(1, vec![byte; 3], five).await;
    send(1).await.unwrap();
    mock.halt(1);
    assert_eq!(send(2).await, Err(UrbError::Stall));
    device.clear_halt(OUT).await.unwrap();
    send(3).await.unwrap();
    device.set_interface(1, 1).await.unwrap();
    send(4).await.unwrap();
    device.set_configuration(1).await.unwrap();
    device.set_interface(1, 1).await.unwrap();
    send(5).await.unwrap();
    let first: Vec<_> = mock.received(1).iter().map(|packet| packet[0]).collect();
    assert_eq!(first, [1, 3, 4, 5]);
    assert_eq!(device.set_interface(1, 7).await, Err(UrbError::Invalid));
    assert_eq!(device.set_configuration(9).await, Err(UrbError::Invalid));
}

#[tokio::test(start_paused = true)]
async fn pending_transfers_end_when_the_device_goes() {
    let (mock, host, device) = device(fastboot()).await;
    let pending = {
        let device = device.clone();
        tokio::spawn(async move { device.bulk_in(1, 64, Duration::from_secs(60)).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    mock.plug(false);
    assert_eq!(pending.await.unwrap(), Err(UrbError::Shutdown));
    device.disconnected().await;
    assert_eq!(device.bulk_in(1, 64, Duration::from_secs(1)).await, Err(UrbError::NoDevice));
    // Its number is another device's now; the old handle does not reach that one.
    mock.plug(true);
    let next = timeout(Duration::from_secs(600), host.device()).await.unwrap();
    assert!(!next.is_gone() && device.is_gone());
    let setup = SetupPacket::new(0x80, Request::GetStatus.0, 0, 0, 2);
    assert_eq!(device.control_in(setup, Duration::from_secs(1)).await, Err(UrbError::NoDevice));
    assert_eq!(next.status().await, Ok(1));
}
