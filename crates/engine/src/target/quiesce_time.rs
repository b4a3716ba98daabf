//! For how long after the loss of its host a controller's commands may still take effect (Command Quiesce Time, TP4129), as
//! hosts of one subsystem are told, and the longest that its storage has taken. Only reactors' cold paths write here.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use super::config::SubsystemConfig;

/// The Command Quiesce Time of a subsystem.
#[derive(Debug, Default)]
pub(super) struct QuiesceTime {
    configured_ms: AtomicU64,
    longest_ns: AtomicU64,
}

impl QuiesceTime {
    pub(super) fn of(config: &SubsystemConfig) -> Self {
        let time = Self::default();
        time.configure(config);
        time
    }

    /// Takes over another configuration; what was measured stays.
    pub(super) fn configure(&self, config: &SubsystemConfig) {
        self.configured_ms.store(config.command_quiesce_ms().into(), Ordering::Relaxed);
    }

    /// What hosts are told when they ask, in milliseconds. Those that have asked before go by what they were told.
    pub(super) fn told_ms(&self) -> u16 {
        let configured_ms = self.configured_ms.load(Ordering::Relaxed);
        u16::try_from(configured_ms).unwrap_or(u16::MAX)
    }

    /// The same.
    pub(super) fn told(&self) -> Duration {
        Duration::from_millis(self.told_ms().into())
    }

    /// Takes note that an operation has been at the storage for so long.
    pub(super) fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// The longest that an operation has been at the storage since the subsystem is there.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

/// The Command Quiesce Time by which one controller's host goes: what it was told when it asked last.
#[derive(Debug, Default)]
pub(super) struct ToldTime(AtomicU16);

impl ToldTime {
    /// The host asks.
    pub(super) fn tell(&self, time: &QuiesceTime) -> u16 {
        let told_ms = time.told_ms();
        self.0.store(told_ms, Ordering::Relaxed);
        told_ms
    }

    /// What it goes by; before it has asked, what it would be told.
    pub(super) fn get(&self, time: &QuiesceTime) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            0 => time.told(),
            told_ms => Duration::from_millis(told_ms.into()),
        }
    }
}
