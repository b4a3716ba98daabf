//! A command under way: what it is to do, and what it waits for, with whatever it has while it waits.

use std::rc::Rc;
use std::time::Duration;

use nvme::Status;

use super::work::Work;
use crate::backend::Sync;
use crate::ring::{Buffer, Moment};
use crate::target::messaging::Claim;
use crate::target::queue;
use crate::target::served::{Attachment, HeldNamespace, NamespaceView};
use crate::target::telemetry::{Stage, StageTimes};

/// An answer to an I/O command.
pub(crate) type Reply = queue::Reply<HeldNamespace>;
/// What an I/O command wants next.
pub(crate) type Next = queue::Next<HeldNamespace>;

/// A command under way.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command_id: u16,
    pub(super) opcode: u8,
    pub(crate) nsid: u32,
    /// The namespaces as they were when the command came; it keeps its own open.
    pub(super) view: Rc<NamespaceView>,
    pub(crate) work: Work,
    /// How many bytes of it, or of its present range, are done, where it is done in parts.
    pub(super) done: u64,
    /// Bytes of data that travel with it.
    pub(super) length: u32,
    /// When it came.
    pub(super) began: Moment,
    /// When it last went on, after it had waited for something of which the time is told apart.
    pub(super) went_on: Moment,
    /// What it has waited for.
    pub(super) times: StageTimes,
    /// Whether it need not wait for its namespace's limits any longer.
    pub(super) is_admitted: bool,
    pub(super) pairing: Pairing,
    pub(super) state: State,
}

/// What is known of a pair whose second command has not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pair {
    /// There is none.
    #[default]
    None,
    /// Its first command is in this slot.
    First(u16),
    /// Its first command has failed.
    Failed,
}

/// Whether a command is one of a fused pair.
#[derive(Debug)]
pub(crate) enum Pairing {
    Alone,
    /// The first, with the slot of the second once that has come, and with what keeps others from the pair's blocks.
    First {
        second: Option<u16>,
        claim: Option<Box<Claim>>,
    },
    /// The second, with the slot of the first until that has ended.
    Second {
        first: Option<u16>,
    },
}

/// What a command waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing: it is worked on in this very moment.
    InHand,
    /// A buffer within its queue's share.
    AwaitsBuffer,
    /// Its data from the host; where it has failed already, with what it is answered when that has come.
    AwaitsData { refused: Option<Status> },
    /// Its turn within its namespace's limits.
    Throttled { data: Option<Buffer> },
    /// The other command of its fused pair.
    AwaitsPartner { data: Option<Buffer> },
    /// Somebody else, who has claimed its blocks, or who uses a page of memory that it needs.
    HeldBack { data: Option<Buffer> },
    /// Its queue's next turn, since the last had no time for the rest of it.
    AwaitsTurn { data: Option<Buffer> },
    /// The first of a pair, which has claimed its range: that no reactor writes there any longer, or the page of memory.
    Exclusive { data: Option<Buffer> },
    /// A command of a pair that the other one works for.
    Joined { data: Option<Buffer> },
    /// The reservation worker.
    AtWorker,
    /// The storage.
    AtStorage(Operation),
    /// The ends of other syncs, all with numbers below `before`, since its own has gone well and moved this number of bytes.
    AwaitsSyncs { data: Option<Buffer>, before: u64, moved: usize },
}

/// What the storage does for a command.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The command's data, where the storage works beside it.
    pub(super) data: Option<Buffer>,
    /// When it began.
    pub(crate) began: Moment,
    /// How it makes something durable, if it does.
    pub(super) sync: Option<Sync>,
    /// Whether a copy reads; else it writes.
    pub(super) reads: bool,
    /// Whether it has outlived the Command Quiesce Time.
    pub(crate) is_late: bool,
    /// Whether the host has its answer already.
    pub(super) is_given_up: bool,
    /// Whether its buffer counts no longer as its queue's.
    pub(super) is_uncounted: bool,
}

