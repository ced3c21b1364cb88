//! VBUS, pull-up, bus reset, suspend, shutdown.

use usb::gadget::{Request, RequestError, UdcError};
use usb::{EndpointAddress, Udc, UdcDriver, UsbPort};

use crate::bench::{Bench, Event, Parts, pattern};

const IN: EndpointAddress = EndpointAddress::r#in(1);
const OUT: EndpointAddress = EndpointAddress::out(1);

fn send(id: u64, data: Vec<u8>) -> Request {
    Request { id, data, ..Request::default() }
}

#[test]
fn it_attaches_when_vbus_comes() {
    let mut bench = Bench::of(Parts::default());
    bench.udc.start().expect("starts");
    assert_eq!(bench.model.attached(), None);
    assert!(!bench.udc.vbus_active());
    bench.model.set_vbus(true);
    bench.run();
    assert!(bench.model.attached().is_some());
    bench.shut_down().assert_clean();
}

#[test]
fn it_attaches_at_once_when_vbus_is_there() {
    for host_capable in [true, false] {
        let mut parts = Parts::default();
        parts.model.vbus = true;
        parts.model.host_capable = host_capable;
        let mut bench = Bench::of(parts);
        assert_eq!(bench.model.attached(), None, "not before a gadget is bound");
        bench.udc.pullup(true).expect("the pull-up binds it");
        assert!(bench.model.attached().is_some());
        bench.udc.pullup(false).expect("off");
        assert_eq!(bench.model.attached(), None);
        bench.shut_down().assert_clean();
    }
}

#[test]
fn a_gadget_that_wants_no_pullup_stays_away() {
    let mut bench = Bench::of(Parts::default());
    bench.udc.pullup(false).expect("off");
    bench.udc.start().expect("starts");
    bench.model.set_vbus(true);
    bench.run();
    assert_eq!(bench.model.attached(), None);
    bench.udc.pullup(true).expect("on");
    assert!(bench.model.attached().is_some());
}

#[test]
fn a_pulled_cable_gives_everything_back() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(OUT, send(1, vec![0; 50_000])).expect("room");
    bench.udc.queue(IN, send(2, pattern(50_000))).expect("room");
    bench.model.set_vbus(false);
    bench.run();
    assert_eq!(bench.model.attached(), None);
    assert!(bench.gadget.events.contains(&Event::Disconnect));
    assert_eq!(bench.gadget.completed(), [(1, Err(RequestError::Shutdown)), (2, Err(RequestError::Shutdown))]);
    assert_eq!(bench.udc.speed(), None);
    assert_eq!(bench.tap.written(0x140 + 0x08).last(), Some(&0), "USBINTR");
    assert_eq!(bench.machine.ledger.live_mappings(), []);
    let refused = bench.udc.queue(IN, send(3, vec![0])).expect_err("the cable is out");
    assert_eq!(refused.error, UdcError::NotConnected);
    bench.model.set_vbus(true);
    bench.run();
    bench.bus_reset();
    bench.control_out([0, 9, 1, 0, 0, 0, 0, 0], &[]).expect("SET_CONFIGURATION");
    bench.udc.queue(IN, send(4, pattern(100))).expect("room");
    assert_eq!(bench.bulk_in(1, 512), Ok(pattern(100)));
    bench.shut_down().assert_clean();
}

#[test]
fn a_hundred_plugs_take_no_more_memory_than_one() {
    let mut bench = Bench::configured(Parts::default());
    let free = |bench: &Bench| bench.machine.source.free_pages();
    let mut after_first = None;
    for _ in 0..100 {
        bench.model.set_vbus(false);
        bench.run();
        bench.model.set_vbus(true);
        bench.run();
        bench.bus_reset();
        bench.control_out([0, 9, 1, 0, 0, 0, 0, 0], &[]).expect("SET_CONFIGURATION");
        bench.udc.queue(OUT, send(1, vec![0; 2048])).expect("room");
        bench.bulk_out(1, &pattern(2048)).expect("taken");
        bench.udc.queue(OUT, send(2, vec![0; 2048])).expect("room");
        let now = free(&bench);
        assert_eq!(*after_first.get_or_insert(now), now);
    }
    bench.shut_down().assert_clean();
}

