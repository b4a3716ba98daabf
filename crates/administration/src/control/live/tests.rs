//! Looking live: over real sockets, by those who may and those who may not, by too many, and by one that never reads; what
//! is kept; and what numbers mean.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use engine::backend::BackendConfig;
use engine::target::{
    ErrorMetrics, FabricConfig, Histogram, Metrics, NamespaceConfig, NamespaceMetrics, NamespaceState,
    NamespaceStatus, Operation, OperationMetrics, PortConfig, SizeClass, Stage, StageMetrics, StorageMetrics,
    SubsystemConfig, SubsystemMetrics,
};
use hyper::body::Bytes;
use prerequisite::{patience, wait_until};
use serde_json::Value;
use tokio::sync::mpsc::error::TryRecvError;

use super::super::access::{Access, Identity};
use super::super::administration::Administration;
use super::super::fingerprint::Fingerprint;
use super::super::limits::{
    FINDINGS_MAX, HISTORY_NAMESPACES_MAX, HISTORY_POINTS_MAX, LIVE_HISTORY_STEP, LIVE_NAMESPACES_MAX,
    VIEWER_EVENTS_MAX, VIEWERS_MAX,
};
use super::super::schema_tests::mistake;
use super::super::socket::Listening;
use super::super::{Control, openapi, test_target};
use super::health::{Health, Level, Looked, Troubles};
use super::history::History;
use super::hub::{Hub, Message, Next};
use super::interval::{Interval, Sample};
use super::tick::Tick;
use crate::diagnosis;
use crate::spec::endpoint::Endpoint;

const NQN: &str = "nqn.2026-01.io.selvedge:live";
/// A target with a listener for those who have tokens.
struct Testbed {
    _folder: tempfile::TempDir,
    administration: Arc<Administration>,
    control: Control,
}

impl Testbed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.toml");
        let token = |role: &str| {
            let sha256 = Fingerprint::of(token(role).as_bytes());
            format!("[[token]]\nname = \"{role}\"\nrole = \"{role}\"\nsha256 = \"{sha256}\"\n")
        };
        std::fs::write(&path, token("read") + &token("metrics")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let target = test_target::start(FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        });
        let administration = Arc::new(Administration::new(target, None).unwrap());
        let endpoint: Endpoint = "tcp:127.0.0.1:0".parse().unwrap();
        let listening = Listening::on(&endpoint, false).unwrap().unwrap();
        let access = Arc::new(Access::new(Some(&path), None).unwrap_or_else(|failure| panic!("{failure:?}")));
        let control = Control::start(listening, access, None, administration.clone());
        let control = control.unwrap_or_else(|failure| panic!("{failure:?}"));
        Self { _folder: folder, administration, control }
    }

    fn address(&self) -> SocketAddr {
        self.control.endpoint().socket_address().unwrap()
    }

    /// Begins to ask, and reads the head of the answer.
    fn begin(&self, path: &str, role: &str) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        let token = token(role);
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let head = read_until(&mut stream, "\r\n\r\n");
        (stream, head)
    }

    fn ask(&self, path: &str, role: &str) -> (String, String) {
        let (mut stream, head) = self.begin(path, role);
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        (head, body)
    }
}

fn token(role: &str) -> String {
    format!("selvedge_token_of_{role}")
}

/// Reads until this has come.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "it ended with {:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

/// The data of all events of this name.
fn events(body: &str, name: &str) -> Vec<Value> {
    let begin = format!("event: {name}\ndata: ");
    let found = body.split(&begin).skip(1);
    found.map(|rest| serde_json::from_str(rest.lines().next().unwrap()).unwrap()).collect()
}

