//! Log of commands that took longer than a threshold: the latest of them, with their time in each stage.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::counters::Operation;
use super::stage::STAGES;
use crate::limits::{SLOW_COMMANDS_A_SECOND, SLOW_COMMANDS_KEPT};
use crate::ring::Moment;
use crate::target::lock::lock;

/// No command takes so long.
const NEVER: u64 = u64::MAX;
const SECOND_NS: u64 = 1_000_000_000;

/// A command that took long, and went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Serial number among the logged commands, from 1 on.
    pub number: u64,
    /// Time of completion.
    pub at: SystemTime,
    /// Name of the host.
    pub host_nqn: String,
    /// Address of the host's end of the queue.
    pub peer: SocketAddr,
    /// Name of the subsystem.
    pub subsystem: String,
    /// Controller identifier (CNTLID).
    pub controller: u16,
    /// Queue identifier.
    pub queue: u16,
    /// Namespace identifier.
    pub nsid: u32,
    /// Operation of the command.
    pub operation: Operation,
    /// First block and number of blocks, for a command with a single range.
    pub blocks: Option<(u64, u64)>,
    /// Bytes that travelled with it.
    pub bytes: u32,
    /// Duration in nanoseconds.
    pub took_ns: u64,
    /// Time in each stage in nanoseconds, in the order of `Stage::ALL`: the sum is `took_ns`.
    pub stages_ns: [u64; STAGES],
}

/// The latest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowCommandLog {
    /// From which time on a command is slow; none is without it.
    pub threshold: Option<Duration>,
    /// Logged commands, the oldest first.
    pub commands: Vec<SlowCommand>,
    /// True if commands were left out since the threshold was set, because more came in a second
    /// than are logged.
    pub has_left_out: bool,
}

/// Log that reactors write to. A command that is not slow costs one load.
#[derive(Debug)]
pub(crate) struct SlowCommands {
    threshold_ns: AtomicU64,
    /// End of a pause after too many commands within a second, during which none is logged.
    closed_until_ns: AtomicU64,
    has_left_out: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    commands: VecDeque<SlowCommand>,
    count: u64,
    second: u64,
    in_second: u32,
}

impl Default for SlowCommands {
    fn default() -> Self {
        Self {
            threshold_ns: AtomicU64::new(NEVER),
            closed_until_ns: AtomicU64::new(0),
            has_left_out: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }
}

impl SlowCommands {
    /// True if a command that took this long is slow.
    pub(crate) fn are_reported_from(&self, took_ns: u64) -> bool {
        took_ns >= self.threshold_ns.load(Ordering::Relaxed)
    }

    /// Keeps a slow command that is answered now, if no more than a few came in this second.
    pub(crate) fn note(&self, now: Moment, command: impl FnOnce() -> SlowCommand) {
        if now.0 < self.closed_until_ns.load(Ordering::Relaxed) {
            if !self.has_left_out.load(Ordering::Relaxed) {
                self.has_left_out.store(true, Ordering::Relaxed);
            }
            return;
        }
        let command = command();
        let mut kept = lock(&self.kept);
        let second = now.0 / SECOND_NS;
        if second != kept.second {
            (kept.second, kept.in_second) = (second, 0);
        }
        kept.in_second += 1;
        if kept.in_second >= SLOW_COMMANDS_A_SECOND {
            self.closed_until_ns.store((second + 1) * SECOND_NS, Ordering::Relaxed);
        }
        if kept.commands.len() >= SLOW_COMMANDS_KEPT {
            kept.commands.pop_front();
        }
        kept.count += 1;
        let number = kept.count;
        kept.commands.push_back(SlowCommand { number, ..command });
    }

    /// Commands are slow from now on that take so long; none are without a time. What was kept goes.
    pub(crate) fn set_threshold(&self, threshold: Option<Duration>) {
        let ns = threshold.map_or(NEVER, |time| u64::try_from(time.as_nanos()).unwrap_or(NEVER));
        lock(&self.kept).commands.clear();
        self.has_left_out.store(false, Ordering::Relaxed);
        self.threshold_ns.store(ns, Ordering::Relaxed);
    }

    /// Present content of the log.
    pub(crate) fn read(&self) -> SlowCommandLog {
        let ns = self.threshold_ns.load(Ordering::Relaxed);
        SlowCommandLog {
            threshold: (ns != NEVER).then(|| Duration::from_nanos(ns)),
            commands: lock(&self.kept).commands.iter().cloned().collect(),
            has_left_out: self.has_left_out.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(took_ns: u64) -> SlowCommand {
        SlowCommand {
            number: 0,
            at: SystemTime::UNIX_EPOCH,
            host_nqn: "nqn.2014-08.org.example:host".to_owned(),
            peer: ([127, 0, 0, 1], 1).into(),
            subsystem: "nqn.2014-08.org.example:subsystem".to_owned(),
            controller: 1,
            queue: 1,
            nsid: 1,
            operation: Operation::Read,
            blocks: Some((8, 1)),
            bytes: 4096,
            took_ns,
            stages_ns: [0, 0, 0, took_ns, 0],
        }
    }

    #[test]
    fn nothing_is_slow_without_a_threshold() {
        let all = SlowCommands::default();
        assert!(!all.are_reported_from(u64::MAX - 1));
        all.set_threshold(Some(Duration::from_millis(10)));
        assert!(all.are_reported_from(10_000_000) && !all.are_reported_from(9_999_999));
        all.note(Moment(1), || slow(10_000_000));
        assert_eq!(all.read().commands.len(), 1);
        all.set_threshold(None);
        assert_eq!(all.read(), SlowCommandLog::default());
    }

    #[test]
    fn the_latest_are_kept_and_few_of_each_second() {
        let all = SlowCommands::default();
        all.set_threshold(Some(Duration::ZERO));
        let per_second = u64::from(SLOW_COMMANDS_A_SECOND);
        let seconds = SLOW_COMMANDS_KEPT as u64 / per_second + 2;
        for second in 1..=seconds {
            for at in 0..2 * per_second {
                all.note(Moment(second * SECOND_NS + at), || slow(second));
            }
        }
        let log = all.read();
        assert_eq!(log.commands.len(), SLOW_COMMANDS_KEPT);
        assert!(log.has_left_out);
        let numbers: Vec<u64> = log.commands.iter().map(|command| command.number).collect();
        let last = seconds * per_second;
        assert_eq!(numbers, (last - SLOW_COMMANDS_KEPT as u64 + 1..=last).collect::<Vec<_>>());
    }
}
