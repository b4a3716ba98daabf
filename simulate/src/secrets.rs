//! Secrets of the scene's hosts, in every fourth scene: their queues authenticate when they connect, and anew again and again
//! beside their commands.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use authentication::{Group, Hash, Secret};
use engine::initiator::{HostIdentity, HostSecrets};
use engine::target::HostKeyConfig;
use uuid::Uuid;

use crate::plan::Plan;

/// How often queues authenticate anew: some times in each scene.
const REAUTH_INTERVAL: Duration = Duration::from_millis(300);

/// Whether hosts authenticate. It follows from the seed without a number being drawn, so that all else stays as it was.
pub(crate) const fn are_wanted(plan: &Plan) -> bool {
    plan.seed % 4 == 3
}

/// Who a host is.
pub(crate) fn identity(number: usize) -> HostIdentity {
    HostIdentity::from_uuid(Uuid::from_u128(number as u128 + 1))
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
    if !are_wanted(plan) {
        return Vec::new();
    }
    let key = |number| HostKeyConfig {
        dhchap_ctrl_secret_file: Some(file()),
        // What the others cost is a library's, and takes the time of many scenes.
        dhchap_dhgroup: vec![Group::Null],
        ..HostKeyConfig::new(&identity(number).nqn, file())
    };
    (0..plan.hosts.len()).map(key).collect()
}

/// The file that all of them are in, made once.
fn file() -> PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let path = path();
        let _ = fs::remove_file(&path);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(secret().reveal().as_bytes()))
            .expect("a file for the secret");
        path
    };
    FILE.get_or_init(make).clone()
}

/// Removes that file.
pub(crate) fn clean_up() {
    let _ = fs::remove_file(path());
}

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("selvedge-simulated-secret-{}", std::process::id()))
}
