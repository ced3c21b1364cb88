//! `usbd-serial`: a CDC ACM port that sends everything back in capitals.

use scenarios::{Bench, Failure, Session, expect_equal};
use usb::urb::{Transfer, Urb};
use usb::{EndpointAddress, SetupPacket, Speed};
use usb_device::device::{StringDescriptors, UsbDeviceBuilder, UsbDeviceState, UsbVidPid};
use usb_host::Device;
use usbd_serial::{SerialPort, USB_CLASS_CDC};

use crate::board::{States, TIMEOUT, bench, expect_bytes, failed, pattern, run, try_run};

/// The interface of the class's requests, and its data endpoints.
const COMM: u16 = 0;
pub(crate) const READ: u8 = 2;
pub(crate) const WRITE: u8 = 1;

const SET_LINE_CODING: u8 = 0x20;
const GET_LINE_CODING: u8 = 0x21;
const SET_CONTROL_LINE_STATE: u8 = 0x22;

/// A port whose line state shows in what it sends: without DTR, nothing.
pub(crate) fn serial(pool: &str, states: States) -> Bench {
    bench(Speed::Full, pool, move |allocator, _, _| {
        let mut port = SerialPort::new(allocator);
        let strings = [StringDescriptors::default().manufacturer("nobody").product("port").serial_number("1")];
        let mut device = UsbDeviceBuilder::new(allocator, UsbVidPid(0x16c0, 0x27dd))
            .strings(&strings)
            .expect("one language")
            .device_class(USB_CLASS_CDC)
            .supports_remote_wakeup(true)
            .max_packet_size_0(64)
            .expect("a size of the specification")
            .build();
        let states = states.clone();
        let (mut waiting, mut sent) = (Vec::new(), 0);
        Box::new(move || {
            device.poll(&mut [&mut port]);
            states.note(device.state());
            if sent == waiting.len() {
                let mut bytes = [0; 64];
                let count = if port.dtr() { port.read(&mut bytes).unwrap_or(0) } else { 0 };
                waiting = bytes[..count].to_ascii_uppercase();
                sent = 0;
            }
            if sent < waiting.len() {
                sent += port.write(&waiting[sent..]).unwrap_or(0);
            }
            // A packet that does not go now goes with a later poll.
            let _ = port.flush();
        })
    })
}

async fn class_out(device: &Device, request: u8, value: u16, data: &[u8]) -> Result<(), Failure> {
    let setup = SetupPacket::new(0x21, request, value, COMM, data.len() as u16);
    device.control_out(setup, data, TIMEOUT).await.map_err(failed("class request"))
}

/// Opens the port, as cdc-acm does.
pub(crate) async fn open(device: &Device) -> Result<(), Failure> {
    class_out(device, SET_CONTROL_LINE_STATE, 3, &[]).await
}

/// Sends `data` and takes as much back.
pub(crate) async fn echo(device: &Device, data: Vec<u8>) -> Result<(), Failure> {
    let out = device.submit(Urb {
        address: device.number(),
        endpoint: EndpointAddress::out(WRITE),
        transfer: Transfer::Bulk,
        buffer: data.clone(),
        zero_packet: false,
        short_not_ok: false,
    });
    let mut seen = Vec::new();
    while seen.len() < data.len() {
        seen.extend(device.bulk_in(READ, 4096, TIMEOUT).await.map_err(failed("bulk read"))?);
    }
    out.await.status.map_err(failed("bulk write"))?;
    expect_equal("what came back", &seen, &data.to_ascii_uppercase())
}

#[test]
fn it_moves_data_both_ways() {
    run(&serial("linked", States::default()), async |_, device| {
        let endpoints: Vec<_> =
            device.configurations()[0].interfaces.iter().map(|interface| interface.number).collect();
        expect_equal("interfaces", &endpoints, &vec![0, 1])?;
        expect_equal("product", &device.strings().product.as_deref(), &Some("port"))?;
        let coding = [0x00, 0xc2, 0x01, 0x00, 0, 0, 8];
        class_out(&device, SET_LINE_CODING, 0, &coding).await?;
        let setup = SetupPacket::new(0xa1, GET_LINE_CODING, 0, COMM, 7);
        let seen = device.control_in(setup, TIMEOUT).await.map_err(failed("GET_LINE_CODING"))?;
        expect_bytes("line coding", &seen, &coding)?;
        open(&device).await?;
        for length in [1, 63, 64, 65, 128, 1000, 20_000] {
            echo(&device, pattern(length, length)).await?;
        }
        Ok(())
    });
}

