//! The Reservation Notification log pages of one controller that wait for its host, in the order of what happened.
//! The event that says so is in `event`.

use std::collections::VecDeque;

use nvme::log_page::{ReservationNotification, ReservationNotificationLog};

use crate::limits::RESERVATION_NOTICES_MAX;

/// Pages that wait to be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservationLog {
    pages: VecDeque<(ReservationNotification, u32)>,
    /// The count of the newest page (LPC), 0 before there was one.
    newest: u64,
}

impl ReservationLog {
    /// Adds a page. When too many wait the oldest is lost, which the host sees by the gap in their counts.
    pub(crate) fn push(&mut self, kind: ReservationNotification, nsid: u32) {
        // 0 would be the count of an empty page.
        self.newest = self.newest.checked_add(1).unwrap_or(1);
        if self.pages.len() >= RESERVATION_NOTICES_MAX {
            self.pages.pop_front();
        }
        self.pages.push_back((kind, nsid));
    }

    /// The oldest page, or an empty one.
    pub(crate) fn first(&self) -> ReservationNotificationLog {
        let behind = self.pages.len().saturating_sub(1);
        self.pages.front().map_or_else(ReservationNotificationLog::default, |(kind, nsid)| {
            ReservationNotificationLog::new(self.count_of_first(), *kind, behind, *nsid)
        })
    }

    /// The page with this count was read: it goes, if it is still the oldest.
    pub(crate) fn was_read(&mut self, page_count: u64) {
        if !self.pages.is_empty() && self.count_of_first() == page_count {
            self.pages.pop_front();
        }
    }

    /// True if no page waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    fn count_of_first(&self) -> u64 {
        let behind = self.pages.len().saturating_sub(1) as u64;
        // Counts go from the greatest one to 1.
        if self.newest > behind { self.newest - behind } else { self.newest.wrapping_sub(behind + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: ReservationNotification = ReservationNotification::ReservationReleased;

    fn counts(log: &mut ReservationLog) -> Vec<(u64, u8, u32)> {
        let mut counts = Vec::new();
        while !log.is_empty() {
            let page = log.first();
            counts.push((page.page_count.get(), page.available_pages, page.nsid.get()));
            log.was_read(page.page_count.get());
        }
        counts
    }

    #[test]
    fn pages_are_read_in_order_and_counted() {
        let mut log = ReservationLog::default();
        assert_eq!(log.first(), ReservationNotificationLog::default());
        for nsid in [7, 8, 9] {
            log.push(KIND, nsid);
        }
        assert_eq!(log.first(), log.first(), "looking takes nothing away");
        log.was_read(2);
        assert_eq!(counts(&mut log), [(1, 2, 7), (2, 1, 8), (3, 0, 9)]);
        assert_eq!(log.first().page_count.get(), 0);
        log.push(KIND, 1);
        assert_eq!(counts(&mut log), [(4, 0, 1)]);
    }

    #[test]
    fn too_many_pages_lose_the_oldest_and_leave_a_gap() {
        let mut log = ReservationLog::default();
        for nsid in 0..RESERVATION_NOTICES_MAX as u32 + 2 {
            log.push(KIND, nsid);
        }
        let counts = counts(&mut log);
        assert_eq!(counts.len(), RESERVATION_NOTICES_MAX);
        assert_eq!(counts[0], (3, 254, 2));
    }

    #[test]
    fn no_page_has_the_count_of_an_empty_one() {
        let mut log = ReservationLog { newest: u64::MAX - 2, ..ReservationLog::default() };
        for nsid in 1..=4 {
            log.push(KIND, nsid);
        }
        let counts: Vec<u64> = counts(&mut log).into_iter().map(|(count, ..)| count).collect();
        assert_eq!(counts, [u64::MAX - 1, u64::MAX, 1, 2]);
    }
}
