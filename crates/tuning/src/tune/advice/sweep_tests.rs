//! Five made-up sweeps, about each of which the report's words, its pictures and `tune advise` must say the same.

use topology::sample;

use super::tests::{case, value};
use super::*;
use crate::report::document::{Finding, FindingKind};
use crate::sweep::leading_figures::leading_figures;
use crate::sweep::measurement::Measurement;
use crate::sweep::point::Point;
use crate::sweep::sample::{SURROUNDINGS, measurement, sweep};
use crate::sweep::{advice, charts};

/// A report, and the advice for the same sweep on a way with `retransmissions` of each connection.
struct Said {
    findings: Vec<Finding>,
    /// Words of all marks of a knee.
    marks: Vec<String>,
    figures: Vec<(String, f64)>,
    queues: Recommendation,
    outstanding: Recommendation,
    congestion: String,
}

impl Said {
    fn of(arguments: &str, retransmissions: u32, measure: impl Fn(&Point) -> Vec<Measurement>) -> Self {
        let (plan, summaries) = sweep(arguments, measure);
        let mut topology = sample::topology("cpu72-queues32").unwrap();
        topology.flows.iter_mut().for_each(|flow| flow.retransmissions = Some(retransmissions));
        let mut case = case(&topology, "eth0", 50);
        case.measured = Some(Measured { folder: "made-up".to_owned(), plan: &plan, summaries: &summaries });
        let all = Recommendations::of(&case);
        let marks = charts::all(&plan, &summaries).into_iter().flat_map(|chart| chart.marks);
        let figures = leading_figures(&plan, &summaries).into_iter();
        Self {
            findings: advice::findings(&plan, &summaries, Some(SURROUNDINGS)),
            marks: marks.map(|mark| mark.label).filter(|label| label.starts_with("knee")).collect(),
            figures: figures.map(|figure| (figure.name, figure.value)).collect(),
            queues: value(&all, "I/O queues (-i)").unwrap().clone(),
            outstanding: value(&all, "outstanding I/O").unwrap().clone(),
            congestion: value(&all, "congestion").unwrap().value.clone(),
        }
    }

    fn title(&self, start: &str) -> Option<&str> {
        self.findings.iter().map(|finding| finding.title.as_str()).find(|title| title.starts_with(start))
    }

    /// Checks what holds for any sweep with a knee: one knee, one number of queues or none, and `auto`.
    fn agree(&self, knee: &str, outstanding: u32, queues: Option<u32>) {
        assert_eq!(self.title("The knee"), Some(format!("The knee is at {knee} IOPS").as_str()));
        assert_eq!(self.marks, [format!("knee: {knee} IOPS")]);
        assert!(self.outstanding.value.starts_with(&format!("{outstanding} (")), "{:?}", self.outstanding);
        assert!(self.outstanding.why.starts_with(&format!("it did {knee} IOPS")), "{:?}", self.outstanding);
        assert!(self.figures.iter().any(|(name, _)| name == "p99 at the knee"), "{:?}", self.figures);
        let use_queues = queues.map(|queues| format!("Use -i {queues}"));
        assert_eq!(self.title("Use"), use_queues.as_deref(), "{:#?}", self.findings);
        assert_eq!(self.title("No difference is known").is_some(), queues.is_none());
        match queues {
            Some(queues) => {
                let measured = Basis::Measured("made-up".to_owned());
                assert_eq!(
                    (self.queues.value.as_str(), &self.queues.basis),
                    (queues.to_string().as_str(), &measured)
                );
            }
            None => assert!(!matches!(self.queues.basis, Basis::Measured(_)), "{:?}", self.queues),
        }
        assert_eq!(self.congestion, "auto");
        let words = self.findings.iter().map(|finding| format!("{} {}", finding.title, finding.text));
        for words in words.chain([self.outstanding.why.clone(), self.queues.why.clone()]) {
            assert!(!words.contains("hardly") && !words.contains(" 0 ns"), "{words}");
        }
    }

    fn first_is_about_others(&self) -> bool {
        let first = &self.findings[0];
        first.kind == FindingKind::Caution && first.title.contains("of this machine's processors")
    }
}