#[test]
fn who_looks_is_sent_who_is_there_and_what_is_done() {
    let (testbed, document) = (Testbed::new(), openapi::document().unwrap());
    let (head, body) = testbed.ask("/v1/live?once", "read");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
    let (rosters, ticks) = (events(&body, "roster"), events(&body, "tick"));
    assert_eq!((rosters.len(), ticks.len()), (1, 1), "{body}");
    for (name, value) in [("LiveRoster", &rosters[0]), ("LiveTick", &ticks[0])] {
        let schema = &document["components"]["schemas"][name];
        assert_eq!(mistake(&document, schema, value, name), None);
    }
    assert_eq!(rosters[0]["namespaces"][0]["subsystem"], NQN);
    assert_eq!(ticks[0]["health"]["level"], "ok", "{body}");
    assert_eq!(ticks[0]["health"]["line"], "1 namespace ready, 0 controllers connected");
    for path in ["/v1/history", &format!("/v1/subsystems/{NQN}/namespaces/1/history")] {
        let (head, body) = testbed.ask(path, "read");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let value: Value = serde_json::from_str(&body).unwrap();
        let schema = &document["components"]["schemas"]["History"];
        assert_eq!(mistake(&document, schema, &value, path), None);
    }
    let (head, _) = testbed.ask(&format!("/v1/subsystems/{NQN}/namespaces/2/history"), "read");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}

#[test]
fn a_single_request_returns_findings_and_the_areas_not_examined() {
    let (testbed, document) = (Testbed::new(), openapi::document().unwrap());
    let ask = || {
        let (head, body) = testbed.ask("/v1/findings", "read");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let found = ask();
    let schema = &document["components"]["schemas"]["Findings"];
    assert_eq!(mistake(&document, schema, &found, "Findings"), None);
    assert_eq!(found["findings"], serde_json::json!([]));
    assert!(found["interval_s"].as_f64().is_some_and(|interval_s| interval_s >= 0.9), "{found}");
    let elsewhere = found["not_looked_at"].as_array().unwrap();
    assert_eq!(elsewhere.len(), 3, "{found}");
    assert!(elsewhere.iter().all(|what| what["reason"].as_str().unwrap().starts_with("selvedge doctor")));
    // A request soon after shares the result.
    assert_eq!(ask(), found);
    let (head, _) = testbed.ask("/v1/findings", "metrics");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let administration = &testbed.administration;
    assert!(!administration.live().is_running(), "it takes no viewer");
}

#[test]
fn who_looks_is_sent_findings_as_soon_as_two_looks_are_made() {
    let testbed = Testbed::new();
    let (mut first, _) = testbed.begin("/v1/live", "read");
    read_until(&mut first, "event: findings\ndata: ");
    let found: Value = serde_json::from_str(&read_until(&mut first, "\n")).unwrap();
    assert_eq!(found["findings"], serde_json::json!([]));
    // A later viewer does not wait for the next findings.
    let (mut second, _) = testbed.begin("/v1/live", "read");
    read_until(&mut second, "event: findings\ndata: ");
    let again: Value = serde_json::from_str(&read_until(&mut second, "\n")).unwrap();
    assert_eq!(again["time_s"], found["time_s"]);
}

#[test]
fn packet_paths_are_listed_and_drawn_for_callers_with_read_access() {
    let (testbed, document) = (Testbed::new(), openapi::document().unwrap());
    let (head, body) = testbed.ask("/v1/topology", "read");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}{body}");
    let seen: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        mistake(&document, &document["components"]["schemas"]["PacketPaths"], &seen, "PacketPaths"),
        None
    );
    assert_eq!(seen["topology"]["flows"], serde_json::json!([]), "no host is connected");
    let (head, picture) = testbed.ask("/v1/topology/picture", "read");
    assert!(head.contains("content-type: image/svg+xml") && picture.starts_with("<svg "), "{head}{picture}");
    assert!(head.contains("content-security-policy: default-src 'none'; style-src 'unsafe-inline'; sandbox"));
    let (_, bare) = testbed.ask("/v1/topology/picture?bare", "read");
    assert!(picture.contains("<style>") && bare.starts_with("<svg ") && !bare.contains("style"), "{bare}");
    for path in ["/v1/topology", "/v1/topology/picture"] {
        let (head, body) = testbed.ask(path, "metrics");
        assert!(head.starts_with("HTTP/1.1 403") && body.contains("it takes the role read"), "{head}{body}");
    }
}

#[test]
fn only_those_who_may_read_may_look() {
    let testbed = Testbed::new();
    let (head, body) = testbed.ask("/v1/live", "metrics");
    assert!(head.starts_with("HTTP/1.1 403") && body.contains("it takes the role read"), "{head}{body}");
    let (head, _) = testbed.ask("/v1/history", "metrics");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(!testbed.administration.live().is_running(), "a refused viewer starts no sampling");
    let (head, _) = testbed.ask("/v1/live", "unknown");
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
}

