//! Waiting until no reactor works on certain commands any more: before a fused pair may compare, and before a host that
//! was preempted counts as stopped. Nobody waits in a thread; the last reactor to pass says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nvme::Status;

use super::fabric::Fabric;
use super::mailbox::Message;
use super::namespace::{ByteRange, Namespace};
use super::request::Asker;
use super::reservation::HostId;

/// Whose commands have to end.
#[derive(Debug)]
pub(super) enum Fenced {
    /// Those that write in this range. New ones are held back by a claim on it.
    Writes(ByteRange),
    /// All of these hosts. New ones are refused by a reservation; those that wait are ended.
    Hosts(Vec<HostId>),
}

/// What happens when all reactors have passed.
#[derive(Debug)]
pub(super) enum Then {
    /// The fused pair whose first command is in this slot of the asker's connection goes on.
    GoOn(u16),
    /// The command in this slot is answered with this status.
    Finish(u16, Status),
}

/// A wait for all reactors.
#[derive(Debug)]
pub(super) struct Fence {
    pub(super) namespace: Arc<Namespace>,
    pub(super) fenced: Fenced,
    left: AtomicUsize,
    asker: Asker,
    then: Then,
}

impl Fence {
    /// Asks all reactors to pass.
    pub(super) fn raise(
        fabric: &Fabric,
        namespace: Arc<Namespace>,
        fenced: Fenced,
        asker: Asker,
        then: Then,
    ) {
        let left = AtomicUsize::new(fabric.reactors().len());
        let fence = Arc::new(Self { namespace, fenced, left, asker, then });
        fabric.tell_reactors(|| Message::Fence(fence.clone()));
    }

    /// A reactor has none of these commands any more. The last one passes the word on.
    pub(super) fn pass(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let (connection, serial) = (self.asker.connection, self.asker.serial);
        self.asker.reactor.send(match self.then {
            Then::GoOn(slot) => Message::FencePassed { connection, serial, slot },
            Then::Finish(slot, status) => {
                Message::Finish { connection, serial, slot, status, data: Vec::new() }
            }
        });
    }
}

/// A range of a namespace in which nobody else writes as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    namespace: Arc<Namespace>,
    ticket: u64,
    fabric: Arc<Fabric>,
}

/// The next claim's number.
static TICKET: AtomicU64 = AtomicU64::new(1);

impl Claim {
    /// Claims `range`, or `None` while somebody else has claimed a part of it.
    pub(super) fn new(namespace: &Arc<Namespace>, range: ByteRange, fabric: &Arc<Fabric>) -> Option<Self> {
        let ticket = TICKET.fetch_add(1, Ordering::Relaxed);
        namespace.claim(ticket, range).then(|| Self {
            namespace: namespace.clone(),
            ticket,
            fabric: fabric.clone(),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.namespace.release(self.ticket);
        // Who was held back anywhere tries again.
        self.fabric.tell_reactors(|| Message::Resume);
    }
}
