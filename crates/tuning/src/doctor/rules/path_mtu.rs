//! Packets that are smaller than the interface's, since the path or the other end takes no larger ones; and larger packets
//! that are lost without an ICMP error.

use topology::InterfaceKind;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::{Carried, Host};
use crate::doctor::rule::Rule;
use crate::probe::Probe;

pub(super) const RULE: Rule = Rule { name: "path-mtu", judge };

/// Bytes of a packet beside a segment: IPv6 and TCP with timestamps.
const HEADERS_BYTES: u32 = 72;
/// A way whose packets are smaller than this part of the interface's was not meant so.
const SMALLER: f64 = 0.9;
/// Segments up to this size pass every way that carries IPv6.
const ALWAYS_PASSES_BYTES: u32 = 1_220;
/// Timers that ran out in a row: two can be a hiccup.
const BACKOFF_MIN: u32 = 3;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let mut found = black_holes(host);
    for finding in by_route(host).into_iter().chain(by_connection(host)).chain(by_lower(host)) {
        if !found.iter().any(|known: &Finding| known.subject == finding.subject) {
            found.push(finding);
        }
    }
    found
}

fn mtu_of(host: &Host, interface: &str) -> Option<u32> {
    let interface = host.survey.topology.interface(interface)?;
    // On the loopback, other limits than the packet's size count.
    let is_link = interface.kind != InterfaceKind::Loopback && interface.mtu_bytes > 0;
    is_link.then_some(interface.mtu_bytes)
}

fn is_smaller(bytes: u32, than_bytes: u32) -> bool {
    f64::from(bytes) < f64::from(than_bytes) * SMALLER
}

fn too_small(subject: &str, cause: String, bytes: u32, of_bytes: u32) -> Finding {
    // What is saved is work per packet; how much that is of all, differs.
    let share = 0.5 * (1.0 - f64::from(bytes) / f64::from(of_bytes));
    Finding::new(Severity::MayCost, subject, cause).ranked(share)
}

/// Ways of which the kernel knows that they take smaller packets.
fn by_route(host: &Host) -> Vec<Finding> {
    let finding = |path: &crate::doctor::path::NetworkPath| {
        let way = path.way.as_ref().ok()?;
        let interface = way.interface.as_str();
        let (bytes, own_bytes) = (way.mtu_bytes?, mtu_of(host, interface)?);
        is_smaller(bytes, own_bytes).then(|| {
            let cause = format!(
                "The way to {} takes packets of {bytes} bytes, and {interface} has {own_bytes}",
                path.target.ip()
            );
            too_small(interface, cause, bytes, own_bytes)
                .seen(format!(
                    "route to {}: mtu {bytes} (set there, or learnt from a router)",
                    path.target.ip()
                ))
                .seen(format!("MTU of {interface}: {own_bytes}"))
                .cure(
                    "Give every device on the way the larger MTU, or take the limit off the route.",
                    "Fewer packets for the same data, so less processor time for each byte at both ends.",
                )
                .command(format!("ip route get {}", path.target.ip()))
        })
    };
    host.paths.iter().filter_map(finding).collect()
}

/// Connections whose segments are smaller than this end's packets could carry, since the other end said so.
fn by_connection(host: &Host) -> Vec<Finding> {
    let connections = host.now.iter().flat_map(|now| &now.connections);
    let finding = |connection: &topology::Connection| {
        let interface = host.interface_of(connection)?;
        let own_bytes = mtu_of(host, interface)?;
        let bytes =
            connection.segment_bytes.checked_add(HEADERS_BYTES).filter(|_| connection.segment_bytes > 0)?;
        // A short connection has not used its window yet, by which segments are bound too.
        is_smaller(bytes, own_bytes.min(connection.path_mtu_bytes.max(1))).then(|| {
            let (peer, segment_bytes) = (connection.peer.ip(), connection.segment_bytes);
            let cause = format!(
                "{peer} takes segments of {segment_bytes} bytes, and {interface} could send packets of {own_bytes}"
            );
            too_small(interface, cause, bytes, own_bytes)
                .seen(format!("connection to {}: mss {segment_bytes}, pmtu {}", connection.peer, connection.path_mtu_bytes))
                .seen(format!("MTU of {interface}: {own_bytes}"))
                .cure(
                    "Give the other end's interface the same MTU.",
                    "Fewer packets for the same data, so less processor time for each byte at both ends.",
                )
                .command(format!("ip link set INTERFACE_THERE mtu {own_bytes}"))
        })
    };
    connections.filter_map(finding).collect()
}

/// Interfaces on top of one with smaller packets.
fn by_lower(host: &Host) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in host.links.keys() {
        let Some(upper) = host.survey.topology.interface(name) else { continue };
        // Ports of a bridge may differ on purpose: it takes the smallest itself.
        let stands_on_it = matches!(upper.kind, InterfaceKind::Bond | InterfaceKind::Vlan);
        for lower in upper.lower.iter().filter(|_| stands_on_it) {
            let Some(bytes) = mtu_of(host, lower).filter(|bytes| *bytes < upper.mtu_bytes) else { continue };
            let cause = format!(
                "{name} sends packets of {} bytes by {lower}, which takes {bytes}: large ones are dropped",
                upper.mtu_bytes
            );
            found.push(
                Finding::new(Severity::MayCost, name, cause)
                    .ranked(0.8)
                    .seen(format!("MTU of {name}: {}; of {lower}: {bytes}", upper.mtu_bytes))
                    .cure("Give both the same MTU.", "Large packets arrive.")
                    .command(format!("ip link set {lower} mtu {}", upper.mtu_bytes)),
            );
        }
    }
    found
}

