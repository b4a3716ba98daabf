//! Where the program takes texts that others wrote, one function each, so that a fuzzer reaches what a user or a client
//! of the control API reaches. It decides nothing.

use std::path::Path;

use engine::target::FabricConfig;
use serde_json::Value;

use crate::config::ceph_nvmeof::{self, Choice, EncryptionKey, saved};
use crate::config::{nvmet, target_dump, target_file};
use crate::control::access::AccessFile;
use crate::control::{audit, openapi};
use crate::failure::Failure;
use crate::state;

pub use crate::control::{InProcess, Reply};

/// A reason as a user sees it.
fn line(what: impl std::fmt::Display) -> String {
    Failure::failed(what).line().unwrap_or_default()
}

/// Reads the text of a target.toml that is said to come from `path`.
///
/// # Errors
/// One line that says what is wrong and where; it begins with the path.
pub fn read_target(text: &str, path: &Path) -> Result<FabricConfig, String> {
    let config = target_file::read_text(text, path);
    config.map(|config| config.fabric).map_err(|failure| failure.line().unwrap_or_default())
}

/// Writes a target.toml.
///
/// # Errors
/// When something in it has no place in such a file.
pub fn write_target(fabric: &FabricConfig) -> Result<String, String> {
    target_dump::write(fabric).map_err(|failure| failure.line().unwrap_or_default())
}

/// Reads the content of a target's state file.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn read_state(text: &[u8]) -> Result<FabricConfig, String> {
    state::read_text(text).map_err(line)
}

/// Writes the content of a state file.
///
/// # Errors
/// When it cannot be JSON.
pub fn write_state(fabric: &FabricConfig) -> Result<Vec<u8>, serde_json::Error> {
    state::write_text(fabric)
}

/// Reads the text of an access file: the same file, written again.
///
/// # Errors
/// What is wrong with it.
pub fn read_access(text: &str) -> Result<String, String> {
    toml::to_string(&AccessFile::parse(text)?).map_err(|error| error.to_string())
}

/// Follows the records of an audit log: their number, and the numbers of the first and the last.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn verify_audit_log(text: &[u8]) -> Result<(u64, u64, u64), String> {
    let verified = audit::verify_text(text).map_err(line)?;
    Ok((verified.records, verified.first, verified.last))
}

/// Reads what nvmetcli saved: the configuration it becomes, and a line for each thing that is lost.
///
/// # Errors
/// When it is none, or becomes one that contradicts itself.
pub fn import_nvmet(text: &str) -> Result<(FabricConfig, Vec<String>), String> {
    let imported = nvmet::read(text)?;
    Ok((imported.fabric, imported.losses.iter().map(ToString::to_string).collect()))
}

/// Reads the saved state of a ceph-nvmeof group, in the place of this gateway, with its secrets encrypted with this key: the
/// configuration it becomes, and a line for each thing that is lost.
///
/// # Errors
/// When it is none, or becomes one that contradicts itself.
pub fn import_ceph_nvmeof(
    text: &str,
    gateway: Option<&str>,
    encryption_key: Option<&str>,
) -> Result<(FabricConfig, Vec<String>), String> {
    let choice = Choice {
        gateway: gateway.map(str::to_owned),
        encryption_key: encryption_key.map(EncryptionKey::read).transpose()?,
        secret_dir: Some("/secrets".into()),
        ..Choice::default()
    };
    let imported = ceph_nvmeof::read(&saved::read(text)?, &choice)?;
    Ok((imported.fabric, imported.losses.iter().map(ToString::to_string).collect()))
}

/// The control API's OpenAPI document.
///
/// # Errors
/// When the schemas it is made of are not JSON.
pub fn openapi() -> Result<Value, serde_json::Error> {
    openapi::document()
}
