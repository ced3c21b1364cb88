//! `usbd-storage`: a disk in memory, SCSI over bulk-only transport, at high speed.

use scenarios::{Bench, Failure, expect_equal};
use usb::urb::UrbError;
use usb::{EndpointAddress, SetupPacket, Speed};
use usb_device::device::{UsbDeviceBuilder, UsbVidPid};
use usb_host::Device;
use usbd_storage::subclass::Command;
use usbd_storage::subclass::scsi::{Scsi, ScsiCommand};
use usbd_storage::transport::TransportError;
use usbd_storage::transport::bbb::{BulkOnly, BulkOnlyError};

use chipidea_stacks::ChipideaBus;

use crate::board::{TIMEOUT, bench, expect_bytes, failed, pattern, run};

const BLOCK: usize = 512;
const BLOCKS: usize = 256;
const BULK: u8 = 1;
const PACKET: u16 = 512;

const IN: u8 = 0x80;
const OUT: u8 = 0;

type Class = Scsi<BulkOnly<'static, ChipideaBus, Vec<u8>>>;

/// A disk and how far the command at hand is.
struct Disk {
    data: Vec<u8>,
    done: usize,
}

impl Disk {
    fn command(&mut self, mut command: Command<'_, ScsiCommand, Class>) -> Result<(), TransportError<BulkOnlyError>> {
        match command.kind {
            ScsiCommand::Inquiry { alloc_len, .. } => {
                let mut inquiry = [0; 36];
                inquiry[..8].copy_from_slice(&[0, 0x80, 4, 2, 31, 0, 0, 0]);
                inquiry[8..].copy_from_slice(b"nobody  disk in memory  1   ");
                let count = inquiry.len().min(alloc_len.into());
                command.try_write_data_all(&inquiry[..count])?;
                command.pass();
            }
            ScsiCommand::TestUnitReady => command.pass(),
            ScsiCommand::ReadCapacity10 => {
                let last = (BLOCKS as u32 - 1).to_be_bytes();
                let size = (BLOCK as u32).to_be_bytes();
                command.try_write_data_all(&[last, size].concat())?;
                command.pass();
            }
            ScsiCommand::Read { lba, len } => {
                let (begin, length) = (lba as usize * BLOCK, usize::from(len) * BLOCK);
                let Some(data) = self.data.get(begin..begin + length) else {
                    command.fail();
                    return Ok(());
                };
                self.done += command.write_data(&data[self.done..])?;
                if self.done == length {
                    self.done = 0;
                    command.pass();
                }
            }
            ScsiCommand::Write { lba, len } => {
                let (begin, length) = (lba as usize * BLOCK, usize::from(len) * BLOCK);
                let Some(room) = self.data.get_mut(begin..begin + length) else {
                    command.fail();
                    return Ok(());
                };
                self.done += command.read_data(&mut room[self.done..])?;
                if self.done == length {
                    self.done = 0;
                    command.pass();
                }
            }
            _ => command.fail(),
        }
        Ok(())
    }
}

fn disk() -> Bench {
    bench(Speed::High, "linked", |allocator, _, _| {
        let mut class: Class = Scsi::new(allocator, PACKET, 0, vec![0; 4096]).expect("room for a command");
        let mut device = UsbDeviceBuilder::new(allocator, UsbVidPid(0xabcd, 0xabcd))
            .max_packet_size_0(64)
            .expect("a size of the specification")
            .build();
        let mut disk = Disk { data: vec![0; BLOCK * BLOCKS], done: 0 };
        Box::new(move || {
            device.poll(&mut [&mut class]);
            // What the transport has no room for is asked for again.
            let _ = class.poll(|command| {
                let _ = disk.command(command);
            });
        })
    })
}

/// A disk's host (USB Mass Storage Bulk-Only 1.0 §5): command, data, status.
struct Storage<'a> {
    device: &'a Device,
    tag: u32,
}

