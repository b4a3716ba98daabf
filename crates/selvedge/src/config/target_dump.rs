//! A fabric's configuration as a target.toml: what is written here, `target_file` reads back as the same.

use std::collections::BTreeMap;
use std::path::Path;

use engine::backend::BackendConfig;
use engine::target::{
    CommandQuiesce, FabricConfig, GroupState, KnownHost, NamespaceConfig, QosConfig, StorageConfig,
    SubsystemConfig, Visibility, WriteProtection,
};
use engine::transport::Transport;
use serde::Serialize;
use uuid::Uuid;

use super::ceph::image_path;
use crate::failure::Failure;

#[derive(Serialize)]
struct Target<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    discovery_nqn: Option<&'a str>,
    port: Vec<Port<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    referral: Vec<Referral<'a>>,
    subsystem: Vec<Subsystem<'a>>,
}

#[derive(Serialize)]
struct Port<'a> {
    id: u16,
    address: String,
    service: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    advertise: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    discovery_only: bool,
    #[serde(skip_serializing_if = "Transport::is_tcp")]
    transport: Transport,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'a str>,
}

#[derive(Serialize)]
struct Referral<'a> {
    address: &'a str,
    service: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    nqn: Option<&'a str>,
}

#[derive(Serialize)]
struct Subsystem<'a> {
    nqn: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    serial: &'a str,
    model: &'a str,
    allow_any_host: bool,
    hosts: &'a [String],
    #[serde(skip_serializing_if = "is_empty")]
    ports: &'a [u16],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Storage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_quiesce_ms: Option<u16>,
    #[serde(skip_serializing_if = "CommandQuiesce::is_fixed")]
    command_quiesce: CommandQuiesce,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ana_group: Vec<AnaGroup>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespace: Vec<Namespace<'a>>,
}

#[derive(Serialize)]
struct Storage<'a> {
    directory: &'a Path,
    max: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_per_host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces_per_host: Option<u32>,
}

#[derive(Serialize)]
struct AnaGroup {
    id: u32,
    state: GroupState,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ports: BTreeMap<String, GroupState>,
}

#[derive(Default, Serialize)]
struct Namespace<'a> {
    nsid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    null: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_device: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rbd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conf: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    block: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<bool>,
    ana_group: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    visible_to: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_from: Option<&'a [String]>,
    #[serde(skip_serializing_if = "WriteProtection::is_none")]
    write_protection: WriteProtection,
    #[serde(skip_serializing_if = "WriteProtection::is_none")]
    host_write_protection: WriteProtection,
    #[serde(skip_serializing_if = "is_false")]
    protected_by_host: bool,
    #[serde(skip_serializing_if = "is_false")]
    created_by_host: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a KnownHost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qos: Option<Qos>,
}

#[derive(Serialize)]
struct Qos {
    #[serde(skip_serializing_if = "Option::is_none")]
    read_iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

fn is_empty<T>(list: &&[T]) -> bool {
    list.is_empty()
}

/// Writes it.
pub(crate) fn write(fabric: &FabricConfig) -> Result<String, Failure> {
    let target = Target {
        discovery_nqn: fabric.discovery_nqn.as_deref(),
        port: fabric
            .ports
            .iter()
            .map(|port| Port {
                id: port.id,
                address: port.address.ip().to_string(),
                service: port.address.port(),
                advertise: port.advertise.as_deref(),
                discovery_only: port.discovery_only,
                transport: port.transport,
                congestion: port.congestion.as_deref(),
            })
            .collect(),
        referral: fabric
            .referrals
            .iter()
            .map(|referral| Referral {
                address: &referral.address,
                // The engine's check lets no other service through than a number.
                service: referral.service.parse().unwrap_or_default(),
                nqn: referral.nqn.as_deref(),
            })
            .collect(),
        subsystem: fabric.subsystems.iter().map(subsystem).collect(),
    };
    toml::to_string(&target).map_err(|error| {
        Failure::failed(format!("the configuration cannot be written as a target.toml: {error}"))
    })
}

fn subsystem(config: &SubsystemConfig) -> Subsystem<'_> {
    Subsystem {
        nqn: &config.nqn,
        serial: &config.serial,
        model: &config.model,
        allow_any_host: config.allow_any_host,
        hosts: &config.hosts,
        ports: &config.ports,
        storage: config.storage.as_ref().map(storage),
        command_quiesce_ms: config.command_quiesce_ms,
        command_quiesce: config.command_quiesce,
        ana_group: config
            .ana_groups
            .iter()
            .map(|group| AnaGroup {
                id: group.id,
                state: group.state,
                ports: group.ports.iter().map(|(port, state)| (port.to_string(), *state)).collect(),
            })
            .collect(),
        namespace: config.namespaces.iter().map(namespace).collect(),
    }
}

