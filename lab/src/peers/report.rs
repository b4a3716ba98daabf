//! What was measured as a page: ratios first, then the figures they come from, then how. It keeps out how runs are made.

use std::fmt::Write as _;

use chart::{Bar, Bars, Group, Unit};
use serde_json::Value;

use super::pairing::{COMPARISONS, Comparison, Pairing};
use super::record::{Record, counted};
use super::workload::Workload;
use crate::statistics::{median, median_interval, quantile};
use crate::table::{Table, short, whole};

/// Most comparisons in the picture: more colours look alike.
const PICTURE_COMPARISONS_MAX: usize = 6;

const OURS: [Pairing; 3] = [Pairing::Ours, Pairing::OursSpdk, Pairing::SpdkOurs];
const SPDKS: [Pairing; 3] = [Pairing::Spdk, Pairing::OursSpdk, Pairing::SpdkOurs];
/// Versions of what was run: where they are kept, what a program does not say itself, and whose they are.
const VERSIONS: [(&str, &str, &[Pairing]); 6] = [
    ("selvedge", "", &OURS),
    ("spdk", "", &SPDKS),
    ("qemu", "", &[Pairing::QemuNbd, Pairing::TgtdAio]),
    ("fio", "", &[Pairing::QemuNbd]),
    ("tgt", "tgt ", &[Pairing::Tgtd, Pairing::TgtdAio]),
    ("libiscsi", "libiscsi ", &[Pairing::Tgtd, Pairing::TgtdAio]),
];

