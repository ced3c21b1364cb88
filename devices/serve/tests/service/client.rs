//! A client of vfio-user, as small as can be.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Nothing takes longer, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const VERSION: u16 = 1;
pub(crate) const DMA_MAP: u16 = 2;
pub(crate) const DMA_UNMAP: u16 = 3;
pub(crate) const GET_INFO: u16 = 4;
pub(crate) const GET_REGION_INFO: u16 = 5;
pub(crate) const GET_REGION_IO_FDS: u16 = 6;
pub(crate) const GET_IRQ_INFO: u16 = 7;
pub(crate) const SET_IRQS: u16 = 8;
pub(crate) const REGION_READ: u16 = 9;
pub(crate) const REGION_WRITE: u16 = 10;
pub(crate) const DMA_READ: u16 = 11;
pub(crate) const DMA_WRITE: u16 = 12;
pub(crate) const RESET: u16 = 13;
pub(crate) const REGION_WRITE_MULTI: u16 = 15;

pub(crate) const NO_REPLY: u32 = 0x10;
const ERROR: u32 = 0x20;

pub(crate) const CONFIG: u32 = 7;

pub(crate) const EINVAL: u32 = 22;
pub(crate) const EEXIST: u32 = 17;
pub(crate) const ENOENT: u32 = 2;
pub(crate) const EOPNOTSUPP: u32 = 95;

/// As QEMU 11.1 sends it.
pub(crate) const QEMU: &str = r#"{"capabilities": {"migration": {"max_bitmap_size": 268435456, "pgsize": 4096}, "max_msg_fds": 16, "max_data_xfer_size": 1048576, "pgsizes": 4096, "max_dma_maps": 65535, "write_multiple": true}}"#;

/// How the client has its DMA messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DmaLayout {
    /// Data behind a count of 64 bits.
    Specified,
    /// Data behind a count of 32 bits, as QEMU has it.
    Qemu,
    /// It does not answer.
    Silent,
}

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    next: u16,
    /// Memory that is reached by messages: address and bytes.
    pub(crate) memory: (u64, Vec<u8>),
    pub(crate) layout: DmaLayout,
    /// Lengths of the DMA messages that were answered.
    pub(crate) transfers: Vec<u64>,
    pub(crate) max_transfer: u64,
}