#[test]
fn a_reset_in_the_middle_of_everything() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(OUT, send(1, vec![0; 50_000])).expect("room");
    bench.udc.queue(IN, send(2, pattern(50_000))).expect("room");
    bench.host.bulk_out(1, &pattern(1024)).expect("taken");
    bench.host.bulk_in(1, 1024, &mut Vec::new()).expect("data");
    let _ = bench.host.begin_in([0x80, 6, 0, 2, 0, 0, 130, 0]).expect("ACK");
    bench.run();
    bench.bus_reset();
    assert!(bench.gadget.events.contains(&Event::Reset));
    assert!(!bench.gadget.configured);
    assert_eq!(bench.gadget.completed(), [(1, Err(RequestError::Shutdown)), (2, Err(RequestError::Shutdown))]);
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Ok(pattern(18)), "at address 0");
    bench.shut_down().assert_clean();
}

#[test]
fn a_reset_forgets_what_was_on_its_way_to_the_driver() {
    let mut bench = Bench::configured(Parts::default());
    bench.host.begin_in([0x80, 6, 0, 2, 0, 0, 130, 0]).expect("ACK");
    bench.gadget.events.clear();
    bench.bus_reset();
    assert_eq!(bench.gadget.events, [Event::Reset], "the SETUP before the reset is not handled after it");
    let mut control = bench.host.begin_in([0x80, 6, 0, 1, 0, 0, 18, 0]).expect("ACK");
    bench.run();
    assert_eq!(bench.host.advance_in(&mut control), Ok(None));
    bench.bus_reset();
    assert_eq!(bench.udc.engine().queued(EndpointAddress::out(0)), 0, "no status stage for the data before the reset");
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Ok(pattern(18)));
    bench.shut_down().assert_clean();
}

#[test]
fn suspend_and_resume_are_told_once() {
    let mut bench = Bench::configured(Parts::default());
    bench.gadget.events.clear();
    bench.model.suspend();
    bench.run();
    bench.run();
    bench.model.resume();
    bench.run();
    assert_eq!(bench.gadget.events, [Event::Suspend, Event::Resume]);
    bench.udc.queue(IN, send(1, pattern(100))).expect("room");
    assert_eq!(bench.bulk_in(1, 512), Ok(pattern(100)));
    bench.shut_down().assert_clean();
}

#[test]
fn shutdown_returns_what_is_queued_and_is_final() {
    let mut bench = Bench::configured(Parts::default());
    let free = bench.machine.source.free_pages();
    bench.udc.queue(OUT, send(1, vec![0; 50_000])).expect("room");
    assert!(bench.machine.source.free_pages() < free);
    bench.udc.shutdown().expect("everything is given back");
    assert_eq!(bench.machine.source.free_pages(), free + 2, "the buffer, and a page of each pool");
    assert!(bench.udc.deliver(&mut bench.gadget));
    assert_eq!(bench.gadget.completed(), [(1, Err(RequestError::Shutdown))]);
    assert_eq!(bench.model.attached(), None);
    assert_eq!(bench.udc.shutdown(), Ok(()));
    assert_eq!(bench.udc.start(), Err(UdcError::NotConnected));
    assert_eq!(bench.udc.pullup(true), Err(UdcError::NotConnected));
    let descriptor = usb::ch9::EndpointDescriptor::new(IN, usb::TransferType::Bulk, 512, 0);
    assert_eq!(bench.udc.enable(&descriptor), Err(UdcError::NotConnected));
    bench.model.set_vbus(false);
    bench.model.set_vbus(true);
    bench.udc.irq(&mut bench.gadget);
    assert_eq!(bench.model.attached(), None);
    bench.machine.assert_clean();
    assert_eq!(bench.machine.source.wrong_frees(), 0);
}

#[test]
fn one_driver_hands_the_controller_to_the_next() {
    let mut first = Bench::configured(Parts::default().static_heads());
    first.udc.queue(OUT, send(1, vec![0; 512])).expect("room");
    first.udc.shutdown().expect("everything is given back");
    let dma = first.machine.api.clone();
    let config = chipidea_driver::Config::default();
    let second = chipidea_driver::ChipideaUdc::probe(first.tap.clone(), dma, config).expect("probes");
    first.udc = second;
    first.udc.start().expect("starts: VBUS is there");
    assert!(first.model.attached().is_some());
    first.bus_reset();
    assert_eq!(first.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Ok(pattern(18)));
    first.shut_down().assert_clean();
}
