//! `usbd-hid`: a keyboard with reports in and LEDs out.

use std::sync::Arc;

use parking_lot::Mutex;
use scenarios::{Failure, expect_equal};
use usb::urb::UrbError;
use usb::{SetupPacket, Speed};
use usb_device::UsbError;
use usb_device::device::{UsbDeviceBuilder, UsbVidPid};
use usbd_hid::descriptor::{KeyboardReport, SerializedDescriptor};
use usbd_hid::hid_class::HIDClass;

use crate::board::{TIMEOUT, bench, expect_bytes, failed, interrupt_out, run};

/// The class's interrupt endpoints.
const REPORTS: u8 = 1;

const REPORT_DESCRIPTOR: u16 = 0x2200;
const SET_REPORT: u8 = 9;
const SET_IDLE: u8 = 10;

/// What the keyboard heard of LEDs.
type Leds = Arc<Mutex<Vec<Vec<u8>>>>;
/// Pushes a report.
type Push = Box<dyn Fn(&KeyboardReport) -> usb_device::Result<usize> + Send>;

#[test]
fn reports_go_both_ways() {
    let leds = Leds::default();
    let keyboard: Arc<Mutex<Option<Push>>> = Arc::default();
    let (heard, push) = (Arc::clone(&leds), Arc::clone(&keyboard));
    let bench = bench(Speed::Full, "linked", move |allocator, _, _| {
        let class = Arc::new(Mutex::new(HIDClass::new(allocator, KeyboardReport::desc(), 10)));
        let pushed = Arc::clone(&class);
        *push.lock() = Some(Box::new(move |report| pushed.lock().push_input(report)));
        let mut device = UsbDeviceBuilder::new(allocator, UsbVidPid(0x16c0, 0x27db)).build();
        let heard = Arc::clone(&heard);
        Box::new(move || {
            let mut class = class.lock();
            device.poll(&mut [&mut *class]);
            let mut report = [0; 64];
            if let Ok(count) = class.pull_raw_output(&mut report) {
                heard.lock().push(report[..count].to_vec());
            }
            if let Ok(info) = class.pull_raw_report(&mut report) {
                heard.lock().push(report[..info.len].to_vec());
            }
        })
    });
    run(&bench, async |session, device| {
        let push = |report: &KeyboardReport| keyboard.lock().as_ref().map(|push| push(report));
        let descriptor = SetupPacket::new(0x81, 6, REPORT_DESCRIPTOR, 0, 512);
        let seen = device.control_in(descriptor, TIMEOUT).await.map_err(failed("report descriptor"))?;
        expect_bytes("report descriptor", &seen, KeyboardReport::desc())?;
        // As Linux's hid-core does; a keyboard may refuse.
        let idle = device.control_out(SetupPacket::new(0x21, SET_IDLE, 0, 0, 0), &[], TIMEOUT).await;
        if let Err(error) = idle {
            expect_equal("SET_IDLE", &error, &UrbError::Stall)?;
        }
        for key in 4..40 {
            let report = KeyboardReport { modifier: 2, keycodes: [key, 0, 0, 0, 0, 0], ..KeyboardReport::default() };
            expect_equal("a report", &push(&report), &Some(Ok(8)))?;
            expect_equal("a report before the last has gone", &push(&report), &Some(Err(UsbError::WouldBlock)))?;
            let seen = device.interrupt_in(REPORTS, 64, TIMEOUT).await.map_err(failed("report"))?;
            expect_equal("report", &seen, &vec![2, 0, key, 0, 0, 0, 0, 0])?;
            session.settle().await;
        }
        let none = device.interrupt_in(REPORTS, 64, TIMEOUT).await;
        expect_equal("a report of nothing", &none, &Err(UrbError::TimedOut))?;
        interrupt_out(&device, REPORTS, vec![1]).await?;
        let setup = SetupPacket::new(0x21, SET_REPORT, 0x0200, 0, 1);
        device.control_out(setup, &[2], TIMEOUT).await.map_err(failed("SET_REPORT"))?;
        session.settle().await;
        expect_equal("LEDs", &std::mem::take(&mut *leds.lock()), &vec![vec![1], vec![2]])?;

        session.host().suspend().await.map_err(|error| Failure::new(error.to_string()))?;
        session.settle().await;
        // A key while the host sleeps waits for it.
        expect_equal("a report while suspended", &push(&KeyboardReport::default()), &Some(Ok(8)))?;
        session.host().resume().await.map_err(|error| Failure::new(error.to_string()))?;
        let seen = device.interrupt_in(REPORTS, 64, TIMEOUT).await.map_err(failed("report after resume"))?;
        expect_equal("report after resume", &seen, &vec![0; 8])?;

        device.reset().await.map_err(|error| Failure::new(error.to_string()))?;
        expect_equal("a report after a reset", &push(&KeyboardReport::default()), &Some(Ok(8)))?;
        let seen = device.interrupt_in(REPORTS, 64, TIMEOUT).await.map_err(failed("report after reset"))?;
        expect_equal("report after reset", &seen, &vec![0; 8])
    });
}
