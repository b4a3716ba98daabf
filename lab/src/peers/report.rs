//! The runs of one store as tables: medians of each pattern and candidate beside ours. It keeps out how runs are made.

use std::fmt::Write;

use serde::Serialize;

use super::CANDIDATES;
use super::pattern::{PATTERNS, Pattern};
use super::reading::Reading;
use crate::statistics::median;
use crate::table::{Table, ratio, short, whole};

/// One run, which is one line of what is kept.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) store: &'static str,
    pub(crate) round: u32,
    pub(crate) pattern: Pattern,
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
    pub(crate) server_command: Vec<String>,
    pub(crate) client_command: Vec<String>,
    pub(crate) reading: Option<Reading>,
    /// Processor time of each end per request, in microseconds, with what starting and connecting took.
    pub(crate) server_us: Option<f64>,
    pub(crate) client_us: Option<f64>,
    /// What neither end used of all processors, nor nobody: other programs, the kernel's own work, and what the machine
    /// below did not give.
    pub(crate) others_percent: f64,
    /// Why there is no figure.
    pub(crate) failure: Option<String>,
}

/// All tables of `store`, as Markdown or as plain text.
pub(crate) fn tables(records: &[Record], store: &str, markdown: bool) -> String {
    let mut text = String::new();
    for pattern in PATTERNS {
        let table = table(records, store, &pattern);
        let (before, rendered) = if markdown { ("\n", table.markdown()) } else { ("", table.text()) };
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "{}{}:\n{before}{rendered}", pattern.name, spread_note(records, store, &pattern));
    }
    text
}

fn table(records: &[Record], store: &str, pattern: &Pattern) -> Table {
    let head = [
        "server",
        "client",
        "IOPS",
        "MB/s",
        "mean µs",
        "p99 µs",
        "server CPU µs",
        "client CPU µs",
        "IOPS of ours",
    ];
    let mut table = Table::new(&head);
    let ours = column(records, store, pattern, 0, |record| record.reading.map(|reading| reading.iops));
    for (number, (server, client)) in CANDIDATES.iter().enumerate() {
        if !client.can(pattern) {
            continue;
        }
        let figure = |of: fn(&Record) -> Option<f64>| column(records, store, pattern, number, of);
        let iops = figure(|record| record.reading.map(|reading| reading.iops));
        let measured = figure(|record| record.reading.and_then(|reading| reading.mean_us));
        // What is outstanding is known, so that the mean follows from the rate (Little), for those who do not tell it.
        let derived = iops.map(|iops| format!("≈{}", short(Some(f64::from(pattern.depth) / iops * 1e6))));
        table.row(vec![
            server.name().to_owned(),
            client.name().to_owned(),
            whole(iops),
            whole(iops.map(|iops| iops * f64::from(pattern.block_bytes) / 1e6)),
            measured.map_or_else(|| derived.unwrap_or_else(|| "-".to_owned()), |us| short(Some(us))),
            short(figure(|record| record.reading.and_then(|reading| reading.p99_us))),
            short(figure(|record| record.server_us)),
            short(figure(|record| record.client_us)),
            ratio(iops, ours),
        ]);
    }
    table
}

/// How far apart the rounds of ours were, and how much of the machine somebody else had: what differs by less is noise.
fn spread_note(records: &[Record], store: &str, pattern: &Pattern) -> String {
    let all: Vec<f64> = runs(records, store, pattern, 0)
        .filter_map(|record| record.reading.map(|reading| reading.iops))
        .collect();
    let (Some(least), Some(most)) =
        (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max))
    else {
        return String::new();
    };
    let of_pattern = records.iter().filter(|r| r.store == store && r.pattern.name == pattern.name);
    let others =
        median(&of_pattern.map(|record| record.others_percent).collect::<Vec<_>>()).unwrap_or_default();
    format!(" (ours in {} rounds: {least:.0} to {most:.0} IOPS; other work {others:.0} %)", all.len())
}

fn runs<'a>(
    records: &'a [Record],
    store: &'a str,
    pattern: &'a Pattern,
    candidate: usize,
) -> impl Iterator<Item = &'a Record> {
    let (server, client) = CANDIDATES[candidate];
    records.iter().filter(move |record| {
        record.store == store
            && record.pattern.name == pattern.name
            && (record.server, record.client) == (server.name(), client.name())
    })
}

fn column(
    records: &[Record],
    store: &str,
    pattern: &Pattern,
    candidate: usize,
    of: fn(&Record) -> Option<f64>,
) -> Option<f64> {
    median(&runs(records, store, pattern, candidate).filter_map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(candidate: usize, iops: Option<f64>, mean_us: Option<f64>) -> Record {
        let (server, client) = CANDIDATES[candidate];
        let reading =
            iops.map(|iops| Reading { iops, requests: None, mean_us, p50_us: None, p99_us: mean_us });
        Record {
            store: "memory",
            round: 1,
            pattern: PATTERNS[1],
            server: server.name(),
            client: client.name(),
            server_command: Vec::new(),
            client_command: Vec::new(),
            reading,
            server_us: Some(2.0),
            client_us: None,
            others_percent: 5.0,
            failure: None,
        }
    }

    #[test]
    fn medians_beside_ours() {
        let records = [
            record(0, Some(100_000.0), Some(310.0)),
            record(0, Some(120_000.0), Some(300.0)),
            record(0, Some(80_000.0), Some(400.0)),
            record(1, Some(25_000.0), None),
            record(1, None, None),
        ];
        let text = tables(&records, "memory", false);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        let cells = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("depth 32 (ours in 3 rounds: 80000 to 120000 IOPS; other work 5 %):"),
            "{text}"
        );
        let ours = text.lines().find(|line| line.starts_with("NVMe/TCP") && line.contains("100000")).unwrap();
        assert!(cells(ours.to_owned()).ends_with("100000 410 310 310 2.0 - 1.00"), "{ours}");
        let other = text.lines().find(|line| line.contains("25000")).unwrap().to_owned();
        assert!(cells(other.clone()).ends_with("25000 102 ≈1280 - 2.0 - 0.25"), "{other}");
        assert!(line("4k random write").starts_with("4k random write, depth 32:"));
        assert!(tables(&records, "memory", true).contains("| server | client | IOPS |"));
    }
}
