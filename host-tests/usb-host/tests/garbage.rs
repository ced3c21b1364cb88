//! Nothing a device sends panics the host or keeps it busy for ever.

mod mock;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mock::{Fault, Mock, Model, ethernet, fastboot};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::time::timeout;
use usb::ch9::Speed;
use usb_host::configuration::Configuration;
use usb_host::net::cdc::Header;
use usb_host::net::rndis::unwrap_frames;
use usb_host::net::{NetDevice, NetError};
use usb_host::{Device, Hcd, Host, HostConfig, HostEvent, MemoryLog, NoLog};

fn in_virtual_time<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

fn start(model: Model, configuration: Option<u8>) -> (Arc<Mock>, Host) {
    start_with(model, HostConfig { configuration, ..HostConfig::default() })
}

fn start_with(model: Model, config: HostConfig) -> (Arc<Mock>, Host) {
    let mock = Mock::plugged(model);
    let config = HostConfig { max_speed: Speed::Full, ..config };
    let host = Host::new(mock.clone(), config, Arc::new(NoLog));
    let task = host.clone();
    tokio::spawn(async move { task.run().await });
    (mock, host)
}

/// The first device or its failure: there must be one.
async fn outcome(host: &Host) -> Option<Device> {
    match timeout(Duration::from_secs(3600), host.event()).await.expect("the host gave no outcome") {
        HostEvent::Enumerated(device) => Some(device),
        HostEvent::Failed(errors) => {
            assert!(!errors.is_empty());
            None
        }
        HostEvent::Disconnected(number) => panic!("device {number} was never there"),
    }
}

/// Bytes that differ from `good` here and there, may end early or go on.
fn damaged(good: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = good.len();
    (vec((0..length, any::<u8>()), 0..6), 0..=length, vec(any::<u8>(), 0..8), any::<bool>()).prop_map(
        move |(changes, end, tail, cut)| {
            let mut bytes = good.clone();
            for (place, byte) in changes {
                bytes[place] = byte;
            }
            if cut {
                bytes.truncate(end);
                bytes.extend(tail);
            }
            bytes
        },
    )
}

