//! Wire traffic at the driver's preemption points, and any traffic at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bus::{Point, Preempt};
use parking_lot::Mutex;
use scenarios::{Run, Verdict, expect_equal};
use usb::ch9::DescriptorType;
use usb::wire::{DataPid, Handshake, HostAck, InReply, Target, UsbPort};
use usb::{SetupPacket, Speed};

use crate::board::{States, pattern, try_run};
use crate::serial::{echo, open, serial};

/// Not armed: no access is the one.
const NEVER: u32 = u32::MAX;

/// Puts a SETUP before the driver's access number `at`, and an IN before each one after it until data comes.
#[derive(Default)]
struct SetupAt {
    port: OnceLock<(Arc<dyn UsbPort>, Target, SetupPacket)>,
    countdown: AtomicU32,
    sent: Mutex<bool>,
    seen: Mutex<Option<Vec<u8>>>,
}

impl SetupAt {
    /// Asks for data, if the SETUP was sent and none has come.
    fn ask(&self) {
        let Some((port, to, _)) = self.port.get().filter(|_| *self.sent.lock()) else { return };
        let mut seen = self.seen.lock();
        let mut packet = [0; 64];
        if seen.is_none()
            && let InReply::Data { len, .. } = port.data_in(*to, &mut packet, HostAck::Sent)
        {
            *seen = Some(packet[..len].to_vec());
        }
    }
}

impl Preempt for SetupAt {
    fn at(&self, _: Point) {
        if self.countdown.load(Ordering::Relaxed) == NEVER {
            return;
        }
        self.ask();
        if !*self.sent.lock()
            && self.countdown.fetch_sub(1, Ordering::Relaxed) == 0
            && let Some((port, to, setup)) = self.port.get()
        {
            self.countdown.store(1, Ordering::Relaxed);
            assert_eq!(port.setup(*to, &setup.to_bytes()), Handshake::Ack, "a SETUP is always taken");
            *self.sent.lock() = true;
        }
    }
}

/// The host sends a request, and before access n of the driver's work on it gives that up for another one. Whatever n
/// is, and however soon it asks, the first data that it gets is the answer to the second.
fn race(n: u32, first: SetupPacket, second: SetupPacket, answer: &[u8]) -> (Run, bool) {
    let preempt = Arc::new(SetupAt::default());
    preempt.countdown.store(NEVER, Ordering::Relaxed);
    let mut raced = false;
    let bench =
        serial("linked", States::default()).preempt(format!("SETUP before access {n}"), Arc::clone(&preempt) as _);
    let run = try_run(&bench, async |session, device| {
        session.settle().await;
        let to = Target { address: device.number(), endpoint: 0 };
        assert!(preempt.port.set((Arc::clone(session.port()), to, second)).is_ok());
        preempt.countdown.store(n, Ordering::Relaxed);
        session.port().setup(to, &first.to_bytes());
        session.settle().await;
        raced = *preempt.sent.lock();
        session.settle().await;
        preempt.ask();
        preempt.countdown.store(NEVER, Ordering::Relaxed);
        if raced {
            expect_equal(
                "the first data after the second SETUP",
                &preempt.seen.lock().take().as_deref(),
                &Some(answer),
            )?;
        }
        // Nothing is left of it all.
        session.port().data_out(to, DataPid::Data1, &[]);
        session.settle().await;
        open(&device).await?;
        echo(&device, pattern(1, 100)).await
    });
    (run, raced)
}

fn sweep(first: SetupPacket, second: SetupPacket, answer: &[u8]) {
    let mut points = 0;
    for n in 0.. {
        let (run, raced) = race(n, first, second, answer);
        assert_eq!(run.verdict, Verdict::NoFailureFound, "before access {n}: {:?} {:#?}", run.failure, run.findings);
        if !raced {
            break;
        }
        points = n + 1;
        assert!(n < 10_000, "the driver's work on one request is bounded");
    }
    assert!(points > 20, "the driver's work on one request has more than {points} accesses");
}

/// GET_CONFIGURATION.
const CONFIGURATION: SetupPacket = SetupPacket::new(0x80, 8, 0, 0, 1);

