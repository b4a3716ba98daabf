//! A lost association that has not come to rest: until when its commands may take effect, and who was asked to reset its
//! controller. How it is brought to rest is in `quiesce`.

use std::time::Duration;

use nvme::cross_reset::ControllerInstance;

use crate::ring::Moment;

/// A controller that resets another one may only seem to: then one more is asked, so long after the last.
const NEXT_HELPER: Duration = Duration::from_secs(1);

/// A lost association that has not come to rest.
#[derive(Debug)]
pub(super) struct Quiescing {
    pub(super) path: usize,
    pub(super) association: u64,
    pub(super) instance: ControllerInstance,
    /// Time after which it is at rest by itself, counted from when nobody here uses it any longer.
    pub(super) time: Duration,
    pub(super) left_at: Option<Moment>,
    /// Associations of paths that were asked to reset it, without success.
    pub(super) asked: Vec<(usize, u64)>,
    /// Associations of paths that are resetting it.
    pub(super) resetting: Vec<(usize, u64)>,
    /// When the last of them was asked, and when their logs were read last.
    pub(super) asked_at: Moment,
    pub(super) read_at: Moment,
}

impl Quiescing {
    /// Whether its commands can take effect no more.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.left_at.is_some_and(|left_at| now >= left_at.after(self.time))
    }

    /// Whether to ask a controller for its reset, if there is one.
    pub(super) fn may_ask(&self, now: Moment) -> bool {
        let is_due = self.resetting.is_empty() || now.since(self.asked_at) >= NEXT_HELPER;
        is_due && self.instance.random_number != 0
    }

    /// A path no longer resets it, and is not asked again.
    pub(super) fn give_up(&mut self, helper: usize) {
        self.asked.extend(self.resetting.extract_if(.., |(path, _)| *path == helper));
    }
}
