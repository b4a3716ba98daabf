//! Waiting until no reactor works on certain commands: before a fused pair may compare, and before
//! a host that was preempted, or a controller that was reset, counts as stopped. No thread blocks:
//! the last reactor to pass reports that the fence is complete.

use std::fmt;
use std::sync::Arc;

use nvme::Status;
use nvme::cross_reset::ControllerInstance;

use super::address::Address;
use super::cross_reset::CrossReset;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::target::controller::{Controller, Quiesce};
use crate::target::reservation::HostDigest;
use crate::target::served::{ByteRange, Namespace};

/// Host and controller that commands belong to. Remains known after the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) host: HostDigest,
    pub(crate) controller: ControllerInstance,
}

/// Commands that have to end before the fence is complete.
#[derive(Debug)]
pub(crate) enum Fenced {
    /// Commands that write in this range of the namespace. New ones are held back by a claim on it.
    Writes(Arc<Namespace>, ByteRange),
    /// Commands that change or synchronize this namespace. New ones are refused, since it has
    /// failed.
    Changes(Arc<Namespace>),
    /// Commands that write beyond the namespace's present end. New ones are refused.
    Beyond(Arc<Namespace>),
    /// All of these hosts on the namespace. New ones are refused by a reservation; those that wait are ended.
    Hosts(Arc<Namespace>, Vec<HostDigest>),
    /// All of this controller, which has ended. Its queues are closed, with all that waits in them.
    Controller(ControllerInstance),
    /// All of this controller's I/O queues, which are closed, while its admin queue stays.
    IoQueues(ControllerInstance),
    /// All of controllers that have ended, as far as they have not begun: their queues are closed.
    Waiting,
}

impl Fenced {
    /// True if, once a reactor has processed the fence, only closed connections can still have such
    /// commands.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self, Self::Controller(_) | Self::IoQueues(_) | Self::Waiting)
    }
}

/// Action once all reactors have passed.
pub(crate) enum Then {
    /// The fused pair whose first command is in this slot of the connection goes on.
    GoOn(Address, u16),
    /// The command in this slot of the connection is answered with this status.
    Finish(Address, u16, Status),
    /// The reset of a controller has succeeded that another one was asked for.
    Reset(CrossReset),
    /// The controller's reset or shutdown goes on.
    Quiesced(Arc<Controller>, Quiesce),
    /// The controller is gone, and its identifier may be used again.
    Gone(Arc<Controller>),
    /// Calls back.
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

/// Number of reactors that have not passed yet.
#[derive(Debug)]
pub(crate) struct Left(AtomicUsize);

impl Left {
    pub(crate) fn new(reactors: usize) -> Self {
        Self(AtomicUsize::new(reactors))
    }

    /// Records that a reactor has passed. Returns true for the last one, which sees all earlier
    /// effects of the others.
    pub(crate) fn pass(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// A wait for all reactors.
#[derive(Debug)]
pub(crate) struct Fence {
    pub(crate) fenced: Fenced,
    left: Left,
    then: Then,
}

impl Fence {
    /// Creates a fence that `reactors` reactors have to pass.
    pub(crate) fn new(fenced: Fenced, then: Then, reactors: usize) -> Self {
        Self { fenced, left: Left::new(reactors), then }
    }

    /// A reactor has none of these commands left. The last one gets what is to be done now.
    pub(crate) fn pass(&self) -> Option<&Then> {
        self.left.pass().then_some(&self.then)
    }
}

#[cfg(all(test, feature = "loom"))]
mod races;
