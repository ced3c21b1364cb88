//! Control transfers over the model: enumeration, chapter 9, stalls.

use crate::bench::{Bench, Event, HostError, Parts, pattern};
use chipidea_sim::Layout;
use usb::gadget::{RequestError, UdcError};
use usb::{EndpointAddress, SetupPacket, Speed, Udc, UdcDriver, UsbPort};

const GET_DEVICE_64: [u8; 8] = [0x80, 6, 0, 1, 0, 0, 64, 0];

fn enumerate(bench: &mut Bench) {
    assert_eq!(bench.control_in(GET_DEVICE_64), Ok(pattern(64)));
    bench.bus_reset();
    bench.control_out([0, 5, 9, 0, 0, 0, 0, 0], &[]).expect("SET_ADDRESS");
    assert_eq!(bench.control_in(GET_DEVICE_64), Err(HostError::Silence), "address 0 is not ours any more");
    bench.host.address = 9;
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Ok(pattern(18)));
    bench.control_out([0, 9, 1, 0, 0, 0, 0, 0], &[]).expect("SET_CONFIGURATION");
    assert!(bench.gadget.configured);
}

#[test]
fn it_enumerates_with_any_number_of_endpoints_on_both_maps() {
    for endpoints in [2, 4, 8, 16] {
        for layout in [Layout::NonLpm, Layout::Lpm] {
            for source in [Parts::default(), Parts::default().static_heads()] {
                let model = chipidea_sim::Config { endpoints, layout, ..chipidea_sim::Config::default() };
                let mut bench = Bench::attached(Parts { model, ..source });
                assert_eq!(bench.udc.speed(), Some(Speed::High));
                assert_eq!(bench.udc.endpoints(), endpoints);
                assert_eq!(bench.udc.engine().lpm(), layout == Layout::Lpm);
                enumerate(&mut bench);
                bench.shut_down().assert_clean();
            }
        }
    }
}

#[test]
fn a_full_speed_driver_keeps_a_high_speed_host_down() {
    for layout in [Layout::NonLpm, Layout::Lpm] {
        let mut parts = Parts::default();
        parts.config.max_speed = Speed::Full;
        parts.model.layout = layout;
        let bench = Bench::attached(parts);
        assert_eq!(bench.udc.speed(), Some(Speed::Full));
    }
}

#[test]
fn descending_blocks_put_the_wrong_dqh_into_endptlistaddr() {
    let mut bench =
        Bench::of(Parts { policy: pool::policy::by_name("linked-descending").expect("known"), ..Parts::endpoints(16) });
    bench.udc.start().expect("the controller starts");
    bench.model.set_vbus(true);
    bench.run();
    let written = bench.tap.written(0x140 + 0x18);
    let [list] = written[..] else { panic!("written once, not {written:x?}") };
    assert_eq!(list & 0xfff, 0xfc0, "the last block of the page is the first handed out");
    assert_eq!(bench.udc.take_log(), [""; 0], "the driver notices nothing");
    bench.bus_reset();
    let error = bench.control_in(GET_DEVICE_64);
    assert_eq!(error, Err(HostError::Timeout), "the SETUP lands in another endpoint's dQH, without IOS");
    assert!(!bench.machine.ledger.findings().is_empty());
}

#[test]
fn ascending_blocks_make_a_table() {
    let bench = Bench::attached(Parts::endpoints(16));
    let written = bench.tap.written(0x140 + 0x18);
    assert_eq!(written.len(), 1);
    assert_eq!(written[0] & 0x7ff, 0);
    let blocks = bench.machine.ledger.live_blocks();
    let claims: Vec<_> = blocks
        .iter()
        .filter(|(pool, ..)| pool == "ci_hw_qh")
        .map(|&(_, addr, owner)| (addr.0 - u64::from(written[0]), owner.expect("claimed").to_string()))
        .collect();
    assert_eq!(claims.len(), 32);
    assert_eq!(claims[0], (0, "ep0 OUT dQH".to_owned()));
    assert_eq!(claims[31], (31 * 64, "ep15 IN dQH".to_owned()));
}

#[test]
fn long_answers_end_with_an_empty_packet_when_they_must() {
    let mut bench = Bench::attached(Parts::default());
    assert_eq!(bench.control_in([0x80, 6, 0, 2, 0, 0, 0xff, 0]), Ok(pattern(130)));
    assert_eq!(bench.control_in([0x80, 6, 0, 2, 0, 0, 128, 0]), Ok(pattern(128)));
    bench.shut_down().assert_clean();
}

