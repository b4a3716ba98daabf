//! Choice and placement of I/O queues, as text and as JSON. The names in the JSON stay.

use std::fmt;

use chart::units;
use serde::Serialize;

use super::table::{Side, Table};
use crate::bench::auto_queues::Trial;
use crate::bench::matching::{MatchReport, MatchedQueue};

/// Maximum number of queues listed in the text; the JSON has all.
const QUEUES_SHOWN_MAX: usize = 32;

impl fmt::Display for MatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface.as_deref().unwrap_or("an interface that is not known");
        let queues = units::plural(u64::from(self.limit), "queue");
        writeln!(f, "match   {} over {interface}: up to {queues}, {}", self.address, self.reason)?;
        self.hint.iter().try_for_each(|hint| writeln!(f, "        {hint}"))?;
        if let Some(choice) = &self.kernel_choice {
            writeln!(f, "        a kernel with the series of July 2026 creates {choice}")?;
        }
        self.placement.iter().try_for_each(|reason| writeln!(f, "        {reason}"))?;
        write!(f, "{}", table(&self.queues))?;
        match self.queues.len().saturating_sub(QUEUES_SHOWN_MAX) {
            0 => Ok(()),
            more => writeln!(f, "        and {more} more: see -o json"),
        }
    }
}

/// The queues of a path as a table.
fn table(queues: &[MatchedQueue]) -> Table {
    let mut table = Table::new(&[
        ("queue", Side::Right),
        ("receive queue", Side::Right),
        ("CPU", Side::Right),
        ("port", Side::Right),
    ]);
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for queue in queues.iter().take(QUEUES_SHOWN_MAX) {
        table.row(vec![
            queue.qid.to_string(),
            text(queue.receive_queue.map(|queue| queue.to_string())),
            text(queue.cpu.map(|cpu| cpu.to_string())),
            text(queue.port.map(|port| port.to_string())),
        ]);
    }
    table
}

/// Trials that led to a number of queues.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct AutoReport {
    /// The number that it began with, by the rule, and the most that was allowed.
    pub start: u16,
    pub most: u16,
    /// The rule for each path, with its reason and the number that a kernel with the series of July 2026 creates.
    pub rules: Vec<String>,
    pub trials: Vec<TrialReport>,
    pub settled: u16,
    pub reason: String,
}

/// A trial, and what was made of it.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct TrialReport {
    pub queues: u16,
    #[serde(flatten)]
    pub trial: Trial,
    pub verdict: String,
}

impl fmt::Display for TrialReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trial { p99_us, iops, cpu_us_per_io, cpu_busy } = self.trial;
        write!(
            f,
            "{}: p99 {}, {} IOPS, {cpu_us_per_io:.2} µs of CPU a command, CPUs {:.0} % busy: {}",
            units::plural(u64::from(self.queues), "queue"),
            units::time_ns(p99_us * 1000.0),
            units::count(iops),
            100.0 * cpu_busy,
            self.verdict
        )
    }
}

impl fmt::Display for AutoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (settled, tried) = (units::plural(u64::from(self.settled), "queue"), self.trials.len() as u64);
        writeln!(f, "auto    {settled} after {}: {}", units::plural(tried, "trial"), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use topology::KernelChoice;

    use super::*;

    #[test]
    fn a_match_is_printed_in_lines() {
        let queue = |qid: u16| MatchedQueue {
            qid,
            receive_queue: Some(7),
            cpu: None,
            worker_cpus: vec![3],
            port: Some(40_000 + qid),
        };
        let report = MatchReport {
            address: "10.0.0.2:4420".parse().unwrap(),
            interface: Some("eth0".to_owned()),
            limit: 40,
            reason: "the least of 72 online CPUs, 40 combined queues of eth0".to_owned(),
            hint: Some("`ethtool -L eth0 combined 63` would give it 63 queues".to_owned()),
            kernel_choice: Some(KernelChoice {
                device: "eth0".to_owned(),
                queues: 40,
                nic_queues: Some(40),
                cpus: 72,
                doubt: None,
                remark: None,
            }),
            placement: vec!["each worker sits somewhere".to_owned()],
            queues: (1..=40).map(queue).collect(),
        };
        let text = report.to_string();
        for part in [
            "over eth0: up to 40 queues",
            "combined 63",
            "somewhere",
            "40032",
            "and 8 more",
            "creates 40 (the lesser of 72 CPUs",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        let json = serde_json::to_value(report).unwrap();
        let first = serde_json::json!({
            "qid": 1, "receive_queue": 7, "cpu": null, "worker_cpus": [3], "port": 40_001,
        });
        assert_eq!(json["queues"][0], first);
        assert_eq!(json["limit"], 40);
    }

    #[test]
    fn trials_are_printed_in_a_line_each() {
        let trial = Trial { p99_us: 412.0, iops: 61_234.0, cpu_us_per_io: 8.1, cpu_busy: 0.43 };
        let trial = TrialReport { queues: 4, trial, verdict: "the first".to_owned() };
        let line = trial.to_string();
        for part in ["4 queues", "412", "8.10 µs", "43 % busy", "the first"] {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
        let report = AutoReport {
            start: 4,
            most: 8,
            rules: Vec::new(),
            trials: vec![trial],
            settled: 4,
            reason: "it is so".to_owned(),
        };
        assert_eq!(report.to_string(), "auto    4 queues after 1 trial: it is so\n");
        assert_eq!(serde_json::to_value(&report).unwrap()["trials"][0]["p99_us"], 412.0);
    }
}
