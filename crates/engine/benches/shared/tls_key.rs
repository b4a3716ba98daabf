//! A TLS key for the hosts of a benchmark, in a file and at hand.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use engine::initiator::{HostIdentity, TlsKeys};
use engine::target::HostKeyConfig;
use secure_channel::ConfiguredPsk;

/// True if the command line asks for TLS.
pub(crate) fn is_wanted() -> bool {
    std::env::args().any(|word| word == "--tls")
}

fn key() -> ConfiguredPsk {
    ConfiguredPsk::new(&[0x5e; 32], None).expect("a key of 32 bytes")
}

/// The host's part.
pub(crate) fn of_host() -> Arc<TlsKeys> {
    Arc::new(TlsKeys::new(vec![key()]))
}

/// The target's part, with its file in this folder.
pub(crate) fn of_target(host: &HostIdentity, folder: &std::path::Path) -> HostKeyConfig {
    let file = folder.join("key");
    std::fs::write(&file, key().reveal().as_bytes()).expect("a file for the key");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    HostKeyConfig::tls(&host.nqn, file)
}
