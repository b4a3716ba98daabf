//! The subsystems of a group.

use engine::target::{NO_PORT, NetworkMask, SubsystemConfig, check_serial};
use nvme::discovery::Nqn;

use super::entry::State;
use super::listener::Ports;
use super::{Entry, Reader};

/// The model that these gateways name.
const MODEL: &str = "Ceph bdev Controller";

impl Reader<'_> {
    /// A subsystem that the gateway serves. Its ports are all named.
    pub(super) fn subsystem(
        &mut self,
        entry: &Entry,
        state: &State,
        ports: &Ports,
    ) -> Option<SubsystemConfig> {
        let taken = ["subsystem_nqn", "serial_number", "dhchap_key", "key_encrypted"];
        // Their own limit; what every subsystem has here; how the name came about; what goes with networks alone.
        let own =
            ["max_namespaces", "enable_ha", "ana_reporting", "no_group_append", "secure_listeners", "port"];
        self.only(entry, &[&taken[..], &own[..], &["network_mask"]].concat());
        let name = self.text(entry, "subsystem_nqn")?;
        if entry.within(&name) != Some("") {
            self.lose(entry, "key and value name different subsystems; omitted");
            return None;
        }
        match Nqn::configured(&name) {
            Ok(nqn) if !nqn.is_discovery() => {}
            Ok(_) => {
                self.lose(entry, "every target has the discovery subsystem");
                return None;
            }
            Err(error) => {
                self.lose(entry, format!("{error}; omitted"));
                return None;
            }
        }
        let mut config = SubsystemConfig::new(&name, "", MODEL);
        config.ports = ports.of(&name);
        config.networks = self.networks(entry, ports);
        if config.ports.is_empty() && !config.networks.is_empty() {
            // Without a list it would be on all ports.
            config.ports.push(NO_PORT);
        }
        if config.ports.is_empty() {
            self.lose(entry, "it has no listener of this gateway, and every subsystem here is on a port");
            return None;
        }
        match check_serial(&self.text(entry, "serial_number")?) {
            Ok(serial) => config.serial = serial,
            Err(what) => self.lose(entry, format!("serial_number: {what}")),
        }
        self.access(entry, &state.hosts, &mut config);
        self.namespaces(state, &mut config);
        self.warn_of_clear_ports(entry, &config, ports);
        Some(config)
    }

    /// Networks in which a subsystem is found. One with a port that is not secure is left out where
    /// the gateways' own listeners are.
    fn networks(&mut self, entry: &Entry, ports: &Ports) -> Vec<NetworkMask> {
        let is_secure = self.flag(entry, "secure_listeners").unwrap_or(true);
        let mut networks = Vec::new();
        for mask in self.texts(entry, "network_mask") {
            match mask.parse::<NetworkMask>() {
                Err(error) => self.lose(entry, format!("network_mask: {error}")),
                Ok(network) if is_secure && ports.are_clear_in(network) => {
                    self.lose(entry, format!("network_mask {network}: a port there is not secure"));
                }
                Ok(network) if networks.contains(&network) => {}
                Ok(network) => {
                    let what = format!(
                        "network_mask {network}: no address is selected by itself; add a [[port]] for each"
                    );
                    self.warn(entry, what);
                    networks.push(network);
                }
            }
        }
        networks
    }

    /// A TLS key makes TLS required on ports that say nothing of it, which are those whose listeners were not secure.
    fn warn_of_clear_ports(&mut self, entry: &Entry, config: &SubsystemConfig, ports: &Ports) {
        if config.host_keys.iter().any(|key| key.tls_key_file.is_some()) && ports.has_clear(config) {
            let what = "a listener is not secure though a host has a psk: here TLS is required there, unless \
                        its [[port]] says tls = \"off\"";
            self.warn(entry, what);
        }
    }
}
