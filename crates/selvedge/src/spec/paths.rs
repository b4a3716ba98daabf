//! The files and directories that a configuration names: from the root on, since it may be put into effect from another working
//! directory than that of who wrote it.

use std::path::{Path, PathBuf};

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, SubsystemConfig};

/// The path from the root on.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // It fails for an empty path only, which names no file anyway.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The path that a backend names, with the setting that it stands in.
pub(crate) fn of_backend(backend: &mut BackendConfig) -> Option<(&'static str, &mut PathBuf)> {
    match backend {
        BackendConfig::Memory { .. } | BackendConfig::Null { .. } => None,
        BackendConfig::File { path, .. } => Some(("backend.file.path", path)),
        BackendConfig::Block { path } => Some(("backend.block.path", path)),
        BackendConfig::Rbd(image) => image.conf.as_mut().map(|conf| ("backend.rbd.conf", conf)),
    }
}

/// The path of a subsystem's own, in the same way.
pub(crate) fn of_subsystem(subsystem: &mut SubsystemConfig) -> Option<(&'static str, &mut PathBuf)> {
    subsystem.storage.as_mut().map(|storage| ("storage.directory", &mut storage.directory))
}

/// Begins the paths of a namespace at the root.
pub(crate) fn from_root(namespace: &mut NamespaceConfig) {
    if let Some((_, path)) = of_backend(&mut namespace.backend) {
        *path = absolute(path);
    }
}

/// Begins all paths at the root.
pub(crate) fn all_from_root(fabric: &mut FabricConfig) {
    for subsystem in &mut fabric.subsystems {
        if let Some((_, path)) = of_subsystem(subsystem) {
            *path = absolute(path);
        }
        subsystem.namespaces.iter_mut().for_each(from_root);
    }
}