/// Connections on which large segments vanish while small packets arrive.
fn black_holes(host: &Host) -> Vec<Finding> {
    let probing = host.setting("ipv4/tcp_mtu_probing").unwrap_or("0");
    let mut found: Vec<Finding> = Vec::new();
    for Carried { before, now } in host.carried() {
        let segment_bytes = u64::from(now.segment_bytes);
        let again_bytes = now.retransmitted_bytes.saturating_sub(before.retransmitted_bytes);
        // Small packets that are lost would say nothing of large ones.
        let is_large = now.segment_bytes > ALWAYS_PASSES_BYTES
            && now.retransmitted_bytes >= 2 * segment_bytes
            && (again_bytes >= segment_bytes || now.backoff >= BACKOFF_MIN);
        let is_stuck = is_large
            && now.acknowledged_bytes == before.acknowledged_bytes
            && now.unacknowledged_segments > 0;
        let peer = now.peer.ip().to_canonical();
        let answers = host
            .paths
            .iter()
            .any(|path| path.target.ip() == peer && matches!(path.probe, Some(Probe::Reached { .. })));
        // A target's hosts are not called. That they still send is as good: they have something to acknowledge.
        let is_heard = now.received_bytes > before.received_bytes;
        let Some(interface) = host.interface_of(now).filter(|_| is_stuck && (answers || is_heard)) else {
            continue;
        };
        if mtu_of(host, interface).is_none() || found.iter().any(|known| known.subject == interface) {
            continue;
        }
        let cause = format!(
            "Large packets to {peer} vanish by {interface}: the path takes smaller ones only, and no ICMP error says so"
        );
        let small = if answers { "a new connection to it was made at once" } else { "it still sends" };
        found.push(
            Finding::new(Severity::Outage, interface, cause)
                .ranked(1.0)
                .seen(format!(
                    "connection to {}: segments of {} bytes, {} sent again in {:.1} s ({} timers in a row), nothing acknowledged",
                    now.peer,
                    now.segment_bytes,
                    chart::units::bytes(again_bytes as f64),
                    host.interval_s(),
                    now.backoff
                ))
                .seen(format!("{peer} is there: {small}"))
                .seen(format!("net.ipv4.tcp_mtu_probing is {probing}"))
                .cure(
                    "Give every device on the way the MTU of the ends, or the ends that of the way; probing finds a size \
                     that passes until then.",
                    "The commands that hang go on.",
                )
                .command("sysctl -w net.ipv4.tcp_mtu_probing=1".to_owned())
                .command(format!("ip link set {interface} mtu 1500")),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    #[test]
    fn a_route_with_a_smaller_size_is_named() {
        let mut case = healthy();
        case.host.paths[0].way.as_mut().unwrap().mtu_bytes = Some(1400);
        let found = named_first(&case, RULE.name);
        assert!(found.cause.contains("1400 bytes, and eth0 has 9000"), "{found:?}");
    }

    #[test]
    fn another_size_at_the_other_end_is_named() {
        let mut case = healthy();
        for connection in &mut case.host.now.as_mut().unwrap().connections {
            connection.segment_bytes = 1448;
        }
        assert!(named_first(&case, RULE.name).cause.contains("segments of 1448 bytes"));
    }

    #[test]
    fn a_black_hole_is_named() {
        let mut case = healthy();
        let before = case.host.before.clone().unwrap();
        let now = case.host.now.as_mut().unwrap();
        now.connections[0] = topology::Connection {
            unacknowledged_segments: 4,
            retransmitted_bytes: 50_000,
            backoff: 5,
            ..before.connections[0].clone()
        };
        let found = named_first(&case, RULE.name);
        assert!(found.severity == Severity::Outage && found.cause.contains("vanish"), "{found:?}");
    }

    #[test]
    fn a_lower_interface_with_smaller_packets_is_named() {
        let mut case = healthy();
        let topology = &mut case.host.survey.topology;
        let vlan = topology::Interface {
            name: "eth0.5".into(),
            index: 9,
            kind: InterfaceKind::Vlan,
            lower: vec!["eth0".into()],
            mtu_bytes: 9500,
            ..Default::default()
        };
        topology.interfaces.push(vlan);
        case.host.links.insert("eth0.5".into(), Default::default());
        assert_eq!(named_first(&case, RULE.name).subject, "eth0.5");
    }

    #[test]
    fn look_alikes_are_well() {
        // The loopback's segments are half its window; a route may say the interface's own size; a way of 1500 bytes has
        // segments of 1448; a peer that is gone has timers that run out, too.
        let mut loopback = healthy();
        loopback.host.survey.topology.interfaces[1].kind = InterfaceKind::Loopback;
        loopback.host.now.as_mut().unwrap().connections[0].segment_bytes = 32_741;
        let mut own_size = healthy();
        own_size.host.paths[0].way.as_mut().unwrap().mtu_bytes = Some(9000);
        let mut usual = healthy();
        usual.host.survey.topology.interfaces[1].mtu_bytes = 1500;
        for connection in &mut usual.host.now.as_mut().unwrap().connections {
            (connection.segment_bytes, connection.path_mtu_bytes) = (1448, 1500);
        }
        let mut gone = healthy();
        gone.host.paths[0].probe = Some(Probe::Silent);
        let before = gone.host.before.clone().unwrap();
        gone.host.now.as_mut().unwrap().connections[0] = topology::Connection {
            unacknowledged_segments: 4,
            retransmitted_bytes: 50_000,
            backoff: 5,
            ..before.connections[0].clone()
        };
        // One whose small packets are lost.
        let mut small = healthy();
        small.host.now.as_mut().unwrap().connections[0] = topology::Connection {
            unacknowledged_segments: 1,
            retransmitted_bytes: 360,
            backoff: 5,
            ..before.connections[0].clone()
        };
        for case in [loopback, own_size, usual, gone, small] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