impl Storage<'_> {
    /// Status and residue of a command, and its data.
    async fn run(
        &mut self,
        flags: u8,
        block: &[u8],
        length: usize,
        data: &[u8],
    ) -> Result<(u8, u32, Vec<u8>), Failure> {
        self.tag += 1;
        let mut wrapper = b"USBC".to_vec();
        wrapper.extend(self.tag.to_le_bytes());
        wrapper.extend((length as u32).to_le_bytes());
        wrapper.extend([flags, 0, block.len() as u8]);
        wrapper.extend(block);
        wrapper.resize(31, 0);
        self.device.bulk_out(BULK, wrapper, TIMEOUT).await.map_err(failed("command"))?;
        let mut seen = Vec::new();
        if length > 0 && flags == IN {
            match self.device.bulk_in(BULK, length, TIMEOUT).await {
                Ok(data) => seen = data,
                Err(UrbError::Stall) => self.clear(EndpointAddress::r#in(BULK)).await?,
                Err(error) => return Err(failed("data in")(error)),
            }
        } else if length > 0 {
            match self.device.bulk_out(BULK, data.to_vec(), TIMEOUT).await {
                Ok(_) => {}
                Err(UrbError::Stall) => self.clear(EndpointAddress::out(BULK)).await?,
                Err(error) => return Err(failed("data out")(error)),
            }
        }
        let mut status = self.device.bulk_in(BULK, 13, TIMEOUT).await;
        if status == Err(UrbError::Stall) {
            self.clear(EndpointAddress::r#in(BULK)).await?;
            status = self.device.bulk_in(BULK, 13, TIMEOUT).await;
        }
        let status = status.map_err(failed("status"))?;
        let tag = self.tag.to_le_bytes();
        let &[b'U', b'S', b'B', b'S', a, b, c, d, e, f, g, h, code] = &status[..] else {
            return Err(Failure::new(format!("a status of {status:02x?}")));
        };
        expect_equal("tag", &[a, b, c, d], &tag)?;
        Ok((code, u32::from_le_bytes([e, f, g, h]), seen))
    }

    async fn clear(&self, endpoint: EndpointAddress) -> Result<(), Failure> {
        self.device.clear_halt(endpoint).await.map_err(failed("CLEAR_FEATURE"))
    }

    async fn read(&mut self, block: u32, count: u16) -> Result<Vec<u8>, Failure> {
        let command = transfer(0x28, block, count);
        let (status, residue, data) = self.run(IN, &command, usize::from(count) * BLOCK, &[]).await?;
        expect_equal("status and residue of READ(10)", &(status, residue), &(0, 0))?;
        Ok(data)
    }

    async fn write(&mut self, block: u32, data: &[u8]) -> Result<(), Failure> {
        let command = transfer(0x2a, block, (data.len() / BLOCK) as u16);
        let (status, residue, _) = self.run(OUT, &command, data.len(), data).await?;
        expect_equal("status and residue of WRITE(10)", &(status, residue), &(0, 0))
    }
}

fn transfer(operation: u8, block: u32, count: u16) -> [u8; 10] {
    let ([a, b, c, d], [e, f]) = (block.to_be_bytes(), count.to_be_bytes());
    [operation, 0, a, b, c, d, 0, e, f, 0]
}

#[test]
fn a_disk_is_read_and_written() {
    run(&disk(), async |session, device| {
        expect_equal("speed", &device.speed(), &Speed::High)?;
        let luns = device.control_in(SetupPacket::new(0xa1, 0xfe, 0, 0, 1), TIMEOUT).await;
        expect_equal("GET_MAX_LUN", &luns, &Ok(vec![0]))?;
        let mut storage = Storage { device: &device, tag: 0 };
        let (status, residue, data) = storage.run(IN, &[0x12, 0, 0, 0, 36, 0], 36, &[]).await?;
        expect_equal("status and residue of INQUIRY", &(status, residue), &(0, 0))?;
        expect_bytes("vendor", &data[8..14], b"nobody")?;
        let (status, _, _) = storage.run(OUT, &[0; 6], 0, &[]).await?;
        expect_equal("status of TEST UNIT READY", &status, &0)?;
        let (_, _, data) = storage.run(IN, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8, &[]).await?;
        expect_equal("capacity", &data, &vec![0, 0, 0, 255, 0, 0, 2, 0])?;
        for (block, count) in [(0, 1), (1, 1), (7, 3), (100, 8), (0, 256)] {
            let data = pattern(block, count * BLOCK);
            storage.write(block as u32, &data).await?;
            expect_equal("what was written", &storage.read(block as u32, count as u16).await?, &data)?;
        }
        session.host().suspend().await.map_err(|error| Failure::new(error.to_string()))?;
        session.settle().await;
        session.host().resume().await.map_err(|error| Failure::new(error.to_string()))?;
        expect_equal("a block after resume", &storage.read(7, 1).await?, &pattern(0, 8 * BLOCK)[7 * BLOCK..].to_vec())?;
        device.reset().await.map_err(|error| Failure::new(error.to_string()))?;
        expect_equal("a block after reset", &storage.read(7, 1).await?, &pattern(0, 8 * BLOCK)[7 * BLOCK..].to_vec())
    });
}

#[test]
fn a_command_that_fails_halts_and_recovers() {
    run(&disk(), async |_, device| {
        let mut storage = Storage { device: &device, tag: 0 };
        for round in 0..3 {
            let (status, residue, _) = storage.run(IN, &transfer(0x28, 9999, 1), BLOCK, &[]).await?;
            expect_equal("status and residue of a read beyond the end", &(status, residue), &(1, 512))?;
            let data = pattern(round, BLOCK);
            let (status, _, _) = storage.run(OUT, &transfer(0x2a, 9999, 1), BLOCK, &data).await?;
            expect_equal("status of a write beyond the end", &status, &1)?;
            storage.write(3, &data).await?;
            expect_equal("a block", &storage.read(3, 1).await?, &data)?;
        }
        Ok(())
    });
}
