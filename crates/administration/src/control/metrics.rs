//! `/metrics`: what the target has done, for Prometheus. What is counted is the engine's, in a group of gateways the group's,
//! and of connections the kernel's.

use std::fmt::Display;
use std::sync::Arc;

use engine::target::{CONTENT_TYPE, Exposition, ExpositionPieces, TargetStatus, reported_queues};
use engine::transport::info::StreamInfo;
use gateway::{GroupStatus, LoadBalancingStatus, UnreachedHost};

use super::ask::{Answer, Ask};
use super::refusal::Refusal;
use super::text_pieces::TextPieces;

pub(super) fn answer(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let metrics = Arc::new(ask.administration.metrics());
    let mut text = String::new();
    if let Some(membership) = ask.administration.membership() {
        text += &unreached(&membership.own_unreached());
        let status = membership.status();
        text += &standing(&status);
        text += &load_balancing(&status);
    }
    text += &connections(&ask.administration.status());
    let bytes = metrics.memory_bytes() + text.len();
    let begin = || ExpositionPieces::new(metrics.clone()).chain([text.clone()]);
    Ok(Answer::pieces(CONTENT_TYPE, TextPieces::new(bytes, begin)))
}

/// Hosts of this gateway without a path to another one, each by its name. Other gateways report
/// their own.
fn unreached(hosts: &[UnreachedHost]) -> String {
    let mut text = Exposition::default();
    let name = "selvedge_host_without_path";
    text.family(name, "gauge", "Hosts without a controller at the gateway that serves their namespaces");
    for UnreachedHost { host, subsystem, gateway, load_balancing_group, .. } in hosts {
        text.sample(
            name,
            &[
                ("subsystem", subsystem),
                ("host", host),
                ("gateway", gateway),
                ("load_balancing_group", load_balancing_group),
            ],
            1,
        );
    }
    text.into_text()
}

/// Lease and drain state of this gateway.
fn standing(status: &GroupStatus) -> String {
    let own = status.gateways.iter().find(|gateway| gateway.name == status.gateway);
    let is_drained = own.is_some_and(|own| own.is_drained);
    let names: [(&str, &dyn Display); 2] = [("group", &status.group), ("gateway", &status.gateway)];
    let mut labels = names.to_vec();
    if let Some(location) = own.and_then(|own| own.location.as_ref()) {
        labels.push(("location", location));
    }
    let mut text = Exposition::default();
    let lease =
        "1 while this gateway reaches the objects of its group; 0 when others take over its namespaces";
    let drained = "1 while this gateway is drained";
    for (name, help, value) in [
        ("selvedge_gateway_has_lease", lease, status.has_lease),
        ("selvedge_gateway_drained", drained, is_drained),
    ] {
        text.family(name, "gauge", help);
        text.sample(name, &labels, u8::from(value));
    }
    text.into_text()
}

/// Load-balancing groups that are served, and those not served at their location, as this gateway sees them.
fn load_balancing(status: &GroupStatus) -> String {
    type Value = fn(&LoadBalancingStatus) -> bool;
    let mut text = Exposition::default();
    let values: [(&str, &str, Value); 2] = [
        (
            "selvedge_gateway_group_served",
            "0 while no gateway serves a load-balancing group that has namespaces",
            LoadBalancingStatus::is_served,
        ),
        (
            "selvedge_gateway_group_degraded",
            "1 while a load-balancing group is not served at its location",
            |group| group.is_degraded,
        ),
    ];
    for (name, help, value) in values {
        text.family(name, "gauge", help);
        for group in &status.load_balancing_groups {
            let names: [(&str, &dyn Display); 2] =
                [("group", &status.group), ("load_balancing_group", &group.id)];
            let mut labels = names.to_vec();
            if let Some(location) = &group.location {
                labels.push(("location", location));
            }
            text.sample(name, &labels, u8::from(value(group)));
        }
    }
    text.into_text()
}

/// Kernel counters of each I/O queue's connection. They are read for a scrape, and not for live
/// viewers.
fn connections(status: &TargetStatus) -> String {
    let of_controllers = status.controllers.iter().map(|controller| {
        let io = controller.queues.iter().filter(|queue| queue.queue_id > 0);
        let queues = io.filter_map(|queue| Some((controller, queue.queue_id, queue.stream.as_ref()?)));
        (controller.host_nqn.as_str(), queues.collect::<Vec<_>>())
    });
    let of_controllers: Vec<_> = of_controllers.collect();
    let counts: Vec<_> = of_controllers.iter().map(|(host, queues)| (*host, queues.len())).collect();
    // The same that have series of their own.
    let reported = of_controllers.iter().zip(reported_queues(&counts));
    let queues: Vec<_> = reported.flat_map(|((_, queues), reported)| &queues[..reported]).collect();
    let mut text = Exposition::default();
    for (name, kind, help, value) in CONNECTIONS {
        text.family(name, kind, help);
        for (controller, queue, stream) in &queues {
            let labels: &[(&str, &dyn Display)] =
                &[("subsystem", &controller.subsystem), ("controller", &controller.cntlid), ("queue", queue)];
            text.sample(name, labels, value(stream));
        }
    }
    text.into_text()
}

