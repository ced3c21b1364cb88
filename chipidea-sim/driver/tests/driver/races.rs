//! What comes over the wire before the n-th access of the interrupt handler, for every n.

use std::sync::Arc;

use usb::gadget::Request;
use usb::{EndpointAddress, SetupPacket, Speed, Udc, UdcDriver, UsbPort};

use crate::bench::{Bench, Event, Parts, pattern};

const GET_DEVICE_64: [u8; 8] = [0x80, 6, 0, 1, 0, 0, 64, 0];
const GET_DEVICE_18: [u8; 8] = [0x80, 6, 0, 1, 0, 0, 18, 0];
const VENDOR_OUT: [u8; 8] = [0x40, 1, 0, 0, 0, 0, 8, 0];
const VENDOR_REFUSED: [u8; 8] = [0xc0, 1, 0, 0, 0, 0, 8, 0];
const SET_ADDRESS: [u8; 8] = [0, 5, 9, 0, 0, 0, 0, 0];

/// A control transfer of which the driver has yet to see the last stage that went over the wire.
fn control_under_way(setup: [u8; 8], stages: usize) -> Bench {
    let mut bench = Bench::attached(Parts::default());
    let data = if setup == VENDOR_OUT { pattern(8) } else { Vec::new() };
    if setup[0] & 0x80 != 0 {
        let mut control = bench.host.begin_in(setup).expect("ACK");
        for _ in 0..stages {
            bench.run();
            assert_eq!(bench.host.advance_in(&mut control), Ok(None));
        }
    } else {
        let mut control = bench.host.begin_out(setup, &data).expect("ACK");
        for _ in 0..stages {
            bench.run();
            bench.host.advance_out(&mut control).expect("no stall");
        }
    }
    bench.gadget.events.clear();
    bench
}

const UNDER_WAY: [([u8; 8], usize); 6] =
    [(GET_DEVICE_64, 0), (GET_DEVICE_64, 1), (VENDOR_OUT, 0), (VENDOR_OUT, 1), (VENDOR_REFUSED, 0), (SET_ADDRESS, 0)];

#[test]
fn a_setup_at_any_access_is_answered_with_its_own_data() {
    for (first, stages) in UNDER_WAY {
        let mut raced = 0;
        for after in 0.. {
            let mut bench = control_under_way(first, stages);
            let (port, to) = (Arc::clone(&bench.host.port), bench.host.ep0());
            bench.tap.visit(after, move || {
                port.setup(to, &GET_DEVICE_18);
            });
            bench.run();
            if bench.tap.cancel() {
                break;
            }
            raced += 1;
            let mut control = bench.host.resume_in(18);
            let answer = loop {
                bench.run();
                match bench.host.advance_in(&mut control) {
                    Ok(Some(data)) => break Ok(data),
                    Ok(None) => {}
                    Err(error) => break Err(error),
                }
            };
            assert_eq!(answer, Ok(pattern(18)), "SETUP before access {after} of {first:x?}, {stages} stages");
            bench.run();
            let [old, new] = [first, GET_DEVICE_18].map(|bytes| Event::Setup(SetupPacket::from_bytes(bytes)));
            let seen: Vec<_> = bench.gadget.events.iter().filter(|event| matches!(event, Event::Setup(_))).collect();
            assert_eq!(seen.last(), Some(&&new));
            assert!(seen.iter().all(|&event| *event == old || *event == new), "torn before access {after}: {seen:?}");
            bench.udc.shutdown().expect("everything is given back");
            bench.machine.assert_clean();
        }
        assert!(raced > 15, "{raced} accesses handle {first:x?} after {stages} stages");
    }
}

/// The machine works as after a reset.
fn assert_alive(mut bench: Bench, when: &str) {
    bench.bus_reset();
    assert_eq!(bench.control_in(GET_DEVICE_18), Ok(pattern(18)), "{when}");
    bench.control_out([0, 9, 1, 0, 0, 0, 0, 0], &[]).expect("SET_CONFIGURATION");
    let endpoint = EndpointAddress::r#in(1);
    bench.udc.queue(endpoint, Request { id: 99, data: pattern(3000), ..Request::default() }).expect("room");
    assert_eq!(bench.bulk_in(1, 4096), Ok(pattern(3000)), "{when}");
    bench.udc.shutdown().expect("everything is given back");
    bench.machine.assert_clean();
}

#[test]
fn a_bus_reset_at_any_access_is_survived() {
    for (setup, stages) in UNDER_WAY {
        for after in 0.. {
            let mut bench = control_under_way(setup, stages);
            let model = Arc::clone(&bench.model);
            bench.tap.visit(after, move || {
                model.reset(Speed::High);
            });
            bench.run();
            if bench.tap.cancel() {
                break;
            }
            assert_alive(bench, &format!("reset before access {after} of {setup:x?}, {stages} stages"));
        }
    }
}

#[test]
fn a_pulled_cable_at_any_access_is_survived() {
    for (setup, stages) in UNDER_WAY {
        for after in 0.. {
            let mut bench = control_under_way(setup, stages);
            let model = Arc::clone(&bench.model);
            bench.tap.visit(after, move || model.set_vbus(false));
            bench.run();
            if bench.tap.cancel() {
                break;
            }
            assert_eq!(bench.model.attached(), None);
            bench.model.set_vbus(true);
            bench.run();
            assert_alive(bench, &format!("VBUS off before access {after} of {setup:x?}, {stages} stages"));
        }
    }
}

#[test]
fn a_bus_reset_at_any_access_of_a_disable_is_survived() {
    for after in 0.. {
        let mut bench = Bench::configured(Parts::default());
        for id in 0..3 {
            let request = Request { id, data: vec![0; 30_000], ..Request::default() };
            bench.udc.queue(EndpointAddress::out(1), request).expect("room");
        }
        let model = Arc::clone(&bench.model);
        bench.tap.visit(after, move || {
            model.reset(Speed::High);
        });
        bench.gadget.configured = false;
        for endpoint in [EndpointAddress::out(1), EndpointAddress::r#in(1)] {
            bench.udc.disable(endpoint).expect("enabled");
        }
        if bench.tap.cancel() {
            break;
        }
        bench.run();
        assert_alive(bench, &format!("reset before access {after} of a disable"));
    }
}
