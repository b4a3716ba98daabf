//! A sweep before it begins: its points, the order in which they are measured, and how long that takes.

use std::time::Duration;

use nvme::discovery::Nqn;
use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::point::{FULL, Load, Point};
use crate::bench::slot_sequence::Random;
use crate::flags::bench::BenchFlags;
use crate::flags::sweep::{AXES, Given, OwnFlags, Preset, SweepFlags, bench_flags};
use crate::spec::extent::Extent;
use crate::workload::Range;

/// The most points, so that a list too many is noticed before weeks have passed.
const POINTS_MAX: usize = 4096;

const REPEAT: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
const RUNTIME: &str = "5";
const RAMP_TIME: &str = "1";

/// Connecting, and waiting for the last commands: what each measurement takes besides its times.
const OVERHEAD: Duration = Duration::from_millis(100);

/// Everything that decides what is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub preset: Option<Preset>,
    /// Options of `bench` that are the same for all points.
    pub(crate) fixed: Vec<Given>,
    pub(crate) axes: Vec<Axis>,
    pub repeat: u32,
    pub pause_ms: u64,
    /// Rounds at most, where measurements go on until they are steady.
    pub steady_rounds_max: Option<u32>,
    pub(crate) in_order: bool,
    /// Of the order.
    pub seed: u64,
    pub latency_target_ns: Option<u64>,
    /// Values of the preset that the target does not support.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// Values of a preset that the target does not support.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The values in words: `FUA and flush every 64`.
    pub values: String,
    pub reason: String,
}

/// A measurement that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Index of the point.
    pub point: usize,
    /// Number of the repetition.
    pub repetition: u32,
}

impl Plan {
    /// The plan that flags ask for.
    ///
    /// # Errors
    /// The option that cannot be, and what it takes.
    pub fn new(flags: &SweepFlags) -> Result<Self, String> {
        let mut given = flags.given.clone();
        if let Some(preset) = flags.own.preset {
            preset.complete(&mut given);
        }
        for (option, value) in [("runtime", RUNTIME), ("ramp_time", RAMP_TIME)] {
            if !given.iter().any(|given| given.option == option) {
                given.push(Given { option: option.to_owned(), values: vec![value.to_owned()] });
            }
        }
        let (axes, fixed): (Vec<_>, Vec<_>) =
            given.into_iter().partition(|given| AXES.contains(&given.option.as_str()));
        let axes = AXES
            .iter()
            .filter_map(|option| axes.iter().find(|given| given.option == *option))
            .map(|given| Axis::new(&given.option, &given.values))
            .collect::<Result<Vec<Axis>, String>>()?;
        let plan = Self { axes: with_full_load(axes), ..Self::of(&flags.own, fixed) };
        plan.check()?;
        Ok(plan)
    }

    /// Returns the plan with the subsystem's name.
    pub fn on(mut self, nqn: &Nqn) -> Self {
        if !self.fixed.iter().any(|given| given.option == "nqn") {
            self.fixed.push(Given { option: "nqn".to_owned(), values: vec![nqn.to_string()] });
        }
        self
    }

    /// The bytes that it uses.
    pub fn range(&self) -> Range {
        let extent = |option: &str| self.fixed(option)?.first()?.parse::<Extent>().ok();
        let increment = extent("offset_increment").unwrap_or(Extent::ZERO);
        // Points differ in how many jobs they have.
        let length = extent("size").filter(|_| increment.is_zero());
        Range { offset: extent("offset").unwrap_or(Extent::ZERO), length, further: (0, increment) }
    }

    fn of(own: &OwnFlags, fixed: Vec<Given>) -> Self {
        let preset = own.preset;
        let seed = fixed.iter().find(|given| given.option == "randseed");
        let seed = seed.and_then(|given| given.values.first()?.parse().ok()).unwrap_or(1);
        let target = own.latency_target.or_else(|| preset.and_then(Preset::latency_target));
        Self {
            preset,
            fixed,
            axes: Vec::new(),
            repeat: own.repeat.or_else(|| preset.and_then(Preset::repeat)).unwrap_or(REPEAT),
            pause_ms: own.pause.unwrap_or(PAUSE).as_millis() as u64,
            steady_rounds_max: own.steady,
            in_order: own.in_order,
            seed,
            latency_target_ns: target.map(|target| target.as_nanos() as u64),
            left_out: Vec::new(),
        }
    }

