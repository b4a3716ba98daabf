//! How a target is, in one line and why, from its numbers. The thresholds are those of the alert rules for Prometheus, so
//! that both say the same.

use std::collections::BTreeMap;
use std::time::Duration;

use chart::units;
use engine::target::{ErrorMetrics, Metrics, NamespaceMetrics, NamespaceState, NamespaceStatus};
use gateway::{GroupStatus, Life};
use nvme::Status;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::limits::FINDINGS_MAX;
use super::interval::{Interval, Sample, busy};
use crate::diagnosis;
use crate::diagnosis::finding::Severity;

/// A reactor that works more of its time has little left for bursts.
const BUSY_SHARE: f64 = 0.9;
/// An operation that has been at its storage this long is slow.
const SLOW_STORAGE: Duration = Duration::from_secs(1);
/// Limits are worth a line when they hold back more than one command of a hundred.
const HELD_SHARE: f64 = 0.01;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HealthLevel")]
pub(super) enum Level {
    #[default]
    Ok,
    /// Worth knowing, and as it was configured.
    Notice,
    Warning,
    Critical,
}

/// Health of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::control) struct Health {
    /// The most serious of all findings.
    pub(super) level: Level,
    /// The same in one line.
    pub(super) line: String,
    /// Why, the most serious first.
    pub(super) findings: Vec<Finding>,
    /// Findings that are left out, since there are too many.
    pub(super) findings_omitted: usize,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HealthFinding")]
pub(in crate::control) struct Finding {
    pub(super) level: Level,
    /// Description of the problem.
    pub(super) what: String,
    /// Action to take, or place to look at.
    pub(super) cure: &'static str,
    /// The subsystem that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subsystem: Option<String>,
    /// The namespace that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nsid: Option<u32>,
}

impl Finding {
    fn new(level: Level, what: impl Into<String>, cure: &'static str) -> Self {
        Self { level, what: what.into(), cure, subsystem: None, nsid: None }
    }

    fn about(self, subsystem: &str, nsid: u32) -> Self {
        Self { subsystem: Some(subsystem.to_owned()), nsid: Some(nsid), ..self }
    }
}

/// Input of the checks.
pub(super) struct Looked<'a> {
    pub(super) now: &'a Sample,
    /// The sample before, and what was done since.
    pub(super) before: &'a Sample,
    pub(super) interval: &'a Interval<'a>,
    /// Troubles counted until a minute ago, or until the first sample.
    pub(super) minute: &'a Troubles,
    /// The namespaces as they were seen last.
    pub(super) namespaces: &'a [NamespaceStatus],
    /// The gateways, where the target is one.
    pub(super) group: Option<&'a GroupStatus>,
    /// The first of what the rules of `doctor` have found.
    pub(super) diagnosed: Option<&'a diagnosis::finding::Finding>,
}

/// Counters of troubles since the target started, for findings that last a minute. Samples of the
/// whole target would take a dozen times the memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Troubles {
    /// Of namespaces that had any, by the subsystem's name and their number.
    namespaces: BTreeMap<(String, u32), Failed>,
    /// Connects that were refused, by the rule.
    refusals: BTreeMap<&'static str, u64>,
    keep_alive_expiries: u64,
}

/// Commands that have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Failed {
    commands: u64,
    /// Failed commands for which the storage had no space.
    without_space: u64,
    /// Errors of the storage.
    media: u64,
}

impl Troubles {
    pub(super) fn of(metrics: &Metrics) -> Self {
        let namespaces = metrics.subsystems.iter().flat_map(|subsystem| {
            let failed = subsystem.namespaces.iter().map(|namespace| (namespace.nsid, Failed::of(namespace)));
            failed.map(|(nsid, failed)| ((subsystem.nqn.clone(), nsid), failed))
        });
        Self {
            namespaces: namespaces.filter(|(_, failed)| *failed != Failed::default()).collect(),
            refusals: metrics.refusals.iter().copied().collect(),
            keep_alive_expiries: metrics.keep_alive_expiries,
        }
    }
}

impl Failed {
    fn of(namespace: &NamespaceMetrics) -> Self {
        let of = |is_meant: fn(&ErrorMetrics) -> bool| {
            namespace.errors.iter().filter(|error| is_meant(error)).map(|error| error.commands).sum()
        };
        Self {
            commands: of(|_| true),
            without_space: of(|error| error.status == Some(Status::CAPACITY_EXCEEDED)),
            media: namespace.media_errors,
        }
    }
}

