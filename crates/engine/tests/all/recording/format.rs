//! Recordings as text: what went over each connection of an association, a PDU a line. `recordings/README.md` says how it
//! is written; what a PDU means is not known here, but for the words behind it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use nvme::SubmissionEntry;
use nvme::command::{admin_opcode, io_opcode};
use zerocopy::FromBytes;

const FIRST_LINE: &str = "selvedge recording 1";

/// Something that happened, in the order in which it passed the recorder. Connections have numbers from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The host opened a connection.
    Open(usize),
    /// The host sent these bytes.
    Host(usize, Vec<u8>),
    /// The target sent these.
    Target(usize, Vec<u8>),
    /// The host sends no more.
    HostEnds(usize),
    /// The target sends no more.
    TargetEnds(usize),
    /// The target was administered.
    Change(Change),
}

/// Change of the target by its administrator meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The namespace with this identifier went.
    Remove(u32),
    /// The namespace came again.
    Restore(u32),
}

impl Change {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (what, nsid) = text.split_once(" namespace ")?;
        let nsid = nsid.trim().parse().ok()?;
        match what.trim() {
            "remove" => Some(Self::Remove(nsid)),
            "restore" => Some(Self::Restore(nsid)),
            _ => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Remove(nsid) => format!("remove namespace {nsid}"),
            Self::Restore(nsid) => format!("restore namespace {nsid}"),
        }
    }
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recording {
    /// Description: the host, how it was called, how the target was set up.
    pub(crate) header: Vec<(String, String)>,
    pub(crate) events: Vec<Event>,
}

impl Recording {
    /// A word of the header.
    pub(crate) fn about(&self, name: &str) -> Option<&str> {
        self.header.iter().find(|(known, _)| known == name).map(|(_, text)| &**text)
    }

    /// # Errors
    /// The line that is none of a recording.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut history = Vec::new();
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(FIRST_LINE) {
            return Err(format!("the first line is not `{FIRST_LINE}`"));
        }
        let mut recording = Self::default();
        for (number, line) in lines {
            let wrong = || format!("line {}: {line}", number + 1);
            let line = line.split(" ; ").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(change) = line.strip_prefix("= ") {
                recording.events.push(Event::Change(Change::parse(change).ok_or_else(wrong)?));
                continue;
            }
            if let Some((name, text)) = line.split_once(": ") {
                recording.header.push((name.to_owned(), text.to_owned()));
                continue;
            }
            let (connection, rest) = line.split_once(' ').ok_or_else(wrong)?;
            let connection = connection.parse().map_err(|_| wrong())?;
            let event = match rest.split_at_checked(2) {
                Some((way @ ("> " | "< "), bytes)) => {
                    let pdu = unpacked(bytes, &mut history).ok_or_else(wrong)?;
                    let event = if way == "> " { Event::Host } else { Event::Target };
                    event(connection, pdu)
                }
                _ => match rest {
                    "open" => Event::Open(connection),
                    "host ends" => Event::HostEnds(connection),
                    "target ends" => Event::TargetEnds(connection),
                    _ => return Err(wrong()),
                },
            };
            recording.events.push(event);
        }
        Ok(recording)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (name, about) in &self.header {
            let _ = writeln!(text, "{name}: {about}");
        }
        text.push('\n');
        let mut packer = Packer::default();
        for event in &self.events {
            let _ = match event {
                Event::Open(connection) => writeln!(text, "{connection} open"),
                Event::Host(connection, pdu) => {
                    writeln!(text, "{connection} > {} ; {}", packer.pack(pdu), described(pdu))
                }
                Event::Target(connection, pdu) => {
                    writeln!(text, "{connection} < {} ; {}", packer.pack(pdu), described(pdu))
                }
                Event::HostEnds(connection) => writeln!(text, "{connection} host ends"),
                Event::TargetEnds(connection) => writeln!(text, "{connection} target ends"),
                Event::Change(change) => writeln!(text, "= {}", change.text()),
            };
        }
        text
    }
}

/// Units that repeat are looked for in these lengths.
const UNITS: [usize; 5] = [1, 2, 4, 8, 16];
/// Length from which bytes that repeat are abbreviated.
const REPEATED_BYTES_MIN: usize = 16;

/// Length from which bytes that were there before are named by their place.
const NAMED_BYTES_MIN: usize = 64;

