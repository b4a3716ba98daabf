//! Throughput against latency, step by step up to saturation, of librbd alone and through the gateway, on three copies of
//! everything. It keeps out how a run is made and how a picture is drawn.

use chart::svg::Look;
use chart::{Axis, Chart, Drawing, Point, Scale, Series, Style, Unit};

use super::Keep;
use super::access::Access;
use super::run::{Figure, Group, Plan, Run};
use super::stand::Stand;
use super::workload::Workload;
use crate::shuffle::Shuffle;
use crate::table::{Table, short, whole};

const PART: &str = "curve";
/// Name of the search for saturation.
const SATURATION: &str = "saturation";
const STEPS_PERCENT: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const WORKLOAD: Workload = Workload::new("16 KiB random, 70 % reads, depth 64", "randrw", 16384, 64);
const GATEWAY: Access = Access::gateway(2);
const ACCESSES: [Access; 2] = [Access::ALONE, GATEWAY];

/// Looks for saturation, then runs all steps by both accesses, in each round in another order.
///
/// # Errors
/// There is no saturation, or runs cannot be kept.
pub(super) fn measure(
    stand: &Stand,
    rounds: u32,
    shuffle: &mut Shuffle,
    keep: &mut Keep,
) -> Result<(), String> {
    for round in 1..=rounds {
        for access in shuffle.of(&ACCESSES) {
            let plan =
                Plan { part: SATURATION, round, access, workload: WORKLOAD, images: 1, step_percent: None };
            keep.run(stand.run(plan))?;
        }
    }
    // The maximum of both is reported as well; the steps are shares of librbd's own maximum.
    let alone = unlimited(keep.runs(), Access::ALONE).median(Run::iops);
    let saturation_iops = alone.ok_or("fio found no saturation, of which steps are shares")?;
    for round in 1..=rounds {
        for percent in shuffle.of(&STEPS_PERCENT) {
            for access in shuffle.of(&ACCESSES) {
                let workload = WORKLOAD.at(percent, saturation_iops);
                let step_percent = Some(percent);
                keep.run(stand.run(Plan { part: PART, round, access, workload, images: 1, step_percent }))?;
            }
        }
    }
    Ok(())
}

const HEAD: [&str; 10] = [
    "load",
    "asked IOPS",
    "fio IOPS",
    "fio mean µs",
    "fio p99 µs",
    "fio CPU µs",
    "gateway IOPS",
    "gateway mean µs",
    "gateway p99 µs",
    "gateway CPU µs",
];

/// The table; nothing without runs.
pub(super) fn table(runs: &[Run]) -> String {
    if !runs.iter().any(|run| run.plan.part == PART) {
        return String::new();
    }
    let mut table = Table::new(&HEAD);
    for percent in STEPS_PERCENT {
        table.row(row(format!("{percent} %"), ACCESSES.map(|access| step(runs, access, percent))));
    }
    table.row(row("no limit".to_owned(), ACCESSES.map(|access| unlimited(runs, access))));
    format!("{}:\n\n{}\n", WORKLOAD.name, table.markdown())
}

fn row(load: String, accesses: [Group; 2]) -> Vec<String> {
    let asked = accesses[0].median(|run| run.plan.workload.rate_iops.map(f64::from));
    let mut cells = vec![load, whole(asked)];
    for group in accesses {
        cells.push(whole(group.median(Run::iops)));
        cells.extend(
            [Run::mean_us, Run::p99_us, Run::cpu_us].map(|figure: Figure| short(group.median(figure))),
        );
    }
    cells
}

fn unlimited(runs: &[Run], access: Access) -> Group<'_> {
    Group::of(runs, |run| run.plan.part == SATURATION && run.plan.access == access)
}

fn step(runs: &[Run], access: Access, percent: u32) -> Group<'_> {
    Group::of(runs, |run| {
        run.plan.part == PART && run.plan.access == access && run.plan.step_percent == Some(percent)
    })
}

/// The picture; none without runs.
pub(super) fn picture(runs: &[Run]) -> Option<String> {
    let latencies: [(&str, Figure); 2] = [("mean", Run::mean_us), ("p99", Run::p99_us)];
    let mut curves = Vec::new();
    for (who, access) in [("gateway", GATEWAY), ("fio rbd", Access::ALONE)] {
        for (which, latency) in latencies {
            let points = STEPS_PERCENT.into_iter().filter_map(|percent| {
                let group = step(runs, access, percent);
                Some(Point::new(group.median(Run::iops)?, group.median(latency)? * 1000.0))
            });
            let name = format!("{who}, {which}");
            curves.push(Series { name, style: Style::Solid, points: points.collect() });
        }
    }
    let title = format!("Latency by load: {}, three copies", WORKLOAD.name);
    let is_empty = curves.iter().all(|curve| curve.points.is_empty());
    let chart = Chart {
        id: PART.to_owned(),
        title,
        caption: String::new(),
        x: Axis { label: "IOPS".to_owned(), unit: Unit::Iops, scale: Scale::Linear },
        y: Axis { label: "latency".to_owned(), unit: Unit::Nanoseconds, scale: Scale::Log10 },
        drawing: Drawing::Lines(curves),
        marks: Vec::new(),
    };
    (!is_empty).then(|| chart::svg::draw(&chart, Look::File))
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;

    fn at(percent: u32, access: Access, iops: f64) -> Run {
        let workload = WORKLOAD.at(percent, 4000.0);
        let run = run(1, access, iops, 50.0);
        Run { plan: Plan { part: PART, step_percent: Some(percent), workload, ..run.plan }, ..run }
    }

    #[test]
    fn both_ways_stand_side_by_side() {
        let runs = [at(10, Access::ALONE, 399.0), at(10, GATEWAY, 401.0), at(20, Access::ALONE, 800.0)];
        let text = table(&runs);
        assert!(text.contains("| 10 % | 400 | 399 | 100 | 400 | 50.0 | 401 | 100 | 400 | 50.0 |"), "{text}");
        assert!(text.contains("| 20 % | 800 | 800 | 100 | 400 | 50.0 | - | - | - | - |"), "{text}");
        let svg = picture(&runs).unwrap();
        assert!(svg.contains(">gateway, p99<") && svg.contains(">fio rbd, mean<"), "{svg}");
        assert_eq!((table(&[]), picture(&[])), (String::new(), None));
    }
}
