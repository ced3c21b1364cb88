//! A device that rewrites free blocks: what it gets out of which pool.

use std::sync::Arc;

use pool::{Finding, Metadata, MetadataField, Policy, Promise, policy};
use scenarios::{Bench, CpuAddr, PageOrder, Run, Status, Verdict, status};

const SCENARIO: &str = "malicious-device";
/// Where the client's secret and its first page lie, forward: the slab takes the first page for the secret.
const SECRET: &str = "0xffff000040000000";

fn named(name: &str) -> Policy {
    policy::by_name(name).expect("a pool of that name")
}

fn run(bench: Bench) -> Run {
    bench.run(SCENARIO).expect("the bench can be set up")
}

/// Promise, block and text of every address that was the attacker's.
fn attackers(run: &Run) -> Vec<(Promise, String, u64)> {
    let addresses = run.findings.iter().filter_map(|finding| match finding {
        Finding::AttackerAddress { promise, allocations, .. } => Some((*promise, finding.to_string(), *allocations)),
        _ => None,
    });
    addresses.collect()
}

#[test]
fn a_list_of_pointers_is_led_to_the_secret_by_the_second_allocation() {
    for (name, head) in [("linked", "0x80001180"), ("linked-descending", "0x80001e40")] {
        let run = run(Bench::new().pool(named(name)));
        assert_eq!((run.verdict, status(&run, false)), (Verdict::AsDeclared, Status::Declared), "{:?}", run.findings);
        let [(Promise::OwnPages, text, 2)] = &attackers(&run)[..] else { panic!("{:?}", run.findings) };
        // Bytes 8 to 15 of the secret, which the pool takes for a DMA address.
        let garbage = "0x666f2079656b2061";
        assert_eq!(
            *text,
            format!(
                "pool requests broke its promise OwnPages with {SECRET} / {garbage}: {garbage} and 64 bytes are not in a \
                 page of this pool; {SECRET} is a buffer of kmalloc, not mapped for the device; before, the device wrote \
                 request 6 next pointer = {SECRET} at {head} (8 bytes), byte 0 of the free block at {head}; it damaged the \
                 pool's next pointer; this is allocation 2 since then"
            )
        );
        let [learns, allocations, harm, shown] = &run.notes[..] else { panic!("{:?}", run.notes) };
        assert!(learns.contains("the processor's addresses are its own plus 0xfffeffffc0000000"), "{learns}");
        assert!(allocations.ends_with(&format!("and {SECRET} / {garbage}")), "{allocations}");
        assert_eq!(harm, "the client's new request overwrites a secret of the kernel's");
        assert_eq!(shown, text);
    }
}

#[test]
fn a_list_of_offsets_is_led_into_a_request_in_use() {
    let run = run(Bench::new().pool(named("page-list")));
    assert_eq!((run.verdict, status(&run, false)), (Verdict::AsDeclared, Status::Declared), "{:?}", run.findings);
    let [(Promise::NoOverlap, text, 2), (Promise::Alignment, _, 2)] = &attackers(&run)[..] else {
        panic!("{:?}", run.findings)
    };
    assert!(text.contains("0x80001020 overlaps the live block at 0x80001000 (request 0)"), "{text}");
    assert!(
        text.contains("the device wrote request 6 next offset = 0x20 at 0x80001180 (4 bytes), byte 0 of"),
        "{text}"
    );
    assert!(run.notes[2].contains("overwrites a request that the device has"), "{:?}", run.notes);
}

/// The same wherever memory lies and in whatever order its pages come.
#[test]
fn what_comes_of_it_is_a_matter_of_where_the_pool_keeps_its_data() {
    for policy in policy::table().into_iter().chain(policy::hostile()) {
        for page_size in [4 << 10, 16 << 10, 64 << 10] {
            for order in [PageOrder::Forward, PageOrder::Backward, PageOrder::Scattered(5)] {
                for (base, mask) in [(0xffff_0000_4000_0000, 32), (0xffff_8880_0123_4000, 32), (0x7f00_0000_0000, 64)] {
                    let bench = Bench::new().pool(policy.clone()).page_size(page_size).page_order(order);
                    let run = run(bench.cpu_base(CpuAddr(base)).dma_mask(mask));
                    let what = format!("{} {page_size} {order} {base:#x}: {:?}", policy.name, run.notes);
                    match policy.metadata {
                        Metadata::InBlock(_) => assert_eq!(run.verdict, Verdict::AsDeclared, "{what}"),
                        Metadata::OutOfBand => {
                            assert_eq!(run.verdict, Verdict::NoFailureFound, "{what}");
                            assert_eq!(run.notes[2], "nothing is overwritten", "{what}");
                            assert!(run.notes[0].contains("over 6 of them"), "it wrote all the same: {what}");
                        }
                    }
                }
            }
        }
    }
}

/// A pool that claims to keep nothing in blocks and is led astray has broken its word; one that claims to keep links there
/// and is not has shown something else than what is declared.
#[test]
fn a_pool_that_is_not_what_it_claims_is_broken() {
    let claims = |name: &str, metadata| {
        let policy = named(name);
        let create = Arc::clone(&policy.create);
        let pool = Policy::new("claims", "", metadata, policy.smallest, move |m, s, g| create(m, s, g));
        run(Bench::new().pool(pool))
    };
    for name in ["linked", "page-list"] {
        let run = claims(name, Metadata::OutOfBand);
        assert_eq!((run.verdict, status(&run, true)), (Verdict::PoolContractViolated, Status::Broken), "{name}");
        assert!(run.failure.expect("harm").error.starts_with("the client's new request overwrites"), "{name}");
    }
    const LINK: Metadata = Metadata::InBlock(&[MetadataField { start: 0, len: 8, name: "next pointer" }]);
    let run = claims("index-stack", LINK);
    assert_eq!((run.verdict, status(&run, true)), (Verdict::Inconclusive, Status::Broken));
    assert_eq!(
        run.reason(),
        ["AttackerAddress is declared for pools of this kind (data of their own in free blocks), and did not come"]
    );
}
