//! Metrics of a target are what hosts did: every command counted once, in a text that every scraper
//! reads the same way, and the dashboard and the manual know the same metrics.

use std::collections::{BTreeMap, BTreeSet};

use crate::prometheus_text::{Exposition, Labels};
use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, NQN, Options, Random, SPACES, Space, TestTarget, assert_status,
    pattern, subsystem,
};
use engine::target::{Metrics, Target};
use nvme::io::{CopyFormat, Fused, IoCommand, encode_copy_ranges, encode_ranges};
use nvme::reservation::{PersistenceChange, RegisterAction};
use nvme::tcp::Digests;
use nvme::{Status, SubmissionEntry};
use prerequisite::wait_until;

const DASHBOARD: &str = include_str!("../../../../packaging/grafana/selvedge.json");
const RULES: &str = include_str!("../../../../packaging/prometheus/selvedge.rules.yaml");
const RULES_TEST: &str = include_str!("../../../../packaging/prometheus/selvedge.rules.test.yaml");
const MANUAL: &str = include_str!("../../../../docs/metrics.md");

/// A target by itself, with the folder that its files need.
fn start(engine: engine::ring::Engine) -> (Target, TestTarget) {
    let mut test = TestTarget::start(engine);
    (test.take(), test)
}

fn scrape(target: &Target) -> Exposition {
    Exposition::parse(&target.metrics().to_prometheus())
}

/// Expected counts: commands and bytes by namespace and operation, failed commands by namespace and
/// code.
#[derive(Default)]
struct Ledger {
    done: BTreeMap<(u32, &'static str), (u64, u64)>,
    failed: BTreeMap<(u32, u16), u64>,
}

impl Ledger {
    fn done(&mut self, nsid: u32, operation: &'static str, bytes: usize) {
        let entry = self.done.entry((nsid, operation)).or_default();
        entry.0 += 1;
        entry.1 += bytes as u64;
    }

    fn failed(&mut self, nsid: u32, status: Status) {
        *self.failed.entry((nsid, status.without_flags().bits())).or_default() += 1;
    }

    /// Does a command that goes well.
    fn run(
        &mut self,
        queue: &mut Client,
        nsid: u32,
        operation: &'static str,
        command: &IoCommand,
        give: Give<'_>,
    ) {
        let reply = queue.run(command.encode(nsid), give);
        assert_eq!(reply.status, Status::SUCCESS, "{command:?} on namespace {nsid}");
        let bytes = match give {
            Give::Nothing => 0,
            Give::Room(length) => length as usize,
            Give::Capsule(data) | Give::Asked(data) | Give::AsIs(data) => data.len(),
        };
        self.done(nsid, operation, bytes);
    }

    /// Does a command that fails with this status.
    fn fail(
        &mut self,
        queue: &mut Client,
        counted: u32,
        entry: SubmissionEntry,
        give: Give<'_>,
        status: Status,
    ) {
        assert_status(queue.run(entry, give).status, status, "a command that should fail");
        self.failed(counted, status);
    }

    /// Compares the numbers with what should have been counted.
    fn check(&self, metrics: &Metrics, what: &str) {
        let found = &metrics.subsystems[0];
        assert_eq!((metrics.subsystems.len(), &*found.nqn), (1, NQN), "{what}");
        let namespaces: BTreeSet<u32> = found.namespaces.iter().map(|namespace| namespace.nsid).collect();
        let named = SPACES.iter().map(|space| space.nsid).chain(self.failed.keys().map(|(nsid, _)| *nsid));
        assert_eq!(namespaces, named.collect(), "{what}");
        let (mut done, mut failed) = (BTreeMap::new(), BTreeMap::new());
        for namespace in &found.namespaces {
            for metrics in &namespace.operations {
                if metrics.commands() > 0 {
                    let key = (namespace.nsid, metrics.operation.name());
                    done.insert(key, (metrics.commands(), metrics.bytes));
                }
            }
            for error in &namespace.errors {
                let status = error.status.expect("fewer statuses than there is room for");
                failed.insert((namespace.nsid, status.bits()), error.commands);
            }
        }
        assert_eq!(done, self.done, "{what}");
        assert_eq!(failed, self.failed, "{what}");
    }