#[test]
fn a_page_of_another_site_may_not_ask_even_with_a_token() {
    let testbed = Testbed::new();
    for (site, status) in [("cross-site", "403"), ("same-origin", "200")] {
        let mut stream = TcpStream::connect(testbed.address()).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        let token = token("read");
        let head = format!(
            "GET /v1/status HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: {site}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let head = read_until(&mut stream, "\r\n\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{site}: {head}");
    }
}

#[test]
fn only_a_few_look_at_a_time() {
    let testbed = Testbed::new();
    let mut viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| testbed.begin("/v1/live", "read")).collect();
    assert!(viewers.iter().all(|(_, head)| head.starts_with("HTTP/1.1 200")));
    let (head, body) = testbed.ask("/v1/live", "read");
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("close one of them"), "{head}{body}");
    assert!(testbed.ask("/v1/status", "read").0.starts_with("HTTP/1.1 200"), "others are served beside them");
    viewers.pop();
    wait_until("a viewer that is gone leaves its place", || {
        testbed.administration.live().viewers() < VIEWERS_MAX
    });
    assert!(testbed.begin("/v1/live", "read").1.starts_with("HTTP/1.1 200"));
}

#[test]
fn a_caller_with_all_places_leaves_half_of_them_to_another() {
    let hub = Hub::default();
    let start = |_| std::thread::Builder::new().spawn(|| {});
    let [many, other] = ["many", "other"].map(|name| Identity::Token(name.to_owned()));
    let mut of_many: Vec<_> = (0..VIEWERS_MAX).map(|_| hub.enter(&many, start).unwrap()).collect();
    assert!(hub.enter(&many, start).is_err(), "all places are its own");
    let _of_other: Vec<_> = (0..VIEWERS_MAX / 2).map(|_| hub.enter(&other, start).unwrap()).collect();
    assert!(hub.enter(&other, start).is_err() && hub.enter(&many, start).is_err(), "both have as many");
    let ended: Vec<bool> = of_many
        .iter_mut()
        .map(|viewer| viewer.try_recv().err() == Some(TryRecvError::Disconnected))
        .collect();
    let oldest: Vec<bool> = (0..VIEWERS_MAX).map(|at| at < VIEWERS_MAX / 2).collect();
    assert_eq!(ended, oldest);
}

#[test]
fn a_stream_ends_in_order_with_its_server_and_so_does_sampling() {
    let testbed = Testbed::new();
    let (mut stream, _) = testbed.begin("/v1/live", "read");
    read_until(&mut stream, "event: tick");
    assert!(testbed.administration.live().is_running());
    let Testbed { administration, control, _folder } = testbed;
    drop(control);
    assert!(!administration.live().is_running());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "the last chunk is the end: {rest:?}");
}

#[test]
fn sampling_begins_again_with_the_next_viewer() {
    let testbed = Testbed::new();
    for _ in 0..2 {
        let (_, body) = testbed.ask("/v1/live?once", "read");
        assert_eq!(events(&body, "tick").len(), 1);
        wait_until("the viewer is gone", || testbed.administration.live().viewers() == 0);
        testbed.administration.live().rest();
        assert!(!testbed.administration.live().is_running());
    }
}

#[test]
fn a_viewer_that_never_reads_costs_a_few_events_and_delays_no_other() {
    let hub = Hub::default();
    let start = |_| std::thread::Builder::new().spawn(|| {});
    let caller = Identity::Token("read".to_owned());
    let silent = hub.enter(&caller, start).unwrap();
    let mut reader = hub.enter(&caller, start).unwrap();
    for number in 0..1000 {
        hub.send(&Message::Tick(Bytes::from(format!("{number}"))));
        let Ok(Message::Tick(bytes)) = reader.try_recv() else { panic!("it is sent each") };
        assert_eq!(bytes, format!("{number}"));
    }
    assert_eq!(silent.len(), VIEWER_EVENTS_MAX);
    drop(silent);
    assert_eq!(hub.viewers(), 1);
    assert_eq!(hub.wait(1, None), Next::Tick { wants_roster: true });
    assert_eq!(hub.wait(0, None), Next::End, "a thread from before ends");
    drop(reader);
    assert_eq!(hub.wait(1, None), Next::Step, "the history goes on without viewers");
    hub.rest();
    assert_eq!(hub.wait(1, None), Next::End);
    // A viewer that comes while that thread ends has another.
    let mut later = hub.enter(&caller, start).unwrap();
    assert_eq!(hub.wait(3, None), Next::Tick { wants_roster: true });
    hub.send(&Message::Tick(Bytes::new()));
    assert!(later.try_recv().is_ok());
}

