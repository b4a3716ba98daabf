//! Latency of the reads of `doctor --measure`, with the time of each stage.

use chart::units;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::histogram::LatencyNs;
use crate::report::stages::{StagesReport, TargetStagesReport};

/// Reads of 4 KiB from random places of one namespace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Measurement {
    /// The target's addresses, as they were typed.
    pub(crate) traddr: Vec<String>,
    /// The subsystem.
    pub(crate) subnqn: String,
    /// The namespace.
    pub(crate) nsid: u32,
    /// Runs, one for each number of commands in flight.
    pub(crate) runs: Vec<MeasuredRun>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MeasuredRun {
    /// Commands under way at a time.
    pub(crate) iodepth: u32,
    /// Entries of the queue as the controller allowed them.
    pub(crate) queue_size: u16,
    pub(crate) iops: f64,
    pub(crate) latency_ns: LatencyNs,
    /// Time by stage, as this host measures it.
    pub(crate) stages: StagesReport,
    /// Time by stage in the target, if it is a Selvedge target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_stages: Option<TargetStagesReport>,
}

impl Measurement {
    /// Name of the namespace in a sentence.
    pub(crate) fn name(&self) -> String {
        format!("namespace {} of {}", self.nsid, self.subnqn)
    }

    /// A line for each run.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let name = self.name();
        self.runs.iter().map(move |run| format!("{name}, {}", run.line()))
    }

    /// The run in which each command has the way and the target for itself.
    pub(crate) fn alone(&self) -> Option<&MeasuredRun> {
        self.runs.iter().find(|run| run.iodepth == 1)
    }
}

impl MeasuredRun {
    /// Time of a command in the target, in nanoseconds: as the target reports it, or the rest after
    /// the round trip of a connection.
    pub(crate) fn at_target_ns(&self, rtt_ns: Option<f64>) -> Option<f64> {
        let said = self.target_stages.map(|target| target.mean_ns);
        said.or_else(|| rtt_ns.map(|rtt_ns| (self.stages.target.mean_ns - rtt_ns).max(0.0)))
    }

    fn line(&self) -> String {
        let parts = self.stages.named().map(|(name, stage)| (name, stage.share_percent));
        let most = parts.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let (name, percent) = most.unwrap_or_default();
        let target = self.target_stages.and_then(|target| target.parts());
        let target = target.map(|parts| format!("; at the target itself {parts}")).unwrap_or_default();
        format!(
            "{} at a time: {} IOPS, a read takes {}, {percent:.0} % of it {name}{target}",
            self.iodepth,
            units::count(self.iops),
            units::time_ns(self.latency_ns.mean)
        )
    }
}
