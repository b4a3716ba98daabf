//! Commands that took longer than somebody wants to know: the latest of them, with what their time was spent on.

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
    /// Its number among those that were kept: they count from 1.
    pub number: u64,
    /// When it was answered.
    pub at: SystemTime,
    /// Its host.
    pub host_nqn: String,
    /// Where its queue came from.
    pub peer: SocketAddr,
    /// Its subsystem.
    pub subsystem: String,
    /// Its controller (CNTLID).
    pub controller: u16,
    /// Its queue.
    pub queue: u16,
    /// Its namespace.
    pub nsid: u32,
    /// What it did.
    pub operation: Operation,
    /// Its first block and how many, where it names one range.
    pub blocks: Option<(u64, u64)>,
    /// Bytes that travelled with it.
    pub bytes: u32,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// How long it was in each stage, in nanoseconds, in the order of `Stage::ALL`: they add up to `took_ns`.
    pub stages_ns: [u64; STAGES],
}

/// The latest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowCommandLog {
    /// From which time on a command is slow; none is without it.
    pub threshold: Option<Duration>,
    /// Those that are kept, the oldest first.
    pub commands: Vec<SlowCommand>,
    /// Whether there were more than may be kept of one second, since the threshold was set.
    pub has_left_out: bool,
}

/// Where reactors leave them. A command that is not slow costs one load.
#[derive(Debug)]
pub(crate) struct SlowCommands {
    threshold_ns: AtomicU64,
    /// Until when nothing more is kept, since there were too many: whoever finds that writes nothing.
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
    /// Whether a command is slow that took so long.
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

    /// What is kept now.
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