/// A message from the service.
pub(crate) struct Message {
    pub(crate) id: u16,
    pub(crate) command: u16,
    pub(crate) flags: u32,
    pub(crate) error: u32,
    pub(crate) payload: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let memory = (0, Vec::new());
        Self { stream, next: 0, memory, layout: DmaLayout::Specified, transfers: Vec::new(), max_transfer: 1 << 20 }
    }

    pub(crate) fn negotiate(&mut self) {
        let reply = self.request(VERSION, &version(0, 0, QEMU), &[]).expect("a version");
        assert_eq!(reply[..4], [0; 4], "version 0.0");
        assert_eq!(reply.last(), Some(&0), "a NUL");
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).expect("sent");
        if sent < bytes.len() {
            (&self.stream).write_all(&bytes[sent..]).expect("sent");
        }
    }

    pub(crate) fn post(&mut self, command: u16, flags: u32, payload: &[u8], descriptors: &[BorrowedFd<'_>]) -> u16 {
        self.next = self.next.wrapping_add(1);
        self.send(&frame(self.next, command, flags, payload), descriptors);
        self.next
    }

    /// Sends a request and waits for its answer: the payload, or the errno. Answers the service's own requests meanwhile.
    pub(crate) fn request(
        &mut self,
        command: u16,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, u32> {
        let id = self.post(command, 0, payload, descriptors);
        loop {
            let message = self.receive().expect("the service answers");
            if message.flags & 0xf == 0 {
                self.serve_dma(&message);
                continue;
            }
            assert_eq!((message.id, message.command), (id, command), "the answer to our request");
            if message.flags & ERROR != 0 {
                assert!(message.payload.is_empty(), "an error has a header only");
                assert_ne!(message.error, 0, "QEMU takes errno 0 for success");
                return Err(message.error);
            }
            return Ok(message.payload);
        }
    }

    /// The next message; `None` when the service ended the connection.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        let mut header = [0; 16];
        match self.stream.read(&mut header) {
            Ok(0) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            read => assert_eq!(read.expect("bounded"), 16, "a header in one piece, as QEMU wants it"),
        }
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let mut payload = vec![0; word(4) as usize - 16];
        self.stream.read_exact(&mut payload).expect("the rest of a message");
        Some(Message { id: word(0) as u16, command: (word(0) >> 16) as u16, flags: word(8), error: word(12), payload })
    }

    /// Waits until the service ends the connection.
    pub(crate) fn ended(&mut self) {
        while self.receive().is_some() {}
    }

    /// Answers DMA_READ and DMA_WRITE as a client does.
    pub(crate) fn serve_dma(&mut self, message: &Message) {
        if self.layout == DmaLayout::Silent {
            return;
        }
        let word = |at: usize| u64::from_le_bytes(message.payload[at..at + 8].try_into().expect("eight bytes"));
        let (address, mut count) = (word(0), word(8));
        let mut data_at = 16;
        if self.layout == DmaLayout::Qemu {
            count &= u64::from(u32::MAX);
            data_at = 12;
        }
        let start = address.checked_sub(self.memory.0);
        let range = start.and_then(|start| Some(start as usize..start.checked_add(count)? as usize));
        let there = range.filter(|range| range.end <= self.memory.1.len() && count <= self.max_transfer);
        let Some(range) = there else {
            return self.send(&frame_with(message.id, message.command, 1 | ERROR, EINVAL, &[]), &[]);
        };
        if count > 0 {
            self.transfers.push(count);
        }
        let mut reply = message.payload[..16].to_vec();
        match message.command {
            DMA_READ => {
                reply.resize(16 + range.len(), 0);
                reply[data_at..data_at + range.len()].copy_from_slice(&self.memory.1[range]);
            }
            DMA_WRITE => {
                assert_eq!(message.payload.len(), 16 + range.len());
                self.memory.1[range.clone()].copy_from_slice(&message.payload[data_at..data_at + range.len()]);
            }
            other => panic!("command {other} from the service"),
        }
        self.send(&frame(message.id, message.command, 1, &reply), &[]);
    }

    pub(crate) fn read(&mut self, region: u32, offset: u64, count: usize) -> Result<Vec<u8>, u32> {
        let reply = self.request(REGION_READ, &access(region, offset, count as u32), &[])?;
        assert_eq!(reply[..16], access(region, offset, count as u32));
        assert_eq!(reply.len(), 16 + count);
        Ok(reply[16..].to_vec())
    }

    pub(crate) fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), u32> {
        let request = [&access(region, offset, data.len() as u32)[..], data].concat();
        let reply = self.request(REGION_WRITE, &request, &[])?;
        assert_eq!(reply, access(region, offset, data.len() as u32));
        Ok(())
    }

    pub(crate) fn read32(&mut self, offset: u64) -> u32 {
        let bytes = self.read(0, offset, 4).expect("a register");
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    pub(crate) fn write32(&mut self, offset: u64, value: u32) {
        self.write(0, offset, &value.to_le_bytes()).expect("a register");
    }

    pub(crate) fn write64(&mut self, offset: u64, value: u64) {
        self.write(0, offset, &value.to_le_bytes()).expect("a register");
    }

    pub(crate) fn config_write(&mut self, offset: u64, data: &[u8]) {
        self.write(CONFIG, offset, data).expect("configuration space");
    }

    pub(crate) fn map(
        &mut self,
        address: u64,
        size: u64,
        flags: u32,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> Result<(), u32> {
        let offset = file.map_or(0, |(_, offset)| offset);
        let payload = [&words(&[32, flags])[..], &longs(&[offset, address, size])].concat();
        let descriptors: Vec<_> = file.into_iter().map(|(file, _)| file).collect();
        self.request(DMA_MAP, &payload, &descriptors).map(|reply| assert!(reply.is_empty()))
    }

    pub(crate) fn unmap(&mut self, address: u64, size: u64, flags: u32) -> Result<(), u32> {
        let payload = [&words(&[24, flags])[..], &longs(&[address, size])].concat();
        self.request(DMA_UNMAP, &payload, &[]).map(|reply| assert_eq!(reply, payload, "the entry comes back"))
    }

    pub(crate) fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        (start, count): (u32, u32),
        data: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), u32> {
        let payload = [&words(&[20 + data.len() as u32, flags, index, start, count])[..], data].concat();
        self.request(SET_IRQS, &payload, descriptors).map(|reply| assert!(reply.is_empty()))
    }
}

pub(crate) fn frame(id: u16, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    frame_with(id, command, flags, 0, payload)
}

fn frame_with(id: u16, command: u16, flags: u32, error: u32, payload: &[u8]) -> Vec<u8> {
    let size = 16 + payload.len() as u32;
    [&words(&[u32::from(id) | u32::from(command) << 16, size, flags, error])[..], payload].concat()
}

pub(crate) fn version(major: u16, minor: u16, json: &str) -> Vec<u8> {
    [&major.to_le_bytes()[..], &minor.to_le_bytes(), json.as_bytes(), &[0]].concat()
}

pub(crate) fn access(region: u32, offset: u64, count: u32) -> Vec<u8> {
    [&longs(&[offset])[..], &words(&[region, count])].concat()
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

/// Memory in a file, filled with `fill`.
pub(crate) fn memfd(bytes: &[u8]) -> File {
    let mut file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd"));
    file.write_all(bytes).expect("memory");
    file
}

/// An eventfd, and how often it was signalled since the last look.
pub(crate) struct Bell(pub(crate) OwnedFd);

impl Bell {
    pub(crate) fn new() -> Self {
        Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(crate) fn count(&self) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::read(&self.0, &mut bytes) {
            Ok(_) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// Waits for a signal.
    pub(crate) fn wait(&self) -> u64 {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let patience = Timespec::try_from(PATIENCE).expect("a time");
        assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "a signal comes");
        self.count()
    }
}
