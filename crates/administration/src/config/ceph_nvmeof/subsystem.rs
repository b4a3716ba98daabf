//! The subsystems of a group.

use engine::target::{SubsystemConfig, check_serial};
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
            self.lose(entry, "key and value name different subsystems, so that it is left out");
            return None;
        }
        match Nqn::configured(&name) {
            Ok(nqn) if !nqn.is_discovery() => {}
            Ok(_) => {
                self.lose(entry, "the discovery subsystem is there by itself");
                return None;
            }
            Err(error) => {
                self.lose(entry, format!("{error}, so that it is left out"));
                return None;
            }
        }
        if Self::says(entry, "network_mask") {
            self.lose(entry, "network_mask: no address is listened on by itself: add a [[port]] for each");
        }
        let mut config = SubsystemConfig::new(&name, "", MODEL);
        config.ports = ports.of(&name);
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

    /// A TLS key makes TLS required on ports that say nothing of it, which are those whose listeners were not secure.
    fn warn_of_clear_ports(&mut self, entry: &Entry, config: &SubsystemConfig, ports: &Ports) {
        if config.host_keys.iter().any(|key| key.tls_key_file.is_some()) && ports.has_clear(&config.ports) {
            let what = "a listener is not secure though a host has a psk: here TLS is required there, unless \
                        its [[port]] says tls = \"off\"";
            self.warn(entry, what);
        }
    }
}