/// Runs of one measurement, as they count.
pub(crate) struct Report<'a> {
    environment: &'a Value,
    all: &'a [Record],
    counted: Vec<&'a Record>,
    /// In the order in which they were first run.
    workloads: Vec<Workload>,
    pairings: Vec<Pairing>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(environment: &'a Value, all: &'a [Record]) -> Report<'a> {
        let counted = counted(all);
        // Rounds have random orders. What was asked for says how workloads follow; so does the first round otherwise.
        let asked: Vec<Workload> =
            serde_json::from_value(environment["workloads"].clone()).unwrap_or_default();
        let mut workloads: Vec<Workload> = asked
            .into_iter()
            .filter(|workload| all.iter().any(|record| record.workload == *workload))
            .collect();
        for record in all {
            if !workloads.contains(&record.workload) {
                workloads.push(record.workload);
            }
        }
        let has = |pairing: &Pairing| all.iter().any(|record| record.pairing == *pairing);
        let pairings = Pairing::ALL.into_iter().filter(has).collect();
        Report { environment, all, counted, workloads, pairings }
    }

    /// The whole page, in Markdown.
    pub(crate) fn text(&self, has_picture: bool) -> String {
        let mut text = format!("# Side by side with others\n\n{}\n\n", self.head());
        if has_picture {
            text += "![Ratios of IOPS](peers.svg)\n\n";
        }
        text += "## Ratios of IOPS\n\n\
                 Each figure is the median of the rounds' own ratios. In parentheses is the interval that holds the \
                 true median with 95 % confidence, by order statistics, which takes six rounds.\n\n";
        text += &self.ratios().markdown();
        text += "\n## Figures\n\n\
                 Medians of the rounds; quartiles in parentheses. CPU time is user and system time of each end for \
                 each request, with what starting took. SPDK's ends poll, so theirs is what their processors had.\n";
        for workload in &self.workloads {
            let _ = write!(text, "\n{}:\n\n{}", workload.name(), self.figures(workload).markdown());
        }
        text += &self.notes();
        text += &self.commands();
        text
    }

    /// A short table for a README: thousands of I/Os per second and what matters of the ratios.
    pub(crate) fn short_table(&self) -> String {
        let mut head = vec!["thousand IOPS".to_owned()];
        head.extend(self.pairings.iter().map(|pairing| pairing.name().to_owned()));
        let comparisons: Vec<&Comparison> =
            COMPARISONS.iter().filter(|comparison| self.has(comparison)).take(1).collect();
        head.extend(comparisons.iter().map(|comparison| format!("{} (95 %)", comparison.title)));
        let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
        for workload in &self.workloads {
            let mut row = vec![workload.name()];
            for pairing in &self.pairings {
                let iops = median(&self.column(workload, *pairing, Record::iops));
                row.push(short(iops.map(|iops| iops / 1000.0)));
            }
            row.extend(
                comparisons.iter().map(|comparison| ratio_cell(&self.round_ratios(workload, comparison))),
            );
            table.row(row);
        }
        table.markdown()
    }

    /// The ratios as bars. None without any.
    pub(crate) fn picture(&self) -> Option<String> {
        let comparisons: Vec<&Comparison> = COMPARISONS
            .iter()
            .filter(|comparison| self.has(comparison))
            .take(PICTURE_COMPARISONS_MAX)
            .collect();
        let bar = |workload: &Workload, (kind, comparison): (usize, &&Comparison)| {
            let ratio = median(&self.round_ratios(workload, comparison))?;
            Some(Bar { name: String::new(), kind, values: vec![Some(ratio)] })
        };
        let groups: Vec<Group> = self
            .workloads
            .iter()
            .map(|workload| Group {
                name: workload.name(),
                bars: comparisons.iter().enumerate().filter_map(|one| bar(workload, one)).collect(),
            })
            .filter(|group| !group.bars.is_empty())
            .collect();
        (!groups.is_empty()).then(|| {
            chart::svg::draw_bars(&Bars {
                id: "peers".to_owned(),
                title: "IOPS beside others; 1 is equality".to_owned(),
                unit: Unit::Ratio,
                panels: vec!["median ratio".to_owned()],
                kinds: comparisons.iter().map(|comparison| comparison.title.to_owned()).collect(),
                groups,
            })
        })
    }

    fn head(&self) -> String {
        let said = |name: &str| match &self.environment[name] {
            Value::String(text) => text.clone(),
            Value::Null => "unknown".to_owned(),
            other => other.to_string(),
        };
        let mut text = format!(
            "{} × {}, Linux {}, congestion control {}; {}. Target on CPU {}, host on CPU {}, loopback, {} MiB of memory. \
             {} rounds of {} s, order from seed {}.",
            said("processors"),
            said("processor"),
            said("kernel"),
            said("congestion"),
            said("date"),
            said("target_cpu"),
            said("host_cpu"),
            said("namespace_mib"),
            self.all.iter().map(|record| record.round).max().unwrap_or_default(),
            said("seconds"),
            said("seed"),
        );
        let known: Vec<String> = VERSIONS
            .iter()
            .filter(|(_, _, of)| self.pairings.iter().any(|pairing| of.contains(pairing)))
            .filter_map(|(name, prefix, _)| Some(format!("{prefix}{}", self.environment[name].as_str()?)))
            .collect();
        if !known.is_empty() {
            let _ = write!(text, "\n\n{}.", known.join("; "));
        }
        text
    }

    fn ratios(&self) -> Table {
        let comparisons: Vec<&Comparison> = COMPARISONS.iter().filter(|one| self.has(one)).collect();
        let mut head = vec!["workload"];
        head.extend(comparisons.iter().map(|comparison| comparison.title));
        let mut table = Table::new(&head);
        for workload in &self.workloads {
            let cells = comparisons.iter().map(|one| ratio_cell(&self.round_ratios(workload, one)));
            table.row([workload.name()].into_iter().chain(cells).collect());
        }
        table
    }

    fn figures(&self, workload: &Workload) -> Table {
        let head =
            ["pairing", "IOPS", "MB/s", "mean µs", "target CPU µs", "host CPU µs", "steal %", "other work %"];
        let mut table = Table::new(&head);
        for pairing in self.pairings.iter().filter(|pairing| pairing.can(workload)) {
            let figure = |of: fn(&Record) -> Option<f64>| median(&self.column(workload, *pairing, of));
            let iops = self.column(workload, *pairing, Record::iops);
            let middle = median(&iops);
            let measured = figure(|record| record.reading.and_then(|reading| reading.mean_us));
            // What is outstanding is known, so that the mean follows from the rate (Little), for those who do not say it.
            let derived =
                middle.map(|iops| format!("≈{}", short(Some(f64::from(workload.depth) / iops * 1e6))));
            table.row(vec![
                pairing.name().to_owned(),
                spread(&iops),
                whole(middle.map(|iops| iops * f64::from(workload.block_bytes) / 1e6)),
                measured.map_or_else(|| derived.unwrap_or_else(|| "-".to_owned()), |us| short(Some(us))),
                short(figure(|record| record.target_us)),
                short(figure(|record| record.host_us)),
                whole(figure(|record| Some(record.steal_percent))),
                whole(figure(|record| Some(record.others_percent))),
            ]);
        }
        table
    }

    fn notes(&self) -> String {
        let others_max = self.environment["others_max"].as_f64().unwrap_or(100.0);
        let repeated = self.all.iter().filter(|record| record.attempt > 1).count();
        let disturbed = self.counted.iter().filter(|record| record.steal_percent > others_max).count();
        let mut text = String::from("\n## Notes\n\n");
        let _ = writeln!(
            text,
            "- {} runs count. {repeated} were repetitions of runs during which the hypervisor and other work took more \
             than {others_max:.0} % of both CPUs; the least disturbed attempt counts. {disturbed} that count were still disturbed.",
            self.counted.len()
        );
        if let Some(left_out) = self.environment["left_out"].as_array() {
            for reason in left_out.iter().filter_map(Value::as_str) {
                let _ = writeln!(text, "- Left out: {reason}.");
            }
        }
        for record in self.all {
            if let Some(failure) = &record.failure {
                let (name, workload) = (record.pairing.name(), record.workload.name());
                let first = failure.lines().next().unwrap_or_default();
                let _ = writeln!(text, "- Failed in round {}: {name}, {workload}: {first}", record.round);
            }
        }
        text
    }

    /// First command lines of each pairing.
    fn commands(&self) -> String {
        let mut text = String::from("\n## Commands\n\n```\n");
        for pairing in &self.pairings {
            let first = self.counted.iter().find(|record| record.pairing == *pairing);
            let Some(first) = first else { continue };
            for command in
                [&first.target_command, &first.host_command].into_iter().filter(|one| !one.is_empty())
            {
                let _ = writeln!(text, "{}", command.join(" "));
            }
        }
        text + "```\n"
    }

    fn has(&self, comparison: &Comparison) -> bool {
        self.workloads.iter().any(|workload| !self.round_ratios(workload, comparison).is_empty())
    }

    fn runs(&self, workload: &'a Workload, pairing: Pairing) -> impl Iterator<Item = &&'a Record> {
        self.counted.iter().filter(move |record| record.pairing == pairing && record.workload == *workload)
    }

    fn column(&self, workload: &Workload, pairing: Pairing, of: fn(&Record) -> Option<f64>) -> Vec<f64> {
        self.runs(workload, pairing).filter_map(|record| of(record)).collect()
    }

    /// The ratio of each round that has both. A round that is slow is slow for both.
    fn round_ratios(&self, workload: &Workload, comparison: &Comparison) -> Vec<f64> {
        let base = |round: u32| {
            self.runs(workload, comparison.to)
                .find(|record| record.round == round)
                .and_then(|record| record.iops())
        };
        let pairs = self
            .runs(workload, comparison.of)
            .filter_map(|record| Some((record.iops()?, base(record.round)?)));
        pairs.filter(|(_, base)| *base > 0.0).map(|(iops, base)| iops / base).collect()
    }
}

