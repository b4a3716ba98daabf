//! Hosts that did not prove who they are, or whose Connect was refused, for whoever keeps account of it. A reactor tells and never
//! waits: when nobody takes the news, they are counted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::limits::REFUSED_HOSTS_MAX;
use crate::ring::channel::{Receiver, SyncSender, sync_channel};

/// A host that did not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHost {
    /// Who it said that it was, if it has said it.
    pub host: Option<String>,
    /// What it wanted to use, if it has said it.
    pub subsystem: Option<String>,
    /// Where it came from.
    pub address: SocketAddr,
    /// What was wrong, and on which side.
    pub reason: String,
}

/// The way of refused hosts from reactors to whoever wants to know of them.
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
    /// How many found no room.
    missed: AtomicU64,
    /// Whether the receiver knows that there are some, and has not looked yet.
    is_called: AtomicBool,
}

impl RefusedHostSender {
    /// The other end, once.
    pub(crate) fn take(&self) -> Option<RefusedHosts> {
        let (sender, receiver) = sync_channel(REFUSED_HOSTS_MAX);
        self.sender.set(sender).ok()?;
        Some(RefusedHosts { receiver, shared: self.shared.clone() })
    }

    /// Reports one, if somebody wants to know; whether the receiver is to be called. However many there are, it is called once.
    pub(crate) fn tell(&self, host: impl FnOnce() -> RefusedHost) -> bool {
        let Some(sender) = self.sender.get() else { return false };
        if sender.try_send(host()).is_err() {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
        }
        // After the news is there: whoever clears this afterwards finds it.
        !self.shared.is_called.swap(true, Ordering::SeqCst)
    }
}

impl RefusedHosts {
    /// All that there are, and how many found no room since this was asked last.
    pub fn take(&self) -> (Vec<RefusedHost>, u64) {
        // Before it looks: of what comes later it is told again.
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
        assert!(!sender.tell(|| unreachable!("nobody wants to know")));
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
