//! Report: findings in the order of their cost, and unreadable data; as text and as JSON.

use std::fmt;

use chart::units::plural;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::Shortfall;

use super::case::Case;
use super::measurement::Measurement;
use super::rules;
use crate::diagnosis::finding::{Finding, in_order};
use crate::report::paragraph;
use crate::report::terminal;

/// Sentences are broken at this column, or earlier where the terminal is narrower.
const COLUMNS: usize = 80;
/// Maximum number of the kernel's controllers that are listed.
const CONTROLLERS_SHOWN_MAX: usize = 16;

/// The report. It is what `doctor -o json` prints: the names in it stay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Inspected objects, a line each.
    pub(crate) looked_at: Vec<String>,
    /// Seconds between the two looks.
    pub(crate) interval_s: f64,
    /// Reads that were measured, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measurement>,
    /// Causes, the one that costs most first.
    pub(crate) findings: Vec<Finding>,
    /// Data that could not be read, with the reasons.
    pub(crate) not_looked_at: Vec<Shortfall>,
    /// Changes since an earlier report, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Since>,
}

/// An earlier report, as far as it is compared.
#[derive(Debug, Deserialize)]
pub(crate) struct Former {
    findings: Vec<Finding>,
}

/// Changes since an earlier report.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Since {
    /// Causes that are no longer found.
    pub(crate) gone: Vec<Finding>,
    /// Causes that are found again.
    pub(crate) still: Vec<Finding>,
    /// Causes that were not found then.
    pub(crate) new: Vec<Finding>,
}

impl Report {
    /// Judges a case by all rules.
    pub(crate) fn of(case: &Case, not_looked_at: Vec<Shortfall>, former: Option<Former>) -> Self {
        let findings = in_order(rules::ALL.iter().map(|rule| rule.findings(case)));
        let since = former.map(|former| Since::of(former.findings, &findings));
        Self {
            looked_at: looked_at(case),
            interval_s: case.host.interval_s(),
            measured: case.measured.clone(),
            findings,
            not_looked_at,
            since,
        }
    }
}

impl Since {
    fn of(before: Vec<Finding>, now: &[Finding]) -> Self {
        let has = |all: &[Finding], finding: &Finding| all.iter().any(|other| other.is_same(finding));
        let new = now.iter().filter(|finding| !has(&before, finding)).cloned().collect();
        let (still, gone) = before.into_iter().partition(|finding| has(now, finding));
        Self { gone, still, new }
    }
}

fn looked_at(case: &Case) -> Vec<String> {
    let host = &case.host;
    let topology = &host.survey.topology;
    let mut lines = vec![format!("Linux {}, CPUs {}", topology.kernel, topology.processors.online)];
    let wanted = host.paths.iter().filter(|path| path.is_wanted);
    lines.extend(wanted.map(|path| match (&path.way, &path.probe) {
        (Ok(way), Some(crate::probe::Probe::Reached { rtt_us })) => {
            let took = chart::units::time_ns(*rtt_us as f64 * 1e3);
            format!("{} by {}, connected in {took}", path.name(), way.interface)
        }
        (Ok(way), _) => format!("{} by {}", path.name(), way.interface),
        (Err(reason), _) => format!("{}: {reason}", path.name()),
    }));
    let flows = host.flows().count();
    if flows > 0 {
        lines.push(plural(flows as u64, "NVMe/TCP connection"));
    }
    lines.extend(host.controllers.iter().take(CONTROLLERS_SHOWN_MAX).map(|controller| {
        format!(
            "kernel's controller {} ({}): {}",
            controller.name, controller.subsystem_nqn, controller.state
        )
    }));
    let more = host.controllers.len().saturating_sub(CONTROLLERS_SHOWN_MAX) as u64;
    if more > 0 {
        lines.push(format!("and {} more of the kernel's", plural(more, "controller")));
    }
    lines.extend(case.targets.iter().map(|target| {
        let controllers = target.rates.controllers().count() as u64;
        let (namespaces, hosts) = (target.namespaces.len() as u64, plural(controllers, "controller"));
        format!("target {}: {}, {hosts}", target.name, plural(namespaces, "namespace"))
    }));
    lines.extend(case.measured.iter().flat_map(Measurement::lines));
    lines
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for line in &self.looked_at {
            text.push_str(&wrapped(line, 0));
        }
        if self.findings.is_empty() {
            text.push_str("\nNothing found.\n");
        }
        for (number, finding) in (1..).zip(&self.findings) {
            text.push('\n');
            text.push_str(&paragraph(number, finding));
        }
        if let Some(since) = &self.since {
            text.push_str(&changes(since));
        }
        if !self.not_looked_at.is_empty() {
            text.push_str("\nNot examined\n");
            for shortfall in &self.not_looked_at {
                let root = if shortfall.needs_root { " (root may)" } else { "" };
                text.push_str(&listed(&format!("{}: {}{root}", shortfall.what, shortfall.reason)));
            }
        }
        // Names come from the system, from hosts or from a recording: none of them may steer the terminal.
        let plain = |letter: char| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter };
        f.write_str(&text.chars().map(plain).collect::<String>())
    }
}

fn paragraph(number: usize, finding: &Finding) -> String {
    let cost = match finding.cost_percent {
        percent if percent >= 1.0 => {
            format!(", about {percent:.0} %")
        }
        _ => String::new(),
    };
    let head = format!("{number}. {} ({}{cost})", finding.cause, finding.severity.title());
    let mut text = wrapped(&head, 0);
    for evidence in &finding.evidence {
        text.push_str(&labelled("evidence", evidence));
    }
    text.push_str(&labelled("remedy", &finding.cure));
    text.push_str(&labelled("expected", &finding.expected));
    for command in &finding.commands {
        // A command is copied: it is never broken.
        text.push_str(&format!("   command  {command}\n"));
    }
    text
}

fn changes(since: &Since) -> String {
    let mut text = "\nSince the earlier report\n".to_owned();
    for (what, findings) in [("resolved", &since.gone), ("remaining", &since.still), ("new", &since.new)] {
        for finding in findings {
            text.push_str(&listed(&format!("{what}: {}", finding.cause)));
        }
    }
    if since.gone.is_empty() && since.still.is_empty() && since.new.is_empty() {
        text.push_str("  no findings then or now\n");
    }
    text
}

fn wrapped(text: &str, indent: usize) -> String {
    let columns = terminal::columns().map_or(COLUMNS, |columns| columns.min(COLUMNS));
    paragraph::within(text, indent, Some(columns))
}

fn listed(text: &str) -> String {
    format!("- {}", wrapped(text, 2).trim_start())
}

fn labelled(label: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("   {label:<8} {}", wrapped(text, 12).trim_start())
}
