//! What the gateway's knobs do: images on each connection to the cluster, reactors, with one image and with many. It keeps out
//! how a run is made.

use super::Keep;
use super::access::Access;
use super::run::{Group, Plan, Run};
use super::stand::Stand;
use super::workload::Workload;
use crate::shuffle::Shuffle;
use crate::table::{Table, short, whole};

const PART: &str = "knobs";
/// The most images that are asked at the same time.
pub(super) const IMAGES_MAX: u32 = 8;
const IMAGES: [u32; 2] = [1, IMAGES_MAX];
const REACTORS: [u32; 2] = [1, 2];
/// ceph-nvmeof's choice is the last.
const BDEVS_PER_CLUSTER: [u32; 3] = [1, 8, 32];
const WORKLOAD: Workload = Workload::new("4 KiB random read, depth 32 on each image", "randread", 4096, 32);

/// librbd alone, and the gateway with all positions of its knobs.
fn accesses() -> Vec<Access> {
    let mut accesses = vec![Access::ALONE];
    for reactors in REACTORS {
        accesses.extend(
            BDEVS_PER_CLUSTER.map(|count| Access::Gateway { reactors, bdevs_per_cluster: Some(count) }),
        );
    }
    accesses
}

/// All accesses with one image and with many, in each round in another order.
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
        for images in shuffle.of(&IMAGES) {
            for access in shuffle.of(&accesses()) {
                let plan = Plan { part: PART, round, access, workload: WORKLOAD, images, step_percent: None };
                keep.run(stand.run(plan))?;
            }
        }
    }
    Ok(())
}

const HEAD: [&str; 11] = [
    "images",
    "reactors",
    "bdevs_per_cluster",
    "IOPS, median (least to most)",
    "CPU µs per I/O",
    "client CPU µs",
    "OSD CPU µs",
    "mean µs",
    "RSS MiB",
    "threads",
    "other work %",
];

/// The table; nothing without runs.
pub(super) fn table(runs: &[Run]) -> String {
    if !runs.iter().any(|run| run.plan.part == PART) {
        return String::new();
    }
    let mut table = Table::new(&HEAD);
    for images in IMAGES {
        for access in accesses() {
            let group = Group::of(runs, |run| {
                run.plan.part == PART && run.plan.images == images && run.plan.access == access
            });
            let (reactors, bdevs) = match access {
                Access::Fio { .. } => ("fio rbd".to_owned(), String::new()),
                Access::Gateway { reactors, bdevs_per_cluster } => {
                    (reactors.to_string(), bdevs_per_cluster.unwrap_or_default().to_string())
                }
            };
            table.row(vec![
                images.to_string(),
                reactors,
                bdevs,
                group.spread(Run::iops),
                short(group.median(Run::cpu_us)),
                short(group.median(Run::client_us)),
                short(group.median(Run::osds_us)),
                short(group.median(Run::mean_us)),
                whole(group.median(resident_mib)),
                whole(group.median(threads)),
                whole(group.median(Run::others_percent)),
            ]);
        }
    }
    format!("{}:\n\n{}\n", WORKLOAD.name, table.markdown())
}

fn resident_mib(run: &Run) -> Option<f64> {
    run.outcome?.held.map(|held| held.resident_kib as f64 / 1024.0)
}

fn threads(run: &Run) -> Option<f64> {
    run.outcome?.held.map(|held| held.threads as f64)
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;

    #[test]
    fn every_position_has_a_line() {
        let access = Access::Gateway { reactors: 2, bdevs_per_cluster: Some(8) };
        let eight = |run: Run| Run { plan: Plan { part: PART, images: 8, ..run.plan }, ..run };
        let runs = [eight(run(1, access, 1000.0, 40.0)), eight(run(1, Access::ALONE, 1500.0, 30.0))];
        let text = table(&runs);
        assert_eq!(text.lines().filter(|line| line.starts_with("| 8 |")).count(), 7, "{text}");
        assert!(
            text.contains("| 8 | 2 | 8 | 1000 (1000 to 1000) | 40.0 | 5.0 | 20.0 | 100 | 50 | 30 | 3 |"),
            "{text}"
        );
        assert!(
            text.contains("| 8 | fio rbd |  | 1500 (1500 to 1500) | 30.0 | - | 20.0 | 100 | - | - | 3 |"),
            "{text}"
        );
        assert!(text.contains("| 1 | 1 | 1 | - |"), "{text}");
        assert_eq!(table(&[]), "");
    }
}
