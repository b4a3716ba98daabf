//! Identity of a host for reservations: its NQN and HOSTID together, in a fixed size.

use authentication::Hash;

/// A host's 128-bit identifier (HOSTID).
pub(crate) type HostId = [u8; 16];

/// Digest of a host's NQN and HOSTID. Reservations belong to hosts, not to controllers, and a HOSTID alone is a claim that
/// another NQN can make as well. Half of a SHA-256: the data path compares it for each command on a reserved namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostDigest([u8; 16]);

impl HostDigest {
    /// Digest of the host with this NQN and this HOSTID.
    pub(crate) fn of(host_nqn: &str, host_id: &HostId) -> Self {
        // The identifier has a fixed length, and comes first: no two hosts have the same bytes here.
        let digest = Hash::Sha256.digest(&[&host_id[..], host_nqn.as_bytes()].concat());
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_differ_by_their_nqn_and_by_their_identifier() {
        let digests =
            [("nqn.a", 1), ("nqn.b", 1), ("nqn.a", 2)].map(|(nqn, id)| HostDigest::of(nqn, &[id; 16]));
        assert!(digests[0] != digests[1] && digests[0] != digests[2] && digests[1] != digests[2]);
        assert_eq!(digests[0], HostDigest::of("nqn.a", &[1; 16]));
    }
}