fn storage(config: &StorageConfig) -> Storage<'_> {
    Storage {
        directory: &config.directory,
        max: exact(config.bytes_max),
        max_per_host: config.bytes_max_per_host.map(exact),
        namespaces_per_host: config.namespaces_max_per_host,
    }
}

fn namespace(config: &NamespaceConfig) -> Namespace<'_> {
    let mut namespace = Namespace {
        nsid: config.nsid,
        block: config.block_size,
        uuid: config.uuid,
        shared: config.shared_storage.then_some(true),
        write_delay: (config.write_delay_ms > 0).then(|| format!("{}ms", config.write_delay_ms)),
        ana_group: config.ana_group,
        write_protection: config.write_protection,
        host_write_protection: config.host_write_protection,
        protected_by_host: config.protected_by_host,
        created_by_host: config.created_by_host,
        owner: config.owner.as_ref(),
        qos: (!config.qos.is_unlimited()).then(|| qos(&config.qos)),
        ..Namespace::default()
    };
    match &config.backend {
        BackendConfig::Memory { size } => namespace.memory = Some(exact(*size)),
        BackendConfig::Null { size } => namespace.null = Some(exact(*size)),
        BackendConfig::File { path, size } => {
            namespace.file = Some(path);
            namespace.size = size.map(exact);
        }
        BackendConfig::Block { path } => namespace.block_device = Some(path),
        BackendConfig::Rbd(image) => {
            namespace.rbd = Some(image_path(image));
            namespace.conf = image.conf.as_deref();
            namespace.id = image.id.as_deref();
        }
    }
    match &config.visible {
        Visibility::AllExcept(hosts) if hosts.is_empty() => {}
        Visibility::AllExcept(hosts) => namespace.hidden_from = Some(hosts),
        Visibility::Only(hosts) => namespace.visible_to = Some(hosts),
    }
    namespace
}

fn qos(config: &QosConfig) -> Qos {
    Qos {
        read_iops: config.read_iops,
        write_iops: config.write_iops,
        iops: config.iops,
        read_bytes: config.read_bytes.map(exact),
        write_bytes: config.write_bytes.map(exact),
        bytes: config.bytes.map(exact),
    }
}

