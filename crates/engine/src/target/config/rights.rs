//! Rights of hosts to change namespaces: rules on a subsystem's configuration, each with the reason
//! of a refusal. They are checked in the same step as the change. Reservations are not part of the
//! configuration, and are checked by `apply`.

use std::fmt;
use std::path::PathBuf;

use nvme::Status;

use super::fabric::{FabricConfig, NamespaceConfig, StorageConfig, SubsystemConfig};
use super::known_host::KnownHost;
use super::write_protection::WriteProtection;
use crate::backend::BackendConfig;
use crate::limits::HOST_NAMESPACES;
use crate::units::counted;

/// The highest write protection that a host may set for a namespace that it creates: the operator can take it back, and a
/// restart ends it.
const OWN_PROTECTION_MAX: WriteProtection = WriteProtection::UntilRestart;

/// Refusal of a host's request: the status of its command, and the rule for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Status for the host.
    pub status: Status,
    /// The rule that was met.
    pub rule: String,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)
    }
}

fn deny<T>(status: Status, rule: impl Into<String>) -> Result<T, Denial> {
    Err(Denial { status: status.do_not_retry(), rule: rule.into() })
}

impl KnownHost {
    /// The host as the owner of what it creates.
    ///
    /// # Errors
    /// A host without an identifier owns nothing: it cannot be distinguished from others without one.
    pub fn owner(&self) -> Result<Self, Denial> {
        if self.host_id.is_nil() {
            return deny(Status::HOST_ID_NOT_INITIALIZED, "a host without HOSTID cannot own namespaces");
        }
        Ok(self.clone())
    }

    /// True if the host owns the namespace.
    pub(crate) fn owns(&self, namespace: &NamespaceConfig) -> bool {
        !self.host_id.is_nil() && namespace.owner.as_ref() == Some(self)
    }

    /// True if the host may know of this namespace: it sees the namespace, or owns it.
    pub fn knows(&self, namespace: &NamespaceConfig) -> bool {
        self.owns(namespace) || namespace.visible.includes(&self.nqn)
    }

    /// The highest write protection that it may set for this namespace, `None` for none.
    pub fn protection_max(&self, namespace: &NamespaceConfig) -> WriteProtection {
        match &namespace.owner {
            Some(_) if !self.owns(namespace) => WriteProtection::None,
            _ if self.knows(namespace) => namespace.host_write_protection,
            _ => WriteProtection::None,
        }
    }

    /// The highest write protection that it may set for any namespace of the subsystem, those included that it may yet create.
    pub fn protection_max_anywhere(&self, subsystem: &SubsystemConfig) -> WriteProtection {
        let creates = subsystem.storage.is_some() && !self.host_id.is_nil();
        let own = if creates { OWN_PROTECTION_MAX } else { WriteProtection::None };
        subsystem.namespaces.iter().map(|namespace| self.protection_max(namespace)).fold(own, Ord::max)
    }

    /// Checks that the host may change the write protection of this namespace now.
    ///
    /// # Errors
    /// The rule against it.
    pub fn check_protection_change(&self, namespace: &NamespaceConfig) -> Result<(), Denial> {
        let (now, max) = (namespace.write_protection, self.protection_max(namespace));
        let fixed = Status::FEATURE_NOT_CHANGEABLE;
        match &namespace.owner {
            Some(owner) if !self.owns(namespace) => deny(fixed, format!("the namespace belongs to {owner}")),
            _ if max.is_none() => deny(fixed, "the operator lets no host change its write protection"),
            _ if !now.is_none() && !namespace.protected_by_host => {
                deny(fixed, "its write protection is the operator's")
            }
            // No command leaves these (Base 8.1.16).
            _ if matches!(now, WriteProtection::UntilRestart | WriteProtection::Permanent) => {
                deny(fixed, "its write protection is one that no command ends")
            }
            _ => Ok(()),
        }
    }

    fn check_protection(&self, namespace: &NamespaceConfig, wanted: WriteProtection) -> Result<(), Denial> {
        self.check_protection_change(namespace)?;
        let max = self.protection_max(namespace);
        if wanted > max {
            let rule = format!("hosts may set `{}` at most", max.name());
            return deny(Status::FEATURE_NOT_CHANGEABLE, rule);
        }
        Ok(())
    }
}

