//! Presence of hosts at a gateway, as reported to other gateways: a host that connects counts at
//! once, an absence only after a delay, since most hosts reconnect. It checks no host, and has no
//! clock.

use engine::limits::{GATEWAY_BEAT_MS, GATEWAY_DESERTED_MS, GATEWAY_DESERTED_REPORTED_MS};

/// Deduction from the wait of a gateway that learned of the loss from its hosts, in milliseconds:
/// enough time for the others to learn of it.
const HEAD_START_MS: u64 = GATEWAY_DESERTED_MS - GATEWAY_BEAT_MS;
const _: () = assert!(HEAD_START_MS >= GATEWAY_DESERTED_REPORTED_MS);

/// Time since when no host has been at the gateway.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostPresence {
    alone_since_ms: Option<u64>,
    /// Set if the last report about hosts is that they have lost this gateway.
    is_lost: bool,
}

impl HostPresence {
    /// Records whether hosts are there now. Whether others must be notified at once.
    pub(crate) fn note(&mut self, has_hosts: bool, now_ms: u64) -> bool {
        let was_reported = self.is_reported(now_ms);
        if has_hosts {
            *self = Self::default();
        } else {
            let head_start_ms = if self.is_lost { HEAD_START_MS } else { 0 };
            self.alone_since_ms.get_or_insert(now_ms.saturating_sub(head_start_ms));
        }
        was_reported != self.is_reported(now_ms)
    }

    /// Time without hosts, as far as is known, in milliseconds.
    pub(crate) fn alone_ms(&self, now_ms: u64) -> Option<u64> {
        self.alone_since_ms.map(|since_ms| now_ms.saturating_sub(since_ms))
    }

    /// Goes on from what another process knew.
    pub(crate) fn go_on(&mut self, alone_ms: Option<u64>, now_ms: u64) {
        *self = Self { alone_since_ms: alone_ms.map(|ms| now_ms.saturating_sub(ms)), is_lost: false };
    }

    /// Records that a host has lost this gateway, and says so elsewhere.
    pub(crate) const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// True if hosts have been away long enough that another gateway should serve.
    pub(crate) fn is_deserted(&self, now_ms: u64) -> bool {
        self.is_alone_for(GATEWAY_DESERTED_MS, now_ms)
    }

    /// True if the absence is to be reported: the others then do not return a group that this
    /// gateway gives away.
    pub(crate) fn is_reported(&self, now_ms: u64) -> bool {
        self.is_alone_for(GATEWAY_DESERTED_REPORTED_MS, now_ms)
    }

    fn is_alone_for(&self, ms: u64, now_ms: u64) -> bool {
        self.alone_since_ms.is_some_and(|since_ms| now_ms >= since_ms + ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_is_missed_after_a_while_and_who_comes_is_seen_at_once() {
        let mut host_presence = HostPresence::default();
        assert!(!host_presence.is_deserted(u64::MAX), "no look yet");
        assert!(!host_presence.note(false, 1_000));
        host_presence.note(false, 1_000 + GATEWAY_DESERTED_MS - 1);
        let reported_ms = 1_000 + GATEWAY_DESERTED_REPORTED_MS;
        assert!(!host_presence.is_reported(reported_ms - 1) && host_presence.is_reported(reported_ms));
        assert!(!host_presence.is_deserted(reported_ms));
        assert!(host_presence.is_deserted(1_000 + GATEWAY_DESERTED_MS));
        assert!(host_presence.note(true, 9_000), "others think that no host is here");
        assert!(!host_presence.is_reported(u64::MAX) && !host_presence.note(true, 9_001));
    }

    #[test]
    fn who_was_gone_in_another_process_is_gone_in_this_one() {
        let mut host_presence = HostPresence::default();
        host_presence.note(false, 5_000);
        let alone_ms = host_presence.alone_ms(70_000);
        assert_eq!(alone_ms, Some(65_000));
        let mut next = HostPresence::default();
        next.go_on(alone_ms, GATEWAY_DESERTED_MS + 20);
        assert!(next.is_deserted(GATEWAY_DESERTED_MS + 20) && !next.note(false, GATEWAY_DESERTED_MS + 21));
        assert!(next.note(true, GATEWAY_DESERTED_MS + 22));
        next.go_on(None, 0);
        assert!(!next.is_reported(u64::MAX));
    }

    #[test]
    fn who_is_lost_by_its_last_host_says_so_at_once() {
        let mut host_presence = HostPresence::default();
        host_presence.note(true, 10_000);
        host_presence.lose();
        assert!(!host_presence.note(true, 10_200), "another one is there");
        host_presence.lose();
        assert!(host_presence.note(false, 10_400) && host_presence.is_reported(10_400));
        assert!(!host_presence.is_deserted(10_400 + GATEWAY_BEAT_MS - 1));
        assert!(host_presence.is_deserted(10_400 + GATEWAY_BEAT_MS) && !host_presence.note(false, 11_000));
    }
}
