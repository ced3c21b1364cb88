//! Fastboot sessions.

use gadgets::fastboot::{Event, FastbootConfig, FastbootGadget};
use usb::ch9::{DescriptorType, string_text};
use usb::gadget::{Completion, End, RequestError, Stall};
use usb::{EndpointAddress, Gadget, SetupPacket, Speed};

use crate::host::Host;

const OUT: EndpointAddress = EndpointAddress::out(1);
const IN: EndpointAddress = EndpointAddress::r#in(1);

fn bootloader(speed: Speed) -> Host<FastbootGadget> {
    let mut host = Host::new(FastbootGadget::new(FastbootConfig::default()), speed);
    host.set_configuration(1).unwrap();
    host
}

/// All responses that wait.
fn responses(host: &mut Host<FastbootGadget>) -> Vec<String> {
    std::iter::from_fn(|| host.receive(1)).map(|bytes| String::from_utf8(bytes).unwrap()).collect()
}

fn command(host: &mut Host<FastbootGadget>, command: &str) -> Vec<String> {
    assert!(host.send(1, command.as_bytes()), "no room for a command");
    responses(host)
}

fn one(host: &mut Host<FastbootGadget>, text: &str) -> String {
    let mut all = command(host, text);
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all.remove(0)
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn it_looks_as_recorded() {
    let mut host = Host::new(FastbootGadget::new(FastbootConfig::default()), Speed::High);
    let device = host.control(SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 18), &[]).unwrap();
    assert_eq!(device, [18, 1, 0, 2, 0, 0, 0, 64, 0xd1, 0x18, 0x0d, 0xd0, 0, 1, 1, 2, 3, 1]);
    for (index, text) in [(1, "Google"), (2, "Android"), (3, "0123abcd"), (4, "fastboot")] {
        let setup = SetupPacket::get_descriptor(DescriptorType::String, index, 0x0409, 255);
        assert_eq!(string_text(&host.control(setup, &[]).unwrap()), text);
    }
    let configuration = SetupPacket::get_descriptor(DescriptorType::Configuration, 0, 0, 255);
    let expected = |packet: [u8; 2]| {
        let [low, high] = packet;
        let header = [9, 2, 32, 0, 1, 1, 0, 0x80, 0x80, 9, 4, 0, 0, 2, 0xff, 0x42, 0x03, 4];
        [&header[..], &[7, 5, 0x81, 2, low, high, 0, 7, 5, 0x01, 2, low, high, 0]].concat()
    };
    assert_eq!(host.control(configuration, &[]).unwrap(), expected([0, 2]));
    host.reset(Speed::Full);
    assert_eq!(host.control(configuration, &[]).unwrap(), expected([64, 0]));
    assert_eq!(host.set_configuration(2), Err(Stall));
}

#[test]
fn variables_are_told() {
    let mut host = bootloader(Speed::Full);
    assert_eq!(one(&mut host, "getvar:version"), "OKAY0.4");
    assert_eq!(one(&mut host, "getvar:product"), "OKAYmsm8916");
    assert_eq!(one(&mut host, "getvar:serialno"), "OKAY0123abcd");
    assert_eq!(one(&mut host, "getvar:max-download-size"), "OKAY0x4000000");
    assert_eq!(one(&mut host, "getvar:partition-size:boot"), "OKAY0x2000000");
    assert_eq!(one(&mut host, "getvar:colour"), "FAILunknown variable");
    assert_eq!(one(&mut host, "getvar:"), "FAILunknown variable");
    let all = command(&mut host, "getvar:all");
    assert_eq!(all[..2], ["INFOversion: 0.4", "INFOproduct: msm8916"]);
    assert_eq!(all.last().unwrap(), "OKAY");
    assert_eq!(all.len(), 4 + 4 + 1);
}

#[test]
fn wrong_commands_fail_with_a_clear_text() {
    let mut host = bootloader(Speed::High);
    for (text, failure) in [
        ("frobnicate", "FAILunknown command"),
        ("boot:now", "FAILunknown command"),
        ("download:123", "FAILdownload needs 8 hex digits"),
        ("download:+1234567", "FAILdownload needs 8 hex digits"),
        ("download:123456789", "FAILdownload needs 8 hex digits"),
        ("download:00000000", "FAILnothing to download"),
        ("download:04000001", "FAIL0x4000001 bytes, max-download-size is 0x4000000"),
        ("flash:boot", "FAILno image was downloaded"),
        ("flash:cellar", "FAILno such partition"),
        ("erase:cellar", "FAILno such partition"),
        ("boot", "FAILno image was downloaded"),
        ("get\u{e4}var", "FAILcommand is not ASCII"),
        ("getvar:\n", "FAILcommand is not ASCII"),
    ] {
        assert_eq!(one(&mut host, text), failure, "{text}");
    }
    assert_eq!(one(&mut host, &"x".repeat(65)), "FAILcommand of 65 bytes, at most 64 allowed");
    assert_eq!(one(&mut host, &"x".repeat(64)), "FAILunknown command");
    assert_eq!(command(&mut host, ""), [""; 0], "an empty packet is no command");
    assert_eq!(one(&mut host, "getvar:version"), "OKAY0.4");
    assert_eq!(host.gadget.take_event(), None);
}

