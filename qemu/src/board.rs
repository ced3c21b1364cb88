//! A board: QEMU, the controller in this process, and the host at the other end of its cable.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use scenarios::{
    LiveBoard, LiveBus, LiveDevice, LiveEvents, LogLine, STRIKE_INTERVAL, ServedController, VirtualBoard, VirtualBus,
};
use usb_host::{Host, HostConfig, Log};

use crate::cache::Cache;
use crate::config::BoardConfig;
use crate::console::{Marker, is_fatal};
use crate::controller;
use crate::error::BoardError;
use crate::eyes::Eyes;
use crate::machine::{Boot, Machine};
use crate::record::{Record, Side};

/// How often a signal is looked for while nothing else happens.
const LOOK: Duration = Duration::from_millis(100);
/// What a kernel that fails has to say after its first word of it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A board that is switched on. Dropping it takes QEMU and the socket away again.
pub struct Board {
    machine: Machine,
    cable: Cable,
    _controller: ServedController,
    events: Receiver<Happened>,
    record: Record,
    device: Option<LiveDevice>,
    progress: Progress,
    /// QEMU's last word.
    said: Option<String>,
    patience: Duration,
    eyes: Option<Arc<Eyes>>,
    signal: Arc<AtomicUsize>,
}

/// The host's end.
enum Cable {
    /// A bus of the board's own.
    Own { board: LiveBoard, _bus: LiveBus },
    /// One that programs see.
    Shown(VirtualBoard),
}

impl Cable {
    fn live(&self) -> &LiveBoard {
        match self {
            Self::Own { board, .. } => board,
            Self::Shown(board) => board.live(),
        }
    }
}

/// How far the board has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// The kernel boots.
    Kernel,
    /// Its init runs.
    Init,
    /// It takes commands.
    Ready,
}

/// What changes the state of a board.
enum Happened {
    /// A line of its console, or its end.
    Console(Option<String>),
    /// A line of QEMU's own.
    QemuSaid(String),
    /// QEMU has nothing more to say.
    QemuEnded,
    Arrived(LiveDevice),
    Left,
    Failed(String),
}

impl Board {
    /// Switches a board on. Both sides' words go to `record`. With `shown` its device is one of that bus's, which programs
    /// see.
    ///
    /// To be called on a thread that lives as long as the board: QEMU is killed when that thread ends.
    ///
    /// # Errors
    /// [`BoardError`], if it cannot be set up. What happens then is waited for.
    pub fn start(
        cache: &Cache,
        config: &BoardConfig,
        record: Record,
        shown: Option<&VirtualBus>,
    ) -> Result<Self, BoardError> {
        let (sender, events) = mpsc::channel();
        let (socket, controller, eyes) = controller::serve(config, &record)?;

        let host = HostConfig {
            port: config.port.clone(),
            max_speed: config.speed,
            configuration: config.configuration,
            strike_interval: STRIKE_INTERVAL,
            ..HostConfig::default()
        };
        let log = Arc::new(HostLines(record.clone()));
        let told = Events { sender: sender.clone() };
        let cable = match shown {
            Some(bus) => Cable::Shown(bus.connect(controller.port(), host, log, told)?),
            None => {
                let bus = LiveBus::start()?;
                Cable::Own { board: bus.connect(controller.port(), host, log, told)?, _bus: bus }
            }
        };

        let boot = Boot {
            kernel: &config.kernel,
            glue: config.glue,
            socket: &socket,
            append: &config.command_line(),
            interactive: config.shell,
        };
        let machine = Machine::start(cache, &boot, console(&record, &sender), errors(&record, sender))?;
        Ok(Self {
            machine,
            cable,
            _controller: controller,
            events,
            record,
            device: None,
            progress: Progress::Kernel,
            said: None,
            patience: config.patience,
            eyes,
            signal: Arc::clone(&config.signal),
        })
    }

    /// Waits until the board's user land takes commands: its gadget is bound then.
    ///
    /// # Errors
    /// [`BoardError::Boot`] if the kernel did not come so far, [`BoardError::Board`] if a step failed.
    pub fn ready(&mut self) -> Result<(), BoardError> {
        self.init()?;
        self.wait("the board's user land", |board, _| (board.progress >= Progress::Ready).then_some(()))
    }

    /// Waits until the kernel runs the board's init.
    ///
    /// # Errors
    /// [`BoardError::Boot`], if it does not.
    pub fn init(&mut self) -> Result<(), BoardError> {
        let booted = self.wait("init", |board, _| (board.progress >= Progress::Init).then_some(()));
        booted.map_err(|error| match error {
            BoardError::Patience { patience, .. } => {
                let last = self.record.last(Side::Board).unwrap_or_else(|| "its console is empty".to_owned());
                BoardError::Boot(format!("not within {} s: {last}", patience.as_secs()))
            }
            BoardError::Panic(line) | BoardError::Board(line) if self.progress == Progress::Kernel => {
                BoardError::Boot(line)
            }
            error => error,
        })
    }

