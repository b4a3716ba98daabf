//! Channel between the two processes of an upgrade: bytes of the program's own messages, and open
//! descriptors that go with them. Faults of the upgrade happen at its steps.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use engine::hand_over::{self, Protocol, Word};
use engine::ring::{Hold, Socket, tcp};
use engine::simulation::channel::{Receiver, Sender, channel};
use engine::simulation::{self, SharedSocket, sleep};
use engine::target::hand_over::{SocketChannel, TargetProtocol};

use crate::upgrade::{Played, Upgrade};
use crate::upgrade_plan::{Side, Trouble, Version};

/// Longest time that a part of a word is under way, in microseconds.
const UNDER_WAY_US_MAX: u64 = 300;

/// Something open that goes with a word.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Socket(SharedSocket),
    Listening(tcp::Shared),
    /// The same for monitors of guests.
    ListeningForGuests(attach_crate::FrontEndListener),
    Hold(Hold),
    /// A client of a disk, or a file that goes with one.
    OfDisk(attach_crate::Descriptor),
    /// The end of a pipe that tells whether the old process has gone on.
    HasResumed(Rc<Cell<bool>>),
}

/// Bytes and descriptors that are sent at once.
struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<Descriptor>,
}

/// End of the channel between two processes.
pub(crate) struct UpgradeChannel {
    side: Side,
    upgrade: Rc<Upgrade>,
    to: RefCell<Option<Sender<Packet>>>,
    from: Receiver<Packet>,
    patience: Cell<Option<Duration>>,
    received: RefCell<Vec<u8>>,
    descriptors: RefCell<Vec<Descriptor>>,
}

impl UpgradeChannel {
    /// Both ends: the old process', and the new one's.
    pub(crate) fn pair(upgrade: &Rc<Upgrade>) -> (Self, Self) {
        let (to_new, from_old) = channel();
        let (to_old, from_new) = channel();
        let end = |side, to, from| Self {
            side,
            upgrade: upgrade.clone(),
            to: RefCell::new(Some(to)),
            from,
            patience: Cell::new(None),
            received: RefCell::default(),
            descriptors: RefCell::default(),
        };
        (end(Side::Old, to_new, from_new), end(Side::New, to_old, from_old))
    }

    /// Says a word, with what is open.
    pub(crate) fn say_with<P: Played>(&self, word: &Word<P>, descriptors: Vec<Descriptor>) -> io::Result<()> {
        let name = name(word);
        self.upgrade.step(self.side, "before", name);
        simulation::spare()?;
        let mut bytes = hand_over::encode(word, descriptors.len())?.to_vec();
        let mut descriptors = descriptors;
        self.write_as_other_version(&mut bytes, &mut descriptors);
        let half = bytes.len() / 2;
        let rest = bytes.split_off(half);
        self.send(bytes, Vec::new())?;
        let is_damaged = self.upgrade.step(self.side, "amid", name);
        let mut rest = rest;
        if is_damaged && let Some(byte) = rest.last_mut() {
            *byte ^= 0x10;
        }
        self.send(rest, Vec::new())?;
        for descriptor in descriptors {
            self.send(b"+".to_vec(), vec![descriptor])?;
        }
        self.upgrade.has_said(self.side, word);
        self.upgrade.step(self.side, "after", name);
        Ok(())
    }

