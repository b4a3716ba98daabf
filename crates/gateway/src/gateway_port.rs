//! A port as its gateway tells the others of it, so that hosts find all gateways of a group through any of them. What a target
//! makes of it is the engine's.

use std::ops::RangeInclusive;

use engine::limits::GATEWAY_PORTS_REPORTED_MAX;
use engine::target::{PortConfig, TlsUse};
use serde::{Deserialize, Serialize};

/// Number of port identifiers reserved for each gateway.
const PORT_NUMBERS: u16 = 64;

/// The numbers of ports that the gateway with this number has for itself.
pub(crate) const fn port_numbers(gateway: u16) -> RangeInclusive<u16> {
    // The number was read from the cluster, and may be any.
    let first = gateway.saturating_sub(1).saturating_mul(PORT_NUMBERS).saturating_add(1);
    first..=first.saturating_add(PORT_NUMBERS - 1)
}

/// A port of a gateway, beside what its listener says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GatewayPort {
    pub(crate) id: u16,
    pub(crate) address: String,
    pub(crate) service: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsUse>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) discovery_only: bool,
}

/// Report of a gateway with these ports. Ports without an address for other gateways' hosts are
/// left out.
pub(crate) fn reported_ports(ports: &[PortConfig]) -> Vec<GatewayPort> {
    let of = |port: &PortConfig| {
        let (address, service) = reported_address(port)?;
        let PortConfig { id, tls, discovery_only, .. } = *port;
        Some(GatewayPort { id, address, service, tls, discovery_only })
    };
    ports.iter().filter_map(of).take(GATEWAY_PORTS_REPORTED_MAX).collect()
}

/// Address and service at which hosts of other gateways find a port. None for an unspecified
/// address without an `advertise`.
pub(crate) fn reported_address(port: &PortConfig) -> Option<(String, u16)> {
    let ip = port.address.ip().to_canonical();
    let address = match &port.advertise {
        Some(advertise) => advertise.clone(),
        None if ip.is_unspecified() => return None,
        None => ip.to_string(),
    };
    Some((address, port.address.port()))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use engine::limits::GATEWAYS_MAX;

    use super::*;

    #[test]
    fn each_gateway_has_numbers_of_ports_for_itself() {
        assert_eq!((port_numbers(1), port_numbers(2)), (1..=64, 65..=128));
        assert_eq!(port_numbers(GATEWAYS_MAX), 1921..=1984);
        // Of a damaged record.
        assert_eq!((port_numbers(0), port_numbers(u16::MAX)), (1..=64, u16::MAX..=u16::MAX));
    }

    #[test]
    fn a_report_is_read_back() {
        let ports = reported_ports(&[PortConfig::new(7, "[2001:db8::1]:4420".parse().unwrap())]);
        let read: Vec<GatewayPort> = serde_json::from_slice(&serde_json::to_vec(&ports).unwrap()).unwrap();
        assert_eq!((read.as_slice(), read[0].address.as_str()), (ports.as_slice(), "2001:db8::1"));
        // A later version may tell more.
        let more = r#"{"id":7,"address":"a","service":1,"new":{}}"#;
        assert!(serde_json::from_str::<GatewayPort>(more).is_ok());
    }
}
