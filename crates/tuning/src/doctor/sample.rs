//! Machines and targets that are well, for the rules' cases: each case is one of them with one thing changed.

use std::net::SocketAddr;

use topology::{
    Coalescing, Connection, CpuSet, Flow, FlowOwner, FlowSource, Interface, InterfaceKind, KernelRoute,
    LinkModes, LinkSettings, Node, Processors, Queueing, Topology, Worker,
};

use super::case::Case;
use super::counters::{Counters, Ticks};
use super::host::{Bond, Host, Link, Moment};
use super::measurement::{MeasuredRun, Measurement};
use super::path::NetworkPath;
use super::report::Report;
use crate::bench::histogram::LatencyNs;
use crate::diagnosis::finding::Finding;
use crate::diagnosis::sample::well;
use crate::packet_path::Survey;
use crate::probe::Probe;
use crate::report::stages::{StageReport, StagesReport, TargetStagesReport};

const NQN: &str = "nqn.2026-01.org.example:a";

/// Returns the first finding, which must be this rule's.
#[track_caller]
pub(super) fn named_first(case: &Case, rule: &str) -> Finding {
    let found = Report::of(case, Vec::new(), None).findings;
    let first = found.first().unwrap_or_else(|| panic!("{rule} has found nothing"));
    assert_eq!(first.rule, rule, "{found:#?}");
    first.clone()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn interface(name: &str, index: u32, kind: InterfaceKind) -> Interface {
    Interface {
        name: name.to_owned(),
        index,
        kind,
        is_up: true,
        mtu_bytes: if kind == InterfaceKind::Loopback { 65_536 } else { 9000 },
        speed_mbps: (kind == InterfaceKind::Device).then_some(25_000),
        ..Interface::default()
    }
}

fn link() -> Link {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let features = [
        "rx-gro",
        "tx-generic-segmentation",
        "tx-scatter-gather",
        "tx-tcp-segmentation",
        "tx-checksum-ip-generic",
    ];
    let settings = LinkSettings {
        active: set(&features),
        switchable: set(&features),
        coalescing: Some(Coalescing { receive_us: Some(8), receive_frames: Some(128), is_adaptive: true }),
        modes: Some(LinkModes {
            negotiates: Some(true),
            speed_mbps: Some(25_000),
            is_full_duplex: Some(true),
            supported: set(&["10000baseKR/Full", "25000baseCR/Full", "Autoneg", "FIBRE"]),
            peer: Default::default(),
        }),
        refusals: Vec::new(),
    };
    Link { settings: Some(settings), bond: None }
}

fn flow(queue_id: u16, interface: &str) -> Flow {
    Flow {
        owner: FlowOwner::Kernel,
        controller: "nvme0".to_owned(),
        subsystem_nqn: Some(NQN.to_owned()),
        queue_id: Some(queue_id),
        source: FlowSource::Kernel,
        worker: Some(Worker { thread: None, cpu: Some(0), allowed: CpuSet::one(0), is_movable: false }),
        local: address(&format!("10.0.0.1:{}", 50_000 + queue_id)),
        peer: address("10.0.0.2:4420"),
        interface: Some(interface.to_owned()),
        receive_queue_bytes: 0,
        send_queue_bytes: 0,
        rtt_us: Some(100),
        retransmissions: Some(0),
    }
}

fn connection(flow: &Flow) -> Connection {
    Connection {
        local: flow.local,
        peer: flow.peer,
        congestion: "cubic".to_owned(),
        rtt_us: 110,
        rtt_us_min: 80,
        segment_bytes: 8948,
        advertised_bytes: 8960,
        path_mtu_bytes: 9000,
        window_segments: 10,
        unacknowledged_segments: 0,
        backoff: 0,
        sent_bytes: 5_000_000,
        retransmitted_bytes: 0,
        acknowledged_bytes: 5_000_000,
        received_bytes: 9_000_000,
        busy_us: 500_000,
        peer_limited_us: 0,
        buffer_limited_us: 0,
        out_of_order: 0,
        receive_buffer_bytes: 6 << 20,
        send_buffer_bytes: 4 << 20,
    }
}

fn moment(at_s: f64, flows: &[Flow]) -> Moment {
    let counters = Counters {
        at_s,
        all: Ticks { all: (at_s * 100.0) as u64, idle: (at_s * 60.0) as u64, ..Ticks::default() },
        network: [("TcpExt/IPReversePathFilter".to_owned(), 0)].into(),
        interfaces: ["eth0", "eth1"]
            .map(|name| {
                let counters =
                    ["rx_bytes", "tx_bytes", "rx_missed_errors", "rx_crc_errors", "carrier_changes"];
                (name.to_owned(), counters.map(|counter| (counter.to_owned(), 0)).into())
            })
            .into(),
        ..Counters::default()
    };
    let connections = flows.iter().map(connection).map(|connection| Connection {
        received_bytes: connection.received_bytes + (at_s * 1e6) as u64,
        sent_bytes: connection.sent_bytes + (at_s * 1e6) as u64,
        acknowledged_bytes: connection.acknowledged_bytes + (at_s * 1e6) as u64,
        busy_us: connection.busy_us + (at_s * 1e5) as u64,
        ..connection
    });
    let queueings = vec![Queueing {
        interface: "eth0".to_owned(),
        kind: "mq".to_owned(),
        is_root: true,
        ..Queueing::default()
    }];
    Moment { counters, queueings, connections: connections.collect() }
}

/// A host with two I/O queues of the kernel's initiator over one card.
pub(super) fn healthy() -> Case {
    let flows = vec![flow(1, "eth0"), flow(2, "eth0")];
    let topology = Topology {
        kernel: "6.12.48".to_owned(),
        processors: Processors {
            online: (0..4).collect(),
            nodes: vec![Node { id: 0, cpus: (0..4).collect() }],
            ..Processors::default()
        },
        interfaces: vec![
            interface("lo", 1, InterfaceKind::Loopback),
            interface("eth0", 2, InterfaceKind::Device),
        ],
        flows: flows.clone(),
        ..Topology::default()
    };
    let path = NetworkPath {
        target: address("10.0.0.2:4420"),
        source: Some("10.0.0.1".parse().unwrap()),
        source_interface: Some("eth0".to_owned()),
        way: Ok(KernelRoute { interface: "eth0".to_owned(), ..KernelRoute::default() }),
        probe: Some(Probe::Reached { rtt_us: 120 }),
        is_wanted: true,
    };
    let settings = [
        ("ipv4/tcp_rmem", "4096\t131072\t33554432"),
        ("ipv4/tcp_wmem", "4096\t16384\t33554432"),
        ("ipv4/tcp_mtu_probing", "0"),
    ];
    let host = Host {
        survey: Survey::new(topology),
        links: [("eth0".to_owned(), link())].into(),
        source_validation: [("eth0".to_owned(), 0)].into(),
        paths: vec![path],
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        has_aes: Some(true),
        before: Some(moment(0.0, &flows)),
        now: Some(moment(1.0, &flows)),
        ..Host::default()
    };
    Case { host, ..Case::default() }
}

/// Machine without connections.
pub(super) fn idle() -> Case {
    let mut case = healthy();
    let topology = Topology { flows: Vec::new(), ..case.host.survey.topology.clone() };
    case.host.survey = Survey::new(topology);
    for moment in [&mut case.host.before, &mut case.host.now] {
        moment.as_mut().unwrap().connections.clear();
    }
    case.host.paths[0].source = None;
    case.host.paths[0].source_interface = None;
    case
}

/// Machine with an address in the target's network on a second card, whose packets leave by the
/// first, and strict source validation.
pub(super) fn second_path() -> Case {
    let mut case = healthy();
    case.host.survey.topology.interfaces.push(interface("eth1", 3, InterfaceKind::Device));
    case.host.links.insert("eth1".to_owned(), link());
    case.host.source_validation.insert("eth1".to_owned(), 1);
    case.host.paths.push(NetworkPath {
        target: address("10.0.0.2:4420"),
        source: Some("10.0.0.5".parse().unwrap()),
        source_interface: Some("eth1".to_owned()),
        way: Ok(KernelRoute { interface: "eth0".to_owned(), ..KernelRoute::default() }),
        probe: Some(Probe::Reached { rtt_us: 130 }),
        is_wanted: false,
    });
    case
}

/// Machine with its two cards as a bond, and this number of I/O queues on it.
pub(super) fn bonded(mode: &str, hash: &str, queues: u16) -> Case {
    let mut case = healthy();
    let flows: Vec<Flow> = (1..=queues).map(|queue_id| flow(queue_id, "bond0")).collect();
    let mut topology = case.host.survey.topology.clone();
    topology.interfaces.push(interface("eth1", 3, InterfaceKind::Device));
    topology.interfaces.push(Interface {
        lower: vec!["eth0".to_owned(), "eth1".to_owned()],
        ..interface("bond0", 4, InterfaceKind::Bond)
    });
    topology.flows = flows.clone();
    case.host.survey = Survey::new(topology);
    let bond = Bond { mode: mode.to_owned(), hash: hash.to_owned() };
    case.host.links.insert("eth1".to_owned(), link());
    case.host.links.insert("bond0".to_owned(), Link { bond: Some(bond), ..link() });
    (case.host.before, case.host.now) = (Some(moment(0.0, &flows)), Some(moment(1.0, &flows)));
    case.host.paths[0].way.as_mut().unwrap().interface = "bond0".to_owned();
    case.host.paths[0].source_interface = Some("bond0".to_owned());
    case
}

/// Machine with a sound target.
pub(super) fn with_target() -> Case {
    Case { targets: vec![well()], ..healthy() }
}

/// Reads of a namespace that spend these nanoseconds waiting, being sent, at the target and on the way, and being received; of
/// them, held by limits and at the storage, where the target says so.
pub(super) fn measured(stages_ns: [f64; 4], target_ns: Option<[f64; 2]>) -> Measurement {
    let mean_ns: f64 = stages_ns.iter().sum();
    let [waiting, sending, target, receiving] = stages_ns.map(|ns| StageReport {
        mean_ns: ns,
        share_percent: 100.0 * ns / mean_ns,
        p50_ns_max: None,
        p99_ns_max: None,
        buckets: Vec::new(),
    });
    let said = target_ns.map(|[limits_ns, storage_ns]| TargetStagesReport {
        ios: 1000,
        mean_ns: limits_ns + storage_ns,
        receive_ns: 0.0,
        limits_ns,
        buffer_ns: 0.0,
        storage_ns,
        others_ns: 0.0,
    });
    let run = |iodepth: u32| MeasuredRun {
        iodepth,
        queue_size: 128,
        iops: f64::from(iodepth) * 1e9 / mean_ns,
        latency_ns: LatencyNs { mean: mean_ns, ..LatencyNs::default() },
        stages: StagesReport {
            waiting: waiting.clone(),
            sending: sending.clone(),
            target: target.clone(),
            receiving: receiving.clone(),
        },
        target_stages: said,
    };
    let traddr = vec!["10.0.0.2".to_owned()];
    Measurement { traddr, subnqn: NQN.to_owned(), nsid: 1, runs: vec![run(1), run(32)] }
}
