//! What holds on a port of which nothing is said: TLS is required where a host has a key.

use super::fabric::{FabricConfig, PortConfig};
use super::tls_use::TlsUse;

impl FabricConfig {
    /// TLS mode of a port: the configured one; by default TLS is required where a host has a TLS
    /// key. A configured key protects at once, and cannot be bypassed by a port without a setting.
    pub fn tls_on(&self, port: &PortConfig) -> TlsUse {
        let has_key = || {
            let here = self.subsystems.iter().filter(|subsystem| subsystem.is_on(port));
            here.flat_map(|subsystem| &subsystem.host_keys).any(|key| key.has_tls_key() || key.tls_concat)
        };
        port.tls.unwrap_or_else(|| if has_key() { TlsUse::Required } else { TlsUse::Off })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::config::{HostKeyConfig, SubsystemConfig};

    #[test]
    fn a_key_makes_tls_required_on_the_ports_of_its_subsystem() {
        let port = |id| PortConfig::new(id, ([127, 0, 0, 1], 4420 + id).into());
        let mut fabric = FabricConfig { ports: vec![port(1), port(2), port(3)], ..FabricConfig::default() };
        fabric.ports[2].discovery_only = true;
        let mut keyed = SubsystemConfig::new("nqn.a", "A", "Selvedge");
        keyed.host_keys = vec![HostKeyConfig::new("nqn.host", "/secret".into())];
        keyed.ports = vec![2];
        fabric.subsystems = vec![SubsystemConfig::new("nqn.b", "B", "Selvedge"), keyed];
        let uses =
            |fabric: &FabricConfig| fabric.ports.iter().map(|port| fabric.tls_on(port)).collect::<Vec<_>>();
        assert_eq!(uses(&fabric), [TlsUse::Off; 3], "a secret for authentication is not a TLS key");
        fabric.subsystems[1].host_keys[0].tls_concat = true;
        assert_eq!(uses(&fabric), [TlsUse::Off, TlsUse::Required, TlsUse::Off], "one will come of it");
        fabric.subsystems[1].host_keys[0] = HostKeyConfig::tls("nqn.host", "/key".into());
        assert_eq!(uses(&fabric), [TlsUse::Off, TlsUse::Required, TlsUse::Off]);
        fabric.subsystems[1].ports.clear();
        assert_eq!(uses(&fabric), [TlsUse::Required, TlsUse::Required, TlsUse::Off]);
        for tls in TlsUse::ALL {
            fabric.ports[0].tls = Some(tls);
            assert_eq!(uses(&fabric)[0], tls);
            assert_eq!(serde_json::to_value(tls).unwrap(), tls.name());
        }
    }
}
