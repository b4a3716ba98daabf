//! What in a configuration contradicts itself or a limit, before anything is opened.

use std::collections::BTreeSet;

use nvme::discovery::Nqn;

use super::fabric::{FabricConfig, NO_PORT, NamespaceConfig, PortConfig, ReferralConfig, SubsystemConfig};
use super::quiesce_check::check_quiesce;
use crate::backend::BackendConfig;
use crate::limits::{
    ANA_GROUPS_MAX, HOSTS_MAX, IO_QUEUES_MAX, NAMESPACES_MAX, NETWORKS_MAX, PORTS_MAX, REFERRALS_MAX,
    SUBSYSTEMS_MAX, WRITE_DELAY_MS_MAX,
};
use crate::target::TargetError;
use crate::transport::congestion;

impl FabricConfig {
    /// Checks all that needs nothing opened.
    ///
    /// # Errors
    /// `TargetError::Config`, which says what is wrong and where.
    pub fn check(&self) -> Result<(), TargetError> {
        self.check_shared()?;
        let is_known = |id: &u16| *id == NO_PORT || self.ports.iter().any(|port| port.id == *id);
        for subsystem in &self.subsystems {
            if let Some(port) = subsystem.ports.iter().find(|id| !is_known(id)) {
                return wrong(format!("subsystem {}: there is no port number {port}", subsystem.nqn));
            }
        }
        Ok(())
    }

    /// The same where other targets serve these subsystems, too, which may be found at ports of theirs.
    ///
    /// # Errors
    /// As above.
    pub fn check_shared(&self) -> Result<(), TargetError> {
        if self.ports.len() > PORTS_MAX {
            return wrong(format!("a target listens on at most {PORTS_MAX} addresses"));
        }
        if self.subsystems.len() > SUBSYSTEMS_MAX {
            return wrong(format!("a target serves at most {SUBSYSTEMS_MAX} subsystems"));
        }
        if self.referrals.len() > REFERRALS_MAX {
            return wrong(format!("a target refers to at most {REFERRALS_MAX} discovery services"));
        }
        for (at, port) in self.ports.iter().enumerate() {
            if port.id == 0 {
                return wrong(format!("port {}: numbers begin at 1", port.address));
            }
            if self.ports[..at].iter().any(|other| other.id == port.id) {
                return wrong(format!("port number {} is given twice", port.id));
            }
            let same = |other: &PortConfig| other.address == port.address && port.address.port() != 0;
            if self.ports[..at].iter().any(same) {
                return wrong(format!("port {} is given twice", port.address));
            }
            if let Some(name) = &port.congestion
                && !congestion::is_name(name)
            {
                return wrong(format!(
                    "port {}: `{name}` is not the name of a congestion control",
                    port.address
                ));
            }
        }
        for referral in &self.referrals {
            check_referral(referral)?;
        }
        if let Some(nqn) = &self.discovery_nqn
            && let Err(error) = Nqn::new(nqn)
        {
            return wrong(format!("discovery name {nqn}: {error}"));
        }
        for (at, subsystem) in self.subsystems.iter().enumerate() {
            let same = |other: &SubsystemConfig| other.nqn == subsystem.nqn;
            if self.subsystems[..at].iter().any(same) || self.discovery_nqn.as_ref() == Some(&subsystem.nqn) {
                return wrong(format!("subsystem {} is given twice", subsystem.nqn));
            }
            check_subsystem(subsystem)?;
        }
        Ok(())
    }
}

fn check_referral(referral: &ReferralConfig) -> Result<(), TargetError> {
    let name = format!("referral {}:{}", referral.address, referral.service);
    if referral.address.is_empty() || referral.address.len() > 255 || !referral.address.is_ascii() {
        return wrong(format!("{name}: the address is not 1 to 255 ASCII characters"));
    }
    if referral.service.parse::<u16>().is_err() {
        return wrong(format!("{name}: the service is not a number up to 65535"));
    }
    match referral.nqn.as_deref().map(Nqn::new) {
        Some(Err(error)) => wrong(format!("{name}: {error}")),
        _ => Ok(()),
    }
}

