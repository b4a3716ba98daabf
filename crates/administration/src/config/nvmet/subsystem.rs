//! The subsystems of a saved configuration: who may use them, and their namespaces.

use std::collections::BTreeMap;
use std::path::Path;

use engine::limits::{ANA_GROUPS_MAX, IO_QUEUES_MAX, NAMESPACES_MAX};
use engine::target::{AnaGroupConfig, GroupState, NamespaceConfig, Nguid, SubsystemConfig, check_serial};
use nvme::discovery::Nqn;
use uuid::Uuid;

use super::{Object, Reader, device, join, says_something, text};

/// The model that the kernel names where none was set.
const KERNEL_MODEL: &str = "Linux";
/// Warning about a name such as `mysub`.
const UNQUALIFIED: &str = "the name does not begin with nqn.: Linux takes it, and other hosts may not";
/// ANA group that the kernel has by default.
const KERNEL_GROUP: u32 = 1;

impl Reader {
    /// A subsystem that the kernel serves on at least one of the ports that are taken over. Its ports are all named.
    pub(super) fn subsystem(&mut self, path: &str, subsystem: &Object) -> Option<SubsystemConfig> {
        self.only(subsystem, path, &["allowed_hosts", "attr", "namespaces", "nqn", "passthru"]);
        let name = text(subsystem, "nqn").unwrap_or_default();
        let nqn = match Nqn::configured(&name) {
            Ok(nqn) if !nqn.is_discovery() => nqn,
            Ok(_) => {
                self.lose(&join(path, "nqn"), "every target has the discovery subsystem");
                return None;
            }
            Err(error) => {
                self.lose(&join(path, "nqn"), format!("`{name}`: {error}"));
                return None;
            }
        };
        if !nqn.is_qualified() {
            self.warn(&join(path, "nqn"), format!("`{nqn}`: {UNQUALIFIED}"));
        }
        if self.is_passed_through(path, subsystem) {
            return None;
        }
        let ports: Vec<u16> = self.ports.iter().filter(|port| port.has(&name)).map(|port| port.id).collect();
        if ports.is_empty() {
            self.lose(path, "it is on no port that is served, and every subsystem here is on one");
            return None;
        }
        let mut config = SubsystemConfig::new(&nqn, "", KERNEL_MODEL);
        let attributes = self.object(subsystem, path, "attr");
        self.attributes(&join(path, "attr"), &attributes, &mut config);
        self.access(path, subsystem, &attributes, &mut config);
        for (path, namespace) in self.list(subsystem, path, "namespaces") {
            if let Some(namespace) = self.namespace(&path, &namespace, &config) {
                config.namespaces.push(namespace);
            }
        }
        config.ana_groups = self.ana_groups(&config, &ports);
        config.ports = ports;
        Some(config)
    }

    /// True if a controller of the kernel's is passed through instead of namespaces. Every
    /// subsystem has the settings for that, but without effect unless they are enabled or name a
    /// controller.
    fn is_passed_through(&mut self, path: &str, subsystem: &Object) -> bool {
        let mut is_enabled = false;
        for (path, passthru) in self.list(subsystem, path, "passthru") {
            let enable = text(&passthru, "enable").unwrap_or_default();
            let device = self.object(&passthru, &path, "device");
            let controller = text(&device, "path").unwrap_or_default();
            if !["", "0"].contains(&enable.as_str()) {
                is_enabled = true;
                self.lose(&path, "passthrough of a controller is not supported; the subsystem is omitted");
            } else if !["", "(null)"].contains(&controller.trim()) {
                self.lose(&path, "passthrough of a controller is not supported, enabled or not");
            }
        }
        is_enabled
    }

    fn attributes(&mut self, path: &str, attributes: &Object, config: &mut SubsystemConfig) {
        // Version, firmware revision and OUI are what a target says of itself, and this is another.
        let own = ["version", "firmware", "ieee_oui"];
        let taken = ["allow_any_host", "model", "qid_max", "serial"];
        let accepted = [
            ("cntlid_min", &["1"][..], "identifiers of controllers begin at 1 here"),
            ("cntlid_max", &["65519"], "identifiers of controllers have no other end here"),
            ("pi_enable", &["0"], "protection information is not served"),
            ("vendor_id", &["0x0", "0"], "a target over a network names no vendor of PCI here"),
            ("subsys_vendor_id", &["0x0", "0"], "a target over a network names no vendor of PCI here"),
        ];
        let known: Vec<&str> = own.into_iter().chain(taken).chain(accepted.iter().map(|a| a.0)).collect();
        self.only(attributes, path, &known);
        for (name, accepted, what) in accepted {
            self.expect(attributes, path, name, accepted, what);
        }
        if let Some(queues) = text(attributes, "qid_max").filter(|queues| queues != "128") {
            match queues.parse().ok().filter(|queues| (1..=IO_QUEUES_MAX).contains(queues)) {
                Some(queues) => config.io_queues_max = Some(queues),
                None => {
                    self.lose(
                        &join(path, "qid_max"),
                        format!("`{queues}`: a controller has 1 to 128 queues"),
                    );
                }
            }
        }
        if let Some(serial) = text(attributes, "serial") {
            match check_serial(&serial) {
                Ok(serial) => config.serial = serial,
                Err(error) => self.lose(&join(path, "serial"), error.to_string()),
            }
        }
        if let Some(model) = text(attributes, "model").filter(|model| !model.trim().is_empty()) {
            if model.is_ascii() && model.len() <= 40 && !model.contains(char::is_control) {
                config.model = model;
            } else {
                self.lose(&join(path, "model"), "a model is at most 40 printable ASCII characters");
            }
        }
    }

