//! Unmodified rusb programs talk to simulated boards, in plain `cargo test`.
//!
//! Every test has a bus number of its own: all tests of a program share what libusb sees.
#![cfg(target_os = "linux")]

use std::sync::{Arc, mpsc};
use std::time::Duration;

use gadgets::source_sink::{BULK_IN, BULK_OUT, SourceSinkConfig, SourceSinkGadget};
use gadgets::{EthernetConfig, EthernetGadget, FastbootConfig, FastbootGadget};
use rusb::{Context, Device, DeviceHandle, Error, Hotplug, HotplugBuilder, UsbContext};
use rusb_async::TransferPool;
use scenarios::{Absence, Bench, Shared, VirtualBoard, VirtualBus, policy};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4Packet, Icmpv4Repr,
    IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr,
};
use usb::gadget::Gadget;

/// Nothing here takes that long; a test that would hang fails.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

/// A board with its bus, and the device as rusb finds it.
fn plugged(port: &str, gadget: impl Gadget + 'static) -> (VirtualBus, VirtualBoard, Device<Context>) {
    let bus = VirtualBus::start().expect("a bus");
    let bench = Bench::new().port(port.parse().expect("a port"));
    let board = bus.plug(bench, gadget).expect("the board is set up");
    let (number, address) = board.wait(LONG).expect("the device comes");
    let device = find(number, address).expect("rusb lists the device");
    (bus, board, device)
}

fn find(bus: u8, address: u8) -> Option<Device<Context>> {
    let devices = Context::new().expect("libusb starts").devices().expect("libusb lists devices");
    devices.iter().find(|device| (device.bus_number(), device.address()) == (bus, address))
}

fn claimed(device: &Device<Context>, interface: u8) -> DeviceHandle<Context> {
    let handle = device.open().expect("the device opens");
    handle.claim_interface(interface).expect("the interface is free");
    handle
}

#[test]
fn the_ethernet_gadget_is_what_was_recorded() {
    let (_bus, _board, device) = plugged("11-1.3", EthernetGadget::new(EthernetConfig::default()));
    assert_eq!(device.port_numbers(), Ok(vec![1, 3]));
    assert_eq!(device.speed(), rusb::Speed::High);
    let descriptor = device.device_descriptor().expect("a device descriptor");
    assert_eq!((descriptor.vendor_id(), descriptor.product_id()), (0x0525, 0xa4a2));
    assert_eq!(descriptor.num_configurations(), 2);
    let handle = device.open().expect("the device opens");
    assert_eq!(handle.read_product_string_ascii(&descriptor), Ok("RNDIS/Ethernet Gadget".to_owned()));
    assert_eq!(handle.read_manufacturer_string_ascii(&descriptor), Ok("Linux 6.2.0-rc4 with ci_hdrc_msm".to_owned()));
    let rndis = device.config_descriptor(0).expect("the first configuration");
    assert_eq!((rndis.number(), rndis.total_length(), rndis.num_interfaces()), (2, 75, 2));
    let active = device.active_config_descriptor().expect("an active configuration");
    assert_eq!(active.number(), 1, "Linux passes an RNDIS configuration over when there is another");
}

#[test]
fn every_descriptor_of_the_ethernet_gadget() {
    let (_bus, _board, device) = plugged("19-1.3", EthernetGadget::new(EthernetConfig::default()));
    let mut text = format!("{:#?}\n", device.device_descriptor().expect("a device descriptor"));
    for index in 0..2 {
        let configuration = device.config_descriptor(index).expect("a configuration");
        text += &format!("{configuration:#?}\nextra: {:02x?}\n", configuration.extra());
        for interface in configuration.interfaces() {
            for setting in interface.descriptors() {
                text += &format!("{setting:#?}\nextra: {:02x?}\n", setting.extra());
                for endpoint in setting.endpoint_descriptors() {
                    text += &format!("{endpoint:#?}\n");
                }
            }
        }
    }
    insta::assert_snapshot!("ethernet_gadget_descriptors", text);
}