/// The median with its interval, or a dash.
fn ratio_cell(ratios: &[f64]) -> String {
    match (median(ratios), median_interval(ratios)) {
        (None, _) => "-".to_owned(),
        (Some(middle), None) => format!("{middle:.2}"),
        (Some(middle), Some((low, high))) => format!("{middle:.2} ({low:.2} to {high:.2})"),
    }
}

/// The median with its quartiles, or a dash.
fn spread(figures: &[f64]) -> String {
    match (median(figures), quantile(figures, 0.25), quantile(figures, 0.75)) {
        (Some(middle), Some(low), Some(high)) => format!("{middle:.0} ({low:.0} to {high:.0})"),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::tests::record;
    use super::super::workload::USUAL;
    use super::*;

    /// Rounds of different speed: what is compared runs in the same round.
    fn records() -> Vec<Record> {
        let mut records = Vec::new();
        for round in 1..=6_u32 {
            let speed = f64::from(round) * 10_000.0;
            records.push(record(round, Pairing::Spdk, 1, speed));
            records.push(record(round, Pairing::Ours, 1, speed * 1.25));
            records.push(record(round, Pairing::OursSpdk, 1, speed * 2.0));
            records.push(record(round, Pairing::Ours, 0, 50_000.0));
        }
        records
    }

    #[test]
    fn ratios_are_of_rounds_and_come_first() {
        let environment = json!({ "workloads": USUAL, "kernel": "6.18", "seed": 7, "others_max": 15, "spdk": "SPDK v26", "tgt": "1" });
        let records = records();
        let text = Report::new(&environment, &records).text(true);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert_eq!(
            line("| workload |"),
            "| workload | both ends ours / both SPDK's | our target / SPDK's, with SPDK's host | our host / SPDK's, with our target |"
        );
        assert_eq!(
            line("| 4 KiB random read, depth 32"),
            "| 4 KiB random read, depth 32 | 1.25 (1.25 to 1.25) | 2.00 (2.00 to 2.00) | 0.62 (0.62 to 0.62) |"
        );
        // Workloads are in the order that was asked for, not in that of the first round.
        assert!(
            text.find("| 4 KiB random read, depth 1 | - |") < text.find("| 4 KiB random read, depth 32 |"),
            "{text}"
        );
        assert_eq!(
            line("| our target + our host | 43750"),
            "| our target + our host | 43750 (28125 to 59375) | 179 | 80.0 | 2.0 | 1.5 | 3 | 1 |"
        );
        assert!(text.find("## Ratios") < text.find("## Figures"), "{text}");
        assert!(
            text.contains("Linux 6.18") && text.contains("seed 7") && text.contains("SPDK v26."),
            "{text}"
        );
    }

    #[test]
    fn notes_say_what_was_disturbed_and_what_failed() {
        let environment = json!({ "others_max": 15, "left_out": ["tgtd: it takes root"] });
        let mut records = records();
        records[0].steal_percent = 40.0;
        let again = Record { attempt: 2, steal_percent: 30.0, ..records[0].clone() };
        let failed = Record { reading: None, failure: Some("gone\nand more".to_owned()), ..again.clone() };
        records.extend([again, failed]);
        let text = Report::new(&environment, &records).text(false);
        assert!(text.contains("- 24 runs count. 2 were repetitions of"), "{text}");
        assert!(text.contains("1 that count were still disturbed."), "{text}");
        assert!(text.contains("- Left out: tgtd: it takes root.\n"), "{text}");
        let failure = "- Failed in round 1: SPDK's target + SPDK's host, 4 KiB random read, depth 32: gone\n";
        assert!(text.contains(failure), "{text}");
        assert!(!text.contains("peers.svg") && text.contains("\nserve\nbench\n"), "{text}");
    }

    #[test]
    fn the_table_has_only_what_was_run() {
        let environment = json!({ "workloads": USUAL });
        let records = records();
        let table = Report::new(&environment, &records).short_table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "| thousand IOPS | our target + our host | SPDK's target + SPDK's host | our target + SPDK's host | both ends ours / both SPDK's (95 %) |"
        );
        assert_eq!(lines[3], "| 4 KiB random read, depth 32 | 43.8 | 35.0 | 70.0 | 1.25 (1.25 to 1.25) |");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn the_picture_has_a_bar_for_each_ratio() {
        let environment = json!({});
        let records = records();
        let svg = Report::new(&environment, &records).picture().unwrap();
        assert_eq!(svg.matches("class=\"bar s").count(), 3, "{svg}");
        assert!(svg.contains(">1.25×<") && svg.contains(">2.00×<"), "{svg}");
        let alone = [record(1, Pairing::Ours, 0, 1.0)];
        assert!(Report::new(&environment, &alone).picture().is_none());
    }

    #[test]
    fn few_rounds_have_no_interval() {
        assert_eq!(ratio_cell(&[1.0, 1.2, 1.1]), "1.10");
        assert_eq!((ratio_cell(&[]), spread(&[])), ("-".to_owned(), "-".to_owned()));
    }
}