/// A size in the largest unit that keeps it exact.
fn exact(bytes: u64) -> String {
    let units = [("t", 40), ("g", 30), ("m", 20), ("k", 10)];
    let unit = units.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or(bytes.to_string(), |(name, shift)| format!("{}{name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use engine::backend::RbdConfig;
    use engine::target::{AnaGroupConfig, PortConfig, ReferralConfig};

    use super::*;
    use crate::config::target_file;

    /// Chance that repeats with its seed.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            // SplitMix64.
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % end
        }

        fn one<T: Clone>(&mut self, choices: &[T]) -> T {
            choices[self.below(choices.len() as u64) as usize].clone()
        }

        fn some<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Option<T> {
            (self.below(2) == 0).then(|| make(self))
        }

        fn hosts(&mut self) -> Vec<String> {
            (0..self.below(3)).map(|number| format!("nqn.host:\"{number}\\ü")).collect()
        }

        fn state(&mut self) -> GroupState {
            use GroupState::{Change, Inaccessible, NonOptimized, Optimized, PersistentLoss};
            self.one(&[Optimized, NonOptimized, Inaccessible, PersistentLoss, Change])
        }

        fn namespace(&mut self, nsid: u32) -> NamespaceConfig {
            let block = self.one(&[512, 4096]);
            let size = (1 + self.below(1 << 30)) * 4096;
            let backend = match self.below(5) {
                0 => BackendConfig::Memory { size },
                1 => BackendConfig::Null { size },
                2 => BackendConfig::File { path: "/a b/'c\".img".into(), size: self.some(|_| size) },
                3 => BackendConfig::Block { path: "/dev/x".into() },
                _ => BackendConfig::Rbd(self.image()),
            };
            let is_stored = matches!(backend, BackendConfig::File { .. } | BackendConfig::Block { .. });
            let hosts = self.hosts();
            let bytes = |chance: &mut Self| 1 + chance.below(1 << 40);
            NamespaceConfig {
                uuid: self.some(|_| Uuid::new_v4()),
                ana_group: 1 + self.below(9) as u32,
                visible: if self.below(2) == 0 {
                    Visibility::Only(hosts)
                } else {
                    Visibility::AllExcept(hosts)
                },
                qos: QosConfig {
                    iops: self.some(bytes),
                    read_iops: self.some(bytes),
                    write_iops: self.some(bytes),
                    bytes: self.some(bytes),
                    read_bytes: self.some(bytes),
                    write_bytes: self.some(bytes),
                },
                write_protection: self.protection(),
                host_write_protection: self.protection(),
                protected_by_host: self.below(2) == 0,
                created_by_host: self.below(2) == 0,
                owner: self.some(|chance| KnownHost {
                    nqn: format!("nqn.host:'{}\"", chance.below(9)),
                    host_id: Uuid::from_u128(u128::from(1 + chance.below(9))),
                }),
                shared_storage: is_stored && self.below(2) == 0,
                write_delay_ms: if is_stored { self.one(&[0, 1, 999, 60_000]) } else { 0 },
                ..NamespaceConfig::new(nsid, backend, block)
            }
        }

        fn protection(&mut self) -> WriteProtection {
            use WriteProtection::{None, On, Permanent, UntilRestart};
            self.one(&[None, On, UntilRestart, Permanent])
        }

        fn image(&mut self) -> RbdConfig {
            RbdConfig {
                pool: self.one(&["rbd", "a pool@1"]).to_owned(),
                namespace: self.one(&["", "space"]).to_owned(),
                image: "a \"disk\"".to_owned(),
                snapshot: self.some(|_| "monday".to_owned()),
                conf: self.some(|_| "/etc/ceph/'other'.conf".into()),
                id: self.some(|_| "gateway".to_owned()),
            }
        }

        fn subsystem(&mut self, number: u64, ports: &[PortConfig]) -> SubsystemConfig {
            let ids: Vec<u16> = ports.iter().map(|port| port.id).collect();
            // Longer than any write is held back; what is measured is not fixed.
            let command_quiesce_ms = self.some(|chance| chance.one(&[60_500, u16::MAX]));
            let measured = command_quiesce_ms.is_none() && self.below(2) == 0;
            SubsystemConfig {
                allow_any_host: self.below(2) == 0,
                hosts: self.hosts(),
                namespaces: (0..self.below(4) as u32).map(|at| self.namespace(2 * at + 1)).collect(),
                ana_groups: (0..self.below(3) as u32)
                    .map(|at| AnaGroupConfig {
                        id: at + 1,
                        state: self.state(),
                        ports: (0..self.below(3)).map(|_| (self.one(&ids), self.state())).collect(),
                    })
                    .collect(),
                storage: self.some(|chance| StorageConfig {
                    directory: "/srv/nvme".into(),
                    bytes_max: chance.one(&[0, 1, 512, 1 << 40, u64::MAX]),
                    bytes_max_per_host: chance.some(|chance| chance.one(&[0, 1, 3 << 30])),
                    namespaces_max_per_host: chance.some(|chance| chance.one(&[0, 1, u32::MAX])),
                }),
                ports: (0..self.below(2)).map(|_| self.one(&ids)).collect(),
                command_quiesce_ms,
                command_quiesce: if measured { CommandQuiesce::Auto } else { CommandQuiesce::Fixed },
                ..SubsystemConfig::new(&format!("nqn.subsystem:{number}"), "S 1", "A model")
            }
        }

        fn fabric(&mut self) -> FabricConfig {
            let addresses = ["127.0.0.1:4420", "[::1]:8009", "0.0.0.0:1"];
            let ports: Vec<PortConfig> = (0..=self.below(3) as u16)
                .map(|at| PortConfig {
                    advertise: self.some(|_| "10.0.0.1".to_owned()),
                    discovery_only: self.below(4) == 0,
                    transport: self.one(&[Transport::Tcp, Transport::Mptcp]),
                    congestion: self.some(|chance| chance.one(&["cubic", "system"]).to_owned()),
                    ..PortConfig::new(7 - at, addresses[usize::from(at).min(2)].parse().unwrap())
                })
                .take(3)
                .collect();
            FabricConfig {
                subsystems: (0..=self.below(3)).map(|number| self.subsystem(number, &ports)).collect(),
                referrals: (0..self.below(3))
                    .map(|number| ReferralConfig {
                        address: format!("10.0.0.{number}"),
                        service: self.below(65536).to_string(),
                        nqn: self.some(|_| "nqn.elsewhere".to_owned()),
                    })
                    .collect(),
                discovery_nqn: self.some(|_| "nqn.discovery".to_owned()),
                ports,
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same() {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target.toml");
        for round in 0..300 {
            let fabric = chance.fabric();
            fabric.check().unwrap();
            let text = write(&fabric).unwrap();
            std::fs::write(&path, &text).unwrap();
            let read = target_file::read(&path).unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
            assert_eq!(read.fabric, fabric, "round {round}, seed {seed}:\n{text}");
        }
    }

    #[test]
    fn sizes_stay_exact() {
        for (bytes, text) in
            [(0, "0"), (512, "512"), (4096, "4k"), (3 << 40, "3t"), (u64::MAX, "18446744073709551615")]
        {
            assert_eq!(exact(bytes), text);
        }
    }
}
