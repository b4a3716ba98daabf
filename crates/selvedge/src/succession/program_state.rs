//! State that a process hands over beside its target.

use serde::{Deserialize, Serialize};

use super::handed_ceph::OfferedCeph;
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

impl ProgramState {
    /// Features that the new process has to know.
    pub(super) fn needs(&self) -> impl Iterator<Item = &'static str> {
        let ceph = (!self.ceph.is_empty()).then_some("ceph");
        ceph.into_iter().chain(self.settings.is_some().then_some("MPTCP settings"))
    }
}
