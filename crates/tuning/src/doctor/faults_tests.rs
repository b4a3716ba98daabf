//! Twenty faults and their reports: doctor's first finding, the console of the target, and the alert for Prometheus.
//! Sound machines and targets that look like them have no findings.

use examination::target_rates::rates::{Flow, Latency, Load, NamespaceRates};
use topology::plan::{PlanOptions, plan};

use super::case::Case;
use super::report::Report;
use super::sample::{bonded, healthy, idle, second_path, with_target};
use crate::diagnosis;
use crate::diagnosis::sample::NQN;
use crate::diagnosis::served::{CommandErrors, Gateway, Group, Grown, Served, ServedNamespace, ServedQueue};
use crate::packet_path::Survey;
use crate::probe::Probe;
use crate::tune::{PlanReport, Prediction};

const RULES: &str = include_str!("../../../../packaging/prometheus/selvedge.rules.yaml");
const RULES_TEST: &str = include_str!("../../../../packaging/prometheus/selvedge.rules.test.yaml");
const MANUAL: &str = include_str!("../../../../docs/doctor.md");

/// A fault.
struct Fault {
    /// Name in the manual.
    name: &'static str,
    case: Case,
    /// Rule of the first finding.
    rule: &'static str,
    /// A word of what is said, which tells it from others of this rule.
    word: &'static str,
    /// The alert that tells it; none where nothing of it is among a target's metrics.
    alert: Option<&'static str>,
}

fn fault(
    name: &'static str,
    rule: &'static str,
    word: &'static str,
    alert: Option<&'static str>,
    case: Case,
) -> Fault {
    Fault { name, case, rule, word, alert }
}

/// A target with one thing changed.
fn target(change: impl FnOnce(&mut Served)) -> Case {
    let mut case = with_target();
    change(&mut case.targets[0]);
    case
}

/// A machine with one thing changed.
fn machine(change: impl FnOnce(&mut Case)) -> Case {
    let mut case = healthy();
    change(&mut case);
    case
}

/// A target one of whose operations takes this long, this part of it at the storage or held by limits.
fn taking(operation: &str, mean_ns: f64, stage: &str, percent: f64) -> Case {
    target(|target| {
        let flow = Flow {
            iops: Some(100.0),
            latency: Some(Latency { mean_ns, ..Latency::default() }),
            stages_percent: [(stage.to_owned(), percent)].into(),
            ..Flow::default()
        };
        let namespace = &mut target.rates.subsystems[0].namespaces[0];
        namespace.operations.insert(operation.to_owned(), flow.clone());
        namespace.load.total = flow;
    })
}

/// A target with a limit that holds this part of its commands' time.
fn limited(percent: f64) -> Case {
    let mut case = taking("read", 40e6, "limits", percent);
    case.targets[0].namespaces[0].limits.insert("iops".to_owned(), 300);
    case
}

/// A target whose reactor is as busy, and whose two namespaces take these commands in a second.
fn shared(busy: f64, iops: [f64; 2]) -> Case {
    target(|target| {
        target.reactors_busy = [(0, busy)].into();
        target.namespaces.clear();
        target.rates.subsystems[0].namespaces.clear();
        for (nsid, iops) in (1..).zip(iops) {
            let total = Flow { iops: Some(iops), bytes_per_s: Some(iops * 4096.0), ..Flow::default() };
            let load = Load { total, ..Load::default() };
            target.rates.subsystems[0].namespaces.push(NamespaceRates {
                nsid,
                load,
                ..NamespaceRates::default()
            });
            let state = "ready".to_owned();
            let namespace =
                ServedNamespace { subsystem: NQN.to_owned(), nsid, state, ..ServedNamespace::default() };
            target.namespaces.push(namespace);
        }
    })
}

/// A host with a path for each of these round trips.
fn paths(rtts_us: [u64; 2]) -> Case {
    target(|target| {
        for (number, rtt_us) in (1..).zip(rtts_us) {
            target.queues.push(ServedQueue { rtt_us, cntlid: number, port: number, ..queue() });
        }
    })
}

fn queue() -> ServedQueue {
    ServedQueue {
        host: "nqn.h".into(),
        subsystem: NQN.into(),
        queue_id: 1,
        peer: "10.0.0.1:5".into(),
        rtt_us: 100,
        commands: 10_000,
        acknowledged_bytes: Some(1 << 24),
        ..ServedQueue::default()
    }
}

/// A gateway whose group finds it well or not.
fn gateway(has_lease: bool, life: &str) -> Case {
    target(|target| {
        let gateways = vec![Gateway { name: "b".into(), life: life.into(), is_well: life == "alive" }];
        let (group, gateway) = ("rbd/g".to_owned(), "a".to_owned());
        target.group = Some(Group { group, gateway, has_lease, gateways, load_balancing_groups: Vec::new() });
    })
}

