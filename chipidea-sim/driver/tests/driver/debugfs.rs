//! What the driver shows of its structures.

use chipidea_sim::explain::{Source, Verdict, explain};
use usb::gadget::{DebugFile, Request, UdcError};
use usb::{EndpointAddress, Udc, UdcDriver};

use crate::bench::{Bench, Parts, pattern};

const IN: EndpointAddress = EndpointAddress::r#in(1);
const OUT: EndpointAddress = EndpointAddress::out(1);

fn file<'a>(files: &'a [DebugFile], name: &str) -> &'a str {
    &files.iter().find(|file| file.name == name).expect("one of the files").text
}

/// The lines that begin a dQH or dTD.
fn first_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("EP=")).collect()
}

#[test]
fn queued_dtds_are_there_in_the_kernels_order() {
    let mut bench = Bench::configured(Parts::default());
    // TX first, and more than the 20 KiB of one dTD.
    bench.udc.queue(IN, Request { id: 2, data: pattern(50_000), ..Request::default() }).expect("room");
    bench.udc.queue(OUT, Request { id: 1, data: vec![0; 512], ..Request::default() }).expect("room");
    let files = bench.udc.debugfs().expect("it runs");
    let sides: Vec<&str> = first_lines(file(&files, "requests")).iter().map(|line| &line[line.len() - 2..]).collect();
    assert_eq!(sides, ["RX", "TX", "TX", "TX"]);
    assert_eq!(file(&files, "requests").lines().count(), 4 * 8);
    let sources: Vec<_> = files.iter().map(|file| Source { name: file.name, text: &file.text }).collect();
    let explanation = explain(&sources).expect("the driver's files");
    assert_eq!(explanation.verdict(), Verdict::NoFailureFound, "{explanation}");
    assert!(explanation.to_string().contains("ep1 TX: 3 dTDs queued, 3 ACTIVE, 50000 bytes to go"), "{explanation}");
    bench.shut_down().assert_clean();
}

#[test]
fn words_are_those_in_memory() {
    let bench = Bench::configured(Parts::endpoints(4));
    let files = bench.udc.debugfs().expect("it runs");
    let text = file(&files, "qheads");
    assert_eq!(first_lines(text).len(), 4);
    let lines: Vec<&str> = text.lines().collect();
    for number in 0..4 {
        for word in 0..12 {
            let line = lines[number * 13 + 1 + word];
            let (rx, tx) = (2 * number as u64, 2 * number as u64 + 1);
            let (rx, tx) = (bench.head(rx, 4 * word as u64), bench.head(tx, 4 * word as u64));
            assert_eq!(line, format!(" {word:04X}:    {rx:08X}    {tx:08X}"));
        }
    }
}

#[test]
fn a_controller_without_otg_has_no_otgsc() {
    for host_capable in [true, false] {
        let mut parts = Parts::default();
        parts.model.host_capable = host_capable;
        let bench = Bench::of(parts);
        let files = bench.udc.debugfs().expect("it runs");
        assert_eq!(file(&files, "registers").contains("OTGSC reg: "), host_capable);
    }
}

#[test]
fn what_is_shut_down_shows_nothing() {
    let mut bench = Bench::of(Parts::default());
    bench.udc.shutdown().expect("everything is given back");
    assert_eq!(bench.udc.debugfs(), Err(UdcError::NotConnected), "its dQHs are gone");
}