/// RNDIS as a host speaks it: `words` are a message's, little-endian.
fn message(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Sends an RNDIS command and gets its answer: status, and what follows the common 16 bytes.
fn command(handle: &DeviceHandle<Context>, words: &[u32]) -> (u32, Vec<u8>) {
    let command = message(words);
    assert_eq!(handle.write_control(0x21, 0, 0, 0, &command, LONG), Ok(command.len()));
    let mut notification = [0; 8];
    assert_eq!(handle.read_interrupt(0x82, &mut notification, LONG), Ok(8));
    assert_eq!(notification, [1, 0, 0, 0, 0, 0, 0, 0], "RESPONSE_AVAILABLE");
    let mut answer = vec![0; 1025];
    let length = handle.read_control(0xa1, 1, 0, 0, &mut answer, LONG).expect("an answer");
    answer.truncate(length);
    assert_eq!(answer[..4], (words[0] | 0x8000_0000).to_le_bytes(), "the completion of this command");
    assert_eq!(answer[8..12], words[2].to_le_bytes(), "the request's own number");
    let status = u32::from_le_bytes(answer[12..16].try_into().expect("four bytes"));
    (status, answer.split_off(16))
}

#[test]
fn the_rndis_handshake_and_a_ping_by_rusb_alone() {
    let (_bus, _board, device) = plugged("12-1.3", EthernetGadget::new(EthernetConfig::default()));
    let handle = device.open().expect("the device opens");
    handle.set_active_configuration(2).expect("RNDIS is selected");
    handle.claim_interface(0).expect("the control interface is free");
    handle.claim_interface(1).expect("the data interface is free");
    // INITIALIZE 1.0 with 16 KiB; the permanent address; the packet filter.
    let (status, limits) = command(&handle, &[2, 24, 1, 1, 0, 0x4000]);
    assert_eq!((status, limits.len()), (0, 52 - 16));
    let (status, address) = command(&handle, &[4, 28, 2, 0x0101_0101, 0, 0, 0]);
    let mac = EthernetConfig::default().host_mac;
    assert_eq!((status, &address[8..]), (0, &mac[..]));
    assert_eq!(command(&handle, &[5, 32, 3, 0x0001_010e, 4, 20, 0, 0x2d]).0, 0);

    let host = Host { handle, mac };
    let board = host.resolve();
    let data = b"a ping by rusb alone";
    assert_eq!(host.ping(board, data), data);
}

/// An Ethernet host of a few lines behind RNDIS.
struct Host {
    handle: DeviceHandle<Context>,
    mac: [u8; 6],
}

const HOST: Ipv4Address = Ipv4Address::new(192, 168, 7, 1);
const BOARD: Ipv4Address = Ipv4Address::new(192, 168, 7, 2);

impl Host {
    fn send(&self, to: EthernetAddress, ethertype: EthernetProtocol, length: usize, fill: impl FnOnce(&mut [u8])) {
        let mut frame = vec![0; 14 + length];
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame);
        ethernet.set_dst_addr(to);
        ethernet.set_src_addr(EthernetAddress(self.mac));
        ethernet.set_ethertype(ethertype);
        fill(ethernet.payload_mut());
        // REMOTE_NDIS_PACKET_MSG: type, length, data offset from the offset's own place, data length.
        let mut packet = message(&[1, 44 + frame.len() as u32, 36, frame.len() as u32, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(frame);
        assert_eq!(self.handle.write_bulk(1, &packet, LONG), Ok(packet.len()));
    }

    fn receive(&self) -> Vec<u8> {
        let mut packet = vec![0; 2048];
        let length = self.handle.read_bulk(0x81, &mut packet, LONG).expect("a frame");
        packet.truncate(length);
        assert_eq!(packet[..4], [1, 0, 0, 0], "REMOTE_NDIS_PACKET_MSG");
        let data = u32::from_le_bytes(packet[12..16].try_into().expect("four bytes")) as usize;
        packet[44..44 + data].to_vec()
    }

    fn resolve(&self) -> EthernetAddress {
        let request = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: EthernetAddress(self.mac),
            source_protocol_addr: HOST,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: BOARD,
        };
        self.send(EthernetAddress::BROADCAST, EthernetProtocol::Arp, request.buffer_len(), |payload| {
            request.emit(&mut ArpPacket::new_unchecked(payload));
        });
        let frame = self.receive();
        let packet = ArpPacket::new_checked(&frame[14..]).expect("an ARP packet");
        match ArpRepr::parse(&packet).expect("an ARP packet of IPv4") {
            ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Reply,
                source_hardware_addr,
                source_protocol_addr,
                ..
            } => {
                assert_eq!(source_protocol_addr, BOARD);
                source_hardware_addr
            }
            other => panic!("{other:?}"),
        }
    }

    fn ping(&self, board: EthernetAddress, data: &[u8]) -> Vec<u8> {
        let checksums = ChecksumCapabilities::default();
        let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data };
        let ip = Ipv4Repr {
            src_addr: HOST,
            dst_addr: BOARD,
            next_header: IpProtocol::Icmp,
            payload_len: echo.buffer_len(),
            hop_limit: 64,
        };
        self.send(board, EthernetProtocol::Ipv4, ip.buffer_len() + echo.buffer_len(), |payload| {
            let mut packet = Ipv4Packet::new_unchecked(payload);
            ip.emit(&mut packet, &checksums);
            echo.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &checksums);
        });
        let frame = self.receive();
        let packet = Ipv4Packet::new_checked(&frame[14..]).expect("an IPv4 packet");
        let reply = Icmpv4Packet::new_checked(packet.payload()).expect("an ICMP packet");
        match Icmpv4Repr::parse(&reply, &checksums).expect("a sound ICMP packet") {
            Icmpv4Repr::EchoReply { ident: 1, seq_no: 1, data } => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

/// What hot-plug told: arrived or left, bus, address.
struct Heard(mpsc::Sender<(bool, u8, u8)>);

impl Hotplug<Context> for Heard {
    fn device_arrived(&mut self, device: Device<Context>) {
        let _ = self.0.send((true, device.bus_number(), device.address()));
    }

    fn device_left(&mut self, device: Device<Context>) {
        let _ = self.0.send((false, device.bus_number(), device.address()));
    }
}

#[test]
fn hot_plug_tells_of_a_board_both_ways() {
    assert!(rusb::has_hotplug());
    let context = Context::new().expect("libusb starts");
    let (sender, heard) = mpsc::channel();
    let registration = HotplugBuilder::new().enumerate(false).register(&context, Box::new(Heard(sender)));
    let _registration = registration.expect("hot-plug is there");
    let wait = |wanted: (bool, u8, u8)| {
        let end = std::time::Instant::now() + LONG;
        loop {
            assert!(std::time::Instant::now() < end, "{wanted:?} was not heard of");
            context.handle_events(Some(SHORT)).expect("libusb handles events");
            if heard.try_iter().any(|event| event == wanted) {
                return;
            }
        }
    };
    let bus = VirtualBus::start().expect("a bus");
    let bench = Bench::new().port("20-1.3".parse().expect("a port"));
    let board = bus.plug(bench, FastbootGadget::new(FastbootConfig::default())).expect("the board is set up");
    // The hubs of the bus come with their first device: it is the device's own arrival that counts.
    let (number, address) = board.wait(LONG).expect("the device comes");
    wait((true, number, address));
    board.unplug();
    wait((false, number, address));
}

#[test]
fn a_fastboot_flash_of_32_mib_arrives_whole() {
    const IMAGE: usize = 32 << 20;
    let loader = Shared::new(FastbootGadget::new(FastbootConfig::default()));
    let (_bus, _board, device) = plugged("13-1.3", loader.clone());
    let handle = claimed(&device, 0);
    let say = |command: &str| say(&handle, command.as_bytes());
    assert_eq!(say("getvar:product"), "OKAYmsm8916");
    assert_eq!(say(&format!("download:{IMAGE:08x}")), format!("DATA{IMAGE:08x}"));
    let image: Vec<u8> = (0..IMAGE).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    for part in image.chunks(1 << 20) {
        assert_eq!(handle.write_bulk(1, part, LONG), Ok(part.len()));
    }
    let mut answer = [0; 512];
    assert_eq!(handle.read_bulk(0x81, &mut answer, LONG), Ok(4));
    assert_eq!(&answer[..4], b"OKAY");
    assert_eq!(say("flash:boot"), "OKAY");
    assert!(loader.with(|gadget| gadget.storage().read("boot").is_some_and(|stored| stored == image)));
}

#[test]
fn a_transfer_without_an_answer_times_out_and_the_next_one_works() {
    let (_bus, _board, device) = plugged("14-1.3", FastbootGadget::new(FastbootConfig::default()));
    let handle = claimed(&device, 0);
    let mut buffer = [0; 512];
    assert_eq!(handle.read_bulk(0x81, &mut buffer, SHORT), Err(Error::Timeout));
    assert_eq!(handle.write_bulk(1, b"getvar:version", LONG), Ok(14));
    let length = handle.read_bulk(0x81, &mut buffer, LONG).expect("an answer");
    assert_eq!(&buffer[..length], b"OKAY0.4");
}

/// Asynchronous transfers by the rusb project's own crate for them.
#[test]
fn cancelled_transfers_end_so_and_take_nothing_with_them() {
    let (_bus, _board, device) = plugged("23-1.3", FastbootGadget::new(FastbootConfig::default()));
    let handle = Arc::new(claimed(&device, 0));
    let mut reads = TransferPool::new(Arc::clone(&handle)).expect("a pool of transfers");
    for round in 0..20 {
        for _ in 0..8 {
            reads.submit_bulk(0x81, Vec::with_capacity(512)).expect("the read is taken");
        }
        if round % 2 == 0 {
            // The first read of all gets the answer, and no other.
            assert_eq!(handle.write_bulk(1, b"getvar:version", LONG), Ok(14));
            assert_eq!(reads.poll(LONG).expect("the answer"), b"OKAY0.4");
        }
        reads.cancel_all();
        while reads.pending() > 0 {
            let ended = reads.poll(LONG).expect_err("nobody sends anything");
            assert_eq!(ended.to_string(), "Transfer was cancelled");
        }
    }
    let mut buffer = [0; 512];
    assert_eq!(handle.write_bulk(1, b"getvar:version", LONG), Ok(14));
    assert_eq!(handle.read_bulk(0x81, &mut buffer, LONG), Ok(7));
    assert_eq!(&buffer[..7], b"OKAY0.4");
}

#[test]
fn a_halted_endpoint_stalls_until_it_is_cleared() {
    let (_bus, _board, device) = plugged("15-1.3", SourceSinkGadget::new(SourceSinkConfig::default()));
    let handle = claimed(&device, 0);
    let source = BULK_IN.address().to_byte();
    // SET_FEATURE(ENDPOINT_HALT)
    assert_eq!(handle.write_control(0x02, 3, 0, u16::from(source), &[], LONG), Ok(0));
    let mut buffer = [1; 512];
    assert_eq!(handle.read_bulk(source, &mut buffer, LONG), Err(Error::Pipe));
    assert_eq!(handle.clear_halt(source), Ok(()));
    assert_eq!(handle.read_bulk(source, &mut buffer, LONG), Ok(512));
    assert_eq!(buffer, [0; 512]);
}

#[test]
fn a_device_that_is_unplugged_is_gone_and_comes_back_as_another() {
    let (_bus, board, device) = plugged("16-1.3", SourceSinkGadget::new(SourceSinkConfig::default()));
    let handle = claimed(&device, 0);
    board.unplug();
    let mut buffer = [0; 512];
    let end = loop {
        match handle.read_bulk(BULK_IN.address().to_byte(), &mut buffer, LONG) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(end, Error::NoDevice | Error::Io), "{end:?}");
    board.wait_gone(LONG).expect("the device goes");
    assert!(find(16, device.address()).is_none());
    board.plug();
    let (bus, address) = board.wait(LONG).expect("the device comes back");
    assert_ne!(address, device.address());
    let handle = claimed(&find(bus, address).expect("rusb lists the device"), 0);
    assert_eq!(handle.read_bulk(BULK_IN.address().to_byte(), &mut buffer, LONG), Ok(512));
}

#[test]
fn eight_boards_serve_two_threads_each() {
    let bus = VirtualBus::start().expect("a bus");
    let boards: Vec<_> = (1..=8)
        .map(|port| {
            let bench = Bench::new().endpoints(4).port(format!("17-1.{port}").parse().expect("a port"));
            bus.plug(bench, SourceSinkGadget::new(SourceSinkConfig::default())).expect("the board is set up")
        })
        .collect();
    std::thread::scope(|scope| {
        for board in &boards {
            let (number, address) = board.wait(LONG).expect("the device comes");
            let device = find(number, address).expect("rusb lists the device");
            let handle = Arc::new(claimed(&device, 0));
            let reader = Arc::clone(&handle);
            scope.spawn(move || {
                let mut buffer = [1; 512];
                for _ in 0..50 {
                    assert_eq!(reader.read_bulk(BULK_IN.address().to_byte(), &mut buffer, LONG), Ok(512));
                    assert_eq!(buffer, [0; 512]);
                }
            });
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(handle.write_bulk(BULK_OUT.address().to_byte(), &[0; 512], LONG), Ok(512));
                }
            });
        }
    });
}

