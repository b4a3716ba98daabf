//! What a host has set of its controller's features. It goes back to the defaults with a reset.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use nvme::features::{AsyncEventConfig, HostBehavior, Timestamp};

use crate::ring::{self, Moment};

/// Features that a host has set.
#[derive(Clone, Debug)]
pub(crate) struct Features {
    pub(crate) arbitration: u32,
    pub(crate) temperature_threshold: u32,
    pub(crate) error_recovery: u32,
    pub(crate) write_atomicity: u32,
    pub(crate) async_events: u32,
    pub(crate) io_queues: u16,
    pub(crate) host_behavior: HostBehavior,
    /// The host's clock in milliseconds, and when it was set.
    pub(crate) timestamp: Option<(u64, Moment)>,
    /// Reservation notifications the host does not want, by namespace.
    pub(crate) reservation_masks: BTreeMap<u32, u32>,
}

impl Features {
    /// Features of a controller that may have this number of I/O queues, before a host has set any.
    pub(crate) fn new(io_queues: u16) -> Self {
        Self {
            arbitration: 0,
            // No temperature is reported, so that no threshold is ever passed.
            temperature_threshold: 0xffff,
            error_recovery: 0,
            write_atomicity: 0,
            async_events: 0,
            io_queues,
            host_behavior: HostBehavior::default(),
            timestamp: None,
            reservation_masks: BTreeMap::new(),
        }
    }
}

impl Features {
    /// I/O queues that were granted.
    pub(crate) const fn io_queues(&self) -> u16 {
        self.io_queues
    }

    /// Events the host wants.
    pub(crate) const fn async_events(&self) -> AsyncEventConfig {
        AsyncEventConfig(self.async_events)
    }

    /// Reservation notifications the host does not want of a namespace, as bits of the feature's value.
    pub(crate) fn reservation_mask(&self, nsid: u32) -> u32 {
        self.reservation_masks.get(&nsid).copied().unwrap_or(0)
    }

    /// Masks reservation notifications of namespaces that the host sees.
    pub(crate) fn set_reservation_masks(&mut self, nsids: impl Iterator<Item = u32>, mask: u32) {
        self.reservation_masks.extend(nsids.map(|nsid| (nsid, mask)));
    }

    pub(crate) fn time_ms(&self) -> (u64, u8) {
        match self.timestamp {
            Some((set_ms, at)) => (set_ms + ring::now().since(at).as_millis() as u64, Timestamp::SET_BY_HOST),
            None => {
                let now = ring::wall_time().duration_since(UNIX_EPOCH).unwrap_or_default();
                (now.as_millis() as u64, 0)
            }
        }
    }
}