fn sample(second: u64, subsystems: Vec<SubsystemMetrics>, base: Instant) -> Sample {
    let metrics = Metrics {
        started: SystemTime::UNIX_EPOCH,
        subsystems,
        controllers: Vec::new(),
        reactors: Vec::new(),
        refusals: vec![("not_allowed", 0)],
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
    };
    let after = Duration::from_secs(second);
    Sample { at: base + after, time: SystemTime::UNIX_EPOCH + after, metrics }
}

/// A subsystem whose namespaces have read this many blocks, half of which limits held back for 2 µs.
fn subsystem(namespaces: u32, commands: u64) -> SubsystemMetrics {
    let mut latency = Histogram { sum_ns: commands * 3000, ..Histogram::default() };
    latency.buckets[2] = commands;
    let mut times = Histogram { sum_ns: commands / 2 * 2000, ..Histogram::default() };
    times.buckets[1] = commands / 2;
    let stages = vec![StageMetrics { stage: Stage::Limits, size: SizeClass::Small, times }];
    let read = OperationMetrics { operation: Operation::Read, bytes: commands * 4096, latency, stages };
    let namespace = |nsid| NamespaceMetrics {
        nsid,
        size_bytes: Some(1 << 20),
        access: Vec::new(),
        operations: vec![read.clone()],
        errors: vec![ErrorMetrics { status: None, commands: commands / 10 }],
        media_errors: 0,
        has_failed: Some(false),
        storage: None,
    };
    SubsystemMetrics {
        nqn: NQN.to_owned(),
        command_quiesce: Duration::from_secs(2),
        longest_operation: Duration::ZERO,
        absent: 0,
        namespaces: (1..=namespaces).map(namespace).collect(),
    }
}

fn namespace_status(state: NamespaceState) -> NamespaceStatus {
    NamespaceStatus {
        subsystem: NQN.to_owned(),
        nsid: 1,
        state,
        size_bytes: None,
        uuid: None,
        nguid: None,
        reason: Some("Input/output error".to_owned()),
        write_protected: false,
        remarks: Vec::new(),
        may_tear: false,
        oldest_operation_ms: 0,
        late_operations: 0,
    }
}

fn health(now: &Sample, before: &Sample, namespaces: &[NamespaceStatus]) -> Health {
    diagnosed(now, before, namespaces, None)
}

fn diagnosed(
    now: &Sample,
    before: &Sample,
    namespaces: &[NamespaceStatus],
    diagnosed: Option<&diagnosis::finding::Finding>,
) -> Health {
    let interval = Interval::between(now, before);
    let minute = &Troubles::of(&before.metrics);
    Health::of(&Looked { now, before, interval: &interval, minute, namespaces, group: None, diagnosed })
}

#[test]
fn the_line_has_the_finding_of_doctor_unless_another_is_as_serious() {
    use diagnosis::finding::{Finding, Severity};
    let base = Instant::now();
    let (before, now) = (sample(0, vec![subsystem(1, 0)], base), sample(1, vec![subsystem(1, 0)], base));
    for (severity, level) in [
        (Severity::Outage, Level::Warning),
        (Severity::Limits, Level::Notice),
        (Severity::Slows, Level::Notice),
        (Severity::MayCost, Level::Ok),
    ] {
        let found = Finding::new(severity, "nqn.h", "nqn.h does not read".to_owned());
        let health = diagnosed(&now, &before, &[namespace_status(NamespaceState::Ready)], Some(&found));
        assert_eq!(health.level, level, "{health:?}");
        assert_eq!(health.line == "nqn.h does not read", level > Level::Ok, "{health:?}");
        let failed = [namespace_status(NamespaceState::Failed)];
        let health = diagnosed(&now, &before, &failed, Some(&found));
        assert_eq!((health.level, health.findings.len()), (Level::Critical, 1), "{health:?}");
    }
}

