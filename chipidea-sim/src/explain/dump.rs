//! What a board's files say, line by line, before anybody judges it.

use std::fmt;

use usb::Direction;

use crate::descriptor::{Capabilities, Link, Token};
use crate::slot::Slot;

/// Words of a dQH that `qheads` prints (Linux: `struct ci_hw_qh`).
pub(super) const HEAD_WORDS: usize = 12;
/// Words of a dTD that `requests` prints (Linux: `struct ci_hw_td`).
pub(super) const DTD_WORDS: usize = 7;

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Dump {
    /// `device`: key and value, in order.
    pub(super) device: Vec<(&'static str, String)>,
    /// `role`, up to Linux 6.3.
    pub(super) role: Option<String>,
    /// `otg`: the state's name.
    pub(super) otg_state: Option<String>,
    /// `qheads` or `requests` of a controller in another role says only that.
    pub(super) not_in_gadget_mode: bool,
    /// `qheads`, in the order of its lines: RX before TX.
    pub(super) heads: Vec<Head>,
    /// `requests`, in the order of its lines.
    pub(super) requests: Vec<QueuedDtd>,
    /// Whether `requests` was read; one that is empty has no lines.
    pub(super) has_requests: bool,
    /// `registers`, and further ones in its form.
    pub(super) registers: Vec<RegisterLine>,
    /// Tracepoints, in the order of time.
    pub(super) events: Vec<TdEvent>,
    /// Dumps of `qheads`, `requests` and `registers` before the last of each, which is the one that is kept.
    pub(super) earlier: usize,
    /// Lines that have the form of one of these files and cannot be read.
    pub(super) damaged: Lines,
    /// Other lines.
    pub(super) foreign: Lines,
}

/// Lines that are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) count: usize,
    pub(super) first: Option<String>,
}

impl Lines {
    pub(super) fn add(&mut self, line: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| line.trim().to_owned());
    }
}

/// An endpoint of one direction in the kernel's words: `ep0 RX`, `ep1 TX`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(pub(super) Slot);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ep{} {}", self.0.endpoint(), if self.0.is_in() { "TX" } else { "RX" })
    }
}

/// One direction's half of `EP=%02i: RX=%08X TX=%08X` and of the twelve lines behind it.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) slot: Slot,
    /// The low 32 bits of the dQH's DMA address.
    pub(super) address: u32,
    /// `None` for a line that is missing or cannot be read.
    pub(super) words: [Option<u32>; HEAD_WORDS],
    /// The first line.
    pub(super) line: String,
}

impl Head {
    pub(super) fn new(endpoint: u8, direction: Direction, address: u32, line: &str) -> Self {
        Self { slot: Slot::new(endpoint, direction), address, words: [None; HEAD_WORDS], line: line.to_owned() }
    }

    pub(super) const fn name(&self) -> Name {
        Name(self.slot)
    }

    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        self.words[0].map(Capabilities::from)
    }

    /// The dTD that the last prime took.
    pub(super) const fn current(&self) -> Option<u32> {
        self.words[1]
    }

    /// What the next prime takes, or the dTD behind the one in the overlay.
    pub(super) fn next(&self) -> Option<Link> {
        self.words[2].map(Link)
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.words[3].map(Token::from)
    }

    /// The page pointers of the overlay, as far as they are known.
    pub(super) fn pages(&self) -> [Option<u32>; 5] {
        std::array::from_fn(|page| self.words[4 + page])
    }

    /// The bytes of a SETUP packet at +40.
    pub(super) fn setup(&self) -> Option<[u8; 8]> {
        let (low, high) = (self.words[10]?, self.words[11]?);
        Some((u64::from(high) << 32 | u64::from(low)).to_le_bytes())
    }

    /// Whether a driver enabled the endpoint: ci_hdrc writes capabilities when it does.
    pub(super) fn is_enabled(&self) -> bool {
        self.words[0].is_some_and(|word| word != 0)
    }

    /// Whether every word that is known is 0.
    pub(super) fn is_blank(&self) -> bool {
        self.words.iter().flatten().all(|word| *word == 0)
    }

    /// The words of these numbers as the file prints them, of this direction only.
    pub(super) fn evidence(&self, numbers: &[usize]) -> String {
        let side = if self.slot.is_in() { "TX" } else { "RX" };
        let mut text = format!("EP={:02}: {side}={:08X}", self.slot.endpoint(), self.address);
        for number in numbers {
            match self.words.get(*number).copied().flatten() {
                Some(word) => text += &format!("; {number:04X}: {word:08X}"),
                None => text += &format!("; {number:04X}: missing"),
            }
        }
        text
    }
}

/// `EP=%02i: TD=%08X RX` and the seven lines behind it.
#[derive(Clone, Debug)]
pub(super) struct QueuedDtd {
    pub(super) slot: Slot,
    pub(super) address: u32,
    pub(super) words: [Option<u32>; DTD_WORDS],
    pub(super) line: String,
}

impl QueuedDtd {
    pub(super) fn next(&self) -> Option<Link> {
        self.words[0].map(Link)
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.words[1].map(Token::from)
    }

    pub(super) fn pages(&self) -> [Option<u32>; 5] {
        std::array::from_fn(|page| self.words[2 + page])
    }

    /// Whether the controller has still to move it.
    pub(super) fn is_active(&self) -> bool {
        self.token().is_some_and(|token| token.active())
    }

    pub(super) fn evidence(&self) -> String {
        let mut text = self.line.clone();
        for (number, word) in self.words.iter().enumerate().take(3) {
            match word {
                Some(word) => text += &format!("; {number:04X}: {word:08X}"),
                None => text += &format!("; {number:04X}: missing"),
            }
        }
        text
    }
}

/// `NAME reg: %08x`.
#[derive(Clone, Debug)]
pub(super) struct RegisterLine {
    pub(super) name: String,
    pub(super) value: u32,
    pub(super) line: String,
}

/// Which tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TdEventKind {
    /// `ci_prepare_td`: a dTD is filled in and about to be linked.
    Prepare,
    /// `ci_complete_td`: the driver looks at one, which need not be done.
    Complete,
}

/// One tracepoint.
#[derive(Clone, Debug)]
pub(super) struct TdEvent {
    pub(super) kind: TdEventKind,
    /// The endpoint as the driver names it: `ep0in`, `ep1out`.
    pub(super) endpoint: String,
    pub(super) address: u32,
    /// Status bits 7:0 and total bytes of the token.
    pub(super) token: Token,
    pub(super) line: String,
    /// Its begin: time, tracepoint, endpoint.
    pub(super) begin: String,
}

impl Dump {
    /// Whether nothing is in it that could be judged. Damaged lines are nothing, and what the gadget is called.
    pub(super) fn is_nothing(&self) -> bool {
        !self.not_in_gadget_mode
            && self.heads.is_empty()
            && self.requests.is_empty()
            && self.registers.is_empty()
            && self.events.is_empty()
    }

    pub(super) fn head(&self, slot: Slot) -> Option<&Head> {
        self.heads.iter().find(|head| head.slot == slot)
    }

    pub(super) fn register(&self, name: &str) -> Option<&RegisterLine> {
        self.registers.iter().find(|register| register.name == name)
    }

    pub(super) fn device_value(&self, key: &str) -> Option<&str> {
        self.device.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }

    /// Whether `address` is a dTD that is queued; `None` if that is not known.
    pub(super) fn is_queued(&self, address: u32) -> Option<bool> {
        self.has_requests.then(|| self.requests.iter().any(|dtd| dtd.address == address))
    }
}
