//! Identity of the machine that a target runs on, as hosts see it: distinguishes it from all
//! others, and does not reveal the machine's own identifier. Nothing is stored here: see
//! `kept_identities` for machines without an identifier.

use std::path::Path;
use std::{fmt, fs, io};

use uuid::{Builder, Uuid};

use crate::ring;

/// Path of the machine identifier of systemd and D-Bus (machine-id(5)).
pub const MACHINE_ID_FILE: &str = "/etc/machine-id";
/// The key under which machine identifiers are hashed. With another one, every target would be another to its hosts.
const APPLICATION: Uuid = Uuid::from_u128(0x7d2b_8d0e_6c4f_4f0a_9a57_1c64_0e53_b7d1);
/// Digits that are not taken for each other when they are read out or typed.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Digits of a name and of a group in it: 60 bits, so that among a million machines two have the same name with a
/// chance of one in two million.
const NAME_DIGITS: usize = 12;
const NAME_GROUP: usize = 4;

/// A machine, by which the names, serial numbers and UUIDs of what is served there differ from those of other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MachineId(Uuid);

impl MachineId {
    /// The machine with the identifier in this file; `None` where there is no file, or it says that there is none yet.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(path) {
            Ok(text) => Self::of_text(&text).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The machine with the identifier in this text, of which only a digest is kept: it is confidential.
    fn of_text(text: &str) -> Result<Option<Self>, &'static str> {
        let line = text.trim();
        // An image that has not booted yet has one of these (machine-id(5)).
        if line.is_empty() || line == "uninitialized" {
            return Ok(None);
        }
        let raw =
            Uuid::try_parse(line).map_err(|_| "it holds no machine ID, which has 32 hexadecimal digits")?;
        Ok((!raw.is_nil()).then(|| Self(Uuid::new_v5(&APPLICATION, raw.as_bytes()))))
    }

    /// A random identity, unlike any other machine's.
    pub fn random() -> Self {
        Self(random_uuid())
    }

    /// The one that was kept as this.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// As it can be kept.
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }

    /// A serial number for a subsystem with this name, which the machine's other subsystems and other machines'
    /// do not have.
    pub fn serial(&self, nqn: &str) -> String {
        let (high, _) = self.derive("serial", nqn).as_u64_pair();
        format!("SLV{high:016x}")
    }

    /// A UUID for something of this kind on this machine.
    pub(crate) fn derive(&self, kind: &str, what: &str) -> Uuid {
        Uuid::new_v5(&self.0, format!("{kind}:{what}").as_bytes())
    }
}

impl fmt::Display for MachineId {
    /// A name for people, such as `k3f9-7qzm-2v0x`, made for NQNs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut bits, _) = self.derive("name", "").as_u64_pair();
        for at in 0..NAME_DIGITS {
            if at > 0 && at % NAME_GROUP == 0 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(DIGITS[(bits & 31) as usize]))?;
            bits >>= 5;
        }
        Ok(())
    }
}

/// A serial number that is the same on all machines: for what several targets serve as one subsystem.
pub(crate) fn common_serial(nqn: &str) -> String {
    let name = nqn.as_bytes();
    let (low, high) =
        (nvme::tcp::digest::crc32c(name), nvme::tcp::digest::crc32c(&[name, b"serial"].concat()));
    format!("SLV{high:08x}{low:08x}")
}

/// A UUID that is the same on all machines, for something of this kind.
pub(crate) fn common_uuid(kind: &str, what: &str) -> Uuid {
    Uuid::new_v5(&APPLICATION, format!("{kind}:{what}").as_bytes())
}

/// A UUID that nothing else has.
pub(crate) fn random_uuid() -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&ring::random().to_le_bytes());
    bytes[8..].copy_from_slice(&ring::random().to_le_bytes());
    Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "3d1219c7c4c5404aaa1f6d2a48adfda4";

    fn machine(text: &str) -> MachineId {
        MachineId::of_text(text).expect("a machine ID").expect("there is one")
    }

    #[test]
    fn a_machine_keeps_its_names_and_no_other_has_them() {
        let (one, same) = (machine(RAW), machine(&format!("{RAW}\n")));
        let other = machine("3d1219c7c4c5404aaa1f6d2a48adfda5");
        assert_eq!(one, same);
        assert_eq!((one.to_string(), one.serial("nqn.a")), (same.to_string(), same.serial("nqn.a")));
        assert_ne!(one.to_string(), other.to_string());
        assert_ne!(one.serial("nqn.a"), other.serial("nqn.a"));
        assert_ne!(one.serial("nqn.a"), one.serial("nqn.b"));
        assert_ne!(one.derive("file", "1"), other.derive("file", "1"));
    }

    #[test]
    fn names_stay_from_version_to_version() {
        assert_eq!(machine(RAW).to_string(), "e2q0-40wh-zdeh");
        assert_eq!(machine(RAW).serial("nqn.2026-01.io.selvedge:a"), "SLVa80925b4aea85877");
        assert_eq!(common_serial("nqn.2026-01.io.selvedge:target"), "SLV27657cd23f508479");
    }

    #[test]
    fn no_identity_contains_the_machine_id() {
        let machine = machine(RAW);
        let all = [machine.as_uuid().simple().to_string(), machine.serial("nqn.a"), machine.to_string()];
        for (one, start) in all.iter().flat_map(|one| (0..RAW.len() - 8).map(move |start| (one, start))) {
            assert!(!one.contains(&RAW[start..start + 8]), "{one}");
        }
    }

    #[test]
    fn what_is_no_identifier_yet_is_none_and_what_is_none_at_all_is_an_error() {
        for none in ["", "\n", "uninitialized\n", "00000000000000000000000000000000"] {
            assert_eq!(MachineId::of_text(none), Ok(None), "{none}");
        }
        assert!(MachineId::of_text("localhost").is_err());
        assert_ne!(MachineId::random(), MachineId::random());
    }

    #[test]
    fn a_missing_file_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("machine-id");
        assert_eq!(MachineId::read(&path).expect("missing"), None);
        fs::write(&path, format!("{RAW}\n")).expect("writes");
        assert_eq!(MachineId::read(&path).expect("there"), Some(machine(RAW)));
        fs::write(&path, "no\n").expect("writes");
        assert!(MachineId::read(&path).is_err());
    }
}
