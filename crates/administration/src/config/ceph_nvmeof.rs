//! What Ceph's own NVMe-oF gateways (ceph-nvmeof) keep of their group in an object of the cluster, made into a configuration of
//! ours. What cannot be kept is named with its key in that object; whether the rest is wanted is for the caller to say.

mod encryption;
mod entry;
mod host;
mod listener;
mod namespace;
pub mod saved;
mod secrets;
mod subsystem;

use std::fmt;
use std::path::PathBuf;

use engine::ceph::Pairs;
use engine::target::FabricConfig;

pub use self::encryption::{EncryptionKey, KEY_FILE_BYTES_MAX};
use self::entry::Entry;
pub use self::secrets::SecretFile;
use self::secrets::SecretFiles;

/// Pairs of a group: ten times what its gateways allow (4,096 namespaces, each with limits and hosts).
pub const PAIRS_MAX: usize = 100_000;
/// The key that counts the changes of all others.
pub const VERSION_KEY: &str = "omap_version";

/// Something to be said of a value, and the key it is kept by.
#[derive(Debug, PartialEq, Eq)]
pub struct Remark {
    key: String,
    what: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown(&self.key), shown(&self.what))
    }
}

/// A text that others wrote, as part of one line.
fn shown(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Choices that the state does not contain.
#[derive(Debug, Default)]
pub struct Choice {
    /// Gateway of the group whose place the target takes.
    pub gateway: Option<String>,
    /// Key of the group's encrypted secrets.
    pub encryption_key: Option<EncryptionKey>,
    /// Folder of the files of secrets.
    pub secret_dir: Option<PathBuf>,
    /// The cluster's configuration, and the user: what images are opened with.
    pub conf: Option<PathBuf>,
    pub id: Option<String>,
}

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    pub fabric: FabricConfig,
    /// Files that the configuration names, which are not written yet.
    pub secrets: Vec<SecretFile>,
    /// Settings that are lost.
    pub losses: Vec<Remark>,
    /// Settings that are kept, and need a look nevertheless.
    pub warnings: Vec<Remark>,
}

/// Reads the state of a group.
pub fn read(pairs: &Pairs, choice: &Choice) -> Result<Imported, String> {
    if !pairs.contains_key(VERSION_KEY) {
        return Err(format!("this is not the state of a ceph-nvmeof group: it has no {VERSION_KEY}"));
    }
    let mut reader = Reader { choice, losses: Vec::new(), warnings: Vec::new(), secrets: SecretFiles::new() };
    let state = reader.state(pairs);
    let ports = reader.ports(&state)?;
    let mut fabric = FabricConfig::default();
    for entry in &state.subsystems {
        if let Some(subsystem) = reader.subsystem(entry, &state, &ports) {
            fabric.subsystems.push(subsystem);
        }
    }
    fabric.ports = reader.served(ports, &mut fabric.subsystems);
    fabric.check().map_err(|error| shown(&error.to_string()))?;
    let Reader { losses, warnings, secrets, .. } = reader;
    let mut secrets = secrets.files();
    // Secrets of hosts that are left out are not written.
    let keys = || fabric.subsystems.iter().flat_map(|subsystem| &subsystem.host_keys);
    secrets.retain(|secret| keys().any(|key| key.files().any(|(_, path)| path == secret.path)));
    if choice.secret_dir.is_none() && !secrets.is_empty() {
        let count = secrets.len();
        return Err(format!(
            "there are {count} secrets and TLS keys: --secret-dir DIR says where their files go"
        ));
    }
    Ok(Imported { fabric, secrets, losses, warnings })
}

struct Reader<'a> {
    choice: &'a Choice,
    losses: Vec<Remark>,
    warnings: Vec<Remark>,
    secrets: SecretFiles,
}

impl Reader<'_> {
    fn lose(&mut self, entry: &Entry, what: impl Into<String>) {
        self.losses.push(Remark { key: entry.key.clone(), what: what.into() });
    }

    fn warn(&mut self, entry: &Entry, what: impl Into<String>) {
        self.warnings.push(Remark { key: entry.key.clone(), what: what.into() });
    }
}

#[cfg(test)]
mod tests;
