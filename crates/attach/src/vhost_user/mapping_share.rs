//! Shares of sockets in the mappings of a process: a front end that takes all that it may have leaves others theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{MAPPINGS_PER_SOCKET_MAX, MEMORY_REGIONS_MAX, WATCHED_MAPPINGS_MAX};

/// Sockets of all servers of this process.
static SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// Share of a socket, for its front ends, one after the other.
#[derive(Debug)]
pub(super) struct MappingShare {
    taken: AtomicUsize,
}

/// Mapping that counts against a share until it is dropped.
#[derive(Debug)]
pub(super) struct SharePart(Arc<MappingShare>);

impl MappingShare {
    /// Share of one more socket.
    pub(super) fn new() -> Arc<Self> {
        SOCKETS.fetch_add(1, Ordering::AcqRel);
        Arc::new(Self { taken: AtomicUsize::new(0) })
    }

    /// Takes room for one mapping, if there is some.
    pub(super) fn take(share: &Arc<Self>) -> Option<SharePart> {
        let most = Self::most(SOCKETS.load(Ordering::Acquire));
        let more = |taken: usize| (taken < most).then_some(taken + 1);
        let taken = share.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.is_ok().then(|| SharePart(share.clone()))
    }

    /// Regions that a front end may share: all of them may be replaced while threads still use the former ones, and the
    /// in-flight region too.
    pub(super) fn regions_max(&self) -> usize {
        (Self::most(SOCKETS.load(Ordering::Acquire)) / 2).saturating_sub(1).min(MEMORY_REGIONS_MAX)
    }

    /// Mappings of each of these sockets.
    fn most(sockets: usize) -> usize {
        (WATCHED_MAPPINGS_MAX / sockets.max(1)).min(MAPPINGS_PER_SOCKET_MAX)
    }
}

impl Drop for MappingShare {
    fn drop(&mut self) {
        SOCKETS.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for SharePart {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRONT_ENDS_MAX;

    #[test]
    fn a_socket_that_takes_all_leaves_others_theirs() {
        let (greedy, modest) = (MappingShare::new(), MappingShare::new());
        let mut taken = Vec::new();
        while let Some(part) = MappingShare::take(&greedy) {
            taken.push(part);
            assert!(taken.len() <= MAPPINGS_PER_SOCKET_MAX);
        }
        assert!(MappingShare::take(&modest).is_some());
        taken.pop();
        assert!(MappingShare::take(&greedy).is_some(), "a mapping that is gone makes room");
    }

    #[test]
    fn shares_of_all_sockets_fit() {
        for sockets in [1, 2, FRONT_ENDS_MAX, 1000] {
            assert!(MappingShare::most(sockets) * sockets <= WATCHED_MAPPINGS_MAX);
        }
        assert!(
            MappingShare::most(FRONT_ENDS_MAX) / 2 > 250,
            "QEMU's memory devices have 256 regions at most"
        );
    }
}
