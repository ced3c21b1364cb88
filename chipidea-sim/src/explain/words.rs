//! Numbers in words.

use usb::Direction;
use usb::ch9::{DescriptorType, Feature, Recipient, Request, RequestType, SetupPacket};

use crate::descriptor::{Capabilities, Token};
use crate::registers::{PortSc, UsbCmd, UsbMode, UsbSts, otgsc};

/// A SETUP packet by its name in chapter 9, with its bytes.
pub(super) fn setup(bytes: [u8; 8]) -> String {
    let packet = SetupPacket::from_bytes(bytes);
    let hex = bytes.map(|byte| format!("{byte:02x}")).join(" ");
    let name = match packet.kind() {
        RequestType::Standard => standard(&packet),
        RequestType::Class => format!("class request {:#04x}", packet.request),
        RequestType::Vendor => format!("vendor request {:#04x}", packet.request),
        RequestType::Reserved => format!("request {:#04x} of a reserved type", packet.request),
    };
    let stage = match (packet.direction(), packet.length.get()) {
        (_, 0) => "no data".to_owned(),
        (Direction::In, length) => format!("up to {length} bytes to the host"),
        (Direction::Out, length) => format!("{length} bytes to the device"),
    };
    format!("{name}, {stage} ({hex})")
}

fn standard(packet: &SetupPacket) -> String {
    let [index, kind] = packet.value.get().to_le_bytes();
    let value = packet.value.get();
    match Request(packet.request) {
        Request::GetDescriptor => format!("GET_DESCRIPTOR {}", descriptor(kind, index)),
        Request::SetDescriptor => format!("SET_DESCRIPTOR {}", descriptor(kind, index)),
        Request::SetAddress => format!("SET_ADDRESS {value}"),
        Request::SetConfiguration => format!("SET_CONFIGURATION {value}"),
        Request::GetConfiguration => "GET_CONFIGURATION".to_owned(),
        Request::SetInterface => format!("SET_INTERFACE {} setting {value}", packet.index.get()),
        Request::GetInterface => format!("GET_INTERFACE {}", packet.index.get()),
        Request::GetStatus => format!("GET_STATUS of {}", recipient(packet)),
        Request::SetFeature => format!("SET_FEATURE {} of {}", feature(value), recipient(packet)),
        Request::ClearFeature => format!("CLEAR_FEATURE {} of {}", feature(value), recipient(packet)),
        Request::SynchFrame => "SYNCH_FRAME".to_owned(),
        Request(other) => format!("standard request {other:#04x}"),
    }
}

fn descriptor(kind: u8, index: u8) -> String {
    match DescriptorType(kind) {
        DescriptorType::Device => "device".to_owned(),
        DescriptorType::Configuration => format!("configuration {index}"),
        DescriptorType::String => format!("string {index}"),
        DescriptorType::DeviceQualifier => "device qualifier".to_owned(),
        DescriptorType::OtherSpeedConfiguration => format!("other speed configuration {index}"),
        DescriptorType(other) => format!("type {other:#04x} number {index}"),
    }
}

fn feature(selector: u16) -> String {
    match Feature(selector) {
        Feature::EndpointHalt => "ENDPOINT_HALT".to_owned(),
        Feature::DeviceRemoteWakeup => "DEVICE_REMOTE_WAKEUP".to_owned(),
        Feature::TestMode => "TEST_MODE".to_owned(),
        Feature(other) => format!("{other}"),
    }
}

fn recipient(packet: &SetupPacket) -> String {
    match packet.recipient() {
        Recipient::Device => "the device".to_owned(),
        Recipient::Interface => format!("interface {}", packet.index.get()),
        Recipient::Endpoint => format!("endpoint {:#04x}", packet.index.get()),
        Recipient(other) => format!("recipient {other}"),
    }
}

/// The names whose flag is set, `, ` between.
fn names(flags: &[(bool, &str)]) -> String {
    let set: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(", ") }
}

/// What a token says of the dTD's state.
pub(super) fn state(token: Token) -> String {
    names(&[
        (token.active(), "ACTIVE"),
        (token.halted(), "HALTED"),
        (token.data_error(), "data buffer error"),
        (token.transaction_error(), "transaction error"),
        (!token.active() && errors(token).is_none(), "done"),
    ])
}