    /// Checks every point by `bench`'s own parser.
    ///
    /// # Errors
    /// The option that cannot be, and what it takes.
    pub(super) fn check(&self) -> Result<(), String> {
        let count = self.axes.iter().map(|axis| axis.values.len()).try_fold(1_usize, usize::checked_mul);
        if count.is_none_or(|count| count > POINTS_MAX) {
            return Err(format!("the lists together make more than {POINTS_MAX} points: shorten one"));
        }
        for point in self.points() {
            point.load()?;
            // A share of the load is known only when the full load is.
            self.bench_flags(&point, None)?;
        }
        Ok(())
    }

    /// The line of `bench` that measures a point; `rate` is the one of each job, where its load is a share.
    ///
    /// # Errors
    /// The option, and what it takes.
    pub fn bench_flags(&self, point: &Point, rate: Option<u64>) -> Result<BenchFlags, String> {
        let mut options = self.fixed.clone();
        options.extend(point.options(rate));
        bench_flags(&options)
    }

    /// All points.
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Point { values: Vec::new() }];
        for axis in &self.axes {
            points = points
                .into_iter()
                .flat_map(|point| {
                    axis.values.iter().map(move |value| {
                        let mut values = point.values.clone();
                        values.push((axis.option.clone(), value.clone()));
                        Point { values }
                    })
                })
                .collect();
        }
        let mut apart: Vec<Point> = Vec::new();
        for point in points {
            let point = self.without_what_means_nothing(point);
            if !apart.contains(&point) {
                apart.push(point);
            }
        }
        apart
    }

    fn without_what_means_nothing(&self, point: Point) -> Point {
        let mut point = point.with_modes_named_once();
        if !matches!(point.kind(), "readwrite" | "randrw") {
            point = point.without("rwmixread");
        }
        if !point.writes() {
            point = point.without("sync").without("fsync");
        }
        // Writes with FUA leave nothing to a Flush.
        if point.forces_unit_access() && self.varies("sync") && self.varies("fsync") {
            point = point.without("fsync");
        }
        if self.fixed("traddr").is_none_or(|addresses| addresses.len() < 2) {
            point = point.without("iopolicy");
        }
        point
    }

    /// Values of an option that is not an axis.
    pub(crate) fn fixed(&self, option: &str) -> Option<&[String]> {
        self.fixed.iter().find(|given| given.option == option).map(|given| given.values.as_slice())
    }

    /// The axis of an option, if it has several values.
    pub fn varies(&self, option: &str) -> bool {
        self.axes.iter().any(|axis| axis.option == option && axis.varies())
    }

    /// All measurements in the order in which they are made. Shares of a load come after what they are shares of.
    pub fn planned_runs(&self) -> Vec<PlannedRun> {
        let points = self.points();
        let mut random = Random::new(self.seed);
        let mut planned_runs = Vec::new();
        for of_share in [false, true] {
            let is_share = |point: &usize| matches!(points[*point].load(), Ok(Load::Share(_)));
            let phase: Vec<usize> = (0..points.len()).filter(|point| is_share(point) == of_share).collect();
            for repetition in 0..self.repeat {
                let mut order = phase.clone();
                if !self.in_order {
                    shuffle(&mut order, &mut random);
                }
                planned_runs.extend(order.into_iter().map(|point| PlannedRun { point, repetition }));
            }
        }
        planned_runs
    }

    /// The point with the full load that `point` has a share of.
    pub fn full_load_of(&self, point: &Point) -> Option<usize> {
        let wanted = point.without("rate_iops");
        let is_it = |other: &Point| {
            other.value("rate_iops").is_none_or(|rate| rate == FULL) && other.without("rate_iops") == wanted
        };
        self.points().iter().position(is_it)
    }

    /// Least duration of a measurement.
    pub fn run_takes(&self) -> Duration {
        // Where it shall be steady, five rounds are the least.
        self.rounds_take(if self.steady_rounds_max.is_some() { 5 } else { 1 })
    }

    /// Longest duration of a measurement, unless the machine or the target is slower than planned.
    pub fn run_takes_at_most(&self) -> Duration {
        self.rounds_take(self.steady_rounds_max.unwrap_or(1))
    }

    fn rounds_take(&self, rounds: u32) -> Duration {
        let time = |option: &str| {
            let value = self.fixed(option).and_then(|values| values.first());
            value.and_then(|value| crate::spec::size::parse_time(value).ok()).unwrap_or_default()
        };
        time("ramp_time") + time("runtime") * rounds + Duration::from_millis(self.pause_ms) + OVERHEAD
    }

    /// True if a point writes.
    pub fn writes(&self) -> bool {
        self.points().iter().any(Point::writes)
    }
}