impl Operation {
    /// For how long the storage has it, or had.
    pub(crate) fn age(&self, now: Moment) -> Duration {
        now.since(self.began)
    }

    /// How it makes something durable; asked once, when it has ended.
    pub(crate) const fn take_sync(&mut self) -> Option<Sync> {
        self.sync.take()
    }
}

impl State {
    /// Whether it keeps its slot when its connection goes: somebody else still works for it.
    pub(super) const fn keeps_slot(&self) -> bool {
        matches!(self, Self::AtStorage(_) | Self::AtWorker | Self::Exclusive { .. })
    }

    /// The data that it has while it waits.
    pub(super) fn into_data(self) -> Option<Buffer> {
        match self {
            Self::InHand | Self::AwaitsBuffer | Self::AwaitsData { .. } | Self::AtWorker => None,
            Self::Throttled { data }
            | Self::AwaitsPartner { data }
            | Self::HeldBack { data }
            | Self::AwaitsTurn { data }
            | Self::Exclusive { data }
            | Self::Joined { data }
            | Self::AwaitsSyncs { data, .. }
            | Self::AtStorage(Operation { data, .. }) => data,
        }
    }
}

impl Request {
    /// It goes on, and has been in this stage since it last did.
    pub(super) const fn goes_on_after(&mut self, stage: Stage, now: Moment) {
        self.times.add(stage, now.0.saturating_sub(self.went_on.0));
        self.went_on = now;
    }

    /// The namespace it works on, as its host saw it when it came.
    pub(crate) fn attachment(&self) -> Option<&Attachment> {
        self.view.attachment(self.nsid)
    }

    /// What the storage does for it, if it does something.
    pub(crate) const fn operation(&self) -> Option<&Operation> {
        match &self.state {
            State::AtStorage(operation) => Some(operation),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) const fn operation_mut(&mut self) -> Option<&mut Operation> {
        match &mut self.state {
            State::AtStorage(operation) => Some(operation),
            _ => None,
        }
    }

    /// Records whether its operation has outlived the Command Quiesce Time.
    pub(super) const fn set_late(&mut self, is_late: bool) {
        if let Some(operation) = self.operation_mut() {
            operation.is_late = is_late;
        }
    }

    /// Whether it is one of a fused pair.
    pub(super) const fn is_paired(&self) -> bool {
        !matches!(self.pairing, Pairing::Alone)
    }

    /// Whether it has claimed its blocks.
    pub(crate) const fn has_claim(&self) -> bool {
        matches!(self.pairing, Pairing::First { claim: Some(_), .. })
    }

    /// The slot of the other command of its pair.
    pub(super) const fn partner(&self) -> Option<u16> {
        match self.pairing {
            Pairing::Alone => None,
            Pairing::First { second, .. } => second,
            Pairing::Second { first } => first,
        }
    }

    /// Forgets the other command of its pair, which has ended.
    pub(super) const fn forget_partner(&mut self) {
        match &mut self.pairing {
            Pairing::Alone => {}
            Pairing::First { second: partner, .. } | Pairing::Second { first: partner } => *partner = None,
        }
    }

    /// Whether it has begun at the storage, alone or as one of a pair.
    pub(crate) const fn is_at_storage(&self) -> bool {
        matches!(self.state, State::AtStorage(_) | State::Exclusive { .. } | State::Joined { .. })
    }

    /// Whether its host has its answer, while the storage still works on it.
    pub(super) const fn is_given_up(&self) -> bool {
        matches!(&self.state, State::AtStorage(operation) if operation.is_given_up)
    }

    /// Whether the storage, or the reservation worker, may still do something of it. What was given up because its cluster has
    /// shut this target out does nothing any longer, however long the library keeps it.
    pub(crate) fn may_take_effect(&self) -> bool {
        let is_shut_out = || self.attachment().is_some_and(|a| a.namespace.backend.is_shut_out());
        (self.is_at_storage() || matches!(self.state, State::AtWorker))
            && !(self.is_given_up() && is_shut_out())
    }
}
