//! Bulk transfers: long requests, queues, dequeue, halt, disable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chipidea_driver::Workarounds;
use usb::ch9::EndpointDescriptor;
use usb::gadget::{Request, RequestError, UdcError};
use usb::wire::{DataPid, HostAck, Target};
use usb::{EndpointAddress, TransferType, Udc, UdcDriver};

use crate::bench::{Bench, HostError, Parts, pattern};

const IN: EndpointAddress = EndpointAddress::r#in(1);
const OUT: EndpointAddress = EndpointAddress::out(1);

fn send(id: u64, data: Vec<u8>) -> Request {
    Request { id, data, ..Request::default() }
}

fn room(id: u64, len: usize) -> Request {
    send(id, vec![0; len])
}

fn descriptors(bench: &Bench) -> Vec<String> {
    let blocks = bench.machine.ledger.live_blocks();
    let own = blocks.iter().filter(|(pool, ..)| pool == "ci_hw_td");
    let mut names: Vec<_> = own.map(|(.., owner)| owner.expect("claimed").to_string()).collect();
    names.retain(|name| !name.starts_with("ep0"));
    names.sort();
    names
}

#[test]
fn every_length_arrives_both_ways() {
    for headroom in [0, 66] {
        let mut parts = Parts::default();
        parts.config.headroom = headroom;
        let mut bench = Bench::configured(parts);
        for len in [1, 511, 512, 513, 4096, 16383, 16384, 16385, 20480, 20481, 40960, 100_000] {
            let data = pattern(len);
            let zero = len % 512 == 0;
            bench.udc.queue(IN, Request { zero, ..send(1, data.clone()) }).expect("room");
            assert_eq!(bench.bulk_in(1, len + 512).as_deref(), Ok(&data[..]), "{len} bytes IN");
            assert_eq!(bench.gadget.completed(), [(1, Ok(len))]);
            bench.udc.queue(OUT, room(2, len)).expect("room");
            bench.bulk_out(1, &data).expect("taken");
            let completion = bench.gadget.completions.pop().expect("one");
            assert_eq!(completion.status, Ok(len), "{len} bytes OUT");
            assert_eq!(completion.request.data, data);
        }
        bench.shut_down().assert_clean();
    }
}

#[test]
fn a_dtd_carries_20_kib_and_16_kib_when_unaligned() {
    for (headroom, expected) in [(0, 3), (2, 4)] {
        let mut parts = Parts::default();
        parts.config.headroom = headroom;
        let mut bench = Bench::configured(parts);
        bench.udc.queue(IN, send(1, pattern(60 << 10))).expect("room");
        assert_eq!(descriptors(&bench).len(), expected);
        bench.shut_down().assert_clean();
    }
}

#[test]
fn an_empty_request_is_an_empty_packet() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(IN, send(1, Vec::new())).expect("room");
    assert_eq!(bench.bulk_in(1, 512), Ok(Vec::new()));
    assert_eq!(bench.gadget.completed(), [(1, Ok(0))]);
    bench.shut_down().assert_clean();
}

#[test]
fn a_short_packet_ends_an_out_request() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(OUT, room(1, 2048)).expect("room");
    bench.udc.queue(OUT, Request { short_not_ok: true, ..room(2, 2048) }).expect("room");
    bench.bulk_out(1, &pattern(100)).expect("taken");
    bench.bulk_out(1, &pattern(200)).expect("taken");
    assert_eq!(bench.gadget.completed(), [(1, Ok(100)), (2, Err(RequestError::Short))]);
    bench.shut_down().assert_clean();
}

#[test]
fn requests_are_appended_while_the_controller_walks_the_list() {
    let mut bench = Bench::configured(Parts::default());
    for id in 0..10 {
        bench.udc.queue(IN, send(id, vec![id as u8; 512])).expect("room");
    }
    assert_eq!(bench.bulk_in(1, 1024), Ok([[0; 512], [1; 512]].concat()));
    bench.udc.queue(IN, send(10, vec![10; 100])).expect("room");
    let rest: Vec<u8> = (2..10).flat_map(|id| [id; 512]).chain([10; 100]).collect();
    assert_eq!(bench.bulk_in(1, 8 << 10), Ok(rest));
    let ids: Vec<_> = bench.gadget.completed().iter().map(|&(id, _)| id).collect();
    assert_eq!(ids, (0..=10).collect::<Vec<_>>());
    bench.shut_down().assert_clean();
}

