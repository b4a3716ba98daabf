//! A claim on a range of a namespace: no other write begins there as long as it lives.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::mailbox::Message;
use super::mailboxes::Mailboxes;
use crate::target::served::{ByteRange, Namespace};

/// A range of a namespace in which no other write begins as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    namespace: Arc<Namespace>,
    ticket: u64,
    reactors: Arc<Mailboxes>,
}

/// The next claim's number.
static TICKET: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

impl Claim {
    /// Claims `range`; `None` if it overlaps an existing claim.
    pub(crate) fn new(
        namespace: &Arc<Namespace>,
        range: ByteRange,
        reactors: &Arc<Mailboxes>,
    ) -> Option<Self> {
        let ticket = TICKET.fetch_add(1, Ordering::Relaxed);
        namespace.claim(ticket, range).then(|| Self {
            namespace: namespace.clone(),
            ticket,
            reactors: reactors.clone(),
        })
    }

    /// Claims `range` for a write that is under way already, even if it overlaps other claims.
    pub(crate) fn beside_others(
        namespace: &Arc<Namespace>,
        range: ByteRange,
        reactors: &Arc<Mailboxes>,
    ) -> Self {
        let ticket = TICKET.fetch_add(1, Ordering::Relaxed);
        namespace.claim_beside_others(ticket, range);
        Self { namespace: namespace.clone(), ticket, reactors: reactors.clone() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.namespace.release(self.ticket);
        // Who was held back anywhere tries again.
        self.reactors.tell(|| Message::Resume);
    }
}
