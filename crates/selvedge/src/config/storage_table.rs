//! Where hosts may create namespaces, as target.toml says it.

use std::path::PathBuf;

use engine::target::StorageConfig;
use serde::Deserialize;

use super::namespace::absolute;
use super::size::Size;

/// The table `storage` of a subsystem.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StorageTable {
    directory: PathBuf,
    max: Size,
    max_per_host: Option<Size>,
    namespaces_per_host: Option<u32>,
}

impl StorageTable {
    /// The engine's form.
    pub(super) fn to_engine(&self) -> StorageConfig {
        StorageConfig {
            directory: absolute(&self.directory),
            bytes_max: self.max.0,
            bytes_max_per_host: self.max_per_host.map(|size| size.0),
            namespaces_max_per_host: self.namespaces_per_host,
        }
    }
}
