//! A controller that is lost and has not come to rest: until when its commands may take effect, and who was asked to reset
//! it. How it is brought to rest is in `quiesce`.

use std::time::Duration;

use super::controller_record::ControllerRecord;
use crate::initiator::ConnectOptions;
use crate::ring::Moment;

/// A controller that resets another one may only seem to: then one more is asked, so long after the last.
const NEXT_HELPER: Duration = Duration::from_secs(1);
/// Time after which those are asked again that had no time for it.
const BUSY_TIME: Duration = Duration::from_secs(1);

/// Owner of a lost controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// An association of a path of this process.
    Path(usize, u64),
    /// A process before this one.
    EarlierProcess,
}

/// A lost controller that has not come to rest.
#[derive(Debug)]
pub(super) struct Quiescing {
    pub(super) of: Of,
    pub(super) record: ControllerRecord,
    /// Set if this host may have it reset.
    is_resettable: bool,
    /// Time after which it is quiesced by itself, counted from when it has no user left.
    time: Duration,
    pub(super) left_at: Option<Moment>,
    /// Associations of paths that were asked to reset it, without success.
    pub(super) asked: Vec<(usize, u64)>,
    /// Associations that may do so later, and the time when one was asked last.
    pub(super) busy: Vec<(usize, u64)>,
    busy_at: Moment,
    /// Associations of paths that are resetting it.
    pub(super) resetting: Vec<(usize, u64)>,
    /// Time when the last of them was asked, and when their logs were read last.
    pub(super) asked_at: Moment,
    pub(super) read_at: Moment,
}

impl Quiescing {
    /// A controller that is lost at `now`, to a host with these options. A process that has ended
    /// uses its controllers no longer.
    pub(super) fn new(
        of: Of,
        record: ControllerRecord,
        host: &ConnectOptions,
        unknown: Duration,
        now: Moment,
    ) -> Self {
        Self {
            is_resettable: record.is_resettable_by(host),
            time: record.quiesce_time(unknown),
            left_at: (of == Of::EarlierProcess).then_some(now),
            of,
            record,
            asked: Vec::new(),
            busy: Vec::new(),
            busy_at: now,
            resetting: Vec::new(),
            asked_at: now,
            read_at: now,
        }
    }

    /// Records that its commands have ended.
    pub(super) fn has_ended(&mut self, now: Moment) {
        (self.time, self.left_at) = (Duration::ZERO, Some(now));
    }

    /// True if its commands can take effect no more.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.left_at.is_some_and(|left_at| now >= left_at.after(self.time))
    }

    /// Time until it needs attention; `None` if it waits for others.
    pub(super) fn wait(&self, now: Moment) -> Option<Duration> {
        let again = (!self.busy.is_empty()).then(|| self.busy_at.after(BUSY_TIME).since(now));
        self.left(now).into_iter().chain(again).min()
    }

    /// Longest time that its commands may still take effect; `None` while it has users.
    pub(super) fn left(&self, now: Moment) -> Option<Duration> {
        self.left_at.map(|left_at| left_at.after(self.time).since(now))
    }

    /// True if a controller should be asked for its reset, if there is one.
    pub(super) fn may_ask(&self, now: Moment) -> bool {
        let is_due = self.resetting.is_empty() || now.since(self.asked_at) >= NEXT_HELPER;
        is_due && self.is_resettable
    }

    /// A path does not reset it now, and is asked again.
    pub(super) fn ask_again(&mut self, helper: usize, now: Moment) {
        self.busy.extend(self.resetting.extract_if(.., |(path, _)| *path == helper));
        self.busy_at = now;
    }

    /// Clears the list of busy associations after a time, and they are asked again.
    pub(super) fn forget_the_busy(&mut self, now: Moment) {
        if now.since(self.busy_at) >= BUSY_TIME {
            self.busy.clear();
        }
    }

    /// A path no longer resets it, and is not asked again.
    pub(super) fn give_up(&mut self, helper: usize) {
        self.asked.extend(self.resetting.extract_if(.., |(path, _)| *path == helper));
    }
}
