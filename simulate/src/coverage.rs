//! Which states were met, over all seeds: faults, what they hit, and how commands ended.

use std::collections::BTreeMap;

use nvme::Status;

use crate::host::Io;

/// How often each was met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    faults: BTreeMap<&'static str, u64>,
    met: BTreeMap<(&'static str, &'static str), u64>,
    endings: BTreeMap<(&'static str, String), u64>,
    /// What else there was to count.
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    pub(crate) fn met(&mut self, fault: &'static str, what: &'static str) {
        *self.met.entry((fault, what)).or_default() += 1;
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
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// As tables of text.
    pub(crate) fn tables(&self) -> String {
        let mut columns: Vec<&str> = self.met.keys().map(|(_, what)| *what).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut text = String::from("| what happened | times |");
        columns.iter().for_each(|column| text.push_str(&format!(" {column} |")));
        text.push_str("\n|---|---|");
        columns.iter().for_each(|_| text.push_str("---|"));
        text.push('\n');
        for (fault, count) in &self.faults {
            text.push_str(&format!("| {fault} | {count} |"));
            for column in &columns {
                let met = self.met.get(&(*fault, *column)).copied().unwrap_or(0);
                text.push_str(&format!(" {met} |"));
            }
            text.push('\n');
        }
        text.push_str("\n| command | ended with | times |\n|---|---|---|\n");
        for ((what, status), count) in &self.endings {
            text.push_str(&format!("| {what} | {status} | {count} |\n"));
        }
        text.push_str("\n| at takeovers of the disk | times |\n|---|---|\n");
        for (what, count) in &self.counts {
            text.push_str(&format!("| {what} | {count} |\n"));
        }
        text
    }
}
