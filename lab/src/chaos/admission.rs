//! Admission of hosts to a target: time until a host that the operator has named is connected, and
//! latency of reads of another host, which is connected already. Attacks on the target are elsewhere.

use std::io::{ErrorKind, Result as Answer, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::wire::{self, Connect};

/// Until a named host has to be in: connected, with an I/O queue, and with an answer to its first read.
const ENTRY_LIMIT: Duration = Duration::from_secs(1);
/// A generous limit on the other host's reads: machines differ, and the other ends run on the same one.
const READ_P99_LIMIT: Duration = Duration::from_millis(500);
/// Time limit for any answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two hosts that come.
const PAUSE: Duration = Duration::from_millis(100);
/// A host that is sent away comes again after so long.
const RETRY: Duration = Duration::from_millis(10);
const READ_BYTES: u32 = 4096;
const ENTRIES: u16 = 32;
/// Numbers that no hostile host has.
const NEWCOMER: u64 = 1 << 41;
const READER: u64 = NEWCOMER + 1;

/// The names of the two hosts, for a subsystem's list.
pub(crate) fn host_nqns() -> [String; 2] {
    [NEWCOMER, READER].map(wire::host_nqn)
}

/// Target of both hosts.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) address: SocketAddr,
    pub(crate) nqn: String,
    pub(crate) nsid: u32,
    /// Bytes of the namespace's blocks.
    pub(crate) block_bytes: u32,
}

/// Observations of both hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Time of each entry, and of each read.
    pub(crate) entries: Vec<Duration>,
    pub(crate) reads: Vec<Duration>,
    /// Number of times that a host was sent away and came again.
    pub(crate) retries: u64,
}

impl Seen {
    /// Unacceptable delay, if there is one.
    pub(crate) fn fault(&self) -> Option<String> {
        let slowest = self.entries.iter().max().copied().unwrap_or(ANSWER_TIMEOUT);
        let p99 = part(&self.reads, 0.99).unwrap_or(ANSWER_TIMEOUT);
        if slowest > ENTRY_LIMIT {
            Some(format!("a named host got in after {slowest:.0?}, and has {ENTRY_LIMIT:?}"))
        } else if p99 > READ_P99_LIMIT {
            Some(format!("p99 of a known host's reads is {p99:.0?}, and may be {READ_P99_LIMIT:?}"))
        } else {
            None
        }
    }

    /// Within how many milliseconds this part of the hosts were in.
    pub(crate) fn entry_ms(&self, share: f64) -> f64 {
        milliseconds(part(&self.entries, share))
    }

    pub(crate) fn entry_ms_max(&self) -> f64 {
        self.entry_ms(1.0)
    }

    /// Within how many milliseconds this part of the reads ended.
    pub(crate) fn read_ms(&self, share: f64) -> f64 {
        milliseconds(part(&self.reads, share))
    }
}

/// The least that this share of all is not above.
fn part(all: &[Duration], share: f64) -> Option<Duration> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    sorted.get(((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last)).copied()
}

fn milliseconds(span: Option<Duration>) -> f64 {
    span.map_or(0.0, |span| (span.as_secs_f64() * 1e5).round() / 100.0)
}

/// Both hosts, until their end is signalled.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    newcomer: JoinHandle<Seen>,
    reader: JoinHandle<Answer<Vec<Duration>>>,
}

impl Watch {
    /// Ends both hosts and returns their observations.
    ///
    /// # Errors
    /// The host that was in lost its connection, or what it asked for was refused.
    pub(crate) fn end(self) -> Result<Seen, String> {
        self.stop.store(true, Ordering::Relaxed);
        let (newcomer, reader) = (self.newcomer.join(), self.reader.join());
        let (Ok(newcomer), Ok(reads)) = (newcomer, reader) else { return Err("a host panicked".to_owned()) };
        let reads = reads.map_err(|error| format!("a known host's read failed: {error}"))?;
        Ok(Seen { reads, ..newcomer })
    }
}

/// A host that is in.
struct Guest {
    queue: TcpStream,
    _admin: TcpStream,
}