    /// Whether the board takes commands.
    #[must_use]
    pub fn obeys(&self) -> bool {
        self.progress == Progress::Ready
    }

    /// Waits until the host has enumerated the board's device.
    ///
    /// # Errors
    /// [`BoardError::Host`] with the host's first error, if it gives up.
    pub fn enumerated(&mut self) -> Result<LiveDevice, BoardError> {
        self.wait("a device at the host", |board, _| board.device.clone())
    }

    /// Waits until the device is gone from the host.
    ///
    /// # Errors
    /// [`BoardError::Patience`].
    pub fn gone(&mut self) -> Result<(), BoardError> {
        self.wait("the device to go", |board, _| board.device.is_none().then_some(()))
    }

    /// Waits until the user land says `text`.
    ///
    /// # Errors
    /// [`BoardError::Patience`], or what goes wrong meanwhile.
    pub fn says(&mut self, text: &str) -> Result<(), BoardError> {
        self.wait(text, |_, marker| matches!(marker, Some(Marker::Other(said)) if said == text).then_some(()))
    }

    /// Has the board do something, in the words of `qemu/guest/command`, and returns what it said.
    ///
    /// # Errors
    /// [`BoardError::Board`] if it says that it failed.
    pub fn command(&mut self, line: &str) -> Result<Vec<String>, BoardError> {
        let name = line.split_whitespace().next().unwrap_or_default().to_owned();
        self.machine.type_line(line)?;
        let mut said = Vec::new();
        self.wait(&format!("the command {name}"), |_, marker| match marker {
            Some(Marker::Done(done)) if *done == name => Some(()),
            Some(Marker::Other(text)) => {
                said.push(text.clone());
                None
            }
            _ => None,
        })?;
        Ok(said)
    }

    /// Reboots the board, and waits until its device was gone and both are there again.
    ///
    /// # Errors
    /// As [`Board::ready`] and [`Board::enumerated`].
    pub fn reboot(&mut self) -> Result<LiveDevice, BoardError> {
        self.machine.type_line("reboot")?;
        self.progress = Progress::Kernel;
        self.gone()?;
        self.ready()?;
        self.enumerated()
    }

    /// The host at the other end of the cable.
    #[must_use]
    pub fn host(&self) -> &Host {
        self.cable.live().host()
    }

    /// Types a line on the board's console.
    ///
    /// # Errors
    /// [`BoardError::Qemu`].
    pub fn type_line(&mut self, line: &str) -> Result<(), BoardError> {
        self.machine.type_line(line)
    }

    /// Pulls the cable out.
    pub fn unplug(&self) {
        self.cable.live().unplug();
    }

    /// Plugs the cable in again.
    pub fn plug(&self) {
        self.cable.live().plug();
    }