impl SubsystemConfig {
    /// True if a host of this name may connect.
    pub fn lets_in(&self, host_nqn: &str) -> bool {
        self.allow_any_host || self.hosts.iter().any(|host| host == host_nqn)
    }

    /// True if a host of this name may connect, or keeps the connections that it has.
    pub fn lets_stay(&self, host_nqn: &str) -> bool {
        self.lets_in(host_nqn) || self.kept_hosts.iter().any(|host| host == host_nqn)
    }

    /// Removes hosts that may connect again from those that keep their connections: a later denial is to end connections that
    /// they have made since.
    pub fn forget_kept(&mut self) {
        let Self { allow_any_host, hosts, kept_hosts, .. } = self;
        kept_hosts.retain(|kept| !*allow_any_host && !hosts.contains(kept));
    }

    /// A namespace that the host knows of.
    fn known_to(&mut self, host: &KnownHost, nsid: u32) -> Result<&mut NamespaceConfig, Denial> {
        let namespace = self.namespaces.iter_mut().find(|namespace| namespace.nsid == nsid);
        match namespace {
            Some(namespace) if host.knows(namespace) => Ok(namespace),
            Some(_) => deny(Status::INVALID_NAMESPACE, "the namespace is hidden from it, and not its own"),
            None => deny(Status::INVALID_NAMESPACE, "there is no such namespace"),
        }
    }

    /// A namespace that the host may attach, detach and delete.
    fn managed_by(&mut self, host: &KnownHost, nsid: u32) -> Result<&mut NamespaceConfig, Denial> {
        let namespace = self.known_to(host, nsid)?;
        if host.owns(namespace) {
            return Ok(namespace);
        }
        let denied = Status::OPERATION_DENIED;
        match &namespace.owner {
            Some(owner) => deny(denied, format!("the namespace belongs to {owner}")),
            None => deny(denied, "the namespace is the operator's"),
        }
    }

    /// Lets these hosts see a namespace as `host` asks, or hides it from them; all of them or none.
    ///
    /// # Errors
    /// The rule against it.
    pub fn attach_for(
        &mut self,
        host: &KnownHost,
        nsid: u32,
        hosts: &[String],
        attaches: bool,
    ) -> Result<(), Denial> {
        let visible = &mut self.managed_by(host, nsid)?.visible;
        if let Some(other) = hosts.iter().find(|other| visible.includes(other) == attaches) {
            return if attaches {
                deny(Status::NAMESPACE_ALREADY_ATTACHED, format!("it is attached to {other} already"))
            } else {
                deny(Status::NAMESPACE_NOT_ATTACHED, format!("it is not attached to {other}"))
            };
        }
        for other in hosts {
            if attaches {
                visible.attach(other);
            } else {
                visible.detach(other);
            }
        }
        Ok(())
    }

    /// Changes the write protection of a namespace as `host` asks.
    ///
    /// # Errors
    /// The rule against it.
    pub fn protect_for(
        &mut self,
        host: &KnownHost,
        nsid: u32,
        wanted: WriteProtection,
    ) -> Result<(), Denial> {
        let namespace = self.known_to(host, nsid)?;
        // A protection that is set already does not change, whether by the operator or by a host.
        if namespace.write_protection != wanted {
            host.check_protection(namespace, wanted)?;
            namespace.write_protection = wanted;
            namespace.protected_by_host = !wanted.is_none();
        }
        Ok(())
    }

    /// Takes a namespace out as `host` asks, or with `None` all that it owns; what is taken out. All of them or none: a
    /// command that would change a write-protected namespace is aborted as a whole (Base 8.1.16.2).
    ///
    /// # Errors
    /// The rule against it.
    pub fn delete_for(
        &mut self,
        host: &KnownHost,
        nsid: Option<u32>,
    ) -> Result<Vec<NamespaceConfig>, Denial> {
        host.owner()?;
        if let Some(nsid) = nsid {
            self.managed_by(host, nsid)?;
        }
        let is_meant =
            |namespace: &NamespaceConfig| nsid.map_or(host.owns(namespace), |nsid| namespace.nsid == nsid);
        let mut meant = self.namespaces.iter().filter(|namespace| is_meant(namespace));
        if let Some(protected) = meant.find(|namespace| !namespace.write_protection.is_none()) {
            return deny(Status::WRITE_PROTECTED, format!("namespace {} is write protected", protected.nsid));
        }
        Ok(self.namespaces.extract_if(.., |namespace| is_meant(namespace)).collect())
    }
}

