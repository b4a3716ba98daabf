//! Where the program takes texts that others wrote, one function each, so that a fuzzer reaches what a user or a client
//! of the control API reaches. It decides nothing.

use std::path::Path;

use engine::target::FabricConfig;
use serde_json::Value;

use crate::config::ceph_nvmeof::{self, Choice, EncryptionKey, saved};
use crate::config::{nvmet, target_dump, target_file};
use crate::control::openapi;
use crate::fio;

pub use crate::control::{InProcess, Reply};

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

/// Reads a job file of fio's: its jobs, printed as fio would read them again.
///
/// # Errors
/// The number of a line, and what is wrong with it.
pub fn read_fio_job_file(text: &str) -> Result<String, String> {
    fio::job_file::JobFile::read(text, &|_| None)
        .map(|file| file.to_string())
        .map_err(|complaint| complaint.to_string())
}

/// Reads what `fio --output-format=json` printed: the figures that comparisons need.
///
/// # Errors
/// When it is none.
pub fn read_fio_json(text: &str) -> Result<Value, String> {
    serde_json::to_value(fio::json::read(text)?).map_err(|error| error.to_string())
}

/// The control API's OpenAPI document.
///
/// # Errors
/// When the schemas it is made of are not JSON.
pub fn openapi() -> Result<Value, serde_json::Error> {
    openapi::document()
}