#[test]
fn an_append_races_the_end_of_the_list_at_every_access() {
    let mut raced = 0;
    for after in 0..60 {
        let mut bench = Bench::configured(Parts::default());
        bench.udc.queue(IN, send(1, vec![1; 100])).expect("room");
        let (port, to) = (bench.host.port.clone(), Target { address: 9, endpoint: 1 });
        bench.tap.visit(after, move || {
            port.data_in(to, &mut [0; 512], HostAck::Sent);
        });
        bench.udc.queue(IN, send(2, vec![2; 100])).expect("room");
        if !bench.tap.cancel() {
            raced += 1;
            bench.host.toggle(IN);
        } else {
            assert_eq!(bench.bulk_in(1, 512), Ok(vec![1; 100]));
        }
        bench.run();
        assert_eq!(bench.bulk_in(1, 512), Ok(vec![2; 100]), "the list ended before access {after}");
        assert_eq!(bench.gadget.completed(), [(1, Ok(100)), (2, Ok(100))]);
        bench.udc.shutdown().expect("everything is given back");
        bench.machine.assert_clean();
    }
    assert!(raced > 15, "{raced} accesses append a request");
}

#[test]
fn a_dtd_is_freed_one_completion_late() {
    let mut bench = Bench::configured(Parts::default());
    for id in 0..2 {
        bench.udc.queue(IN, send(id, vec![0; 100])).expect("room");
    }
    assert_eq!(descriptors(&bench), ["ep1 IN dTD 0", "ep1 IN dTD 1"]);
    bench.bulk_in(1, 512).expect("data");
    assert_eq!(descriptors(&bench), ["ep1 IN dTD 0", "ep1 IN dTD 1"]);
    bench.bulk_in(1, 512).expect("data");
    assert_eq!(descriptors(&bench), ["ep1 IN dTD 1"]);
    bench.udc.disable(IN).expect("enabled");
    assert_eq!(descriptors(&bench), [""; 0]);
    bench.udc.enable(&EndpointDescriptor::new(IN, TransferType::Bulk, 512, 0)).expect("disabled");
    bench.shut_down().assert_clean();
}

#[test]
fn a_dequeue_leaves_the_others_on_their_way() {
    for gone in 0..3 {
        let mut bench = Bench::configured(Parts::default());
        for id in 0..3 {
            bench.udc.queue(IN, send(id, vec![id as u8; 30 << 10])).expect("room");
        }
        bench.udc.dequeue(IN, gone).expect("queued");
        bench.run();
        assert_eq!(bench.gadget.completed(), [(gone, Err(RequestError::Dequeued))]);
        let left: Vec<u64> = (0..3).filter(|&id| id != gone).collect();
        let expected: Vec<u8> = left.iter().flat_map(|&id| vec![id as u8; 30 << 10]).collect();
        assert_eq!(bench.bulk_in(1, 60 << 10), Ok(expected));
        assert_eq!(bench.gadget.completed(), [(left[0], Ok(30 << 10)), (left[1], Ok(30 << 10))]);
        assert_eq!(bench.udc.dequeue(IN, gone), Err(UdcError::NoRequest { endpoint: IN, id: gone }));
        bench.shut_down().assert_clean();
    }
}

#[test]
fn a_queue_goes_on_after_its_only_request_was_dequeued() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(OUT, room(1, 512)).expect("room");
    bench.udc.dequeue(OUT, 1).expect("queued");
    bench.udc.queue(OUT, room(2, 512)).expect("room");
    bench.bulk_out(1, &pattern(512)).expect("taken");
    assert_eq!(bench.gadget.completed(), [(1, Err(RequestError::Dequeued)), (2, Ok(512))]);
    bench.shut_down().assert_clean();
}

