//! TLS keys that a host may use, found by the names in its PSK identity. The names prove nothing:
//! the binder shows which key the host has, and the connection is then accepted for these names
//! only.

use std::sync::Arc;

use nvme::discovery::DISCOVERY_NQN;
use secure_channel::{ConfiguredPsk, Names, PskIdentity};

use super::directory::Directory;
use super::fabric::Fabric;
use crate::limits::TLS_KEYS_PER_HELLO_MAX;
use crate::ring::{self, Moment};
use crate::target::config::PortConfig;
use crate::target::served::GeneratedKey;

impl Fabric {
    /// The keys that the host with these names may come with through this port, the present ones of a subsystem before its
    /// former ones.
    pub(crate) fn psks(&self, port: u16, names: &Names, now: Moment) -> Vec<ConfiguredPsk> {
        let directory = self.directory();
        directory.port(port).map_or_else(Vec::new, |port| directory.psks(port, names, now))
    }

    /// The key with this identity, if its host may still come with it through this port.
    pub(crate) fn generated_key(
        &self,
        port: u16,
        identity: &PskIdentity,
        now: Moment,
    ) -> Option<Arc<GeneratedKey>> {
        let (host, nqn) = (identity.names.host_nqn(), identity.names.subsystem_nqn());
        let directory = self.directory();
        let subsystem = directory.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)?;
        let may_come = subsystem.is_on(directory.port(port)?) && subsystem.allows(host);
        if !may_come || !subsystem.concatenates(host) {
            return None;
        }
        self.generated_keys.find(identity, now)
    }
}

impl Directory {
    /// True if this host has a TLS key for the subsystem `nqn` on this port, which may be another
    /// target's.
    pub(crate) fn has_tls_key(&self, port: &PortConfig, host: &str, nqn: &str) -> bool {
        Names::new(host, nqn).is_ok_and(|names| !self.psks(port, &names, ring::now()).is_empty())
    }

