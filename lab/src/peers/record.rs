//! One run, which is one line of what is kept, and which of several attempts counts. It keeps out how runs are made.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pairing::Pairing;
use super::reading::Reading;
use super::workload::Workload;

/// Record of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) round: u32,
    /// From 1; more where the run before was disturbed.
    pub(crate) attempt: u32,
    pub(crate) pairing: Pairing,
    pub(crate) workload: Workload,
    pub(crate) reading: Option<Reading>,
    /// Processor time of each end per request, in microseconds, with what starting and connecting took.
    pub(crate) target_us: Option<f64>,
    pub(crate) host_us: Option<f64>,
    /// Of all processors: what the hypervisor did not give although there was work.
    pub(crate) steal_percent: f64,
    /// Share of other programs and of the kernel's own work.
    pub(crate) others_percent: f64,
    pub(crate) target_command: Vec<String>,
    pub(crate) host_command: Vec<String>,
    /// Why there is no figure.
    pub(crate) failure: Option<String>,
}

impl Record {
    pub(crate) fn iops(&self) -> Option<f64> {
        self.reading.map(|reading| reading.iops)
    }

    /// Share of all processors that both ends did not have although they may have wanted it.
    pub(crate) fn disturbance_percent(&self) -> f64 {
        self.steal_percent + self.others_percent
    }

    fn is_same_run(&self, other: &Record) -> bool {
        (self.round, self.pairing, &self.workload) == (other.round, other.pairing, &other.workload)
    }
}

/// Of several attempts at the same run, the one during which the hypervisor and others took least. What their figures are has no say
/// in it.
pub(crate) fn counted(records: &[Record]) -> Vec<&Record> {
    let mut counted: Vec<&Record> = Vec::new();
    for record in records.iter().filter(|record| record.reading.is_some()) {
        match counted.iter_mut().find(|other| other.is_same_run(record)) {
            None => counted.push(record),
            Some(other) if record.disturbance_percent() < other.disturbance_percent() => *other = record,
            Some(_) => {}
        }
    }
    counted
}

/// Reads `runs.jsonl` in a directory: what it was measured on, and the runs. A line that an end in the middle of it cut
/// short is left out.
///
/// # Errors
/// It cannot be read, or is not of this measurement.
pub(crate) fn kept(directory: &Path) -> Result<(Value, Vec<Record>), String> {
    let path = directory.join("runs.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines();
    let environment = lines.next().and_then(|line| serde_json::from_str(line).ok());
    let records: Vec<Record> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    match environment {
        Some(environment) if !records.is_empty() => Ok((environment, records)),
        _ => Err(format!("{} has no runs of `lab peers`", path.display())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::workload::USUAL;
    use super::*;

    pub(crate) fn record(round: u32, pairing: Pairing, workload: usize, iops: f64) -> Record {
        Record {
            round,
            attempt: 1,
            pairing,
            workload: USUAL[workload],
            reading: Some(Reading { iops, requests: None, mean_us: Some(80.0), p50_us: None, p99_us: None }),
            target_us: Some(2.0),
            host_us: Some(1.5),
            steal_percent: 3.0,
            others_percent: 1.0,
            target_command: vec!["serve".to_owned()],
            host_command: vec!["bench".to_owned()],
            failure: None,
        }
    }

    #[test]
    fn the_least_disturbed_attempt_counts() {
        let disturbed = Record { steal_percent: 40.0, ..record(1, Pairing::Ours, 0, 900.0) };
        let quiet = Record { attempt: 2, steal_percent: 2.0, ..record(1, Pairing::Ours, 0, 500.0) };
        let failed = Record { attempt: 3, reading: None, steal_percent: 0.0, ..quiet.clone() };
        let other = record(2, Pairing::Ours, 0, 700.0);
        let all = [disturbed, quiet.clone(), failed, other.clone()];
        assert_eq!(counted(&all), [&quiet, &other]);
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let directory = std::env::temp_dir().join(format!("selvedge-peers-kept-{}", std::process::id()));
        let mut journal =
            crate::journal::Journal::new(&directory, &serde_json::json!({ "kernel": "6.18" })).unwrap();
        let one = record(1, Pairing::SpdkOurs, 8, 300_000.0);
        journal.keep(&one).unwrap();
        let path = directory.join("runs.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "{\"round\":2,\"atte").unwrap();
        let (environment, records) = kept(&directory).unwrap();
        assert_eq!((environment["kernel"].as_str(), records), (Some("6.18"), vec![one]));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(kept(&directory).is_err());
    }
}
