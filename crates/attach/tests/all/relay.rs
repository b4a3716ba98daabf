//! A relay between an initiator and its target, which can hold all that comes, and keeps what the initiator has sent.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Relay, whose threads end with the connections.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    gate: Arc<Gate>,
    sent: Arc<Mutex<Vec<Sent>>>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

/// Bytes that the initiator has sent over one connection.
type Sent = Arc<Mutex<Vec<u8>>>;

#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) {
        let closed = self.opened.wait_while(self.lock(), |is_closed| *is_closed);
        drop(closed.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Relay {
    /// Relay to the target at this address.
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let gate = Arc::<Gate>::default();
        let of_thread = gate.clone();
        let sent = Arc::<Mutex<Vec<Sent>>>::default();
        let of_all = sent.clone();
        let streams = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all_streams = streams.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(target) else { continue };
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                lock(&all_streams).extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                let of_one = Sent::default();
                lock(&of_all).push(of_one.clone());
                for (from, to, sent) in [(near, far, Some(of_one)), (far_too, near_too, None)] {
                    let gate = of_thread.clone();
                    thread::spawn(move || pass_on(from, to, &gate, sent.as_deref()));
                }
            }
        });
        Self { address, gate, sent, streams }
    }

    /// Ends all connections. What is held of them never comes.
    pub(crate) fn sever(&self) {
        for stream in lock(&self.streams).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Opcode and command dword 12 of each command that the initiator has sent, by connection.
    pub(crate) fn commands(&self) -> Vec<(u8, u32)> {
        let sent = lock(&self.sent);
        sent.iter().flat_map(|of_one| commands(&lock(of_one))).collect()
    }

    /// Holds all that comes, or lets it pass again.
    pub(crate) fn hold(&self, is_held: bool) {
        *self.gate.lock() = is_held;
        self.gate.opened.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.hold(false);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same of one connection, of whole PDUs.
fn commands(sent: &[u8]) -> Vec<(u8, u32)> {
    const COMMAND_CAPSULE: u8 = 4;
    let dword = |at: usize| {
        let bytes: Option<[u8; 4]> = sent.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_le_bytes)
    };
    let (mut at, mut found) = (0, Vec::new());
    while let Some(length) = dword(at + 4).filter(|length| *length >= 8) {
        if let (COMMAND_CAPSULE, Some(word)) = (sent[at], dword(at + 8 + 48)) {
            found.push((sent[at + 8], word));
        }
        at += length as usize;
    }
    found
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, gate: &Gate, sent: Option<&Mutex<Vec<u8>>>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(sent) = sent {
            lock(sent).extend_from_slice(&bytes[..count]);
        }
        gate.pass();
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