/// Runs of a closed loop (Little's law) that differ by `noise` from their mean.
fn runs(point: &Point, iops: f64, noise: &[f64]) -> Vec<Measurement> {
    let mean_ns = point.outstanding() as f64 / iops * 1e9;
    noise.iter().map(|share| measurement(iops * (1.0 + share), mean_ns / (1.0 + share))).collect()
}

/// A target that does 30 k IOPS a queue, up to 84 k, and 5 k for each outstanding command.
fn target(point: &Point) -> f64 {
    (30_000.0 * point.queues() as f64).min(84_000.0).min(5_000.0 * point.outstanding() as f64)
}

const AXES: &str = "--rw randread --iodepth 1,4,16,64 -i 1,2,4";
const CALM: [f64; 3] = [-0.01, 0.0, 0.01];

#[test]
fn a_quiet_machine_has_one_answer() {
    let said = Said::of(AXES, 0, |point| runs(point, target(point), &CALM));
    said.agree("80.0 k", 16, Some(4));
    assert!(!said.first_is_about_others());
    assert!(said.figures.contains(&("taken by others".to_owned(), 0.0)), "{:?}", said.figures);
}

#[test]
fn others_on_the_machine_are_named_first() {
    let loaded = |foreign: f64, stolen: f64| {
        Said::of(AXES, 0, move |point| {
            let mut all = runs(point, target(point), &CALM);
            for run in &mut all {
                (run.foreign, run.stolen, run.machine_busy) = (Some(foreign), Some(stolen), Some(1.0));
            }
            all
        })
    };
    let said = loaded(0.7, 0.0);
    said.agree("80.0 k", 16, Some(4));
    assert!(said.first_is_about_others(), "{:#?}", said.findings);
    assert_eq!(said.findings[0].title, "Other programs took up to 70 % of this machine's processors");
    assert!(said.title("Other work on this machine limits").is_some(), "{:#?}", said.findings);
    let said = loaded(0.1, 0.2);
    assert_eq!(said.findings[0].title, "Other virtual machines took up to 30 % of this machine's processors");
    assert!(!loaded(0.04, 0.04).first_is_about_others());
}

#[test]
fn a_lossy_way_has_one_answer() {
    // Losses cost latency and vary; more queues do more, since each has a window of its own.
    let said = Said::of(AXES, 500, |point| {
        let iops = (2_000.0 * point.queues() as f64).min(300.0 * point.outstanding() as f64);
        runs(point, iops, &[-0.03, 0.0, 0.03])
    });
    said.agree("4.80 k", 16, Some(4));
}

#[test]
fn two_runs_that_tell_nothing_lead_to_no_advice() {
    let said = Said::of("--rw randread --repeat 2 --iodepth 1,4,16,64 -i 1,2,4", 0, |point| {
        let queues = 1.0 + 0.05 * point.queues() as f64;
        runs(point, queues * (20_000.0 * point.outstanding() as f64).min(100_000.0), &[-0.2, 0.2])
    });
    said.agree("96.0 k", 4, None);
}

#[test]
fn a_kernel_target_has_one_answer() {
    // Means of IOPS and their spread, as they were measured of nvmet on two processors.
    let measured = [
        (128, 1, 1550.0, 0.05),
        (128, 2, 1450.0, 0.24),
        (256, 1, 1410.0, 0.12),
        (256, 2, 1140.0, 0.19),
        (384, 1, 1490.0, 0.15),
        (384, 2, 1940.0, 0.48),
        (512, 1, 1790.0, 0.08),
        (512, 2, 2150.0, 0.12),
    ];
    let said = Said::of("--rw randread --numjobs 16 --iodepth 8,16,24,32 -i 1,2", 0, move |point| {
        let is_it = |(outstanding, queues, ..): &&(u64, u64, f64, f64)| {
            (*outstanding, *queues) == (point.outstanding(), point.queues())
        };
        let (.., iops, spread) = *measured.iter().find(is_it).unwrap();
        runs(point, iops, &[-spread, 0.0, spread])
    });
    // Of two queues, which do more: 1450 over 88 ms.
    said.agree("1.45 k", 128, None);
}
