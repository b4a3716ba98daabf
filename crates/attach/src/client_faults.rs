//! Faults of NBD clients and vhost-user front ends, of which the log has the first ones and few of a flood: a client may commit one on
//! each of its connections, and connect again at once.

use engine::ring::now;
use engine::seldom::Seldom;

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFault {
    /// Connection that the system does not give.
    Unaccepted,
    /// Connection beyond those that its party may have.
    Refused,
    /// Connection that the system or this process cannot serve.
    Unserved,
    /// Bytes that break the protocol.
    Protocol,
    /// Message or handshake that is not complete in time.
    Late,
    /// TLS handshake that fails.
    Handshake,
    /// TLS record that cannot be used.
    Record,
    /// Virtqueue that cannot be used.
    Rings,
}

impl ClientFault {
    const ALL: [Self; 8] = [
        Self::Unaccepted,
        Self::Refused,
        Self::Unserved,
        Self::Protocol,
        Self::Late,
        Self::Handshake,
        Self::Record,
        Self::Rings,
    ];
}

/// Counts of the faults of a server's clients, or of a socket's front ends, by kind.
#[derive(Debug, Default)]
pub(crate) struct ClientFaults([Seldom; ClientFault::ALL.len()]);

impl ClientFaults {
    /// Counts a fault; the number of those of its kind if it is one to be logged.
    pub(crate) fn count(&self, fault: ClientFault) -> Option<u64> {
        self.0[fault as usize].count_to_log(now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_faults_is_logged_seldom_and_hides_no_other_kind() {
        for flood in ClientFault::ALL {
            let faults = ClientFaults::default();
            let logged = (0..10_000).filter(|_| faults.count(flood).is_some()).count();
            assert!((10..100).contains(&logged), "{flood:?}: {logged}");
            for other in ClientFault::ALL.into_iter().filter(|other| *other != flood) {
                assert_eq!(faults.count(other), Some(1), "{other:?} beside {flood:?}");
            }
        }
    }
}