fn any_model() -> impl Strategy<Value = Model> {
    let good = [ethernet(), fastboot()];
    let [ethernet, fastboot] = good.map(|model| (model.device, model.configurations));
    let device = prop_oneof![damaged(ethernet.0), damaged(fastboot.0), vec(any::<u8>(), 0..80)];
    let configuration = prop_oneof![
        damaged(ethernet.1[0].clone()),
        damaged(ethernet.1[1].clone()),
        damaged(fastboot.1[0].clone()),
        vec(any::<u8>(), 0..300)
    ];
    let strings = vec("[a-z0-9é]{0,40}", 0..5);
    (device, vec(configuration, 0..4), strings, any::<bool>()).prop_map(
        |(device, configurations, strings, qualified)| Model {
            qualifier: qualified.then(|| device.iter().copied().take(10).collect()),
            device,
            configurations,
            strings,
            high_speed: true,
            class: Box::new(|_, _| Some(Vec::new())),
        },
    )
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        20 => Just(Fault::None),
        1 => Just(Fault::Stall),
        2 => Just(Fault::Silence),
        1 => Just(Fault::LostAnswer),
        1 => Just(Fault::LostAck),
        1 => Just(Fault::WrongToggle),
        1 => Just(Fault::Babble),
        1 => Just(Fault::Nak),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_descriptors_have_an_outcome(model in any_model()) {
        in_virtual_time(async move {
            let (_mock, host) = start(model, None);
            if let Some(device) = outcome(&host).await {
                // Whatever was taken for a network device, its binding has an outcome too.
                let _ = timeout(Duration::from_secs(3600), NetDevice::bind(&device)).await.expect("binding hangs");
            }
        });
    }

    #[test]
    fn any_faults_have_an_outcome(
        faults in vec(any_fault(), 1..200),
        detach in proptest::option::of(0..60usize),
        hcd in prop_oneof![Just(Hcd::Xhci), Just(Hcd::Ehci)],
        strike_interval in prop_oneof![Just(0), 1..50u64, 1000..9000u64].prop_map(Duration::from_millis),
    ) {
        in_virtual_time(async move {
            let (mock, host) = start_with(ethernet(), HostConfig { hcd, strike_interval, ..HostConfig::default() });
            mock.set_fault(move |packet, _, _| {
                if detach == Some(packet) { Fault::Detach } else { faults[packet % faults.len()] }
            });
            outcome(&host).await;
        });
    }

    #[test]
    fn any_rndis_answers_and_packets_have_an_outcome(
        answers in vec((any::<bool>(), vec(any::<u32>(), 0..16), vec((0..16usize, 0..64u32), 0..4)), 1..12),
        packets in vec(vec(any::<u8>(), 0..65), 0..12),
        notification in vec(any::<u8>(), 0..9),
    ) {
        in_virtual_time(async move {
            let mut model = ethernet();
            let mut turn = 0;
            let mut asked = Vec::new();
            model.class = Box::new(move |setup, data| {
                if setup.request_type == 0x21 {
                    asked = data.to_vec();
                    return Some(Vec::new());
                }
                turn += 1;
                let (echo, words, small) = answers[turn % answers.len()].clone();
                let mut words = words;
                for (place, value) in small {
                    if let Some(word) = words.get_mut(place) {
                        *word = value;
                    }
                }
                let mut answer: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
                // Often enough an answer to what was asked.
                if echo && asked.len() >= 12 && answer.len() >= 16 {
                    answer[..4].copy_from_slice(&asked[..4]);
                    answer[3] |= 0x80;
                    answer[8..12].copy_from_slice(&asked[8..12]);
                    answer[12..16].fill(0);
                }
                Some(answer)
            });
            let (mock, host) = start(model, Some(2));
            let device = outcome(&host).await.expect("the device is good");
            let bound = timeout(Duration::from_secs(3600), NetDevice::bind(&device)).await.expect("binding hangs");
            match bound {
                Ok(net) => {
                    for packet in packets {
                        mock.push_in(1, packet);
                    }
                    mock.push_in(2, notification);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    while net.try_recv().is_some() {}
                }
                Err(error) => assert_ne!(error, NetError::NoDriver),
            }
        });
    }

    #[test]
    fn any_cdc_packets_are_taken(
        packets in vec(vec(any::<u8>(), 0..65), 0..40),
        notifications in vec(vec(any::<u8>(), 0..17), 0..8),
    ) {
        in_virtual_time(async move {
            let (mock, host) = start(ethernet(), None);
            let device = outcome(&host).await.expect("the device is good");
            let net = NetDevice::bind(&device).await.expect("the function is good");
            for packet in packets {
                mock.push_in(1, packet);
            }
            for notification in notifications {
                mock.push_in(2, notification);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            while let Some(frame) = net.try_recv() {
                assert!((14..=1514).contains(&frame.len()));
            }
        });
    }

    #[test]
    fn any_bytes_are_parsed(bytes in vec(any::<u8>(), 0..300), damaged in damaged(ethernet().configurations[1].clone())) {
        for bytes in [bytes, damaged] {
            let header = Header::parse(&bytes, |_| {});
            assert!(header.union.is_none_or(|union| union.length >= 5));
            let mut total = 0;
            unwrap_frames(&bytes, |frame| total += frame.len());
            assert!(total <= bytes.len());
            Configuration::parse(0, bytes, |_| {});
        }
    }
}

#[test]
fn damaged_descriptors_give_the_same_log_twice() {
    let log = || {
        in_virtual_time(async {
            let mut model = ethernet();
            model.configurations[0][2] = 200;
            model.configurations[1][4] = 7;
            model.strings.truncate(1);
            let log = Arc::new(MemoryLog::default());
            let mock = Mock::plugged(model);
            let host = Host::new(mock, HostConfig::default(), log.clone());
            let task = host.clone();
            tokio::spawn(async move { task.run().await });
            outcome(&host).await;
            log.lines()
        })
    };
    let first = log();
    assert_eq!(first, log());
    let texts: Vec<_> = first.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "usb 5-1.3: new high-speed USB device number 3 using xhci_hcd",
            "usb 5-1.3: config index 0 descriptor too short (expected 200, got 75)",
            "usb 5-1.3: config 1 has 2 interfaces, different from the descriptor's value: 7",
            "usb 5-1.3: New USB device found, idVendor=0525, idProduct=a4a2, bcdDevice= 6.02",
            "usb 5-1.3: New USB device strings: Mfr=1, Product=2, SerialNumber=0",
            "usb 5-1.3: Manufacturer: Linux 6.2.0-rc4 with ci_hdrc_msm",
        ]
    );
}
