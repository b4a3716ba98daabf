//! Made-up sweeps of both presets with a question, whose answers are known.

use super::*;
use crate::spec::size::Size;
use crate::sweep::compare::{Compared, Side};
use crate::sweep::journal::{Header, Journal};
use crate::sweep::measurement::Measurement;
use crate::sweep::point;
use crate::sweep::preset::Abilities;
use crate::sweep::report::SweepReport;
use crate::sweep::sample::{self, SURROUNDINGS, measurement, sweep};
use crate::sweep::{advice, charts};

/// Runs of a closed loop: a number of IOPS, and the latency that follows (Little's law), with a little noise.
fn runs(point: &point::Point, iops: f64) -> Vec<Measurement> {
    let bytes = point.value("bs").unwrap().parse::<Size>().unwrap().0 as f64;
    let run = |noise: f64| {
        let mut run = measurement(iops * noise, point.outstanding() as f64 / (iops * noise) * 1e9);
        run.total.bw_bytes = run.total.iops * bytes;
        run
    };
    [0.99, 1.0, 1.01].map(run).to_vec()
}

/// Answer of a made-up sweep, and its picture.
fn answered(arguments: &str, iops: impl Fn(&point::Point) -> f64) -> (Finding, Option<Chart>) {
    let (plan, points) = sweep(arguments, |point| runs(point, iops(point)));
    let all = advice::findings(&plan, &points, Some(SURROUNDINGS));
    let chart = charts::all(&plan, &points).into_iter().next();
    let first = all.into_iter().next().unwrap();
    let shown = chart.filter(|chart| Some(&chart.id) == first.chart_id.as_ref());
    (first, shown)
}

fn lines(chart: &Chart) -> Vec<(&str, Style, Vec<f64>)> {
    let Drawing::Lines(lines) = &chart.drawing else { panic!("{}: it has lines", chart.id) };
    let values = |line: &Series| line.points.iter().map(|point| point.y.round()).collect();
    lines.iter().map(|line| (line.name.as_str(), line.style, values(line))).collect()
}

/// A target that does 60 k IOPS a queue, up to 200 k, and 4 k for each outstanding command.
fn target(point: &point::Point) -> f64 {
    (60_000.0 * point.queues() as f64).min(200_000.0).min(4_000.0 * point.outstanding() as f64)
}

const WRITES: &str = "--preset writes -i 1,2,4";

#[test]
fn acknowledgement_is_the_limit_where_it_costs_more_than_queues_gain() {
    // FUA takes 1 ms, so 1 k IOPS for each outstanding command; flushes take 2 %.
    let (answer, chart) = answered(WRITES, |point| match point.acknowledgement().as_str() {
        "volatile" => target(point),
        "FUA" => target(point).min(1_000.0 * point.outstanding() as f64),
        "flush every 64" => target(point) * 0.98,
        other => panic!("{other}"),
    });
    assert_eq!(
        answer.title,
        "Acknowledgement, not queues, is the limit with flush every 64 nowhere, with FUA up to 64 outstanding"
    );
    assert_eq!(answer.kind, FindingKind::Observation);
    for part in [
        "FUA, 16 outstanding: 16.0 k IOPS with -i 1; volatile 64.0 k IOPS with -i 2: acknowledgement",
        "FUA, 256 outstanding: 200 k IOPS with -i 4, 60.0 k IOPS with -i 1; volatile 200 k IOPS with -i 4: queues limit",
        "flush every 64, 16 outstanding",
        "The rule: ",
    ] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
    let chart = chart.expect("the answer has the leading picture");
    let lines = lines(&chart);
    let names: Vec<&str> = lines.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["volatile", "volatile", "flush every 64", "flush every 64", "FUA", "FUA"]);
    assert_eq!(lines[0], ("volatile", Style::Solid, vec![64e3, 200e3, 200e3, 200e3]));
    assert_eq!(lines[5], ("FUA", Style::Dashed, vec![16e3, 60e3, 60e3, 60e3]));
}

