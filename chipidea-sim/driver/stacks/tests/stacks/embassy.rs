//! `embassy-usb`: a CDC ACM port that sends everything back in capitals, its futures in the bench's runtime.

use std::sync::Arc;

use chipidea_driver::Config;
use chipidea_stacks::{ChipideaEmbassy, NoGadget};
use embassy_futures::join::join;
use embassy_futures::select::{Either, select};
use embassy_usb::Builder;
use embassy_usb::class::cdc_acm::{CdcAcmClass, State};
use embassy_usb::driver::EndpointError;
use parking_lot::Mutex;
use pool::Finding;
use scenarios::{Bench, Failure, Run, Session, Verdict, expect_equal};
use usb::gadget::UdcError;
use usb::urb::UrbError;
use usb::{EndpointAddress, SetupPacket, Speed};
use usb_host::Device;

use crate::board::{TIMEOUT, failed, pattern};
use crate::serial::{READ, WRITE, echo, open};

const PACKET: usize = 64;

type Port<'a> = CdcAcmClass<'a, ChipideaEmbassy>;

async fn firmware(driver: ChipideaEmbassy) {
    let mut config = embassy_usb::Config::new(0xc0de, 0xcafe);
    config.product = Some("port");
    config.supports_remote_wakeup = true;
    let (mut configuration, mut objects, mut microsoft, mut control) = ([0; 256], [0; 256], [0; 0], [0; 64]);
    let mut state = State::new();
    let mut builder = Builder::new(driver, config, &mut configuration, &mut objects, &mut microsoft, &mut control);
    let mut port = CdcAcmClass::new(&mut builder, &mut state, PACKET as u16);
    let mut device = builder.build();
    join(device.run(), async {
        loop {
            port.wait_connection().await;
            // It ends with the connection.
            let _ = send_back(&mut port).await;
        }
    })
    .await;
}

async fn send_back(port: &mut Port<'_>) -> Result<(), EndpointError> {
    let mut packet = [0; PACKET];
    loop {
        let count = port.read_packet(&mut packet).await?;
        packet.make_ascii_uppercase();
        port.write_packet(&packet[..count]).await?;
        if count == PACKET {
            port.write_packet(&[]).await?;
        }
    }
}

fn try_run(bench: Bench, pool: &str, act: impl AsyncFnOnce(&Session, Device) -> Result<(), Failure>) -> Run {
    let policy = pool::policy::by_name(pool).expect("a pool of the table");
    let hold: Arc<Mutex<Option<ChipideaEmbassy>>> = Arc::default();
    let made = Arc::clone(&hold);
    let bench = bench.pool(policy).driver("chipidea-stacks (embassy-usb)", move |side| {
        let config = Config { max_speed: Speed::Full, ..Config::default() };
        let driver = ChipideaEmbassy::probe(side.mmio, side.dma, config).map_err(UdcError::from)?;
        *made.lock() = Some(driver.clone());
        Ok(Box::new(driver.firmware()))
    });
    let run = bench.session("embassy", async |session| {
        session.boot(NoGadget)?;
        let driver = hold.lock().take().ok_or_else(|| Failure::new("no driver"))?;
        let host = async {
            let device = session.enumerated().await?;
            act(session, device).await?;
            session.halt()?;
            expect_equal("blocks in use after the shutdown", &session.blocks_in_use(), &0)?;
            expect_equal("mappings in use after the shutdown", &session.mappings_in_use(), &0)
        };
        match select(firmware(driver), host).await {
            Either::First(()) => Err(Failure::new("the firmware ended")),
            Either::Second(outcome) => outcome,
        }
    });
    run.expect("the bench can be set up")
}

fn run(act: impl AsyncFnOnce(&Session, Device) -> Result<(), Failure>) {
    let run = try_run(Bench::new(), "linked", act);
    let told = (&run.failure, &run.findings, &run.board_log);
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{told:#?}");
    assert_eq!(run.board_log, [""; 0]);
}

fn told(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

#[test]
fn it_moves_data_both_ways() {
    run(async |_, device| {
        expect_equal("product", &device.strings().product.as_deref(), &Some("port"))?;
        let coding = [0x00, 0xc2, 0x01, 0x00, 0, 0, 8];
        let set = SetupPacket::new(0x21, 0x20, 0, 0, 7);
        device.control_out(set, &coding, TIMEOUT).await.map_err(failed("SET_LINE_CODING"))?;
        let get = SetupPacket::new(0xa1, 0x21, 0, 0, 7);
        let seen = device.control_in(get, TIMEOUT).await;
        expect_equal("line coding", &seen, &Ok(coding.to_vec()))?;
        let unknown = device.control_out(SetupPacket::new(0x21, 0x99, 0, 0, 0), &[], TIMEOUT).await;
        expect_equal("an unknown request", &unknown, &Err(UrbError::Stall))?;
        open(&device).await?;
        for length in [1, 63, 64, 65, 128, 1000, 20_000] {
            echo(&device, pattern(length, length)).await?;
        }
        Ok(())
    });
}

#[test]
fn it_survives_resets_configurations_and_halts() {
    run(async |_, device| {
        for round in 0..4 {
            open(&device).await?;
            echo(&device, pattern(round, 10)).await?;
            device.reset().await.map_err(told)?;
            open(&device).await?;
            echo(&device, pattern(round, 10)).await?;
            device.set_configuration(1).await.map_err(told)?;
            open(&device).await?;
            echo(&device, pattern(round, 10)).await?;
            for endpoint in [EndpointAddress::out(WRITE), EndpointAddress::r#in(READ)] {
                let halt = SetupPacket::new(2, 3, 0, endpoint.to_byte().into(), 0);
                device.control_out(halt, &[], TIMEOUT).await.map_err(failed("SET_FEATURE"))?;
                let status = SetupPacket::new(0x82, 0, 0, endpoint.to_byte().into(), 2);
                expect_equal("halted", &device.control_in(status, TIMEOUT).await, &Ok(vec![1, 0]))?;
                device.clear_halt(endpoint).await.map_err(failed("CLEAR_FEATURE"))?;
            }
            echo(&device, pattern(round, 10)).await?;
        }
        Ok(())
    });
}

#[test]
fn it_suspends_and_resumes_and_is_unplugged() {
    run(async |session, device| {
        open(&device).await?;
        for round in 0..3 {
            echo(&device, pattern(round, 100)).await?;
            session.host().suspend().await.map_err(told)?;
            session.settle().await;
            session.host().resume().await.map_err(told)?;
        }
        session.host().suspend().await.map_err(told)?;
        device.reset().await.map_err(told)?;
        open(&device).await?;
        echo(&device, pattern(7, 100)).await?;
        session.unplug();
        session.disconnected().await?;
        session.plug();
        let device = session.enumerated().await?;
        open(&device).await?;
        echo(&device, pattern(8, 100)).await
    });
}

#[test]
fn with_a_descending_pool_the_host_gives_up_and_the_layout_says_why() {
    let run = try_run(Bench::new(), "linked-descending", async |_, device| panic!("{device:?} was enumerated"));
    assert_eq!(run.verdict, Verdict::ClientAssumptionViolated, "{:?}", run.failure);
    assert_eq!(run.errno(), Some(-110), "{:?}", run.failure);
    assert!(matches!(run.first_finding(), Some(Finding::LayoutContract(_))), "{:#?}", run.findings);
}
