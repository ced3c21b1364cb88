//! Gadgets by configfs: data in both directions.

use std::time::Duration;

use qemu::BoardError;
use scenarios::LiveDevice;
use tokio::runtime::{Builder, Runtime};
use usb::ch9::{Direction, TransferType};
use usb::urb::UrbError;
use usb_host::Device;

use crate::common::{KERNELS, PATIENCE, ensure, payload, with_board};

/// Transfers of a test, one after the other.
struct Bulk<'a> {
    device: &'a Device,
    runtime: Runtime,
    input: u8,
    output: u8,
}

impl<'a> Bulk<'a> {
    /// The bulk endpoints of the active configuration's interface with both.
    fn new(device: &'a LiveDevice) -> Result<Self, BoardError> {
        let device = device.device();
        let (mut input, mut output) = (None, None);
        for interface in device.active_configuration().iter().flat_map(|configuration| &configuration.interfaces) {
            let Some(setting) = device.active_alternate(interface.number) else { continue };
            for endpoint in setting.endpoints.iter().map(|endpoint| endpoint.descriptor) {
                if endpoint.transfer_type() == TransferType::Bulk {
                    let address = endpoint.endpoint();
                    let place = if address.direction == Direction::In { &mut input } else { &mut output };
                    place.get_or_insert(address.number);
                }
            }
        }
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| BoardError::System { what: "no event loop", error })?;
        let none = || BoardError::Data("there is no pair of bulk endpoints".to_owned());
        Ok(Self { device, runtime, input: input.ok_or_else(none)?, output: output.ok_or_else(none)? })
    }

    fn send(&self, data: &[u8]) -> Result<(), BoardError> {
        let sent = self.runtime.block_on(self.device.bulk_out(self.output, data.to_vec(), PATIENCE));
        sent.map(drop).map_err(|error| failed("bulk OUT", error))
    }

    fn receive(&self, length: usize) -> Result<Vec<u8>, BoardError> {
        let received = self.runtime.block_on(self.device.bulk_in(self.input, length, PATIENCE));
        received.map_err(|error| failed("bulk IN", error))
    }

    /// Until all have come, in however many transfers.
    fn receive_all(&self, length: usize) -> Result<Vec<u8>, BoardError> {
        let mut data = Vec::new();
        while data.len() < length {
            data.extend(self.receive(length - data.len())?);
        }
        Ok(data)
    }
}

fn failed(what: &str, error: UrbError) -> BoardError {
    BoardError::Data(format!("{what}: {error}"))
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn source_sink_and_loopback() {
    for kernel in KERNELS {
        with_board(
            kernel,
            |config| config.gadget = "source-sink".to_owned(),
            |board, device| {
                let bulk = Bulk::new(&device)?;
                let data = bulk.receive(1 << 20)?;
                ensure(data.iter().all(|byte| *byte == 0), || "the source's bytes are not all zero".to_owned())?;
                ensure(data.len() == 1 << 20, || format!("{} bytes of the source", data.len()))?;
                bulk.send(&vec![0; 1 << 20])?;
                drop(bulk);
                device.set_configuration(2).map_err(|error| failed("SET_CONFIGURATION 2", error))?;
                let bulk = Bulk::new(&device)?;
                for length in [1, 511, 4096] {
                    let data = payload(length);
                    bulk.send(&data)?;
                    let back = bulk.receive(length)?;
                    ensure(back == data, || format!("{length} bytes came back as {} others", back.len()))?;
                }
                board.watch(Duration::ZERO)
            },
        );
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn serial_echoes() {
    for kernel in KERNELS {
        with_board(
            kernel,
            |config| config.gadget = "serial".to_owned(),
            |board, device| {
                let bulk = Bulk::new(&device)?;
                for length in [1, 63, 64, 512, 4096] {
                    let data = payload(length);
                    bulk.send(&data)?;
                    let back = bulk.receive_all(length)?;
                    ensure(back == data, || format!("{length} bytes came back as others"))?;
                }
                board.watch(Duration::ZERO)
            },
        );
    }
}

/// Bulk-only transport (USB Mass Storage Class, Bulk-Only Transport 1.0) with the few SCSI commands of a disk's first use.
struct Disk<'a> {
    bulk: Bulk<'a>,
    tag: u32,
}

impl Disk<'_> {
    /// A command with `length` bytes in, or with `out` bytes out.
    fn command(&mut self, command: &[u8], length: u32, out: Option<&[u8]>) -> Result<Vec<u8>, BoardError> {
        self.tag += 1;
        let mut wrapper = Vec::with_capacity(31);
        wrapper.extend(b"USBC");
        wrapper.extend(self.tag.to_le_bytes());
        wrapper.extend(length.to_le_bytes());
        wrapper.extend([if out.is_none() { 0x80 } else { 0 }, 0, command.len() as u8]);
        wrapper.extend(command);
        wrapper.resize(31, 0);
        self.bulk.send(&wrapper)?;
        let data = match out {
            Some(out) => self.bulk.send(out).map(|()| Vec::new())?,
            None if length > 0 => self.bulk.receive(length as usize)?,
            None => Vec::new(),
        };
        let status = self.bulk.receive(13)?;
        let good = status.len() == 13 && status.starts_with(b"USBS") && status[4..8] == self.tag.to_le_bytes();
        ensure(good && status[12] == 0, || format!("command {command:02x?}: status {status:02x?}"))?;
        Ok(data)
    }

    fn transfer(operation: u8, block: u32, blocks: u16) -> [u8; 10] {
        let ([a, b, c, d], [e, f]) = (block.to_be_bytes(), blocks.to_be_bytes());
        [operation, 0, a, b, c, d, 0, e, f, 0]
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn mass_storage_keeps_what_is_written() {
    const BLOCKS: u16 = 256;
    for kernel in KERNELS {
        with_board(
            kernel,
            |config| config.gadget = "mass-storage".to_owned(),
            |board, device| {
                let mut disk = Disk { bulk: Bulk::new(&device)?, tag: 0 };
                let inquiry = disk.command(&[0x12, 0, 0, 0, 36, 0], 36, None)?;
                ensure(inquiry.len() == 36 && inquiry[0] == 0, || format!("INQUIRY {inquiry:02x?}"))?;
                // The first command after power-on is refused with UNIT ATTENTION, which REQUEST SENSE takes.
                let _ = disk.command(&[0; 6], 0, None);
                let _ = disk.command(&[3, 0, 0, 0, 18, 0], 18, None)?;
                let capacity = disk.command(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8, None)?;
                ensure(capacity == [0, 0, 0x3f, 0xff, 0, 0, 2, 0], || format!("READ CAPACITY {capacity:02x?}"))?;
                let data = payload(usize::from(BLOCKS) * 512);
                for block in [0, 1000, 16384 - u32::from(BLOCKS)] {
                    disk.command(&Disk::transfer(0x2a, block, BLOCKS), data.len() as u32, Some(&data))?;
                    let read = disk.command(&Disk::transfer(0x28, block, BLOCKS), data.len() as u32, None)?;
                    ensure(read == data, || format!("block {block}: other bytes than were written"))?;
                }
                board.watch(Duration::ZERO)
            },
        );
    }
}