/// A metric of connections: its name, kind and help, and how it is read.
type OfConnections = (&'static str, &'static str, &'static str, fn(&StreamInfo) -> f64);

const CONNECTIONS: [OfConnections; 7] = [
    (
        "selvedge_queue_round_trip_seconds",
        "gauge",
        "Smoothed round trip time of the queue's connection.",
        |stream| f64::from(stream.rtt_us) / 1e6,
    ),
    (
        "selvedge_queue_unsent_bytes",
        "gauge",
        "Bytes written to the connection and not acknowledged by the host.",
        |stream| stream.unsent_bytes as f64,
    ),
    ("selvedge_queue_acknowledged_bytes_total", "counter", "Bytes acknowledged by the host.", |stream| {
        stream.acknowledged_bytes as f64
    }),
    ("selvedge_queue_retransmitted_segments_total", "counter", "Retransmitted segments.", |stream| {
        stream.retransmits as f64
    }),
    (
        "selvedge_queue_busy_seconds_total",
        "counter",
        "Time in which the socket held unsent or unacknowledged data.",
        |stream| stream.send_times.busy_us as f64 / 1e6,
    ),
    (
        "selvedge_queue_rwnd_limited_seconds_total",
        "counter",
        "Part of that time without space at the host.",
        |stream| stream.send_times.rwnd_limited_us as f64 / 1e6,
    ),
    (
        "selvedge_queue_sndbuf_limited_seconds_total",
        "counter",
        "Part of that time without space in the socket.",
        |stream| stream.send_times.sndbuf_limited_us as f64 / 1e6,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use examination::target_rates::fixture;
    use gateway::Phase;

    #[test]
    fn each_host_without_a_path_is_a_series() {
        let host = UnreachedHost {
            host: "nqn.host".to_owned(),
            subsystem: "nqn.disks".to_owned(),
            gateway: "b".to_owned(),
            load_balancing_group: 2,
            connected_to: "a".to_owned(),
        };
        let line = "selvedge_host_without_path{subsystem=\"nqn.disks\",host=\"nqn.host\",gateway=\"b\",load_balancing_group=\"2\"} 1";
        let text = unreached(&[host]);
        assert!(text.lines().any(|found| found == line), "{text}");
        assert!(unreached(&[]).lines().all(|line| line.starts_with('#')));
    }

    #[test]
    fn a_gateway_says_whether_it_reaches_its_group_and_is_to_serve() {
        for (has_lease, lease, drained) in [(true, 1, 0), (false, 0, 1)] {
            for (location, label) in [(None, ""), (Some("east"), ",location=\"east\"")] {
                let text = standing(&status(location, has_lease));
                for (name, value) in [("has_lease", lease), ("drained", drained)] {
                    let line =
                        format!("selvedge_gateway_{name}{{group=\"rbd/g\",gateway=\"a\"{label}}} {value}");
                    assert!(text.lines().any(|found| found == line), "{text}");
                }
            }
        }
    }

    #[test]
    fn each_load_balancing_group_says_whether_it_is_served_and_degraded() {
        let mut status = status(Some("east"), true);
        status.load_balancing_groups[1].state = Phase::Fencing;
        let text = load_balancing(&status);
        for line in [
            "selvedge_gateway_group_served{group=\"rbd/g\",load_balancing_group=\"1\",location=\"east\"} 1",
            "selvedge_gateway_group_served{group=\"rbd/g\",load_balancing_group=\"2\"} 0",
            "selvedge_gateway_group_degraded{group=\"rbd/g\",load_balancing_group=\"1\",location=\"east\"} 1",
            "selvedge_gateway_group_degraded{group=\"rbd/g\",load_balancing_group=\"2\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    /// Status of gateway a at a location, which is drained if it has no lease. Its group is degraded, and another one is not.
    fn status(location: Option<&str>, has_lease: bool) -> GroupStatus {
        let gateway = serde_json::json!({
            "name": "a", "number": 1, "location": location, "life": "alive", "is_well": true, "has_hosts": true,
            "listeners": [], "connections": 0, "is_drained": !has_lease,
        });
        let group = |id: u32, location: Option<&str>| {
            serde_json::json!({
                "id": id, "preferred": "a", "location": location, "is_degraded": location.is_some(), "owner": "b",
                "state": "serving", "namespaces": 1, "is_served_here": false,
            })
        };
        let status = serde_json::json!({
            "group": "rbd/g", "gateway": "a", "has_lease": has_lease, "version": 1, "gateways": [gateway],
            "load_balancing_groups": [group(1, location), group(2, None)],
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn each_connection_is_a_series_of_each_metric() {
        // Two I/O queues of one host, and a host at the discovery service, after a second.
        let text = connections(&fixture::status(1));
        let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(series.len(), 2 * CONNECTIONS.len(), "{text}");
        let labels = format!("{{subsystem=\"{}\",controller=\"1\",queue=\"2\"}}", fixture::NQN);
        for line in [
            format!("selvedge_queue_round_trip_seconds{labels} 0.000045"),
            format!("selvedge_queue_unsent_bytes{labels} 4096"),
            format!("selvedge_queue_acknowledged_bytes_total{labels} 20000000"),
            format!("selvedge_queue_retransmitted_segments_total{labels} 3"),
            format!("selvedge_queue_busy_seconds_total{labels} 0.25"),
            format!("selvedge_queue_rwnd_limited_seconds_total{labels} 0.125"),
            format!("selvedge_queue_sndbuf_limited_seconds_total{labels} 0"),
        ] {
            assert!(series.contains(&line.as_str()), "{line}: {text}");
        }
    }
}
