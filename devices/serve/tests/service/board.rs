//! A toy device behind a service.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bus::{Belief, DmaAddr, IrqLine, Kind, Mmio, Width};
use devices::pci::{Bar, MsixConfig, PciConfig, PciFunction, PciSlot};
use devices::{Device, DmaMemory, DmaPort};
use parking_lot::Mutex;
use serve::{ClientMemory, Event, Service};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE};

/// Reads as [`ID_VALUE`].
pub(crate) const ID: u64 = 0x00;
pub(crate) const ID_VALUE: u32 = 0x706f6f6c;
/// Storage.
pub(crate) const SCRATCH: u64 = 0x04;
/// 64 bits.
pub(crate) const ADDRESS: u64 = 0x08;
pub(crate) const LENGTH: u64 = 0x10;
pub(crate) const COMMAND: u64 = 0x14;
/// 0 done, 1 bus error.
pub(crate) const STATUS: u64 = 0x18;
/// The level of line n is bit n.
pub(crate) const LINES: u64 = 0x1c;
/// Sends the message of this vector.
pub(crate) const MESSAGE: u64 = 0x20;
/// Milliseconds from now until the device raises line 0 by itself.
pub(crate) const TIMER: u64 = 0x24;
/// Panics when it is written.
pub(crate) const PANIC: u64 = 0x28;

/// Memory to the device's buffer.
pub(crate) const READ: u32 = 1;
/// The device's buffer to memory.
pub(crate) const WRITE: u32 = 2;
/// One word to [`SCRATCH`].
pub(crate) const LOAD: u32 = 3;
/// [`SCRATCH`] to one word.
pub(crate) const STORE: u32 = 4;

pub(crate) const VECTORS: u16 = 4;
pub(crate) const MSI_CONTROL: u64 = 0x48 + 2;
pub(crate) const MSIX_CONTROL: u64 = 0x60 + 2;

static BUFFER: Kind = Kind { name: "buffer", label: |_, f| f.write_str("buffer") };

pub(crate) struct Toy {
    dma: DmaPort,
    lines: Vec<Arc<dyn IrqLine>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    scratch: u32,
    address: u64,
    length: u32,
    status: u32,
    levels: u32,
    buffer: Vec<u8>,
    now: Duration,
    timer: Option<Duration>,
}

impl Toy {
    fn command(&self, state: &mut State, command: u32) {
        let (addr, belief) = (DmaAddr(state.address), Belief::new(&BUFFER, 0, ""));
        let done = match command {
            READ => {
                state.buffer = vec![0; state.length as usize];
                self.dma.read(addr, &mut state.buffer, belief)
            }
            WRITE => self.dma.write(addr, &state.buffer, belief),
            LOAD => self.dma.load_u32(addr, belief).map(|word| state.scratch = word),
            STORE => self.dma.store_u32(addr, state.scratch, belief),
            _ => Ok(()),
        };
        state.status = done.is_err().into();
    }

    /// An access from a thread of this process, as a host at the device's other end makes one.
    pub(crate) fn copy(&self, from: u64, to: u64, length: usize) -> Result<(), devices::DmaError> {
        let mut bytes = vec![0; length];
        let belief = Belief::new(&BUFFER, 0, "");
        self.dma.read(DmaAddr(from), &mut bytes, belief)?;
        self.dma.write(DmaAddr(to), &bytes, belief)
    }

    pub(crate) fn scratch(&self) -> u32 {
        self.state.lock().scratch
    }

    fn show(&self, levels: u32) {
        self.lines.iter().enumerate().for_each(|(index, line)| line.set(levels >> index & 1 != 0));
    }
}

impl Mmio for Toy {
    fn read(&self, offset: u64, _: Width) -> u64 {
        let state = self.state.lock();
        match offset {
            ID => ID_VALUE.into(),
            SCRATCH => state.scratch.into(),
            ADDRESS => state.address,
            STATUS => state.status.into(),
            LINES => state.levels.into(),
            _ => 0,
        }
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        let mut state = self.state.lock();
        let word = value as u32;
        match (offset, width) {
            (SCRATCH, _) => state.scratch = word,
            (ADDRESS, Width::U64) => state.address = value,
            (LENGTH, _) => state.length = word,
            (COMMAND, _) => self.command(&mut state, word),
            (TIMER, _) => state.timer = Some(state.now + Duration::from_millis(value)),
            (PANIC, _) => panic!("the toy was asked to"),
            (LINES, _) => {
                state.levels = word;
                drop(state);
                self.show(word);
            }
            (MESSAGE, _) => {
                drop(state);
                self.lines[word as usize].message();
            }
            _ => {}
        }
    }
}

impl Device for Toy {
    fn step(&self, now: Duration) {
        let rings = {
            let mut state = self.state.lock();
            state.now = now;
            let rings = state.timer.is_some_and(|timer| timer <= now);
            if rings {
                state.timer = None;
                state.levels |= 1;
            }
            rings
        };
        if rings {
            self.lines[0].set(true);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.state.lock().timer
    }

    fn power_on(&self) {
        {
            let mut state = self.state.lock();
            *state = State { now: state.now, ..State::default() };
        }
        self.show(0);
    }
}

/// A service with a toy, at a socket of its own.
pub(crate) struct Board {
    pub(crate) toy: Arc<Toy>,
    pub(crate) memory: Arc<ClientMemory>,
    pub(crate) service: Service,
    events: Receiver<Event>,
    _folder: TempDir,
}

pub(crate) fn config() -> PciConfig {
    let msix = MsixConfig { vectors: VECTORS, table_bar: 2, table_offset: 0, pba_bar: 2, pba_offset: 0x800 };
    PciConfig::new(0x153f, 0x1006, 0x0c0380)
        .bar(0, Bar::memory32(0x1000).device())
        .bar(2, Bar::memory32(0x1000))
        .msi(VECTORS)
        .msix(msix)
}

impl Board {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::at(folder.path().join("toy.sock"), folder).expect("a service")
    }

    pub(crate) fn at(path: PathBuf, folder: TempDir) -> Result<Self, serve::ServeError> {
        let memory = ClientMemory::new();
        let (toy, function) = function(memory.clone());
        let (sender, events) = channel();
        let sender = Mutex::new(sender);
        let service = Service::start(path, function, memory.clone(), move |event| {
            // The test may have ended.
            let _ = sender.lock().send(event);
        })?;
        Ok(Self { toy, memory, service, events, _folder: folder })
    }

    /// A client that has agreed on a version and switched memory decoding and bus mastering on.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.stranger();
        client.negotiate();
        assert_eq!(self.event(), Event::Connected);
        client.config_write(0x04, &[0x06, 0]);
        client
    }

    /// A client that has said nothing yet.
    pub(crate) fn stranger(&self) -> Client {
        Client::connect(self.service.path())
    }

    /// The next event.
    pub(crate) fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }
}

pub(crate) fn function(memory: Arc<dyn DmaMemory>) -> (Arc<Toy>, Arc<PciFunction>) {
    let slot = PciSlot::new(config()).expect("a function");
    let dma = DmaPort::new("toy", slot.memory(memory));
    let lines = (0..VECTORS).map(|vector| slot.line(vector)).collect();
    let toy = Arc::new(Toy { dma, lines, state: Mutex::default() });
    (toy.clone(), Arc::new(PciFunction::new(slot, toy)))
}
