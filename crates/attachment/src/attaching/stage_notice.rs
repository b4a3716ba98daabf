//! Stages of the commands of attached disks, printed when SIGUSR1 comes and when the process ends.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chart::units;
use engine::initiator::{Paths, StageLatencies};
use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;

use crate::failure::Failure;
use crate::report::locale;
use crate::report::stages::StagesReport;

/// Stages of each disk on each of its paths.
type DiskStages = Vec<Vec<StageLatencies>>;

/// Prints the stages of all disks on request.
#[derive(Debug)]
pub(super) struct StageNotice {
    asked: Arc<AtomicBool>,
    signal: SigId,
    /// Stages at the last request.
    printed: Mutex<DiskStages>,
}

impl StageNotice {
    /// Watches for the signal from now on.
    pub(super) fn new() -> Result<Self, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        let signal = signal_hook::flag::register(SIGUSR1, asked.clone())
            .map_err(|error| Failure::failed(format!("cannot watch for SIGUSR1: {error}")))?;
        Ok(Self { asked, signal, printed: Mutex::default() })
    }

    /// Prints the stages since the last request, if the signal has come.
    pub(super) fn look(&self, disks: &[Arc<Paths>]) {
        if !self.asked.swap(false, Ordering::Relaxed) {
            return;
        }
        let now = stages(disks);
        let before =
            std::mem::replace(&mut *self.printed.lock().unwrap_or_else(PoisonError::into_inner), now.clone());
        print(disks, &since(now, &before), "since the last report");
    }

    /// Prints the stages since the disks were attached, once their threads have ended.
    pub(super) fn end(disks: &[Arc<Paths>]) {
        print(disks, &stages(disks), "in all");
    }
}

impl Drop for StageNotice {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.signal);
    }
}

fn stages(disks: &[Arc<Paths>]) -> DiskStages {
    disks.iter().map(|paths| paths.stages()).collect()
}

/// Returns the stages since `before`, which is empty at the first request.
fn since(mut now: DiskStages, before: &[Vec<StageLatencies>]) -> DiskStages {
    for (now, before) in now.iter_mut().zip(before) {
        now.iter_mut().zip(before).for_each(|(now, before)| *now = now.since(before));
    }
    now
}

fn print(disks: &[Arc<Paths>], stages: &[Vec<StageLatencies>], when: &str) {
    for (paths, stages) in disks.iter().zip(stages) {
        let text = text(paths.namespace().nsid, stages, when);
        eprint!("{}", locale::shown(&text));
    }
}

/// Returns the number of commands of a disk, and their stages as a table.
fn text(nsid: u32, stages: &[StageLatencies], when: &str) -> String {
    let commands: u64 = stages.iter().map(StageLatencies::count).sum();
    let mut text = format!("namespace {nsid}: {} {when}\n", units::plural(commands, "command"));
    if let Some(stages) = StagesReport::of_all(stages) {
        let _ = write!(text, "\n{}\n", stages.table());
    }
    text
}

#[cfg(test)]
mod tests {
    use engine::Histogram;

    use super::*;

    /// Stages of this number of commands, nearly all of whose time is the target's.
    fn stages(commands: u64) -> StageLatencies {
        [0, 1_000, 98_000, 1_000]
            .map(|took_ns| {
                let mut histogram = Histogram::default();
                (0..commands).for_each(|_| histogram.add(took_ns));
                histogram
            })
            .into()
    }

    #[test]
    fn a_report_covers_the_time_since_the_last_one() {
        let (first, second) = (vec![vec![stages(10)]], vec![vec![stages(30)]]);
        assert_eq!(since(first.clone(), &[]), first);
        let lately = since(second, &first);
        assert_eq!(lately[0][0].count(), 20);
        let text = text(7, &lately[0], "since the last report");
        assert!(text.starts_with("namespace 7: 20 commands since the last report\n"), "{text}");
        let target = text.lines().find(|line| line.contains("target and network")).expect("a row of it");
        assert!(target.contains("98.0 %"), "{target}");
    }

    #[test]
    fn a_disk_without_commands_has_no_table() {
        assert_eq!(text(1, &[StageLatencies::default(); 2], "in all"), "namespace 1: 0 commands in all\n");
    }
}
