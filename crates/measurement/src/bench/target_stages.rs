//! Time of a namespace's commands by stage in Selvedge targets, read from the targets. The report
//! interprets it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::initiator::Paths;
use engine::target::Stage;
use nvme::log_page::CommandStagesLog;

/// Longest wait for a target's response: the run has ended, and is to be reported.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of a target's stages.
const STAGES: usize = Stage::ALL.len();

/// Sums over commands of all hosts on the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetStages {
    pub commands: u64,
    /// From when each was received until its response was queued.
    pub(crate) took_ns: u64,
    /// In the order of `Stage::ALL`.
    pub stages_ns: [u64; STAGES],
}

impl TargetStages {
    fn of(log: &CommandStagesLog) -> Self {
        let mut stages_ns = [0; STAGES];
        stages_ns.iter_mut().zip(log.stages_ns).for_each(|(own, field)| *own = field.get());
        Self { commands: log.commands.get(), took_ns: log.took_ns.get(), stages_ns }
    }

    fn merge(&mut self, other: &Self) {
        self.commands += other.commands;
        self.took_ns += other.took_ns;
        self.stages_ns.iter_mut().zip(other.stages_ns).for_each(|(own, others)| *own += others);
    }

    /// Returns the difference to `earlier`; `None` after a reset of the target's counters.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let mut stages_ns = self.stages_ns;
        for (own, before) in stages_ns.iter_mut().zip(earlier.stages_ns) {
            *own = own.checked_sub(before)?;
        }
        let commands = self.commands.checked_sub(earlier.commands)?;
        let took_ns = self.took_ns.checked_sub(earlier.took_ns)?;
        Some(Self { commands, took_ns, stages_ns })
    }
}

/// Counters of all targets of a namespace's paths, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetCounters(BTreeMap<u64, TargetStages>);

impl TargetCounters {
    /// Reads the counters of each target once, however many paths lead to it; `None` if a target
    /// does not report them.
    pub(crate) fn read(paths: &Paths, nsid: u32) -> Option<Self> {
        let controllers = paths.controllers();
        let mut logs = Vec::new();
        for controller in &controllers {
            match controller.command_stages(nsid, PATIENCE) {
                Ok(log) => logs.push(log?),
                // Another path may lead to the same target.
                Err(error) => tracing::debug!(%error, "the target does not report the time of each stage"),
            }
        }
        Self::of(&logs, controllers.len())
    }

    /// Returns the counters in these logs. Without numbers of counters, several paths may lead to
    /// one target or to several: then nothing is known.
    fn of(logs: &[CommandStagesLog], paths: usize) -> Option<Self> {
        let is_certain = paths == 1 || logs.iter().all(|log| log.counters.get() > 0);
        let counters: BTreeMap<u64, TargetStages> =
            logs.iter().map(|log| (log.counters.get(), TargetStages::of(log))).collect();
        (is_certain && !counters.is_empty()).then_some(Self(counters))
    }

    /// Returns the sum of the differences to `earlier`; `None` without commands, or if counters were
    /// reset, or of another set of targets.
    pub(crate) fn since(&self, earlier: &Self) -> Option<TargetStages> {
        if self.0.len() != earlier.0.len() {
            return None;
        }
        let mut sum = TargetStages::default();
        for (number, now) in &self.0 {
            sum.merge(&now.since(earlier.0.get(number)?)?);
        }
        (sum.commands > 0).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(number: u64, commands: u64, ns: u64) -> CommandStagesLog {
        let stages = [0, ns / 4, 0, ns / 2, ns / 4];
        CommandStagesLog { counters: number.into(), ..CommandStagesLog::new(1, commands, ns, &stages) }
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let of = |commands, ns| TargetCounters::of(&[log(0, commands, ns)], 1).expect("one path");
        let (before, after) = (of(10, 400), of(30, 1200));
        let since = TargetStages { commands: 20, took_ns: 800, stages_ns: [0, 200, 0, 400, 200] };
        assert_eq!(after.since(&before), Some(since));
        assert_eq!(after.since(&after), None, "nothing came");
        assert_eq!(before.since(&after), None, "another process counts there");
    }

    #[test]
    fn two_paths_to_a_target_count_once_and_two_targets_add_up() {
        let one = |commands| log(7, commands, commands * 40);
        let other = |commands| log(8, commands, commands * 80);
        let before = TargetCounters::of(&[one(10), one(10), other(5)], 3).expect("numbered counters");
        let after = TargetCounters::of(&[one(20), one(20), other(10)], 3).expect("numbered counters");
        let since = TargetStages { commands: 15, took_ns: 800, stages_ns: [0, 200, 0, 400, 200] };
        assert_eq!(after.since(&before), Some(since));
        // A path is lost, and its target has another one.
        let left = TargetCounters::of(&[one(20), other(10)], 3).expect("numbered counters");
        assert_eq!(left.since(&before), Some(since));
        let idle = TargetCounters::of(&[one(20), one(20), other(5)], 3).expect("numbered counters");
        assert_eq!(idle.since(&before).map(|since| since.commands), Some(10), "one target had no commands");
    }

    #[test]
    fn targets_without_a_name_are_not_added() {
        assert_eq!(TargetCounters::of(&[log(0, 10, 40), log(0, 20, 80)], 2), None);
        assert_eq!(TargetCounters::of(&[], 2), None);
        let [before, gone, another] = [&[7, 8][..], &[7], &[7, 9]].map(|numbers| {
            let logs: Vec<_> = numbers.iter().map(|number| log(*number, 10, 40)).collect();
            TargetCounters::of(&logs, 2).expect("numbered counters")
        });
        assert_eq!((gone.since(&before), another.since(&before)), (None, None));
    }
}
