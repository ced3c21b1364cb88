//! Wire traffic at the driver's preemption points.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bus::{Point, Preempt};
use gadgets::{EthernetConfig, EthernetGadget};
use scenarios::{Bench, Failure, Verdict, expect_equal};
use usb::SetupPacket;
use usb::ch9::DescriptorType;
use usb::wire::{Handshake, HostAck, InReply, Target, UsbPort};

/// Not armed: no access is the one.
const NEVER: u32 = u32::MAX;

/// Puts a SETUP before the driver's access number `at`.
#[derive(Default)]
struct SetupAt {
    port: OnceLock<(Arc<dyn UsbPort>, Target, SetupPacket)>,
    countdown: AtomicU32,
}

impl Preempt for SetupAt {
    fn at(&self, _: Point) {
        if self.countdown.load(Ordering::Relaxed) == NEVER {
            return;
        }
        if self.countdown.fetch_sub(1, Ordering::Relaxed) == 0
            && let Some((port, to, setup)) = self.port.get()
        {
            assert_eq!(port.setup(*to, &setup.to_bytes()), Handshake::Ack, "a SETUP is always taken");
        }
    }
}

/// The host sends GET_DESCRIPTOR(device), and before access n of the driver's work on it gives that up for
/// GET_DESCRIPTOR(qualifier). Whatever n is, the second request gets its own answer.
fn race(n: u32) -> (Verdict, Option<Failure>, bool) {
    let preempt = Arc::new(SetupAt::default());
    preempt.countdown.store(NEVER, Ordering::Relaxed);
    let mut raced = false;
    let bench = Bench::new().endpoints(4).preempt(format!("SETUP before access {n}"), Arc::clone(&preempt) as _);
    let run = bench.session("race", async |session| {
        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
        let device = session.enumerated().await?;
        let to = Target { address: device.number(), endpoint: 0 };
        let second = SetupPacket::get_descriptor(DescriptorType::DeviceQualifier, 0, 0, 10);
        assert!(preempt.port.set((Arc::clone(session.port()), to, second)).is_ok());

        let first = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 18);
        preempt.countdown.store(n, Ordering::Relaxed);
        session.port().setup(to, &first.to_bytes());
        session.settle().await;
        raced = preempt.countdown.swap(NEVER, Ordering::Relaxed) > n;
        session.settle().await;
        let expected = if raced { (10, DescriptorType::DeviceQualifier) } else { (18, DescriptorType::Device) };
        let mut buffer = [0; 64];
        match session.port().data_in(to, &mut buffer, HostAck::Sent) {
            InReply::Data { len, .. } => {
                expect_equal("length and type of the answer", &(len, DescriptorType(buffer[1])), &expected)
            }
            other => Err(Failure::new(format!("the device answered {other:?}"))),
        }
    });
    let run = run.expect("the bench can be set up");
    (run.verdict, run.failure, raced)
}

#[test]
fn a_setup_at_any_access_of_the_driver_is_answered() {
    let mut points = 0;
    for n in 0.. {
        let (verdict, failure, raced) = race(n);
        assert_eq!(verdict, Verdict::NoFailureFound, "before access {n}: {failure:?}");
        if !raced {
            break;
        }
        points = n + 1;
        assert!(n < 10_000, "the driver's work on one request is bounded");
    }
    assert!(points > 20, "the driver's work on one request has more than {points} accesses");
}
