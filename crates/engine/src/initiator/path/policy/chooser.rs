//! The policies by name, and the little that has to be remembered between two choices. What each chooses is in its own
//! file.

use std::fmt;
use std::str::FromStr;
#[cfg(any(test, feature = "simulation"))]
use std::time::Duration;

use super::candidate::Candidate;
#[cfg(any(test, feature = "simulation"))]
use super::latency_ewma::{EwmaKnobs, LatencyEwma};
use super::{latency, numa, queue_depth, round_robin};
#[cfg(any(test, feature = "simulation"))]
use crate::ring::Moment;

/// Policy that chooses the path of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoPolicy {
    /// The nearest path, always.
    Numa,
    /// Each in turn.
    RoundRobin,
    /// The one with the fewest commands in flight.
    QueueDepth,
    /// The one that is expected to be done first.
    #[default]
    Latency,
    /// Shares by average latency, as a patch of the kernel proposes them: for comparison in the laboratory, in no program.
    #[cfg(any(test, feature = "simulation"))]
    LatencyEwma(EwmaKnobs),
}

impl IoPolicy {
    /// All that programs offer.
    pub const ALL: [Self; 4] = [Self::Numa, Self::RoundRobin, Self::QueueDepth, Self::Latency];

    /// Name, as Linux spells its own.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Numa => "numa",
            Self::RoundRobin => "round-robin",
            Self::QueueDepth => "queue-depth",
            Self::Latency => "latency",
            #[cfg(any(test, feature = "simulation"))]
            Self::LatencyEwma(_) => "latency-ewma",
        }
    }
}

impl fmt::Display for IoPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{0}`; there are numa, round-robin, queue-depth, latency")]
pub struct UnknownPolicy(pub String);

impl FromStr for IoPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// A policy at work on one thread.
#[derive(Debug)]
pub(crate) struct Chooser {
    policy: IoPolicy,
    last: usize,
    #[cfg(any(test, feature = "simulation"))]
    ewma: LatencyEwma,
}

impl Chooser {
    pub(crate) const fn new(policy: IoPolicy) -> Self {
        Self {
            policy,
            last: usize::MAX,
            #[cfg(any(test, feature = "simulation"))]
            ewma: LatencyEwma::new(),
        }
    }

    /// The path for the next command; `None` when it has to wait.
    pub(crate) fn choose(&mut self, paths: &[Candidate]) -> Option<usize> {
        let at = match self.policy {
            IoPolicy::Numa => numa::choose(paths),
            IoPolicy::RoundRobin => round_robin::choose(paths, self.last),
            IoPolicy::QueueDepth => queue_depth::choose(paths),
            IoPolicy::Latency => latency::choose(paths),
            #[cfg(any(test, feature = "simulation"))]
            IoPolicy::LatencyEwma(knobs) => self.ewma.choose(paths, knobs),
        }?;
        self.last = at;
        Some(at)
    }

    /// True if it uses the distance of paths from the processor.
    pub(crate) const fn looks_at_distance(&self) -> bool {
        matches!(self.policy, IoPolicy::Numa)
    }

    /// True if it uses time, and so needs the latencies of paths.
    pub(crate) const fn looks_at_time(&self) -> bool {
        matches!(self.policy, IoPolicy::Latency)
    }
}

/// Observations that only the laboratory's policy needs.
#[cfg(any(test, feature = "simulation"))]
impl Chooser {
    /// Announces the next choice: the time, and the direction of the command's data.
    pub(crate) const fn see(&mut self, now: Moment, sends: bool) {
        self.ewma.see(now, sends);
    }

    /// Adds the latency of a command that a path has completed.
    pub(crate) fn done(&mut self, path: usize, sends: bool, latency: Duration) {
        self.ewma.done(path, sends, latency);
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Access;
    use super::*;

    #[test]
    fn names_are_read_back() {
        for policy in IoPolicy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let refused = "service-time".parse::<IoPolicy>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "there is no policy `service-time`; there are numa, round-robin, queue-depth, latency"
        );
        let of_the_laboratory = IoPolicy::LatencyEwma(EwmaKnobs::default());
        assert!(of_the_laboratory.name().parse::<IoPolicy>().is_err(), "no program offers it");
    }

    #[test]
    fn round_robin_remembers_where_it_was() {
        let path = Candidate { access: Access::Optimized, has_room: true, ..Candidate::default() };
        let mut chooser = Chooser::new(IoPolicy::RoundRobin);
        let chosen: Vec<_> = (0..5).map(|_| chooser.choose(&[path; 3]).unwrap()).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1]);
    }
}