#[test]
fn a_setup_at_any_access_of_the_driver_gets_its_own_answer() {
    sweep(SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 18), CONFIGURATION, &[1]);
}

#[test]
fn a_setup_at_any_access_during_a_refusal_gets_its_own_answer() {
    // No class knows it: endpoint 0 is about to stall.
    sweep(SetupPacket::new(0xc0, 1, 2, 3, 4), CONFIGURATION, &[1]);
}

#[test]
fn a_setup_at_any_access_during_another_class_request_gets_its_own_answer() {
    // Line coding, as it is at the begin: 9600 bit/s.
    let coding = [0x80, 0x25, 0, 0, 0, 0, 8];
    sweep(SetupPacket::new(0x21, 0x22, 0, 0, 0), SetupPacket::new(0xa1, 0x21, 0, 0, 7), &coding);
}

/// Numbers that look random; the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        // Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// One act of a host without manners.
fn act(port: &dyn UsbPort, numbers: &mut Numbers, address: u8) {
    let endpoint = numbers.below(4) as u8;
    let to = Target { address: if numbers.below(8) == 0 { 0 } else { address }, endpoint };
    let pid = if numbers.below(2) == 0 { DataPid::Data0 } else { DataPid::Data1 };
    match numbers.below(16) {
        0..=3 => {
            let mut setup: [u8; 8] = numbers.bytes(8).try_into().expect("eight");
            if numbers.below(2) == 0 {
                // A standard request or one of the class.
                setup[0] &= 0xa3;
                setup[1] %= 13;
                setup[3] &= 3;
            }
            port.setup(to, &setup);
        }
        4..=8 => {
            let lengths = [0, 1, 8, 63, 64, 65, 512, 1024];
            let length = lengths[numbers.below(lengths.len() as u64) as usize];
            port.data_out(to, pid, &numbers.bytes(length));
        }
        9..=12 => {
            let ack = if numbers.below(4) == 0 { HostAck::Lost } else { HostAck::Sent };
            port.data_in(to, &mut [0; 1024], ack);
        }
        13 => port.suspend(),
        14 => port.resume(),
        _ => {
            if numbers.below(4) == 0 {
                port.reset(Speed::High);
            }
        }
    }
}

#[test]
fn a_host_without_manners_breaks_nothing() {
    for seed in 0..48 {
        let bench = serial("linked", States::default());
        let run = try_run(&bench, async |session, device| {
            open(&device).await?;
            let mut numbers = Numbers(seed);
            for _ in 0..400 {
                act(&**session.port(), &mut numbers, device.number());
                if numbers.below(3) == 0 {
                    session.settle().await;
                }
            }
            session.unplug();
            session.disconnected().await?;
            session.plug();
            let device = session.enumerated().await?;
            open(&device).await?;
            echo(&device, pattern(1, 1000)).await
        });
        assert_eq!(run.verdict, Verdict::NoFailureFound, "seed {seed}: {:?} {:#?}", run.failure, run.findings);
    }
}

#[test]
fn a_packet_that_is_too_long_is_dropped_and_told() {
    let run = try_run(&serial("linked", States::default()), async |session, device| {
        open(&device).await?;
        let to = Target { address: device.number(), endpoint: 1 };
        session.port().data_out(to, DataPid::Data0, &pattern(1, 65));
        session.settle().await;
        echo(&device, pattern(1, 100)).await
    });
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?}", run.failure);
    assert_eq!(run.board_log, ["ep1 OUT: halted (-32)"]);
}

#[test]
fn nothing_is_left_of_a_bus_that_is_dropped() {
    let bench = scenarios::Bench::new().driver("dropped", |side| {
        let bus = chipidea_stacks::ChipideaBus::probe(side.mmio, side.dma.clone(), chipidea_driver::Config::default())?;
        let other = bus.clone();
        drop(bus);
        assert_ne!(side.dma.ledger().live_blocks(), []);
        drop(other);
        assert_eq!(side.dma.ledger().live_blocks(), []);
        Err(usb::gadget::UdcError::Unsupported("on purpose"))
    });
    let run = try_run(&bench, async |_, _| Ok(()));
    assert!(run.failure.is_some_and(|failure| failure.to_string().contains("on purpose")));
}