#[test]
fn halt_and_clear() {
    let mut bench = Bench::configured(Parts::default());
    // One packet each way: the toggles stand at DATA1.
    bench.udc.queue(IN, send(8, vec![8; 100])).expect("room");
    bench.bulk_in(1, 512).expect("data");
    bench.udc.queue(OUT, room(9, 100)).expect("room");
    bench.bulk_out(1, &pattern(100)).expect("taken");
    assert_eq!(bench.gadget.completed(), [(8, Ok(100)), (9, Ok(100))]);
    bench.udc.set_halt(IN, true).expect("nothing is queued");
    assert_eq!(bench.bulk_in(1, 512), Err(HostError::Stall));
    bench.udc.set_halt(IN, false).expect("halted");
    bench.host.reset_toggle(IN);
    bench.udc.queue(IN, send(1, vec![1; 100])).expect("room");
    assert_eq!(bench.udc.set_halt(IN, true), Err(UdcError::Again(IN)), "data waits to be sent");
    assert_eq!(bench.bulk_in(1, 512), Ok(vec![1; 100]));
    bench.udc.queue(OUT, room(2, 512)).expect("room");
    bench.udc.set_halt(OUT, true).expect("an OUT endpoint may be halted with requests");
    assert_eq!(bench.bulk_out(1, &pattern(512)), Err(HostError::Stall));
    bench.control_out([2, 1, 0, 0, 1, 0, 0, 0], &[]).expect("CLEAR_FEATURE halt");
    bench.host.reset_toggle(OUT);
    bench.bulk_out(1, &pattern(512)).expect("taken");
    assert_eq!(bench.gadget.completed(), [(1, Ok(100)), (2, Ok(512))]);
    bench.shut_down().assert_clean();
}

#[test]
fn a_wedge_outlives_the_hosts_clear() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.set_wedge(IN).expect("nothing is queued");
    bench.control_out([2, 1, 0, 0, 0x81, 0, 0, 0], &[]).expect("the host hears nothing of it");
    assert_eq!(bench.bulk_in(1, 512), Err(HostError::Stall));
    bench.udc.set_halt(IN, false).expect("the gadget may");
    bench.host.reset_toggle(IN);
    bench.udc.queue(IN, send(1, vec![1; 100])).expect("room");
    assert_eq!(bench.bulk_in(1, 512), Ok(vec![1; 100]));
    bench.udc.set_wedge(IN).expect("nothing is queued");
    bench.udc.disable(IN).expect("enabled");
    bench.udc.enable(&EndpointDescriptor::new(IN, TransferType::Bulk, 512, 0)).expect("disabled");
    bench.control_out([2, 3, 0, 0, 0x81, 0, 0, 0], &[]).expect("SET_FEATURE halt");
    bench.control_out([2, 1, 0, 0, 0x81, 0, 0, 0], &[]).expect("CLEAR_FEATURE halt");
    assert_eq!(bench.bulk_in(1, 512), Err(HostError::Stall), "as in ci_hdrc the wedge outlives the endpoint, too");
    bench.udc.set_halt(IN, false).expect("the gadget may");
    bench.udc.queue(IN, send(2, vec![2; 100])).expect("room");
    assert_eq!(bench.udc.set_wedge(IN), Err(UdcError::Again(IN)), "there is data to send");
    bench.control_out([2, 3, 0, 0, 0x81, 0, 0, 0], &[]).expect("SET_FEATURE halt");
    bench.control_out([2, 1, 0, 0, 0x81, 0, 0, 0], &[]).expect("CLEAR_FEATURE halt");
    assert_eq!(bench.bulk_in(1, 512), Err(HostError::Stall), "the refused wedge holds");
    bench.shut_down().assert_clean();
}

