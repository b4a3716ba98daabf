//! Which states were met, over all seeds: faults, what they hit, and how commands ended.

use std::collections::{BTreeMap, BTreeSet};

use nvme::Status;

use crate::host::Io;
use crate::takeover_phase::Phase;

/// Number of times that each event was met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    faults: BTreeMap<&'static str, u64>,
    met: BTreeMap<(&'static str, &'static str), u64>,
    endings: BTreeMap<(&'static str, String), u64>,
    /// Troubles of upgrades, by the step at which they struck: position in a word, and the word.
    upgrades: BTreeMap<(&'static str, (&'static str, &'static str)), u64>,
    /// Outcomes of upgrades, by trouble.
    outcomes: BTreeMap<(&'static str, &'static str), u64>,
    /// Mishaps of gateways, by the phase of the volume's takeover.
    takeovers: BTreeMap<(&'static str, Phase), u64>,
    /// Further counters.
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    pub(crate) fn met(&mut self, fault: &'static str, what: &'static str) {
        *self.met.entry((fault, what)).or_default() += 1;
    }

    pub(crate) fn upgrade(&mut self, trouble: &'static str, at: &'static str, word: &'static str) {
        *self.upgrades.entry((trouble, (at, word))).or_default() += 1;
    }

    pub(crate) fn takeover(&mut self, fault: &'static str, phase: Phase) {
        *self.takeovers.entry((fault, phase)).or_default() += 1;
    }

    pub(crate) fn outcome(&mut self, trouble: &'static str, outcome: &'static str) {
        *self.outcomes.entry((trouble, outcome)).or_default() += 1;
    }

    pub(crate) fn status(&mut self, io: &Io, status: Status) {
        let what = match io {
            Io::Read { .. } => "read",
            Io::Write { .. } => "write",
            Io::Flush { .. } => "flush",
            Io::Compare { .. } => "compare",
            Io::Register => "register",
            Io::Acquire { .. } => "acquire",
        };
        self.ending(what, status);
    }

    pub(crate) fn ending(&mut self, what: &'static str, status: Status) {
        *self.endings.entry((what, status.without_flags().to_string())).or_default() += 1;
    }

    pub(crate) fn count(&mut self, what: &'static str, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for (key, count) in &other.met {
            *self.met.entry(*key).or_default() += count;
        }
        for (key, count) in &other.endings {
            *self.endings.entry(key.clone()).or_default() += count;
        }
        for (key, count) in &other.upgrades {
            *self.upgrades.entry(*key).or_default() += count;
        }
        for (key, count) in &other.outcomes {
            *self.outcomes.entry(*key).or_default() += count;
        }
        for (key, count) in &other.takeovers {
            *self.takeovers.entry(*key).or_default() += count;
        }
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// Table of gateways' mishaps and phases, with the cells that are empty.
    fn takeovers(&self) -> String {
        let columns = Phase::ALL.map(Phase::name);
        let mut text = format!("| what befell gateways | {} |\n|---|", columns.join(" | "));
        text.push_str(&"---|".repeat(columns.len()));
        let faults: BTreeSet<&str> = self.takeovers.keys().map(|(fault, _)| *fault).collect();
        for fault in faults {
            text.push_str(&format!("\n| {fault} |"));
            for phase in Phase::ALL {
                let times = self.takeovers.get(&(fault, phase)).copied().unwrap_or(0);
                text.push_str(&format!(" {times} |"));
            }
        }
        text + "\n"
    }

    /// As tables of text.
    pub(crate) fn tables(&self) -> String {
        let mut text = table("what happened", &self.met, Some(&self.faults));
        text.push_str("\n| command | ended with | times |\n|---|---|---|\n");
        for ((what, status), count) in &self.endings {
            text.push_str(&format!("| {what} | {status} | {count} |\n"));
        }
        text.push_str("\n| at takeovers of the disk | times |\n|---|---|\n");
        for (what, count) in &self.counts {
            text.push_str(&format!("| {what} | {count} |\n"));
        }
        for at in ["before", "amid", "after"] {
            let here = self.upgrades.iter().filter(|((_, (place, _)), _)| *place == at);
            let here = here.map(|((trouble, (_, word)), count)| ((*trouble, *word), *count)).collect();
            text.push_str(&format!("\n{}", table(&format!("{at} the word"), &here, None)));
        }
        text.push_str(&format!("\n{}", self.takeovers()));
        text.push_str(&format!("\n{}", table("what befell an upgrade", &self.outcomes, None)));
        text
    }
}

/// Table of the counts of each row and column.
fn table(
    title: &str,
    met: &BTreeMap<(&'static str, &'static str), u64>,
    times: Option<&BTreeMap<&'static str, u64>>,
) -> String {
    let mut columns: Vec<&str> = met.keys().map(|(_, what)| *what).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut rows: Vec<&str> = met
        .keys()
        .map(|(row, _)| *row)
        .chain(times.into_iter().flat_map(|times| times.keys().copied()))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let mut text = format!("| {title} |{}", if times.is_some() { " times |" } else { "" });
    columns.iter().for_each(|column| text.push_str(&format!(" {column} |")));
    text.push_str(if times.is_some() { "\n|---|---|" } else { "\n|---|" });
    columns.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    for row in rows {
        text.push_str(&format!("| {row} |"));
        if let Some(times) = times {
            text.push_str(&format!(" {} |", times.get(row).copied().unwrap_or(0)));
        }
        for column in &columns {
            text.push_str(&format!(" {} |", met.get(&(row, *column)).copied().unwrap_or(0)));
        }
        text.push('\n');
    }
    text
}