    fn send(&self, bytes: Vec<u8>, descriptors: Vec<Descriptor>) -> io::Result<()> {
        sleep(Duration::from_micros(1 + simulation::random() % UNDER_WAY_US_MAX));
        if self.upgrade.has_hung_up() {
            *self.to.borrow_mut() = None;
        }
        let sent = self.to.borrow().as_ref().is_some_and(|to| to.send(Packet { bytes, descriptors }).is_ok());
        if sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Rewrites bytes as the new process, which is of another version, would send them.
    fn write_as_other_version(&self, bytes: &mut Vec<u8>, descriptors: &mut Vec<Descriptor>) {
        let Trouble::Version(version) = self.upgrade.trouble else { return };
        match version {
            Version::Format { by } if self.side == Side::New => {
                bytes[8] = bytes[8].wrapping_add_signed(by);
            }
            Version::Foreign if self.side == Side::New => *bytes = b"SSH-2.0-OpenSSH_9.2\r\n".repeat(4),
            Version::SaysMore => say_more(bytes, descriptors.len()),
            Version::FewerDescriptors if self.side == Side::Old => drop(descriptors.pop()),
            Version::OtherDescriptors if self.side == Side::Old => {
                for descriptor in descriptors {
                    if matches!(descriptor, Descriptor::Socket(_) | Descriptor::OfDisk(_)) {
                        *descriptor = Descriptor::HasResumed(Rc::default());
                    }
                }
            }
            _ => {}
        }
    }

    /// The next word, with what is open.
    pub(crate) fn hear_with<P: Played>(&self) -> io::Result<(Word<P>, Vec<Descriptor>)> {
        let (word, descriptors) = hand_over::decode(self)?;
        let mut mark = [0];
        for _ in 0..descriptors {
            io::Read::read_exact(&mut &*self, &mut mark)?;
        }
        let received = std::mem::take(&mut *self.descriptors.borrow_mut());
        if received.len() != descriptors {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors are missing"));
        }
        self.upgrade.has_heard(self.side, &word);
        Ok((word, received))
    }

    /// Limits the time that a word is awaited.
    pub(crate) fn set_patience(&self, time: Option<Duration>) {
        self.patience.set(time);
    }

    /// Waits for more to come: whether something did.
    fn await_more(&self) -> io::Result<bool> {
        let part = match self.patience.get() {
            Some(patience) => self.from.recv_timeout(patience),
            None => self.from.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match part {
            Ok(Packet { bytes, descriptors }) => {
                self.received.borrow_mut().extend(bytes);
                self.descriptors.borrow_mut().extend(descriptors);
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::WouldBlock.into()),
            Err(RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

/// A field that this version does not know stands in a word.
fn say_more(bytes: &mut Vec<u8>, descriptors: usize) {
    let header = bytes.len() - bytes[24..].len();
    let text = String::from_utf8_lossy(&bytes[header..]).into_owned();
    let known = text.find(":{").map(|at| at + 2);
    let Some(at) = known else { return };
    let comma = if text[at..].starts_with('}') { "" } else { "," };
    let text = format!("{}\"made_up\":[1,{{\"of\":2}}]{comma}{}", &text[..at], &text[at..]);
    bytes.truncate(12);
    for number in [nvme::tcp::digest::crc32c(text.as_bytes()), text.len() as u32, descriptors as u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(text.as_bytes());
}

impl io::Read for &UpgradeChannel {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.received.borrow().is_empty() {
            if !self.await_more()? {
                return Ok(0);
            }
        }
        let mut received = self.received.borrow_mut();
        let length = into.len().min(received.len());
        into[..length].copy_from_slice(&received[..length]);
        received.drain(..length);
        Ok(length)
    }
}

impl hand_over::Channel<TargetProtocol> for UpgradeChannel {
    type Descriptor = Descriptor;

    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_patience(time);
        Ok(())
    }

    fn say(&self, word: &Word<TargetProtocol>, sockets: &[Arc<Socket>]) -> io::Result<()> {
        let shared: io::Result<Vec<Descriptor>> =
            sockets.iter().map(|socket| socket.share().map(Descriptor::Socket)).collect();
        self.say_with(word, shared?)
    }

    fn hear(&self) -> io::Result<(Word<TargetProtocol>, Vec<Descriptor>)> {
        self.hear_with()
    }
}

impl SocketChannel for UpgradeChannel {
    fn socket(descriptor: Descriptor) -> io::Result<Socket> {
        match descriptor {
            Descriptor::Socket(socket) => socket.open(),
            _ => Err(io::Error::from_raw_os_error(88)),
        }
    }
}

/// A word's name in tables.
pub(crate) const fn name<P: Protocol>(word: &Word<P>) -> &'static str {
    match word {
        Word::Hello { .. } => "Hello",
        Word::About(_) => "About",
        Word::Offer(_) => "Offer",
        Word::Refused(_) => "Refused",
        Word::Introduction(_) => "Introduction",
        Word::Ready => "Ready",
        Word::State(_) => "State",
        Word::Taken(_) => "Taken",
        Word::Go => "Go",
        Word::Serving => "Serving",
    }
}