impl Health {
    pub(super) fn of(looked: &Looked<'_>) -> Self {
        let mut findings = Vec::new();
        namespaces(looked, &mut findings);
        storage(looked, &mut findings);
        errors(looked, &mut findings);
        gateways(looked, &mut findings);
        reactors(looked, &mut findings);
        hosts(looked, &mut findings);
        limits(looked, &mut findings);
        diagnosed(looked, &mut findings);
        // Those of one level stay in the order in which they were found.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        let count = findings.len();
        findings.truncate(FINDINGS_MAX);
        let line = match findings.first() {
            None => all_is_well(looked),
            Some(first) if count == 1 => first.what.clone(),
            Some(first) => format!("{}; and {} more", first.what, count - 1),
        };
        let level = findings.first().map_or(Level::Ok, |first| first.level);
        Self { level, line, findings_omitted: count - findings.len(), findings }
    }
}

fn all_is_well(looked: &Looked<'_>) -> String {
    let plural =
        |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let controllers = looked.now.metrics.controllers.iter().filter(|controller| {
        // Hosts at the discovery service use nothing.
        looked.now.metrics.subsystems.iter().any(|subsystem| subsystem.nqn == controller.subsystem)
    });
    let namespaces = plural(looked.namespaces.len(), "namespace");
    format!("{namespaces} ready, {} connected", plural(controllers.count(), "controller"))
}

fn namespaces(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    for namespace in looked.namespaces {
        let (level, what, cure) = match namespace.state {
            NamespaceState::Ready => continue,
            NamespaceState::Failed => (
                Level::Critical,
                "takes no writes, since its storage could not be synchronized",
                "check the storage, then reopen it: selvedge namespace reopen",
            ),
            NamespaceState::Absent => (
                Level::Warning,
                "is absent: its disk or image cannot be opened",
                "it is retried; repair the named cause",
            ),
        };
        let reason = namespace.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let what = format!("namespace {} {what}{reason}", namespace.nsid);
        findings.push(Finding::new(level, what, cure).about(&namespace.subsystem, namespace.nsid));
    }
}

fn storage(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    for subsystem in &looked.now.metrics.subsystems {
        for namespace in &subsystem.namespaces {
            let Some(storage) = namespace.storage else { continue };
            let (level, cure) = if storage.oldest >= subsystem.command_quiesce.max(SLOW_STORAGE) {
                (
                    Level::Critical,
                    "the storage hangs, and failover of its hosts waits for it: check the disk or the cluster",
                )
            } else if storage.oldest >= SLOW_STORAGE {
                (Level::Warning, "the storage is slow: check the disk or the cluster")
            } else {
                continue;
            };
            let what = format!(
                "namespace {}: an operation has been at its storage for {:.1} s",
                namespace.nsid,
                storage.oldest.as_secs_f64()
            );
            findings.push(Finding::new(level, what, cure).about(&subsystem.nqn, namespace.nsid));
        }
    }
}

/// Errors in the last minute, by namespace.
fn errors(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    for ((nqn, nsid), now) in &Troubles::of(&looked.now.metrics).namespaces {
        let before = looked.minute.namespaces.get(&(nqn.clone(), *nsid)).copied().unwrap_or_default();
        let commands = now.commands.saturating_sub(before.commands);
        let without_space = now.without_space.saturating_sub(before.without_space);
        let media = now.media.saturating_sub(before.media);
        let (level, what, cure) = if media > 0 {
            let what = format!("{} of its storage in the last minute", units::plural(media, "error"));
            (Level::Critical, what, "the log of the kernel or of the cluster says which disk")
        } else if without_space > 0 {
            let what = format!(
                "{} failed in the last minute, since its storage is full",
                units::plural(without_space, "write")
            );
            (Level::Critical, what, "free space in the file system or the pool")
        } else if commands > 0 {
            let what = format!("{} failed in the last minute", units::plural(commands, "command"));
            (Level::Notice, what, "by status: selvedge_command_errors_total in /metrics")
        } else {
            continue;
        };
        findings.push(Finding::new(level, format!("namespace {nsid}: {what}"), cure).about(nqn, *nsid));
    }
}

