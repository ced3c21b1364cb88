//! Descriptor traffic of the recorded session for each pool, in symbols, as snapshots.
//!
//! A line that ends in `<-` is memory that the device takes for one thing and the driver means for another.

use scenarios::{Bench, TraceLine, scenario};
use similar::TextDiff;
use usb::Speed;

/// Registers that say what descriptors do; the others repeat themselves.
const REGISTERS: [&str; 4] = ["ENDPTLISTADDR", "ENDPTPRIME", "ENDPTSETUPSTAT", "ENDPTCOMPLETE"];

/// The host's reset after it has read the device descriptor, or has given up on it.
const DESCRIPTOR_READ: u32 = 2;
/// The host's reset of its next attempt.
const NEXT_ATTEMPT: u32 = 3;

/// The traffic from Linux's ENDPTLISTADDR to the host's reset number `most_resets`, and at the latest until it reads a
/// configuration.
fn traffic(pool: &str, endpoints: u8, most_resets: u32) -> String {
    let policy = pool::policy::by_name(pool).expect("a pool of the table");
    let scenario = scenario::by_name("bootloader-to-ethernet").expect("a scenario of the table");
    let bench = Bench::new().pool(policy).endpoints(endpoints).speed(Speed::Full);
    let (_, lines) = bench.trace_scenario(&*scenario).expect("the bench can be set up");
    let is_list = |line: &&TraceLine| line.symbolic.starts_with("write ENDPTLISTADDR");
    let begin = lines.iter().filter(is_list).nth(1).expect("Linux writes ENDPTLISTADDR").header.sequence;
    let mut text = String::new();
    let mut resets = 0;
    for line in lines.iter().filter(|line| line.header.sequence >= begin) {
        if line.actor == "host" {
            continue;
        }
        let symbolic = line.symbolic.trim_end();
        resets += u32::from(symbolic.starts_with("RESET"));
        if resets == most_resets || symbolic.contains("80 06 00 02") {
            break;
        }
        if !symbolic.contains("ENDPT") || is_telling(symbolic) {
            text.push_str(symbolic);
            text.push('\n');
        }
    }
    without_registers(&text)
}

/// A write of a register that says what descriptors do, and not a write of nothing.
fn is_telling(line: &str) -> bool {
    line.starts_with("write") && REGISTERS.iter().any(|name| line.contains(name)) && !line.ends_with("= 00000000")
}

/// Drops the registers that have no part in descriptors.
fn without_registers(text: &str) -> String {
    let is_other = |line: &&str| {
        ["USBCMD", "USBSTS", "USBINTR", "USBMODE", "OTGSC", "PORTSC", "DEVICEADDR", "DEVLC"]
            .iter()
            .any(|name| line.contains(name))
    };
    text.lines().filter(|line| !is_other(line)).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_pool_has_its_traffic() {
    for policy in pool::policy::table() {
        insta::assert_snapshot!(format!("{}_16_endpoints", policy.name), traffic(&policy.name, 16, NEXT_ATTEMPT));
    }
}

#[test]
fn a_free_block_is_taken_for_a_queue_head_with_8_endpoints() {
    insta::assert_snapshot!("linked-descending_8_endpoints", traffic("linked-descending", 8, NEXT_ATTEMPT));
}

#[test]
fn the_difference_between_the_two_orders_is_the_explanation() {
    let (good, bad) = (traffic("linked", 16, DESCRIPTOR_READ), traffic("linked-descending", 16, DESCRIPTOR_READ));
    let diff = TextDiff::from_lines(&good, &bad);
    let diff = diff.unified_diff().context_radius(2).header("linked", "linked-descending").to_string();
    insta::assert_snapshot!("linked_against_linked-descending", diff);
}

#[test]
fn pools_in_the_same_order_have_the_same_traffic() {
    let linked = traffic("linked", 16, NEXT_ATTEMPT);
    for pool in ["external-list", "external-bitmap", "index-stack"] {
        assert_eq!(traffic(pool, 16, NEXT_ATTEMPT), linked, "{pool}");
    }
}