/// Writes bytes in hexadecimal, with `UNIT*COUNT` for what repeats and `@PLACE+LENGTH` for what was in the recording before:
/// PLACE counts the bytes of all its PDUs.
#[derive(Default)]
struct Packer {
    history: Vec<u8>,
    /// Places of stretches of `NAMED_BYTES_MIN` bytes.
    places: HashMap<[u8; NAMED_BYTES_MIN], usize>,
}

impl Packer {
    fn pack(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        let mut at = 0;
        let mut is_plain = false;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (word, length) = match (repetition(rest), self.known(rest)) {
                (Some((unit, count)), _) => (format!("{}*{count}", hex(&rest[..unit])), unit * count),
                (None, Some((place, length))) => (format!("@{place}+{length}"), length),
                (None, None) => (hex(&rest[..1]), 1),
            };
            let goes_on = is_plain && length == 1;
            if !text.is_empty() && !goes_on {
                text.push(' ');
            }
            text.push_str(&word);
            at += length;
            is_plain = length == 1;
        }
        self.keep(bytes);
        text
    }

    /// Earlier place of `bytes`, and how many of them are the same there.
    fn known(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let place = *self.places.get(bytes.first_chunk::<NAMED_BYTES_MIN>()?)?;
        let same = self.history[place..].iter().zip(bytes).take_while(|(old, new)| old == new).count();
        Some((place, same))
    }

    fn keep(&mut self, bytes: &[u8]) {
        let place = self.history.len();
        self.history.extend_from_slice(bytes);
        for (at, window) in bytes.windows(NAMED_BYTES_MIN).enumerate() {
            let window = window.try_into().expect("a window of its length");
            self.places.entry(window).or_insert(place + at);
        }
    }
}

/// The unit with which `bytes` begin again and again, and how often.
fn repetition(bytes: &[u8]) -> Option<(usize, usize)> {
    let repeats = |unit: usize| {
        let first = bytes.get(..unit);
        bytes.chunks_exact(unit).take_while(|chunk| Some(*chunk) == first).count()
    };
    // Of two ways to say the same, the shorter unit.
    let longest = UNITS
        .iter()
        .map(|unit| (*unit, repeats(*unit)))
        .max_by_key(|(unit, count)| (unit * count, Reverse(*unit)));
    longest.filter(|(unit, count)| *count > 1 && unit * count >= REPEATED_BYTES_MIN)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reverse of `Packer::pack`, behind all that was unpacked before.
fn unpacked(text: &str, history: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        if let Some((place, length)) = word.strip_prefix('@').and_then(|word| word.split_once('+')) {
            let (place, length): (usize, usize) = (place.parse().ok()?, length.parse().ok()?);
            bytes.extend_from_slice(history.get(place..place.checked_add(length)?)?);
            continue;
        }
        let (unit, count) = match word.split_once('*') {
            Some((unit, count)) => (unit, count.parse().ok()?),
            None => (word, 1),
        };
        let digits: Option<Vec<u8>> = unit
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let unit = digits.filter(|_| unit.len().is_multiple_of(2))?;
        (0..count).for_each(|_| bytes.extend_from_slice(&unit));
    }
    history.extend_from_slice(&bytes);
    Some(bytes)
}

/// Kind of a PDU, for people.
fn described(pdu: &[u8]) -> String {
    let command = |at: usize| format!("{:04x}", u16::from_le_bytes([pdu[at], pdu[at + 1]]));
    match pdu.first() {
        Some(0x00) => "ICReq".to_owned(),
        Some(0x01) => "ICResp".to_owned(),
        Some(0x02) => "H2CTermReq".to_owned(),
        Some(0x03) => "C2HTermReq".to_owned(),
        Some(0x04) if pdu.len() >= 72 => match SubmissionEntry::read_from_bytes(&pdu[8..72]) {
            Ok(entry) => format!("command {:04x}: {}", entry.command_id.get(), name_of(&entry)),
            Err(_) => "command".to_owned(),
        },
        Some(0x05) if pdu.len() >= 24 => {
            let status = u16::from_le_bytes([pdu[22], pdu[23]]) >> 1;
            format!("answer to {}: {}", command(20), nvme::Status::from_bits(status))
        }
        Some(0x06) if pdu.len() >= 24 => format!("data of {}", command(8)),
        Some(0x07) if pdu.len() >= 24 => format!("data for {}", command(8)),
        Some(0x09) if pdu.len() >= 24 => format!("R2T for {}", command(8)),
        _ => "no PDU".to_owned(),
    }
}