#[test]
fn disable_gives_everything_back_in_order() {
    let mut bench = Bench::configured(Parts::default());
    for id in 0..4 {
        bench.udc.queue(OUT, room(id, 50 << 10)).expect("room");
    }
    bench.host.bulk_out(1, &pattern(1024)).expect("taken");
    bench.udc.disable(OUT).expect("enabled");
    assert!(bench.udc.deliver(&mut bench.gadget));
    assert!(!bench.udc.deliver(&mut bench.gadget));
    let shut_down = |id| (id, Err(RequestError::Shutdown));
    assert_eq!(bench.gadget.completed(), [shut_down(0), shut_down(1), shut_down(2), shut_down(3)]);
    assert_eq!(bench.bulk_out(1, &pattern(512)), Err(HostError::Silence), "a disabled endpoint does not answer");
    assert_eq!(bench.udc.disable(OUT), Err(UdcError::NoEndpoint(OUT)));
    assert_eq!(bench.machine.ledger.live_mappings(), []);
    let refused = bench.udc.queue(OUT, room(9, 512)).expect_err("disabled");
    assert_eq!((refused.error, refused.request.id), (UdcError::NoEndpoint(OUT), 9));
    bench.gadget.configured = false;
    bench.shut_down().assert_clean();
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut bench = Bench::configured(Parts::endpoints(4));
    let far = EndpointAddress::r#in(9);
    let descriptor = EndpointDescriptor::new(far, TransferType::Bulk, 512, 0);
    assert_eq!(bench.udc.enable(&descriptor), Err(UdcError::NoEndpoint(far)));
    assert_eq!(bench.udc.set_halt(far, true), Err(UdcError::NoEndpoint(far)));
    assert_eq!(bench.udc.flush(far), Err(UdcError::NoEndpoint(far)));
    let again = EndpointDescriptor::new(IN, TransferType::Bulk, 512, 0);
    assert_eq!(bench.udc.enable(&again), Err(UdcError::Busy(IN)));
    let control = EndpointDescriptor::new(EndpointAddress::out(2), TransferType::Control, 64, 0);
    assert_eq!(bench.udc.enable(&control), Err(UdcError::NoEndpoint(EndpointAddress::out(2))));
    bench.udc.queue(IN, send(1, vec![1])).expect("room");
    let twice = bench.udc.queue(IN, send(1, vec![2])).expect_err("the id is taken");
    assert_eq!((twice.error, twice.request.data), (UdcError::Busy(IN), vec![2]));
    bench.shut_down().assert_clean();
}

#[test]
fn a_packet_too_long_halts_the_request() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(OUT, room(1, 100)).expect("room");
    bench.udc.queue(OUT, room(9, 512)).expect("room");
    let _ = bench.host.bulk_out(1, &pattern(512));
    bench.run();
    assert_eq!(bench.gadget.completed(), [(1, Err(RequestError::Halted))]);
    bench.bulk_out(1, &pattern(512)).expect("the next request takes it");
    assert_eq!(bench.gadget.completed(), [(9, Ok(512))]);
    bench.udc.queue(OUT, room(1, 100)).expect("room");
    let _ = bench.host.bulk_out(1, &pattern(512));
    bench.run();
    assert_eq!(bench.gadget.completed(), [(1, Err(RequestError::Halted))]);
    let halted = 0x40;
    assert_eq!(bench.head(2, 12) & halted, halted);
    let (memory, token) = (Arc::clone(&bench.machine.memory), bench.head_address(2).offset(12));
    let primed_with = Arc::new(AtomicU32::new(halted));
    let seen = Arc::clone(&primed_with);
    bench.tap.visit_write(0x140 + 0x70, move || {
        seen.store(memory.load_u32(token).expect("a dQH"), Ordering::Relaxed);
    });
    bench.udc.queue(OUT, room(2, 512)).expect("room");
    assert_eq!(primed_with.load(Ordering::Relaxed) & halted, 0, "the overlay is clean when it is primed");
    bench.bulk_out(1, &pattern(512)).expect("taken");
    assert_eq!(bench.gadget.completed(), [(2, Ok(512))]);
    bench.shut_down().assert_clean();
}

#[test]
fn a_lost_prime_is_made_up_for_only_if_asked() {
    for reprime in [false, true] {
        let mut parts = Parts::default();
        parts.config.workarounds = if reprime { Workarounds::ALWAYS } else { Workarounds::NONE };
        let mut bench = Bench::configured(parts);
        // ENDPTPRIME.
        bench.tap.lose_writes(0x140 + 0x70, 1);
        bench.udc.queue(IN, send(1, vec![1; 512])).expect("room");
        bench.udc.queue(IN, send(2, vec![2; 512])).expect("room");
        let first = bench.bulk_in(1, 512);
        if reprime {
            assert_eq!(first, Ok(vec![1; 512]));
            assert_eq!(bench.bulk_in(1, 512), Ok(vec![2; 512]));
        } else {
            assert_eq!(first, Ok(vec![2; 512]), "the second primes, the first never goes");
            assert_eq!(bench.bulk_in(1, 512), Err(HostError::Timeout));
        }
        bench.shut_down().assert_clean();
    }
}

