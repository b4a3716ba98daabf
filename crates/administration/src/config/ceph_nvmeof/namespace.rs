//! The namespaces of a subsystem, with who sees them and how much of them hosts may use.

use engine::backend::{BackendConfig, RbdConfig};
use engine::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use engine::target::{
    FabricConfig, NamespaceConfig, QosConfig, SubsystemConfig, Visibility, WriteProtection,
};
use gateway::check_name;
use nvme::discovery::Nqn;
use uuid::Uuid;

use super::entry::State;
use super::{Entry, Reader};

/// Bytes of a block where an early version says nothing.
const BLOCK_SIZE: u64 = 512;
const MIB: u64 = 1 << 20;

impl Reader<'_> {
    pub(super) fn namespaces(&mut self, state: &State, config: &mut SubsystemConfig) {
        for entry in state.namespaces.iter().filter(|entry| entry.is_of(&config.nqn)) {
            let Some(mut namespace) = self.namespace(entry, &config.nqn) else { continue };
            self.see(entry, state, &config.nqn, &mut namespace);
            let number = namespace.nsid.to_string();
            let at = |limits: &&Entry| limits.within(&config.nqn) == Some(number.as_str());
            if let Some(qos) = state.limits.iter().find(at).and_then(|limits| self.limits(limits)) {
                namespace.qos = qos;
            }
            let same = |other: &NamespaceConfig| other.uuid.is_some() && other.uuid == namespace.uuid;
            if config.namespaces.iter().any(same) {
                self.lose(entry, "another namespace has the same UUID; omitted");
                continue;
            }
            // By itself, so that one does not stop all others.
            let mut alone = SubsystemConfig::new(&config.nqn, "", &config.model);
            alone.namespaces.push(namespace.clone());
            match (FabricConfig { subsystems: vec![alone], ..FabricConfig::default() }).check() {
                Ok(()) => config.namespaces.push(namespace),
                Err(error) => self.lose(entry, format!("{error}; omitted")),
            }
        }
        let is_none = |entry: &&Entry| {
            let nsid = entry.within(&config.nqn).map(|about| about.split('_').next().unwrap_or_default());
            let key = nsid.map(|nsid| format!("namespace_{}_{nsid}", config.nqn));
            key.is_some_and(|key| !state.namespaces.iter().any(|namespace| namespace.key == key))
        };
        for entry in state.limits.iter().chain(&state.namespace_hosts).filter(is_none) {
            self.lose(entry, "the state does not have its namespace");
        }
    }

    fn namespace(&mut self, entry: &Entry, subsystem: &str) -> Option<NamespaceConfig> {
        let image = ["rbd_pool_name", "rados_namespace_name", "rbd_image_name"];
        let taken = [
            "subsystem_nqn",
            "nsid",
            "block_size",
            "uuid",
            "anagrpid",
            "location",
            "no_auto_visible",
            "read_only",
        ];
        // What counted when the image was made, or added.
        let former = ["create_image", "size", "force", "rbd_data_pool_name"];
        let reported = ["trash_image", "disable_auto_resize", "encryption_entries", "encryption_algorithm"];
        self.only(entry, &[&image[..], &taken[..], &former[..], &reported[..]].concat());
        let nsid = self.nsid(entry, subsystem)?;
        if Self::says(entry, "encryption_entries") || Self::says(entry, "encryption_algorithm") {
            self.lose(entry, "its image is encrypted by librbd, which is not opened here; omitted");
            return None;
        }
        let [pool, namespace, name] = image.map(|field| self.text(entry, field));
        let (pool, namespace, image) = (pool?, namespace?, name?);
        if pool.is_empty() || image.is_empty() {
            self.lose(entry, "it names no pool or no image; omitted");
            return None;
        }
        let (conf, id) = (self.choice.conf.clone(), self.choice.id.clone());
        let backend = BackendConfig::Rbd(RbdConfig {
            pool,
            namespace,
            image,
            snapshot: None,
            conf,
            id,
            encryption: None,
        });
        let size = match self.number(entry, "block_size")? {
            0 => BLOCK_SIZE,
            size => size,
        };
        let size = u32::try_from(size).ok().filter(|size| matches!(size, 512 | 4096));
        let Some(size) = size else {
            self.lose(entry, "block_size is neither 512 nor 4096; omitted");
            return None;
        };
        let mut config = NamespaceConfig::new(nsid, backend, size);
        config.uuid = self.uuid(entry)?;
        config.ana_group = self.group(entry)?;
        config.location = self.location(entry)?;
        if self.flag(entry, "no_auto_visible")? {
            config.visible = Visibility::Only(Vec::new());
        }
        if self.flag(entry, "read_only")? {
            config.write_protection = WriteProtection::On;
        }
        config.disable_auto_resize = self.flag(entry, "disable_auto_resize")?;
        config.trash_image = self.flag(entry, "trash_image")?;
        if config.trash_image {
            let what = "trash_image: the call namespace_delete moves its image to the trash; `selvedge namespace remove` keeps it";
            self.warn(entry, what);
        }
        Some(config)
    }

    /// Identifier of the namespace. The key decides, since requests may have been without one.
    fn nsid(&mut self, entry: &Entry, subsystem: &str) -> Option<u32> {
        let nsid = entry.within(subsystem)?.parse::<u32>().ok();
        let named = self.number(entry, "nsid")?;
        let same = |nsid: &u32| named == 0 || named == u64::from(*nsid);
        if self.text(entry, "subsystem_nqn")? != subsystem || !nsid.as_ref().is_some_and(same) {
            self.lose(entry, "key and value name different namespaces; omitted");
            return None;
        }
        if nsid.is_none_or(|nsid| !(1..=NAMESPACES_MAX).contains(&nsid)) {
            self.lose(entry, format!("namespaces are 1 to {NAMESPACES_MAX} here; omitted"));
            return None;
        }
        nsid
    }

    /// The UUID that hosts know it by. An NGUID of the same bytes is what it has there and here.
    fn uuid(&mut self, entry: &Entry) -> Option<Option<Uuid>> {
        let text = self.text(entry, "uuid")?;
        match Uuid::parse_str(&text) {
            Ok(uuid) => Some(Some(uuid)),
            Err(error) => {
                self.lose(entry, format!("uuid: {error}: hosts do not know it again"));
                Some(None)
            }
        }
    }

    /// Load-balancing group of the namespace. Later versions mark a persistent one by a negative number.
    fn group(&mut self, entry: &Entry) -> Option<u32> {
        let group = self.magnitude(entry, "anagrpid")?;
        let known = u32::try_from(group).ok().filter(|group| *group <= ANA_GROUPS_MAX);
        if known.is_none() {
            self.lose(entry, format!("anagrpid: groups are 1 to {ANA_GROUPS_MAX} here; it is in group 1"));
        }
        Some(known.unwrap_or(1).max(1))
    }

    /// Location that the namespace prefers, if it has one.
    fn location(&mut self, entry: &Entry) -> Option<Option<String>> {
        let location = self.text(entry, "location")?;
        if location.is_empty() {
            return Some(None);
        }
        match check_name(&location) {
            Ok(()) => Some(Some(location)),
            Err(error) => {
                self.lose(entry, format!("location: {error}: it prefers none"));
                Some(None)
            }
        }
    }

    /// Limits the hosts that see the namespace, unless all do.
    fn see(&mut self, entry: &Entry, state: &State, subsystem: &str, namespace: &mut NamespaceConfig) {
        for host in &state.namespace_hosts {
            let about = host.within(subsystem).and_then(|about| about.split_once('_'));
            let Some((_, name)) = about.filter(|(nsid, _)| *nsid == namespace.nsid.to_string()) else {
                continue;
            };
            self.only(host, &["subsystem_nqn", "nsid", "host_nqn", "force"]);
            let Some(named) = self.text(host, "host_nqn") else { continue };
            let Visibility::Only(hosts) = &mut namespace.visible else {
                self.warn(host, format!("all hosts see {} by itself", entry.key));
                continue;
            };
            if named != name || Nqn::new(&named).is_err() {
                self.lose(host, "key and value name different hosts, or none: it does not see the namespace");
                continue;
            }
            hosts.push(named);
        }
    }

    /// Limits of the namespace for each second; 0 means unlimited.
    fn limits(&mut self, entry: &Entry) -> Option<QosConfig> {
        let [iops, bytes, read, write] =
            ["rw_ios_per_second", "rw_mbytes_per_second", "r_mbytes_per_second", "w_mbytes_per_second"];
        self.only(entry, &["subsystem_nqn", "nsid", "force", "OBSOLETE_uuid", iops, bytes, read, write]);
        let mut in_bytes = |name| {
            let number = self.number(entry, name)?;
            if number > u64::MAX / MIB {
                self.lose(entry, format!("{name} is too large to be a limit"));
            }
            Some(number.checked_mul(MIB).filter(|bytes| *bytes > 0))
        };
        let (bytes, read_bytes, write_bytes) = (in_bytes(bytes)?, in_bytes(read)?, in_bytes(write)?);
        let iops = Some(self.number(entry, iops)?).filter(|iops| *iops > 0);
        Some(QosConfig { iops, bytes, read_bytes, write_bytes, ..QosConfig::default() })
    }
}