/// A command's name. Opcodes of the two kinds of queue overlap: where they do, both are given.
fn name_of(entry: &SubmissionEntry) -> String {
    let admin = match entry.opcode {
        admin_opcode::FABRICS => {
            return match entry.fabrics_type() {
                0x00 => format!("Property Set {:02x}h", entry.cdw11.get()),
                0x01 => format!("Connect, queue {}", entry.cdw10.get() >> 16),
                0x04 => format!("Property Get {:02x}h", entry.cdw11.get()),
                0x08 => "Disconnect".to_owned(),
                kind => format!("Fabrics {kind:02x}h"),
            };
        }
        admin_opcode::GET_LOG_PAGE => format!("Get Log Page {:02x}h", entry.cdw10.get() as u8),
        admin_opcode::IDENTIFY => format!("Identify {:02x}h", entry.cdw10.get() as u8),
        admin_opcode::ABORT => "Abort".to_owned(),
        admin_opcode::SET_FEATURES => format!("Set Features {:02x}h", entry.cdw10.get() as u8),
        admin_opcode::GET_FEATURES => format!("Get Features {:02x}h", entry.cdw10.get() as u8),
        admin_opcode::ASYNC_EVENT_REQUEST => "Asynchronous Event Request".to_owned(),
        admin_opcode::KEEP_ALIVE => "Keep Alive".to_owned(),
        _ => String::new(),
    };
    let io = match entry.opcode {
        io_opcode::FLUSH => "Flush",
        io_opcode::WRITE => "Write",
        io_opcode::READ => "Read",
        io_opcode::COMPARE => "Compare",
        io_opcode::WRITE_ZEROES => "Write Zeroes",
        io_opcode::DATASET_MANAGEMENT => "Dataset Management",
        io_opcode::VERIFY => "Verify",
        io_opcode::WRITE_UNCORRECTABLE => "Write Uncorrectable",
        io_opcode::RESERVATION_REGISTER => "Reservation Register",
        io_opcode::RESERVATION_REPORT => "Reservation Report",
        io_opcode::RESERVATION_ACQUIRE => "Reservation Acquire",
        io_opcode::RESERVATION_RELEASE => "Reservation Release",
        io_opcode::COPY => "Copy",
        _ => "",
    };
    match (admin.is_empty(), io.is_empty()) {
        (true, true) => format!("opcode {:02x}h", entry.opcode),
        (false, true) => admin,
        (true, false) => io.to_owned(),
        (false, false) if entry.nsid.get() == 0 => admin,
        (false, false) => format!("{admin} or {io}"),
    }
}

/// Checks that a recording keeps what went over the wire.
#[cfg(test)]
pub(crate) fn check_packing() {
    let mut noise = 1_u32;
    let mut events = Vec::new();
    let mut before: Vec<u8> = Vec::new();
    for length in 1..300 {
        let mut bytes = vec![0; length];
        for (at, byte) in bytes.iter_mut().enumerate() {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = if (at / 40) % 2 == 0 { (at % (1 + length % 17)) as u8 } else { (noise >> 24) as u8 };
        }
        if length % 3 == 0 {
            bytes.extend_from_slice(&before);
        }
        before.clone_from(&bytes);
        events.push(if length % 2 == 0 { Event::Host(1, bytes) } else { Event::Target(0, bytes) });
    }
    events.extend([Event::Open(3), Event::HostEnds(3), Event::TargetEnds(3)]);
    events.push(Event::Change(Change::Restore(7)));
    let header = vec![("title".to_owned(), "a: b".to_owned())];
    let recording = Recording { header, events };
    let text = recording.to_text();
    assert_eq!(Recording::parse(&text), Ok(recording));
    assert!(text.contains('@') && text.contains('*'));
    assert_eq!(Packer::default().pack(&[0; 100]), "00*100");
    for wrong in ["0*3", "0g", "@0+1", "@1", "00*x"] {
        assert_eq!(unpacked(wrong, &mut Vec::new()), None, "{wrong}");
    }
}
