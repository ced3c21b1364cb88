//! From lines to a [`Dump`]. A line's end counts, whatever a console, a log or `grep` puts before it.

use usb::Direction;

use crate::config::Config;
use crate::descriptor::Token;
use crate::register_map::RegisterMap;
use crate::slot::Slot;

use super::Source;
use super::dump::{Dump, Head, QueuedDtd, RegisterLine, TdEvent, TdEventKind};

/// The keys of `device` (`ci_device_show`), each padded to 18 columns.
const DEVICE_KEYS: [&str; 10] = [
    "speed",
    "max_speed",
    "is_otg",
    "is_a_peripheral",
    "b_hnp_enable",
    "a_hnp_support",
    "a_alt_hnp_support",
    "name",
    "gadget function",
    "gadget max speed",
];

/// Reads all sources into one dump.
pub(super) fn read(sources: &[Source<'_>]) -> Dump {
    let mut reader = Reader { dump: Dump::default(), open: Open::Nothing, registers: register_names() };
    for source in sources {
        let file = source.name.rsplit('/').next().unwrap_or_default();
        reader.open = Open::Nothing;
        reader.dump.has_requests |= file == "requests";
        for line in source.text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()) {
            let role = (file == "role" && ["gadget", "host"].contains(&line.trim())).then(|| line.trim());
            match role {
                Some(role) => reader.dump.role = Some(role.to_owned()),
                None => reader.line(line),
            }
        }
    }
    reader.dump
}

/// What lines of words belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    /// The last two of the heads.
    Heads,
    /// The last dTD.
    Dtd,
    /// A first line that cannot be read: its words belong to nobody, and are not counted once more.
    Damaged,
}

struct Reader {
    dump: Dump,
    open: Open,
    registers: Vec<String>,
}

/// The names of all registers that the model has.
fn register_names() -> Vec<String> {
    let map = RegisterMap::new(&Config::default());
    let names = map.registers().iter().flat_map(|register| match register.count {
        1 => vec![register.name.to_owned()],
        count => (0..count).map(|number| format!("{}{number}", register.name)).collect(),
    });
    names.collect()
}

