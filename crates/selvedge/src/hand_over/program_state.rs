//! State that a process hands over beside its target.

use engine::target::Target;
use serde::{Deserialize, Serialize};

use super::handed_ceph::OfferedCeph;
use crate::log;
use crate::mptcp::HandedSettings;

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ProgramState {
    /// Locks and connections in Ceph clusters.
    #[serde(default)]
    pub(super) ceph: OfferedCeph,
    /// Settings of the machine that the target has changed, and restores in the end.
    #[serde(default)]
    pub(super) settings: Option<HandedSettings>,
    /// Log level, if that was changed while the process ran.
    #[serde(default)]
    pub(super) log_level: Option<String>,
    /// Threshold of slow commands in force; absent in the hand-over of earlier versions.
    #[serde(default)]
    pub(super) slow_commands: Option<SlowCommandThreshold>,
}

/// Threshold from which on commands are logged as slow; none are without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlowCommandThreshold {
    pub(super) threshold_ns: Option<u64>,
}

/// Settings that an administrator changes while the process runs, and that no configuration has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Adjusted {
    pub(super) log_level: Option<String>,
    pub(super) slow_commands: SlowCommandThreshold,
}

impl Adjusted {
    /// Settings of this process and its target.
    pub(super) fn of(target: &Target) -> Self {
        let threshold = target.slow_commands().threshold;
        let slow_commands =
            SlowCommandThreshold { threshold_ns: threshold.map(|time| time.as_nanos() as u64) };
        Self { log_level: log::changed_level(), slow_commands }
    }
}

impl ProgramState {
    /// Features that the new process has to know.
    pub(super) fn needs(&self) -> impl Iterator<Item = &'static str> {
        let ceph = (!self.ceph.is_empty()).then_some("ceph");
        ceph.into_iter().chain(self.settings.is_some().then_some("MPTCP settings"))
    }
}
