//! Which TLS keys this host offers which subsystem. What is offered of a key is the engine's.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::initiator::TlsKeys;
use secure_channel::{ConfiguredPsk, Derivation, IdentityVersion, RecordLimit};

use super::nvme_cli::KnownHost;
use crate::flags::connection::ConnectionFlags;
use crate::spec::secret;

/// The TLS keys of this host.
#[derive(Clone, Debug)]
pub(super) enum Tls {
    /// For all subsystems; none for connections in clear.
    Same(Option<Arc<TlsKeys>>),
    /// As a file has them.
    Known(Arc<KnownHost>),
}

/// TLS settings of the flags, without the keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TlsChoice {
    /// True if all connections have to be TLS.
    pub(super) is_required: bool,
    pub(super) identity: Option<IdentityVersion>,
    pub(super) derivation: Option<Derivation>,
    pub(super) record_limit: Option<RecordLimit>,
}

impl TlsChoice {
    pub(super) fn of(flags: &ConnectionFlags) -> Self {
        let version = |number| if number == 0 { IdentityVersion::Zero } else { IdentityVersion::One };
        Self {
            is_required: flags.tls,
            identity: flags.tls_identity.map(version),
            derivation: flags.tls_compat.then_some(Derivation::Compat),
            record_limit: flags.tls_record_limit,
        }
    }

    /// These keys, offered as the flags say.
    pub(super) fn keys(self, keys: Vec<ConfiguredPsk>) -> TlsKeys {
        let keys = TlsKeys::new(keys);
        let renew_after = self.record_limit.unwrap_or(keys.renew_after);
        TlsKeys { identity: self.identity, derivation: self.derivation, renew_after, ..keys }
    }
}

impl Tls {
    pub(super) fn of(flags: &ConnectionFlags, known: Option<&Arc<KnownHost>>) -> Result<Self, String> {
        let choice = TlsChoice::of(flags);
        match (&flags.tls_key_file, known) {
            (Some(file), _) => Ok(Self::Same(Some(Arc::new(choice.keys(secret::read_all(file)?))))),
            (None, Some(known)) => Ok(Self::Known(known.clone())),
            (None, None)
                if flags.tls
                    || flags.tls_compat
                    || flags.tls_identity.is_some()
                    || flags.tls_record_limit.is_some() =>
            {
                Err("TLS needs a key: name its file with --tls-key-file, or a config.json that has it with -J"
                    .to_owned())
            }
            (None, None) => Ok(Self::Same(None)),
        }
    }

    /// The keys for a subsystem at this address, if connections to it are TLS.
    pub(super) fn keys_for(&self, nqn: &str, address: SocketAddr) -> Option<Arc<TlsKeys>> {
        match self {
            Self::Same(keys) => keys.clone(),
            Self::Known(host) => host.tls_keys(nqn, address).map(Arc::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_of_keys_makes_all_connections_tls() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let psk = |byte| ConfiguredPsk::new(&[byte; 32], None).unwrap();
        fs::write(&file, format!("{}\n{}\n", *psk(1).reveal(), *psk(2).reveal())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let tls = |more: &str| Tls::of(&ConnectionFlags::of(&format!("-a 127.0.0.1 {more}")), None);
        let address = ([127, 0, 0, 1], 4420).into();
        let keys =
            tls(&format!("--tls-key-file {}", file.display())).unwrap().keys_for("nqn.a", address).unwrap();
        assert_eq!((&keys.keys, keys.identity, keys.derivation), (&vec![psk(1), psk(2)], None, None));
        let more = format!("--tls --tls-key-file {} --tls-identity 0 --tls-compat", file.display());
        let keys = tls(&more).unwrap().keys_for("nqn.a", address).unwrap();
        assert_eq!((keys.identity, keys.derivation), (Some(IdentityVersion::Zero), Some(Derivation::Compat)));
        assert!(tls("").unwrap().keys_for("nqn.a", address).is_none());
        let limited = tls(&format!("--tls-key-file {} --tls-record-limit 500", file.display()));
        assert_eq!(limited.unwrap().keys_for("nqn.a", address).unwrap().renew_after.records(), 500);
        for without in ["--tls", "--tls-compat", "--tls-identity 1", "--tls-record-limit 500"] {
            assert!(tls(without).unwrap_err().contains("--tls-key-file"), "{without}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let open = tls(&format!("--tls-key-file {}", file.display())).unwrap_err();
        assert!(open.contains("is readable by other users"), "{open}");
    }
}