#[test]
fn a_download_of_8_mib_is_flashed_and_booted() {
    for speed in [Speed::Full, Speed::High] {
        let mut host = bootloader(speed);
        let image = data(8 << 20);
        assert_eq!(one(&mut host, "download:00800000"), "DATA00800000");
        assert_eq!(host.udc.depth(OUT), 4);
        assert!(host.send_stream(1, &image));
        assert_eq!(responses(&mut host), ["OKAY"]);
        assert_eq!(one(&mut host, "flash:aboot"), "FAILimage of 8388608 bytes, partition of 1048576");
        assert_eq!(one(&mut host, "flash:recovery"), "OKAY");
        assert!(host.gadget.storage().read("recovery") == Some(&image), "the partition differs from the image");
        assert_eq!(one(&mut host, "erase:recovery"), "OKAY");
        assert_eq!(host.gadget.storage().read("recovery"), Some(&[][..]));

        assert!(host.send(1, b"boot"));
        assert_eq!(host.gadget.take_event(), None, "the host has not heard of it yet");
        assert_eq!(responses(&mut host), ["OKAY"]);
        assert!(host.gadget.take_event() == Some(Event::Boot(image)));
        assert_eq!(host.gadget.take_event(), None);
        assert_eq!(host.udc.depth(OUT), 0, "the bootloader takes no more commands");
        assert_eq!(host.udc.violations, [""; 0]);
    }
}

#[test]
fn a_machine_is_told_once_how_the_bootloader_ends() {
    for (text, end) in [("reboot", End::Restart), ("reboot-bootloader", End::Restart), ("continue", End::Start)] {
        let mut host = bootloader(Speed::High);
        assert!(host.send(1, text.as_bytes()));
        assert_eq!(host.gadget.end(), None, "the host has not heard of it yet");
        assert_eq!(responses(&mut host), ["OKAY"]);
        assert_eq!(host.gadget.end(), Some(end), "{text}");
        assert_eq!(host.gadget.end(), None);
    }
}

/// Header of a sparse image with that many blocks of 4 KiB, and no chunk.
fn sparse(blocks: u32) -> Vec<u8> {
    let version_and_sizes = [1_u16, 0, 28, 12].map(u16::to_le_bytes).concat();
    let counts = [4096, blocks, 0, 0].map(u32::to_le_bytes).concat();
    [&0xed26_ff3a_u32.to_le_bytes()[..], &version_and_sizes, &counts].concat()
}

#[test]
fn a_sparse_image_is_held_against_the_partition_as_it_is_unpacked() {
    const BOOT: u32 = (32 << 20) / 4096;
    let mut host = bootloader(Speed::High);
    for (blocks, answer) in [
        (BOOT, "OKAY"),
        (BOOT + 1, "FAILimage of 33558528 bytes, partition of 33554432"),
        (u32::MAX, "FAILimage of 17592186040320 bytes, partition of 33554432"),
    ] {
        assert_eq!(one(&mut host, "download:0000001c"), "DATA0000001c");
        assert!(host.send_stream(1, &sparse(blocks)));
        assert_eq!(responses(&mut host), ["OKAY"]);
        assert_eq!(one(&mut host, "flash:boot"), answer);
        assert!(host.gadget.storage().read("boot") == Some(&sparse(BOOT)), "a refused image changes nothing");
    }
}

#[test]
fn requests_are_whole_packets_and_none_is_left_over() {
    for speed in [Speed::Full, Speed::High] {
        let packet = if speed == Speed::High { 512 } else { 64 };
        for length in [1, 63, 64, 65, 511, 512, 513, 16383, 16384, 16385, 81920, 81921] {
            for chunk in [1, 7, 64, 100, 512, 4096, 16384, 1 << 20] {
                // Smaller chunks only for short images.
                if length / chunk > 3000 {
                    continue;
                }
                let mut host = bootloader(speed);
                let image = data(length);
                assert_eq!(one(&mut host, &format!("download:{length:08x}")), format!("DATA{length:08x}"));
                for part in image.chunks(chunk) {
                    assert!(host.udc.queued[&OUT].iter().all(|request| request.data.len() % packet == 0));
                    assert!(host.send_stream(1, part), "{length} bytes in chunks of {chunk}");
                }
                assert_eq!(responses(&mut host), ["OKAY"], "{length} bytes in chunks of {chunk}");
                assert!(host.gadget.image() == image);
                assert_eq!(host.udc.depth(OUT), 1, "one request for the next command");
            }
        }
    }
}

