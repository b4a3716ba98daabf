//! A relay between an initiator and its target, which can hold all that comes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Relay, whose threads end with the connections.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    gate: Arc<Gate>,
}

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
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(target) else { continue };
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                for (from, to) in [(near, far), (far_too, near_too)] {
                    let gate = of_thread.clone();
                    thread::spawn(move || pass_on(from, to, &gate));
                }
            }
        });
        Self { address, gate }
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

fn pass_on(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        gate.pass();
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
