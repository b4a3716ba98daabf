//! A point of a sweep: one value of each axis. How it is measured is elsewhere.

use serde::{Deserialize, Serialize};

use crate::flags::sweep::Given;
use crate::spec::size::Size;

/// Load that a point is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Full load: as many commands as may be outstanding.
    Full,
    /// Commands a second of each job.
    Rate(u64),
    /// Percent of what it does without a rate.
    Share(f64),
}

/// Combination of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Options with one value each, in the order of the axes.
    pub values: Vec<(String, String)>,
}

/// The rate that stands for none.
pub(crate) const FULL: &str = "max";

impl Point {
    /// Value of an option, if the option is an axis here.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == option).map(|(_, value)| value.as_str())
    }

    /// Value of an option as a number; `None` leaves `bench`'s default.
    pub fn number(&self, option: &str) -> Option<u64> {
        self.value(option)?.parse().ok()
    }

    /// Returns the point without an option.
    pub fn without(&self, option: &str) -> Self {
        let values = self.values.iter().filter(|(name, _)| name != option).cloned().collect();
        Self { values }
    }

    /// Returns the point with one name for each mode of `sync`: writes with `dsync` and `1` are those with `sync`.
    pub(crate) fn with_modes_named_once(mut self) -> Self {
        for (_, value) in self.values.iter_mut().filter(|(option, _)| option == "sync") {
            match value.as_str() {
                "1" | "dsync" => *value = "sync".to_owned(),
                "0" => *value = "none".to_owned(),
                _ => {}
            }
        }
        self
    }

    pub fn jobs(&self) -> u64 {
        self.number("numjobs").unwrap_or(1)
    }

    /// Commands that all jobs together have outstanding at most.
    pub fn outstanding(&self) -> u64 {
        self.jobs().saturating_mul(self.number("iodepth").unwrap_or(1))
    }

    /// I/O queues of each path: as many as jobs by default.
    pub fn queues(&self) -> u64 {
        self.number("nr-io-queues").unwrap_or_else(|| self.jobs())
    }

    /// The kind of workload as fio names it.
    pub fn kind(&self) -> &str {
        match self.value("rw").unwrap_or("read") {
            "rw" => "readwrite",
            kind => kind,
        }
    }

    /// True if the point writes.
    pub fn writes(&self) -> bool {
        let mixed = matches!(self.kind(), "readwrite" | "randrw");
        let reads_only = mixed && self.value("rwmixread") == Some("100");
        !matches!(self.kind(), "read" | "randread") && !reads_only
    }

    /// Part of the data that goes in its busier direction: links carry reads and writes at the same time.
    pub(crate) fn one_way_share(&self) -> f64 {
        if !matches!(self.kind(), "readwrite" | "randrw") {
            return 1.0;
        }
        let reads = self.number("rwmixread").unwrap_or(50).min(100);
        reads.max(100 - reads) as f64 / 100.0
    }

    /// True if writes have Force Unit Access.
    pub(crate) fn forces_unit_access(&self) -> bool {
        self.value("sync").is_some_and(|mode| !matches!(mode, "none" | "0"))
    }

    /// Number of writes between two flushes, if there are flushes.
    fn flush_every(&self) -> Option<&str> {
        self.value("fsync").filter(|every| *every != "0")
    }

    /// True if writes are acknowledged without being made durable.
    pub(crate) fn is_volatile(&self) -> bool {
        !self.forces_unit_access() && self.flush_every().is_none()
    }

    /// Acknowledgement of writes in words: `volatile`, `FUA`, `flush every 64`.
    pub fn acknowledgement(&self) -> String {
        match (self.forces_unit_access(), self.flush_every()) {
            (false, None) => "volatile".to_owned(),
            (true, None) => "FUA".to_owned(),
            (false, Some(every)) => format!("flush every {every}"),
            (true, Some(every)) => format!("FUA, flush every {every}"),
        }
    }

    /// The load.
    ///
    /// # Errors
    /// What `--rate_iops` takes.
    pub fn load(&self) -> Result<Load, String> {
        let Some(rate) = self.value("rate_iops") else { return Ok(Load::Full) };
        let wrong = || {
            format!("--rate_iops {rate}: write commands a second of each job, a share such as 50%, or {FULL}")
        };
        if rate == FULL {
            return Ok(Load::Full);
        }
        match rate.strip_suffix('%') {
            Some(share) => {
                let share: f64 = share.parse().map_err(|_| wrong())?;
                if share > 0.0 && share <= 1000.0 { Ok(Load::Share(share)) } else { Err(wrong()) }
            }
            None => rate.parse().map(Load::Rate).map_err(|_| wrong()),
        }
    }

    /// The options of its line of `bench`; `rate` is the one of each job, where its load is a share.
    pub fn options(&self, rate: Option<u64>) -> Vec<Given> {
        let one = |option: &str, value: String| Given { option: option.to_owned(), values: vec![value] };
        let mut options: Vec<Given> = Vec::new();
        for (option, value) in &self.values {
            match option.as_str() {
                "rate_iops" if value == FULL => {}
                "rate_iops" if value.ends_with('%') => {
                    options.extend(rate.map(|rate| one(option, rate.to_string())));
                }
                _ => options.push(one(option, value.clone())),
            }
        }
        options
    }

    /// In words, as far as `tells` says that an option is worth telling.
    pub fn label(&self, tells: impl Fn(&str) -> bool) -> String {
        let parts = self.values.iter().filter(|(option, _)| tells(option));
        let words = |(option, value): &(String, String)| match option.as_str() {
            "sync" | "fsync" => self.acknowledgement(),
            _ => in_words(option, value),
        };
        let mut parts: Vec<String> = parts.map(words).collect();
        // Both options of an acknowledgement have the same words.
        parts.dedup();
        parts.join(", ")
    }
}