    fn psks(&self, port: &PortConfig, names: &Names, now: Moment) -> Vec<ConfiguredPsk> {
        let nqn = names.subsystem_nqn();
        // A host finds by discovery what it may use, so that any key of it will do. A port with nothing else stands for all others.
        let is_discovery = nqn == DISCOVERY_NQN || self.config.discovery_nqn.as_deref() == Some(nqn);
        let mut found = Vec::new();
        for subsystem in &self.subsystems {
            let is_here = subsystem.is_on(port) || is_discovery && port.discovery_only;
            if !is_here || !is_discovery && subsystem.nqn != nqn {
                continue;
            }
            for psk in subsystem.psks(names.host_nqn(), now) {
                // Most hosts have one key for all subsystems.
                if found.len() < TLS_KEYS_PER_HELLO_MAX && !found.contains(&psk) {
                    found.push(psk);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::target::config::{Directives, FabricConfig, HostKeyConfig, PortConfig, SubsystemConfig};
    use crate::target::served::{HostKeys, Opened, Subsystem};

    const BOTH: &str = "nqn.2026-01.org.example:both";
    const ONE: &str = "nqn.2026-01.org.example:one";
    const OWN_NAME: &str = "nqn.2026-01.org.example:discovery";

    fn psk(byte: u8) -> ConfiguredPsk {
        ConfiguredPsk::new(&[byte; 32], None).unwrap()
    }

    /// A subsystem of which these hosts have these keys.
    fn subsystem(nqn: &str, ports: &[u16], hosts: &[(&str, &[u8])]) -> Arc<Subsystem> {
        let folder = tempfile::tempdir().unwrap();
        let mut config = SubsystemConfig::new(nqn, "serial", "model");
        config.allow_any_host = false;
        config.ports = ports.to_vec();
        for (host, keys) in hosts {
            let file = folder.path().join(host);
            fs::write(&file, keys.iter().map(|key| format!("{}\n", *psk(*key).reveal())).collect::<String>())
                .unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            config.hosts.push((*host).to_owned());
            config.host_keys.push(HostKeyConfig::tls(host, file));
        }
        let keys = HostKeys::read(&config, None, None).unwrap();
        Arc::new(Subsystem::new(&config, Opened::new(), keys))
    }

    /// Ports 1 and 2, and 3 for discovery alone.
    fn directory(subsystems: Vec<Arc<Subsystem>>) -> Directory {
        let port = |id: u16| PortConfig::new(id, ([127, 0, 0, 1], 4420 + id).into());
        let mut config = FabricConfig { ports: (1..=3).map(port).collect(), ..FabricConfig::default() };
        config.ports[2].discovery_only = true;
        config.discovery_nqn = Some(OWN_NAME.to_owned());
        let own_discovery = Some(Arc::new(Subsystem::discovery(OWN_NAME)));
        Directory::new((config, Directives::default()), subsystems, own_discovery, 1)
    }

    fn asked(directory: &Directory, port: u16, host: &str, nqn: &str) -> Vec<ConfiguredPsk> {
        let names = Names::new(host, nqn).unwrap();
        directory.port(port).map_or_else(Vec::new, |port| directory.psks(port, &names, Moment(0)))
    }

    #[test]
    fn each_host_comes_with_its_own_keys_to_what_it_may_use() {
        let directory = directory(vec![
            subsystem("nqn.a", &[1], &[(BOTH, &[1, 2]), (ONE, &[3])]),
            subsystem("nqn.b", &[], &[(BOTH, &[2, 4])]),
        ]);
        let keys = |port, host, nqn| asked(&directory, port, host, nqn);
        assert_eq!(keys(1, BOTH, "nqn.a"), [psk(1), psk(2)]);
        assert_eq!(keys(1, ONE, "nqn.a"), [psk(3)]);
        assert_eq!(keys(1, BOTH, "nqn.b"), [psk(2), psk(4)]);
        for (port, host, nqn) in [
            (1, ONE, "nqn.b"),
            (2, BOTH, "nqn.a"),
            (3, BOTH, "nqn.b"),
            (9, BOTH, "nqn.b"),
            (1, "nqn.other", "nqn.a"),
            (1, BOTH, "nqn.c"),
        ] {
            assert_eq!(keys(port, host, nqn), [], "{port} {host} {nqn}");
        }
        for nqn in [DISCOVERY_NQN, OWN_NAME] {
            assert_eq!(keys(1, BOTH, nqn), [psk(1), psk(2), psk(4)]);
            assert_eq!(keys(2, BOTH, nqn), [psk(2), psk(4)], "what is found there");
            assert_eq!(keys(3, BOTH, nqn), [psk(1), psk(2), psk(4)], "what it leads to");
            assert_eq!(keys(1, ONE, nqn), [psk(3)]);
            assert_eq!(keys(2, ONE, nqn), []);
            assert_eq!(keys(1, "nqn.other", nqn), []);
        }
    }

    #[test]
    fn a_host_that_may_no_longer_connect_has_no_keys() {
        let directory = directory(vec![subsystem("nqn.a", &[], &[(BOTH, &[1]), (ONE, &[2])])]);
        directory.subsystems[0].state_mut().config.hosts.retain(|host| host != BOTH);
        for nqn in ["nqn.a", DISCOVERY_NQN] {
            assert_eq!(asked(&directory, 1, BOTH, nqn), []);
            assert_eq!(asked(&directory, 1, ONE, nqn), [psk(2)]);
        }
    }

    #[test]
    fn no_host_has_more_keys_looked_at_than_the_limit() {
        let of = |number: u8| {
            let keys: Vec<u8> = (0..8).map(|key| number * 8 + key).collect();
            subsystem(&format!("nqn.{number}"), &[], &[(ONE, &keys)])
        };
        let directory = directory((0..5).map(of).collect());
        let found = asked(&directory, 1, ONE, DISCOVERY_NQN);
        assert_eq!(found.len(), TLS_KEYS_PER_HELLO_MAX);
        assert_eq!(asked(&directory, 1, ONE, "nqn.4").len(), 8);
    }
}