#[test]
fn a_load_balancing_group_without_service_or_away_from_its_location_is_named() {
    let base = Instant::now();
    let (before, now) = (sample(0, vec![subsystem(1, 0)], base), sample(1, vec![subsystem(1, 0)], base));
    let interval = Interval::between(&now, &before);
    let minute = &Troubles::of(&before.metrics);
    let namespaces = &[namespace_status(NamespaceState::Ready)];
    for (is_degraded, state, level) in [
        (false, "serving", Level::Ok),
        (true, "serving", Level::Warning),
        (false, "fencing", Level::Critical),
    ] {
        let group = serde_json::json!({
            "id": 7, "preferred": "b", "location": "east", "is_degraded": is_degraded, "owner": "a",
            "state": state, "namespaces": 1, "is_served_here": true,
        });
        let group = serde_json::json!({
            "group": "rbd/g", "gateway": "a", "has_lease": true, "version": 1, "gateways": [],
            "load_balancing_groups": [group],
        });
        let group: gateway::GroupStatus = serde_json::from_value(group).unwrap();
        let (now, before, interval, group) = (&now, &before, &interval, Some(&group));
        let health =
            Health::of(&Looked { now, before, interval, minute, namespaces, group, diagnosed: None });
        assert_eq!(health.level, level, "{health:?}");
        assert_eq!(health.line.starts_with("load-balancing group 7 is degraded"), is_degraded, "{health:?}");
    }
}

#[test]
fn a_tick_says_what_was_done_since_the_last_one() {
    let base = Instant::now();
    let before = sample(10, vec![subsystem(1, 100)], base);
    let now = sample(12, vec![subsystem(1, 300)], base);
    let interval = Interval::between(&now, &before);
    let tick = Tick::new(&now, &before, &interval, Health::default());
    let tick = serde_json::to_value(&tick).unwrap();
    let flow = &tick["subsystems"][0]["namespaces"][0]["read"];
    assert_eq!((tick["time_s"].as_f64(), tick["interval_s"].as_f64()), (Some(12.0), Some(2.0)));
    let number = |name: &str| flow[name].as_f64().unwrap();
    assert_eq!((number("iops"), number("bytes_per_s"), number("mean_us")), (100.0, 409_600.0, 3.0));
    assert_eq!((number("p50_us_max"), number("held_per_s")), (4.0, 50.0));
    assert_eq!(
        flow["stages_us"]["limits"].as_f64(),
        Some(1.0),
        "of each command, whether it was held or not"
    );
    assert_eq!(tick["all"]["errors_per_s"].as_f64(), Some(10.0));
    assert_eq!(tick["all"]["read"]["buckets"], serde_json::json!([0, 0, 200]));
    assert_eq!(tick["all"]["read"]["stage_buckets"], serde_json::json!({ "limits": [0, 100] }));
    assert_eq!(flow["stage_buckets"], Value::Null, "a namespace has a history of its own");
    let mut history = History::default();
    history.push(&now, &interval);
    let history = serde_json::to_value(history.of_namespace(NQN, 1)).unwrap();
    assert_eq!(history["points"][0]["read"]["stage_buckets"], serde_json::json!({ "limits": [0, 100] }));
    let restarted = sample(13, vec![subsystem(1, 5)], base);
    assert_eq!(Interval::between(&restarted, &now).all.commands(), 0, "what fell is not known");
    assert!(Interval::between(&now, &now).all.is_idle());
}

#[test]
fn a_tick_has_the_busiest_namespaces_where_there_are_too_many() {
    let base = Instant::now();
    let count = LIVE_NAMESPACES_MAX as u32 + 9;
    let (first, mut second) = (subsystem(count, 100), subsystem(count, 200));
    // The last one is the busiest.
    second.namespaces.last_mut().unwrap().operations[0].latency.buckets[2] += 50;
    let (before, now) = (sample(0, vec![first], base), sample(1, vec![second], base));
    let interval = Interval::between(&now, &before);
    let tick = Tick::new(&now, &before, &interval, Health::default());
    let tick = serde_json::to_value(&tick).unwrap();
    let shown = tick["subsystems"][0]["namespaces"].as_array().unwrap();
    assert_eq!((shown.len(), tick["namespaces_omitted"].as_u64()), (LIVE_NAMESPACES_MAX, Some(9)));
    assert!(shown.iter().any(|namespace| namespace["nsid"] == count));
}