impl FabricConfig {
    /// A namespace that `host` creates in the storage of the subsystem `nqn`, ready for what the caller says of it beyond
    /// that. That there is room in the directory is for the caller to see.
    ///
    /// # Errors
    /// The rule against it.
    pub fn created_for(&self, host: &KnownHost, nqn: &str, bytes: u64) -> Result<NamespaceOwned, Denial> {
        let owner = host.owner()?;
        let invalid = Status::INVALID_FIELD;
        let Some(subsystem) = self.subsystem(nqn) else { return deny(invalid, "there is no such subsystem") };
        let Some(storage) = &subsystem.storage else {
            return deny(invalid, "the subsystem has no storage for namespaces of hosts");
        };
        let (used, max) = (self.bytes_of(&host.nqn, storage), storage.host_bytes_max());
        if used.checked_add(bytes).is_none_or(|sum| sum > max) {
            let rule =
                format!("{bytes} bytes more than its {used} are over the {max} that one host may have");
            return deny(Status::NAMESPACE_INSUFFICIENT_CAPACITY, rule);
        }
        let own = subsystem.namespaces.iter().filter(|namespace| namespace.is_of(&host.nqn)).count();
        let max = storage.host_namespaces_max();
        if own >= max as usize {
            let rule = format!("it has {}, and one host may have {max}", counted(own as u64, "namespace"));
            return deny(Status::NAMESPACE_ID_UNAVAILABLE, rule);
        }
        Ok(NamespaceOwned { owner, host_write_protection: OWN_PROTECTION_MAX })
    }

    /// Bytes of all namespaces in this storage that belong to the host with this name, whatever its identifier was:
    /// subsystems can share a directory, and a host could take another identifier.
    pub fn bytes_of(&self, host_nqn: &str, storage: &StorageConfig) -> u64 {
        let all = self.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let own = all.filter(|namespace| namespace.is_of(host_nqn)).filter_map(|n| n.bytes_in(storage));
        own.fold(0, u64::saturating_add)
    }
}

/// Properties of a namespace that a host creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceOwned {
    /// Owner.
    pub owner: KnownHost,
    /// Highest write protection that its owner may set.
    pub host_write_protection: WriteProtection,
}

impl NamespaceConfig {
    /// True if the namespace belongs to a host with this name.
    fn is_of(&self, host_nqn: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.nqn == host_nqn)
    }

    /// The bytes that it takes in this storage, `None` for a namespace elsewhere. The size is that of the configuration,
    /// which all that hosts create have.
    pub fn bytes_in(&self, storage: &StorageConfig) -> Option<u64> {
        match &self.backend {
            BackendConfig::File { path, size } if path.starts_with(&storage.directory) => *size,
            _ => None,
        }
    }
}

impl StorageConfig {
    /// This number of bytes for hosts in this directory, of which each host has its usual part.
    pub const fn new(directory: PathBuf, bytes_max: u64) -> Self {
        Self {
            directory,
            bytes_max,
            bytes_max_per_host: None,
            namespaces_max_per_host: None,
            pinned_below: None,
        }
    }

    /// Bytes that all namespaces of one host may have together: by default half of the total, so
    /// that no host can take all of it.
    pub fn host_bytes_max(&self) -> u64 {
        self.bytes_max_per_host.unwrap_or(self.bytes_max.div_ceil(2)).min(self.bytes_max)
    }

    /// Namespaces of a subsystem that one host may create.
    pub fn host_namespaces_max(&self) -> u32 {
        self.namespaces_max_per_host.unwrap_or(HOST_NAMESPACES)
    }
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;
