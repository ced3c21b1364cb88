//! A bench whose board runs a firmware stack.

use std::sync::Arc;
use std::time::Duration;

use chipidea_driver::Config;
use chipidea_stacks::{ChipideaBus, Firmware, NoGadget};
use parking_lot::Mutex;
use pool::DmaApi;
use scenarios::{Bench, Failure, Run, Session, Verdict, expect_equal};
use usb::gadget::UdcError;
use usb::urb::{Transfer, Urb};
use usb::{EndpointAddress, Speed};
use usb_device::bus::UsbBusAllocator;
use usb_device::device::UsbDeviceState;
use usb_host::Device;

/// Time for a transfer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// The states that a stack goes through, each once in a row.
#[derive(Clone, Default)]
pub(crate) struct States(Arc<Mutex<(Option<UsbDeviceState>, Vec<UsbDeviceState>)>>);

impl States {
    pub(crate) fn note(&self, state: UsbDeviceState) {
        let (last, states) = &mut *self.0.lock();
        if last.replace(state) != Some(state) {
            states.push(state);
        }
    }

    /// Those since the last call.
    pub(crate) fn take(&self) -> Vec<UsbDeviceState> {
        std::mem::take(&mut self.0.lock().1)
    }
}

type Poll = Box<dyn FnMut() + Send>;
type Allocator = &'static UsbBusAllocator<ChipideaBus>;

/// A bench on `pool` whose board runs what `firmware` makes. The controller is no faster than `speed`, the host's
/// port is.
pub(crate) fn bench(
    speed: Speed,
    pool: &str,
    firmware: impl Fn(Allocator, ChipideaBus, DmaApi) -> Poll + Send + Sync + 'static,
) -> Bench {
    let policy = pool::policy::by_name(pool).expect("a pool of the table");
    Bench::new().pool(policy).driver("chipidea-stacks (usb-device)", move |side| {
        let config = Config { max_speed: speed, ..Config::default() };
        let bus = ChipideaBus::probe(side.mmio, side.dma.clone(), config).map_err(UdcError::from)?;
        // The firmware of a board owns its allocator for ever.
        let allocator = Box::leak(Box::new(UsbBusAllocator::new(bus.clone())));
        let poll = firmware(allocator, bus.clone(), side.dma);
        Ok(Box::new(Firmware::new(&bus, poll)))
    })
}

/// Boots the board, enumerates it, and lets `act` do the rest.
pub(crate) fn try_run(bench: &Bench, act: impl AsyncFnOnce(&Session, Device) -> Result<(), Failure>) -> Run {
    let run = bench.session("firmware", async |session| {
        session.boot(NoGadget)?;
        let device = session.enumerated().await?;
        act(session, device).await?;
        session.halt()?;
        expect_equal("blocks in use after the shutdown", &session.blocks_in_use(), &0)?;
        expect_equal("mappings in use after the shutdown", &session.mappings_in_use(), &0)
    });
    run.expect("the bench can be set up")
}

/// The same, and nothing may go wrong.
pub(crate) fn run(bench: &Bench, act: impl AsyncFnOnce(&Session, Device) -> Result<(), Failure>) {
    let run = try_run(bench, act);
    let told = (&run.failure, &run.findings, &run.board_log);
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{told:#?}");
    assert_eq!(run.board_log, [""; 0]);
}

/// A failure in these words.
pub(crate) fn failed(what: &str) -> impl Fn(usb::urb::UrbError) -> Failure {
    move |error| Failure::new(format!("{what}: {error}"))
}

/// A check of bytes.
pub(crate) fn expect_bytes(what: &str, seen: &[u8], expected: &[u8]) -> Result<(), Failure> {
    expect_equal(what, &seen, &expected)
}

/// An interrupt transfer to endpoint `number`.
pub(crate) async fn interrupt_out(device: &Device, number: u8, data: Vec<u8>) -> Result<(), Failure> {
    let urb = Urb {
        address: device.number(),
        endpoint: EndpointAddress::out(number),
        transfer: Transfer::Interrupt,
        buffer: data,
        zero_packet: false,
        short_not_ok: false,
    };
    device.submit(urb).await.status.map_err(failed("interrupt write"))
}

/// Bytes that show where they belong; no two `seed`s have the same.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ seed.wrapping_mul(0x9d) ^ seed >> 8) as u8).collect()
}