fn check_subsystem(config: &SubsystemConfig) -> Result<(), TargetError> {
    let wrong = |message: String| wrong(format!("subsystem {}: {message}", config.nqn));
    match Nqn::new(&config.nqn) {
        Err(error) => return wrong(error.to_string()),
        Ok(name) if name.is_discovery() => return wrong("this name is the discovery service's".to_owned()),
        Ok(_) => {}
    }
    if !config.serial.is_ascii() || config.serial.len() > 20 {
        return wrong(format!("serial number {:?} is not at most 20 ASCII characters", config.serial));
    }
    if !config.model.is_ascii() || config.model.len() > 40 {
        return wrong(format!("model {:?} is not at most 40 ASCII characters", config.model));
    }
    let hosts = config.namespaces.iter().flat_map(|namespace| namespace.visible.hosts());
    for host in config.hosts.iter().chain(&config.kept_hosts).chain(hosts) {
        if let Err(error) = Nqn::new(host) {
            return wrong(format!("host {host}: {error}"));
        }
    }
    if config.io_queues_max.is_some_and(|queues| !(1..=IO_QUEUES_MAX).contains(&queues)) {
        return wrong(format!("a controller has 1 to {IO_QUEUES_MAX} I/O queues"));
    }
    if config.hosts.len().max(config.kept_hosts.len()) > HOSTS_MAX {
        return wrong(format!("at most {HOSTS_MAX} hosts can be named"));
    }
    if config.networks.len() > NETWORKS_MAX {
        return wrong(format!("at most {NETWORKS_MAX} networks can be named"));
    }
    if config.host_keys.len() > HOSTS_MAX {
        return wrong(format!("at most {HOSTS_MAX} hosts can have keys"));
    }
    for (at, key) in config.host_keys.iter().enumerate() {
        let host = &key.host;
        if let Err(error) = Nqn::new(host) {
            return wrong(format!("keys of host {host:?}: {error}"));
        }
        key.check(&config.dhchap_dhgroup).map_err(|error| error.to_string()).or_else(wrong)?;
        if config.host_keys[..at].iter().any(|other| other.host == *host) {
            return wrong(format!("host {host} has two entries with keys: one file may have several"));
        }
        if !config.allow_any_host && !config.hosts.contains(host) {
            return wrong(format!("host {host} has a key, but is not allowed to connect: allow it first"));
        }
    }
    check_quiesce(config).map_err(|error| error.to_string()).or_else(wrong)?;
    for (at, group) in config.ana_groups.iter().enumerate() {
        if group.id == 0 || group.id > ANA_GROUPS_MAX {
            return wrong(format!("ANA group {}: groups go from 1 to {ANA_GROUPS_MAX}", group.id));
        }
        if config.ana_groups[..at].iter().any(|other| other.id == group.id) {
            return wrong(format!("ANA group {} is given twice", group.id));
        }
    }
    let (mut nsids, mut uuids, mut nguids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for namespace in &config.namespaces {
        if !nsids.insert(namespace.nsid) {
            return wrong(format!("namespace {} is given twice", namespace.nsid));
        }
        if namespace.uuid.is_some_and(|uuid| !uuids.insert(uuid)) {
            return wrong(format!("namespace {}: another has the same UUID", namespace.nsid));
        }
        if namespace.nguid.is_some_and(|nguid| !nguids.insert(nguid)) {
            return wrong(format!("namespace {}: another has the same NGUID", namespace.nsid));
        }
        check_namespace(namespace)
            .or_else(|error| wrong(format!("namespace {}: {error}", namespace.nsid)))?;
    }
    Ok(())
}

fn check_namespace(namespace: &NamespaceConfig) -> Result<(), TargetError> {
    if namespace.nsid == 0 || namespace.nsid > NAMESPACES_MAX {
        return wrong(format!("identifiers go from 1 to {NAMESPACES_MAX}"));
    }
    // 0 is still to be found out.
    if !matches!(namespace.block_size, 0 | 512 | 4096) {
        return wrong(format!("block_size={} is neither 512 nor 4096", namespace.block_size));
    }
    if namespace.ana_group == 0 || namespace.ana_group > ANA_GROUPS_MAX {
        return wrong(format!("ANA groups go from 1 to {ANA_GROUPS_MAX}"));
    }
    if namespace.visible.hosts().len() > HOSTS_MAX {
        return wrong(format!("at most {HOSTS_MAX} hosts can be named"));
    }
    if namespace.write_delay_ms > WRITE_DELAY_MS_MAX {
        return wrong(format!("writes can be held back for at most {WRITE_DELAY_MS_MAX} ms"));
    }
    if (namespace.write_delay_ms > 0 || namespace.shared_storage)
        && !matches!(namespace.backend, BackendConfig::File { .. } | BackendConfig::Block { .. })
    {
        return wrong("only a file or block device can be shared, or have its writes held back".to_owned());
    }
    if let Some(owner) = &namespace.owner {
        if let Err(error) = Nqn::new(&owner.nqn) {
            return wrong(format!("owner {}: {error}", owner.nqn));
        }
        if owner.host_id.is_nil() {
            return wrong(format!("owner {}: a HOSTID of zeroes does not belong to any host", owner.nqn));
        }
    }
    let qos = &namespace.qos;
    let limits = [qos.read_iops, qos.write_iops, qos.iops, qos.read_bytes, qos.write_bytes, qos.bytes];
    if limits.contains(&Some(0)) {
        return wrong("a limit of 0 would stop all I/O; for no limit write none, or leave it out".to_owned());
    }
    Ok(())
}

fn wrong(message: String) -> Result<(), TargetError> {
    Err(TargetError::Config(message))
}