#[test]
fn revisions_with_a_lost_prime_make_up_for_it() {
    // ENDPTPRIME; REVISION of the ID register.
    let lost_first = |revision: u32| {
        let mut parts = Parts::default();
        parts.model.id = parts.model.id & !(0xf << 21) | revision << 21;
        let mut bench = Bench::configured(parts);
        bench.tap.lose_writes(0x140 + 0x70, 1);
        bench.udc.queue(IN, send(1, vec![1; 512])).expect("room");
        bench.udc.queue(IN, send(2, vec![2; 512])).expect("room");
        let seen = [bench.bulk_in(1, 512), bench.bulk_in(1, 512)];
        bench.shut_down().assert_clean();
        seen
    };
    assert_eq!(lost_first(2), [Ok(vec![1; 512]), Ok(vec![2; 512])], "2.2 looks when it appends");
    assert_eq!(lost_first(4), [Ok(vec![2; 512]), Ok(vec![1; 512])], "2.4 looks when it retires");
    assert_eq!(lost_first(5), [Ok(vec![2; 512]), Err(HostError::Timeout)], "2.5 does not look");
}

#[test]
fn completions_queue_again_while_data_flows() {
    let mut bench = Bench::configured(Parts::default());
    bench.gadget.requeue = true;
    for id in 0..4 {
        bench.udc.queue(OUT, room(id, 2048)).expect("room");
    }
    let data = pattern(64 << 10);
    bench.bulk_out(1, &data).expect("taken");
    let got: Vec<u8> = bench.gadget.completions.iter().flat_map(|c| &c.request.data).copied().collect();
    assert_eq!(got, data);
    bench.gadget.requeue = false;
    bench.shut_down().assert_clean();
}

#[test]
fn a_dqh_says_what_the_descriptor_says() {
    let bench = Bench::configured(Parts::default());
    let zlt = 1 << 29;
    for slot in 0..2 {
        assert_eq!(bench.head(slot, 0), zlt | 64 << 16 | 1 << 15, "endpoint 0 interrupts on SETUP");
    }
    for slot in 2..4 {
        assert_eq!(bench.head(slot, 0), zlt | 512 << 16);
        assert_eq!(bench.head(slot, 8), 1, "its list ends");
    }
    assert_eq!(bench.head(4, 0), 0, "endpoint 2 is disabled");
}

#[test]
fn isochronous_endpoints_say_how_many_packets() {
    let mut bench = Bench::configured(Parts::default());
    let (source, sink) = (EndpointAddress::r#in(2), EndpointAddress::out(2));
    for endpoint in [source, sink] {
        // Three packets of 1024 bytes a microframe.
        bench
            .udc
            .enable(&EndpointDescriptor::new(endpoint, TransferType::Isochronous, 2 << 11 | 1024, 1))
            .expect("free");
    }
    assert_eq!(bench.head(5, 0) >> 30, 3);
    bench.udc.queue(source, send(1, vec![0; 2000])).expect("room");
    bench.udc.queue(sink, room(2, 1024)).expect("room");
    assert_eq!(bench.head(4, 0) >> 30, 1);
    let token = token(&bench, "ep2 IN dTD 0");
    assert_eq!(token >> 10 & 3, 2, "MultO of the dTD");
    let refused = bench.udc.queue(source, send(3, vec![0; 3073])).expect_err("more than a microframe takes");
    assert!(matches!(refused.error, UdcError::Unsupported(_)));
    assert!(matches!(bench.udc.set_halt(source, true), Err(UdcError::Unsupported(_))));
    bench.shut_down().assert_clean();
}

/// The token of the dTD that the driver calls `name`.
fn token(bench: &Bench, name: &str) -> u32 {
    let blocks = bench.machine.ledger.live_blocks();
    let found = blocks.iter().find(|(.., owner)| owner.is_some_and(|owner| owner.to_string() == name));
    let addr = found.expect("a dTD of that name").1;
    let cpu = bench.machine.memory.cpu(addr.offset(4)).expect("memory");
    bench.machine.memory.load_u32(cpu).expect("memory")
}

#[test]
fn an_append_that_fails_leaves_the_list_as_it_was() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(IN, send(1, vec![1; 512])).expect("room");
    let blocks = bench.machine.ledger.live_blocks();
    // USBCMD takes no ATDTW.
    bench.tap.lose_writes(0x140, u32::MAX);
    let refused = bench.udc.queue(IN, send(2, vec![2; 512])).expect_err("the tripwire never holds");
    assert_eq!(refused.error, UdcError::Hardware("USBCMD 0x4000 is still clear after 64 reads".to_owned()));
    assert_eq!(refused.request.id, 2);
    bench.tap.lose_writes(0, 0);
    assert_eq!(bench.machine.ledger.live_blocks(), blocks);
    assert_eq!(bench.bulk_in(1, 512), Ok(vec![1; 512]));
    assert_eq!(bench.bulk_in(1, 512), Err(HostError::Timeout), "there is no more");
    assert_eq!(bench.gadget.completed(), [(1, Ok(512))]);
    bench.shut_down().assert_clean();
}

