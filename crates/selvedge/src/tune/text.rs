//! A survey as text on a terminal.

use chart::units::plural;
use topology::{Interface, InterfaceKind};

use super::tables::{self, SurveyTable};
use crate::packet_path::Survey;
use crate::packet_path::words::machine;
use crate::report::table::Table;
use crate::report::{paragraph, terminal};

/// Sentences are broken at this column, or earlier where the terminal is narrower.
const COLUMNS: usize = 100;

/// Interfaces that are left out are named up to this many.
const LEFT_OUT_MAX: usize = 8;

/// Tables of the interfaces, queues and flows, and the findings in sentences.
pub(crate) fn survey_text(survey: &Survey) -> String {
    let mut text = String::new();
    text.push_str(&wrapped(&machine(&survey.topology), 0));
    text.push_str(&section(&tables::interfaces(survey)));
    text.push_str(&left_out(survey));
    let used = survey.used();
    let shown = survey.interfaces();
    let no_flows = survey.topology.flows.is_empty();
    for interface in shown.iter().filter(|interface| no_flows || used.contains(interface.name.as_str())) {
        // What has neither interrupts nor a table has nothing to say queue by queue.
        if has_queues(interface) {
            text.push_str(&section(&tables::interface_queues(survey, interface)));
        }
    }
    if no_flows {
        text.push_str(&format!("\nNVMe/TCP queues\n{}", wrapped(NO_FLOWS, 2)));
    } else {
        text.push_str(&section(&tables::flows(survey)));
    }
    text.push_str(&findings(survey));
    if !survey.topology.shortfalls.is_empty() {
        text.push_str(&section(&tables::unseen(survey)));
    }
    // Names come from the system or from a recording: none of them may steer the terminal.
    let plain = |letter: char| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter };
    text.chars().map(plain).collect()
}

pub(super) const NO_FLOWS: &str = "None on this machine now. They appear while the kernel's initiator is \
    connected (`nvme connect -t tcp ...`), while `selvedge bench` or `selvedge sweep` runs here, and where a target on \
    this machine serves hosts.";

/// True if an interface has data about single queues.
pub(super) fn has_queues(interface: &Interface) -> bool {
    interface.rss.is_some()
        || interface.receive.iter().any(|queue| queue.interrupt.is_some() || !queue.rps.is_empty())
}

fn section(source: &SurveyTable) -> String {
    let columns: Vec<_> = source.columns.iter().map(|(name, _, side)| (*name, *side)).collect();
    let mut table = Table::new(&columns).indented(2);
    for row in &source.rows {
        table.row(row.clone());
    }
    format!("\n{}\n{table}", source.title)
}

fn left_out(survey: &Survey) -> String {
    let shown = survey.interfaces();
    let is_out = |interface: &&Interface| {
        interface.kind != InterfaceKind::Loopback && !shown.iter().any(|other| other.name == interface.name)
    };
    let names: Vec<&str> =
        survey.topology.interfaces.iter().filter(is_out).map(|interface| interface.name.as_str()).collect();
    let more = names.len().saturating_sub(LEFT_OUT_MAX);
    match names.len() {
        0 => String::new(),
        count => wrapped(
            &format!(
                "{} without a device and without NVMe/TCP left out: {}{}",
                plural(count as u64, "interface"),
                names[..count - more].join(", "),
                if more > 0 { format!(" and {more} more") } else { String::new() }
            ),
            2,
        ),
    }
}

fn findings(survey: &Survey) -> String {
    let mut text = "\nFindings\n".to_owned();
    if survey.findings.is_empty() {
        text.push_str(match survey.topology.flows.is_empty() {
            true => "  none\n",
            false => "  none: of what is known, flows share no receive queue while one is free, and no worker is on \
                      another CPU\n",
        });
    }
    for finding in &survey.findings {
        text.push_str("- ");
        text.push_str(wrapped(&finding.text, 2).trim_start());
    }
    text
}

/// A sentence in lines.
fn wrapped(text: &str, indent: usize) -> String {
    let columns = terminal::columns().map_or(COLUMNS, |columns| columns.min(COLUMNS));
    paragraph::within(text, indent, Some(columns))
}

#[cfg(test)]
mod tests;