    /// The same of the text.
    fn check_text(&self, text: &Exposition, what: &str) {
        for ((nsid, operation), (commands, bytes)) in &self.done {
            let nsid = nsid.to_string();
            let labels = [("subsystem", NQN), ("nsid", &nsid), ("operation", operation)];
            let all: Labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let value = |name: &str| text.value(name, &all);
            let what = format!("{what}, {labels:?}");
            assert_eq!(value("selvedge_commands_total"), Some(*commands as f64), "{what}");
            assert_eq!(value("selvedge_command_bytes_total"), Some(*bytes as f64), "{what}");
            assert_eq!(value("selvedge_command_duration_seconds_count"), Some(*commands as f64), "{what}");
        }
        let done: u64 = self.done.values().map(|(commands, _)| commands).sum();
        assert_eq!(text.sum("selvedge_commands_total", &[]), done as f64, "{what}");
        for ((nsid, code), commands) in &self.failed {
            let (nsid, code) = (nsid.to_string(), format!("{code:#05x}"));
            let labels = [("subsystem", NQN), ("nsid", &*nsid), ("code", &*code)];
            let found: Vec<f64> =
                text.with("selvedge_command_errors_total", &labels).map(|sample| sample.value).collect();
            assert_eq!(found, [*commands as f64], "{what}, {labels:?}");
        }
        let failed: u64 = self.failed.values().sum();
        assert_eq!(text.sum("selvedge_command_errors_total", &[]), failed as f64, "{what}");
    }
}

const fn read(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Read { start, blocks, force_unit_access: false }
}

const fn write(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Write { start, blocks, force_unit_access: false }
}

/// Commands of every operation that go well, different numbers of each.
fn do_everything(queue: &mut Client, space: Space, ledger: &mut Ledger) {
    let (nsid, unit) = (space.nsid, space.block as usize);
    // Zeroes are what is everywhere in a namespace that keeps nothing, too.
    let data = vec![0; 2 * unit];
    for _ in 0..3 {
        ledger.run(queue, nsid, "write", &write(8, 2), Give::Capsule(&data));
        ledger.run(queue, nsid, "write", &write(8, 2), Give::Asked(&data));
        ledger.run(queue, nsid, "compare", &IoCommand::Compare { start: 8, blocks: 2 }, Give::Asked(&data));
    }
    for blocks in 1..=4 {
        ledger.run(queue, nsid, "read", &read(8, blocks), Give::Room(blocks * space.block));
    }
    for force_unit_access in [false, true] {
        let zeroes = IoCommand::WriteZeroes { start: 64, blocks: 8, force_unit_access, deallocate: false };
        ledger.run(queue, nsid, "write_zeroes", &zeroes, Give::Nothing);
    }
    let ranges = encode_ranges(&[(64, 8), (80, 1)]);
    let deallocate = IoCommand::DatasetManagement { ranges: 2, deallocate: true };
    ledger.run(queue, nsid, "dataset_management", &deallocate, Give::Asked(&ranges));
    ledger.run(queue, nsid, "flush", &IoCommand::Flush, Give::Nothing);
    ledger.run(queue, nsid, "verify", &IoCommand::Verify { start: 0, blocks: 100 }, Give::Nothing);
    let ranges = encode_copy_ranges(CopyFormat::Format0, &[(0, 4), (8, 2)]);
    let copy =
        IoCommand::Copy { start: 200, ranges: 2, format: CopyFormat::Format0, force_unit_access: false };
    ledger.run(queue, nsid, "copy", &copy, Give::Capsule(&ranges));
}

/// A fused Compare and Write that goes well.
fn do_pair(queue: &mut Client, space: Space, ledger: &mut Ledger) {
    let data = vec![0; space.block as usize];
    let compare = IoCommand::Compare { start: 400, blocks: 1 }.encode_fused(space.nsid, Fused::First);
    queue.submit(compare, Give::Capsule(&data));
    queue.submit(write(400, 1).encode_fused(space.nsid, Fused::Second), Give::Capsule(&data));
    for operation in ["compare", "write"] {
        assert_eq!(queue.wait().status, Status::SUCCESS, "a fused pair on {space:?}");
        ledger.done(space.nsid, operation, data.len());
    }
}

/// Commands that fail where they are decoded, in a slot, or on a namespace there is none of.
fn do_wrong(queue: &mut Client, space: Space, ledger: &mut Ledger) {
    let (nsid, unit) = (space.nsid, space.block);
    for _ in 0..2 {
        let beyond = read(space.blocks(), 1).encode(nsid);
        ledger.fail(queue, nsid, beyond, Give::Room(unit), Status::LBA_OUT_OF_RANGE);
    }
    let other = vec![0xa5; unit as usize];
    let compare = IoCommand::Compare { start: 8, blocks: 1 }.encode(nsid);
    ledger.fail(queue, nsid, compare, Give::Asked(&other), Status::COMPARE_FAILURE);
    let unknown = SubmissionEntry::new(0x7e, nsid);
    ledger.fail(queue, nsid, unknown, Give::Nothing, Status::INVALID_OPCODE);
    for stranger in [5, 0, 1 << 20] {
        let stray = read(0, 1).encode(stranger);
        ledger.fail(queue, 0, stray, Give::Room(unit), Status::INVALID_NAMESPACE);
    }
}

#[test]
fn every_command_is_counted_once() {
    for engine in ENGINES {
        let (target, _test) = start(engine);
        let mut ledger = Ledger::default();
        // A data digest sends even what memory answers at once through slots.
        for data in [false, true] {
            let options = Options { digests: Digests { header: false, data }, ..Options::default() };
            let host = Host::connect_with(target.ports()[0], options);
            for (queue_id, space) in (1..).zip(SPACES) {
                let mut queue = host.io(queue_id);
                do_everything(&mut queue, space, &mut ledger);
                do_pair(&mut queue, space, &mut ledger);
                do_wrong(&mut queue, space, &mut ledger);
                let what = format!("{engine:?}, data digest {data}, {space:?}");
                ledger.check(&target.metrics(), &what);
                ledger.check_text(&scrape(&target), &what);
            }
        }
    }
}

#[test]
fn spoiled_blocks_and_reservations_are_counted() {
    for engine in ENGINES {
        let (target, _test) = start(engine);
        let mut ledger = Ledger::default();
        let (_host, mut queue) = Host::with_queue(target.ports()[0]);
        for (number, space) in SPACES.into_iter().enumerate() {
            let nsid = space.nsid;
            let spoil = IoCommand::WriteUncorrectable { start: 16, blocks: 4 };
            ledger.run(&mut queue, nsid, "write_uncorrectable", &spoil, Give::Nothing);
            let spoiled = read(19, 1).encode(nsid);
            let status = Status::UNRECOVERED_READ_ERROR;
            ledger.fail(&mut queue, nsid, spoiled, Give::Room(space.block), status);
            let register = IoCommand::ReservationRegister {
                action: RegisterAction::Register,
                ignore_existing_key: false,
                persistence: PersistenceChange::NoChange,
            };
            let mut keys = [0; 16];
            keys[8] = 7;
            ledger.run(&mut queue, nsid, "reservation", &register, Give::Capsule(&keys));
            let metrics = target.metrics();
            ledger.check(&metrics, &format!("{engine:?} {space:?}"));
            let media_errors = metrics.subsystems[0].namespaces[number].media_errors;
            assert_eq!(media_errors, 1, "{engine:?} {space:?}");
        }
        ledger.check_text(&scrape(&target), &format!("{engine:?}"));
    }
}

#[test]
fn namespaces_that_hosts_make_up_are_one_series() {
    let (target, _test) = start(ENGINES[1]);
    let (_host, mut queue) = Host::with_queue(target.ports()[0]);
    for nsid in 1000..2000 {
        queue.run(read(0, 1).encode(nsid), Give::Room(512));
    }
    let text = scrape(&target);
    let errors: Vec<f64> =
        text.with("selvedge_command_errors_total", &[]).map(|sample| sample.value).collect();
    assert_eq!(errors, [1000.0]);
}

#[test]
fn latencies_are_within_what_the_host_saw() {
    for engine in ENGINES {
        let (target, _test) = start(engine);
        let (_host, mut queue) = Host::with_queue(target.ports()[0]);
        let began = std::time::Instant::now();
        for space in SPACES.into_iter().filter(|space| space.kind == Kind::File) {
            for start in 0..50 {
                let data = pattern(space.block as usize, start);
                assert_eq!(queue.write(space, start, &data, false).status, Status::SUCCESS);
                assert_eq!(queue.read(space, start, 1).status, Status::SUCCESS);
            }
        }
        // One command after the other: together they cannot take longer than all of it.
        let took = began.elapsed().as_secs_f64();
        let text = scrape(&target);
        let sum = text.sum("selvedge_command_duration_seconds_sum", &[]);
        assert!(sum > 0.0 && sum <= took, "{engine:?}: {sum} s of {took} s");
        assert_eq!(text.sum("selvedge_command_duration_seconds_count", &[]), 200.0, "{engine:?}");
        // All of it is in stages, of this one queue and of commands of this one size.
        let queue = text.sum("selvedge_queue_stage_seconds_total", &[]);
        let size = text.sum("selvedge_command_stage_seconds_sum", &[("size", "4k")]);
        assert!((queue - sum).abs() < 1e-6 && (size - sum).abs() < 1e-6, "{engine:?}: {queue} {size} {sum}");
    }
}

/// Fails when a counter fell, or when one of what was done vanished.
fn assert_risen(before: &Exposition, after: &Exposition, what: &str) {
    for sample in before.rising() {
        let now = after.value(&sample.name, &sample.labels);
        let may_vanish = sample.name.starts_with("selvedge_queue_") || sample.value == 0.0;
        assert!(may_vanish || now.is_some(), "{what}: {sample:?} vanished");
        assert!(now.is_none_or(|now| now >= sample.value), "{what}: {sample:?} fell to {now:?}");
    }
}

#[test]
fn counters_never_fall() {
    let mut random = Random::seeded("counters_never_fall");
    for engine in ENGINES {
        let (target, _test) = start(engine);
        let mut host = Host::connect(target.ports()[0]);
        let mut queues: BTreeMap<u16, Client> = BTreeMap::new();
        let whole = target.config();
        let mut done = 0;
        let mut before = scrape(&target);
        for step in 0..60 {
            let queue_id = 1 + random.below(4) as u16;
            let what = match random.below(8) {
                0 => {
                    queues.remove(&queue_id);
                    "a queue closes"
                }
                1 => {
                    queues.clear();
                    host = Host::connect(target.ports()[0]);
                    "the host connects again"
                }
                2 => {
                    let mut config = target.config();
                    let namespaces = &mut config.subsystem_mut(NQN).unwrap().namespaces;
                    if namespaces.len() > 1 {
                        namespaces.remove(random.below(namespaces.len() as u64) as usize);
                    }
                    target.apply(&config).unwrap();
                    "a namespace goes"
                }
                3 => {
                    target.apply(&whole).unwrap();
                    "all namespaces are there"
                }
                _ => {
                    // The former queue with this identifier may still be on its way out.
                    wait_until("a queue connects", || {
                        queues.contains_key(&queue_id) || {
                            let (client, reply) = host.try_io(queue_id);
                            reply.status.is_success() && queues.insert(queue_id, client).is_none()
                        }
                    });
                    let queue = queues.get_mut(&queue_id).unwrap();
                    for _ in 0..=random.below(20) {
                        let space = SPACES[random.below(SPACES.len() as u64) as usize];
                        queue.read(space, random.below(space.blocks()), 1);
                        done += 1;
                    }
                    "commands"
                }
            };
            let after = scrape(&target);
            assert_risen(&before, &after, &format!("{engine:?}, step {step}, {what}"));
            let counted = |name| after.sum(name, &[]) as u64;
            let (good, bad) = (counted("selvedge_commands_total"), counted("selvedge_command_errors_total"));
            assert_eq!(good + bad, done, "{engine:?}, step {step}, {what}");
            before = after;
        }
    }
}

#[test]
fn a_queue_tells_what_it_took_and_what_is_under_way() {
    let (target, _test) = start(ENGINES[1]);
    let host = Host::connect(target.ports()[0]);
    let controller = host.controller_id.to_string();
    let labels = [("subsystem", NQN), ("controller", &*controller), ("queue", "2")];
    let of_queue =
        |name: &str| -> Vec<f64> { scrape(&target).with(name, &labels).map(|sample| sample.value).collect() };
    assert!(of_queue("selvedge_queue_depth").is_empty());
    let mut queue = host.io(2);
    // Writes whose data never comes are under way for good.
    queue.answers = false;
    let data = pattern(512, 1);
    for _ in 0..3 {
        queue.submit(write(0, 1).encode(1), Give::Asked(&data));
    }
    wait_until("three commands are under way", || of_queue("selvedge_queue_depth") == [3.0]);
    assert_eq!(of_queue("selvedge_queue_commands_total"), [3.0]);
    drop(queue);
    wait_until("the queue is gone", || of_queue("selvedge_queue_depth").is_empty());
    let mut queue = host.io(2);
    queue.read(SPACES[0], 0, 1);
    wait_until("the queue goes on counting", || of_queue("selvedge_queue_commands_total") == [4.0]);
    assert_eq!(of_queue("selvedge_queue_depth"), [0.0]);
}

#[test]
fn present_objects_are_reported() {
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let before = now();
    let mut test = TestTarget::start_with(ENGINES[1], |config| {
        config.fabric.subsystems.push(subsystem("nqn.2014-08.org.example:empty", Vec::new()));
    });
    let target = test.take();
    let host = Host::connect(target.ports()[0]);
    let _queue = host.io(1);
    let text = scrape(&target);
    assert_eq!(text.with("selvedge_build_info", &[("version", env!("CARGO_PKG_VERSION"))]).count(), 1);
    let started = text.sum("selvedge_start_time_seconds", &[]);
    assert!((before..=now()).contains(&started), "{started} is from {before} on");
    for space in SPACES {
        let nsid = space.nsid.to_string();
        let labels = [("subsystem", NQN), ("nsid", &*nsid)];
        assert_eq!(text.sum("selvedge_namespace_size_bytes", &labels), crate::raw_host::SIZE as f64);
        let optimized = text.sum("selvedge_namespace_ana_state", &[labels[0], labels[1], ("port", "1")]);
        assert_eq!(optimized, 1.0);
    }
    assert_eq!(text.sum("selvedge_controllers", &[("subsystem", NQN)]), 1.0);
    let empty = [("subsystem", "nqn.2014-08.org.example:empty")];
    assert_eq!(text.with("selvedge_controllers", &empty).map(|sample| sample.value).sum::<f64>(), 0.0);
    let reactors = ["0", "1"].map(|reactor| text.sum("selvedge_connections", &[("reactor", reactor)]));
    assert_eq!(reactors.iter().sum::<f64>(), 2.0);
    for name in
        ["rounds", "cpu_seconds", "waited_seconds"].map(|name| format!("selvedge_reactor_{name}_total"))
    {
        let name = name.as_str();
        assert_eq!(text.with(name, &[]).count(), 2, "{name}");
        assert!(text.sum(name, &[]) > 0.0, "{name}");
    }
    assert_eq!(text.sum("selvedge_omitted", &[]), 0.0);
}

#[test]
fn names_that_hosts_choose_cannot_break_the_text() {
    let (target, _test) = start(ENGINES[1]);
    let host_nqn = "nqn.2014-08.org.example:a\"b\\c\\nd{e},f=\"g\"} # TYPE é";
    let options = Options::named(host_nqn);
    let host = Host::connect_with(target.ports()[0], options);
    let text = scrape(&target);
    let controller = host.controller_id.to_string();
    let labels = [("controller", &*controller)];
    let info = text.with("selvedge_controller_info", &labels).next().unwrap();
    assert_eq!(info.labels["host"], host_nqn);
}

#[test]
#[should_panic(expected = "stands there twice")]
fn the_reader_takes_no_series_twice() {
    Exposition::parse("# HELP a b\n# TYPE a gauge\na{b=\"c\"} 1\na{b=\"c\"} 2\n");
}

#[test]
#[should_panic(expected = "cumulative")]
fn the_reader_takes_no_falling_buckets() {
    let head = "# HELP a b\n# TYPE a histogram\n";
    Exposition::parse(&format!(
        "{head}a_bucket{{le=\"1\"}} 2\na_bucket{{le=\"+Inf\"}} 1\na_sum 1\na_count 1\n"
    ));
}

/// Metrics that the program adds of connections, where the target is a gateway of a group, and of
/// disks that it attaches; its own tests see to these.
const OF_THE_PROGRAM: [&str; 15] = [
    "selvedge_host_command_stage_seconds",
    "selvedge_host_path_live",
    "selvedge_host_path_reconnects_total",
    "selvedge_host_without_path",
    "selvedge_gateway_drained",
    "selvedge_gateway_group_degraded",
    "selvedge_gateway_group_served",
    "selvedge_gateway_has_lease",
    "selvedge_queue_round_trip_seconds",
    "selvedge_queue_unsent_bytes",
    "selvedge_queue_acknowledged_bytes_total",
    "selvedge_queue_retransmitted_segments_total",
    "selvedge_queue_busy_seconds_total",
    "selvedge_queue_rwnd_limited_seconds_total",
    "selvedge_queue_sndbuf_limited_seconds_total",
];

/// The names of our metrics in a text.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    words.filter(|word| word.starts_with("selvedge_") && word.len() > 9).map(str::to_owned).collect()
}