/// The errors in a token.
pub(super) fn errors(token: Token) -> Option<String> {
    let flags = [
        (token.halted(), "HALTED"),
        (token.data_error(), "data buffer error"),
        (token.transaction_error(), "transaction error"),
    ];
    flags.iter().any(|(set, _)| *set).then(|| names(&flags))
}

/// The bits of USBSTS and USBINTR.
pub(super) fn interrupts(value: u32) -> String {
    let bits = UsbSts::from(value);
    names(&[
        (bits.interrupt(), "UI (transfer)"),
        (bits.error(), "UEI (error)"),
        (bits.port_change(), "PCI (port change)"),
        (bits.system_error(), "SEI (system error)"),
        (bits.bus_reset(), "URI (bus reset)"),
        (bits.suspend(), "SLI (suspend)"),
    ])
}

/// The bits of a register's value, as far as a device uses them; `None` for a register that is a number.
pub(super) fn register(name: &str, value: u32) -> Option<String> {
    Some(match name {
        "USBINTR" | "USBSTS" => interrupts(value),
        "USBCMD" => {
            let command = UsbCmd::from(value);
            let flags = names(&[
                (command.run(), "RS (run, pull-up on)"),
                (command.reset(), "RST (reset under way)"),
                (command.setup_tripwire(), "SUTW"),
                (command.add_dtd_tripwire(), "ATDTW"),
            ]);
            format!("{flags}; interrupts at most every {} microframes", value >> 16 & 0xff)
        }
        "USBMODE" => {
            let mode = UsbMode::from(value);
            let role = match mode.mode() {
                UsbMode::IDLE => "idle",
                UsbMode::DEVICE => "device",
                3 => "host",
                _ => "reserved mode",
            };
            let flags = names(&[(mode.lockout_off(), "SLOM (setup lockout off)"), (value & 1 << 4 != 0, "SDIS")]);
            format!("CM {}: {role}; {flags}", mode.mode())
        }
        "PORTSC" => {
            let port = PortSc::from(value);
            names(&[
                (port.connected(), "CCS (attached)"),
                (port.enabled(), "PE (enabled)"),
                (port.force_resume(), "FPR (resume)"),
                (port.suspended(), "SUSP (suspended)"),
                (port.high_speed(), "HSP (high speed)"),
                (value & 1 << 23 != 0, "PHCD (PHY in low power)"),
                (port.force_full_speed(), "PFSC (full speed only)"),
                (port.test() != 0, "PTC (test mode)"),
            ])
        }
        "OTGSC" => names(&[
            (value & otgsc::ID != 0, "ID (B device)"),
            (value & otgsc::AVV != 0, "AVV"),
            (value & otgsc::ASV != 0, "ASV"),
            (value & otgsc::BSV != 0, "BSV (VBUS valid for a device)"),
            (value & otgsc::BSE != 0, "BSE (session end)"),
            (value & otgsc::BSV << otgsc::CHANGE_SHIFT != 0, "BSVIS (BSV changed)"),
            (value & otgsc::BSV << (otgsc::CHANGE_SHIFT + otgsc::ENABLE_SHIFT) != 0, "BSVIE"),
        ]),
        _ => return None,
    })
}

/// What a capabilities word says.
pub(super) fn capabilities(capabilities: Capabilities) -> String {
    let ios = if capabilities.interrupt_on_setup() { "IOS, " } else { "" };
    let zlt = if capabilities.no_zero_packet() { ", ZLT" } else { "" };
    let mult = match capabilities.mult() {
        0 => String::new(),
        mult => format!(", mult {mult}"),
    };
    format!("{ios}max packet {}{zlt}{mult}", capabilities.max_packet())
}

/// Bytes that page pointers can take: five pages from the offset in the first.
const fn room(first_page: u32) -> u32 {
    5 * 4096 - first_page % 4096
}

/// Why the page pointers of a token cannot be right, if they cannot.
pub(super) fn pages(token: Token, pages: [Option<u32>; 5]) -> Option<String> {
    let total = u32::from(token.total_bytes());
    let first = pages[0]?;
    if total > room(first) {
        return Some(format!(
            "{total} bytes do not fit into five pages from {first:#010x}, which have room for {}",
            room(first)
        ));
    }
    // As many as the bytes reach into.
    let reached = (first % 4096 + total).div_ceil(4096);
    let empty = (0..reached).find(|page| pages[*page as usize % 5] == Some(0))?;
    Some(format!("page pointer {empty} is 0, and {total} bytes reach there"))
}
