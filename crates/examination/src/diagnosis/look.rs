//! Answers of a target at one moment, and the data that rules see of two such samples. Recordings
//! keep the answers unchanged. The module sends no requests.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::target::Measured;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::served::{CommandErrors, Group, Grown, Served, ServedNamespace, ServedQueue};
use crate::target_rates;
use crate::target_rates::rates::Rates;
use crate::target_rates::sample::{ControllerSample, QueueSample, Sample};

/// A controller that took fewer I/O commands was not in use: what looks at a disk before it is used, for data or for a table of
/// partitions, reads a hundred places at most.
const COMMANDS_MIN: u64 = 256;

/// Answers of a target at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// Address of its control API; empty if the target inspects itself.
    pub name: String,
    /// Seconds since a beginning that all looks have in common.
    pub at_s: f64,
    pub status: Value,
    pub metrics: String,
    pub config: Value,
    pub gateways: Value,
}

/// A look that was read.
#[derive(Debug)]
pub struct Moment {
    name: String,
    pub at_s: f64,
    sample: Sample,
    status: Status,
    counted: Counted,
    config: Config,
    group: Option<Group>,
}

impl Look {
    /// Reads it.
    ///
    /// # Errors
    /// When the answers are not those of a target that this program knows.
    pub fn read(&self) -> Result<Moment, String> {
        let at = Duration::try_from_secs_f64(self.at_s).unwrap_or_default();
        let status =
            target_rates::sample::Status::deserialize(&self.status).map_err(|error| error.to_string())?;
        Ok(Moment {
            name: self.name.clone(),
            at_s: self.at_s,
            sample: Sample::read(at, status, &self.metrics)?,
            status: Status::deserialize(&self.status).unwrap_or_default(),
            counted: Counted::of(&self.metrics),
            config: Config::deserialize(&self.config).unwrap_or_default(),
            group: Group::deserialize(&self.gateways).ok(),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    namespaces: Vec<StatusNamespace>,
    controllers: Vec<StatusController>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusNamespace {
    subsystem: String,
    nsid: u32,
    state: String,
    reason: Option<String>,
    oldest_operation_ms: u64,
    late_operations: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusController {
    cntlid: u16,
    subsystem: String,
    host_nqn: String,
    queues: Vec<StatusQueue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusQueue {
    tls: Option<StatusTls>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusTls {
    /// `standard`, or `compat`.
    derivation: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    subsystems: Vec<ConfigSubsystem>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigSubsystem {
    nqn: String,
    namespaces: Vec<ConfigNamespace>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigNamespace {
    nsid: u32,
    backend: BTreeMap<String, Value>,
    qos: BTreeMap<String, Value>,
}

impl Served {
    /// Compares two samples.
    ///
    /// # Errors
    /// When the answers are not those of a target that this program knows.
    pub fn of(before: &Look, now: &Look) -> Result<Self, String> {
        Ok(Self::between(&before.read()?, &now.read()?))
    }

    /// Compares two parsed samples.
    pub fn between(before: &Moment, now: &Moment) -> Self {
        let tls: Vec<(&str, &StatusTls)> = now
            .status
            .controllers
            .iter()
            .flat_map(|controller| {
                controller.queues.iter().map(|queue| (controller.host_nqn.as_str(), queue))
            })
            .filter_map(|(host, queue)| Some((host, queue.tls.as_ref()?)))
            .collect();
        let (old, new) = (&before.counted, &now.counted);
        Self {
            name: if now.name.is_empty() { "this target".to_owned() } else { now.name.clone() },
            asked_at: now.name.clone(),
            namespaces: namespaces(&now.status, &now.config),
            reactors_busy: reactors_busy(old, new, now.at_s - before.at_s),
            refused: grown(&old.refusals, &new.refusals),
            silent_hosts: grown_of(old.expiries, new.expiries),
            errors: errors(old, new),
            queues: queues(&before.sample, &now.sample),
            reconnected: reconnected(&before.sample, &now.sample),
            tls_queues: tls.len() as u64,
            old_tls_hosts: old_tls_hosts(&tls),
            group: now.group.clone(),
            rates: Rates::of(&now.sample, Some(&before.sample)),
        }
    }
}

fn namespaces(status: &Status, config: &Config) -> Vec<ServedNamespace> {
    let configured = config.subsystems.iter().flat_map(|subsystem| {
        let namespaces = subsystem.namespaces.iter();
        namespaces.map(move |namespace| ((subsystem.nqn.as_str(), namespace.nsid), namespace))
    });
    let configured: BTreeMap<(&str, u32), &ConfigNamespace> = configured.collect();
    let configured =
        |found: &StatusNamespace| configured.get(&(found.subsystem.as_str(), found.nsid)).copied();
    let limits = |namespace: &ConfigNamespace| {
        let settings = namespace.qos.iter();
        settings.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
    };
    let backend = |namespace: &ConfigNamespace| namespace.backend.keys().next().cloned();
    let namespace = |found: &StatusNamespace| ServedNamespace {
        backend: configured(found).and_then(backend).unwrap_or_default(),
        limits: configured(found).map(limits).unwrap_or_default(),
        subsystem: found.subsystem.clone(),
        nsid: found.nsid,
        state: found.state.clone(),
        reason: found.reason.clone(),
        oldest_operation_ms: found.oldest_operation_ms,
        late_operations: found.late_operations,
    };
    status.namespaces.iter().map(namespace).collect()
}

fn old_tls_hosts(tls: &[(&str, &StatusTls)]) -> BTreeMap<String, u64> {
    let mut hosts = BTreeMap::new();
    for (host, _) in tls.iter().filter(|(_, tls)| tls.derivation == "compat") {
        *hosts.entry((*host).to_owned()).or_default() += 1;
    }
    hosts
}

/// Counters of a target's metrics that `top` does not show.
#[derive(Debug, Default)]
struct Counted {
    refusals: BTreeMap<String, u64>,
    expiries: u64,
    /// By subsystem, namespace and status.
    errors: BTreeMap<(String, u32, String), u64>,
    waited_s: BTreeMap<usize, f64>,
}

impl Counted {
    fn of(metrics: &str) -> Self {
        let mut counted = Self::default();
        for measured in Measured::all(metrics) {
            match measured.name {
                "selvedge_connect_refusals_total" => {
                    counted.refusals.insert(measured.label("rule").to_owned(), measured.count());
                }
                "selvedge_keep_alive_expiries_total" => counted.expiries = measured.count(),
                "selvedge_command_errors_total" => {
                    let Some(nsid) = measured.number("nsid") else { continue };
                    let key =
                        (measured.label("subsystem").to_owned(), nsid, measured.label("status").to_owned());
                    *counted.errors.entry(key).or_default() += measured.count();
                }
                "selvedge_reactor_waited_seconds_total" => {
                    let reactor = measured.number("reactor");
                    counted.waited_s.extend(reactor.map(|reactor| (reactor, measured.value)));
                }
                _ => {}
            }
        }
        counted
    }
}

/// Returns the growth of a counter; a counter that fell has restarted at 0.
fn grown_of(before: u64, now: u64) -> Grown {
    Grown { by: now.checked_sub(before).unwrap_or(now), to: now }
}

/// Returns the growth of counters by name; a new one has started at 0.
fn grown(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> BTreeMap<String, Grown> {
    let of =
        |(name, now): (&String, &u64)| (name.clone(), grown_of(before.get(name).copied().unwrap_or(0), *now));
    now.iter().map(of).collect()
}

fn reactors_busy(before: &Counted, now: &Counted, interval_s: f64) -> BTreeMap<usize, f64> {
    let busy = |(reactor, waited): (&usize, &f64)| {
        let waited_s = waited - before.waited_s.get(reactor)?;
        (interval_s > 0.0).then(|| (*reactor, (1.0 - waited_s / interval_s).clamp(0.0, 1.0)))
    };
    now.waited_s.iter().filter_map(busy).collect()
}

fn errors(before: &Counted, now: &Counted) -> Vec<CommandErrors> {
    let of = |(key, now): (&(String, u32, String), &u64)| {
        let (subsystem, nsid, status) = key.clone();
        let count = grown_of(before.errors.get(key).copied().unwrap_or(0), *now);
        CommandErrors { subsystem, nsid, status, count }
    };
    now.errors.iter().map(of).collect()
}

fn queues(before: &Sample, now: &Sample) -> Vec<ServedQueue> {
    let known: BTreeMap<(u16, u16), &QueueSample> = before
        .controllers
        .iter()
        .flat_map(|controller| {
            controller.queues.iter().map(|queue| ((controller.cntlid, queue.queue_id), queue))
        })
        .collect();
    let mut found = Vec::new();
    for controller in &now.controllers {
        for queue in &controller.queues {
            let earlier = known.get(&(controller.cntlid, queue.queue_id));
            let earlier = earlier.filter(|earlier| earlier.peer == queue.peer);
            let commands =
                earlier.and_then(|earlier| Some(queue.commands?.saturating_sub(earlier.commands?)));
            let streams = earlier.and_then(|earlier| earlier.stream.as_ref()).zip(queue.stream.as_ref());
            let Some((before, now)) = streams else { continue };
            let acknowledged = now.acknowledged_bytes.zip(before.acknowledged_bytes);
            found.push(ServedQueue {
                host: controller.host_nqn.clone(),
                subsystem: controller.subsystem.clone(),
                cntlid: controller.cntlid,
                port: controller.port,
                rtt_us: now.rtt_us,
                commands: commands.unwrap_or(0),
                queue_id: queue.queue_id,
                peer: queue.peer.clone().unwrap_or_default(),
                unsent_bytes: (before.unsent_bytes, now.unsent_bytes),
                acknowledged_bytes: acknowledged.map(|(now, before)| now.saturating_sub(before)),
                retransmits: now.retransmits.saturating_sub(before.retransmits),
            });
        }
    }
    found
}

/// Hosts that have other controllers of a subsystem in place of some that were in use.
fn reconnected(before: &Sample, now: &Sample) -> BTreeMap<String, u64> {
    type Controllers<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a ControllerSample>>;
    let by_host = |sample| -> Controllers<'_> {
        let sample: &Sample = sample;
        let mut hosts = Controllers::new();
        for controller in &sample.controllers {
            hosts.entry((&controller.host_nqn, &controller.subsystem)).or_default().push(controller);
        }
        hosts
    };
    let (before, now) = (by_host(before), by_host(now));
    let mut found = BTreeMap::new();
    for (key, controllers) in &now {
        let Some(earlier) = before.get(key) else { continue };
        let is_among = |all: &[&ControllerSample], one: &ControllerSample| {
            all.iter().any(|controller| controller.cntlid == one.cntlid)
        };
        let commands = |controller: &ControllerSample| -> u64 {
            controller.queues.iter().filter_map(|queue| queue.commands).sum()
        };
        let new = controllers.iter().filter(|controller| !is_among(earlier, controller)).count();
        let gone = earlier.iter().filter(|controller| !is_among(controllers, controller));
        let gone = gone.filter(|controller| commands(controller) >= COMMANDS_MIN).count();
        if new > 0 && gone > 0 {
            *found.entry(key.0.to_owned()).or_default() += new.min(gone) as u64;
        }
    }
    found
}

impl Group {
    /// Gateways that should serve and were not heard of lately.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &super::served::Gateway> {
        self.gateways.iter().filter(|gateway| gateway.life != "left" && !gateway.is_well)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(at_s: f64, cntlid: u16, metrics: &str) -> Look {
        let status = json!({
            "ports": [], "reactors": [{ "number": 0, "cpu": 1 }],
            "namespaces": [{ "subsystem": "nqn.a", "nsid": 1, "state": "ready", "oldest_operation_ms": 7,
                "late_operations": 0, "may_tear": false }],
            "controllers": [{ "cntlid": cntlid, "subsystem": "nqn.a", "host_nqn": "nqn.h", "port": 1, "ready": true,
                "queues": [{ "queue_id": 1, "entries": 128, "reactor": 0, "peer": "10.0.0.1:5", "tls": { "cipher": "x", "derivation": "compat" },
                    "stream": { "transport": "tcp", "rtt_us": 5, "retransmits": 1, "unread_bytes": 0,
                        "unsent_bytes": 9, "acknowledged_bytes": 100, "received_bytes": 3 } }] }],
        });
        let config = json!({ "subsystems": [{ "nqn": "nqn.a", "namespaces": [{ "nsid": 1, "backend": { "file": { "path": "a" } },
                "qos": { "iops": 300 } }] }] });
        let metrics = format!("selvedge_start_time_seconds 5\n{metrics}");
        Look { name: "t".into(), at_s, status, metrics, config, gateways: Value::Null }
    }

    #[test]
    fn two_looks_are_what_happened_between_them() {
        let before = look(
            1.0,
            1,
            "selvedge_connect_refusals_total{rule=\"authentication\"} 2\n\
             selvedge_reactor_waited_seconds_total{reactor=\"0\"} 10\n",
        );
        let now = look(
            3.0,
            1,
            "selvedge_connect_refusals_total{rule=\"authentication\"} 5\n\
             selvedge_command_errors_total{subsystem=\"nqn.a\",nsid=\"1\",code=\"0x81\",status=\"Capacity Exceeded\"} 4\n\
             selvedge_reactor_waited_seconds_total{reactor=\"0\"} 10.5\n",
        );
        let served = Served::of(&before, &now).unwrap();
        assert_eq!(served.refused["authentication"], Grown { by: 3, to: 5 });
        assert_eq!(served.errors[0].count, Grown { by: 4, to: 4 });
        assert_eq!(served.reactors_busy[&0], 0.75);
        assert_eq!(
            (served.namespaces[0].limits["iops"], served.namespaces[0].backend.as_str()),
            (300, "file")
        );
        assert_eq!(served.namespaces[0].oldest_operation_ms, 7);
        assert_eq!((served.tls_queues, served.group.clone()), (1, None));
        assert_eq!(served.old_tls_hosts["nqn.h"], 1);
        assert_eq!((served.queues[0].cntlid, served.queues[0].port, served.queues[0].rtt_us), (1, 1, 5));
        assert_eq!((served.queues.len(), served.queues[0].acknowledged_bytes), (1, Some(0)));
        assert!(served.reconnected.is_empty());
    }

    #[test]
    fn a_host_with_another_controller_has_connected_again() {
        let after = |commands: u64| {
            let labels = "subsystem=\"nqn.a\",controller=\"1\",queue=\"1\"";
            let metrics = format!("selvedge_queue_commands_total{{{labels}}} {commands}\n");
            Served::of(&look(1.0, 1, &metrics), &look(2.0, 9, "")).unwrap()
        };
        let served = after(5000);
        assert_eq!(served.reconnected["nqn.h"], 1);
        assert!(served.queues.is_empty(), "its queues are others");
        assert!(after(90).reconnected.is_empty(), "it has only looked before");
    }

    #[test]
    fn answers_of_something_else_are_an_error() {
        let other =
            Look { status: json!({ "ports": [], "controllers": [], "reactors": [] }), ..Look::default() };
        assert!(Served::of(&other, &other).is_err());
        assert!(Served::of(&Look::default(), &Look::default()).is_err());
    }
}