    /// Hosts of the subsystem. No host gets in that the kernel would refuse, or would have
    /// authenticated first.
    fn access(&mut self, path: &str, subsystem: &Object, attributes: &Object, config: &mut SubsystemConfig) {
        let hosts = self.names(subsystem, path, "allowed_hosts");
        config.allow_any_host = text(attributes, "allow_any_host").is_some_and(|any| any == "1");
        if config.allow_any_host && !hosts.is_empty() {
            config.allow_any_host = false;
            let what = "the kernel does not let every host in where allowed_hosts names some";
            self.lose(&join(&join(path, "attr"), "allow_any_host"), what);
        }
        for (path, host) in hosts {
            if let Err(error) = Nqn::configured(&host) {
                self.lose(&path, format!("`{host}`: {error}"));
                continue;
            }
            match self.hosts.get(&host) {
                Some(false) => config.hosts.push(host),
                Some(true) => {
                    self.lose(&path, format!("`{host}` has to authenticate; omitted"));
                }
                None => self.lose(&path, format!("`{host}` is not among the hosts; omitted")),
            }
        }
    }

    fn namespace(&mut self, path: &str, namespace: &Object, of: &SubsystemConfig) -> Option<NamespaceConfig> {
        self.only(namespace, path, &["ana", "ana_grpid", "device", "enable", "nsid", "resv"]);
        let device_path = join(path, "device");
        let device = self.object(namespace, path, "device");
        self.only(&device, &device_path, &["nguid", "path", "uuid"]);
        let nsid = text(namespace, "nsid").and_then(|nsid| nsid.parse().ok());
        let Some(nsid) = nsid.filter(|nsid| (1..=NAMESPACES_MAX).contains(nsid)) else {
            self.lose(&join(path, "nsid"), format!("namespaces are 1 to {NAMESPACES_MAX} here"));
            return None;
        };
        if of.namespaces.iter().any(|known| known.nsid == nsid) {
            self.lose(&join(path, "nsid"), "it is given twice");
            return None;
        }
        if text(namespace, "enable").is_none_or(|enable| enable != "1") {
            self.lose(&join(path, "enable"), "a namespace that is not enabled is none here");
            return None;
        }
        let file_path = join(&device_path, "path");
        let Some(file) = text(&device, "path").filter(|path| Path::new(path).is_absolute()) else {
            self.lose(&file_path, "it is not an absolute path");
            return None;
        };
        let found = match device::look(&file) {
            Ok(found) => found,
            Err(what) => {
                self.lose(&file_path, what);
                return None;
            }
        };
        if let Some(guess) = found.guess {
            self.warn(&file_path, guess);
        }
        let mut config = NamespaceConfig::new(nsid, found.backend, found.block_size);
        (config.uuid, config.nguid) = self.identity(&device_path, &device);
        config.ana_group = self.group(path, namespace)?;
        Some(config)
    }

    /// The UUID and the NGUID that hosts know a namespace by. An NGUID of the UUID's bytes is what it has by itself.
    fn identity(&mut self, path: &str, device: &Object) -> (Option<Uuid>, Option<Nguid>) {
        let mut read = |name: &str| match text(device, name).filter(|id| !id.trim().is_empty()) {
            None => None,
            Some(id) => match Uuid::parse_str(id.trim()) {
                Ok(id) => Some(id).filter(|id| !id.is_nil()),
                Err(error) => {
                    self.lose(&join(path, name), format!("`{id}`: {error}"));
                    None
                }
            },
        };
        let (uuid, nguid) = (read("uuid"), read("nguid"));
        (uuid, nguid.filter(|_| nguid != uuid).map(Nguid::from))
    }

    /// A namespace's ANA group. nvmetcli saves 0 where the kernel has no groups.
    fn group(&mut self, path: &str, namespace: &Object) -> Option<u32> {
        let ana = self.object(namespace, path, "ana");
        self.only(&ana, &join(path, "ana"), &["grpid"]);
        let Some(group) = text(namespace, "ana_grpid").or_else(|| text(&ana, "grpid")) else {
            if namespace.get("ana_grpid").is_some_and(says_something) {
                self.lose(&join(path, "ana_grpid"), "it is not a group number");
                return None;
            }
            return Some(KERNEL_GROUP);
        };
        match group.trim().parse() {
            Ok(0) => Some(KERNEL_GROUP),
            Ok(group) if group <= ANA_GROUPS_MAX => Some(group),
            _ => {
                self.lose(&join(path, "ana_grpid"), format!("`{group}` is not a group number"));
                None
            }
        }
    }

    /// The states that the ports have for the groups of a subsystem's namespaces. What a port does not list is
    /// inaccessible there, except for the group that is there by itself.
    fn ana_groups(&self, config: &SubsystemConfig, ports: &[u16]) -> Vec<AnaGroupConfig> {
        let mut ids: Vec<u32> = config.namespaces.iter().map(|namespace| namespace.ana_group).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut groups = Vec::new();
        for id in ids {
            let unlisted = if id == KERNEL_GROUP { GroupState::Optimized } else { GroupState::Inaccessible };
            let on = self.ports.iter().filter(|port| ports.contains(&port.id));
            let states: BTreeMap<u16, GroupState> = on
                .filter_map(|port| Some((port.id, *port.ana.get(&id)?)))
                .filter(|(_, state)| *state != unlisted)
                .collect();
            if unlisted != GroupState::Optimized || !states.is_empty() {
                groups.push(AnaGroupConfig { id, state: unlisted, ports: states });
            }
        }
        groups
    }
}
