//! Data that the rules judge: a host and the targets that answered.

use super::host::Host;
use super::measurement::Measurement;
use crate::diagnosis::served::Served;
use crate::probe::Probe;

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Case {
    /// This machine.
    pub(crate) host: Host,
    /// Targets that answered.
    pub(crate) targets: Vec<Served>,
    /// Reads of a namespace, where measuring was asked for.
    pub(crate) measured: Option<Measurement>,
}

impl Case {
    /// The shortest time that a connection to a target took, in nanoseconds: no answer comes back sooner.
    pub(crate) fn rtt_ns(&self) -> Option<f64> {
        let wanted = self.host.paths.iter().filter(|path| path.is_wanted);
        let reached = wanted.filter_map(|path| match path.probe {
            Some(Probe::Reached { rtt_us }) => Some(rtt_us as f64 * 1e3),
            _ => None,
        });
        reached.min_by(f64::total_cmp)
    }
}
