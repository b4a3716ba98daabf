//! A raw host that proves its name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use authentication::{Concatenation, Group, Hash, HostSide, HostStep, HostTerms, Secret};
use engine::ring::fill_random;
use engine::target::HostKeyConfig;
use nvme::Status;
use nvme::authentication::Transfer;

use super::{Client, Give, Options};

/// Secret with this in all of its bytes.
pub(crate) fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32], None).unwrap()
}

/// Key of the host with this name, whose secret is in a file of the folder.
pub(crate) fn host_key(folder: &Path, host_nqn: &str, secret: &Secret) -> HostKeyConfig {
    let path = folder.join(format!("secret-{}", host_nqn.replace([':', '.'], "-")));
    fs::write(&path, &*secret.reveal()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    HostKeyConfig::new(host_nqn, path)
}

/// Authenticates a queue that has connected.
///
/// # Errors
/// The fault that the host or the target has found.
pub(crate) fn prove(client: &mut Client, options: &Options, secret: &Secret) -> Result<(), String> {
    let terms = HostTerms {
        host_nqn: options.host_nqn.clone(),
        subsystem_nqn: options.subsystem_nqn.clone(),
        secret: secret.clone(),
        controller_secret: None,
        hashes: vec![Hash::Sha256],
        groups: vec![Group::Null],
        concatenation: Concatenation::None,
    };
    let mut side = HostSide::new(terms, 5);
    let mut message = side.offer();
    loop {
        let entry = Transfer { length: message.len() as u32 }.encode_send();
        let sent = client.run(entry, Give::Capsule(&message)).status;
        if sent != Status::SUCCESS {
            return Err(sent.to_string());
        }
        let reply = client.run(Transfer { length: 4096 }.encode_receive(), Give::Room(4096));
        match side.take(&reply.data, &mut fill_random) {
            HostStep::Exchange(next) => message = next,
            HostStep::Done(..) => return Ok(()),
            HostStep::Failed(fault, _) => return Err(fault.to_string()),
        }
    }
}