#[test]
fn an_hour_of_history_is_all_that_is_kept() {
    let (mut history, base) = (History::default(), Instant::now());
    let count = HISTORY_NAMESPACES_MAX as u32 + 5;
    let step_s = LIVE_HISTORY_STEP.as_secs();
    for step in 0..HISTORY_POINTS_MAX as u64 + 100 {
        let before = sample(step * step_s, vec![subsystem(count, step * 10)], base);
        let now = sample((step + 1) * step_s, vec![subsystem(count, step * 10 + 10)], base);
        history.push(&now, &Interval::between(&now, &before));
    }
    assert_eq!(history.of_all().len(), HISTORY_POINTS_MAX);
    assert_eq!(history.of_namespace(NQN, 1).len(), HISTORY_POINTS_MAX);
    assert_eq!(history.of_namespace(NQN, count).len(), 0, "the places were taken");
    // When the first ones have done nothing for an hour, others have their places.
    let steps = 3 * HISTORY_POINTS_MAX as u64;
    for step in steps..steps + 2 {
        let quiet = sample((step + 1) * step_s, vec![subsystem(0, 0)], base);
        history.push(&quiet, &Interval::default());
    }
    assert_eq!((history.of_namespace(NQN, 1).len(), history.of_all().len()), (0, 2));
}

#[test]
fn health_is_one_line_and_why() {
    let base = Instant::now();
    let quiet = sample(0, vec![subsystem(1, 0)], base);
    let ready = [NamespaceStatus { reason: None, ..namespace_status(NamespaceState::Ready) }];
    assert_eq!(health(&sample(1, vec![subsystem(1, 0)], base), &quiet, &ready).level, Level::Ok);
    // Limits and errors are notices, and what is served stands above them.
    let used = sample(1, vec![subsystem(1, 100)], base);
    let found = health(&used, &quiet, &ready);
    assert_eq!((found.level, found.findings.len()), (Level::Notice, 2), "{found:?}");
    assert!(found.findings.iter().any(|finding| finding.what.contains("limits delay 50 %")));
    let found = health(&used, &quiet, &[namespace_status(NamespaceState::Failed)]);
    assert_eq!(found.level, Level::Critical);
    assert!(found.line.starts_with("namespace 1 takes no writes"), "{}", found.line);
    assert!(
        found.line.contains("(Input/output error)") && found.line.ends_with("; and 2 more"),
        "{}",
        found.line
    );
    assert_eq!((found.findings[0].subsystem.as_deref(), found.findings[0].nsid), (Some(NQN), Some(1)));
}

#[test]
fn health_knows_slow_storage_refused_hosts_and_how_many_findings_are_enough() {
    let base = Instant::now();
    let mut slow = subsystem(1, 0);
    let oldest =
        |seconds| Some(StorageMetrics { oldest: Duration::from_secs(seconds), ..StorageMetrics::default() });
    slow.namespaces[0].storage = oldest(1);
    let before = sample(0, vec![subsystem(1, 0)], base);
    assert_eq!(health(&sample(1, vec![slow.clone()], base), &before, &[]).level, Level::Warning);
    slow.namespaces[0].storage = oldest(2);
    assert_eq!(health(&sample(1, vec![slow], base), &before, &[]).level, Level::Critical);
    let mut refusing = sample(1, Vec::new(), base);
    refusing.metrics.refusals = vec![("not_allowed", 3)];
    let found = health(&refusing, &before, &[]);
    assert_eq!(found.line, "3 Connects refused in the last minute (not allowed)");
    let mut full = sample(1, vec![subsystem(1, 10)], base);
    full.metrics.subsystems[0].namespaces[0].errors[0].status = Some(nvme::Status::CAPACITY_EXCEEDED);
    let found = health(&full, &before, &[]);
    assert_eq!(found.level, Level::Critical);
    assert!(
        found.line.contains("1 write failed") && found.line.contains("storage is full"),
        "{}",
        found.line
    );
    let many: Vec<NamespaceStatus> = (0..1000).map(|_| namespace_status(NamespaceState::Absent)).collect();
    let found = health(&before, &before, &many);
    assert_eq!((found.findings.len(), found.findings_omitted), (FINDINGS_MAX, 1000 - FINDINGS_MAX));
}
