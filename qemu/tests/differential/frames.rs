//! Ethernet frames that are sent once each: an IP stack would send again what a slow board does not answer in time.

use std::time::Duration;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet,
    Icmpv4Repr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr,
};
use tokio::time::timeout;
use usb_host::net::NetDevice;

const HOST: Ipv4Address = Ipv4Address::new(192, 168, 7, 1);
const BOARD: Ipv4Address = Ipv4Address::new(192, 168, 7, 2);
/// What an echo request carries: with its headers 512 bytes, full packets at either speed, so that the board has to end its
/// answer with an empty one.
const PAYLOAD: [u8; 470] = [0x5a; 470];
/// No board is that slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks for the board's Ethernet address, then sends an echo request there.
pub(crate) async fn ping(network: &NetDevice) -> Result<(), String> {
    let host = EthernetAddress(network.mac());
    let answer = exchange(network, &arp_request(host)).await?;
    let board = sender(&answer).ok_or_else(|| format!("no ARP reply: {answer:02x?}"))?;
    let answer = exchange(network, &echo_request(host, board)).await?;
    if is_echo_reply(&answer) { Ok(()) } else { Err(format!("no echo reply: {answer:02x?}")) }
}

/// Sends a frame and waits for the next that comes.
async fn exchange(network: &NetDevice, frame: &[u8]) -> Result<Vec<u8>, String> {
    network.send(frame).map_err(|error| error.to_string())?;
    let answer = timeout(PATIENCE, network.recv()).await.ok().flatten();
    answer.ok_or_else(|| "a frame was not answered".to_owned())
}

fn frame(header: EthernetRepr, length: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; header.buffer_len() + length];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    header.emit(&mut frame);
    fill(frame.payload_mut());
    bytes
}

fn arp_request(host: EthernetAddress) -> Vec<u8> {
    let (dst_addr, ethertype) = (EthernetAddress::BROADCAST, EthernetProtocol::Arp);
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: host,
        source_protocol_addr: HOST,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: BOARD,
    };
    let header = EthernetRepr { src_addr: host, dst_addr, ethertype };
    frame(header, request.buffer_len(), |bytes| request.emit(&mut ArpPacket::new_unchecked(bytes)))
}

fn echo_request(host: EthernetAddress, board: EthernetAddress) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data: &PAYLOAD };
    let (next_header, payload_len) = (IpProtocol::Icmp, echo.buffer_len());
    let packet = Ipv4Repr { src_addr: HOST, dst_addr: BOARD, next_header, payload_len, hop_limit: 64 };
    let header = EthernetRepr { src_addr: host, dst_addr: board, ethertype: EthernetProtocol::Ipv4 };
    frame(header, packet.buffer_len() + payload_len, |bytes| {
        let mut ip = Ipv4Packet::new_unchecked(bytes);
        packet.emit(&mut ip, &checksums);
        echo.emit(&mut Icmpv4Packet::new_unchecked(ip.payload_mut()), &checksums);
    })
}

/// Who answered an ARP request.
fn sender(answer: &[u8]) -> Option<EthernetAddress> {
    let packet = ArpPacket::new_checked(EthernetFrame::new_checked(answer).ok()?.payload()).ok()?;
    match ArpRepr::parse(&packet).ok()? {
        ArpRepr::EthernetIpv4 { operation: ArpOperation::Reply, source_hardware_addr, .. } => {
            Some(source_hardware_addr)
        }
        _ => None,
    }
}

fn is_echo_reply(answer: &[u8]) -> bool {
    let parsed = || {
        let ip = Ipv4Packet::new_checked(EthernetFrame::new_checked(answer).ok()?.payload()).ok()?;
        let echo = Icmpv4Packet::new_checked(ip.payload()).ok()?;
        let reply = Icmpv4Repr::parse(&echo, &ChecksumCapabilities::default()).ok()?;
        Some(matches!(reply, Icmpv4Repr::EchoReply { data, .. } if data == PAYLOAD))
    };
    parsed() == Some(true)
}
