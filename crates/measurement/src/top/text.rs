//! The screen of `top` as plain text, with everything there is at once, for pipes and files; and the lines that both it
//! and the live screen begin with.

use std::time::Duration;

use chart::units;

use super::grid::{Grid, List as _};
use super::target_list::{TargetList, mean_text, percentile_text};
use super::watch::Watch;
use crate::report::table::Table;
use crate::target_rates::rates::{Flow, Rates};

/// Returns the lines about the whole target.
pub fn summary(rates: &Rates) -> Vec<String> {
    let load = &rates.all;
    let errors = load.errors_per_s.map_or("-".to_owned(), |errors| format!("{}/s", units::count(errors)));
    let controllers = rates.controllers().count();
    let connections: u64 = rates.reactors.iter().map(|reactor| reactor.connections).sum();
    let mut lines = vec![
        format!("read {}   write {}   errors {errors}", flow(&load.read), flow(&load.write)),
        format!("{}   in flight {}", latency(&load.total), units::grouped(rates.depth())),
        format!(
            "{}, {}, {}, listening on {}",
            units::plural(rates.subsystems.len() as u64, "subsystem"),
            units::plural(controllers as u64, "controller"),
            units::plural(connections, "connection"),
            if rates.ports.is_empty() { "nothing".to_owned() } else { rates.ports.join(", ") },
        ),
    ];
    if !load.total.stages_percent.is_empty() {
        lines.insert(2, stages(&load.total));
    }
    if rates.omitted > 0 {
        lines.push(format!("not shown: {} beyond the target's limit", units::grouped(rates.omitted)));
    }
    lines
}

fn flow(flow: &Flow) -> String {
    match (flow.iops, flow.bytes_per_s) {
        (Some(iops), Some(bytes)) => format!("{} IOPS, {}", units::count(iops), units::bandwidth(bytes)),
        _ => "-".to_owned(),
    }
}

fn latency(flow: &Flow) -> String {
    flow.latency.map_or("latency -".to_owned(), |latency| {
        format!(
            "latency mean {}, p50 {}, p99 {}, p99.9 {}",
            mean_text(latency.mean_ns),
            percentile_text(latency.p50_ns_max),
            percentile_text(latency.p99_ns_max),
            percentile_text(latency.p999_ns_max),
        )
    })
}

/// Returns the time by stage, the largest share first.
fn stages(flow: &Flow) -> String {
    let mut stages: Vec<(&String, &f64)> = flow.stages_percent.iter().collect();
    stages.sort_by(|a, b| b.1.total_cmp(a.1));
    let shares: Vec<String> = stages.iter().map(|(stage, share)| format!("{stage} {share:.0} %")).collect();
    format!("of that {}", shares.join(", "))
}

/// Everything that is known, each list under its name.
pub fn page(watch: &Watch, now: Duration) -> String {
    let mut text = format!("selvedge top  {}", watch.target);
    let Some(rates) = watch.rates() else {
        return text + "\n" + &watch.absence(now).unwrap_or_default() + "\n";
    };
    text += &format!("  version {}", rates.version);
    text += &rates.interval_s.map_or(String::new(), |seconds| format!("  over {seconds:.2} s"));
    if rates.restarted {
        text += "  restarted";
    }
    text.push('\n');
    for line in watch.absence(now).into_iter().chain(summary(rates)) {
        text += &format!("{line}\n");
    }
    let mut lists = vec![TargetList::Reactors, TargetList::Subsystems];
    for subsystem in &rates.subsystems {
        let nqn = || subsystem.nqn.clone();
        lists.extend([TargetList::Namespaces(nqn()), TargetList::Controllers(nqn())]);
        lists.extend(
            subsystem.controllers.iter().map(|controller| TargetList::Queues(nqn(), controller.cntlid)),
        );
    }
    for grid in lists.iter().filter_map(|list| list.grid(rates)).filter(|grid| !grid.rows.is_empty()) {
        text += &format!("\n{}\n{}", grid.title, table(&grid));
    }
    text
}

fn table(grid: &Grid<TargetList>) -> Table {
    let columns: Vec<_> = grid.columns.iter().map(|column| (column.title, column.side)).collect();
    let mut table = Table::new(&columns).indented(2);
    for row in &grid.rows {
        table.row(row.cells.iter().map(|cell| cell.text.clone()).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn the_page_has_everything_and_no_control_characters() {
        let page = page(&fixture::watch(), fixture::NOW);
        for part in [
            "unix:/run/selvedge/4420.sock",
            "read 10.0 k IOPS, 41.0 MB/s   write 5.00 k IOPS, 20.5 MB/s   errors 2/s",
            "latency mean 100 µs, p50 ≤64.0 µs, p99 ≤256 µs, p99.9 ≤256 µs   in flight 16",
            "2 subsystems, 2 controllers, 4 connections, listening on 127.0.0.1:4420",
            "\nreactors\n",
            "\nnamespaces of nqn.2026-01.io.selvedge:target\n",
            "queues of controller 1, host nqn.2014-08.org.nvmexpress:uuid:a?",
            "50.0 %",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(page.chars().all(|letter| letter == '\n' || !letter.is_control()));
        assert!(page.lines().all(|line| line.trim_end() == line), "{page}");
    }

    #[test]
    fn a_target_that_never_answered_has_a_message_too() {
        let mut watch = Watch::new("tcp:127.0.0.1:1".into(), Duration::from_secs(1));
        watch.hear(Err("refused".into()));
        let page = page(&watch, Duration::from_secs(3));
        assert_eq!(page, "selvedge top  tcp:127.0.0.1:1\nno answer for 3 s, still asking: refused\n");
    }
}
