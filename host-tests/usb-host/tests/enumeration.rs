//! Enumeration against a device at packet level: lines, times, errors.

mod mock;

use std::sync::Arc;
use std::time::Duration;

use mock::{Fault, Mock, Model, Token, ethernet, fastboot};
use tokio::time::timeout;
use usb::ch9::{Request, SetupPacket, Speed};
use usb::urb::UrbError;
use usb_host::{Device, Hcd, Host, HostConfig, HostEvent, HubError, MemoryLog};

const LONG: Duration = Duration::from_secs(600);

struct Bench {
    mock: Arc<Mock>,
    host: Host,
    host_hcd: Hcd,
    log: Arc<MemoryLog>,
}

impl Bench {
    fn new(model: Model, config: HostConfig) -> Self {
        let mock = Mock::plugged(model);
        let log = Arc::new(MemoryLog::default());
        let host_hcd = config.hcd;
        let host = Host::new(mock.clone(), config, log.clone());
        let task = host.clone();
        tokio::spawn(async move { task.run().await });
        Self { mock, host, host_hcd, log }
    }

    async fn device(&self) -> Device {
        timeout(LONG, self.host.device()).await.expect("no device")
    }

    async fn event(&self) -> HostEvent {
        timeout(LONG, self.host.event()).await.expect("no event")
    }

    async fn failure(&self) -> Vec<HubError> {
        match self.event().await {
            HostEvent::Failed(errors) => errors,
            event => panic!("{event:?}\n{:#?}", self.log.lines()),
        }
    }

    /// Times between the lines that contain these texts.
    fn times(&self, texts: &[&str]) -> Vec<Duration> {
        let lines = self.log.lines();
        let mut lines = lines.iter();
        let mut found = texts.iter().map(|text| {
            lines
                .find(|line| line.text.contains(text))
                .unwrap_or_else(|| panic!("{text}: {:#?}", self.log.lines()))
                .time
        });
        let mut last = found.next().unwrap();
        found.map(|time| time - std::mem::replace(&mut last, time)).collect()
    }
}

fn full_speed() -> HostConfig {
    HostConfig { max_speed: Speed::Full, first_device_number: 91, ..HostConfig::default() }
}

fn is_get_descriptor(setup: Option<SetupPacket>) -> bool {
    setup.is_some_and(|setup| setup.request == Request::GetDescriptor.0)
}

