//! What a target did between two samples of it: by namespace and kind of command, by queue and by reactor. It keeps out
//! its presentation.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use engine::target::{Metrics, NamespaceMetrics, Operation, ReactorMetrics};

use super::done::Done;

/// A target's numbers, and when they were taken.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) time: SystemTime,
    pub(super) metrics: Metrics,
}

impl Sample {
    /// Seconds from `before` until this.
    pub(super) fn seconds_since(&self, before: &Self) -> f64 {
        self.at.saturating_duration_since(before.at).as_secs_f64()
    }
}

/// Sums over commands, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) read: Done,
    pub(super) write: Done,
    pub(super) other: Done,
    /// Commands that failed.
    pub(super) errors: u64,
}

impl Kinds {
    fn between(now: &NamespaceMetrics, before: Option<&NamespaceMetrics>) -> Self {
        let mut kinds = Self::default();
        for metrics in &now.operations {
            let former = before.and_then(|before| {
                before.operations.iter().find(|former| former.operation == metrics.operation)
            });
            // Where a counter fell nothing is known, and the rest is still true.
            let Some(done) = Done::between(metrics, former) else { continue };
            let kind = match metrics.operation {
                Operation::Read => &mut kinds.read,
                Operation::Write => &mut kinds.write,
                _ => &mut kinds.other,
            };
            kind.add(&done);
        }
        let errors = |metrics: &NamespaceMetrics| metrics.errors.iter().map(|error| error.commands).sum();
        let former: u64 = before.map_or(0, errors);
        kinds.errors = errors(now).saturating_sub(former);
        kinds
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.other.add(&other.other);
        self.errors += other.errors;
    }

    /// Commands of all kinds.
    pub(super) fn commands(&self) -> u64 {
        self.read.commands() + self.write.commands() + self.other.commands()
    }

    /// True if no command was done.
    pub(super) fn is_idle(&self) -> bool {
        self.commands() + self.errors == 0
    }

    /// Commands that limits held back.
    pub(super) fn held(&self) -> u64 {
        self.read.held() + self.write.held() + self.other.held()
    }
}

/// Activity between two samples.
#[derive(Debug, Default)]
pub(super) struct Interval<'a> {
    pub(super) seconds: f64,
    pub(super) all: Kinds,
    /// Namespaces with any activity, by the subsystem's name and their number.
    pub(super) namespaces: BTreeMap<(&'a str, u32), Kinds>,
}

impl<'a> Interval<'a> {
    pub(super) fn between(now: &'a Sample, before: &Sample) -> Self {
        let mut interval = Self { seconds: now.seconds_since(before), ..Self::default() };
        for subsystem in &now.metrics.subsystems {
            let former = before.metrics.subsystems.iter().find(|former| former.nqn == subsystem.nqn);
            // What is there for the first time has counted since some moment that is not known.
            let Some(former) = former else { continue };
            let former: BTreeMap<u32, &NamespaceMetrics> =
                former.namespaces.iter().map(|namespace| (namespace.nsid, namespace)).collect();
            for namespace in &subsystem.namespaces {
                let kinds = Kinds::between(namespace, former.get(&namespace.nsid).copied());
                if !kinds.is_idle() {
                    interval.all.add(&kinds);
                    interval.namespaces.insert((&subsystem.nqn, namespace.nsid), kinds);
                }
            }
        }
        interval
    }
}

/// The share of an interval in which a reactor did not wait for events.
pub(super) fn busy(now: &ReactorMetrics, before: &ReactorMetrics, seconds: f64) -> f64 {
    let waited_s = now.waited.saturating_sub(before.waited).as_secs_f64();
    if seconds > 0.0 { (1.0 - waited_s / seconds).clamp(0.0, 1.0) } else { 0.0 }
}