/// An option with its value, as people say it.
pub(crate) fn in_words(option: &str, value: &str) -> String {
    let plural = |noun: &str| if value == "1" { format!("1 {noun}") } else { format!("{value} {noun}s") };
    match option {
        "rw" | "transport" | "iopolicy" | "engine" | "congestion" => value.to_owned(),
        "rwmixread" => format!("{value} % reads"),
        "bs" => value.parse::<Size>().map_or_else(|_| value.to_owned(), |size| size.to_string()),
        "iodepth" => format!("depth {value}"),
        "numjobs" => plural("job"),
        "nr-io-queues" => plural("queue"),
        "match-hw-queues" if value == "on" => "queues matched to the NIC's".to_owned(),
        "match-hw-queues" => "queues not matched".to_owned(),
        "queue-size" => format!("queues of {value}"),
        "rate_iops" if value == FULL => "full load".to_owned(),
        "rate_iops" if value.ends_with('%') => format!("{} % load", value.trim_end_matches('%')),
        "rate_iops" => format!("{value} IOPS per job"),
        "poll-us" => format!("polling {value} µs"),
        "sync" if matches!(value, "none" | "0") => "no FUA".to_owned(),
        "sync" => "FUA".to_owned(),
        "fsync" => format!("flush every {value}"),
        other => format!("{other} {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(values: &[(&str, &str)]) -> Point {
        Point { values: values.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect() }
    }

    #[test]
    fn loads_are_read() {
        let load = |rate| point(&[("rate_iops", rate)]).load();
        assert_eq!(load("max"), Ok(Load::Full));
        assert_eq!(load("500"), Ok(Load::Rate(500)));
        assert_eq!(load("12.5%"), Ok(Load::Share(12.5)));
        assert_eq!(point(&[]).load(), Ok(Load::Full));
        for nonsense in ["%", "-5%", "0%", "1e9%", "NaN%", "fast", "-1"] {
            assert!(load(nonsense).unwrap_err().contains("--rate_iops"), "{nonsense}");
        }
    }

    #[test]
    fn options_are_those_of_bench() {
        let shared = point(&[("rw", "randread"), ("rate_iops", "50%")]);
        let rate = shared.options(Some(77));
        assert_eq!((rate[1].option.as_str(), rate[1].values[0].as_str()), ("rate_iops", "77"));
        assert_eq!(shared.options(None).len(), 1);
        assert_eq!(point(&[("rate_iops", "max")]).options(Some(77)), []);
    }

    #[test]
    fn an_acknowledgement_is_named_once() {
        for (values, label, is_volatile) in [
            (&[("sync", "none"), ("fsync", "0")][..], "volatile", true),
            (&[("sync", "none"), ("fsync", "64")], "flush every 64", false),
            (&[("sync", "dsync")], "FUA", false),
            (&[("sync", "sync"), ("fsync", "8")], "FUA, flush every 8", false),
            (&[("fsync", "0")], "volatile", true),
        ] {
            let point = point(&[&[("rw", "randwrite")][..], values].concat());
            assert_eq!(point.label(|_| true), format!("randwrite, {label}"));
            assert_eq!(point.is_volatile(), is_volatile, "{label}");
        }
    }

    #[test]
    fn labels_of_points_are_words() {
        let point = point(&[
            ("rw", "randrw"),
            ("bs", "16k"),
            ("numjobs", "1"),
            ("iodepth", "8"),
            ("nr-io-queues", "4"),
        ]);
        assert_eq!(point.label(|_| true), "randrw, 16 KiB, 1 job, depth 8, 4 queues");
        assert_eq!(point.label(|option| option == "bs"), "16 KiB");
        assert_eq!((point.outstanding(), point.queues()), (8, 4));
        assert!(point.writes() && !point.without("rw").writes());
    }
}
