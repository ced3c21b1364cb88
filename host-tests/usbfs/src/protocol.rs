//! What goes over the socket between a bus and the programs of other processes: URBs, never memory of either side.
//!
//! Each side sends [`Hello`] first. Then frames: a [`Head`] with the payload's length, the payload. All numbers are
//! little-endian. A device, an open file, a call and a URB have numbers; the last three are chosen by the client.
//!
//! | kind | from | number | payload |
//! |---|---|---|---|
//! | Attached | bus | device | [`encode_device`] |
//! | Listed | bus | 0 | none: all devices that were there have been sent |
//! | Detached | bus | device | none |
//! | Selected | bus | device | [`encode_selection`] |
//! | Lost | bus | open file | the interface that was taken away, one byte |
//! | Call | client | call | [`CallPayload`] |
//! | Reply | bus | call | [`ReplyPayload`], then a driver's name |
//! | Submit | client | URB | [`SubmitPayload`], OUT: then the data |
//! | Cancel | client | URB | none |
//! | Complete | bus | URB | [`CompletePayload`], IN: then the data |

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use open_enum::open_enum;
use usb::Speed;
use usb::urb::{Transfer, Urb, UrbError};
use usb::{Direction, EndpointAddress, SetupPacket};
use zerocopy::byteorder::little_endian::{I32, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::DeviceInfo;
use crate::ioctl::MOST_BYTES;
use crate::memory::{Charge, zeroed};
use crate::node::Call;
use crate::settings::Settings;

/// Raised with every change of what follows.
pub(crate) const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"usbfs\0\0\x01";
/// The most bytes of a payload that is no transfer: a device with its descriptors.
const MOST_SMALL: usize = 1 << 20;
/// The most bytes of one client's transfers in flight, as `usbfs_memory_mb`: more is ENOMEM at the client.
pub(crate) const MOST_IN_FLIGHT: usize = 256 << 20;
/// What a transfer counts beside its data, as the kernel counts its own structures (core/devio.c,
/// `usbfs_increase_memory_usage`).
pub(crate) const URB_BYTES: usize = 1 << 10;

/// The first bytes of each side.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Hello {
    magic: [u8; 8],
    version: U32,
}
const _: () = assert!(size_of::<Hello>() == 12);

impl Hello {
    pub(crate) fn new() -> Self {
        Self { magic: MAGIC, version: VERSION.into() }
    }

    pub(crate) fn read(from: &mut impl Read) -> io::Result<()> {
        let mut bytes = [0; size_of::<Self>()];
        from.read_exact(&mut bytes)?;
        let hello = Self::read_from_bytes(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        let same = hello.magic == MAGIC && hello.version.get() == VERSION;
        if same { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// What a frame is.
#[open_enum]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(u8)]
pub(crate) enum Kind {
    Attached = 1,
    Listed = 2,
    Detached = 3,
    Selected = 4,
    Lost = 5,
    Call = 6,
    Reply = 7,
    Submit = 8,
    Cancel = 9,
    Complete = 10,
}

/// Before each payload.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    length: U32,
    kind: Kind,
    reserved: [u8; 3],
    number: U64,
}
const _: () = assert!(size_of::<Head>() == 16);

/// A request of an open file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct CallPayload {
    pub(crate) device: U64,
    pub(crate) open: U64,
    operation: u8,
    operands: [u8; 2],
    reserved: [u8; 5],
}
const _: () = assert!(size_of::<CallPayload>() == 24);

/// What a client asks: to open and close, or a call of the open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Open,
    Close,
    Call(Call),
}

impl CallPayload {
    pub(crate) fn new(device: u64, open: u64, operation: Operation) -> Self {
        let (operation, operands) = match operation {
            Operation::Open => (0, [0, 0]),
            Operation::Close => (1, [0, 0]),
            Operation::Call(Call::Claim(interface)) => (2, [interface, 0]),
            Operation::Call(Call::Release(interface)) => (3, [interface, 0]),
            Operation::Call(Call::Driver(interface)) => (4, [interface, 0]),
            Operation::Call(Call::Disconnect(interface)) => (5, [interface, 0]),
            Operation::Call(Call::Connect(interface)) => (6, [interface, 0]),
            Operation::Call(Call::SetConfiguration(value)) => (7, [value, 0]),
            Operation::Call(Call::SetInterface(interface, alternate)) => (8, [interface, alternate]),
            Operation::Call(Call::ClearHalt(endpoint)) => (9, [endpoint.to_byte(), 0]),
            Operation::Call(Call::Reset) => (10, [0, 0]),
        };
        Self { device: device.into(), open: open.into(), operation, operands, reserved: [0; 5] }
    }