#[test]
fn acknowledgement_may_be_the_limit_nowhere_or_everywhere() {
    let (nowhere, _) = answered(WRITES, target);
    assert_eq!(nowhere.title, "Acknowledgement is nowhere the limit of these writes");
    let (everywhere, _) = answered(&format!("{WRITES} --fsync 0"), |point| match point.is_volatile() {
        true => target(point),
        false => 5_000.0,
    });
    assert_eq!(
        everywhere.title,
        "Acknowledgement, not queues, is the limit with FUA at each number of outstanding commands"
    );
    // A disk that keeps up until its cache is full.
    let (above, _) = answered(&format!("{WRITES} --sync none"), |point| match point.is_volatile() {
        true => target(point),
        false => target(point).min(70_000.0),
    });
    assert_eq!(
        above.title,
        "Acknowledgement, not queues, is the limit with flush every 64 from 64 outstanding on"
    );
}

#[test]
fn runs_that_tell_no_difference_name_no_limit() {
    let noisy = |point: &point::Point| {
        let iops = if point.is_volatile() { 110_000.0 } else { 100_000.0 };
        [0.6, 1.0, 1.4].map(|noise| measurement(iops * noise, 1e6 / noise)).to_vec()
    };
    let (plan, points) = sweep(WRITES, noisy);
    let answer = finding(&plan, &points).unwrap();
    assert_eq!(answer.title, "Acknowledgement is nowhere the limit of these writes");
    assert!(
        answer.text.contains("neither limits") && !answer.text.contains("queues limit"),
        "{}",
        answer.text
    );
}

#[test]
fn one_kind_of_writes_is_no_comparison() {
    let (plan, points) =
        sweep(&format!("{WRITES} --sync none --fsync 0"), |point| runs(point, target(point)));
    let answer = finding(&plan, &points).unwrap();
    assert_eq!((answer.title.as_str(), answer.chart_id), ("The question is not answered", None));
    assert!(answer.text.contains("--sync"), "{}", answer.text);
}

#[test]
fn one_run_of_each_point_is_no_answer() {
    let (plan, points) =
        sweep(&format!("{WRITES} --repeat 1"), |point| vec![measurement(target(point), 1e6)]);
    let answer = finding(&plan, &points).unwrap();
    assert_eq!(answer.title, "The question is not answered");
    assert!(answer.text.contains("One run of each point") && answer.text.contains("--repeat"), "{answer:?}");
}

#[test]
fn one_number_of_queues_is_compared_with_no_other() {
    let (answer, _) = answered("--preset writes -i 2 --fsync 0", |point| match point.is_volatile() {
        true => target(point),
        false => 5_000.0,
    });
    assert_eq!(answer.title, "Acknowledgement is the limit with FUA at each number of outstanding commands");
}

#[test]
fn each_setting_has_an_answer_and_lines_of_its_own() {
    let arguments = format!("{WRITES} --fsync 0 -t tcp,mptcp");
    let (answer, chart) =
        answered(&arguments, |point| match (point.is_volatile(), point.value("transport")) {
            (false, Some("mptcp")) => 5_000.0,
            _ => target(point),
        });
    assert_eq!(
        answer.title,
        "Acknowledgement, not queues, is the limit with FUA, tcp nowhere, with FUA, mptcp at each number of outstanding commands"
    );
    assert!(answer.text.contains("FUA, mptcp, 64 outstanding: 5.00 k IOPS"), "{}", answer.text);
    let chart = chart.expect("the answer has the leading picture");
    let lines = lines(&chart);
    let names: Vec<&str> = lines.iter().step_by(2).map(|(name, ..)| *name).collect();
    assert_eq!(names, ["volatile, tcp", "volatile, mptcp", "FUA, tcp", "FUA, mptcp"]);
    assert!(lines.iter().all(|(_, _, values)| values.len() == 4), "{lines:?}");
}

#[test]
fn reads_are_not_among_writes() {
    let arguments = format!("{WRITES} --rw randread,randwrite --fsync 0");
    let (answer, chart) = answered(&arguments, |point| match point.is_volatile() {
        true => target(point),
        false => 5_000.0,
    });
    assert!(
        answer.title.ends_with("the limit with FUA at each number of outstanding commands"),
        "{answer:?}"
    );
    let chart = chart.expect("the answer has the leading picture");
    let names: Vec<&str> = lines(&chart).iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["volatile", "volatile", "FUA", "FUA"]);
}

/// A sweep of writes to a namespace with or without a volatile write cache.
fn on_namespace(has_volatile_cache: bool) -> (Plan, Vec<Summary>) {
    let abilities = Abilities { transfer_bytes_max: 1 << 20, has_volatile_cache };
    let (plan, _) = sweep(WRITES, |_| Vec::new());
    let plan = plan.within(abilities, &[]);
    let measured = |point: point::Point| {
        let all = runs(&point, target(&point));
        Summary::of(&plan, point, &all.iter().collect::<Vec<_>>(), Vec::new())
    };
    let points = plan.points().into_iter().map(measured).collect();
    (plan, points)
}

