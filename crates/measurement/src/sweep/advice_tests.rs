//! Conclusions of sweeps with known answers.

use super::*;
use crate::sweep::measurement::Measurement;
use crate::sweep::point::Point;
use crate::sweep::sample::{self, SURROUNDINGS, measurement, sweep};

/// Runs of a closed loop: a number of IOPS, and the latency that follows (Little's law), with a little noise.
fn closed(point: &Point, iops: f64) -> Vec<Measurement> {
    let mean_ns = point.outstanding() as f64 / iops * 1e9;
    [0.99, 1.0, 1.01].map(|noise| measurement(iops * noise, mean_ns / noise)).to_vec()
}

/// A target that does 40,000 IOPS with one queue, twice that with two, and 100,000 at most.
fn two_queues_do(point: &Point) -> Vec<Measurement> {
    let iops = (40_000.0 * point.queues() as f64).min(100_000.0);
    let iops = iops.min(2_000.0 * point.outstanding() as f64);
    closed(point, iops)
}

fn titles(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.title.as_str()).collect()
}

#[test]
fn the_fewest_queues_that_are_as_good_are_advised() {
    let (plan, points) = sweep("--rw randread --numjobs 8 --iodepth 1,16 -i 1..8", two_queues_do);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    assert_eq!(all[0].title, "Use -i 4", "{all:#?}");
    assert!(
        all[0].text.contains("100 k IOPS") && all[0].text.contains("-i 1 does 60 % less"),
        "{}",
        all[0].text
    );
    // Eight outstanding commands are done by any number, of which none is advised.
    assert!(!all[0].text.contains("for 8 outstanding"), "{}", all[0].text);
    let effect = all.iter().find(|finding| finding.title.contains("more queues do")).unwrap();
    assert!(effect.text.contains("-60 %") && effect.text.contains("+150 %"), "{}", effect.text);
}

#[test]
fn a_longer_tail_makes_more_queues_worth_it() {
    let tail = |point: &Point| {
        let mut runs = closed(point, 100_000.0);
        if point.queues() < 4 {
            runs.iter_mut().for_each(|run| run.total.lat_ns.p99 *= 2);
        }
        runs
    };
    let (plan, points) = sweep("--rw randread --numjobs 8 --iodepth 16 -i 1..8", tail);
    assert_eq!(findings(&plan, &points, Some(SURROUNDINGS))[0].title, "Use -i 4");
}

/// Five seconds of a run on two processors that were full: of workers, and in interrupts.
fn busy(run: &mut Measurement, cpu_s: f64, interrupts: f64) {
    (run.machine_busy, run.interrupts) = (Some(0.97), Some(interrupts));
    (run.cpu_s, run.target_cpu_s, run.workers) = (cpu_s, None, 2);
    // As in journals without these figures, where the rest is others'.
    (run.foreign, run.stolen) = (None, None);
}

#[test]
fn the_bottleneck_is_the_resource_that_is_full() {
    let limit = |surroundings: Surroundings, change: fn(&mut Measurement)| {
        let measure = |point: &Point| {
            let mut runs = closed(point, 50_000.0);
            runs.iter_mut().for_each(change);
            runs
        };
        let (plan, points) = sweep("--rw randread --iodepth 1,16,64", measure);
        let all = findings(&plan, &points, Some(surroundings));
        all.into_iter().find(|finding| finding.title.contains("limit")).unwrap().title
    };
    let link = Surroundings { link_bits: Some(1_700_000_000), ..SURROUNDINGS };
    assert!(limit(link, |_| {}).starts_with("The network limits"));
    // Small blocks leave a seventh of a full link to headers.
    let headers = Surroundings { link_bits: Some(240_000_000), ..SURROUNDINGS };
    let small = |run: &mut Measurement| run.total.bw_bytes = run.total.iops * 512.0;
    assert!(limit(headers, small).starts_with("The network limits"));
    let local = Surroundings { is_local: true, ..SURROUNDINGS };
    assert!(limit(local, |run| busy(run, 4.0, 0.1)).starts_with("This machine's processors"));
    assert!(limit(SURROUNDINGS, |run| run.cpu_s = 4.9).starts_with("The initiator limits"));
    assert!(limit(SURROUNDINGS, |run| busy(run, 4.0, 0.1)).starts_with("The initiator's processors"));
    assert!(limit(SURROUNDINGS, |run| busy(run, 1.0, 0.8)).starts_with("The initiator's processors"));
    // Others' work, or a link that a rate limit makes slower than it says, at which the workers wait.
    assert!(limit(SURROUNDINGS, |run| busy(run, 0.85, 0.1)).starts_with("Other work on this machine"));
    assert!(limit(local, |run| busy(run, 0.85, 0.1)).starts_with("Other work on this machine"));
    assert!(limit(SURROUNDINGS, |_| {}).starts_with("The target, its storage"));
    let (plan, points) =
        sweep("--rw randread --iodepth 1,16,64", |point| closed(point, 1000.0 * point.outstanding() as f64));
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    assert!(titles(&all).iter().any(|title| title.starts_with("The load limits")), "{all:#?}");
    assert!(titles(&all).contains(&"Throughput grows nearly in proportion with outstanding I/O"));
}

