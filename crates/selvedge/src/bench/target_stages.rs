//! Time of a namespace's commands by stage in a Selvedge target, read from the target. The report
//! interprets it.

use std::time::Duration;

use engine::initiator::Paths;
use engine::target::Stage;
use nvme::log_page::CommandStagesLog;

/// A target that takes longer to say it is not waited for: the run has ended, and is to be reported.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of a target's stages.
const STAGES: usize = Stage::ALL.len();

/// Sums over commands of all hosts on the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetStages {
    pub(crate) commands: u64,
    /// From when each was received until its response was queued.
    pub(crate) took_ns: u64,
    /// In the order of `Stage::ALL`.
    pub(crate) stages_ns: [u64; STAGES],
}

impl TargetStages {
    /// Reads the target's counters; `None` if the target does not report them. Several paths may
    /// lead to several targets, each with a part of the commands, or to one: then nothing is read.
    pub(crate) fn read(paths: &Paths, nsid: u32) -> Option<Self> {
        let controllers = paths.controllers();
        let [controller] = &controllers[..] else { return None };
        match controller.command_stages(nsid, PATIENCE) {
            Ok(log) => log.as_ref().map(Self::of),
            Err(error) => {
                tracing::debug!(%error, "the target does not report the time of each stage");
                None
            }
        }
    }

    fn of(log: &CommandStagesLog) -> Self {
        let mut stages_ns = [0; STAGES];
        stages_ns.iter_mut().zip(log.stages_ns).for_each(|(own, field)| *own = field.get());
        Self { commands: log.commands.get(), took_ns: log.took_ns.get(), stages_ns }
    }

    /// Returns the difference to `earlier`; `None` without commands, or after a reset of the
    /// target's counters.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Self> {
        let commands = self.commands.checked_sub(earlier.commands).filter(|commands| *commands > 0)?;
        let took_ns = self.took_ns.checked_sub(earlier.took_ns)?;
        let mut stages_ns = self.stages_ns;
        for (own, before) in stages_ns.iter_mut().zip(earlier.stages_ns) {
            *own = own.checked_sub(before)?;
        }
        Some(Self { commands, took_ns, stages_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_is_the_difference() {
        let of = |commands, ns: u64| {
            let stages = [0, ns / 4, 0, ns / 2, ns / 4];
            TargetStages::of(&CommandStagesLog::new(1, commands, ns, &stages))
        };
        let (before, after) = (of(10, 400), of(30, 1200));
        let since = TargetStages { commands: 20, took_ns: 800, stages_ns: [0, 200, 0, 400, 200] };
        assert_eq!(after.since(&before), Some(since));
        assert_eq!(after.since(&after), None, "nothing came");
        assert_eq!(before.since(&after), None, "another process counts there");
    }
}
