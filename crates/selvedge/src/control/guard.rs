//! What no change may do in passing: throw blocks away by making a namespace smaller, or take back a write protection
//! that was to be forever. Whether a configuration is consistent is the engine's to say.

use std::os::unix::fs::MetadataExt as _;

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, WriteProtection};

use super::refusal::Refusal;

/// What whoever asks for a change has said beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permissions {
    /// Namespaces may become smaller, and lose what is beyond their new end.
    pub(crate) shrink: bool,
}

/// Refuses the change from `before` to `wanted` if it does what it may not.
pub(super) fn check(
    before: &FabricConfig,
    wanted: &FabricConfig,
    permissions: Permissions,
) -> Result<(), Refusal> {
    if wanted.ports.is_empty() {
        let refusal = Refusal::conflict("no address would be left to listen on").about("ports");
        return Err(refusal.hint("add another port first"));
    }
    for (at, subsystem) in wanted.subsystems.iter().enumerate() {
        let Some(old) = before.subsystem(&subsystem.nqn) else { continue };
        for (number, namespace) in subsystem.namespaces.iter().enumerate() {
            let Some(old) = old.namespaces.iter().find(|old| old.nsid == namespace.nsid) else { continue };
            if !old.backend.is_same_place(&namespace.backend) {
                continue;
            }
            let field = |name: &str| format!("subsystems[{at}].namespaces[{number}].{name}");
            check_namespace(old, namespace, permissions, field)?;
        }
    }
    Ok(())
}

fn check_namespace(
    old: &NamespaceConfig,
    new: &NamespaceConfig,
    permissions: Permissions,
    field: impl Fn(&str) -> String,
) -> Result<(), Refusal> {
    if let (Some(before), Some(after)) = (bytes(&old.backend), bytes(&new.backend))
        && after < before
        && !permissions.shrink
    {
        let what = format!("namespace {} would become smaller: {before} bytes to {after}", new.nsid);
        let hint = "what is beyond its new end is lost; if that is meant, say \"shrink\": true";
        return Err(Refusal::conflict(what).about(field("size")).hint(hint));
    }
    if old.write_protection == WriteProtection::Permanent
        && new.write_protection != WriteProtection::Permanent
    {
        let what = format!("namespace {} is protected against writes for ever", new.nsid);
        return Err(Refusal::conflict(what).about(field("write_protection")));
    }
    Ok(())
}

/// Bytes of a backend, as far as they are known before it is opened.
pub(super) fn bytes(backend: &BackendConfig) -> Option<u64> {
    match backend {
        BackendConfig::Memory { size } | BackendConfig::Null { size } => Some(*size),
        BackendConfig::File { size: Some(size), .. } => Some(*size),
        BackendConfig::File { path, size: None } => std::fs::metadata(path).ok().map(|file| file.size()),
        BackendConfig::Block { .. } | BackendConfig::Rbd(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use engine::target::{PortConfig, SubsystemConfig};

    use super::*;

    fn fabric(size: u64, write_protection: WriteProtection) -> FabricConfig {
        let namespace = NamespaceConfig {
            write_protection,
            ..NamespaceConfig::new(1, BackendConfig::Memory { size }, 4096)
        };
        let subsystem = SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(vec![namespace]);
        let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 4420).into())];
        FabricConfig { ports, subsystems: vec![subsystem], ..FabricConfig::default() }
    }

    #[test]
    fn a_namespace_becomes_smaller_only_on_purpose() {
        let (large, small) = (fabric(2 << 20, WriteProtection::None), fabric(1 << 20, WriteProtection::None));
        let refusal = check(&large, &small, Permissions::default()).unwrap_err();
        assert_eq!(
            (refusal.status, refusal.field.as_deref()),
            (409, Some("subsystems[0].namespaces[0].size"))
        );
        assert_eq!(check(&large, &small, Permissions { shrink: true }), Ok(()));
        assert_eq!(check(&small, &large, Permissions::default()), Ok(()));
    }

    #[test]
    fn a_port_is_left() {
        let fabric = fabric(1 << 20, WriteProtection::None);
        let deaf = FabricConfig { ports: Vec::new(), ..fabric.clone() };
        assert_eq!(check(&fabric, &deaf, Permissions::default()).unwrap_err().status, 409);
    }

    #[test]
    fn permanent_protection_stays() {
        let permanent = fabric(1 << 20, WriteProtection::Permanent);
        for less in [WriteProtection::None, WriteProtection::On, WriteProtection::UntilRestart] {
            assert!(check(&permanent, &fabric(1 << 20, less), Permissions { shrink: true }).is_err());
            assert_eq!(check(&fabric(1 << 20, less), &permanent, Permissions::default()), Ok(()));
        }
        let gone = FabricConfig { subsystems: Vec::new(), ..permanent.clone() };
        assert_eq!(check(&permanent, &gone, Permissions::default()), Ok(()));
    }
}