    /// Switches the board off by its own command, and waits for its end.
    ///
    /// # Errors
    /// [`BoardError`], if it does not end by that.
    pub fn power_off(mut self) -> Result<(), BoardError> {
        self.machine.type_line("poweroff")?;
        let end = Instant::now() + self.patience;
        loop {
            match self.next(end) {
                Ok(Some(_)) => {}
                Ok(None) => return Err(self.out_of_patience("the machine to switch itself off")),
                // The device leaves on the way, which is no failure now.
                Err(BoardError::Host(_)) => {}
                Err(BoardError::Qemu(_)) if self.ended_well()? => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the machine has switched itself off.
    ///
    /// # Errors
    /// [`BoardError::System`].
    pub fn ended_well(&mut self) -> Result<bool, BoardError> {
        Ok(self.ended()?.is_some_and(|status| status.success()))
    }

    /// How QEMU ended, which it is about to.
    fn ended(&mut self) -> Result<Option<ExitStatus>, BoardError> {
        let end = Instant::now() + LAST_WORDS;
        loop {
            let ended = self.machine.ended()?;
            if ended.is_some() || Instant::now() > end {
                return Ok(ended);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets what happens happen, for `time` or until something goes wrong.
    ///
    /// # Errors
    /// What goes wrong.
    pub fn watch(&mut self, time: Duration) -> Result<(), BoardError> {
        let end = Instant::now() + time;
        while self.next(end)?.is_some() {}
        Ok(())
    }

    /// Lets what happens happen until the machine is switched off.
    ///
    /// # Errors
    /// What goes wrong.
    pub fn watch_to_the_end(&mut self) -> Result<(), BoardError> {
        loop {
            match self.watch(LOOK) {
                Ok(()) if self.machine.ended()?.is_none() => {}
                Ok(()) | Err(BoardError::Host(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The record of both sides.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// What watches the controller, of a board that is observed.
    pub(crate) fn eyes(&self) -> Option<Arc<Eyes>> {
        self.eyes.clone()
    }

    /// Waits for what `done` sees in the device and in what the user land says.
    fn wait<R>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&Self, Option<&Marker>) -> Option<R>,
    ) -> Result<R, BoardError> {
        let end = Instant::now() + self.patience;
        let mut marker = None;
        loop {
            if let Some(result) = done(self, marker.as_ref()) {
                return Ok(result);
            }
            match self.next(end)? {
                Some(said) => marker = said,
                None => return Err(self.out_of_patience(what)),
            }
        }
    }

    fn out_of_patience(&self, what: &str) -> BoardError {
        BoardError::Patience { what: what.to_owned(), patience: self.patience }
    }

    /// Takes the next thing that happens, and what the user land says by it; `None` at the end of the time.
    fn next(&mut self, end: Instant) -> Result<Option<Option<Marker>>, BoardError> {
        loop {
            let signal = self.signal.swap(0, Ordering::Relaxed);
            if signal != 0 {
                return Err(BoardError::Signal(i32::try_from(signal).unwrap_or(0)));
            }
            let rest = end.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(rest.min(LOOK)) {
                Ok(happened) => return self.take(happened).map(Some),
                Err(RecvTimeoutError::Timeout) if rest.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.qemu_ended()),
            }
        }
    }

    fn take(&mut self, happened: Happened) -> Result<Option<Marker>, BoardError> {
        match happened {
            Happened::Console(Some(line)) => match Marker::parse(&line) {
                Some(Marker::Failure(text)) if text.contains("can't change directory to") => {
                    return Err(BoardError::Kernel(format!("the modules are another kernel's: {text}")));
                }
                Some(Marker::Failure(text)) if text.starts_with("observe: ") => {
                    return Err(BoardError::Kernel(format!("it does not log what its pools do: {text}")));
                }
                Some(Marker::Failure(text)) => return Err(BoardError::Board(text)),
                None if is_fatal(&line) => {
                    // The record takes the rest.
                    std::thread::sleep(LAST_WORDS);
                    return Err(BoardError::Panic(line));
                }
                marker => {
                    self.progress = match marker {
                        // After a reboot too.
                        Some(Marker::Board) => Progress::Init,
                        Some(Marker::Ready) => Progress::Ready,
                        _ => self.progress,
                    };
                    return Ok(marker);
                }
            },
            Happened::QemuSaid(line) => {
                let lost = is_lost(&line);
                self.said = Some(line.clone());
                if lost {
                    return Err(BoardError::Qemu(format!("the controller did not answer in time: {line}")));
                }
            }
            Happened::Console(None) | Happened::QemuEnded => return Err(self.qemu_ended()),
            Happened::Arrived(device) => self.device = Some(device),
            Happened::Left => self.device = None,
            Happened::Failed(text) => return Err(BoardError::Host(text)),
        }
        Ok(None)
    }

    fn qemu_ended(&mut self) -> BoardError {
        let status =
            self.ended().ok().flatten().map_or_else(|| "its console is closed".to_owned(), |status| status.to_string());
        let said = self.said.as_ref().map_or_else(String::new, |line| format!(": {line}"));
        BoardError::Qemu(format!("it ended, {status}{said}"))
    }
}

/// What takes the console's lines.
fn console(record: &Record, sender: &Sender<Happened>) -> impl FnMut(Option<String>) + Send + 'static {
    let (record, sender) = (record.clone(), sender.clone());
    move |line| {
        if let Some(line) = &line {
            record.add(Side::Board, line);
        }
        // Nobody may wait any more.
        let _ = sender.send(Happened::Console(line));
    }
}

/// What takes QEMU's own messages. One that comes again and again is kept once.
fn errors(record: &Record, sender: Sender<Happened>) -> impl FnMut(Option<String>) + Send + 'static {
    let (record, mut lost) = (record.clone(), false);
    move |line| {
        let happened = match line {
            Some(_) if lost => return,
            Some(line) => {
                lost = is_lost(&line);
                record.add(Side::Qemu, &line);
                Happened::QemuSaid(line)
            }
            None => Happened::QemuEnded,
        };
        // Nobody may wait any more.
        let _ = sender.send(happened);
    }
}

/// What QEMU says when an access to the controller had no answer, or another's: this process was stopped for seconds.
/// From then on nothing that the board does means anything.
fn is_lost(line: &str) -> bool {
    line.contains("vfio")
        && ["timed out", "unexpected reply", "bad header", "failed: "].iter().any(|text| line.contains(text))
}

/// The host's log, as part of the record.
struct HostLines(Record);

impl Log for HostLines {
    fn line(&self, _time: Duration, text: &str) {
        self.0.add(Side::Host, text);
    }
}

struct Events {
    sender: Sender<Happened>,
}

impl LiveEvents for Events {
    fn arrived(&mut self, device: LiveDevice) {
        let _ = self.sender.send(Happened::Arrived(device));
    }

    fn left(&mut self) {
        let _ = self.sender.send(Happened::Left);
    }

    fn failed(&mut self, log: &[LogLine]) {
        let error = log.iter().rev().find(|line| line.text.contains(", error -")).or(log.last());
        let text = error.map_or_else(|| "it gave up without a word".to_owned(), |line| line.text.clone());
        let _ = self.sender.send(Happened::Failed(text));
    }
}