#[test]
fn data_out_reaches_the_gadget_before_the_status() {
    let mut bench = Bench::attached(Parts::default());
    let data = pattern(200);
    bench.control_out([0x40, 1, 0, 0, 0, 0, 200, 0], &data).expect("a vendor request");
    let completion = bench.gadget.completions.pop().expect("one request");
    assert_eq!(completion.status, Ok(200));
    assert_eq!(completion.endpoint, EndpointAddress::out(0));
    assert_eq!(completion.request.data, data);
    bench.shut_down().assert_clean();
}

#[test]
fn a_refused_request_stalls_once() {
    let mut bench = Bench::attached(Parts::default());
    assert_eq!(bench.control_in([0xc0, 7, 0, 0, 0, 0, 4, 0]), Err(HostError::Stall));
    assert_eq!(bench.control_in(GET_DEVICE_64), Ok(pattern(64)), "the next SETUP clears it");
    bench.shut_down().assert_clean();
}

#[test]
fn a_lazy_gadget_may_answer_later() {
    let mut bench = Bench::attached(Parts::default());
    bench.gadget.lazy = true;
    let setup = [0, 9, 0, 0, 0, 0, 0, 0];
    let mut control = bench.host.begin_out(setup, &[]).expect("ACK");
    bench.run();
    assert_eq!(bench.host.advance_out(&mut control), Ok(false), "NAK");
    bench.gadget.queue_ep0(&mut bench.udc, Vec::new(), false).expect("queued");
    assert_eq!(bench.host.advance_out(&mut control), Ok(true));
    bench.run();
    bench.shut_down().assert_clean();
}

#[test]
fn status_of_device_interface_and_endpoint() {
    let mut bench = Bench::configured(Parts::default());
    let device = [0x80, 0, 0, 0, 0, 0, 2, 0];
    assert_eq!(bench.control_in(device), Ok(vec![0, 0]));
    bench.udc.set_self_powered(true);
    bench.control_out([0, 3, 1, 0, 0, 0, 0, 0], &[]).expect("SET_FEATURE remote wakeup");
    assert_eq!(bench.control_in(device), Ok(vec![3, 0]));
    bench.control_out([0, 1, 1, 0, 0, 0, 0, 0], &[]).expect("CLEAR_FEATURE remote wakeup");
    assert_eq!(bench.control_in(device), Ok(vec![1, 0]));
    assert_eq!(bench.control_in([0x81, 0, 0, 0, 0, 0, 2, 0]), Ok(vec![0, 0]));
    let endpoint = [0x82, 0, 0, 0, 0x81, 0, 2, 0];
    assert_eq!(bench.control_in(endpoint), Ok(vec![0, 0]));
    bench.control_out([2, 3, 0, 0, 0x81, 0, 0, 0], &[]).expect("SET_FEATURE halt");
    assert_eq!(bench.control_in(endpoint), Ok(vec![1, 0]));
    assert_eq!(bench.bulk_in(1, 512), Err(HostError::Stall));
    bench.control_out([2, 1, 0, 0, 0x81, 0, 0, 0], &[]).expect("CLEAR_FEATURE halt");
    assert_eq!(bench.control_in(endpoint), Ok(vec![0, 0]));
    let setups = bench.gadget.events.iter().filter(|event| matches!(event, Event::Setup(_))).count();
    assert_eq!(setups, 1, "only SET_CONFIGURATION is the gadget's");
    bench.shut_down().assert_clean();
}

#[test]
fn what_chapter_9_forbids_is_refused() {
    let mut bench = Bench::configured(Parts::endpoints(4));
    for setup in [
        // TEST_MODE: Test_Packet.
        [0, 3, 2, 0, 0, 4, 0, 0],
        // b_hnp_enable.
        [0, 3, 3, 0, 0, 0, 0, 0],
        // Halt of an endpoint that is disabled, and of one that does not exist.
        [2, 3, 0, 0, 0x82, 0, 0, 0],
        [2, 3, 0, 0, 0x8f, 0, 0, 0],
        [2, 1, 0, 0, 0x0f, 0, 0, 0],
        // SET_ADDRESS with wIndex.
        [0, 5, 7, 0, 1, 0, 0, 0],
    ] {
        assert_eq!(bench.control_out(setup, &[]), Err(HostError::Stall), "{setup:x?}");
    }
    // Status of an endpoint that does not exist, and with a wrong wValue.
    assert_eq!(bench.control_in([0x82, 0, 0, 0, 0x0f, 0, 2, 0]), Err(HostError::Stall));
    assert_eq!(bench.control_in([0x80, 0, 1, 0, 0, 0, 2, 0]), Err(HostError::Stall));
    assert_eq!(bench.control_in([0x80, 6, 0, 1, 0, 0, 18, 0]), Ok(pattern(18)));
    bench.shut_down().assert_clean();
}

