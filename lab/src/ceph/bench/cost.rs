//! What the gateway costs beside librbd alone, on a cluster that is as fast as it gets. It keeps out how a run is made.

use std::fmt::Write as _;

use super::Keep;
use super::access::{Access, Librbd};
use super::run::{Group, Plan, Run};
use super::stand::Stand;
use super::workload::Workload;
use crate::shuffle::Shuffle;
use crate::statistics::median;
use crate::table::{Table, short, whole};

const PART: &str = "cost";
/// The project's goal: the CPU time of an I/O is at most this many times that of librbd alone...
const CPU_RATIO_MAX: f64 = 1.25;
/// ...and at least this share of its IOPS.
const IOPS_RATIO_MIN: f64 = 0.9;

const WORKLOADS: [Workload; 4] = [
    Workload::new("4 KiB random read, depth 32", "randread", 4096, 32),
    Workload::new("4 KiB random read, depth 1", "randread", 4096, 1),
    Workload::new("4 KiB random write, depth 32", "randwrite", 4096, 32),
    Workload::new("4 KiB random write, depth 1", "randwrite", 4096, 1),
];
const CACHED: Access = Access::Fio { librbd: Librbd::Cached };
const ACCESSES: [Access; 5] = [
    Access::ALONE,
    CACHED,
    Access::Fio { librbd: Librbd::OneThread },
    Access::gateway(1),
    Access::gateway(2),
];

/// True if an access can differ from others there: librbd's cache holds back writes only.
fn counts(access: Access, workload: &Workload) -> bool {
    access != CACHED || workload.rw != "randread"
}

/// All accesses with all workloads, in each round in another order.
///
/// # Errors
/// Runs cannot be kept.
pub(super) fn measure(
    stand: &Stand,
    rounds: u32,
    shuffle: &mut Shuffle,
    keep: &mut Keep,
) -> Result<(), String> {
    for round in 1..=rounds {
        for workload in shuffle.of(&WORKLOADS) {
            for access in shuffle.of(&ACCESSES).into_iter().filter(|access| counts(*access, &workload)) {
                keep.run(stand.run(Plan {
                    part: PART,
                    round,
                    access,
                    workload,
                    images: 1,
                    step_percent: None,
                }))?;
            }
        }
    }
    Ok(())
}

/// The tables, with what they say about the aim; nothing without runs.
pub(super) fn tables(runs: &[Run]) -> String {
    let mut text = String::new();
    for workload in WORKLOADS {
        let group = |access: Access| {
            Group::of(runs, |run| {
                run.plan.part == PART && run.plan.workload == workload && run.plan.access == access
            })
        };
        let alone = group(Access::ALONE);
        if alone.median(Run::iops).is_none() {
            continue;
        }
        let mut table = Table::new(&HEAD);
        let mut verdicts = Vec::new();
        for access in ACCESSES.into_iter().filter(|access| counts(*access, &workload)) {
            let group = group(access);
            let iops_ratio = median(&group.ratios(&alone, Run::iops));
            let cpu_ratio = median(&group.ratios(&alone, Run::cpu_us));
            table.row(row(access, &group, iops_ratio, cpu_ratio));
            if matches!(access, Access::Gateway { .. }) {
                verdicts.push(verdict(access, iops_ratio, cpu_ratio));
            }
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}:\n\n{}\n{}\n", workload.name, table.markdown(), verdicts.join("\n"));
    }
    text
}

const HEAD: [&str; 10] = [
    "way",
    "IOPS, median (least to most)",
    "IOPS / fio",
    "CPU µs per I/O",
    "CPU / fio",
    "client CPU µs",
    "OSD CPU µs",
    "mean µs",
    "p99 µs",
    "other work %",
];

fn row(access: Access, group: &Group, iops_ratio: Option<f64>, cpu_ratio: Option<f64>) -> Vec<String> {
    vec![
        access.name(),
        group.spread(Run::iops),
        times(iops_ratio),
        short(group.median(Run::cpu_us)),
        times(cpu_ratio),
        short(group.median(Run::client_us)),
        short(group.median(Run::osds_us)),
        short(group.median(Run::mean_us)),
        short(group.median(Run::p99_us)),
        whole(group.median(Run::others_percent)),
    ]
}

/// A ratio, or a dash.
fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn verdict(access: Access, iops_ratio: Option<f64>, cpu_ratio: Option<f64>) -> String {
    let (Some(iops), Some(cpu)) = (iops_ratio, cpu_ratio) else {
        return format!("- {}: no figures.", access.name());
    };
    let word = |is_met: bool| if is_met { "met" } else { "NOT met" };
    format!(
        "- {}: CPU {cpu:.3} times (at most {CPU_RATIO_MAX}: {}), IOPS {iops:.3} times (at least {IOPS_RATIO_MIN}: {}).",
        access.name(),
        word(cpu <= CPU_RATIO_MAX),
        word(iops >= IOPS_RATIO_MIN)
    )
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;

    #[test]
    fn the_verdict_is_of_medians_of_ratios() {
        let runs = [
            run(1, Access::ALONE, 1000.0, 40.0),
            run(1, Access::gateway(1), 900.0, 44.0),
            run(1, Access::gateway(2), 1100.0, 60.0),
            // A slow round is slow for all, and makes no difference.
            run(2, Access::gateway(1), 450.0, 88.0),
            run(2, Access::ALONE, 500.0, 80.0),
        ];
        let text = tables(&runs);
        assert!(
            text.contains("- gateway, 1 reactor: CPU 1.100 times (at most 1.25: met), IOPS 0.900 times"),
            "{text}"
        );
        assert!(text.contains("- gateway, 2 reactors: CPU 1.500 times (at most 1.25: NOT met)"), "{text}");
        assert!(text.contains("| fio rbd | 750 (500 to 1000) | 1.00 | 60.0 | 1.00 | - | 20.0 |"), "{text}");
        assert!(!text.contains("rbd_cache") && !text.contains("depth 1:"), "{text}");
        assert_eq!(tables(&[]), "");
    }

    #[test]
    fn a_cache_of_writes_counts_for_writes() {
        assert_eq!(WORKLOADS.map(|workload| counts(CACHED, &workload)), [false, false, true, true]);
    }
}