fn gateways(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    let Some(group) = looked.group else { return };
    if !group.has_lease {
        let what = "this gateway does not reach the shared state of its group";
        findings.push(Finding::new(Level::Critical, what, "check its connection to the cluster: ceph -s"));
    }
    for gateway in group.gateways.iter().filter(|gateway| gateway.life != Life::Left && !gateway.is_well) {
        let what = format!("gateway {} is silent", gateway.name);
        let cure = "others serve its namespaces; start it again, or remove it: selvedge gateways remove";
        findings.push(Finding::new(Level::Warning, what, cure));
    }
    for unserved in group.load_balancing_groups.iter().filter(|group| !group.is_served()) {
        let by = unserved.owner.as_ref().map(|owner| format!(", which gateway {owner} is taking over"));
        let what =
            format!("no gateway serves load-balancing group {}{}", unserved.id, by.unwrap_or_default());
        let cure =
            "state of each gateway: selvedge gateways; a takeover takes seconds, or its log says why not";
        findings.push(Finding::new(Level::Critical, what, cure));
    }
    for degraded in group.load_balancing_groups.iter().filter(|group| group.is_degraded) {
        let id = degraded.id;
        let what = format!("load-balancing group {id} is degraded: it is not served at its location");
        findings.push(Finding::new(Level::Warning, what, "gateways and their locations: selvedge gateways"));
    }
    if !group.unreached_hosts.is_empty() {
        let missing = units::plural(group.unreached_hosts.len() as u64, "path");
        let what = format!("no connection on {missing} of hosts to their gateways");
        findings.push(Finding::new(
            Level::Warning,
            what,
            "connect them there: nvme connect-all; list: the view Gateways",
        ));
    }
}

fn reactors(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    for reactor in &looked.now.metrics.reactors {
        let former = looked.before.metrics.reactors.iter().find(|former| former.number == reactor.number);
        let Some(former) = former else { continue };
        let share = busy(reactor, former, looked.interval.seconds);
        if share >= BUSY_SHARE {
            let what = format!("reactor {} works {:.0} % of its time", reactor.number, share * 100.0);
            let cure = "start the target with more reactors, or move hosts: selvedge tune advise";
            findings.push(Finding::new(Level::Warning, what, cure));
        }
    }
}

fn hosts(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    for (rule, count) in &looked.now.metrics.refusals {
        let refused = count.saturating_sub(looked.minute.refusals.get(rule).copied().unwrap_or_default());
        if refused > 0 {
            let what = format!(
                "{} refused in the last minute ({})",
                units::plural(refused, "Connect"),
                rule.replace('_', " ")
            );
            findings.push(Finding::new(
                Level::Warning,
                what,
                "hosts: the target's log, \"Refused a Connect\"",
            ));
        }
    }
    let expired = looked.now.metrics.keep_alive_expiries.saturating_sub(looked.minute.keep_alive_expiries);
    if expired > 0 {
        let what = format!(
            "{} ended in the last minute: keep-alive time-out of the host",
            units::plural(expired, "controller")
        );
        findings.push(Finding::new(Level::Warning, what, "hosts: the target's log, \"keep alive\""));
    }
}

fn limits(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    for ((nqn, nsid), kinds) in &looked.interval.namespaces {
        let share = kinds.held() as f64 / kinds.commands().max(1) as f64;
        if share > HELD_SHARE {
            let what = format!("namespace {nsid}: limits delay {:.0} % of its commands", share * 100.0);
            let cure = "as configured; to raise the limit: selvedge namespace set";
            findings.push(Finding::new(Level::Notice, what, cure).about(nqn, *nsid));
        }
    }
}

/// Adds the first finding of `doctor`, unless there is one as serious already: most causes are
/// known to both.
fn diagnosed(looked: &Looked<'_>, findings: &mut Vec<Finding>) {
    let Some(first) = looked.diagnosed else { return };
    let level = match first.severity {
        Severity::Outage => Level::Warning,
        Severity::Limits | Severity::Slows => Level::Notice,
        // That load was not seen.
        Severity::MayCost => return,
    };
    if findings.iter().all(|finding| finding.level < level) {
        findings.push(Finding::new(level, &first.cause, "evidence, remedy and command: the view Findings"));
    }
}