#[tokio::test(start_paused = true)]
async fn the_recorded_session_has_the_recorded_lines() {
    let bench = Bench::new(fastboot(), full_speed());
    let first = bench.device().await;
    bench.mock.plug(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(first.is_gone());
    bench.mock.with_model(|model| *model = ethernet());
    bench.mock.plug(true);
    let second = bench.device().await;
    assert_eq!(second.active_configuration().unwrap().descriptor.value, 1);
    assert_eq!(
        bench.log.texts(),
        [
            "usb 5-1.3: new full-speed USB device number 91 using xhci_hcd",
            "usb 5-1.3: New USB device found, idVendor=18d1, idProduct=d00d, bcdDevice= 1.00",
            "usb 5-1.3: New USB device strings: Mfr=1, Product=2, SerialNumber=3",
            "usb 5-1.3: Product: Android",
            "usb 5-1.3: Manufacturer: Google",
            "usb 5-1.3: SerialNumber: 0123abcd",
            "usb 5-1.3: USB disconnect, device number 91",
            "usb 5-1.3: new full-speed USB device number 92 using xhci_hcd",
            "usb 5-1.3: not running at top speed; connect to a high speed hub",
            "usb 5-1.3: New USB device found, idVendor=0525, idProduct=a4a2, bcdDevice= 6.02",
            "usb 5-1.3: New USB device strings: Mfr=1, Product=2, SerialNumber=0",
            "usb 5-1.3: Product: RNDIS/Ethernet Gadget",
            "usb 5-1.3: Manufacturer: Linux 6.2.0-rc4 with ci_hdrc_msm",
        ]
    );
}

/// A device that takes SETUP and then says NAK for ever.
async fn dead_after_setup(config: HostConfig) -> Bench {
    let bench = Bench::new(ethernet(), config);
    bench.mock.set_fault(|_, token, _| if matches!(token, Token::Setup(_)) { Fault::None } else { Fault::Nak });
    let read = HubError::Urb(UrbError::TimedOut);
    let address = match bench.host_hcd {
        Hcd::Xhci => HubError::CommandTimedOut,
        Hcd::Ehci => read,
    };
    assert_eq!(bench.failure().await, [read, read, address, address]);
    bench
}

#[tokio::test(start_paused = true)]
async fn at_full_speed_the_reads_fail_after_15_06_and_15_16_seconds() {
    let bench = dead_after_setup(full_speed()).await;
    let read64 = "device descriptor read/64, error -110";
    let lines = ["new full-speed USB device number 91", read64, read64, "new full-speed USB device number 92"];
    let times = bench.times(&lines);
    assert_eq!(times[..2], [15060, 15160].map(Duration::from_millis));
    // 100 ms after the second failure, then 10 and 50 ms of reset.
    assert_eq!(times[2], Duration::from_millis(160));
}

#[tokio::test(start_paused = true)]
async fn at_high_speed_the_first_read_fails_after_5_06_seconds() {
    let bench = dead_after_setup(HostConfig::default()).await;
    let read64 = "device descriptor read/64, error -110";
    let times = bench.times(&["new high-speed", read64, read64]);
    assert_eq!(times, [5060, 15160].map(Duration::from_millis));
}

#[tokio::test(start_paused = true)]
async fn the_root_hub_resets_for_longer() {
    let root = HostConfig { port: "2-4".parse().unwrap(), ..full_speed() };
    let bench = dead_after_setup(root).await;
    let read64 = "usb 2-4: device descriptor read/64, error -110";
    let times = bench.times(&["usb 2-4: new full-speed", read64, read64, "usb usb2-port4: unable to enumerate"]);
    assert_eq!(times[..2], [15110, 15210].map(Duration::from_millis));
}

#[tokio::test(start_paused = true)]
async fn a_contact_that_never_rests_is_told_once() {
    let bench = Bench::new(ethernet(), full_speed());
    bench.mock.plug(false);
    for _ in 0..100 {
        bench.mock.plug(true);
        tokio::time::sleep(Duration::from_millis(30)).await;
        bench.mock.plug(false);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(bench.log.texts(), ["usb 5-1-port3: connect-debounce failed"]);
}

/// A device that answers the status stage of SET_ADDRESS like that.
fn answers_set_address(config: HostConfig, answer: Fault) -> Bench {
    let bench = Bench::new(ethernet(), config);
    bench.mock.set_fault(move |_, token, setup| {
        let addressing = setup.is_some_and(|setup| setup.request == Request::SetAddress.0);
        if addressing && token == Token::In(0) { answer } else { Fault::None }
    });
    bench
}

#[tokio::test(start_paused = true)]
async fn an_ehci_tells_why_a_device_takes_no_address() {
    for (answer, error) in [
        (Fault::Stall, UrbError::Stall),
        (Fault::Silence, UrbError::Protocol),
        (Fault::Babble, UrbError::Overflow),
        (Fault::Nak, UrbError::TimedOut),
    ] {
        let bench = answers_set_address(HostConfig { hcd: Hcd::Ehci, ..full_speed() }, answer);
        assert_eq!(bench.failure().await, [HubError::Urb(error); 4]);
        let new = "usb 5-1.3: new full-speed USB device number 91 using ehci-pci";
        let refused = format!("usb 5-1.3: device not accepting address 91, error {}", error.errno());
        assert_eq!(bench.log.texts()[..2], [new, &refused]);
        let tries = if answer == Fault::Nak { 2 * 5000 } else { 0 };
        let times = bench.times(&[new, &refused, "number 92"]);
        assert_eq!(times, [60 + tries + 400, 60].map(Duration::from_millis));
    }
}

#[tokio::test(start_paused = true)]
async fn an_xhci_says_that_a_device_does_not_respond_to_set_address() {
    for answer in [Fault::Stall, Fault::Silence, Fault::Babble] {
        let bench = answers_set_address(full_speed(), answer);
        assert_eq!(bench.failure().await, [HubError::Urb(UrbError::Protocol); 4]);
        let lines = [
            "usb 5-1.3: new full-speed USB device number 91 using xhci_hcd",
            "usb 5-1.3: Device not responding to setup address.",
            "usb 5-1.3: Device not responding to setup address.",
            "usb 5-1.3: device not accepting address 91, error -71",
            "usb 5-1.3: new full-speed USB device number 92 using xhci_hcd",
        ];
        assert_eq!(bench.log.texts()[..5], lines);
        assert_eq!(bench.times(&lines), [60, 200, 200, 60].map(Duration::from_millis), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_xhci_aborts_a_set_address_without_end() {
    let bench = answers_set_address(full_speed(), Fault::Nak);
    assert_eq!(bench.failure().await, [HubError::CommandTimedOut; 4]);
    let lines = [
        "usb 5-1.3: new full-speed USB device number 91 using xhci_hcd",
        "xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
        "xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
        "usb 5-1.3: device not accepting address 91, error -62",
        "usb 5-1.3: new full-speed USB device number 92 using xhci_hcd",
    ];
    assert_eq!(bench.log.texts()[..5], lines);
    assert_eq!(bench.times(&lines), [60 + 5000, 200 + 5000, 200, 60].map(Duration::from_millis));
}

#[tokio::test(start_paused = true)]
async fn a_second_try_may_set_the_address() {
    for hcd in [Hcd::Xhci, Hcd::Ehci] {
        for answer in [Fault::Stall, Fault::Silence, Fault::Nak] {
            let bench = Bench::new(ethernet(), HostConfig { hcd, ..full_speed() });
            let mut tries = 0;
            bench.mock.set_fault(move |_, token, setup| {
                tries += usize::from(matches!(token, Token::Setup(setup) if setup.request == Request::SetAddress.0));
                let addressing = setup.is_some_and(|setup| setup.request == Request::SetAddress.0);
                if tries == 1 && addressing && token == Token::In(0) { answer } else { Fault::None }
            });
            assert_eq!(bench.device().await.number(), 91);
            let texts = bench.log.texts();
            assert!(texts.iter().all(|text| !text.contains("not accepting")), "{hcd} {answer:?} {texts:#?}");
            let warning = match (hcd, answer) {
                (Hcd::Ehci, _) => "usb 5-1.3: not running at top speed; connect to a high speed hub",
                (Hcd::Xhci, Fault::Nak) => "xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
                (Hcd::Xhci, _) => "usb 5-1.3: Device not responding to setup address.",
            };
            assert_eq!(texts[1], warning, "{hcd} {answer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_unplugged_while_it_is_addressed_does_not_respond() {
    let bench = answers_set_address(full_speed(), Fault::Detach);
    assert_eq!(bench.failure().await, [HubError::Urb(UrbError::Protocol), HubError::NotConnected]);
    assert_eq!(
        bench.log.texts()[1..],
        [
            "usb 5-1.3: Device not responding to setup address.",
            "usb 5-1.3: Device not responding to setup address.",
            "usb 5-1.3: device not accepting address 91, error -71",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn on_an_xhci_a_dead_device_has_these_lines() {
    let bench = dead_after_setup(full_speed()).await;
    let first = bench.log.lines()[0].time;
    let lines: Vec<String> = bench
        .log
        .lines()
        .iter()
        .map(|line| format!("{:6.2} {}", (line.time - first).as_secs_f64(), line.text))
        .collect();
    assert_eq!(
        lines,
        [
            "  0.00 usb 5-1.3: new full-speed USB device number 91 using xhci_hcd",
            " 15.06 usb 5-1.3: device descriptor read/64, error -110",
            " 30.22 usb 5-1.3: device descriptor read/64, error -110",
            " 30.38 usb 5-1.3: new full-speed USB device number 92 using xhci_hcd",
            " 45.44 usb 5-1.3: device descriptor read/64, error -110",
            " 60.60 usb 5-1.3: device descriptor read/64, error -110",
            " 60.70 usb 5-1-port3: attempt power cycle",
            " 61.26 usb 5-1.3: new full-speed USB device number 93 using xhci_hcd",
            " 66.26 xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
            " 71.46 xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
            " 71.66 usb 5-1.3: device not accepting address 93, error -62",
            " 71.72 usb 5-1.3: new full-speed USB device number 94 using xhci_hcd",
            " 76.72 xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
            " 81.92 xhci_hcd 0000:31:00.3: Timeout while waiting for setup device command",
            " 82.12 usb 5-1.3: device not accepting address 94, error -62",
            " 82.12 usb 5-1-port3: unable to enumerate USB device",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_device_is_given_up_after_both_schemes_and_a_power_cycle() {
    let bench = dead_after_setup(HostConfig { hcd: Hcd::Ehci, ..full_speed() }).await;
    let new = |number| format!("usb 5-1.3: new full-speed USB device number {number} using ehci-pci");
    let read64 = "usb 5-1.3: device descriptor read/64, error -110".to_owned();
    let address = |number| format!("usb 5-1.3: device not accepting address {number}, error -110");
    assert_eq!(
        bench.log.texts(),
        [
            new(91),
            read64.clone(),
            read64.clone(),
            new(92),
            read64.clone(),
            read64,
            "usb 5-1-port3: attempt power cycle".to_owned(),
            new(93),
            address(93),
            new(94),
            address(94),
            "usb 5-1-port3: unable to enumerate USB device".to_owned(),
        ]
    );
    // The power cycle bounces the connection: the reset is repeated with the long delay.
    let times = bench.times(&["attempt power cycle", "number 93", "not accepting address 93"]);
    assert_eq!(times, [300 + 10 + 200 + 50, 2 * 5000 + 2 * 200].map(Duration::from_millis));
}

#[tokio::test(start_paused = true)]
async fn a_device_without_handshake_ends_with_71() {
    let bench = Bench::new(ethernet(), full_speed());
    bench.mock.set_fault(|_, _, _| Fault::Silence);
    assert_eq!(bench.failure().await, [HubError::Urb(UrbError::Protocol); 4]);
    let read64 = "device descriptor read/64, error -71";
    let times = bench.times(&["new full-speed USB device number 91", read64, read64]);
    assert_eq!(times, [60, 160].map(Duration::from_millis));
    // Six tries of the first attempt, three packets each, and so on: SETUP is all that went out.
    assert_eq!(bench.mock.packets(), 2 * (2 * 3 * 3) + 2 * (2 * 3));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_first_read_ends_with_32() {
    let bench = Bench::new(ethernet(), full_speed());
    bench.mock.set_fault(
        |_, token, setup| {
            if token == Token::In(0) && is_get_descriptor(setup) { Fault::Stall } else { Fault::None }
        },
    );
    assert_eq!(bench.failure().await, [HubError::Urb(UrbError::Stall); 4]);
    let texts = bench.log.texts();
    assert_eq!(texts[1], "usb 5-1.3: device descriptor read/64, error -32");
    assert!(texts.iter().any(|text| text == "usb 5-1.3: device descriptor read/8, error -32"), "{texts:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_babbling_device_ends_with_75() {
    let bench = Bench::new(ethernet(), full_speed());
    bench.mock.set_fault(|_, token, _| if token == Token::In(0) { Fault::Babble } else { Fault::None });
    let errors = [UrbError::Overflow, UrbError::Overflow, UrbError::Protocol, UrbError::Protocol].map(HubError::Urb);
    assert_eq!(bench.failure().await, errors);
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_wrong_toggles_are_repaired() {
    let clean = Bench::new(ethernet(), full_speed());
    clean.device().await;
    for fault in [Fault::LostAnswer, Fault::LostAck, Fault::WrongToggle, Fault::Silence, Fault::Nak] {
        let bench = Bench::new(ethernet(), full_speed());
        let mut turn = 0;
        bench.mock.set_fault(move |_, token, setup| {
            turn += 1;
            let data_in = matches!(token, Token::In(_)) && setup.is_some_and(|setup| setup.length.get() > 0);
            let hits = match fault {
                Fault::WrongToggle | Fault::LostAck => data_in,
                // A status stage that was taken and whose answer is lost is over for this device.
                Fault::LostAnswer => matches!(token, Token::Setup(_)),
                _ => true,
            };
            if turn % 3 == 0 && hits { fault } else { Fault::None }
        });
        if fault == Fault::Nak {
            let mock = bench.mock.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    mock.ready(usb::EndpointAddress::r#in(0));
                }
            });
        }
        bench.device().await;
        assert_eq!(bench.log.texts(), clean.log.texts(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unplugged_at_any_packet_the_host_recovers() {
    let clean = Bench::new(ethernet(), full_speed());
    clean.device().await;
    let packets = clean.mock.packets();
    assert!(packets > 30, "{packets}");
    for at in 1..=packets {
        let bench = Bench::new(ethernet(), full_speed());
        bench.mock.set_fault(move |packet, _, _| if packet == at { Fault::Detach } else { Fault::None });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(bench.host.current_device().is_none(), "packet {at}");
        let texts = bench.log.texts();
        assert!(texts.iter().all(|text| !text.contains("unable to enumerate")), "packet {at}: {texts:#?}");
        bench.mock.plug(true);
        let device = bench.device().await;
        assert_eq!(device.active_configuration().unwrap().descriptor.value, 1, "packet {at}");
        assert!(device.number() >= 92, "packet {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_runs_write_the_same_log() {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let bench = dead_after_setup(full_speed()).await;
        bench.mock.plug(false);
        bench.mock.set_fault(|_, _, _| Fault::None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.mock.plug(true);
        bench.device().await;
        logs.push((bench.log.lines(), bench.mock.requests()));
    }
    assert_eq!(logs[0], logs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_bouncing_contact_is_debounced() {
    let bench = Bench::new(ethernet(), full_speed());
    bench.mock.plug(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..5 {
        bench.mock.plug(true);
        tokio::time::sleep(Duration::from_millis(30)).await;
        bench.mock.plug(false);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(bench.log.texts(), Vec::<String>::new());
    let plugged = bench.host.now();
    bench.mock.plug(true);
    bench.device().await;
    let line = &bench.log.lines()[0];
    let waited = line.time - plugged;
    // 100 to 125 ms of rest, 10 and 50 ms of reset.
    assert!((160..=185).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn log_times_have_their_origin() {
    let origin = Duration::from_millis(128788310 - 260);
    let bench = Bench::new(fastboot(), HostConfig { origin, ..full_speed() });
    bench.device().await;
    let line = bench.log.lines()[0].to_string();
    assert_eq!(line, "[128788.310000] usb 5-1.3: new full-speed USB device number 91 using xhci_hcd");
}

#[tokio::test(start_paused = true)]
async fn a_configuration_can_be_asked_for() {
    let bench = Bench::new(ethernet(), HostConfig { configuration: Some(2), ..HostConfig::default() });
    let device = bench.device().await;
    assert_eq!(device.active_configuration().unwrap().descriptor.value, 2);
    assert_eq!(device.speed(), Speed::High);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_wakes_the_host_is_resumed() {
    let bench = Bench::new(fastboot(), full_speed());
    let device = bench.device().await;
    bench.host.suspend().await.unwrap();
    assert!(bench.mock.is_suspended() && bench.mock.wakeup_armed());
    let before = bench.mock.packets();
    let pending = {
        let device = device.clone();
        tokio::spawn(async move { device.status().await })
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.mock.packets(), before);
    bench.mock.remote_wakeup();
    assert!(pending.await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!bench.mock.is_suspended() && !bench.mock.wakeup_armed());
    bench.host.suspend().await.unwrap();
    bench.host.resume().await.unwrap();
    assert_eq!(device.status().await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_reset_restores_the_device_or_loses_it() {
    let bench = Bench::new(ethernet(), full_speed());
    let device = bench.device().await;
    device.set_interface(1, 1).await.unwrap();
    device.reset().await.unwrap();
    assert_eq!(bench.log.texts().last().unwrap(), "usb 5-1.3: reset full-speed USB device number 91 using xhci_hcd");
    assert_eq!(device.active_alternate(1).unwrap().descriptor.alternate, 1);
    assert_eq!(bench.mock.requests().last().unwrap().request, Request::SetInterface.0);
    bench.mock.push_in(1, vec![7; 3]);
    assert_eq!(device.bulk_in(1, 64, LONG).await, Ok(vec![7; 3]));

    bench.mock.with_model(|model| *model = fastboot());
    assert_eq!(device.reset().await, Err(HubError::Urb(UrbError::NoDevice)));
    bench.event().await;
    assert!(matches!(bench.event().await, HostEvent::Disconnected(91)));
    assert!(matches!(bench.event().await, HostEvent::Enumerated(device) if device.number() == 92));
    assert!(bench.log.texts().contains(&"usb 5-1.3: device firmware changed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn two_ports_of_a_bus_share_its_device_numbers() {
    let bench = Bench::new(fastboot(), HostConfig::default());
    let log = Arc::new(MemoryLog::default());
    let config = HostConfig { port: "5-1.4".parse().unwrap(), ..HostConfig::default() };
    let second = bench.host.beside(Mock::plugged(ethernet()), config, log.clone());
    let task = second.clone();
    tokio::spawn(async move { task.run().await });
    let first = bench.device().await;
    let second = timeout(LONG, second.device()).await.expect("no device");
    assert_eq!((first.number(), second.number()), (3, 4));
    assert!(log.texts()[0].starts_with("usb 5-1.4: new "), "{:?}", log.texts());
}

#[tokio::test(start_paused = true)]
async fn a_read_of_everything_is_refused() {
    let bench = Bench::new(fastboot(), HostConfig::default());
    let device = bench.device().await;
    assert_eq!(device.bulk_in(1, usize::MAX, LONG).await, Err(UrbError::Invalid));
}