#[test]
fn namespaces_with_and_without_a_cache_are_compared() {
    let side = |name: &str, has_volatile_cache: bool| {
        let (plan, points) = on_namespace(has_volatile_cache);
        Side { name: name.to_owned(), plan, points, facts: Vec::new() }
    };
    let compared = Compared::new(side("file", true), side("memory", false)).unwrap();
    assert_eq!((compared.pairs.len(), compared.only_first, compared.only_second), (12, 24, 0));
}

#[test]
fn a_namespace_without_a_cache_has_an_answer() {
    let (plan, points) = on_namespace(false);
    let all = advice::findings(&plan, &points, Some(SURROUNDINGS));
    assert_eq!(all[0].title, "Acknowledgement is not a limit here: no write waits for a cache");
    assert!(all[0].text.contains("no volatile write cache"), "{}", all[0].text);
    let left_out = all.iter().find(|finding| finding.title == "FUA and flush every 64 left out");
    assert_eq!(left_out.map(|finding| finding.kind), Some(FindingKind::Caution));
    let chart = picture(&plan, &points).unwrap();
    assert_eq!(lines(&chart)[0], ("writes", Style::Solid, vec![64e3, 200e3, 200e3, 200e3]));
}

const BLOCKS: &str = "--preset blocks -i 1,2,4";

fn bytes(point: &point::Point) -> f64 {
    point.value("bs").unwrap().parse::<Size>().unwrap().0 as f64
}

#[test]
fn the_limit_turns_from_commands_to_bandwidth_at_a_size() {
    // Reads: 30 k IOPS a queue, up to 100 k, over 8 Gbit/s; writes: the same commands, without a limit of bandwidth.
    let commands = |point: &point::Point| (30_000.0 * point.queues() as f64).min(100_000.0);
    let (answer, chart) = answered(BLOCKS, |point| match point.kind() {
        "randread" => commands(point).min(1e9 / bytes(point)),
        _ => commands(point),
    });
    assert_eq!(
        answer.title,
        "randread: commands are the limit up to 4 KiB (best -i 4), bandwidth from 16 KiB on (best -i 2); \
         randwrite: commands are the limit up to 1 MiB (best -i 4)"
    );
    assert_eq!(answer.kind, FindingKind::Advice);
    assert!(answer.text.contains("16 KiB 1.00 GB/s (61.0 k IOPS, "), "{}", answer.text);
    let chart = chart.expect("the answer has the leading picture");
    let marks: Vec<(Option<f64>, &str)> =
        chart.marks.iter().map(|mark| (mark.x, mark.label.as_str())).collect();
    assert_eq!(marks, [(Some(16384.0), "randread: bandwidth from here on")]);
    let lines = lines(&chart);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], ("randread", Style::Solid, vec![409_600_000.0, 1e9, 1e9, 1e9, 1e9]));
    assert_eq!(lines[1].1, Style::Dashed);
    assert_eq!(lines[1].2[0], 30_000.0 * 4096.0);
}

#[test]
fn a_slow_link_is_the_limit_at_each_size() {
    let (answer, _) = answered(&format!("{BLOCKS} --rw randread"), |point| 1e8 / bytes(point));
    assert_eq!(
        answer.title,
        "randread: bandwidth is the limit from 4 KiB on (no difference between -i is known)"
    );
}

#[test]
fn sizes_that_want_different_queues_have_a_compromise() {
    let (answer, _) = answered(&format!("{BLOCKS} --rw randread --bs 4k,16k"), |point| {
        match (bytes(point) > 4096.0, point.queues()) {
            (false, 1) | (true, 4) => 50_000.0,
            (_, 2) => 90_000.0,
            _ => 100_000.0,
        }
    });
    assert_eq!(answer.title, "randread: commands are the limit up to 16 KiB (best -i 2)");
}

#[test]
fn of_compromises_that_are_as_good_the_fewest_queues_are_named() {
    let (answer, _) = answered(&format!("{BLOCKS} --rw randread --bs 4k,16k"), |point| {
        match (bytes(point) > 4096.0, point.queues()) {
            (false, 4) | (true, 1 | 2) => 100_000.0,
            _ => 50_000.0,
        }
    });
    assert_eq!(answer.title, "randread: commands are the limit up to 16 KiB (best -i 1)");
}

