//! What a process has beside its target, and the next one goes on with.

use serde::{Deserialize, Serialize};

use super::handed_ceph::OfferedCeph;
use crate::mptcp::HandedSettings;

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Belongings {
    /// What it has of Ceph clusters.
    #[serde(default)]
    pub(super) ceph: OfferedCeph,
    /// What was set of the machine, and is to be taken back in the end.
    #[serde(default)]
    pub(super) settings: Option<HandedSettings>,
    /// Log level, if that was changed while the process ran.
    #[serde(default)]
    pub(super) log_level: Option<String>,
}

impl Belongings {
    /// What a next process has to know that is to go on with it.
    pub(super) fn needs(&self) -> impl Iterator<Item = &'static str> {
        let ceph = (!self.ceph.is_empty()).then_some("ceph");
        ceph.into_iter().chain(self.settings.is_some().then_some("MPTCP settings"))
    }
}
