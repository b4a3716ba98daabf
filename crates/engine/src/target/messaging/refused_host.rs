//! Notifications of hosts that failed to authenticate, or whose Connect was refused. A reactor
//! never waits to send one: if the queue is full, they are counted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::limits::REFUSED_HOSTS_MAX;
use crate::ring::channel::{Receiver, SyncSender, sync_channel};

/// A host that did not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHost {
    /// Name that the host claims, if it has sent one.
    pub host: Option<String>,
    /// NQN of the requested subsystem, if the host has sent one.
    pub subsystem: Option<String>,
    /// Address of the host.
    pub address: SocketAddr,
    /// Reason of the refusal, and the side that caused it.
    pub reason: String,
}

/// Sender of refused hosts, for reactors.
#[derive(Debug, Default)]
pub(crate) struct RefusedHostSender {
    sender: OnceLock<SyncSender<RefusedHost>>,
    shared: Arc<Shared>,
}

/// Refused hosts, one after the other.
#[derive(Debug)]
pub struct RefusedHosts {
    receiver: Receiver<RefusedHost>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of hosts dropped because the queue was full.
    missed: AtomicU64,
    /// Set from the wake-up of the receiver until it reads.
    is_called: AtomicBool,
}

impl RefusedHostSender {
    /// The other end, once.
    pub(crate) fn take(&self) -> Option<RefusedHosts> {
        let (sender, receiver) = sync_channel(REFUSED_HOSTS_MAX);
        self.sender.set(sender).ok()?;
        Some(RefusedHosts { receiver, shared: self.shared.clone() })
    }

    /// Queues a refused host, if there is a receiver. Returns true if the receiver has to be woken,
    /// which is so once for any number of hosts.
    pub(crate) fn tell(&self, host: impl FnOnce() -> RefusedHost) -> bool {
        let Some(sender) = self.sender.get() else { return false };
        if sender.try_send(host()).is_err() {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
        }
        // After the host is queued: a receiver that clears the flag afterwards finds it.
        !self.shared.is_called.swap(true, Ordering::SeqCst)
    }
}

impl RefusedHosts {
    /// All that there are, and how many found no room since this was asked last.
    pub fn take(&self) -> (Vec<RefusedHost>, u64) {
        // Before the queue is read: a later host causes another wake-up.
        self.shared.is_called.store(false, Ordering::SeqCst);
        let hosts = std::iter::from_fn(|| self.receiver.try_recv().ok()).take(REFUSED_HOSTS_MAX).collect();
        (hosts, self.shared.missed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let sender = RefusedHostSender::default();
        let host = |number: usize| RefusedHost {
            host: Some(format!("nqn.{number}")),
            subsystem: Some("nqn.a".to_owned()),
            address: ([10, 0, 0, 1], 1).into(),
            reason: "wrong".to_owned(),
        };
        assert!(!sender.tell(|| unreachable!("there is no receiver")));
        let receiver = sender.take().expect("the first");
        assert!(sender.take().is_none());
        let calls = (0..REFUSED_HOSTS_MAX + 3).filter(|number| sender.tell(|| host(*number))).count();
        assert_eq!(calls, 1, "a crowd takes one place of those who ask for something");
        assert_eq!(receiver.take(), ((0..REFUSED_HOSTS_MAX).map(host).collect(), 3));
        assert_eq!(receiver.take(), (Vec::new(), 0));
        assert!(sender.tell(|| host(7)), "after it has looked, it is called again");
        assert_eq!(receiver.take(), (vec![host(7)], 0));
    }
}