#[test]
fn a_feature_that_ci_hdrc_does_not_know_is_the_gadgets() {
    let mut bench = Bench::configured(Parts::default());
    let setup = [0, 3, 77, 0, 0, 0, 0, 0];
    assert_eq!(bench.control_out(setup, &[]), Err(HostError::Stall));
    assert_eq!(bench.gadget.events.last(), Some(&Event::Setup(SetupPacket::from_bytes(setup))));
}

#[test]
fn a_new_setup_ends_a_transfer_at_any_stage() {
    for stages in 0..4 {
        let mut bench = Bench::configured(Parts::default());
        let mut control = bench.host.begin_in([0x80, 6, 0, 2, 0, 0, 130, 0]).expect("ACK");
        for _ in 0..stages {
            bench.run();
            assert_eq!(bench.host.advance_in(&mut control), Ok(None));
        }
        assert_eq!(bench.control_in(GET_DEVICE_64), Ok(pattern(64)), "after {stages} stages");
        bench.shut_down().assert_clean();
    }
}

#[test]
fn an_address_without_its_status_stage_is_forgotten() {
    let mut bench = Bench::attached(Parts::default());
    let _ = bench.host.begin_out([0, 5, 9, 0, 0, 0, 0, 0], &[]).expect("ACK");
    bench.run();
    assert_eq!(bench.control_in(GET_DEVICE_64), Ok(pattern(64)));
    assert_eq!(bench.control_in(GET_DEVICE_64), Ok(pattern(64)), "still at address 0");
    bench.shut_down().assert_clean();
}

#[test]
fn a_setup_before_the_prime_takes_the_data_stage_back() {
    let mut bench = Bench::attached(Parts::default());
    let (port, to) = (bench.host.port.clone(), bench.host.ep0());
    bench.host.begin_in([0x40, 1, 0, 0, 0, 0, 8, 0]).expect("ACK");
    // ENDPTPRIME.
    bench.tap.visit_write(0x140 + 0x70, move || {
        port.setup(to, &[0x80, 6, 0, 1, 0, 0, 18, 0]);
    });
    bench.run();
    assert_eq!(bench.gadget.refused, [UdcError::Again(EndpointAddress::out(0))]);
    let mut control = bench.host.resume_in(18);
    assert_eq!(bench.host.advance_in(&mut control), Ok(None));
    bench.run();
    assert_eq!(bench.host.advance_in(&mut control), Ok(Some(pattern(18))));
    bench.run();
    bench.shut_down().assert_clean();
}

#[test]
fn a_second_request_on_endpoint_0_ends_the_first() {
    let mut bench = Bench::attached(Parts::default());
    bench.gadget.lazy = true;
    let mut control = bench.host.begin_in([0xc0, 1, 0, 0, 0, 0, 8, 0]).expect("ACK");
    bench.run();
    bench.gadget.queue_ep0(&mut bench.udc, vec![1; 8], false).expect("queued");
    bench.gadget.queue_ep0(&mut bench.udc, vec![2; 8], false).expect("queued");
    assert_eq!(bench.udc.take_log(), ["endpoint ctrl 80 nuked"]);
    bench.run();
    let ep0 = EndpointAddress::r#in(0);
    assert_eq!(bench.gadget.events.last(), Some(&Event::Complete(ep0, 1, Err(RequestError::Shutdown))));
    assert_eq!(bench.host.advance_in(&mut control), Ok(None));
    bench.run();
    assert_eq!(bench.host.advance_in(&mut control), Ok(Some(vec![2; 8])));
    bench.run();
    bench.gadget.queue_ep0(&mut bench.udc, vec![3; 8], false).expect("queued");
    bench.udc.dequeue(EndpointAddress::out(0), 3).expect("the direction is the driver's business");
    bench.shut_down().assert_clean();
}

#[test]
fn wakeup_needs_the_hosts_leave_and_a_suspended_bus() {
    let mut bench = Bench::configured(Parts::default());
    assert!(matches!(bench.udc.wakeup(), Err(UdcError::Unsupported(_))));
    bench.control_out([0, 3, 1, 0, 0, 0, 0, 0], &[]).expect("SET_FEATURE remote wakeup");
    assert!(matches!(bench.udc.wakeup(), Err(UdcError::Unsupported(_))), "not suspended");
    bench.model.suspend();
    bench.run();
    assert_eq!(bench.gadget.events.last(), Some(&Event::Suspend));
    assert_eq!(bench.udc.wakeup(), Ok(()));
    bench.model.resume();
    bench.run();
    assert_eq!(bench.gadget.events.last(), Some(&Event::Resume));
}