/// Reads and writes that together would be more than a link carries in one direction.
#[test]
fn a_mix_fills_a_link_by_its_busier_direction() {
    let is_network = |workload: &str| {
        let (plan, points) = sweep(&format!("{workload} --iodepth 1,16,64"), |point| closed(point, 50_000.0));
        let link = Surroundings { link_bits: Some(1_700_000_000), ..SURROUNDINGS };
        let all = findings(&plan, &points, Some(link));
        titles(&all).iter().any(|title| title.starts_with("The network limits"))
    };
    for workload in ["--rw randread", "--rw randrw --rwmixread 95", "--rw readwrite --rwmixread 5"] {
        assert!(is_network(workload), "{workload}");
    }
    for workload in ["--rw randrw", "--rw rw", "--rw randrw --rwmixread 70"] {
        assert!(!is_network(workload), "{workload}");
    }
}

/// A link that is slower than it says, between processors that a polling target keeps busy.
#[test]
fn full_processors_are_not_the_limit_of_sizes_with_the_same_bandwidth() {
    let limits = |bandwidth: fn(f64) -> f64| {
        let measure = |point: &Point| {
            let bytes = point.value("bs").unwrap().parse::<crate::spec::size::Size>().unwrap().0 as f64;
            let mut runs = closed(point, bandwidth(bytes) / bytes);
            for run in &mut runs {
                busy(run, 4.0, 0.1);
                run.total.bw_bytes = run.total.iops * bytes;
            }
            runs
        };
        let (plan, points) = sweep("--rw randread --bs 4k,16k,64k,256k --iodepth 16,64", measure);
        let all = findings(&plan, &points, Some(SURROUNDINGS));
        let found = all.into_iter().filter(|finding| {
            finding.title.contains(" limit, at ") || finding.title.contains(" limits, at ")
        });
        found.map(|finding| finding.title.contains("Bandwidth limits")).collect::<Vec<_>>()
    };
    assert_eq!(limits(|bytes| (100_000.0 * bytes).min(1e9)), [false, true, true, true]);
    assert_eq!(limits(|bytes| 1e9 * bytes.log2()), [false; 4]);
}

#[test]
fn advice_names_the_highest_throughput_within_a_time() {
    let queue = |point: &Point| {
        let load = match point.load().unwrap() {
            crate::sweep::point::Load::Share(share) => share / 100.0,
            _ => 1.0,
        };
        // As in a queue with one server: latency grows without bounds as the load comes near to all.
        let mean_ns = 100_000.0 / (1.0 - load.min(0.99));
        let mut runs = vec![measurement(10_000.0 * load, mean_ns); 2];
        for run in &mut runs {
            run.offered_iops = (load < 1.0).then_some(10_000.0 * load);
            run.response_ns = (load < 1.0).then_some(run.total.lat_ns);
            run.response_quantiles_ns = (load < 1.0).then(|| run.quantiles_ns.clone());
        }
        runs
    };
    let loads = "--rw randrw --rate_iops 20%,40%,60%,80%,90%";
    let (plan, points) = sweep(&format!("{loads} --latency-target 1ms"), queue);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    // 300 us / 0.4 is 750 us; 300 us / 0.2 is too long.
    assert_eq!(all[0].title, "6.00 k IOPS within 1.00 ms", "{all:#?}");
    let (plan, points) = sweep(&format!("{loads} --latency-target 10us"), queue);
    assert_eq!(findings(&plan, &points, Some(SURROUNDINGS))[0].title, "Nothing stays within 10.0 µs");
    // Kleinrock's knee of such a queue is at half of what it can do.
    let (plan, points) = sweep(loads, queue);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    assert!(
        titles(&all).contains(&"The knee is at 4.00 k IOPS")
            || titles(&all).contains(&"The knee is at 6.00 k IOPS")
    );
}

#[test]
fn what_is_not_sure_is_said() {
    let noisy = |point: &Point| {
        let mut runs = closed(point, 1000.0);
        runs[0] = measurement(2000.0, 50_000.0);
        runs.iter_mut().for_each(|run| run.steady = Some(false));
        runs
    };
    let (plan, mut points) = sweep("--rw randread --iodepth 1,2,4", noisy);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    assert!(
        titles(&all).contains(&"3 points were not steady")
            && titles(&all).contains(&"3 points are less certain than ± 10 %")
    );
    points[1] = Summary::of(&plan, points[1].point.clone(), &[], vec!["connection refused".into()]);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    let missing = all.iter().find(|finding| finding.title == "1 of 3 points is missing").unwrap();
    assert!(
        missing.text.contains("depth 2") && missing.text.contains("connection refused"),
        "{}",
        missing.text
    );
    let (plan, points) =
        sweep("--rw randread --iodepth 1,2 --repeat 1", |_| vec![sample::measurement(1.0, 1.0)]);
    assert!(titles(&findings(&plan, &points, Some(SURROUNDINGS))).contains(&"No confidence intervals"));
}

