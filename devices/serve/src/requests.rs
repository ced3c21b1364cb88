//! A client's requests, one after another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use devices::pci::{CONFIG_SPACE, PciFunction};
use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE,
    VFIO_DMA_UNMAP_FLAG_ALL, VFIO_PCI_BAR5_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::connection::{Connection, Next};
use crate::error::{End, Malformed};
use crate::event::{Event, Events};
use crate::irqs::{Irqs, SetIrqs};
use crate::memory::{Access, ClientMemory};
use crate::messages::MessageDma;
use crate::protocol::{
    DEVICE_GET_INFO, DEVICE_GET_IRQ_INFO, DEVICE_GET_REGION_INFO, DEVICE_RESET, DEVICE_SET_IRQS, DMA_MAP, DMA_UNMAP,
    DeviceInfo, DmaMap, DmaUnmap, IrqInfo, IrqSet, MAJOR, MAX_TRANSFER, REGION_READ, REGION_WRITE, REGION_WRITE_MULTI,
    RegionAccess, RegionInfo, VERSION, Version, WriteMulti, WriteOne,
};
use crate::version::{Negotiated, negotiate};
use crate::wire::{Message, split};

/// A device whose deadline moves while nobody accesses it is looked at this often.
const LOOK: Duration = Duration::from_millis(20);

/// Works the requests of one client off.
pub(crate) struct Worker {
    pub(crate) connection: Arc<Connection>,
    pub(crate) function: Arc<PciFunction>,
    pub(crate) memory: Arc<ClientMemory>,
    pub(crate) irqs: Arc<Irqs>,
    pub(crate) events: Events,
    /// When time began.
    pub(crate) began: Instant,
    pub(crate) negotiated: bool,
}

/// Why a request is not done.
enum Refusal {
    /// The client is told.
    Errno(Errno),
    /// The connection ends.
    Malformed(Malformed),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

type Answer = Result<Vec<u8>, Refusal>;

impl Worker {
    /// Works until the connection ends. Returns whether the client ever agreed on a version.
    pub(crate) fn run(mut self) -> bool {
        loop {
            let now = self.began.elapsed();
            let wait = self.function.deadline().map_or(LOOK, |deadline| deadline.saturating_sub(now).min(LOOK));
            match self.connection.next(wait) {
                Next::Request(message) => {
                    if let Err(end) = self.work(message) {
                        self.connection.end(end);
                        return self.negotiated;
                    }
                }
                Next::Timeout => self.tick(),
                Next::Closed => return self.negotiated,
            }
        }
    }

    /// Gives the device the time, if it waits for it.
    fn tick(&self) {
        let now = self.began.elapsed();
        if self.function.deadline().is_some_and(|deadline| deadline <= now) {
            self.function.step(now);
        }
    }

    fn work(&mut self, message: Message) -> Result<(), End> {
        let header = message.header;
        let answer = match self.execute(message) {
            Ok(payload) => return self.connection.reply(&header, Ok(&[&payload])),
            Err(Refusal::Errno(errno)) => Err(errno),
            Err(Refusal::Malformed(malformed)) => {
                if !self.negotiated {
                    // A client of another version learns why.
                    self.connection.reply(&header, Err(Errno::INVAL))?;
                }
                return Err(malformed.into());
            }
        };
        self.connection.reply(&header, answer)
    }

