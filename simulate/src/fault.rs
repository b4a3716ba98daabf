//! Faults of machines, processes, links and the storage, and changes that administrators make.

use crate::gateway_plan::{ClusterFault, GroupChange};
use crate::upgrade_plan::Trouble;

/// Fault that strikes a machine, a process, a link or the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL, and a start afterwards.
    KillTarget { target: usize },
    /// A proper end, and a start afterwards.
    StopTarget { target: usize },
    /// SIGSTOP, and SIGCONT; where `resets`, the administrator resets all controllers at that very moment.
    PauseTarget { target: usize, resets: bool },
    /// The machine loses its power, without a notice to its peers.
    PowerOffTarget { target: usize },
    /// SIGKILL of a host, and a start afterwards.
    KillHost { host: usize },
    /// SIGSTOP of a host, and SIGCONT.
    PauseHost { host: usize },
    /// A link drops packets there, back, or either way, without a notice.
    CutLink { host: usize, path: usize, there: bool, back: bool },
    /// The connections over a link are reset.
    ResetLink { host: usize, path: usize },
    /// A byte is changed of the next that a host sends, or that it is sent, over one of its connections, which are TLS.
    DamageRecord { host: usize, back: bool },
    /// A link is slow.
    SlowLink { host: usize, path: usize, bytes_per_second: u64 },
    /// The storage is slow.
    SlowStorage,
    /// The storage fails now and then.
    FailingStorage,
    /// The storage loses what it should make durable, and reports that once.
    LosingStorage,
    /// The storage is full.
    FullStorage,
    /// The storage fills up in the middle of its work, and later has some room again. Copy on write needs room to
    /// overwrite.
    FillingStorage { copies_on_write: bool },
    /// The storage sometimes takes longer than targets promise to hosts.
    LateStorage,
    /// The storage and all targets lose their power.
    StorageLosesPower,
    /// The volume grows.
    Grow,
    /// The volume's ANA state changes on a port, and back.
    ChangeAna { target: usize, port: usize },
    /// A target does not serve the volume for a while.
    RemoveNamespace { target: usize },
    /// A port is closed and opened again.
    ClosePort { target: usize, port: usize },
    /// The administrator resets all controllers of a target.
    ResetControllers { target: usize },
    /// Another process comes in the place of the target's, and takes its hosts over.
    Upgrade { target: usize, trouble: Trouble },
    /// A host preempts the reservation, and aborts the holder's commands.
    Preempt { host: usize },
    /// SIGKILL of the process that serves the disk. The next one is started afterwards, or was so already. Its links may be cut
    /// at that moment, and something may happen to its record of controllers.
    KillAttach { cut: Cut, record: Fate, is_early: bool },
    /// SIGSTOP of it, and SIGCONT.
    PauseAttach,
    /// Records of controllers cannot be written.
    RefuseRecords,
    /// Another process comes in the place of the one that serves the disk, and takes its clients over.
    UpgradeAttach { trouble: Trouble },
    /// Something befalls the gateways' cluster.
    Cluster(ClusterFault),
    /// Administrators change something of the gateways' group.
    Group(GroupChange),
}

/// State of a killed process' record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    Unreadable,
    /// The record is gone, as after a restart of the machine. The next process is started when
    /// nothing can be left of the killed one.
    Gone,
}

/// Links of the disk's machine that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    None,
    Path(usize),
    All,
}

impl Fault {
    /// Name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::KillTarget { .. } => "target killed",
            Self::StopTarget { .. } => "target stopped",
            Self::PauseTarget { .. } => "target paused",
            Self::PowerOffTarget { .. } => "target's power lost",
            Self::KillHost { .. } => "host killed",
            Self::PauseHost { .. } => "host paused",
            Self::CutLink { there: true, back: true, .. } => "link cut",
            Self::CutLink { there: true, .. } => "link cut there",
            Self::CutLink { .. } => "link cut back",
            Self::ResetLink { .. } => "connections reset",
            Self::DamageRecord { .. } => "record damaged",
            Self::SlowLink { .. } => "link slow",
            Self::SlowStorage => "storage slow",
            Self::FailingStorage => "storage failing",
            Self::LosingStorage => "storage losing",
            Self::FullStorage => "storage full",
            Self::FillingStorage { .. } => "storage filling",
            Self::LateStorage => "storage late",
            Self::StorageLosesPower => "storage's power lost",
            Self::Grow => "volume grown",
            Self::ChangeAna { .. } => "ANA state changed",
            Self::RemoveNamespace { .. } => "namespace removed",
            Self::ClosePort { .. } => "port closed",
            Self::ResetControllers { .. } => "controllers reset",
            Self::Upgrade { .. } => "target upgraded",
            Self::Preempt { .. } => "reservation preempted",
            Self::KillAttach { record: Fate::Unreadable, .. } => "attach killed, record unreadable",
            Self::KillAttach { record: Fate::Gone, .. } => "attach killed, record gone",
            Self::KillAttach { is_early: true, .. } => "attach killed, next one there",
            Self::KillAttach { cut: Cut::All, .. } => "attach killed, cut off",
            Self::KillAttach { cut: Cut::Path(_), .. } => "attach killed, path cut",
            Self::KillAttach { .. } => "attach killed",
            Self::PauseAttach => "attach paused",
            Self::RefuseRecords => "records refused",
            Self::UpgradeAttach { .. } => "attach upgraded",
            Self::Cluster(fault) => fault.name(),
            Self::Group(change) => change.name(),
        }
    }

    /// True if it concerns the disk's processes alone.
    pub(crate) const fn is_of_disk(self) -> bool {
        matches!(
            self,
            Self::KillAttach { .. } | Self::PauseAttach | Self::RefuseRecords | Self::UpgradeAttach { .. }
        )
    }

    /// True if it ends or stops a target's process.
    pub(crate) const fn ends_target(self) -> bool {
        matches!(
            self,
            Self::KillTarget { .. }
                | Self::StopTarget { .. }
                | Self::PauseTarget { .. }
                | Self::PowerOffTarget { .. }
        )
    }

    /// True if it pauses a target's process.
    pub(crate) const fn pauses_target(self) -> bool {
        matches!(self, Self::PauseTarget { .. } | Self::Upgrade { trouble: Trouble::Pause { .. }, .. })
    }

    /// True if commands may fail because of it.
    pub(crate) const fn lets_commands_fail(self) -> bool {
        matches!(
            self,
            Self::FailingStorage
                | Self::LosingStorage
                | Self::FullStorage
                | Self::FillingStorage { .. }
                | Self::RemoveNamespace { .. }
        )
    }
}
