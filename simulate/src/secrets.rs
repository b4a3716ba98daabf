//! Secrets of the scene's hosts, in every fourth scene: their queues authenticate when they
//! connect, and repeatedly beside their commands. In every other fourth scene their queues are TLS,
//! and their keys are replaced repeatedly.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use authentication::{Group, Hash, Secret};
use engine::initiator::{HostIdentity, HostSecrets, TlsKeys};
use engine::target::{HostKeyConfig, TlsUse};
use secure_channel::{ConfiguredPsk, RecordLimit};
use uuid::Uuid;

use crate::attach;
use crate::plan::Plan;

/// Interval at which queues reauthenticate: some times in each scene.
const REAUTH_INTERVAL: Duration = Duration::from_millis(300);

/// True if hosts authenticate. It follows from the seed without a number being drawn, so that all
/// else stays as it was.
pub(crate) const fn are_wanted(plan: &Plan) -> bool {
    plan.seed % 4 == 3
}

/// Identity of a host.
pub(crate) fn identity(number: usize) -> HostIdentity {
    HostIdentity::from_uuid(Uuid::from_u128(number as u128 + 1))
}

/// True if their queues are TLS, in the same way.
pub(crate) const fn is_tls(plan: &Plan) -> bool {
    plan.seed % 4 == 2
}

/// Records after which hosts replace keys: a few commands, so that it happens some times in each scene.
const RENEW_AFTER_RECORDS: u64 = 40;

fn key() -> ConfiguredPsk {
    ConfiguredPsk::new(&[0x5e; 32], None).expect("32 bytes are a key")
}

/// A host's part of TLS.
pub(crate) fn tls_of_host(plan: &Plan) -> Option<Arc<TlsKeys>> {
    let renew_after = RecordLimit::new(RENEW_AFTER_RECORDS).unwrap_or_default();
    // In every other one of them as towards a target that takes no new keys on a connection: its
    // queues reconnect.
    let by_key_updates = plan.seed % 8 == 2;
    is_tls(plan).then(|| Arc::new(TlsKeys { renew_after, by_key_updates, ..TlsKeys::new(vec![key()]) }))
}

/// TLS settings of a port. Visitors come without TLS, as unknown hosts may.
pub(crate) fn tls_use(plan: &Plan) -> Option<TlsUse> {
    is_tls(plan).then_some(TlsUse::Allowed)
}

fn secret() -> Secret {
    Secret::new(&[0x5e; 32], Some(Hash::Sha256)).expect("32 bytes are a key")
}

/// A host's part of it.
pub(crate) fn of_host(plan: &Plan) -> Option<Arc<HostSecrets>> {
    are_wanted(plan).then(|| {
        let reauth_interval = Some(REAUTH_INTERVAL);
        Arc::new(HostSecrets { secret: secret(), controller_secret: Some(secret()), reauth_interval })
    })
}

/// A target's part of it.
pub(crate) fn of_target(plan: &Plan) -> Vec<HostKeyConfig> {
    if is_tls(plan) {
        let key = |host: HostIdentity| HostKeyConfig::tls(&host.nqn, file("key", &key().reveal()));
        return hosts(plan).map(key).collect();
    }
    if !are_wanted(plan) {
        return Vec::new();
    }
    let file = || file("secret", &secret().reveal());
    let key = |host: HostIdentity| HostKeyConfig {
        dhchap_ctrl_secret_file: Some(file()),
        // What the others cost is a library's, and takes the time of many scenes.
        dhchap_dhgroup: vec![Group::Null],
        ..HostKeyConfig::new(&host.nqn, file())
    };
    hosts(plan).map(key).collect()
}

/// Hosts with secrets.
fn hosts(plan: &Plan) -> impl Iterator<Item = HostIdentity> {
    (0..plan.hosts.len()).map(identity).chain(plan.disk.as_ref().map(|_| attach::identity()))
}

/// The file that all of them are in, made once.
fn file(what: &str, text: &str) -> PathBuf {
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock();
    let path = path(what);
    if !path.exists() {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file for the secret");
    }
    path
}

/// Removes those files.
pub(crate) fn clean_up() {
    for what in ["key", "secret"] {
        let _ = fs::remove_file(path(what));
    }
}

fn path(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("selvedge-simulated-{what}-{}", std::process::id()))
}
