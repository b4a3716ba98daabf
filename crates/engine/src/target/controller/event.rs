//! Asynchronous events of one controller: which have happened, and which the host knows of but has not looked at.
//! The requests that carry them wait in the admin queue; the log pages are elsewhere.

use nvme::features::{AsyncEvent, AsyncEventConfig};
use nvme::log_page::critical_warning;

/// Kind of event that a host may want to be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Namespaces came, went, or are otherwise from now on.
    Namespaces,
    /// ANA states, or the groups' namespaces.
    Ana,
    /// The discovery log.
    DiscoveryLog,
    /// A page of the reservation notification log.
    Reservation,
    /// A controller was reset, as this one was asked to do.
    CrossControllerReset,
    /// A critical warning of the health log.
    Health,
}

impl Notice {
    const ALL: [Self; 6] = [
        Self::Namespaces,
        Self::Ana,
        Self::DiscoveryLog,
        Self::Reservation,
        Self::CrossControllerReset,
        Self::Health,
    ];

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    const fn event(self) -> AsyncEvent {
        match self {
            Self::Namespaces => AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED,
            Self::Ana => AsyncEvent::ANA_CHANGE,
            Self::DiscoveryLog => AsyncEvent::DISCOVERY_LOG_CHANGE,
            Self::Reservation => AsyncEvent::RESERVATION_LOG_AVAILABLE,
            Self::CrossControllerReset => AsyncEvent::CROSS_CONTROLLER_RESET_COMPLETED,
            Self::Health => AsyncEvent::RELIABILITY_DEGRADED,
        }
    }

    /// True if the host has enabled the event. Reservation notices have masks of their own.
    pub(crate) const fn is_wanted(self, config: AsyncEventConfig) -> bool {
        match self {
            Self::Namespaces => config.contains(AsyncEventConfig::NAMESPACE_ATTRIBUTE),
            Self::Ana => config.contains(AsyncEventConfig::ANA_CHANGE),
            Self::DiscoveryLog => config.contains(AsyncEventConfig::DISCOVERY_LOG_CHANGE),
            Self::Reservation => true,
            Self::CrossControllerReset => config.contains(AsyncEventConfig::CROSS_CONTROLLER_RESET),
            Self::Health => config.contains(critical_warning::RELIABILITY as u32),
        }
    }
}

/// Events of one controller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events {
    pub(super) pending: u8,
    /// Reported and not read yet: a second event of the kind would add no information (Base 5.1.2).
    pub(super) unread: u8,
}

impl Events {
    /// Records that it happened. Returns whether the host is to be notified now.
    pub(crate) const fn raise(&mut self, notice: Notice) -> bool {
        if self.unread & notice.bit() != 0 {
            return false;
        }
        self.pending |= notice.bit();
        true
    }

    /// The next event to tell, in dword 0 of a completion.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let notice = Notice::ALL.into_iter().find(|notice| self.pending & notice.bit() != 0)?;
        self.pending &= !notice.bit();
        self.unread |= notice.bit();
        Some(notice.event().encode())
    }

    /// Records that the host reads the log page of a notice. Later occurrences are reported again.
    pub(crate) const fn looked_at(&mut self, notice: Notice) {
        self.unread &= !notice.bit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_reported_once_until_its_log_page_is_read() {
        let mut events = Events::default();
        assert!(events.next().is_none());
        assert!(events.raise(Notice::Ana) && events.raise(Notice::Ana));
        assert_eq!(events.next(), Some(AsyncEvent::ANA_CHANGE.encode()));
        assert!(events.next().is_none());
        assert!(!events.raise(Notice::Ana), "reported, and not read");
        assert!(events.raise(Notice::Namespaces), "another kind is reported all the same");
        events.looked_at(Notice::Ana);
        assert!(events.raise(Notice::Ana));
        assert!(events.next().is_some() && events.next().is_some() && events.next().is_none());
    }
}
