//! Hosts that did not prove who they are, for whoever keeps account of it. A reactor tells and never waits: when nobody takes
//! the news, they are counted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::limits::FAILED_LOGINS_MAX;
use crate::ring::channel::{Receiver, SyncSender, sync_channel};

/// A host that did not authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLogin {
    /// Who it said that it was.
    pub host: String,
    /// What it wanted to use.
    pub subsystem: String,
    /// Where it came from.
    pub address: SocketAddr,
    /// What was wrong, and on which side.
    pub reason: String,
}

/// The way of failed logins from reactors to whoever wants to know of them.
#[derive(Debug, Default)]
pub(crate) struct FailedLoginSender {
    sender: OnceLock<SyncSender<FailedLogin>>,
    missed: Arc<AtomicU64>,
}

/// Failed logins, one after the other.
#[derive(Debug)]
pub struct FailedLogins {
    receiver: Receiver<FailedLogin>,
    missed: Arc<AtomicU64>,
}

impl FailedLoginSender {
    /// The other end, once.
    pub(crate) fn take(&self) -> Option<FailedLogins> {
        let (sender, receiver) = sync_channel(FAILED_LOGINS_MAX);
        self.sender.set(sender).ok()?;
        Some(FailedLogins { receiver, missed: self.missed.clone() })
    }

    /// Reports one, if somebody wants to know.
    #[cold]
    pub(crate) fn tell(&self, login: impl FnOnce() -> FailedLogin) {
        let Some(sender) = self.sender.get() else { return };
        if sender.try_send(login()).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl FailedLogins {
    /// The next one, if there is one.
    pub fn next(&self) -> Option<FailedLogin> {
        self.receiver.try_recv().ok()
    }

    /// How many found no room since this was asked last.
    pub fn take_missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let sender = FailedLoginSender::default();
        let login = |number: usize| FailedLogin {
            host: format!("nqn.{number}"),
            subsystem: "nqn.a".to_owned(),
            address: ([10, 0, 0, 1], 1).into(),
            reason: "wrong".to_owned(),
        };
        sender.tell(|| unreachable!("nobody wants to know"));
        let receiver = sender.take().expect("the first");
        assert!(sender.take().is_none());
        (0..FAILED_LOGINS_MAX + 3).for_each(|number| sender.tell(|| login(number)));
        assert_eq!(
            (0..FAILED_LOGINS_MAX).map(|_| receiver.next()).collect::<Vec<_>>(),
            (0..FAILED_LOGINS_MAX).map(|number| Some(login(number))).collect::<Vec<_>>()
        );
        assert_eq!((receiver.next(), receiver.take_missed(), receiver.take_missed()), (None, 3, 0));
    }
}