/// Every expression of the dashboard, wherever it stands.
fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                if matches!(name.as_str(), "expr" | "definition" | "query")
                    && let Some(text) = field.as_str()
                {
                    found.push(text.to_owned());
                }
                expressions(field, found);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_is_exported() {
    let (target, _test) = start(ENGINES[1]);
    let host = Host::connect(target.ports()[0]);
    host.io(1).read(SPACES[0], 0, 1);
    let exported = scrape(&target);
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "identifiers of panels are unique");
        assert!(panel["title"].is_string() && panel["gridPos"]["w"].as_u64().unwrap() <= 24, "{panel}");
        let is_row = panel["type"] == "row";
        assert_eq!(
            panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()),
            !is_row,
            "{panel}"
        );
    }
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    found.push(RULES.to_owned());
    found.push(RULES_TEST.to_owned());
    assert!(found.len() > panels.len() / 2, "a dashboard asks for something");
    let mut asked = BTreeSet::new();
    for expression in &found {
        let opens = expression.matches(['(', '{', '[']).count();
        assert_eq!(opens, expression.matches([')', '}', ']']).count(), "{expression}");
        asked.extend(names_in(expression));
    }
    for name in &asked {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let of_histogram = family.is_some_and(|family| {
            exported.kinds.get(family).is_some_and(|kind| kind == "histogram")
                || OF_THE_PROGRAM.contains(&family)
        });
        let is_exported = exported.kinds.contains_key(name) || OF_THE_PROGRAM.contains(&name.as_str());
        assert!(of_histogram || is_exported, "{name} is not exported");
    }
}

#[test]
fn the_manual_lists_every_alert_and_each_is_tested() {
    let alerts = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: BTreeSet<&str> = alerts.collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in &alerts {
        assert!(MANUAL.contains(&format!("| `{alert}` |")), "{alert} is missing in docs/metrics.md");
        let silent = format!("alertname: {alert}, exp_alerts: []");
        let fires = format!("alertname: {alert}\n");
        assert!(RULES_TEST.contains(&silent) && RULES_TEST.contains(&fires), "{alert}");
    }
}

#[test]
fn the_manual_lists_every_metric() {
    let (target, _test) = start(ENGINES[1]);
    let own = scrape(&target).kinds.into_keys();
    let exported: BTreeSet<String> = own.chain(OF_THE_PROGRAM.map(str::to_owned)).collect();
    let rows = MANUAL.lines().filter_map(|line| line.strip_prefix("| `selvedge_"));
    let listed: BTreeSet<String> =
        rows.filter_map(|row| row.split_once('`')).map(|(name, _)| format!("selvedge_{name}")).collect();
    assert_eq!(listed, exported);
}
