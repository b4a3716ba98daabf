//! A fabric's configuration as a target.toml: what is written here, `target_file` reads back as the same.

use engine::target::FabricConfig;
use serde_json::Value as Json;
use toml::{Table, Value};

use crate::failure::Failure;

/// Lists whose tables TOML names one by one, with the table that they are in and that name.
pub(super) const LISTS: [(&str, &str, &str); 6] = [
    ("", "ports", "port"),
    ("", "referrals", "referral"),
    ("", "subsystems", "subsystem"),
    ("subsystems", "ana_groups", "ana_group"),
    ("subsystems", "host_keys", "host_key"),
    ("subsystems", "namespaces", "namespace"),
];
/// Settings in bytes, which are easier to read with a unit. One that is not here is written as a number.
const SIZES: [&str; 6] = ["size", "bytes", "read_bytes", "write_bytes", "bytes_max", "bytes_max_per_host"];

/// Writes it.
pub fn write(fabric: &FabricConfig) -> Result<String, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("the configuration cannot be written as a target.toml: {error}"))
    };
    let json = serde_json::to_value(fabric).map_err(|error| wrong(&error))?;
    toml::to_string(&value("", json)).map_err(|error| wrong(&error))
}

/// TOML value of a setting, as people write it; `None` for null, which TOML does not have.
fn value(name: &str, json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(value) => value.into(),
        Json::String(text) => text.into(),
        Json::Number(number) => match number.as_u64() {
            Some(bytes) if SIZES.contains(&name) => exact(bytes).into(),
            _ => Value::try_from(number).ok()?,
        },
        Json::Array(items) => Value::Array(items.into_iter().filter_map(|item| value(name, item)).collect()),
        Json::Object(fields) => {
            let mut table = Table::new();
            for (key, json) in fields {
                let list = LISTS.iter().find(|(of, list, _)| *of == name && *list == key);
                // What everybody sees is what is said of nothing, and so is a list that is empty.
                let is_silent = key == "visible" && json == serde_json::json!({ "all_except": [] })
                    || list.is_some() && json.as_array().is_some_and(Vec::is_empty);
                if is_silent {
                    continue;
                }
                let written = list.map_or(&*key, |(_, _, one)| one).to_owned();
                if let Some(value) = value(&key, json) {
                    table.insert(written, value);
                }
            }
            table.into()
        }
    })
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

    use authentication::Group;
    use engine::backend::{BackendConfig, FilePin, RbdConfig, RbdEncryption};
    use engine::ceph::LuksFormat;
    use engine::target::{
        AnaGroupConfig, CommandQuiesce, GroupState, HostKeyConfig, KnownHost, NamespaceConfig, PortConfig,
        QosConfig, ReferralConfig, StorageConfig, SubsystemConfig, TlsUse, Visibility, WriteProtection,
    };
    use engine::transport::Transport;
    use uuid::Uuid;

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
                nguid: self.some(|_| Uuid::new_v4().into()),
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
                file_pin: self.some(|chance| FilePin {
                    directory: "/srv/a \"b\"".into(),
                    file: chance.some(|_| "inode 7, created 1.000000002".to_owned()),
                }),
                trash_image: self.below(2) == 0,
                disable_auto_resize: self.below(2) == 0,
                location: self.some(|chance| format!("rack-{}", chance.below(9))),
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
                encryption: self.some(|chance| {
                    let format = chance.one(&[LuksFormat::Luks1, LuksFormat::Luks2]);
                    Box::new(RbdEncryption { format, passphrase_file: "/etc/selvedge/a \"pass\"".into() })
                }),
            }
        }

        fn subsystem(&mut self, number: u64, ports: &[PortConfig]) -> SubsystemConfig {
            let ids: Vec<u16> = ports.iter().map(|port| port.id).collect();
            // Longer than any write is held back; what is measured is not fixed.
            let command_quiesce_ms = self.some(|chance| chance.one(&[60_500, u16::MAX]));
            let measured = command_quiesce_ms.is_none() && self.below(2) == 0;
            let hosts = self.hosts();
            let host_keys = hosts.iter().map(|host| HostKeyConfig {
                dhchap_secret_file: self.some(|_| "/etc/selvedge/host.key".into()),
                ..HostKeyConfig::tls(host, "/etc/selvedge/host-tls.key".into())
            });
            SubsystemConfig {
                host_keys: host_keys.collect(),
                allow_any_host: self.below(2) == 0,
                hosts,
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
                    pinned_below: chance.some(|_| "/srv".into()),
                }),
                ports: (0..self.below(2)).map(|_| self.one(&ids)).collect(),
                networks: (0..self.below(2))
                    .map(|_| self.one(&["10.0.0.0/24", "::/0"]).parse().unwrap())
                    .collect(),
                kept_hosts: (0..self.below(2)).map(|at| format!("nqn.kept:{at}")).collect(),
                command_quiesce_ms,
                command_quiesce: if measured { CommandQuiesce::Auto } else { CommandQuiesce::Fixed },
                dhchap_dhgroup: Group::ALL.into_iter().filter(|_| self.below(4) == 0).collect(),
                io_queues_max: self.some(|chance| chance.one(&[1, 128])),
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
                    tls: self.some(|chance| chance.one(&TlsUse::ALL)),
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
            // The state file, gateways and the control API have the same struct as JSON.
            let json = serde_json::to_string(&fabric).unwrap();
            let read: FabricConfig = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}\n{json}"));
            assert_eq!(read, fabric, "round {round}, seed {seed}:\n{json}");
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
