//! `cdc_ether` and `rndis_host` against a device at packet level.

mod mock;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mock::{Fault, Mock, Model, Token, ethernet};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use usb::ch9::{Request, Speed};
use usb::urb::UrbError;
use usb_host::net::rndis::{self, PacketHeader};
use usb_host::net::{Driver, NetDevice, NetError, SendError};
use usb_host::{Device, Host, HostConfig, MemoryLog};
use zerocopy::IntoBytes;

const LONG: Duration = Duration::from_secs(600);

struct Bench {
    mock: Arc<Mock>,
    host: Host,
    log: Arc<MemoryLog>,
}

impl Bench {
    fn new(model: Model, config: HostConfig) -> Self {
        let mock = Mock::plugged(model);
        let log = Arc::new(MemoryLog::default());
        let host = Host::new(mock.clone(), config, log.clone());
        let task = host.clone();
        tokio::spawn(async move { task.run().await });
        Self { mock, host, log }
    }

    async fn device(&self) -> Device {
        timeout(LONG, self.host.device()).await.expect("no device")
    }

    async fn net(&self) -> NetDevice {
        NetDevice::bind(&self.device().await).await.expect("no network device")
    }
}

fn full_speed() -> HostConfig {
    HostConfig { max_speed: Speed::Full, ..HostConfig::default() }
}

fn rndis_config() -> HostConfig {
    HostConfig { configuration: Some(2), ..full_speed() }
}

#[tokio::test(start_paused = true)]
async fn cdc_ether_registers_with_the_recorded_line() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    assert_eq!(
        bench.log.texts().last().unwrap(),
        "cdc_ether 5-1.3:1.0 usb0: register 'cdc_ether' at usb-0000:31:00.3-1.3, CDC Ethernet Device, \
         02:aa:bb:cc:dd:ee"
    );
    assert_eq!((net.driver(), net.name(), net.mtu()), (Driver::CdcEther, "usb0", 1500));
    let requests = bench.mock.requests();
    let alternate = requests.iter().find(|setup| setup.standard() == Some(Request::SetInterface)).unwrap();
    assert_eq!((alternate.value.get(), alternate.index.get()), (1, 1));
    let filter = requests.iter().find(|setup| setup.request == 0x43).unwrap();
    assert_eq!((filter.request_type, filter.value.get(), filter.index.get()), (0x21, 0x0c, 0));
}