/// A machine that was recorded, with what the tuner would change.
fn recorded(name: &str) -> Case {
    machine(|case| {
        let topology = topology::sample::topology(name).unwrap();
        let plan = plan(&topology, &PlanOptions::default()).unwrap();
        let prediction = (!plan.steps.is_empty()).then(|| Prediction::of(&topology, &plan));
        case.host.plan = Some(PlanReport { plan, prediction });
        case.host.survey = Survey::new(topology);
        case.host.paths.clear();
    })
}

/// Our initiator, each of whose two threads ran for this part of a second.
fn working(part: f64) -> Case {
    machine(|case| {
        for (at, flow) in case.host.survey.topology.flows.iter_mut().enumerate() {
            flow.owner = topology::FlowOwner::Initiator { pid: 9 };
            flow.worker.as_mut().unwrap().thread = Some(20 + at as u32);
        }
        for (moment, passed) in [(&mut case.host.before, 0.0), (&mut case.host.now, 1.0)] {
            let ns = |part: f64| (part * passed * 1e9) as u64;
            let counters = &mut moment.as_mut().unwrap().counters;
            counters.threads.extend([20, 21].map(|thread| (thread, (ns(part), 0))));
            let waited = topology::Waited { at_ns: ns(1.0), waited_ns: ns(1.0 - part) };
            counters.waited.extend([20, 21].map(|thread| (thread, waited)));
        }
    })
}

/// A machine with a second path, which is wanted and silent.
fn dropped_answers() -> Case {
    let mut case = second_path();
    case.host.paths[1].is_wanted = true;
    case.host.paths[1].probe = Some(Probe::Silent);
    let network = &mut case.host.now.as_mut().unwrap().counters.network;
    network.insert("TcpExt/IPReversePathFilter".to_owned(), 7);
    case
}

/// A machine of whose processors' time this much was stolen, of 100 ticks.
fn stolen(ticks: u64) -> Case {
    machine(|case| {
        let all = &mut case.host.now.as_mut().unwrap().counters.all;
        (all.all, all.stolen, all.idle) = (all.all + 100, all.stolen + ticks, all.idle + 30);
    })
}

#[rustfmt::skip]
fn faults() -> Vec<Fault> {
    vec![
        fault("slow backend", "slow-storage", "a read takes 28.5 ms", Some("SelvedgeStorageLatency"), taking("read", 30e6, "storage", 95.0)),
        fault("lossy path", "lossy-path", "0.9 %", Some("SelvedgePathLossy"),
            target(|target| target.queues.push(ServedQueue { retransmits: 100, ..queue() }))),
        fault("one link slower", "slower-path", "9.00 ms there and back", Some("SelvedgePathSlower"), paths([120, 9000])),
        fault("limit reached", "namespace-limit", "iops 300", Some("SelvedgeLimitReached"), limited(80.0)),
        fault("busy reactor", "busy-reactor", "busy all the time", Some("SelvedgeReactorBusy"), shared(0.97, [50_000.0, 40_000.0])),
        fault("hot namespace", "hot-namespace", "namespace 2", Some("SelvedgeNamespaceHot"), shared(0.97, [900.0, 90_000.0])),
        fault("wrong MTU", "path-mtu", "segments of 1448 bytes", None, machine(|case| {
            case.host.now.as_mut().unwrap().connections.iter_mut().for_each(|connection| connection.segment_bytes = 1448);
        })),
        fault("collided flows", "queue-placement", "share", None, recorded("cpu72-queues32")),
        fault("far IRQ", "queue-placement", "node", None, recorded("two-nodes")),
        fault("small window", "small-buffers", "receiver's window", None, machine(|case| {
            let connection = &mut case.host.now.as_mut().unwrap().connections[0];
            connection.busy_us += 900_000;
            connection.peer_limited_us += 800_000;
        })),
        fault("strict rp_filter", "strict-rp-filter", "source validation is strict", None, dropped_answers()),
        fault("number of queues", "busy-worker", "2 I/O queues", None, working(0.98)),
        fault("wrong key", "refused-host", "another secret", Some("SelvedgeHostNotAuthenticated"),
            target(|target| target.refused.extend([("authentication".to_owned(), Grown { by: 4, to: 4 })]))),
        fault("old host's TLS key", "old-tls-key", "nvme-cli before 2025", Some("SelvedgeHostTlsOld"), target(|target| {
            target.tls_queues = 3;
            target.old_tls_hosts.insert("nqn.h".into(), 3);
        })),
        fault("gateway on the blocklist", "silent-gateway", "does not reach", Some("SelvedgeGatewayWithoutLease"), gateway(false, "alive")),
        fault("silent OSD", "slow-storage", "hangs for 20.0 s", Some("SelvedgeStorageSlow"), target(|target| {
            target.namespaces[0].oldest_operation_ms = 20_000;
            target.namespaces[0].backend = "rbd".into();
        })),
        fault("full disk", "namespace-down", "is full", Some("SelvedgeStorageFull"), target(|target| target.errors.push(CommandErrors {
            subsystem: NQN.into(), nsid: 1, status: "Capacity Exceeded".into(), count: Grown { by: 5, to: 5 },
        }))),
        fault("stolen CPU time", "stolen-cpu", "gives this machine's processors", None, stolen(30)),
        fault("late Flush", "late-flush", "takes 120 ms", Some("SelvedgeFlushLate"), taking("flush", 120e6, "storage", 100.0)),
        fault("host that never reads", "host-not-reading", "does not read", Some("SelvedgeHostNotReading"),
            target(|target| target.queues.push(ServedQueue { unsent_bytes: (1 << 20, 1 << 20), acknowledged_bytes: Some(0), ..queue() }))),
    ]
}

