//! Waiting until no reactor works on certain commands any more: before a fused pair may compare, and before a host that
//! was preempted, or a controller that was reset, counts as stopped. Nobody waits in a thread; the last reactor to pass
//! says so.

use std::fmt;
use std::sync::Arc;

use nvme::Status;
use nvme::cross_reset::ControllerInstance;

use super::controller::{Controller, Quiesce};
use super::cross_reset::CrossReset;
use super::fabric::Fabric;
use super::mailbox::Message;
use super::namespace::{ByteRange, Namespace};
use super::request::Asker;
use super::reservation::HostId;
use super::slot::{Slot, Slots, Stage};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Whose a connection's commands are, even when nothing but them is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) host_id: HostId,
    pub(super) controller: ControllerInstance,
}

/// Whose commands have to end.
#[derive(Debug)]
pub(super) enum Fenced {
    /// Those that write in this range of the namespace. New ones are held back by a claim on it.
    Writes(Arc<Namespace>, ByteRange),
    /// Those that change this namespace or synchronize it. New ones are refused, since it has failed.
    Changes(Arc<Namespace>),
    /// Those that write behind the end that the namespace has now. New ones are refused.
    Beyond(Arc<Namespace>),
    /// All of these hosts on the namespace. New ones are refused by a reservation; those that wait are ended.
    Hosts(Arc<Namespace>, Vec<HostId>),
    /// All of this controller, which has ended. Its queues are closed, with all that waits in them.
    Controller(ControllerInstance),
    /// All of this controller's I/O queues, which are closed, while its admin queue stays.
    IoQueues(ControllerInstance),
    /// All of controllers that have ended, as far as they have not begun: their queues are closed.
    Waiting,
}

impl Fenced {
    /// Whether a queue works on one of these commands. What waits in it does not count: it was ended, or is held back.
    pub(super) fn is_in(&self, owner: Option<&Owner>, slots: &Slots) -> bool {
        let has_stored = |controller: &ControllerInstance| {
            owner.is_some_and(|owner| owner.controller == *controller)
                && slots.iter().any(|(_, slot)| slot.may_take_effect())
        };
        let is_stored = |namespace: &Arc<Namespace>, is_meant: &dyn Fn(&Slot) -> bool| {
            slots.iter().any(|(_, slot)| {
                slot.stage == Stage::Storage
                    && slot.attachment().is_some_and(|a| Arc::ptr_eq(&a.namespace, namespace))
                    && is_meant(slot)
            })
        };
        if slots.storing() == 0 {
            return false;
        }
        match self {
            Self::Writes(namespace, range) => {
                is_stored(namespace, &|slot| slot.fused == nvme::io::Fused::No && slot.work.may_write(range))
            }
            Self::Changes(namespace) => is_stored(namespace, &|slot| slot.work.is_refused_after_failure()),
            Self::Beyond(namespace) => {
                is_stored(namespace, &|slot| slot.work.may_write(&namespace.behind_end()))
            }
            Self::Hosts(namespace, hosts) => {
                owner.is_some_and(|owner| hosts.contains(&owner.host_id)) && is_stored(namespace, &|_| true)
            }
            Self::Waiting => false,
            Self::Controller(controller) => has_stored(controller),
            Self::IoQueues(controller) => has_stored(controller),
        }
    }

    /// Whether all that is left of these commands, after a reactor has heard of the fence, is in what closed connections have
    /// left.
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self, Self::Controller(_) | Self::IoQueues(_) | Self::Waiting)
    }
}

/// What happens when all reactors have passed.
pub(super) enum Then {
    /// The fused pair whose first command is in this slot of the asker's connection goes on.
    GoOn(Asker, u16),
    /// The command in this slot of the asker's connection is answered with this status.
    Finish(Asker, u16, Status),
    /// The reset of a controller has succeeded that another one was asked for.
    Reset(CrossReset),
    /// The controller's reset or shutdown goes on.
    Quiesced(Arc<Controller>, Quiesce),
    /// The controller is gone, and its identifier may be used again.
    Gone(Arc<Controller>),
    /// Whoever waits for it is told.
    Tell(Box<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GoOn(..) => "GoOn",
            Self::Finish(..) => "Finish",
            Self::Reset(_) => "Reset",
            Self::Quiesced(..) => "Quiesced",
            Self::Gone(_) => "Gone",
            Self::Tell(_) => "Tell",
        })
    }
}

/// How many reactors have not passed yet.
#[derive(Debug)]
pub(super) struct Left(AtomicUsize);

impl Left {
    pub(super) fn new(reactors: usize) -> Self {
        Self(AtomicUsize::new(reactors))
    }

    /// One more has passed; whether it was the last, which sees all that the others did before they passed.
    pub(super) fn pass(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// A wait for all reactors.
#[derive(Debug)]
pub(super) struct Fence {
    pub(super) fenced: Fenced,
    left: Left,
    then: Then,
}

impl Fence {
    /// Asks all reactors to pass.
    pub(super) fn raise(fabric: &Fabric, fenced: Fenced, then: Then) {
        let left = Left::new(fabric.reactors().len());
        let fence = Arc::new(Self { fenced, left, then });
        fabric.tell_reactors(|| Message::Fence(fence.clone()));
    }

    /// A reactor has none of these commands any more. The last one passes the word on.
    pub(super) fn pass(&self, fabric: &Fabric) {
        if !self.left.pass() {
            return;
        }
        match &self.then {
            Then::GoOn(Asker { reactor, connection, serial, .. }, slot) => {
                reactor.send(Message::FencePassed { connection: *connection, serial: *serial, slot: *slot });
            }
            Then::Finish(Asker { reactor, connection, serial, .. }, slot, status) => {
                let (connection, serial) = (*connection, *serial);
                let (slot, status) = (*slot, *status);
                reactor.send(Message::Finish { connection, serial, slot, status, data: Vec::new() });
            }
            Then::Reset(reset) => reset.done(fabric),
            Then::Quiesced(controller, quiesce) => fabric.quiesced(controller, *quiesce),
            Then::Gone(controller) => fabric.forget_controller(controller),
            Then::Tell(tell) => tell(),
        }
    }
}

/// A range of a namespace in which no other write begins as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    namespace: Arc<Namespace>,
    ticket: u64,
    fabric: Arc<Fabric>,
}

/// The next claim's number.
static TICKET: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

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

    /// Claims `range` for a write that is under way already, whoever else has claimed a part of it.
    pub(super) fn beside_others(namespace: &Arc<Namespace>, range: ByteRange, fabric: &Arc<Fabric>) -> Self {
        let ticket = TICKET.fetch_add(1, Ordering::Relaxed);
        namespace.claim_beside_others(ticket, range);
        Self { namespace: namespace.clone(), ticket, fabric: fabric.clone() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.namespace.release(self.ticket);
        // Who was held back anywhere tries again.
        self.fabric.tell_reactors(|| Message::Resume);
    }
}

#[cfg(all(test, selvedge_loom))]
mod races;