/// Shares are of something.
fn with_full_load(mut axes: Vec<Axis>) -> Vec<Axis> {
    for axis in axes.iter_mut().filter(|axis| axis.option == "rate_iops") {
        if axis.values.iter().any(|value| value.ends_with('%'))
            && !axis.values.iter().any(|value| value == FULL)
        {
            axis.values.insert(0, FULL.to_owned());
        }
    }
    axes
}

/// Every order is as likely as any other (Fisher and Yates).
fn shuffle(order: &mut [usize], random: &mut Random) {
    for last in (1..order.len()).rev() {
        order.swap(last, (random.next() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plan(arguments: &str) -> Result<Plan, String> {
        Plan::new(&SweepFlags::of(&format!("-a 10.0.0.1 -n nqn.a {arguments}")).unwrap())
    }

    #[test]
    fn lists_multiply() {
        let plan = plan("--rw randread --iodepth 1,8 -i 1..4 --bs 4k").unwrap();
        let points = plan.points();
        assert_eq!(points.len(), 6);
        assert_eq!(points[1].label(|_| true), "randread, 4 KiB, depth 1, 2 queues");
        assert!(plan.varies("iodepth") && !plan.varies("bs") && !plan.varies("rate_iops"));
        assert_eq!(plan.run_takes(), Duration::from_millis(6_600));
    }

    #[test]
    fn what_means_nothing_multiplies_nothing() {
        let points = |arguments| plan(arguments).unwrap().points().len();
        assert_eq!(points("--rw randread,randrw --rwmixread 50,70,90"), 1 + 3);
        assert_eq!(points("--rw randread --iopolicy numa,latency"), 1);
        assert_eq!(
            points("-a 10.0.0.2 --rw randread --iopolicy numa,latency".trim_start_matches("-a 10.0.0.2 ")),
            1
        );
        assert_eq!(points("--rw read,write --fsync 1,32"), 1 + 2);
        assert_eq!(points("--rw read,write --sync none,sync --fsync 0,64"), 1 + 3);
        assert_eq!(points("--rw write --sync sync --fsync 0,64"), 2);
        assert_eq!(points("--rw write --sync none,0,sync,1,dsync"), 2);
        assert!(plan("--rw write --sync none,2").is_err(), "only modes that bench has");
    }

    #[test]
    fn every_measurement_is_made_once_and_loads_come_first() {
        let plan = plan("--rw randread --iodepth 1,8,32 --rate_iops 50%,100% --repeat 4").unwrap();
        let points = plan.points();
        assert_eq!(points.len(), 9);
        let planned_runs = plan.planned_runs();
        let apart: BTreeSet<&PlannedRun> = planned_runs.iter().collect();
        assert_eq!((planned_runs.len(), apart.len()), (36, 36));
        assert_eq!(planned_runs, plan.planned_runs());
        for (at, planned) in planned_runs.iter().enumerate() {
            let is_share = matches!(points[planned.point].load(), Ok(Load::Share(_)));
            assert_eq!(is_share, at >= 12, "{at}");
            if is_share {
                let full = plan.full_load_of(&points[planned.point]).unwrap();
                assert_eq!(points[full].value("iodepth"), points[planned.point].value("iodepth"));
                assert_eq!(points[full].load(), Ok(Load::Full));
            }
        }
        let in_order = Plan { in_order: true, ..plan };
        assert_ne!(in_order.planned_runs(), planned_runs);
        assert!(in_order.planned_runs()[..3].is_sorted());
    }

    #[test]
    fn nonsense_is_named_before_anything_is_measured() {
        for (arguments, expected) in [
            ("--rw randread --iodepth 0,1", "--iodepth"),
            ("--rw randread --iodepth 1,9e9", "--iodepth"),
            ("--rw randread --bs 4k,k", "--bs"),
            ("--rw randread -i 0..4", "--nr-io-queues"),
            ("--rw randread --rate_iops fast", "--rate_iops"),
            ("--rw up,down", "randread"),
            ("--iodepth 1", "--rw"),
            (
                "--rw randread --iodepth 1..65536 --numjobs 1..1024 -i 1..128 --bs 4k,8k,16k,32k",
                "4096 points",
            ),
        ] {
            let error = plan(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }

    #[test]
    fn a_plan_is_the_same_after_it_was_written_down() {
        let plan = plan("--preset load --repeat 2").unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
