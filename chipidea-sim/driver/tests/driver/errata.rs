//! Workarounds, each on its own, on controllers that have the erratum.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use chipidea_driver::{Workaround, Workarounds};
use chipidea_sim::{LostAppends, Revision};
use usb::gadget::Request;
use usb::{Direction, EndpointAddress, TransferType, Udc};

use crate::bench::{Bench, HostError, Parts};

const OUT: EndpointAddress = EndpointAddress::out(1);

/// A controller that ignores every dTD that is added to a primed endpoint, and two requests queued on it.
fn lossy(revision: Revision, workarounds: Workarounds) -> Bench {
    let mut parts = Parts::default();
    parts.model.errata.lost_appends = Some(LostAppends { revision, every: NonZeroU32::MIN });
    parts.config.workarounds = workarounds;
    let mut bench = Bench::configured(parts);
    for id in 0..2 {
        bench.udc.queue(OUT, Request { id, data: vec![0; 512], ..Request::default() }).expect("room");
    }
    bench
}

/// What comes back for these packets, in order: the request and the packet that it has got, and how the last one fared.
fn packets(bench: &mut Bench, packets: RangeInclusive<u8>) -> (Vec<(u64, u8)>, Result<(), HostError>) {
    let mut sent = Ok(());
    for packet in packets {
        sent = bench.bulk_out(1, &[packet; 512]);
    }
    let came = bench.gadget.completions.drain(..).filter(|came| came.endpoint == OUT && came.status.is_ok());
    (came.map(|came| (came.request.id, came.request.data[0])).collect(), sent)
}

fn only(reprime_on_append: Workaround, reprime_on_retirement: Workaround) -> Workarounds {
    Workarounds { reprime_on_append, reprime_on_retirement, ..Workarounds::NONE }
}

#[test]
fn without_a_workaround_what_was_added_is_lost() {
    for revision in [Revision::R22, Revision::R24] {
        let mut bench = lossy(revision, Workarounds::NONE);
        assert_eq!(packets(&mut bench, 1..=2), (vec![(0, 1)], Err(HostError::Timeout)), "{revision}");
        bench.shut_down().assert_clean();
    }
}

#[test]
fn by_revision_both_requests_come_back() {
    for revision in [Revision::R22, Revision::R24] {
        let mut bench = lossy(revision, Workarounds::default());
        assert_eq!(packets(&mut bench, 1..=2), (vec![(0, 1), (1, 2)], Ok(())), "{revision}");
        bench.shut_down().assert_clean();
    }
}

#[test]
fn on_append_alone_a_request_waits_for_the_next_one() {
    let mut bench = lossy(Revision::R22, only(Workaround::ByRevision, Workaround::Never));
    assert_eq!(packets(&mut bench, 1..=2), (vec![(0, 1)], Err(HostError::Timeout)));
    bench.udc.queue(OUT, Request { id: 2, data: vec![0; 512], ..Request::default() }).expect("room");
    assert_eq!(packets(&mut bench, 3..=4), (vec![(1, 3), (2, 4)], Ok(())));
    bench.shut_down().assert_clean();
}

/// What Linux does for 2.4: a function that queues again in its completion, as an Ethernet function does, adds behind a
/// request that was lost. ENDPTSTAT is clear then, and the driver primes what it adds: the lost request is passed over, and
/// data that has come behind it waits until it has got some.
#[test]
fn on_retirement_alone_a_function_that_queues_again_passes_the_lost_request_over() {
    for (revision, on_append, expected) in [
        (Revision::R24, Workaround::ByRevision, vec![(0, 1)]),
        (Revision::R24, Workaround::Always, vec![(0, 1), (1, 2)]),
        (Revision::R22, Workaround::ByRevision, vec![(0, 1), (1, 2)]),
    ] {
        let mut bench = lossy(revision, only(on_append, Workaround::ByRevision));
        bench.gadget.requeue = true;
        assert_eq!(packets(&mut bench, 1..=2), (expected, Ok(())), "{revision}, {on_append:?}");
        if revision == Revision::R24 && on_append == Workaround::ByRevision {
            assert_eq!(
                packets(&mut bench, 3..=3),
                (vec![(1, 3), (0, 2)], Ok(())),
                "out of order, with the next packet"
            );
        }
        bench.gadget.requeue = false;
        bench.shut_down().assert_clean();
    }
}

#[test]
fn isochronous_in_endpoints_go_to_the_highest_number_that_is_free() {
    let highest = EndpointAddress::r#in(7);
    let bench = Bench::attached(Parts::default());
    let wanted = |kind, direction, taken: &[EndpointAddress]| bench.udc.match_endpoint(kind, direction, taken);
    assert_eq!(wanted(TransferType::Isochronous, Direction::In, &[]), Some(7));
    assert_eq!(wanted(TransferType::Isochronous, Direction::In, &[highest]), Some(6));
    assert_eq!(wanted(TransferType::Isochronous, Direction::In, &[EndpointAddress::out(7)]), Some(7));
    assert_eq!(wanted(TransferType::Isochronous, Direction::Out, &[]), None, "the function chooses");
    assert_eq!(wanted(TransferType::Bulk, Direction::In, &[]), None);
    let mut parts = Parts::default();
    parts.config.workarounds = Workarounds::NONE;
    let bench = Bench::attached(parts);
    assert_eq!(bench.udc.match_endpoint(TransferType::Isochronous, Direction::In, &[]), None);
    let bench = Bench::attached(Parts::endpoints(1));
    assert_eq!(
        bench.udc.match_endpoint(TransferType::Isochronous, Direction::In, &[]),
        None,
        "there is only endpoint 0"
    );
}
