//! The ports at which hosts find the other gateways of a group, as one gateway's target tells them.

use std::collections::BTreeSet;

use engine::limits::OTHER_PORTS_MAX;
use engine::target::{OtherPort, PortConfig};

use super::gateway_port::GatewayPort;
use super::state::{Gateway, GroupState, Life, Listener};

/// The ports of the other gateways that may serve, for hosts of the gateway `name`, which has ports with the numbers `own`.
///
/// A gateway that was given up is left out: a host that connects to every entry would wait for it,
/// and nothing is served there. It returns to the log when it is back. Hosts that have a controller
/// at it keep trying by themselves.
pub(crate) fn elsewhere(state: &GroupState, name: &str, own: impl Iterator<Item = u16>) -> Vec<OtherPort> {
    let mut numbers: BTreeSet<u16> = own.collect();
    let mut found = Vec::new();
    let others = state.gateways.iter().filter(|(other, _)| *other != name);
    for (_, gateway) in others.filter(|(_, gateway)| gateway.life == Life::Alive) {
        for (listener, reported) in
            gateway.listeners.iter().map(|listener| (listener, reported_port(gateway, listener)))
        {
            // By its number a port is known. Former versions have added ports with numbers of other gateways'.
            let reported = reported.filter(|reported| numbers.insert(reported.id));
            let mut port = PortConfig::new(0, ([0, 0, 0, 0], listener.service).into());
            port.advertise = Some(listener.address.clone());
            if let Some(reported) = reported {
                (port.id, port.tls, port.discovery_only) =
                    (reported.id, reported.tls, reported.discovery_only);
            }
            found.push(OtherPort { port, is_known: reported.is_some() });
        }
    }
    found.truncate(OTHER_PORTS_MAX);
    found
}

/// Properties that a gateway has reported of the port with this listener.
pub(crate) fn reported_port<'a>(gateway: &'a Gateway, listener: &Listener) -> Option<&'a GatewayPort> {
    gateway.ports.iter().find(|port| port.address == listener.address && port.service == listener.service)
}

#[cfg(test)]
mod tests {
    use engine::target::TlsUse;

    use super::super::gateway_port::reported_ports;
    use super::super::local_fabric::listeners;
    use super::super::state::Owner;
    use super::*;

    fn port(id: u16, address: &str) -> PortConfig {
        PortConfig { tls: Some(TlsUse::Allowed), ..PortConfig::new(id, address.parse().unwrap()) }
    }

    /// Gateways a, b and c, of which b tells nothing but its listener, as former versions do.
    fn group() -> GroupState {
        let mut state = GroupState::default();
        for (name, ports) in [
            ("a", vec![port(1, "10.0.0.1:4420")]),
            ("b", vec![port(65, "10.0.0.2:4420")]),
            ("c", vec![port(129, "10.0.0.3:4420"), port(130, "0.0.0.0:4421")]),
        ] {
            let me = Owner { gateway: name.to_owned(), epoch: 1 };
            state.register(&me, &listeners(&ports)).unwrap();
            if name != "b" {
                state.gateways.get_mut(name).unwrap().ports = reported_ports(&ports);
            }
        }
        state
    }

    fn found(state: &GroupState, name: &str, own: &[u16]) -> Vec<(u16, String, bool, Option<TlsUse>)> {
        let found = elsewhere(state, name, own.iter().copied()).into_iter();
        found
            .map(|other| (other.port.id, other.port.advertise.unwrap(), other.is_known, other.port.tls))
            .collect()
    }

    #[test]
    fn ports_of_others_are_known_as_far_as_they_tell() {
        let state = group();
        let a = (1, "10.0.0.1".to_owned(), true, Some(TlsUse::Allowed));
        let b = (0, "10.0.0.2".to_owned(), false, None);
        let c = (129, "10.0.0.3".to_owned(), true, Some(TlsUse::Allowed));
        assert_eq!(found(&state, "a", &[1]), [b, c.clone()]);
        assert_eq!(found(&state, "b", &[65]), [a, c]);
        // A number that is this gateway's own cannot be another's for a host.
        assert_eq!(found(&state, "a", &[1, 129])[1], (0, "10.0.0.3".to_owned(), false, None));
    }

    #[test]
    fn only_those_that_may_serve_are_found() {
        let mut state = group();
        for life in [Life::Dead, Life::Left] {
            state.gateways.get_mut("c").unwrap().life = life;
            assert_eq!(found(&state, "a", &[1]).len(), 1, "{life:?}");
        }
    }
}