impl Admission {
    /// Connects one host and has others come, on threads in the network namespace of the calling one.
    ///
    /// # Errors
    /// The first cannot get in.
    pub(crate) fn watch(&self) -> Result<Watch, String> {
        let failed = |error| format!("a named host cannot connect to {}: {error}", self.address);
        let guest = self.enter(READER).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (admission, stopped) = (self.clone(), stop.clone());
        let reader = std::thread::spawn(move || admission.read_until(guest, &stopped));
        let (admission, stopped) = (self.clone(), stop.clone());
        let newcomer = std::thread::spawn(move || admission.come_until(&stopped));
        Ok(Watch { stop, newcomer, reader })
    }

    /// Gets in again and again, and leaves each time.
    fn come_until(&self, stop: &AtomicBool) -> Seen {
        let mut seen = Seen::default();
        loop {
            let begun = Instant::now();
            while self.enter(NEWCOMER).is_err() && begun.elapsed() < ANSWER_TIMEOUT {
                seen.retries += 1;
                std::thread::sleep(RETRY);
            }
            seen.entries.push(begun.elapsed());
            if stop.load(Ordering::Relaxed) {
                return seen;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads one block after the other.
    fn read_until(&self, mut guest: Guest, stop: &AtomicBool) -> Answer<Vec<Duration>> {
        let mut spans = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            spans.push(self.read(&mut guest.queue)?);
        }
        Ok(spans)
    }

    fn read(&self, queue: &mut TcpStream) -> Answer<Duration> {
        let begun = Instant::now();
        let blocks = (READ_BYTES / self.block_bytes) as u16;
        queue.write_all(&wire::transfer(false, 1, self.nsid, blocks, READ_BYTES))?;
        wire::read_ends(queue)?;
        Ok(begun.elapsed())
    }

    /// An admin queue, a controller that works, an I/O queue, and a read.
    fn enter(&self, host: u64) -> Answer<Guest> {
        let (mut admin, controller) = self.queue(host, 0, 0xffff)?;
        admin.write_all(&wire::enable())?;
        match wire::completion(&wire::read_pdu(&mut admin)?) {
            Some((_, 0)) => {}
            _ => return Err(ErrorKind::ConnectionRefused.into()),
        }
        let (mut queue, _) = self.queue(host, 1, controller)?;
        self.read(&mut queue)?;
        Ok(Guest { queue, _admin: admin })
    }

    fn queue(&self, host: u64, queue: u16, controller: u16) -> Answer<(TcpStream, u16)> {
        let mut stream = TcpStream::connect_timeout(&self.address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        stream.write_all(&wire::ic_request())?;
        wire::read_pdu(&mut stream)?;
        let subsystem = &self.nqn;
        // The reader's commands do not count as a keep alive on its admin queue.
        let connect = Connect { host, subsystem, queue, controller, entries: ENTRIES, keep_alive_ms: 0 };
        stream.write_all(&connect.pdu())?;
        match wire::completion(&wire::read_pdu(&mut stream)?) {
            Some((word, 0)) => Ok((stream, word as u16)),
            _ => Err(ErrorKind::ConnectionRefused.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entry_ms: u64, read_ms: u64) -> Seen {
        let mut reads = vec![Duration::from_millis(1); 98];
        reads.extend([Duration::from_millis(read_ms); 2]);
        Seen { entries: vec![Duration::from_millis(entry_ms)], reads, retries: 0 }
    }

    #[test]
    fn who_gets_in_late_or_waits_long_is_a_fault() {
        assert_eq!(seen(1000, 500).fault(), None);
        assert!(seen(1001, 1).fault().is_some());
        assert!(seen(1, 501).fault().is_some());
        assert!(Seen::default().fault().is_some(), "no host got in");
    }

    #[test]
    fn parts() {
        let seen = seen(7, 9);
        assert_eq!((seen.entry_ms(0.5), seen.read_ms(0.5), seen.read_ms(0.98)), (7.0, 1.0, 1.0));
        assert_eq!((seen.read_ms(0.99), seen.read_ms(1.0)), (9.0, 9.0));
    }
}
