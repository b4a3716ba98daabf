//! Identity of this host: its NQN and identifier, from nvme-cli's files or derived from the
//! machine's own. It writes no files; to store a generated identity is the caller's.

use std::fs;

use nvme::discovery::Nqn;
use uuid::Uuid;

const NQN_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// A host's name and identifier, as Connect carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// Qualified name (HOSTNQN).
    pub nqn: String,
    /// Identifier (HOSTID).
    pub id: [u8; 16],
}

impl HostIdentity {
    /// The identity in `/etc/nvme/hostnqn` and `/etc/nvme/hostid`, as nvme-cli keeps it. What is missing
    /// there is derived from `/etc/machine-id`, so that it stays the same, or else made at random.
    pub fn of_this_machine() -> Self {
        let nqn = read_line("/etc/nvme/hostnqn").filter(|nqn| Nqn::new(nqn).is_ok());
        let id = read_line("/etc/nvme/hostid").and_then(|id| Uuid::parse_str(&id).ok());
        match (nqn, id) {
            (Some(nqn), Some(id)) => Self { nqn, id: id.into_bytes() },
            (Some(nqn), None) => Self::from_nqn(nqn),
            (None, Some(id)) => Self::from_uuid(id),
            (None, None) => Self::from_uuid(machine_uuid().unwrap_or_else(Uuid::new_v4)),
        }
    }

    /// The identity of `nqn`: the UUID in it is the identifier too, or else one that is derived from the
    /// name.
    pub fn from_nqn(nqn: impl Into<String>) -> Self {
        let nqn = nqn.into();
        let uuid = nqn.strip_prefix(NQN_PREFIX).and_then(|uuid| Uuid::parse_str(uuid).ok());
        let id = uuid.map_or_else(|| derive(nqn.as_bytes()), Uuid::into_bytes);
        Self { nqn, id }
    }

    /// The identity `nqn.2014-08.org.nvmexpress:uuid:<uuid>`.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self { nqn: format!("{NQN_PREFIX}{uuid}"), id: uuid.into_bytes() }
    }
}

fn read_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A UUID of this machine. The machine's own identifier is confidential (machine-id(5)): only a digest goes
/// out.
fn machine_uuid() -> Option<Uuid> {
    let machine = read_line("/etc/machine-id")?;
    Some(Uuid::from_bytes(derive(format!("selvedge host {machine}").as_bytes())))
}

/// 16 bytes that follow from `name`, shaped as a UUID of version 8. It is not a secret, only stable and well
/// spread.
fn derive(name: &[u8]) -> [u8; 16] {
    let halves = [0xcbf2_9ce4_8422_2325_u64, 0x9ae1_6a3b_2f90_404f].map(|seed| {
        let hash =
            name.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        // FNV leaves the high bits of short names alike; a round of mixing spreads them.
        let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    });
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&halves[0].to_be_bytes());
    bytes[8..].copy_from_slice(&halves[1].to_be_bytes());
    *uuid::Builder::from_custom_bytes(bytes).as_uuid().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_in_the_name_is_the_identifier() {
        let uuid = Uuid::from_u128(0x1234);
        let identity = HostIdentity::from_uuid(uuid);
        assert_eq!(HostIdentity::from_nqn(identity.nqn.clone()), identity);
    }

    #[test]
    fn derived_identifiers_are_stable_and_differ() {
        let one = HostIdentity::from_nqn("nqn.2024-01.test:one");
        assert_eq!(one, HostIdentity::from_nqn("nqn.2024-01.test:one"));
        assert_ne!(one.id, HostIdentity::from_nqn("nqn.2024-01.test:two").id);
    }
}