    fn execute(&mut self, message: Message) -> Answer {
        let command = message.header.command.get();
        if !self.negotiated && command != VERSION {
            return Err(Malformed::NotVersion(command).into());
        }
        let payload = &message.payload[..];
        match command {
            VERSION => self.version(payload),
            DMA_MAP => self.dma_map(message),
            DMA_UNMAP => self.dma_unmap(payload),
            DEVICE_GET_INFO => device_info(payload),
            DEVICE_GET_REGION_INFO => self.region_info(payload),
            DEVICE_GET_IRQ_INFO => self.irq_info(payload),
            DEVICE_SET_IRQS => self.set_irqs(message),
            REGION_READ => self.region_read(payload),
            REGION_WRITE => self.region_write(payload),
            REGION_WRITE_MULTI => self.region_write_multi(payload),
            DEVICE_RESET => {
                exactly(command, payload, 0)?;
                self.function.power_on();
                (self.events)(Event::Reset);
                Ok(Vec::new())
            }
            // Region file descriptors, features, migration, and what is not known yet.
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }

    fn version(&mut self, payload: &[u8]) -> Answer {
        if self.negotiated {
            return Err(Malformed::VersionAgain.into());
        }
        let (version, data) = split::<Version>(VERSION, payload)?;
        let Negotiated { minor, max_transfer, data } = negotiate(&version, data)?;
        self.connection.set_max_transfer(max_transfer);
        self.negotiated = true;
        self.memory.connect(MessageDma::new(Arc::clone(&self.connection), Arc::clone(&self.events)));
        self.function.power_on();
        self.function.set_interrupt_output(Some(Arc::clone(&self.irqs) as _));
        (self.events)(Event::Connected);
        let version = Version { major: MAJOR.into(), minor: minor.into() };
        Ok([version.as_bytes(), &data].concat())
    }

    fn dma_map(&self, message: Message) -> Answer {
        let request: DmaMap = whole(DMA_MAP, &message.payload)?;
        let flags = request.flags.get();
        let access = Access { read: flags & VFIO_DMA_MAP_FLAG_READ != 0, write: flags & VFIO_DMA_MAP_FLAG_WRITE != 0 };
        let mut descriptors = message.descriptors.into_iter();
        let file = descriptors.next().map(|descriptor| (descriptor, request.offset.get()));
        if descriptors.next().is_some() || !(access.read || access.write) {
            return Err(Errno::INVAL.into());
        }
        self.memory.map(request.address.get(), request.size.get(), access, file)?;
        Ok(Vec::new())
    }

    fn dma_unmap(&self, payload: &[u8]) -> Answer {
        let request: DmaUnmap = whole(DMA_UNMAP, payload)?;
        match request.flags.get() {
            0 => self.memory.unmap(request.address.get(), request.size.get())?,
            VFIO_DMA_UNMAP_FLAG_ALL if request.address.get() == 0 && request.size.get() == 0 => self.memory.unmap_all(),
            VFIO_DMA_UNMAP_FLAG_ALL => return Err(Errno::INVAL.into()),
            // Dirty pages are not tracked.
            _ => return Err(Errno::OPNOTSUPP.into()),
        }
        Ok(payload.to_vec())
    }

    fn region_info(&self, payload: &[u8]) -> Answer {
        let (request, _) = split::<RegionInfo>(DEVICE_GET_REGION_INFO, payload)?;
        let index = request.index.get();
        if index >= VFIO_PCI_NUM_REGIONS || (request.argsz.get() as usize) < size_of::<RegionInfo>() {
            return Err(Errno::INVAL.into());
        }
        let size = self.region_size(index);
        let flags = if size == 0 { 0 } else { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE };
        let info = RegionInfo {
            argsz: (size_of::<RegionInfo>() as u32).into(),
            flags: flags.into(),
            index: index.into(),
            cap_offset: 0.into(),
            size: size.into(),
            offset: 0.into(),
        };
        Ok(info.as_bytes().to_vec())
    }

    fn irq_info(&self, payload: &[u8]) -> Answer {
        let (request, _) = split::<IrqInfo>(DEVICE_GET_IRQ_INFO, payload)?;
        if (request.argsz.get() as usize) < size_of::<IrqInfo>() {
            return Err(Errno::INVAL.into());
        }
        let (flags, count) = self.irqs.info(request.index.get())?;
        let argsz = (size_of::<IrqInfo>() as u32).into();
        Ok(IrqInfo { argsz, flags: flags.into(), index: request.index, count: count.into() }.as_bytes().to_vec())
    }

    fn set_irqs(&self, message: Message) -> Answer {
        let (request, bools) = split::<IrqSet>(DEVICE_SET_IRQS, &message.payload)?;
        self.irqs.set(SetIrqs {
            index: request.index.get(),
            flags: request.flags.get(),
            start: request.start.get(),
            count: request.count.get(),
            bools,
            descriptors: message.descriptors,
        })?;
        Ok(Vec::new())
    }

    fn region_read(&self, payload: &[u8]) -> Answer {
        let access: RegionAccess = whole(REGION_READ, payload)?;
        let count = self.within(&access)?;
        let mut reply = access.as_bytes().to_vec();
        let data_at = reply.len();
        reply.resize(data_at + count, 0);
        self.read(access.region.get(), access.offset.get(), &mut reply[data_at..]);
        Ok(reply)
    }

    fn region_write(&self, payload: &[u8]) -> Answer {
        let (access, data) = split::<RegionAccess>(REGION_WRITE, payload)?;
        let count = self.within(&access)?;
        exactly(REGION_WRITE, data, count)?;
        self.write(access.region.get(), access.offset.get(), data);
        Ok(access.as_bytes().to_vec())
    }

    fn region_write_multi(&self, payload: &[u8]) -> Answer {
        let (multi, writes) = split::<WriteMulti>(REGION_WRITE_MULTI, payload)?;
        let expected =
            usize::try_from(multi.count.get()).ok().and_then(|count| count.checked_mul(size_of::<WriteOne>()));
        exactly(REGION_WRITE_MULTI, writes, expected.unwrap_or(usize::MAX))?;
        for one in writes.chunks_exact(size_of::<WriteOne>()) {
            let one: WriteOne = whole(REGION_WRITE_MULTI, one)?;
            let count = self.within(&RegionAccess { offset: one.offset, region: one.region, count: one.count })?;
            let data = one.data.get(..count).ok_or(Errno::INVAL)?;
            self.write(one.region.get(), one.offset.get(), data);
        }
        Ok(multi.as_bytes().to_vec())
    }

    fn region_size(&self, index: u32) -> u64 {
        match index {
            VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_SPACE,
            ..=VFIO_PCI_BAR5_REGION_INDEX => self.function.bar_size(index as usize),
            _ => 0,
        }
    }

    /// The length of an access that lies within its region.
    fn within(&self, access: &RegionAccess) -> Result<usize, Errno> {
        let (offset, count) = (access.offset.get(), access.count.get());
        let end = offset.checked_add(count.into()).ok_or(Errno::INVAL)?;
        let fits = end <= self.region_size(access.region.get()) && count as usize <= MAX_TRANSFER;
        if fits { Ok(count as usize) } else { Err(Errno::INVAL) }
    }

    fn read(&self, region: u32, offset: u64, data: &mut [u8]) {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            return self.function.config_read(offset, data);
        }
        self.function.step(self.began.elapsed());
        self.function.bar_read(region as usize, offset, data);
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            return self.function.config_write(offset, data);
        }
        self.function.step(self.began.elapsed());
        self.function.bar_write(region as usize, offset, data);
    }
}

fn device_info(payload: &[u8]) -> Answer {
    let (request, _) = split::<DeviceInfo>(DEVICE_GET_INFO, payload)?;
    if (request.argsz.get() as usize) < size_of::<DeviceInfo>() {
        return Err(Errno::INVAL.into());
    }
    let info = DeviceInfo {
        argsz: (size_of::<DeviceInfo>() as u32).into(),
        flags: (VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI).into(),
        regions: VFIO_PCI_NUM_REGIONS.into(),
        irqs: VFIO_PCI_NUM_IRQS.into(),
    };
    Ok(info.as_bytes().to_vec())
}

/// A payload that is one structure and nothing else.
fn whole<T: FromBytes>(command: u16, payload: &[u8]) -> Result<T, Malformed> {
    exactly(command, payload, size_of::<T>())?;
    split(command, payload).map(|(structure, _)| structure)
}

fn exactly(command: u16, payload: &[u8], expected: usize) -> Result<(), Malformed> {
    let size = payload.len();
    if size == expected { Ok(()) } else { Err(Malformed::Payload { command, size, expected }) }
}