#[tokio::test(start_paused = true)]
async fn frames_go_both_ways() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    let frame = |length: u8| vec![length; length.into()];
    for length in [60, 61, 62] {
        bench.mock.push_in(1, frame(length));
    }
    for length in [60, 61, 62] {
        assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(frame(length)));
    }
    // A full packet and an empty one are a frame of 64 bytes.
    bench.mock.push_in(1, frame(64));
    bench.mock.push_in(1, vec![]);
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(frame(64)));

    net.send(&frame(100)).unwrap();
    // A frame of full packets gets a byte more.
    net.send(&frame(128)).unwrap();
    let sizes: Vec<_> = bench.mock.received(1).iter().map(Vec::len).collect();
    assert_eq!(sizes, [64, 36, 64, 64, 1]);
    assert_eq!(net.send(&[0; 1515]), Err(SendError::TooLong { length: 1515, most: 1514 }));
    let statistics = net.statistics();
    assert_eq!((statistics.rx_frames, statistics.tx_frames, statistics.rx_errors, statistics.tx_errors), (4, 2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_transmit_queue_fills_and_empties() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    bench.mock.set_fault(|_, token, _| if token == Token::Out(1) { Fault::Nak } else { Fault::None });
    for _ in 0..4 {
        net.send(&[1; 60]).unwrap();
    }
    assert_eq!(net.send(&[1; 60]), Err(SendError::Busy));
    assert!(!net.can_send());
    bench.mock.set_fault(|_, _, _| Fault::None);
    bench.mock.ready(usb::EndpointAddress::out(1));
    timeout(LONG, net.changed()).await.unwrap();
    net.send(&[1; 60]).unwrap();
    assert_eq!(bench.mock.received(1).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_unread_device_is_held_back_and_nothing_is_lost() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    for frame in 0..3000u32 {
        bench.mock.push_in(1, [frame.to_le_bytes(), [1; 4], [2; 4], [3; 4]].concat());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = net.statistics().rx_frames;
    assert!((1000..1100).contains(&held), "{held}");
    for frame in 0..3000u32 {
        let bytes = timeout(LONG, net.recv()).await.unwrap().unwrap();
        assert_eq!(bytes[..4], frame.to_le_bytes());
    }
    assert_eq!(net.try_recv(), None);
    assert_eq!(net.statistics().rx_errors, 0);
}

#[tokio::test(start_paused = true)]
async fn at_high_speed_sixty_frames_may_be_on_their_way() {
    let bench = Bench::new(ethernet(), HostConfig::default());
    let net = bench.net().await;
    bench.mock.set_fault(|_, token, _| if token == Token::Out(1) { Fault::Nak } else { Fault::None });
    let sent = (0..1000).take_while(|_| net.send(&[1; 60]).is_ok()).count();
    assert_eq!(sent, 60 * 1518 / 1514);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_network_device_takes_its_urbs_along() {
    let bench = Bench::new(ethernet(), full_speed());
    drop(bench.net().await);
    bench.mock.push_in(1, vec![1; 20]);
    let device = bench.device().await;
    assert_eq!(device.bulk_in(1, 64, Duration::from_secs(1)).await, Ok(vec![1; 20]));
    // It can be bound again.
    let net = bench.net().await;
    bench.mock.push_in(1, vec![2; 20]);
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(vec![2; 20]));
}

#[tokio::test(start_paused = true)]
async fn the_carrier_follows_the_notifications() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    assert!(net.carrier());
    bench.mock.push_in(2, vec![0xa1, 0, 0, 0, 0, 0, 0, 0]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!net.carrier());
    assert_eq!(net.send(&[0; 60]), Err(SendError::Down));
    bench.mock.push_in(2, vec![0xa1, 0x2a, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bench.mock.push_in(2, vec![0xa1, 0x77, 0, 0, 0, 0, 0, 0]);
    bench.mock.push_in(2, vec![0xa1, 0, 1, 0, 0, 0, 0, 0]);
    let before = Instant::now();
    while !net.carrier() {
        timeout(LONG, net.changed()).await.unwrap();
    }
    // Asked every 32 ms.
    assert_eq!(before.elapsed(), Duration::from_millis(64));
    assert_eq!(bench.log.texts().last().unwrap(), "cdc_ether 5-1.3:1.0 usb0: CDC: unexpected notification 77!");
    bench.mock.push_in(1, vec![3; 60]);
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(vec![3; 60]));
}

#[tokio::test(start_paused = true)]
async fn halts_are_cleared_and_errors_rest() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    bench.mock.halt(0x81);
    bench.mock.push_in(1, vec![1; 60]);
    bench.mock.push_in(1, vec![2; 60]);
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(vec![1; 60]));
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(vec![2; 60]));
    let clears = bench.mock.requests().iter().filter(|setup| setup.request == Request::ClearFeature.0).count();
    assert_eq!(clears, 1);

    // Always halted, always babbling: the host goes on without spinning.
    for fault in [Fault::Stall, Fault::Babble, Fault::Silence] {
        bench.mock.set_fault(move |_, token, _| if token == Token::In(1) { fault } else { Fault::None });
        bench.mock.push_in(1, vec![1; 60]);
        let before = bench.mock.packets();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(bench.mock.packets() - before < 500, "{fault:?}: {}", bench.mock.packets() - before);
    }
    bench.mock.set_fault(|_, _, _| Fault::None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(net.try_recv().is_some());
}

#[tokio::test(start_paused = true)]
async fn unplugged_everything_ends() {
    let bench = Bench::new(ethernet(), full_speed());
    let net = bench.net().await;
    bench.mock.plug(false);
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), None);
    assert_eq!(net.send(&[0; 60]), Err(SendError::Down));
    let texts = bench.log.texts();
    assert_eq!(
        texts[texts.len() - 2..],
        [
            "usb 5-1.3: USB disconnect, device number 3".to_owned(),
            "cdc_ether 5-1.3:1.0 usb0: unregister 'cdc_ether' usb-0000:31:00.3-1.3, CDC Ethernet Device".to_owned(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_driver_there_is_no_network() {
    let bench = Bench::new(mock::fastboot(), full_speed());
    assert_eq!(NetDevice::bind(&bench.device().await).await.err(), Some(NetError::NoDriver));
    let mut broken = ethernet();
    // The union descriptor names an interface that is not there.
    broken.configurations[1][27] = 9;
    let bench = Bench::new(broken, full_speed());
    assert_eq!(NetDevice::bind(&bench.device().await).await.err(), Some(NetError::BadDescriptors));
    assert_eq!(bench.log.texts().last().unwrap(), "usb 5-1.3: bad CDC descriptors");
}

/// A device's RNDIS side: what it was told, what it will say, each with a request identifier filled in.
#[derive(Default)]
struct Rndis {
    told: Vec<Vec<u8>>,
    answers: VecDeque<Vec<u8>>,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn with_rndis(change: impl Fn(u32, u32, Vec<u8>) -> Vec<Vec<u8>> + Send + 'static) -> (Model, Arc<Mutex<Rndis>>) {
    let rndis = Arc::new(Mutex::new(Rndis::default()));
    let shared = rndis.clone();
    let mut model = ethernet();
    model.class = Box::new(move |setup, data| {
        let mut rndis = shared.lock();
        match (setup.request_type, setup.request) {
            (0x21, 0) => {
                let word = |index: usize| {
                    data.get(4 * index..4 * index + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap()))
                };
                let (kind, id, oid) = (word(0), word(2), word(3));
                rndis.told.push(data.to_vec());
                let answer = match (kind, oid) {
                    (rndis::INITIALIZE, _) => words(&[0x80000002, 52, id, 0, 1, 0, 1, 0, 1, 1580, 0, 0, 0]),
                    (rndis::QUERY, rndis::OID_GEN_PHYSICAL_MEDIUM) => words(&[0x80000004, 28, id, 0, 4, 16, 0]),
                    (rndis::QUERY, _) => [words(&[0x80000004, 30, id, 0, 6, 16]), vec![2, 1, 2, 3, 4, 5]].concat(),
                    (rndis::SET, _) => words(&[0x80000005, 16, id, 0]),
                    _ => return Some(Vec::new()),
                };
                rndis.answers.extend(change(kind, id, answer));
                Some(Vec::new())
            }
            (0xa1, 1) => rndis.answers.pop_front(),
            _ => None,
        }
    });
    (model, rndis)
}

#[tokio::test(start_paused = true)]
async fn rndis_host_says_what_linux_says() {
    let (model, rndis) = with_rndis(|_, _, answer| vec![answer]);
    let bench = Bench::new(model, rndis_config());
    let net = bench.net().await;
    assert_eq!(
        bench.log.texts().last().unwrap(),
        "rndis_host 5-1.3:2.0 usb0: register 'rndis_host' at usb-0000:31:00.3-1.3, RNDIS device, 02:01:02:03:04:05"
    );
    let address = [words(&[4, 76, 3, 0x01010101, 48, 20, 0]), vec![0; 48]].concat();
    assert_eq!(
        rndis.lock().told,
        [
            words(&[2, 24, 1, 1, 0, 1600]),
            words(&[4, 32, 2, 0x00010202, 4, 20, 0, 0]),
            address,
            words(&[5, 32, 4, 0x0001010e, 4, 20, 0, 0x2d]),
        ]
    );
    let asked = bench.mock.requests();
    let asked = asked.iter().find(|setup| setup.request_type == 0xa1).unwrap();
    assert_eq!((asked.request, asked.length.get()), (1, 1025));

    net.send(&[7; 60]).unwrap();
    let sent = bench.mock.received(1).concat();
    assert_eq!(sent, [words(&[1, 104, 36, 60, 0, 0, 0, 0, 0, 0, 0]), vec![7; 60]].concat());
    let batch = [PacketHeader::new(20).as_bytes(), &[1; 20][..], PacketHeader::new(30).as_bytes(), &[2; 30]].concat();
    for packet in batch.chunks(64) {
        bench.mock.push_in(1, packet.to_vec());
    }
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(vec![1; 20]));
    assert_eq!(timeout(LONG, net.recv()).await.unwrap(), Some(vec![2; 30]));
    net.unbind().await;
    assert_eq!(rndis.lock().told.last(), Some(&words(&[3, 12, 0])));
    assert!(bench.log.texts().last().unwrap().contains("unregister 'rndis_host'"));
}

#[tokio::test(start_paused = true)]
async fn rndis_answers_may_be_late_and_between_others() {
    let (model, rndis) = with_rndis(|kind, id, answer| match kind {
        rndis::INITIALIZE => vec![
            vec![],
            words(&[7, 20, rndis::STATUS_MEDIA_CONNECT, 0, 0]),
            words(&[8, 12, 77]),
            words(&[0x80000002, 16, id + 9, 0]),
            answer,
        ],
        _ => vec![answer],
    });
    let bench = Bench::new(model, rndis_config());
    let start = bench.device().await;
    let before = Instant::now();
    NetDevice::bind(&start).await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_millis(160));
    assert_eq!(rndis.lock().told[1], words(&[0x80000008, 16, 77, 0]));
    assert!(bench.log.texts().contains(&"rndis_host 5-1.3:2.0: rndis media connect".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn rndis_without_answer_is_given_up_after_ten_polls() {
    let (model, rndis) = with_rndis(|_, _, _| vec![]);
    let bench = Bench::new(model, rndis_config());
    let device = bench.device().await;
    let before = Instant::now();
    let error = NetDevice::bind(&device).await.err().unwrap();
    assert_eq!(error, NetError::Urb(UrbError::TimedOut));
    assert_eq!(before.elapsed(), Duration::from_millis(400));
    assert_eq!(bench.log.texts().last().unwrap(), "rndis_host 5-1.3:2.0: RNDIS init failed, -110");
    assert_eq!(rndis.lock().told.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rndis_offsets_and_lengths_are_checked() {
    for (length, offset) in [(6, u32::MAX), (u32::MAX, 16), (6, 1017 - 5), (5, 16), (u32::MAX, u32::MAX)] {
        let (model, rndis) = with_rndis(move |kind, id, answer| match kind {
            rndis::QUERY => vec![words(&[0x80000004, 30, id, 0, length, offset, 0])],
            _ => vec![answer],
        });
        let bench = Bench::new(model, rndis_config());
        let error = NetDevice::bind(&bench.device().await).await.err().unwrap();
        assert_eq!(error, NetError::Domain { offset, length });
        assert_eq!(bench.log.texts().last().unwrap(), "rndis_host 5-1.3:2.0: rndis get ethaddr, -33");
        // Bound half way, it is halted.
        assert_eq!(rndis.lock().told.last(), Some(&words(&[3, 12, 0])));
    }
}
