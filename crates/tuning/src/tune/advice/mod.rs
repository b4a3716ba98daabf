//! Recommended settings for a target and a workload. Each one has its reason and its basis: a rule,
//! a measurement, or the table of the published study of one host with a 100 Gbit/s link and a fast
//! target.

mod network;
mod queues;
#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;
use topology::Topology;

use crate::flags::tune::Goal;
use crate::report::paragraph;
use crate::report::table::{Side, Table};
use crate::sweep::plan::Plan;
use crate::sweep::summary::Summary;

pub(crate) use network::{BUFFER_BYTES_MAX, LONG_US, buffer_wanted_bytes};
pub(crate) use queues::link_mbps;

/// Data that advice depends on.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) paths: Vec<Path>,
    pub(crate) cores: u32,
    pub(crate) block_bytes: u64,
    pub(crate) outstanding: Option<u32>,
    pub(crate) goal: Goal,
    pub(crate) measured: Option<Measured<'a>>,
    /// The system's own words for congestion control and buffers.
    pub(crate) congestion_available: String,
    pub(crate) congestion_now: String,
    pub(crate) receive_buffer: String,
    pub(crate) send_buffer: String,
    /// Governor of the processors' frequency, if there is one.
    pub(crate) governor: Option<String>,
    /// Time that sealing a command's data takes, where it was timed.
    pub(crate) seal_ns: Option<f64>,
}

/// A way to the target.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    pub(crate) interface: String,
    /// Round trip in microseconds, where the target could be reached.
    pub(crate) rtt_us: Option<u64>,
}

/// Results of an earlier sweep.
#[derive(Debug)]
pub(crate) struct Measured<'a> {
    pub(crate) folder: String,
    pub(crate) plan: &'a Plan,
    pub(crate) summaries: &'a [Summary],
}

/// Basis of a recommendation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "basis", content = "basis_of")]
pub(crate) enum Basis {
    /// Rule, with its text.
    Rule(String),
    /// A measurement, which is named.
    Measured(String),
    /// The table of the published study.
    Table(String),
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "rule: {rule}"),
            Self::Measured(folder) => write!(f, "measured: {folder}"),
            Self::Table(row) => write!(f, "not measured here; published table: {row}"),
        }
    }
}

/// Recommended value of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Recommendation {
    /// Name of the setting.
    pub(crate) setting: String,
    /// To what.
    pub(crate) value: String,
    /// Current value, if it is known and differs.
    pub(crate) now: Option<String>,
    pub(crate) why: String,
    #[serde(flatten)]
    pub(crate) basis: Basis,
    /// A command that sets it, where one does.
    pub(crate) command: Option<String>,
}

/// All of them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Recommendations {
    paths: Vec<Path>,
    recommendations: Vec<Recommendation>,
    /// Commands that use them.
    commands: Vec<String>,
}

impl Recommendations {
    /// Returns the recommendations.
    pub(crate) fn of(case: &Case<'_>) -> Self {
        let load = queues::load(case);
        let mut recommendations = vec![load.outstanding_advice(), load.queues_advice()];
        recommendations.extend(load.per_path_advice(case));
        recommendations.extend(network::congestion(case));
        recommendations.extend(network::packets(case));
        recommendations.extend(network::buffers(case));
        recommendations.extend(network::processors(case));
        recommendations.extend(tls::tls(case));
        // What is set already needs no advice.
        recommendations.retain(|advice| advice.now.as_ref() != Some(&advice.value));
        Self { paths: case.paths.clone(), recommendations, commands: load.commands(case) }
    }
}

impl fmt::Display for Recommendations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.paths {
            let rtt =
                path.rtt_us.map_or("round trip not seen".to_owned(), |rtt| format!("round trip {rtt} µs"));
            writeln!(f, "{} by {}, {rtt}", path.address, path.interface)?;
        }
        let mut table = Table::new(&[("setting", Side::Left), ("value", Side::Left), ("now", Side::Left)]);
        for advice in &self.recommendations {
            table.row(vec![
                advice.setting.clone(),
                advice.value.clone(),
                advice.now.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        write!(f, "\n{table}")?;
        for advice in &self.recommendations {
            writeln!(f, "\n{} {}", advice.setting, advice.value)?;
            write!(f, "{}", paragraph::shown(&advice.why, 2))?;
            write!(f, "{}", paragraph::shown(&format!("({})", advice.basis), 2))?;
            if let Some(command) = &advice.command {
                writeln!(f, "  {command}")?;
            }
        }
        writeln!(f, "\nSo, for example")?;
        self.commands.iter().try_for_each(|command| writeln!(f, "  {command}"))
    }
}
