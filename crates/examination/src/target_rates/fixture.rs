//! Fixture of tests: a target with fixed numbers, whose output is written by the engine itself.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use engine::target::{
    ControllerMetrics, ControllerStatus, ErrorMetrics, Histogram, Metrics, NamespaceMetrics, Operation,
    OperationMetrics, PortStatus, QueueMetrics, QueueStatus, Quotas, ReactorMetrics, ReactorStatus,
    SizeClass, Stage, StageMetrics, SubsystemMetrics, TargetStatus,
};
use engine::transport::Transport;
use engine::transport::info::{SendTimes, StreamInfo, SubflowInfo};

use super::rates::Rates;
use super::sample::Sample;

pub const NQN: &str = "nqn.2026-01.io.selvedge:target";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// A host that has more in its name than letters.
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:a\x1b";
/// This number of commands of 4 KiB, of which three in five took up to 64 µs and the others up to 256 µs.
fn operation(operation: Operation, commands: u64) -> OperationMetrics {
    let mut latency = Histogram { sum_ns: commands * 100_000, ..Histogram::default() };
    latency.buckets[6] = commands * 3 / 5;
    latency.buckets[8] = commands - latency.buckets[6];
    let spent = |stage, sum_ns| StageMetrics {
        stage,
        size: SizeClass::Small,
        times: Histogram { sum_ns: commands * sum_ns, ..Histogram::default() },
    };
    // Of two sizes, so that readers have to add them up.
    let large = StageMetrics { size: SizeClass::Large, ..spent(Stage::Storage, 25_000) };
    let stages = vec![spent(Stage::Limits, 25_000), spent(Stage::Storage, 50_000), large];
    OperationMetrics { operation, bytes: commands * 4096, latency, stages }
}

/// Returns the metrics of a target after this number of seconds of the same load.
pub fn metrics(started_s: u64, seconds: u64) -> Metrics {
    let namespace = |nsid, busy: u64| NamespaceMetrics {
        nsid,
        size_bytes: Some(64 << 20),
        access: Vec::new(),
        operations: vec![
            operation(Operation::Read, seconds * 10_000 * busy),
            operation(Operation::Write, seconds * 5_000 * busy),
        ],
        errors: vec![ErrorMetrics {
            status: Some(nvme::Status::from_bits(0x285)),
            commands: seconds * 2 * busy,
        }],
        media_errors: 0,
        has_failed: Some(false),
        storage: None,
    };
    let queue = |queue_id| QueueMetrics {
        queue_id,
        commands: seconds * 7_500,
        depth: 8,
        stages_ns: Stage::ALL.map(|stage| if stage == Stage::Storage { seconds * 600_000_000 } else { 0 }),
    };
    let controller = |cntlid, subsystem: &str, queues| ControllerMetrics {
        cntlid,
        subsystem: subsystem.to_owned(),
        host_nqn: HOST.to_owned(),
        port: 1,
        queues,
    };
    let reactor = |number, cpu_ms| ReactorMetrics {
        number,
        connections: 2,
        half_open: 0,
        half_open_dropped: 0,
        cpu_time: Duration::from_millis(cpu_ms * seconds),
        waited: Duration::ZERO,
        rounds: seconds * 1_000,
        events: seconds * 2_500,
        buffer_bytes: 1 << 20,
    };
    Metrics {
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(started_s),
        subsystems: vec![SubsystemMetrics {
            nqn: NQN.into(),
            command_quiesce: Duration::from_secs(2),
            longest_operation: Duration::ZERO,
            absent: 0,
            namespaces: vec![namespace(1, 1), namespace(2, 0)],
        }],
        controllers: vec![controller(1, NQN, vec![queue(1), queue(2)]), controller(2, DISCOVERY, Vec::new())],
        reactors: vec![reactor(0, 500), reactor(1, 1010)],
        refusals: Vec::new(),
        keep_alive_expiries: 0,
        discovery_ended: 0,
        displaced: 0,
        changes_refused: 0,
        peculiarities: Vec::new(),
        tls_handshakes: Vec::new(),
        host_keys: Vec::new(),
        congestion_changes: Vec::new(),
        namespaces_omitted: 0,
        queues_omitted: 0,
    }
}

fn stream(seconds: u64) -> StreamInfo {
    let end = || ([127, 0, 0, 1], 4420).into();
    let busy_us = seconds * 250_000;
    let send_times = SendTimes { busy_us, rwnd_limited_us: busy_us / 2, sndbuf_limited_us: 0 };
    let subflow = SubflowInfo {
        local: end(),
        remote: end(),
        rtt_us: 45,
        rtt_variation_us: 5,
        retransmits: 3 * seconds,
        congestion_window: 10,
        delivery_rate_bytes: 0,
        acknowledged_bytes: seconds * 20_000_000,
        received_bytes: seconds * 10_000_000,
        send_times,
    };
    StreamInfo {
        transport: Transport::Tcp,
        congestion: "bbr".into(),
        rtt_us: 45,
        rtt_variation_us: 5,
        retransmits: 3 * seconds,
        congestion_window: 10,
        delivery_rate_bytes: 0,
        acknowledged_bytes: seconds * 20_000_000,
        received_bytes: seconds * 10_000_000,
        unread_bytes: 0,
        unsent_bytes: 4096,
        send_times,
        subflows: vec![subflow],
    }
}

/// Returns the target's status after this number of seconds.
pub fn status(seconds: u64) -> TargetStatus {
    let queue = |(queue_id, reactor)| QueueStatus {
        queue_id,
        entries: 128,
        reactor,
        peer: Some(([127, 0, 0, 1], 40_000 + queue_id).into()),
        stream: Some(stream(seconds)),
        tls: None,
    };
    let controller = |cntlid, subsystem: &str, queues: &[(u16, usize)]| ControllerStatus {
        cntlid,
        subsystem: subsystem.to_owned(),
        host_nqn: HOST.to_owned(),
        host_id: Default::default(),
        port: 1,
        ready: true,
        ending: false,
        keep_alive_ms: 10_000,
        authentication: None,
        queues: queues.iter().copied().map(queue).collect(),
    };
    let reactor =
        |number| ReactorStatus { number, cpu: Some(number), connections: 2, half_open: 0, cpu_time_us: 0 };
    TargetStatus {
        subsystems: Vec::new(),
        namespaces: Vec::new(),
        ports: vec![PortStatus { id: 1, address: ([127, 0, 0, 1], 4420).into(), transport: Transport::Tcp }],
        controllers: vec![controller(1, NQN, &[(0, 0), (1, 0), (2, 1)]), controller(2, DISCOVERY, &[(0, 1)])],
        reactors: vec![reactor(0), reactor(1)],
        quotas: Quotas::default(),
        refusals: BTreeMap::default(),
        peculiarities: std::collections::BTreeMap::new(),
        host_keys: Vec::new(),
    }
}

/// The sample of a target that started then and has run for this number of seconds, `at_s` seconds after the beginning.
pub fn sample(at_s: u64, started_s: u64, seconds: u64) -> Sample {
    let status = serde_json::to_value(status(seconds)).unwrap();
    let status = serde_json::from_value(status).unwrap();
    let metrics = metrics(started_s, seconds).to_prometheus();
    Sample::read(Duration::from_secs(at_s), status, &metrics).unwrap()
}

/// Rates of one second.
pub fn rates() -> Rates {
    Rates::of(&sample(2, 100, 31), Some(&sample(1, 100, 30)))
}
