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
/// Next step of an I/O command.
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
    /// Bytes done of the command, or of its present range, if it is executed in parts.
    pub(super) done: u64,
    /// Bytes of data that travel with it.
    pub(super) length: u32,
    /// Time of arrival.
    pub(super) began: Moment,
    /// Time of the last resumption, after a wait that is counted as a stage of its own.
    pub(super) went_on: Moment,
    /// Time spent in each stage.
    pub(super) times: StageTimes,
    /// True once the command need not wait for its namespace's limits.
    pub(super) is_admitted: bool,
    pub(super) pairing: Pairing,
    pub(super) state: State,
}

/// State of a fused pair whose second command has not arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pair {
    /// There is none.
    #[default]
    None,
    /// Slot of the first command.
    First(u16),
    /// The first command has failed.
    Failed,
}

/// Role of a command in a fused pair.
#[derive(Debug)]
pub(crate) enum Pairing {
    Alone,
    /// The first command: `second` is the slot of the second once it has arrived, `claim` protects
    /// the blocks of the pair.
    First {
        second: Option<u16>,
        claim: Option<Box<Claim>>,
    },
    /// The second command: `first` is the slot of the first until that has ended.
    Second {
        first: Option<u16>,
    },
}

/// State of a command: mostly the event that it waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// The command is being executed at this moment.
    InHand,
    /// Waits for a buffer within its queue's share.
    AwaitsBuffer,
    /// Waits for the host's data. If the command has failed already, `refused` is its status once
    /// the data has arrived.
    AwaitsData { refused: Option<Status> },
    /// Waits for its namespace's limits.
    Throttled { data: Option<Buffer> },
    /// Waits for the other command of its fused pair.
    AwaitsPartner { data: Option<Buffer> },
    /// Waits for the end of a claim on its blocks, or of the use of a page of memory.
    HeldBack { data: Option<Buffer> },
    /// Waits for its queue's next turn, because the last one reached its work limit.
    AwaitsTurn { data: Option<Buffer> },
    /// First of a pair: has claimed its range, and waits until no reactor writes there any longer,
    /// or for a page of memory.
    Exclusive { data: Option<Buffer> },
    /// Command of a pair that is executed by the other one.
    Joined { data: Option<Buffer> },
    /// Waits for the reservation worker.
    AtWorker,
    /// Waits for its operation at the storage.
    AtStorage(Operation),
    /// Waits for syncs with numbers below `before`, after its own has succeeded and moved `moved`
    /// bytes.
    AwaitsSyncs { data: Option<Buffer>, before: u64, moved: usize },
}

/// An operation at the storage.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The command's data, where the storage works beside it.
    pub(super) data: Option<Buffer>,
    /// Start time.
    pub(crate) began: Moment,
    /// Durability that the operation provides, if it provides one.
    pub(super) sync: Option<Sync>,
    /// True while a copy reads, false while it writes.
    pub(super) reads: bool,
    /// Bytes of the operation's own buffer, which is not the command's data, as they are counted.
    pub(super) beside_bytes: usize,
    /// True once the operation has exceeded the Command Quiesce Time.
    pub(crate) is_late: bool,
    /// True once the host has been answered.
    pub(super) is_given_up: bool,
    /// True once the buffer no longer counts towards its queue's limit.
    pub(super) is_uncounted: bool,
}

impl Operation {
    /// For how long the storage has it, or had.
    pub(crate) fn age(&self, now: Moment) -> Duration {
        now.since(self.began)
    }

    /// Removes and returns the durability that the operation provides, when it has ended.
    pub(crate) const fn take_sync(&mut self) -> Option<Sync> {
        self.sync.take()
    }
}

impl State {
    /// True if the command keeps its slot after its connection is closed, because an operation or a
    /// worker still uses it.
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
    /// Resumes the command after time spent in `stage`.
    pub(super) const fn goes_on_after(&mut self, stage: Stage, now: Moment) {
        self.times.add(stage, now.0.saturating_sub(self.went_on.0));
        self.went_on = now;
    }

    /// The namespace it works on, as its host saw it when it came.
    pub(crate) fn attachment(&self) -> Option<&Attachment> {
        self.view.attachment(self.nsid)
    }

    /// Operation at the storage, if there is one.
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

    /// True if the command belongs to a fused pair.
    pub(super) const fn is_paired(&self) -> bool {
        !matches!(self.pairing, Pairing::Alone)
    }

    /// True if the command has claimed its blocks.
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

    /// True if the command has been started at the storage, alone or in a pair.
    pub(crate) const fn is_at_storage(&self) -> bool {
        matches!(self.state, State::AtStorage(_) | State::Exclusive { .. } | State::Joined { .. })
    }

    /// True if the host has been answered although the storage still works on the command.
    pub(super) const fn is_given_up(&self) -> bool {
        matches!(&self.state, State::AtStorage(operation) if operation.is_given_up)
    }

    /// True if the storage or the reservation worker may still change something for this command. A
    /// command that was given up because the cluster has blocklisted this target cannot, however
    /// long the library keeps it.
    pub(crate) fn may_take_effect(&self) -> bool {
        let is_shut_out = || self.attachment().is_some_and(|a| a.namespace.backend.is_shut_out());
        (self.is_at_storage() || matches!(self.state, State::AtWorker))
            && !(self.is_given_up() && is_shut_out())
    }
}
