//! Hostile hosts: each kind as a loop that runs until the end is signalled. It keeps out their cost
//! to the target, and if that matters.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::limits::CONTROLLERS_MAX;

use super::wire::{self, Connect};
use crate::emulator::link::Dice;

/// An attacked target may be slow to answer, but a hostile host does not wait forever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which held connections are checked.
const LOOK: Duration = Duration::from_millis(50);
/// With more held connections than this, they are checked less often.
const MANY: usize = 500;
/// Between two bytes of a host that is slow on purpose.
const SLOW: Duration = Duration::from_secs(1);
/// Hostile controllers live so long without a keep alive, so that they make room for others.
const KEEP_ALIVE_MS: u32 = 6_000;
/// A stranger's Copy commands: this number on each of a hundred queues, each as large as a Copy may be, out of reach of
/// the hosts whose data is checked.
const COPIES: u16 = 16;
const ONE_STRANGER: u64 = 1 << 40;
const COPY_RANGES: u16 = 4;
const COPY_RANGE_BYTES: u32 = 4 << 20;
const COPY_FROM_BYTES: u64 = 16 << 20;
const COPY_TO_BYTES: u64 = 48 << 20;
/// Commands of a host that reads or sends nothing: a whole queue of the largest transfers.
const COMMANDS: u16 = 127;
const TRANSFER_BYTES: u32 = 1 << 20;
const BLOCK_BYTES: u32 = 4096;

/// Controllers that are asked for beyond what a target has.
const BEYOND: usize = 16;

/// Kind of a hostile host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Opens a connection and says nothing.
    Silent,
    /// The same, ten thousand times.
    Connections,
    /// As many, which stop after ICReq.
    Greetings,
    /// Sends a byte of ICReq each second.
    SlowHandshake,
    /// Connects an admin queue and then sends a byte of a command each second.
    HalfCommand,
    /// Reads memory, as much as the queue takes, and takes no answer.
    NeverReadsMemory,
    /// The same from a file, whose answers are in buffers.
    NeverReadsFile,
    /// Writes, and never sends the data that it is asked for.
    NeverSends,
    /// A good handshake and then nonsense, again and again.
    Garbage,
    /// Opens and closes, as fast as it can.
    OpenClose,
    /// Resets connections in the middle of a command, as fast as it can.
    Resets,
    /// Makes controllers up to the target's limit and beyond.
    Controllers,
    /// Makes two thousand discovery controllers, which want no keep alive.
    Discovery,
    /// Has 1,600 Copy commands of 16 MiB under way on a namespace in memory, and sends another for each that ends.
    Copies,
}

impl Kind {
    pub(crate) const ALL: [Kind; 14] = [
        Kind::Silent,
        Kind::Connections,
        Kind::Greetings,
        Kind::SlowHandshake,
        Kind::HalfCommand,
        Kind::NeverReadsMemory,
        Kind::NeverReadsFile,
        Kind::NeverSends,
        Kind::Garbage,
        Kind::OpenClose,
        Kind::Resets,
        Kind::Controllers,
        Kind::Discovery,
        Kind::Copies,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Silent => "silent",
            Kind::Connections => "connections",
            Kind::Greetings => "greetings",
            Kind::SlowHandshake => "slow handshake",
            Kind::HalfCommand => "half a command",
            Kind::NeverReadsMemory => "never reads (memory)",
            Kind::NeverReadsFile => "never reads (file)",
            Kind::NeverSends => "never sends data",
            Kind::Garbage => "garbage",
            Kind::OpenClose => "open and close",
            Kind::Resets => "resets",
            Kind::Controllers => "controllers",
            Kind::Discovery => "discovery",
            Kind::Copies => "copies",
        }
    }

    /// Number of connections at a time where the caller does not choose it: more than a target
    /// accepts.
    pub(crate) const fn connections(self) -> Option<usize> {
        match self {
            Kind::Connections | Kind::Greetings => Some(10_000),
            Kind::Controllers => Some(CONTROLLERS_MAX + BEYOND),
            Kind::Discovery => Some(2_000),
            Kind::Copies => Some(1_600 / COPIES as usize),
            _ => None,
        }
    }

    /// True if connections are held, and not made and ended.
    pub(crate) const fn holds(self) -> bool {
        !matches!(self, Kind::Garbage | Kind::OpenClose | Kind::Resets)
    }
}