#[test]
fn with_the_pool_of_2023_no_device_appears_and_the_log_says_why() {
    let bus = VirtualBus::start().expect("a bus");
    let policy = policy::by_name("linked-descending").expect("a pool of the table");
    let bench = Bench::new().pool(policy).port("18-1.3".parse().expect("a port"));
    let board = bus.plug(bench, SourceSinkGadget::new(SourceSinkConfig::default())).expect("the board is set up");
    let error = "usb 18-1.3: device descriptor read/64, error -110";
    // High speed: the host's first try takes five seconds.
    let end = std::time::Instant::now() + LONG;
    while !board.log().iter().any(|line| line.text == error) {
        assert!(std::time::Instant::now() < end, "{:#?}", board.log());
        assert!(board.wait(SHORT).is_err(), "no device comes");
    }
    assert!(find(18, 3).is_none());
    let reasons = board.reasons();
    assert!(reasons[0].starts_with("ENDPTLISTADDR = 0x80000fc0"), "{reasons:#?}");
    assert!(reasons[3].ends_with("(no IOS, no interrupt): device descriptor read/64, error -110"), "{reasons:#?}");
}

/// What fastboot answers.
fn say(handle: &DeviceHandle<Context>, command: &[u8]) -> String {
    assert_eq!(handle.write_bulk(1, command, LONG), Ok(command.len()));
    let mut answer = [0; 512];
    let length = handle.read_bulk(0x81, &mut answer, LONG).expect("an answer");
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// The device that comes next, at another address than `gone`.
fn next(board: &VirtualBoard, gone: &Device<Context>) -> Device<Context> {
    board.wait_gone(LONG).expect("the device goes");
    let (bus, address) = board.wait(LONG).expect("a device comes");
    assert_ne!(address, gone.address());
    find(bus, address).expect("rusb lists the device")
}

fn ids(device: &Device<Context>) -> (u16, u16) {
    let descriptor = device.device_descriptor().expect("a device descriptor");
    (descriptor.vendor_id(), descriptor.product_id())
}

#[test]
fn a_boot_loader_that_is_alone_comes_back_at_a_new_address_with_its_flash() {
    let loader = Shared::new(FastbootGadget::new(FastbootConfig::default()));
    let (_bus, board, mut device) = plugged("24-1.3", loader.clone());
    let handle = claimed(&device, 0);
    assert_eq!(say(&handle, b"download:00000005"), "DATA00000005");
    assert_eq!(say(&handle, b"image"), "OKAY");
    assert_eq!(say(&handle, b"flash:boot"), "OKAY");
    drop(handle);
    assert_eq!(board.reasons(), [""; 0]);
    for command in ["reboot", "reboot-bootloader", "continue"] {
        assert_eq!(say(&claimed(&device, 0), command.as_bytes()), "OKAY");
        device = next(&board, &device);
        assert_eq!(ids(&device), (0x18d1, 0xd00d), "{command}");
        assert_eq!(say(&claimed(&device, 0), b"getvar:product"), "OKAYmsm8916", "{command}");
    }
    assert_eq!(loader.with(|gadget| gadget.storage().read("boot").map(<[u8]>::to_vec)), Some(b"image".to_vec()));
    let log = board.log();
    assert_eq!(log.iter().filter(|line| line.text.contains("USB disconnect, device number")).count(), 3, "{log:#?}");
    assert_eq!(board.reasons(), [""; 0], "a restart leaves nothing behind");
}

fn with_loader(bus: &VirtualBus, bench: Bench) -> (VirtualBoard, Device<Context>) {
    let loader = FastbootGadget::new(FastbootConfig::default());
    let system = EthernetGadget::new(EthernetConfig::default());
    let board = bus.plug_with_loader(bench, loader, system).expect("the board is set up");
    let (number, address) = board.wait(LONG).expect("the boot loader comes");
    let device = find(number, address).expect("rusb lists the device");
    assert_eq!(ids(&device), (0x18d1, 0xd00d));
    (board, device)
}

#[test]
fn a_boot_loader_starts_a_system() {
    let bus = VirtualBus::start().expect("a bus");
    for (port, commands) in [("25-1", &["continue"][..]), ("25-2", &["reboot", "download", "boot"])] {
        let (board, mut device) = with_loader(&bus, Bench::new().port(port.parse().expect("a port")));
        for command in commands {
            let handle = claimed(&device, 0);
            if *command == "download" {
                assert_eq!(say(&handle, b"download:00000005"), "DATA00000005");
                assert_eq!(say(&handle, b"image"), "OKAY");
                continue;
            }
            assert_eq!(say(&handle, command.as_bytes()), "OKAY");
            device = next(&board, &device);
        }
        assert_eq!(ids(&device), (0x0525, 0xa4a2), "{commands:?}");
        assert_eq!(board.reasons(), [""; 0]);
    }
}

#[test]
fn the_pool_under_test_is_the_systems() {
    let bus = VirtualBus::start().expect("a bus");
    let policy = policy::by_name("linked-descending").expect("a pool of the table");
    let (board, device) = with_loader(&bus, Bench::new().pool(policy).port("26-1".parse().expect("a port")));
    assert_eq!(board.reasons(), [""; 0], "the boot loader has a driver of its own");
    assert_eq!(say(&claimed(&device, 0), b"continue"), "OKAY");
    board.wait_gone(LONG).expect("the boot loader goes");
    let end = std::time::Instant::now() + LONG;
    while !board.log().iter().any(|line| line.text == "usb 26-1: device descriptor read/64, error -110") {
        assert!(std::time::Instant::now() < end, "{:#?}", board.log());
        assert!(board.wait(SHORT).is_err(), "no device comes");
    }
    assert!(board.reasons()[0].starts_with("ENDPTLISTADDR = "), "{:#?}", board.reasons());
}

#[test]
fn a_board_at_a_port_that_is_taken_is_said_to_be_there() {
    let (bus, first, device) = plugged("9-2", SourceSinkGadget::new(SourceSinkConfig::default()));
    let second = Bench::new().port("9-2".parse().unwrap());
    let second = bus.plug(second, SourceSinkGadget::new(SourceSinkConfig::default())).unwrap();
    for _ in 0..3 {
        let absence = second.wait(LONG).unwrap_err();
        assert_eq!(absence, Absence::Failed("9-2 has a device".to_owned()), "said as long as it is so");
    }
    assert_eq!(device.port_numbers(), Ok(vec![2]));
    drop(first);
    second.unplug();
    assert_eq!(second.wait(SHORT), Err(Absence::NotYet(SHORT)), "it is unplugged, and no more than that");
    second.plug();
    second.wait(LONG).expect("the port is free");
}