#[test]
fn nothing_measured_is_no_reason_to_fail() {
    for arguments in ["--rw randread", "--rw randread,randwrite -i 1,2 --iodepth 1,2 --rate_iops 50%"] {
        let (plan, points) = sweep(arguments, |_| Vec::new());
        let all = findings(&plan, &points, Some(SURROUNDINGS));
        assert!(all.iter().any(|finding| finding.title.contains("missing")), "{all:?}");
        assert!(crate::sweep::charts::all(&plan, &points).is_empty());
    }
}

#[test]
fn growth_covers_all_points() {
    let title = |iops: fn(u64) -> f64| {
        let measure = |point: &Point| closed(point, iops(point.outstanding()));
        let (plan, points) = sweep("--rw randread --iodepth 1,2,4,8,16,32,64", measure);
        let all = findings(&plan, &points, Some(SURROUNDINGS));
        let title = |word: &str| {
            all.iter().find(|finding| finding.title.contains(word)).map(|finding| finding.title.clone())
        };
        (title("Throughput").unwrap(), title("nee"))
    };
    let (plateau, knee) = title(|outstanding| 10_000.0 * (outstanding as f64).min(16.0));
    assert_eq!(plateau, "Throughput grows up to 16 outstanding, and no more beyond");
    assert_eq!(knee.unwrap(), "The knee is at 160 k IOPS");
    let (collapse, _) =
        title(|outstanding| if outstanding < 32 { 10_000.0 * outstanding as f64 } else { 80_000.0 });
    assert_eq!(collapse, "Throughput grows up to 16 outstanding, and falls beyond");
    let (line, knee) = title(|outstanding| 10_000.0 * outstanding as f64 * (1.0 + outstanding as f64 / 1e4));
    assert_eq!(line, "Throughput grows nearly in proportion with outstanding I/O");
    assert_eq!(knee.unwrap(), "No knee up to 644 k IOPS");
    assert_eq!(title(|_| 50_000.0).0, "Throughput does not grow with outstanding I/O");
    assert_eq!(
        title(|outstanding| 50_000.0 / outstanding as f64).0,
        "Throughput falls with more outstanding I/O"
    );
}

#[test]
fn words_and_picture_have_one_knee() {
    // With one queue it is at 20 k IOPS, with two, which do more, at 160 k.
    let measure = |point: &Point| {
        let most = if point.queues() == 1 { 4.0 } else { 16.0 };
        closed(point, 10_000.0 * (point.outstanding() as f64).min(most))
    };
    let (plan, points) = sweep("--rw randread --iodepth 1,4,16,64 -i 1,2", measure);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    let said = all.iter().find(|finding| finding.title.starts_with("The knee")).unwrap();
    let marks: Vec<String> = crate::sweep::charts::all(&plan, &points)
        .iter()
        .flat_map(|chart| &chart.marks)
        .map(|mark| mark.label.clone())
        .collect();
    assert_eq!(said.title, "The knee is at 160 k IOPS");
    assert_eq!(marks, ["knee: 160 k IOPS"]);
}

#[test]
fn nothing_is_advised_where_the_runs_tell_no_difference() {
    let noisy = |point: &Point| {
        let mut runs = closed(point, 50_000.0 + 1_000.0 * point.queues() as f64);
        runs[0] = measurement(30_000.0, 1e6);
        runs[2] = measurement(80_000.0, 1e5);
        runs
    };
    let arguments = "--rw randread --numjobs 4 --iodepth 16 -i 1,2,4";
    let (plan, points) = sweep(arguments, noisy);
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    let said = all.iter().find(|finding| finding.title.contains("-i")).unwrap();
    assert_eq!(said.title, "No difference is known between -i 1, 2 and 4");
    assert_eq!(said.kind, FindingKind::Observation, "nothing to do follows from it");
    assert!(all.iter().all(|finding| !finding.title.starts_with("Use")), "{all:#?}");
    // Runs in which one number differs from the others.
    let (plan, points) = sweep(arguments, |point| match point.queues() {
        1 => closed(point, 10_000.0),
        _ => noisy(point),
    });
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    assert_eq!(all[0].title, "Use -i 2", "{all:#?}");
    assert!(all[0].text.contains("do not tell -i 2 and 4 from each other"), "{}", all[0].text);
}

#[test]
fn a_growth_is_shown_by_its_factor() {
    let (plan, points) = sweep("--rw randread --iodepth 1,8,32", |point| {
        closed(point, 74_700.0 * (point.outstanding() as f64).powf(0.617))
    });
    let all = findings(&plan, &points, Some(SURROUNDINGS));
    let title = all.iter().find(|finding| finding.title.starts_with("Throughput")).unwrap();
    assert_eq!(title.title, "Throughput grows 8.5 times with 32 times as much outstanding I/O");
}