/// Target and strength of an attack.
#[derive(Clone, Debug)]
pub(crate) struct Attack {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    pub(crate) nqn: String,
    /// Namespaces in memory and in a file.
    pub(crate) memory_nsid: u32,
    pub(crate) file_nsid: u32,
    /// Bytes of the blocks of the one in memory.
    pub(crate) block_bytes: u32,
    /// Connections at a time, of those kinds that hold them.
    pub(crate) connections: usize,
}

/// Counters of an attack.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Connections that were made, in all.
    pub(crate) made: AtomicU64,
    /// Connections held now, and the largest number.
    pub(crate) held: AtomicU64,
    pub(crate) held_max: AtomicU64,
    /// Connections that the target refused or ended.
    pub(crate) refused: AtomicU64,
}

impl Tally {
    fn hold(&self, count: usize) {
        self.held.store(count as u64, Ordering::Relaxed);
        self.held_max.fetch_max(count as u64, Ordering::Relaxed);
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection of a hostile host, and what else belongs to it.
struct Held {
    /// The connection that is abused, and the admin queue it needs.
    stream: TcpStream,
    _admin: Option<TcpStream>,
    /// Bytes to send, and the time of the next one.
    rest: Vec<u8>,
    next: Instant,
}

impl Attack {
    /// Attacks until `stop`. All connections are closed then.
    pub(crate) fn run(&self, stop: &AtomicBool, tally: &Tally, seed: u64) {
        let mut dice = Dice::new(seed);
        if self.kind.holds() {
            self.hold(stop, tally, &mut dice);
        } else {
            while !stop.load(Ordering::Relaxed) {
                if self.strike(tally, &mut dice).is_err() {
                    tally.refuse();
                    // A system that is out of ports or a target that is gone: it goes on when there is one again.
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    /// Keeps connections up to the number wanted, and lets each do its mischief.
    fn hold(&self, stop: &AtomicBool, tally: &Tally, dice: &mut Dice) {
        let mut held: Vec<Held> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            while held.len() < self.connections && !stop.load(Ordering::Relaxed) {
                match self.open(u64::from(dice.next())) {
                    Ok(connection) => held.push(connection),
                    Err(_) => {
                        tally.refuse();
                        break;
                    }
                }
                tally.made.fetch_add(1, Ordering::Relaxed);
                tally.hold(held.len());
            }
            let before = held.len();
            held.retain_mut(|connection| self.goes_on(connection));
            (held.len()..before).for_each(|_| tally.refuse());
            tally.hold(held.len());
            // Each look is a call for each of them.
            std::thread::sleep(if held.len() > MANY { 10 * LOOK } else { LOOK });
        }
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A connection with a handshake.
    fn greeted(&self) -> std::io::Result<TcpStream> {
        let mut stream = self.connect()?;
        stream.write_all(&wire::ic_request())?;
        let answer = wire::read_pdu(&mut stream)?;
        if answer[0] == wire::IC_RESPONSE { Ok(stream) } else { Err(ErrorKind::ConnectionRefused.into()) }
    }

    /// A connected queue; of an admin queue, the controller too.
    fn queue(&self, host: u64, queue: u16, controller: u16) -> std::io::Result<(TcpStream, u16)> {
        let mut stream = self.greeted()?;
        let is_discovery = self.kind == Kind::Discovery;
        let connect = Connect {
            host,
            subsystem: if is_discovery { wire::DISCOVERY } else { &self.nqn },
            queue,
            controller,
            entries: if queue == 0 { 32 } else { COMMANDS + 1 },
            keep_alive_ms: if is_discovery { 0 } else { KEEP_ALIVE_MS },
        };
        stream.write_all(&connect.pdu())?;
        match wire::completion(&wire::read_pdu(&mut stream)?) {
            Some((word, 0)) => Ok((stream, word as u16)),
            _ => Err(ErrorKind::ConnectionRefused.into()),
        }
    }

    /// An admin queue and an I/O queue of a controller that works.
    fn working(&self, host: u64) -> std::io::Result<(TcpStream, TcpStream)> {
        let (mut admin, controller) = self.queue(host, 0, 0xffff)?;
        admin.write_all(&wire::enable())?;
        wire::read_pdu(&mut admin)?;
        Ok((admin, self.queue(host, 1, controller)?.0))
    }

    fn copy(&self, cid: u16) -> Vec<u8> {
        let block = |bytes: u64| bytes / u64::from(self.block_bytes);
        let ranges = (block(COPY_FROM_BYTES), block(COPY_TO_BYTES));
        wire::copy(cid, self.memory_nsid, COPY_RANGES, block(COPY_RANGE_BYTES.into()) as u16, ranges)
    }

    fn open(&self, host: u64) -> std::io::Result<Held> {
        let held = |stream: TcpStream, admin, rest: Vec<u8>| -> std::io::Result<Held> {
            stream.set_nonblocking(true)?;
            Ok(Held { stream, _admin: admin, rest, next: Instant::now() })
        };
        match self.kind {
            Kind::SlowHandshake => held(self.connect()?, None, wire::ic_request()),
            Kind::HalfCommand => {
                let (stream, _) = self.queue(host, 0, 0xffff)?;
                held(stream, None, wire::enable())
            }
            Kind::Controllers | Kind::Discovery => held(self.queue(host, 0, 0xffff)?.0, None, Vec::new()),
            Kind::Greetings => {
                let mut stream = self.connect()?;
                stream.write_all(&wire::ic_request())?;
                held(stream, None, Vec::new())
            }
            Kind::Copies => {
                let (admin, mut stream) = self.working(ONE_STRANGER)?;
                let commands: Vec<u8> = (0..COPIES).flat_map(|cid| self.copy(cid)).collect();
                stream.write_all(&commands)?;
                held(stream, Some(admin), Vec::new())
            }
            Kind::NeverReadsMemory | Kind::NeverReadsFile | Kind::NeverSends => {
                let (admin, mut stream) = self.working(host)?;
                let nsid = if self.kind == Kind::NeverReadsFile { self.file_nsid } else { self.memory_nsid };
                let writes = self.kind == Kind::NeverSends;
                let blocks = (TRANSFER_BYTES / BLOCK_BYTES) as u16;
                let commands: Vec<u8> = (0..COMMANDS)
                    .flat_map(|cid| wire::transfer(writes, cid, nsid, blocks, TRANSFER_BYTES))
                    .collect();
                stream.write_all(&commands)?;
                held(stream, Some(admin), Vec::new())
            }
            Kind::Silent | Kind::Connections | Kind::Garbage | Kind::OpenClose | Kind::Resets => {
                held(self.connect()?, None, Vec::new())
            }
        }
    }

    /// Does what a held connection does next. False when its target has ended it.
    fn goes_on(&self, held: &mut Held) -> bool {
        if !held.rest.is_empty() && held.next <= Instant::now() {
            let byte = held.rest.remove(0);
            held.next = Instant::now() + SLOW;
            if held.stream.write_all(&[byte]).is_err() {
                return false;
            }
        }
        if matches!(self.kind, Kind::NeverReadsMemory | Kind::NeverReadsFile) {
            // A host that never reads does not see an end either; an error is reported all the
            // same.
            return matches!(held.stream.take_error(), Ok(None));
        }
        // A whole number of answers, so that none is read in part.
        let mut answer = [0; 128 * wire::CAPSULE_RESPONSE_LENGTH];
        match (&held.stream).read(&mut answer) {
            Ok(0) => false,
            Ok(length) if self.kind == Kind::Copies => {
                // Each that went well is followed by another. One that did not ends this queue, so that it is counted.
                let mut answers = answer[..length].chunks(wire::CAPSULE_RESPONSE_LENGTH);
                answers.all(|answer| match wire::command_id(answer) {
                    Some(cid) => held.stream.write_all(&self.copy(cid)).is_ok(),
                    None => false,
                })
            }
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// Makes one connection of a kind that does not hold it.
    fn strike(&self, tally: &Tally, dice: &mut Dice) -> std::io::Result<()> {
        let mut stream = self.connect()?;
        tally.made.fetch_add(1, Ordering::Relaxed);
        match self.kind {
            Kind::Garbage => {
                stream.write_all(&wire::ic_request())?;
                wire::read_pdu(&mut stream)?;
                let nonsense: Vec<u8> = (0..512 + dice.next() % 4096).map(|_| dice.next() as u8).collect();
                // A target that ends the connection before all is sent does right.
                let _ = stream.write_all(&nonsense);
                let _ = stream.read(&mut [0; 4096]);
            }
            Kind::Resets => {
                stream.write_all(&wire::ic_request())?;
                let length = 1 + dice.next() as usize % 1000;
                stream.write_all(&wire::transfer(true, 1, 1, 1, BLOCK_BYTES).repeat(14)[..length])?;
                // Closed with a time of 0, a connection ends with a reset.
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
            }
            _ => {}
        }
        Ok(())
    }
}