#[test]
fn a_port_that_does_not_read_holds_the_host_back() {
    run(&serial("linked", States::default()), async |session, device| {
        // DTR is off: one packet is in the endpoint, and one in no class's hands.
        let data = b"held back".to_vec();
        device.bulk_out(WRITE, data.clone(), TIMEOUT).await.map_err(failed("the first packet"))?;
        let second = device.bulk_out(WRITE, data.clone(), TIMEOUT).await;
        if second.is_ok() {
            let third = device.bulk_out(WRITE, data.clone(), TIMEOUT).await;
            expect_equal("the third packet", &third, &Err(usb::urb::UrbError::TimedOut))?;
        }
        open(&device).await?;
        session.settle().await;
        let seen = device.bulk_in(READ, 64, TIMEOUT).await.map_err(failed("bulk read"))?;
        expect_bytes("the first packet", &seen[..9], b"HELD BACK")
    });
}

#[test]
fn it_survives_resets() {
    run(&serial("linked", States::default()), async |_, device| {
        for round in 0..4 {
            open(&device).await?;
            // An odd number of packets each way, so that the toggles would differ.
            echo(&device, pattern(round, 10)).await?;
            device.reset().await.map_err(|error| Failure::new(error.to_string()))?;
        }
        open(&device).await?;
        echo(&device, pattern(9, 100)).await
    });
}

#[test]
fn a_configuration_selected_again_starts_toggles_again() {
    run(&serial("linked", States::default()), async |_, device| {
        for round in 0..4 {
            open(&device).await?;
            echo(&device, pattern(round, 10)).await?;
            device.set_configuration(1).await.map_err(failed("SET_CONFIGURATION"))?;
        }
        Ok(())
    });
}

#[test]
fn a_cleared_halt_starts_toggles_again() {
    run(&serial("linked", States::default()), async |_, device| {
        open(&device).await?;
        for round in 0..4 {
            echo(&device, pattern(round, 10)).await?;
            for endpoint in [EndpointAddress::out(WRITE), EndpointAddress::r#in(READ)] {
                if round > 1 {
                    let halt = SetupPacket::new(2, 3, 0, endpoint.to_byte().into(), 0);
                    device.control_out(halt, &[], TIMEOUT).await.map_err(failed("SET_FEATURE"))?;
                    let status = SetupPacket::new(0x82, 0, 0, endpoint.to_byte().into(), 2);
                    let seen = device.control_in(status, TIMEOUT).await.map_err(failed("GET_STATUS"))?;
                    expect_equal("halted", &seen, &vec![1, 0])?;
                }
                device.clear_halt(endpoint).await.map_err(failed("CLEAR_FEATURE"))?;
            }
        }
        echo(&device, pattern(9, 10)).await
    });
}

async fn slept(session: &Session) -> Result<(), Failure> {
    session.host().suspend().await.map_err(|error| Failure::new(error.to_string()))?;
    session.settle().await;
    session.host().resume().await.map_err(|error| Failure::new(error.to_string()))
}

#[test]
fn it_suspends_and_resumes() {
    let states = States::default();
    run(&serial("linked", states.clone()), async |session, device| {
        use UsbDeviceState::{Addressed, Configured, Default, Suspend};
        session.settle().await;
        let seen = states.take();
        expect_equal("states of an enumeration", &seen, &vec![Default, Addressed, Configured])?;
        open(&device).await?;
        for round in 0..3 {
            echo(&device, pattern(round, 100)).await?;
            slept(session).await?;
            expect_equal("states of a suspend", &states.take(), &vec![Suspend, Configured])?;
        }
        // Suspended, and reset.
        session.host().suspend().await.map_err(|error| Failure::new(error.to_string()))?;
        session.settle().await;
        expect_equal("suspended", &states.take(), &vec![Suspend])?;
        device.reset().await.map_err(|error| Failure::new(error.to_string()))?;
        expect_equal("states of a reset", &states.take(), &vec![Default, Addressed, Configured])?;
        open(&device).await?;
        echo(&device, pattern(9, 100)).await
    });
}

#[test]
fn it_is_unplugged_and_plugged_in_again() {
    let states = States::default();
    run(&serial("linked", states.clone()), async |session, device| {
        open(&device).await?;
        echo(&device, pattern(1, 100)).await?;
        states.take();
        session.unplug();
        session.disconnected().await?;
        session.settle().await;
        expect_equal("states without a cable", &states.take(), &vec![UsbDeviceState::Suspend])?;
        session.plug();
        let device = session.enumerated().await?;
        open(&device).await?;
        echo(&device, pattern(2, 100)).await
    });
}

#[test]
fn two_runs_are_one() {
    let once = || {
        let run = try_run(&serial("linked", States::default()), async |_, device| {
            open(&device).await?;
            echo(&device, pattern(3, 5000)).await
        });
        (run.log, run.virtual_time, run.exercised, run.failure)
    };
    assert_eq!(once(), once());
}