#[test]
fn twenty_faults_are_named_first_and_by_the_target_itself_where_it_can_know_them() {
    let faults = faults();
    assert_eq!(faults.len(), 20);
    for Fault { name, case, rule, word, alert } in &faults {
        let found = Report::of(case, Vec::new(), None).findings;
        let first = found.first().unwrap_or_else(|| panic!("{name}: nothing is found"));
        assert_eq!(first.rule, *rule, "{name}: {found:#?}");
        assert!(format!("{first:?}").contains(word), "{name}: {first:#?}");
        assert!(
            !first.evidence.is_empty() && !first.cure.is_empty() && !first.commands.is_empty(),
            "{first:#?}"
        );
        // The console shows what the rules about targets find, and an alert sees what a target counts: both or neither.
        let own = case.targets.first().map(diagnosis::findings).unwrap_or_default();
        let shown = own.first().map(|finding| finding.rule.as_str());
        assert_eq!(shown, alert.map(|_| *rule), "{name}: {own:#?}");
    }
}

#[test]
fn each_fault_of_a_target_has_one_alert_and_the_manual_lists_all() {
    for Fault { name, rule, alert, .. } in faults() {
        let (console, alerted) = match alert {
            Some(alert) => ("yes", format!("`{alert}`")),
            None => ("no", "none".to_owned()),
        };
        let row = format!("| {name} | `{rule}` | {console} | {alerted}");
        assert!(MANUAL.lines().any(|line| line.starts_with(&row)), "{row} is missing in docs/doctor.md");
        let Some(alert) = alert else { continue };
        assert!(RULES.contains(&format!("- alert: {alert}\n")), "{alert}");
        assert!(RULES_TEST.contains(&format!("alertname: {alert}\n")), "{alert} is not seen to come");
    }
    let alerts: std::collections::BTreeSet<_> = faults().iter().filter_map(|fault| fault.alert).collect();
    assert_eq!(alerts.len(), faults().iter().filter(|fault| fault.alert.is_some()).count(), "one each");
}

#[rustfmt::skip]
#[test]
fn sound_machines_that_look_alike_have_no_findings() {
    let mut busy_disk = taking("read", 7e6, "storage", 99.0);
    busy_disk.targets[0].namespaces[0].oldest_operation_ms = 40;
    let well = [
        ("nothing is connected", idle()),
        ("a target at work", with_target()),
        ("an unused second path", second_path()),
        ("a bond that shares by ports", bonded("802.3ad", "layer3+4", 8)),
        ("a disk that turns", busy_disk),
        ("its Flush", taking("flush", 20e6, "storage", 100.0)),
        ("a limit with room", limited(5.0)),
        ("a busy reactor with room, whose namespaces share it", shared(0.8, [50_000.0, 40_000.0])),
        ("one namespace in use, on a target with room", shared(0.5, [90_000.0, 3.0])),
        ("two paths of one speed", paths([120, 140])),
        ("two short ways", paths([30, 400])),
        ("a few segments of many that were lost",
            target(|target| target.queues.push(ServedQueue { retransmits: 5, ..queue() }))),
        ("a host that reads slowly",
            target(|target| target.queues.push(ServedQueue { unsent_bytes: (1 << 20, 1 << 20), ..queue() }))),
        ("a secret that was mistyped once, long ago",
            target(|target| target.refused.extend([("authentication".to_owned(), Grown { by: 0, to: 1 })]))),
        ("hosts with TLS as specified", target(|target| target.tls_queues = 9)),
        ("a gateway that has left in order", gateway(true, "left")),
        ("queues that are placed well", recorded("virtio-one-queue")),
        ("an initiator that rests", working(0.6)),
        ("a shared machine", stolen(2)),
    ];
    assert!(well.len() >= 10);
    for (name, case) in &well {
        let found = Report::of(case, Vec::new(), None).findings;
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}