/// What became of a line.
enum Outcome {
    Read,
    Damaged,
    Foreign,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let outcome = if let Some((_, rest)) = line.split_once("EP=") {
            self.first_line(&format!("EP={rest}"), rest)
        } else if let Some((before, value)) = line.split_once(" reg: ") {
            self.register(before, value)
        } else if let Some((before, fields)) = line.split_once("ci_prepare_td: ") {
            self.event(TdEventKind::Prepare, before, fields)
        } else if let Some((before, fields)) = line.split_once("ci_complete_td: ") {
            self.event(TdEventKind::Complete, before, fields)
        } else if let Some((number, words)) = word_line(line) {
            self.words(number, &words)
        } else {
            self.other(line)
        };
        match outcome {
            Outcome::Read => {}
            Outcome::Damaged => self.dump.damaged.add(line),
            Outcome::Foreign => self.dump.foreign.add(line),
        }
    }

    /// `EP=%02i: RX=%08X TX=%08X` or `EP=%02i: TD=%08X RX`.
    fn first_line(&mut self, line: &str, rest: &str) -> Outcome {
        let read = first_line(rest);
        self.open = Open::Damaged;
        match read {
            Some((endpoint, First::Heads { rx, tx })) => self.heads(endpoint, rx, tx, line),
            Some((endpoint, First::Dtd { address, direction })) => self.dtd(endpoint, direction, address, line),
            None => Outcome::Damaged,
        }
    }

    fn heads(&mut self, endpoint: u8, rx: u32, tx: u32, line: &str) -> Outcome {
        let heads = &mut self.dump.heads;
        // Another dump begins with endpoint 0. An endpoint that comes twice in one is a line that was hit.
        if endpoint == 0 && !heads.is_empty() {
            heads.clear();
            self.dump.earlier += 1;
        }
        if heads.iter().any(|head| head.slot.endpoint() == endpoint) {
            return Outcome::Damaged;
        }
        heads.push(Head::new(endpoint, Direction::Out, rx, line));
        heads.push(Head::new(endpoint, Direction::In, tx, line));
        self.open = Open::Heads;
        Outcome::Read
    }

    fn dtd(&mut self, endpoint: u8, direction: Direction, address: u32, line: &str) -> Outcome {
        let slot = Slot::new(endpoint, direction);
        let requests = &mut self.dump.requests;
        // All RX in the order of their numbers, then all TX: what goes back in that order is another dump.
        let order = |slot: Slot| (slot.is_in(), slot.endpoint());
        let goes_back = requests.last().is_some_and(|last| order(last.slot) > order(slot));
        if goes_back || requests.first().is_some_and(|first| first.slot == slot && first.address == address) {
            requests.clear();
            self.dump.earlier += 1;
        }
        requests.push(QueuedDtd { slot, address, words: [None; 7], line: line.to_owned() });
        self.dump.has_requests = true;
        self.open = Open::Dtd;
        Outcome::Read
    }

    /// ` %04X:    %08X    %08X` behind a dQH, ` %04X:    %08X` behind a dTD.
    fn words(&mut self, number: usize, words: &[Option<u32>]) -> Outcome {
        let placed = match (self.open, words) {
            // Words of a first line that was hit were counted with it.
            (Open::Damaged, _) => return Outcome::Read,
            // Words alone mean nothing, and other texts have such lines too.
            (Open::Nothing, _) => return Outcome::Foreign,
            (Open::Heads, [rx, tx]) => self.head_words(number, *rx, *tx),
            (Open::Dtd, [word]) => self.dtd_word(number, *word),
            _ => None,
        };
        match placed {
            Some(true) => Outcome::Read,
            Some(false) => Outcome::Damaged,
            None => {
                // The first line of whatever these belong to is lost.
                self.open = Open::Damaged;
                Outcome::Damaged
            }
        }
    }

    /// Whether both words could be read; `None` if they are not of the last two heads.
    fn head_words(&mut self, number: usize, rx: Option<u32>, tx: Option<u32>) -> Option<bool> {
        let [.., rx_head, tx_head] = &mut self.dump.heads[..] else { return None };
        let (rx_rest, tx_rest) = (rx_head.words.get_mut(number..)?, tx_head.words.get_mut(number..)?);
        // They come in order.
        if rx_rest.iter().chain(tx_rest.iter()).any(Option::is_some) {
            return None;
        }
        (*rx_rest.first_mut()?, *tx_rest.first_mut()?) = (rx, tx);
        Some(rx.is_some() && tx.is_some())
    }

    /// Whether the word could be read; `None` if it is not of the last dTD.
    fn dtd_word(&mut self, number: usize, word: Option<u32>) -> Option<bool> {
        let rest = self.dump.requests.last_mut()?.words.get_mut(number..)?;
        if rest.iter().any(Option::is_some) {
            return None;
        }
        *rest.first_mut()? = word;
        Some(word.is_some())
    }

    fn register(&mut self, before: &str, value: &str) -> Outcome {
        let name = before.split_whitespace().next_back().unwrap_or_default();
        // What `grep` puts before a line: the file's name.
        let name = name.rsplit(':').next().unwrap_or_default();
        if !self.registers.iter().any(|known| known == name) {
            return Outcome::Foreign;
        }
        let value = value.trim();
        let Some(word) = hex(value.strip_prefix("0x").unwrap_or(value)) else { return Outcome::Damaged };
        let line = RegisterLine { name: name.to_owned(), value: word, line: format!("{name} reg: {value}") };
        match self.dump.registers.iter_mut().find(|register| register.name == name) {
            Some(earlier) => {
                // The file's first line: another dump begins.
                self.dump.earlier += usize::from(name == "USBINTR");
                *earlier = line;
            }
            None => self.dump.registers.push(line),
        }
        Outcome::Read
    }

    /// `NAME: req: …, td: …, td_dma_address: …, remaining_size: …, next: …, total bytes: …, status: …`.
    fn event(&mut self, kind: TdEventKind, before: &str, fields: &str) -> Outcome {
        let name = match kind {
            TdEventKind::Prepare => "ci_prepare_td",
            TdEventKind::Complete => "ci_complete_td",
        };
        let time = before.split_whitespace().next_back().unwrap_or_default();
        let line = format!("{time} {name}: {fields}").trim().to_owned();
        let read = || {
            let (endpoint, _) = fields.split_once(": req: ")?;
            let field = |key: &str| {
                let (_, rest) = fields.split_once(&format!(", {key}: "))?;
                Some(rest.split(',').next().unwrap_or_default().trim())
            };
            // dma_addr_t has 32 or 64 bits; the controller's addresses have 32.
            let dma = u64::from_str_radix(field("td_dma_address")?.strip_prefix("0x")?, 16).ok()?;
            let total: u16 = field("total bytes")?.parse().ok().filter(|total| *total < 1 << 15)?;
            let status = u8::from_str_radix(field("status")?, 16).ok()?;
            let token = Token::from(u32::from(status) | u32::from(total) << 16);
            let (endpoint, address) = (endpoint.to_owned(), dma as u32);
            let begin = format!("{time} {name}: {endpoint}");
            Some(TdEvent { kind, endpoint, address, token, line, begin })
        };
        match read() {
            Some(event) => {
                self.dump.events.push(event);
                Outcome::Read
            }
            // Lists of tracepoints name them too.
            None if !fields.contains("req: ") => Outcome::Foreign,
            None => Outcome::Damaged,
        }
    }

    fn other(&mut self, line: &str) -> Outcome {
        for key in DEVICE_KEYS {
            if let Some((_, value)) = line.split_once(&format!("{key:<18}= ")) {
                self.dump.device.retain(|(known, _)| *known != key);
                self.dump.device.push((key, value.trim().to_owned()));
                return Outcome::Read;
            }
        }
        if line.ends_with("not in gadget mode") {
            self.dump.not_in_gadget_mode = true;
        } else if let Some((_, state)) = line.split_once("OTG state: ") {
            self.dump.otg_state = Some(state.trim().to_owned());
        } else if let Some((_, role)) =
            line.rsplit_once("role | ").filter(|(_, role)| ["gadget", "host"].contains(role))
        {
            self.dump.role = Some(role.to_owned());
        } else if line.contains("port_test | mode = ") || line.trim() == "mode = 0" {
            // Test modes are in PORTSC too.
        } else {
            return Outcome::Foreign;
        }
        Outcome::Read
    }
}