    pub(crate) fn operation(&self) -> Option<Operation> {
        let [first, second] = self.operands;
        Some(match self.operation {
            0 => Operation::Open,
            1 => Operation::Close,
            2 => Operation::Call(Call::Claim(first)),
            3 => Operation::Call(Call::Release(first)),
            4 => Operation::Call(Call::Driver(first)),
            5 => Operation::Call(Call::Disconnect(first)),
            6 => Operation::Call(Call::Connect(first)),
            7 => Operation::Call(Call::SetConfiguration(first)),
            8 => Operation::Call(Call::SetInterface(first, second)),
            9 => Operation::Call(Call::ClearHalt(EndpointAddress::from_byte(first))),
            10 => Operation::Call(Call::Reset),
            _ => return None,
        })
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ReplyPayload {
    /// 0 or a positive error number.
    pub(crate) error: I32,
    pub(crate) value: u8,
    pub(crate) reserved: [u8; 3],
}
const _: () = assert!(size_of::<ReplyPayload>() == 8);

/// A transfer's start.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SubmitPayload {
    pub(crate) device: U64,
    endpoint: u8,
    transfer: u8,
    flags: u8,
    reserved: u8,
    length: U32,
    setup: [u8; 8],
}
const _: () = assert!(size_of::<SubmitPayload>() == 24);

const ZERO_PACKET: u8 = 1;
const SHORT_NOT_OK: u8 = 2;

impl SubmitPayload {
    pub(crate) fn new(device: u64, urb: &Urb) -> Self {
        let (transfer, setup) = match urb.transfer {
            Transfer::Control(setup) => (0, setup.to_bytes()),
            Transfer::Bulk => (1, [0; 8]),
            Transfer::Interrupt => (2, [0; 8]),
        };
        let zero_packet = if urb.zero_packet { ZERO_PACKET } else { 0 };
        let short_not_ok = if urb.short_not_ok { SHORT_NOT_OK } else { 0 };
        Self {
            device: device.into(),
            endpoint: urb.endpoint.to_byte(),
            transfer,
            flags: zero_packet | short_not_ok,
            reserved: 0,
            length: (urb.buffer.len() as u32).into(),
            setup,
        }
    }

    /// Bytes of data, whichever way they go.
    pub(crate) fn length(&self) -> usize {
        self.length.get() as usize
    }

    /// The transfer to a device's address, with the OUT data that follow the payload.
    ///
    /// # Errors
    /// [`UrbError::Invalid`] if it makes no sense, [`UrbError::NoMemory`].
    pub(crate) fn urb(&self, address: u8, data: Vec<u8>) -> Result<Urb, UrbError> {
        let endpoint = EndpointAddress::from_byte(self.endpoint);
        let length = self.length();
        let transfer = match self.transfer {
            0 => Transfer::Control(SetupPacket::from_bytes(self.setup)),
            1 => Transfer::Bulk,
            2 => Transfer::Interrupt,
            _ => return Err(UrbError::Invalid),
        };
        let sense = match transfer {
            Transfer::Control(setup) => endpoint.is_ep0() && usize::from(setup.length.get()) == length,
            Transfer::Bulk | Transfer::Interrupt => !endpoint.is_ep0(),
        };
        let buffer = match endpoint.direction {
            Direction::In if sense && data.is_empty() && length <= MOST_BYTES => {
                zeroed(length).ok_or(UrbError::NoMemory)?
            }
            Direction::Out if sense && data.len() == length => data,
            _ => return Err(UrbError::Invalid),
        };
        let (zero_packet, short_not_ok) = (self.flags & ZERO_PACKET != 0, self.flags & SHORT_NOT_OK != 0);
        Ok(Urb { address, endpoint, transfer, buffer, zero_packet, short_not_ok })
    }
}

/// A transfer's end.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct CompletePayload {
    /// 0 or a negative error number.
    pub(crate) status: I32,
    pub(crate) actual: U32,
}
const _: () = assert!(size_of::<CompletePayload>() == 8);

/// The transfer's error of a number; one that no transfer has is a protocol error.
pub(crate) fn urb_status(number: i32) -> Result<(), UrbError> {
    let all = [
        UrbError::TimedOut,
        UrbError::Protocol,
        UrbError::Stall,
        UrbError::Overflow,
        UrbError::ShortPacket,
        UrbError::Unlinked,
        UrbError::Killed,
        UrbError::NoDevice,
        UrbError::Shutdown,
        UrbError::Invalid,
        UrbError::MessageSize,
        UrbError::NoMessage,
        UrbError::NoMemory,
    ];
    match number {
        0 => Ok(()),
        _ => Err(all.into_iter().find(|error| error.errno() == number).unwrap_or(UrbError::Protocol)),
    }
}

/// One frame to send: the payload's fixed part, then data that are not copied.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// What the data count until they are sent: given back when the frame is dropped.
    #[expect(dead_code, reason = "held")]
    pub(crate) charge: Option<Charge>,
}

