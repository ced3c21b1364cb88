//! `cdc_ether`: the Ethernet control model (CDC ECM 1.2).

use usb::ch9::SetupPacket;
use usb::urb::UrbError;

use crate::bus::CONTROL_TIMEOUT;
use crate::device::Device;
use crate::net::NetError;
use crate::net::cdc::Function;
use crate::net::netdev::Driver;
use crate::net::usbnet::{ETHERNET_HEADER, Framing, Link, MTU};

/// SET_ETHERNET_PACKET_FILTER (CDC ECM 1.2 §6.2.4).
const SET_ETHERNET_PACKET_FILTER: u8 = 0x43;
const PACKET_TYPE_DIRECTED: u16 = 1 << 2;
const PACKET_TYPE_BROADCAST: u16 = 1 << 3;

/// `usbnet_cdc_bind`, after the interfaces are found.
pub(super) async fn bind(device: &Device, function: &Function) -> Result<Link, NetError> {
    let ethernet = function.ethernet.ok_or(NetError::BadDescriptors)?;
    // usbnet sets every alternate setting, also 0, unless the driver forbids it.
    device.set_interface(function.data, function.alternate).await?;
    let filter = PACKET_TYPE_DIRECTED | PACKET_TYPE_BROADCAST;
    let setup = SetupPacket::new(0x21, SET_ETHERNET_PACKET_FILTER, filter, function.control.into(), 0);
    // The filter is optional for devices: its result does not matter.
    let _ = device.control_out(setup, &[], CONTROL_TIMEOUT).await;
    let text = device.string(ethernet.mac_index).await.ok_or(UrbError::Invalid)?;
    let mac = parse_mac(&text).ok_or(UrbError::Invalid)?;
    let hard_mtu = match ethernet.max_segment_size.get() {
        0 => MTU + ETHERNET_HEADER,
        size => size.into(),
    };
    let mtu = MTU.min(hard_mtu.saturating_sub(ETHERNET_HEADER));
    Ok(Link { driver: Driver::CdcEther, framing: Framing::Plain, mac, mtu, hard_mtu, rx_urb_size: hard_mtu })
}

/// Twelve hexadecimal digits (CDC ECM 1.2 §5.4).
fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let digits = text.as_bytes();
    if digits.len() != 12 {
        return None;
    }
    let mut mac = [0; 6];
    for (byte, pair) in mac.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_twelve_digits() {
        assert_eq!(parse_mac("02aaBBccDD0e"), Some([0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0x0e]));
        for wrong in ["", "02aabbccdde", "02aabbccddeeff", "02aabbccddg0", "éééééé"] {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
    }
}