enum First {
    Heads { rx: u32, tx: u32 },
    Dtd { address: u32, direction: Direction },
}

/// What follows `EP=`.
fn first_line(rest: &str) -> Option<(u8, First)> {
    let (endpoint, rest) = rest.split_once(": ")?;
    // Controllers have up to 16.
    let endpoint = endpoint.parse().ok().filter(|endpoint| *endpoint < 16)?;
    let mut fields = rest.split_whitespace();
    let (first, second) = (fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    let first = match (first.strip_prefix("RX="), first.strip_prefix("TD="), second) {
        (Some(rx), _, tx) => First::Heads { rx: hex(rx)?, tx: hex(tx.strip_prefix("TX=")?)? },
        (_, Some(address), "RX") => First::Dtd { address: hex(address)?, direction: Direction::Out },
        (_, Some(address), "TX") => First::Dtd { address: hex(address)?, direction: Direction::In },
        _ => return None,
    };
    Some((endpoint, first))
}

/// The number and the words at the end of a line. A word that is there and cannot be read is `None`.
fn word_line(line: &str) -> Option<(usize, Vec<Option<u32>>)> {
    let tokens: Vec<&str> = line.split_whitespace().collect();
    let at = tokens.iter().rposition(|token| number(token).is_some())?;
    let words: Vec<_> = tokens[at + 1..].iter().map(|token| hex(token)).collect();
    (1..=2).contains(&words.len()).then_some((number(tokens[at])?, words))
}

/// `%04X:`, alone or behind what `grep` puts before a line.
fn number(token: &str) -> Option<usize> {
    let digits = token.strip_suffix(':')?;
    let digits = digits.rsplit(':').next()?;
    let number = (digits.len() == 4).then(|| usize::from_str_radix(digits, 16).ok())??;
    (number < 16).then_some(number)
}

/// Eight hexadecimal digits.
fn hex(digits: &str) -> Option<u32> {
    let plain = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok())?
}