#[test]
fn more_data_than_announced_fails() {
    let mut host = bootloader(Speed::High);
    assert_eq!(one(&mut host, "download:00000064"), "DATA00000064");
    assert!(host.send(1, &data(101)));
    assert_eq!(responses(&mut host), ["FAIL101 bytes received, 100 announced"]);
    assert_eq!(one(&mut host, "flash:boot"), "FAILno image was downloaded");
}

#[test]
fn a_broken_transfer_fails_the_download() {
    let mut host = bootloader(Speed::High);
    assert_eq!(one(&mut host, "download:00100000"), "DATA00100000");
    assert!(host.send(1, &data(16384)));
    let request = host.udc.queued.get_mut(&OUT).unwrap().pop_front().unwrap();
    host.udc.back.push_back(Completion { endpoint: OUT, request, status: Err(RequestError::Protocol) });
    host.deliver();
    assert_eq!(responses(&mut host), ["FAILdownload failed after 16384 bytes"]);
    host.step();
    assert_eq!(one(&mut host, "boot"), "FAILno image was downloaded");
}

#[test]
fn each_end_has_its_event() {
    for (text, event) in
        [("continue", Event::Continue), ("reboot", Event::Reboot), ("reboot-bootloader", Event::RebootBootloader)]
    {
        let mut host = bootloader(Speed::Full);
        assert_eq!(one(&mut host, text), "OKAY");
        assert_eq!(host.gadget.take_event(), Some(event));
    }
}

#[test]
fn a_cable_pulled_before_the_answer_leaves_the_bootloader_running() {
    let mut host = bootloader(Speed::Full);
    assert!(host.send(1, b"reboot"));
    host.gadget.disconnect(&mut host.udc);
    host.deliver();
    assert_eq!(host.gadget.take_event(), None);
    host.reset(Speed::Full);
    host.set_configuration(1).unwrap();
    assert_eq!(one(&mut host, "getvar:version"), "OKAY0.4");
}

#[test]
fn a_bus_reset_in_a_download_forgets_it() {
    let mut host = bootloader(Speed::High);
    assert_eq!(one(&mut host, "download:00100000"), "DATA00100000");
    assert!(host.send(1, &data(16384)));
    host.reset(Speed::Full);
    host.set_configuration(1).unwrap();
    assert_eq!((host.udc.depth(OUT), host.udc.depth(IN)), (1, 0));
    assert_eq!(host.udc.queued[&OUT][0].data.len(), 64);
    assert_eq!(one(&mut host, "boot"), "FAILno image was downloaded");
    assert_eq!(host.udc.violations, [""; 0]);
}

#[test]
fn a_host_that_never_reads_is_held_off() {
    let mut host = bootloader(Speed::Full);
    let mut sent = 0;
    while host.send(1, b"getvar:version") {
        sent += 1;
        assert!(sent < 1000);
    }
    assert_eq!(sent, 64);
    assert_eq!(responses(&mut host).len(), 64);
    assert_eq!(one(&mut host, "getvar:version"), "OKAY0.4");
}

#[test]
fn a_controller_without_memory_is_asked_again_in_the_next_step() {
    let mut host = bootloader(Speed::Full);
    host.udc.exhausted = true;
    assert!(host.send(1, b"getvar:all"));
    assert_eq!((host.udc.depth(OUT), host.udc.depth(IN)), (0, 0));
    host.step();
    assert_eq!((host.udc.depth(OUT), host.udc.depth(IN)), (0, 0));
    host.udc.exhausted = false;
    host.step();
    let all = responses(&mut host);
    assert_eq!((all[0].as_str(), all[8].as_str(), all.len()), ("INFOversion: 0.4", "OKAY", 9));
    assert!(host.send(1, b"reboot"));
    assert_eq!(responses(&mut host), ["OKAY"]);
    assert_eq!(host.gadget.take_event(), Some(Event::Reboot));
}

#[test]
fn what_comes_back_from_an_earlier_configuration_is_over() {
    let mut host = bootloader(Speed::Full);
    host.hold_back(OUT, 3);
    host.set_configuration(1).unwrap();
    host.step();
    assert_eq!((host.udc.depth(OUT), host.udc.depth(IN)), (1, 0));
    assert_eq!(one(&mut host, "download:00100000"), "DATA00100000");
    host.set_configuration(1).unwrap();
    host.step();
    assert_eq!((host.udc.depth(OUT), host.udc.depth(IN)), (1, 0));
    assert_eq!(one(&mut host, "getvar:version"), "OKAY0.4");
}
