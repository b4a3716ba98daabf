//! Predefined sweeps: the options that they set unless the command line has them.

use std::time::Duration;

use crate::flags::sweep::{Given, Preset};

impl Preset {
    /// Adds what was not typed.
    pub(super) fn complete(self, given: &mut Vec<Given>) {
        let queues = queue_steps(std::thread::available_parallelism().map_or(1, usize::from));
        let options: &[(&str, &str)] = match self {
            Preset::Quick => &[
                ("rw", "randread"),
                ("bs", "4k"),
                ("numjobs", "4"),
                ("iodepth", "1,8,32"),
                ("nr-io-queues", "1,2,4"),
                ("runtime", "1300ms"),
                ("ramp_time", "500ms"),
            ],
            Preset::Queues => &[
                ("rw", "randread"),
                ("bs", "4k"),
                ("numjobs", "16"),
                ("iodepth", "8,16,24,32"),
                ("nr-io-queues", &queues),
            ],
            Preset::Network => &[
                ("rw", "randread,randwrite"),
                ("bs", "4k"),
                ("numjobs", "16"),
                ("iodepth", "32"),
                ("size", "1g"),
                ("runtime", "60"),
            ],
            Preset::Load => &[
                ("rw", "randrw"),
                ("rwmixread", "70"),
                ("bs", "16k"),
                ("numjobs", "4"),
                ("iodepth", "32"),
                ("rate_iops", "10%,20%,30%,40%,50%,60%,70%,80%,90%,100%,110%"),
            ],
        };
        for (option, values) in options {
            if !given.iter().any(|given| given.option == *option) {
                let values = values.split(',').map(str::to_owned).collect();
                given.push(Given { option: (*option).to_owned(), values });
            }
        }
    }

    /// Repetitions, where it has its own number.
    pub(super) const fn repeat(self) -> Option<u32> {
        match self {
            Preset::Quick => Some(3),
            Preset::Queues | Preset::Network | Preset::Load => None,
        }
    }

    /// The time to stay within.
    pub(super) const fn latency_target(self) -> Option<Duration> {
        match self {
            Preset::Load => Some(Duration::from_millis(2)),
            Preset::Quick | Preset::Queues | Preset::Network => None,
        }
    }
}

/// Numbers of queues worth trying with this number of processors: doubling, from one to well beyond one a processor, since more
/// queues than that are tried in the field as well. 128 is the most a controller may have.
fn queue_steps(processors: usize) -> String {
    let most = (processors * 4).clamp(16, 128);
    let steps =
        std::iter::successors(Some(1), |queues| Some(queues * 2)).take_while(|queues| *queues <= most);
    steps.map(|queues: usize| queues.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::sweep::SweepFlags;
    use crate::sweep::plan::Plan;
    use clap::ValueEnum as _;

    #[test]
    fn each_is_a_plan_that_bench_takes() {
        for preset in Preset::value_variants() {
            let name = preset.to_possible_value().unwrap();
            let line = format!("-a 10.0.0.1 -n nqn.a --preset {}", name.get_name());
            let plan = Plan::new(&SweepFlags::of(&line).unwrap()).unwrap();
            assert!(plan.points().len() >= 2, "{line}");
        }
    }

    #[test]
    fn former_names_are_taken_and_not_offered() {
        for (former, name) in [("seed-000", "queues"), ("seed-002", "network"), ("seed-003", "load")] {
            let of = |name: &str| {
                let line = format!("-a 10.0.0.1 -n nqn.a --preset {name}");
                Plan::new(&SweepFlags::of(&line).unwrap()).unwrap()
            };
            assert_eq!(of(former), of(name));
            // A sweep that was begun with it goes on.
            let written: Preset = serde_json::from_value(former.into()).unwrap();
            assert_eq!(written, serde_json::from_value::<Preset>(name.into()).unwrap());
            assert_eq!(serde_json::to_value(written).unwrap(), name);
        }
        let offered = Preset::value_variants().iter().filter_map(|preset| preset.to_possible_value());
        assert!(offered.into_iter().all(|value| !value.get_name().contains("seed")));
    }

    #[test]
    fn what_is_typed_wins() {
        let line = "-a 10.0.0.1 -n nqn.a --preset queues -i 3 --repeat 1 --runtime 7 --latency-target 1ms";
        let plan = Plan::new(&SweepFlags::of(line).unwrap()).unwrap();
        assert_eq!(plan.points().len(), 4);
        assert_eq!((plan.repeat, plan.latency_target_ns), (1, Some(1_000_000)));
        assert_eq!(plan.fixed("runtime").unwrap(), ["7"]);
        assert!(plan.points().iter().all(|point| point.queues() == 3 && point.outstanding() >= 128));
    }

    #[test]
    fn queues_go_beyond_the_processors() {
        assert_eq!(queue_steps(2), "1,2,4,8,16");
        assert_eq!(queue_steps(72), "1,2,4,8,16,32,64,128");
    }
}