#[test]
fn a_short_packet_before_the_last_dtd_misroutes_what_follows() {
    // The controller goes on with the next dTD of the same request, and only the last one interrupts.
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(OUT, room(1, 40 << 10)).expect("room");
    bench.bulk_out(1, &[1; 100]).expect("taken");
    assert_eq!(bench.gadget.completed(), []);
    bench.bulk_out(1, &[2; 100]).expect("taken");
    let completion = bench.gadget.completions.pop().expect("one");
    assert_eq!(completion.status, Ok(200));
    assert_eq!(completion.request.data[..200], [[1; 100], [0; 100]].concat(), "the rest lies 20 KiB further on");
    bench.shut_down().assert_clean();
}

#[test]
fn a_request_without_interrupt_comes_with_the_next() {
    let mut bench = Bench::configured(Parts::default());
    bench.udc.queue(IN, Request { no_interrupt: true, ..send(1, vec![1; 100]) }).expect("room");
    bench.udc.queue(IN, send(2, vec![2; 100])).expect("room");
    assert_eq!(bench.bulk_in(1, 512), Ok(vec![1; 100]));
    assert_eq!(bench.gadget.completed(), []);
    assert_eq!(bench.bulk_in(1, 512), Ok(vec![2; 100]));
    assert_eq!(bench.gadget.completed(), [(1, Ok(100)), (2, Ok(100))]);
    bench.shut_down().assert_clean();
}

#[test]
fn packets_at_any_access_of_a_dequeue_lose_nothing() {
    let mut raced = 0;
    for packets in 1..=3 {
        for after in 0..40 {
            let mut bench = Bench::configured(Parts::default());
            for id in 0..3 {
                bench.udc.queue(IN, send(id, vec![id as u8; 512])).expect("room");
            }
            let (port, from) = (Arc::clone(&bench.host.port), Target { address: 9, endpoint: 1 });
            let early = Arc::new(parking_lot::Mutex::new((DataPid::Data0, Vec::new())));
            let taken = Arc::clone(&early);
            bench.tap.visit(after, move || {
                let (pid, data) = &mut *taken.lock();
                data.resize(packets * 512, 0);
                let burst = port.burst_in(from, pid, 512, data);
                data.truncate(burst.bytes);
            });
            bench.udc.dequeue(IN, 1).expect("queued");
            raced += u32::from(!bench.tap.cancel());
            bench.run();
            let mut data = std::mem::take(&mut early.lock().1);
            if data.len() / 512 % 2 == 1 {
                bench.host.toggle(IN);
            }
            while let Ok(more) = bench.bulk_in(1, 512) {
                data.extend(more);
            }
            let ids: Vec<u8> = data.chunks(512).map(|packet| packet[0]).collect();
            assert!(ids == [0, 2] || ids == [0, 1, 2], "{packets} packets before access {after}: {ids:?}");
            let mut completed = bench.gadget.completed();
            completed.sort_by_key(|&(id, _)| id);
            assert_eq!(completed, [(0, Ok(512)), (1, Err(RequestError::Dequeued)), (2, Ok(512))]);
            bench.shut_down().assert_clean();
        }
    }
    assert!(raced > 20, "{raced} accesses dequeue");
}

#[test]
fn every_policy_in_order_carries_data() {
    for policy in pool::policy::table() {
        if policy.name == "linked-descending" {
            continue;
        }
        for endpoints in [4, 8, 16] {
            let mut bench = Bench::configured(Parts { policy: policy.clone(), ..Parts::endpoints(endpoints) });
            bench.gadget.requeue = true;
            for id in 0..3 {
                bench.udc.queue(OUT, room(id, 1024)).expect("room");
                bench.udc.queue(IN, send(id, vec![id as u8; 1024])).expect("room");
            }
            for round in 0..20 {
                assert_eq!(bench.bulk_in(1, 1024), Ok(vec![round % 3; 1024]), "{}", policy.name);
                bench.bulk_out(1, &pattern(1024)).expect("taken");
            }
            bench.gadget.requeue = false;
            bench.shut_down().assert_clean();
        }
    }
}
