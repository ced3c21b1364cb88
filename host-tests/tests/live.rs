//! Boards on the real clock, with clients on threads of their own.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
use gadgets::{FastbootConfig, FastbootGadget};
use scenarios::{Bench, LiveBoard, LiveBus, LiveDevice, LiveEvents, LogLine};
use usb::EndpointAddress;
use usb::ch9::{DescriptorType, SetupPacket};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};

/// No test waits that long; one that would hang fails.
const LONG: Duration = Duration::from_secs(60);

/// What a board's events say, for the test's own thread.
enum Event {
    Arrived(LiveDevice),
    Left,
    Failed(Vec<LogLine>),
}

struct Events(mpsc::Sender<Event>);

impl LiveEvents for Events {
    fn arrived(&mut self, device: LiveDevice) {
        let _ = self.0.send(Event::Arrived(device));
    }

    fn left(&mut self) {
        let _ = self.0.send(Event::Left);
    }

    fn failed(&mut self, log: &[LogLine]) {
        let _ = self.0.send(Event::Failed(log.to_vec()));
    }
}

fn plug(bus: &LiveBus, port: &str) -> (LiveBoard, mpsc::Receiver<Event>) {
    let (sender, events) = mpsc::channel();
    let bench = Bench::new().endpoints(4).port(port.parse().expect("a port"));
    let gadget = SourceSinkGadget::new(SourceSinkConfig::default());
    (bus.plug(bench, gadget, Events(sender)).expect("the board is set up"), events)
}

fn arrived(events: &mpsc::Receiver<Event>) -> LiveDevice {
    match events.recv_timeout(LONG).expect("an event") {
        Event::Arrived(device) => device,
        Event::Left => panic!("the device left"),
        Event::Failed(log) => panic!("{log:#?}"),
    }
}

fn left(events: &mpsc::Receiver<Event>) {
    assert!(matches!(events.recv_timeout(LONG).expect("an event"), Event::Left));
}

fn urb(endpoint: EndpointAddress, transfer: Transfer, buffer: Vec<u8>) -> Urb {
    Urb { address: 0, endpoint, transfer, buffer, zero_packet: false, short_not_ok: false }
}

fn transfer(device: &LiveDevice, urb: Urb) -> UrbDone {
    let (sender, receiver) = mpsc::channel();
    device.submit(urb, Box::new(move |done| drop(sender.send(done))));
    receiver.recv_timeout(LONG).expect("every transfer ends")
}

fn moves_data(device: &LiveDevice, times: usize) {
    for _ in 0..times {
        let done = transfer(device, urb(BULK_OUT.address(), Transfer::Bulk, vec![0; 512]));
        assert_eq!((done.status, done.actual), (Ok(()), 512));
        let done = transfer(device, urb(BULK_IN.address(), Transfer::Bulk, vec![1; 512]));
        assert_eq!((done.status, done.actual, done.buffer), (Ok(()), 512, vec![0; 512]));
    }
}

#[test]
fn eight_boards_on_one_bus_serve_two_threads_each() {
    let bus = LiveBus::start().expect("a bus");
    let boards: Vec<_> = (1..=8).map(|port| plug(&bus, &format!("5-1.{port}"))).collect();
    let devices: Vec<_> = boards.iter().map(|(_, events)| arrived(events)).collect();
    let mut numbers: Vec<u8> = devices.iter().map(|device| device.device().number()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 8, "device numbers are the bus's");
    thread::scope(|scope| {
        for device in &devices {
            scope.spawn(|| moves_data(device, 50));
            scope.spawn(|| {
                for _ in 0..50 {
                    let setup = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 18);
                    let control = urb(EndpointAddress::r#in(0), Transfer::Control(setup), vec![0; 18]);
                    let done = transfer(device, control);
                    assert_eq!((done.status, &done.buffer[..2]), (Ok(()), &[18, 1][..]));
                }
            });
        }
    });
}

#[test]
fn a_device_comes_and_goes_with_its_cable_and_its_board() {
    let bus = LiveBus::start().expect("a bus");
    let (board, events) = plug(&bus, "5-1.3");
    let device = arrived(&events);
    board.unplug();
    left(&events);
    let done = transfer(&device, urb(BULK_IN.address(), Transfer::Bulk, vec![0; 512]));
    assert_eq!(done.status, Err(UrbError::NoDevice));
    board.plug();
    moves_data(&arrived(&events), 1);
    drop(board);
    left(&events);
}

#[test]
fn requests_that_block_come_back_also_when_the_bus_ends() {
    let bus = LiveBus::start().expect("a bus");
    let (board, events) = plug(&bus, "5-1.3");
    let device = arrived(&events);
    assert_eq!(device.set_configuration(3), Ok(()));
    assert_eq!(device.clear_halt(BULK_IN.address()), Ok(()));
    assert_eq!(device.reset(), Ok(()));
    moves_data(&device, 1);
    drop((board, bus));
    assert_eq!(device.set_configuration(3), Err(UrbError::NoDevice));
}

#[test]
fn an_endpoint_outside_of_the_configuration_is_refused() {
    let bus = LiveBus::start().expect("a bus");
    let (_board, events) = plug(&bus, "5-1.3");
    let device = arrived(&events);
    assert_eq!(device.set_configuration(0), Ok(()));
    let done = transfer(&device, urb(BULK_IN.address(), Transfer::Bulk, vec![0; 512]));
    assert_eq!(done.status, Err(UrbError::Invalid));
    assert_eq!(device.set_configuration(3), Ok(()));
    moves_data(&device, 1);
}

#[test]
fn a_transfer_that_waits_is_taken_back() {
    let bus = LiveBus::start().expect("a bus");
    let (sender, events) = mpsc::channel();
    let gadget = FastbootGadget::new(FastbootConfig::default());
    let _board = bus.plug(Bench::new(), gadget, Events(sender)).expect("the board is set up");
    let device = arrived(&events);
    // A boot loader says nothing unless it is asked.
    let (done, ended) = mpsc::channel();
    let waiting = urb(EndpointAddress::r#in(1), Transfer::Bulk, vec![0; 64]);
    let id = device.submit(waiting, Box::new(move |end| drop(done.send(end))));
    assert!(ended.try_recv().is_err(), "NAK keeps it waiting");
    device.cancel(id);
    let end = ended.recv_timeout(LONG).expect("it is taken back");
    assert_eq!((end.status, end.actual), (Err(UrbError::Unlinked), 0));
}

#[test]
fn with_the_pool_of_2023_no_device_comes_and_the_log_says_why() {
    let bus = LiveBus::start().expect("a bus");
    let (sender, events) = mpsc::channel();
    let policy = scenarios::policy::by_name("linked-descending").expect("a pool of the table");
    let gadget = SourceSinkGadget::new(SourceSinkConfig::default());
    let board = bus.plug(Bench::new().pool(policy), gadget, Events(sender)).expect("the board is set up");
    // The first try at high speed takes five seconds of real time; the last line of all takes a minute more.
    let end = std::time::Instant::now() + LONG;
    let error = "usb 5-1.3: device descriptor read/64, error -110";
    while !board.log().iter().any(|line| line.text == error) {
        assert!(std::time::Instant::now() < end, "{:#?}", board.log());
        assert!(events.recv_timeout(Duration::from_millis(50)).is_err(), "nothing arrives");
    }
}