#[test]
fn full_processors_are_named() {
    let (plan, points) = sweep(&format!("{BLOCKS} --rw randwrite"), |point| {
        let mut all = runs(point, (30_000.0 * point.queues() as f64).min(100_000.0).min(1e9 / bytes(point)));
        all.iter_mut().for_each(|run| run.machine_busy = Some(0.97));
        all
    });
    let answer = finding(&plan, &points).unwrap();
    assert_eq!(
        answer.title,
        "randwrite: processors are the limit up to 4 KiB (best -i 4), bandwidth from 16 KiB on (best -i 2)"
    );
}

#[test]
fn one_size_has_no_turn() {
    let (plan, points) = sweep(&format!("{BLOCKS} --bs 4k"), |point| runs(point, target(point)));
    let answer = finding(&plan, &points).unwrap();
    assert_eq!(answer.title, "The question is not answered");
    assert!(answer.text.contains("--bs"), "{}", answer.text);
}

#[test]
fn the_turn_is_the_first_size_of_a_level_line() {
    let sizes = |bandwidths: &[f64]| -> Vec<(f64, f64)> {
        bandwidths
            .iter()
            .enumerate()
            .map(|(at, bandwidth)| (4096.0 * 4_f64.powi(at as i32), *bandwidth))
            .collect()
    };
    for (bandwidths, expected) in [
        (&[1.0, 4.0, 16.0][..], None),
        (&[1.0, 4.0, 4.0, 4.0], Some(1)),
        (&[4.0, 4.0, 4.0], Some(0)),
        (&[4.0, 3.0], Some(0)),
        // A step that is level, and others beyond it that are not.
        (&[1.0, 1.0, 4.0, 16.0], None),
        (&[1.0], None),
        (&[], None),
    ] {
        assert_eq!(choice::bandwidth_from(&sizes(bandwidths)), expected, "{bandwidths:?}");
    }
}

#[test]
fn many_workloads_have_their_most_important_findings_only() {
    let (plan, points) = sweep(BLOCKS, |point| runs(point, target(point)));
    let all = advice::findings(&plan, &points, Some(SURROUNDINGS));
    assert!(all.iter().any(|finding| finding.title.contains("Use -i")), "{all:#?}");
    assert!(!all.iter().any(|finding| finding.title.contains("Throughput")), "{all:#?}");
    let ids: Vec<String> = charts::all(&plan, &points).into_iter().map(|chart| chart.id).collect();
    assert!(ids[0] == BLOCKS_ID && !ids.iter().any(|id| id.starts_with("heat")), "{ids:?}");
}

#[test]
fn a_sweep_that_ended_early_has_the_question_and_no_answer() {
    let (plan, _) = sweep(WRITES, |_| Vec::new());
    let all = plan.planned_runs();
    let report = |made: usize| {
        let folder = tempfile::tempdir().unwrap();
        let header =
            Header::new(plan.clone(), Vec::new(), sample::identity(), "2026-11-22T10:48:49Z".to_owned());
        let mut journal = Journal::create(folder.path(), header).unwrap();
        let points = plan.points();
        for run in all.iter().take(made) {
            let measured =
                runs(&points[run.point], target(&points[run.point])).remove(run.repetition as usize);
            journal.keep(*run, measured).unwrap();
        }
        SweepReport::new(&journal).document
    };
    let complete = report(all.len());
    assert_eq!(complete.title, "Where is acknowledgement, not the number of queues, the limit of writes?");
    assert!(complete.subtitle.starts_with("Sweep of nqn.a, namespace 1, 36 points"), "{}", complete.subtitle);
    assert_eq!(complete.findings[0].title, "Acknowledgement is nowhere the limit of these writes");
    assert_eq!(complete.charts[0].id, WRITES_ID);
    let broken = report(all.len() - 1);
    assert_eq!(broken.title, complete.title);
    assert_eq!(broken.findings[0].title, "The question is not answered");
    let text = &broken.findings[0].text;
    assert!(text.contains("1 of 36 points") && text.contains("--resume"), "{text}");
    assert!(broken.charts.iter().all(|chart| chart.id != WRITES_ID), "half an answer has no picture");
}
