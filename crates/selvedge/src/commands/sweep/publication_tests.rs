//! Messages of a sweep to its target: the points of its report, with the report's texts.

use std::time::Duration;

use super::publication::{Stage, publication};
use crate::control::sweeps::{Along, SweepState};
use crate::flags::sweep::SweepFlags;
use crate::sweep::charts;
use crate::sweep::journal::{Header, Journal};
use crate::sweep::measurement::Measurement;
use crate::sweep::plan::{Plan, PlannedRun};
use crate::sweep::point::Load;
use crate::sweep::sample;
use crate::sweep::summary::Summary;

/// The view of the console that draws them.
const SCRIPT: &str = include_str!("../../../../administration/src/control/console/sweeps.js");

fn plan(arguments: &str) -> Plan {
    Plan::new(&SweepFlags::of(&format!("-a 10.0.0.1 -n nqn.a {arguments}")).unwrap()).unwrap()
}

/// A sweep of which some measurements were made, each of another number of commands a second.
fn journal(folder: &tempfile::TempDir, plan: &Plan, made: usize) -> Journal {
    let header = Header::new(plan.clone(), Vec::new(), sample::identity(), "2026-11-22T10:48:49Z".to_owned());
    let mut journal = Journal::create(folder.path(), header).unwrap();
    for planned in plan.planned_runs().into_iter().take(made) {
        let measured = sample::measurement(1000.0 + planned.point as f64, 50_000.0);
        let is_full = plan.points()[planned.point].load() == Ok(Load::Full);
        let offered_iops = (!is_full).then_some(500.0);
        journal.keep(planned, Measurement { offered_iops, ..measured }).unwrap();
    }
    journal
}

#[test]
fn it_tells_how_far_it_is_and_the_points_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("--rw randread --iodepth 1,2,4 -i 1,2 --repeat 2 --in-order");
    let mut journal = journal(&folder, &plan, 3);
    journal.keep_failure(plan.planned_runs()[3], "the target said no").unwrap();
    let run = PlannedRun { point: 4, repetition: 0 };
    let stage = Stage::Measuring { run, left: Duration::from_secs(50) };
    let sent = publication(&plan, &journal, Some("host-a".to_owned()), stage);
    assert_eq!((sent.state, sent.done, sent.failed, sent.planned), (SweepState::Running, 4, 1, 12));
    assert_eq!(sent.measuring.as_deref(), Some("depth 4, 1 queue"));
    assert_eq!((sent.left_s, sent.along), (Some(50.0), Along::Outstanding));
    assert!(sent.quiet_s >= plan.run_takes().as_secs_f64(), "{}", sent.quiet_s);
    let points: Vec<_> = sent.points.iter().map(|point| (&*point.line, point.x)).collect();
    assert_eq!(points, [("1 queue", Some(1.0)), ("1 queue", Some(2.0)), ("2 queues", Some(1.0))]);
    assert_eq!(sent.points[1].iops.mean, 1002.0);
    let ended = publication(&plan, &journal, None, Stage::Broken("it is gone"));
    assert_eq!((ended.state, ended.reason.as_deref()), (SweepState::Failed, Some("it is gone")));
    assert_eq!((ended.measuring, ended.left_s), (None, None));
}

#[test]
fn what_grows_in_the_report_grows_in_the_console() {
    let folder = |arguments: &str| {
        let (folder, plan) = (tempfile::tempdir().unwrap(), plan(arguments));
        publication(&plan, &journal(&folder, &plan, 99), None, Stage::Complete)
    };
    let queues = folder("--rw randread --iodepth 8 -i 1,2,4 --repeat 1");
    assert_eq!(queues.along, Along::Queues);
    assert_eq!(queues.points.iter().map(|point| point.x).collect::<Vec<_>>(), [1.0, 2.0, 4.0].map(Some));
    let load = folder("--rw randread --iodepth 8 --rate_iops 50%,100% --repeat 1");
    assert_eq!(load.along, Along::Load);
    let places: Vec<_> = load.points.iter().map(|point| point.x).collect();
    assert_eq!(places, [Some(500.0), Some(500.0), None], "full load has no value");
}

#[test]
fn the_console_has_the_words_of_the_report() {
    let (plan, summaries): (Plan, Vec<Summary>) =
        sample::sweep("--rw randread --iodepth 1,2,4 -i 1,2", |_| vec![sample::measurement(1e3, 5e4); 2]);
    let charts = charts::all(&plan, &summaries);
    for id in ["iops-by-outstanding", "p99-by-outstanding", "iops-by-queues", "p99-by-queues"] {
        let chart = charts.iter().find(|chart| chart.id == id).unwrap();
        let (what, by) = chart.title.split_once(" by ").unwrap();
        for words in [what, by, &chart.x.label, &chart.caption] {
            assert!(SCRIPT.contains(&format!("\"{words}\"")), "{id}: {words}");
        }
    }
    assert!(SCRIPT.contains(&format!("const LINES_MAX = {};", charts::LINES_MAX)));
}
