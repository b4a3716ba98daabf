//! The listeners of a group. Each is of one gateway and one subsystem; a target has the ports of one gateway.

use std::collections::{BTreeMap, BTreeSet};

use engine::address::{HostAddress, NetAddress};
use engine::target::{NO_PORT, NetworkMask, PortConfig, SubsystemConfig, TlsUse};

use super::entry::State;
use super::{Entry, Reader, shown};

/// The service of a listener that names none.
const SERVICE: u16 = 4420;

/// A listener of any gateway.
struct Listener<'a> {
    entry: &'a Entry,
    gateway: String,
    subsystem: String,
    address: NetAddress,
    is_secure: bool,
}

/// The ports of one gateway.
#[derive(Default)]
pub(super) struct Ports {
    configs: Vec<PortConfig>,
    /// The ports of a subsystem, by its name.
    of: BTreeMap<String, Vec<u16>>,
}

impl Ports {
    pub(super) fn of(&self, subsystem: &str) -> Vec<u16> {
        self.of.get(subsystem).cloned().unwrap_or_default()
    }

    /// True if the subsystem is on a port that was not secure.
    pub(super) fn has_clear(&self, subsystem: &SubsystemConfig) -> bool {
        self.configs.iter().any(|port| port.tls.is_none() && subsystem.is_on(port))
    }

    /// True if a port in a network was not secure.
    pub(super) fn are_clear_in(&self, network: NetworkMask) -> bool {
        self.configs.iter().any(|port| port.tls.is_none() && network.contains(port.address.ip()))
    }
}

impl Reader<'_> {
    /// The ports of the gateway whose place is taken.
    pub(super) fn ports(&mut self, state: &State) -> Result<Ports, String> {
        let listeners: Vec<Listener<'_>> =
            state.listeners.iter().filter_map(|entry| self.listener(entry)).collect();
        let gateways: BTreeSet<&str> = listeners.iter().map(|listener| &*listener.gateway).collect();
        let names = || shown(&gateways.iter().copied().collect::<Vec<_>>().join(", "));
        let gateway = match (&self.choice.gateway, gateways.first()) {
            (_, None) => return Ok(Ports::default()),
            (None, Some(only)) if gateways.len() == 1 => *only,
            (None, Some(_)) => {
                return Err(format!(
                    "it has listeners of several gateways: name one by --gateway ({})",
                    names()
                ));
            }
            (Some(name), _) => match gateways.get(&**name) {
                Some(name) => *name,
                None => return Err(format!("it has no listener of gateway {name}, but of {}", names())),
            },
        };
        for other in gateways.iter().filter(|name| **name != gateway) {
            let theirs = || listeners.iter().filter(|listener| listener.gateway == **other);
            if let Some(first) = theirs().next() {
                let what = match theirs().count() - 1 {
                    0 => "it is".to_owned(),
                    more => format!("it and {more} more are"),
                };
                self.warn(first.entry, format!("{what} left to the target that takes the place of {other}"));
            }
        }
        let ours: Vec<&Listener<'_>> =
            listeners.iter().filter(|listener| listener.gateway == gateway).collect();
        Ok(self.join(&ours))
    }

    /// Listeners at one address are one port. Where one of them is secure, the port is.
    fn join(&mut self, listeners: &[&Listener<'_>]) -> Ports {
        let mut secure: BTreeMap<NetAddress, bool> = BTreeMap::new();
        for listener in listeners {
            *secure.entry(listener.address).or_default() |= listener.is_secure;
        }
        let mut ports = Ports::default();
        for (id, (address, is_secure)) in (1..).zip(&secure) {
            let tls = is_secure.then_some(TlsUse::Required);
            ports.configs.push(PortConfig { tls, ..PortConfig::at(id, *address) });
        }
        for listener in listeners {
            let port = ports.configs.iter().find(|port| port.address == listener.address);
            let Some(PortConfig { id, tls, .. }) = port else { continue };
            if tls.is_some() && !listener.is_secure {
                let what = "another subsystem's listener at this address is secure, and a port is so for all";
                self.lose(listener.entry, what);
            } else {
                ports.of.entry(listener.subsystem.clone()).or_default().push(*id);
            }
        }
        ports
    }

    fn listener<'a>(&mut self, entry: &'a Entry) -> Option<Listener<'a>> {
        let names = ["nqn", "host_name", "gateway_name", "traddr", "adrfam", "trsvcid", "secure"];
        // How a request was made, and what followed from the address alone.
        let of_requests = ["trtype", "auto_ha_state", "verify_host_name", "force"];
        self.only(entry, &[&names[..], &of_requests[..]].concat());
        let subsystem = self.text(entry, "nqn")?;
        let gateway = match self.text(entry, "host_name")? {
            name if name.is_empty() => self.text(entry, "gateway_name")?,
            name => name,
        };
        let traddr = self.text(entry, "traddr")?;
        let service = self.number(entry, "trsvcid")?;
        let is_secure = self.flag(entry, "secure")?;
        if gateway.is_empty() || !entry.is_of(&subsystem) {
            self.lose(entry, "key and value name different subsystems, or there is no gateway in it");
            return None;
        }
        let service = if service == 0 { Some(SERVICE) } else { service.try_into().ok() };
        let Some(service) = service else {
            self.lose(entry, "trsvcid is not a TCP port");
            return None;
        };
        let address = match traddr.parse::<HostAddress>() {
            Ok(written) if written.port().is_none() => written.literal(service),
            _ => None,
        };
        let Some(address) = address else {
            self.lose(entry, format!("traddr `{traddr}` is not an IP address"));
            return None;
        };
        Some(Listener { entry, gateway, subsystem, address, is_secure })
    }

    /// The ports that a subsystem is found on. One that is found on all of them names none.
    pub(super) fn served(&self, ports: Ports, subsystems: &mut [SubsystemConfig]) -> Vec<PortConfig> {
        let is_used = |port: &PortConfig| subsystems.iter().any(|subsystem| subsystem.is_on(port));
        let configs: Vec<PortConfig> = ports.configs.into_iter().filter(is_used).collect();
        for subsystem in subsystems {
            if subsystem.ports.len() == configs.len() && subsystem.ports != [NO_PORT] {
                subsystem.ports.clear();
            }
        }
        configs
    }
}