impl Frame {
    pub(crate) fn new(kind: Kind, number: u64, fixed: &[u8], data: Vec<u8>) -> Self {
        let length = (fixed.len() + data.len()) as u32;
        let head = Head { length: length.into(), kind, reserved: [0; 3], number: number.into() };
        Self { bytes: [head.as_bytes(), fixed].concat(), data, charge: None }
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        // Small data go out in one piece with their head: one system call, one wake-up of the other side.
        const SMALL: usize = 64 << 10;
        if self.data.len() <= SMALL {
            return to.write_all(&[&self.bytes[..], &self.data].concat());
        }
        to.write_all(&self.bytes)?;
        to.write_all(&self.data)
    }
}

/// One frame received: kind, number, fixed part `T` and what follows it.
pub(crate) struct Received {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    length: usize,
}

impl Received {
    /// Reads a head. A payload that no frame of the kind has is an error: the connection is of no use any more.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; size_of::<Head>()];
        from.read_exact(&mut bytes)?;
        let head = Head::read_from_bytes(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        let length = head.length.get() as usize;
        let most = match head.kind {
            Kind::Submit => MOST_BYTES + size_of::<SubmitPayload>(),
            Kind::Complete => MOST_BYTES + size_of::<CompletePayload>(),
            _ => MOST_SMALL,
        };
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { kind: head.kind, number: head.number.get(), length })
    }

    /// The fixed part.
    pub(crate) fn fixed<T: FromBytes + IntoBytes>(&self, from: &mut impl Read) -> io::Result<T> {
        let mut fixed = T::new_zeroed();
        self.rest::<T>()?;
        from.read_exact(fixed.as_mut_bytes())?;
        Ok(fixed)
    }

    /// How many bytes follow the fixed part.
    pub(crate) fn rest<T>(&self) -> io::Result<usize> {
        self.length.checked_sub(size_of::<T>()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The fixed part, then the rest.
    pub(crate) fn payload<T: FromBytes + IntoBytes>(&self, from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
        let fixed = self.fixed(from)?;
        let mut data = zeroed(self.rest::<T>()?).ok_or(io::ErrorKind::OutOfMemory)?;
        from.read_exact(&mut data)?;
        Ok((fixed, data))
    }

    pub(crate) fn bytes(&self, from: &mut impl Read) -> io::Result<Vec<u8>> {
        self.payload::<[u8; 0]>(from).map(|(_, data)| data)
    }
}

/// A device as a client must know it; not which drivers hold its interfaces.
pub(crate) fn encode_device(info: &DeviceInfo, settings: &Settings) -> Vec<u8> {
    let speed = match info.speed {
        Speed::Low => 1,
        Speed::Full => 2,
        Speed::High => 3,
    };
    let mut bytes = vec![info.bus, info.address, speed, u8::from(info.scatter_gather), info.ports.len() as u8];
    bytes.extend(&info.ports);
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    let parts = [info.descriptors.clone(), text(&info.manufacturer), text(&info.product), text(&info.serial)];
    for part in parts {
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes.extend(part);
    }
    bytes.extend(encode_selection(settings));
    bytes
}

/// The active configuration's value, and alternate settings other than 0 by interface.
pub(crate) type Selection = (u8, BTreeMap<u8, u8>);

/// The inverse of [`encode_device`].
pub(crate) fn decode_device(mut bytes: &[u8]) -> Option<(DeviceInfo, Selection)> {
    let [bus, address, speed, scatter_gather, ports] = *bytes.split_off(..5)?.first_chunk()?;
    let ports = bytes.split_off(..usize::from(ports))?.to_vec();
    let speed = match speed {
        1 => Speed::Low,
        2 => Speed::Full,
        3 => Speed::High,
        _ => return None,
    };
    let mut part = || {
        let length = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
        bytes.split_off(..length as usize)
    };
    let descriptors = part()?.to_vec();
    let mut text = || {
        let text = String::from_utf8_lossy(part()?).into_owned();
        Some((!text.is_empty()).then_some(text))
    };
    let mut info = DeviceInfo::new(bus, address, &ports, speed, descriptors);
    (info.manufacturer, info.product, info.serial) = (text()?, text()?, text()?);
    info.scatter_gather = scatter_gather != 0;
    Some((info, decode_selection(bytes)?))
}

/// The active configuration, then pairs of an interface and its alternate setting other than 0.
pub(crate) fn encode_selection(settings: &Settings) -> Vec<u8> {
    let pairs = settings.alternates.iter().flat_map(|(interface, alternate)| [*interface, *alternate]);
    [settings.active].into_iter().chain(pairs).collect()
}

/// The inverse of [`encode_selection`].
pub(crate) fn decode_selection(bytes: &[u8]) -> Option<Selection> {
    let (active, pairs) = bytes.split_first()?;
    let (pairs, rest) = pairs.as_chunks::<2>();
    rest.is_empty().then(|| (*active, pairs.iter().map(|[interface, alternate]| (*interface, *alternate)).collect()))
}

#[cfg(test)]
mod tests {
    use usb::urb::{Transfer, Urb, UrbError};
    use usb::{EndpointAddress, SetupPacket, Speed};

    use super::{
        CallPayload, Operation, SubmitPayload, decode_device, decode_selection, encode_device, encode_selection,
    };
    use crate::DeviceInfo;
    use crate::node::Call;
    use crate::settings::Settings;

    fn device() -> (DeviceInfo, Settings) {
        let bytes = [&[18, 1, 0, 2, 0, 0, 0, 64, 9, 18, 1, 0, 0, 1, 1, 2, 3, 1][..], &[9, 2, 9, 0, 0, 1, 0, 128, 50]];
        let mut info = DeviceInfo::new(5, 7, &[1, 3], Speed::Full, bytes.concat());
        info.product = Some("Größe".to_owned());
        info.scatter_gather = false;
        let mut settings = Settings::parse(&info).unwrap();
        settings.select_alternate(1, 2);
        (info, settings)
    }

    #[test]
    fn a_device_arrives_as_it_was_sent_and_no_part_of_it_does() {
        let (info, settings) = device();
        let bytes = encode_device(&info, &settings);
        let (decoded, selection) = decode_device(&bytes).unwrap();
        assert_eq!(decoded, info);
        assert_eq!(selection, (1, settings.alternates.clone()));
        let whole = bytes.len() - encode_selection(&settings).len();
        for length in 0..=whole {
            assert!(decode_device(&bytes[..length]).is_none(), "{length} bytes");
        }
        assert_eq!(decode_selection(&[1, 2]), None);
    }

    #[test]
    fn every_call_arrives_as_it_was_sent() {
        let calls = [
            Call::Claim(1),
            Call::Release(2),
            Call::Driver(3),
            Call::Disconnect(4),
            Call::Connect(5),
            Call::SetConfiguration(6),
            Call::SetInterface(7, 8),
            Call::ClearHalt(EndpointAddress::r#in(9)),
            Call::Reset,
        ];
        for operation in calls.map(Operation::Call).into_iter().chain([Operation::Open, Operation::Close]) {
            assert_eq!(CallPayload::new(1, 2, operation).operation(), Some(operation));
        }
    }

    #[test]
    fn a_transfer_arrives_as_it_was_sent_or_not_at_all() {
        let setup = SetupPacket::new(0xc0, 1, 2, 3, 4);
        let urb = |endpoint, transfer, length| Urb {
            address: 7,
            endpoint,
            transfer,
            buffer: vec![0; length],
            zero_packet: true,
            short_not_ok: true,
        };
        for urb in [
            urb(EndpointAddress::r#in(0), Transfer::Control(setup), 4),
            urb(EndpointAddress::r#in(1), Transfer::Interrupt, 8),
            urb(EndpointAddress::out(2), Transfer::Bulk, 0),
        ] {
            assert_eq!(SubmitPayload::new(1, &urb).urb(7, Vec::new()), Ok(urb));
        }
        let out = urb(EndpointAddress::out(2), Transfer::Bulk, 9);
        assert_eq!(SubmitPayload::new(1, &out).urb(7, out.buffer.clone()), Ok(out.clone()));
        assert_eq!(SubmitPayload::new(1, &out).urb(7, vec![0; 8]), Err(UrbError::Invalid), "data of another length");
        let wrong = urb(EndpointAddress::r#in(0), Transfer::Control(setup), 5);
        assert_eq!(
            SubmitPayload::new(1, &wrong).urb(7, Vec::new()),
            Err(UrbError::Invalid),
            "wLength of another length"
        );
        let wrong = urb(EndpointAddress::out(0), Transfer::Bulk, 0);
        assert_eq!(SubmitPayload::new(1, &wrong).urb(7, Vec::new()), Err(UrbError::Invalid), "bulk to endpoint 0");
    }
}
