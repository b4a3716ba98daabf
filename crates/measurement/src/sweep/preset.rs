//! Predefined sweeps: the options that they set unless the command line has them.

use std::time::Duration;

use super::plan::{LeftOut, Plan};
use super::point::{Point, in_words};
use crate::flags::sweep::{Given, Preset};
use crate::spec::size::Size;
use crate::workload::Fitted;

/// Abilities of a target on which values of presets depend.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Bytes of the longest transfer.
    pub transfer_bytes_max: u64,
    /// True if writes are durable only after a Flush or with FUA.
    pub has_volatile_cache: bool,
}

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
            Preset::Writes => &[
                ("rw", "randwrite"),
                ("bs", "4k"),
                ("sync", "none,sync"),
                ("fsync", "0,64"),
                ("numjobs", "16"),
                ("iodepth", "1,4,16,32"),
                ("nr-io-queues", &queues),
                ("runtime", "2"),
            ],
            Preset::Blocks => &[
                ("rw", "randread,randwrite"),
                ("bs", "4k,16k,64k,256k,1m"),
                ("numjobs", "16"),
                ("iodepth", "1,4,8"),
                ("nr-io-queues", &queues),
                ("runtime", "2"),
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
            Preset::Quick | Preset::Writes | Preset::Blocks => Some(3),
            Preset::Queues | Preset::Network | Preset::Load => None,
        }
    }

    /// Question that the report answers, and that is its title.
    pub const fn question(self) -> Option<&'static str> {
        match self {
            Preset::Writes => {
                Some("Where is acknowledgement, not the number of queues, the limit of writes?")
            }
            Preset::Blocks => Some(
                "At which block size does the limit turn from processor to bandwidth, and which -i is best on each side?",
            ),
            Preset::Quick | Preset::Queues | Preset::Network | Preset::Load => None,
        }
    }

    /// Checks that each outstanding command of a point has a block of its own: on a smaller range, commands meet on blocks.
    ///
    /// # Errors
    /// The bytes that there are and that it needs, and a remedy.
    pub fn check_room(self, point: &Point, fitted: &Fitted) -> Result<(), String> {
        let (block, outstanding) = (u64::from(fitted.workload.block_bytes), point.outstanding());
        let needed = outstanding.saturating_mul(block);
        let room: u64 = fitted.ranges().map(|(from, to)| to - from).sum();
        if self.question().is_none() || room >= needed {
            return Ok(());
        }
        Err(format!(
            "the range has {}, and {outstanding} outstanding commands of {} need {}: use a larger namespace, or give smaller \
             --bs or --iodepth",
            Size(room),
            Size(block),
            Size(needed)
        ))
    }

    /// The time to stay within.
    pub(super) const fn latency_target(self) -> Option<Duration> {
        match self {
            Preset::Load => Some(Duration::from_millis(2)),
            Preset::Quick | Preset::Queues | Preset::Network | Preset::Writes | Preset::Blocks => None,
        }
    }
}

impl Plan {
    /// Returns the plan without values of its preset that the target does not support; typed values stay.
    pub fn within(mut self, abilities: Abilities, typed: &[Given]) -> Self {
        let is_supported = |option: &str, value: &str| match option {
            "sync" | "fsync" => abilities.has_volatile_cache || matches!(value, "none" | "0"),
            "bs" => value.parse::<Size>().is_ok_and(|size| size.0 <= abilities.transfer_bytes_max),
            _ => true,
        };
        if self.preset.and_then(Preset::question).is_none() {
            return self;
        }
        let mut left_out: Vec<(String, String)> = Vec::new();
        for axis in &mut self.axes {
            let is_typed = typed.iter().any(|given| given.option == axis.option);
            // Without any value there would be no point; the first one is then refused with the reason.
            if is_typed || !axis.values.iter().any(|value| is_supported(&axis.option, value)) {
                continue;
            }
            let (kept, others): (Vec<String>, Vec<String>) =
                axis.values.iter().cloned().partition(|value| is_supported(&axis.option, value));
            left_out.extend(others.iter().map(|value| (axis.option.clone(), in_words(&axis.option, value))));
            axis.values = kept;
        }
        let words = |is_wanted: fn(&str) -> bool| {
            let wanted = left_out.iter().filter(|(option, _)| is_wanted(option));
            wanted.map(|(_, words)| words.as_str()).collect::<Vec<_>>().join(" and ")
        };
        let (acknowledgements, sizes) = (words(|option| option != "bs"), words(|option| option == "bs"));
        let no_cache =
            "the namespace has no volatile write cache, so each write is durable when acknowledged";
        let too_long = format!("a command transfers {} at most", Size(abilities.transfer_bytes_max));
        for (values, reason) in [(acknowledgements, no_cache.to_owned()), (sizes, too_long)] {
            if !values.is_empty() {
                self.left_out.push(LeftOut { values, reason });
            }
        }
        self
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::flags::sweep::SweepFlags;
    use crate::workload::{Geometry, Workload};
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

    const EVERYTHING: Abilities = Abilities { transfer_bytes_max: 1 << 20, has_volatile_cache: true };

    fn within(arguments: &str, abilities: Abilities) -> Plan {
        let flags = SweepFlags::of(&format!("-a 10.0.0.1 -n nqn.a {arguments}")).unwrap();
        Plan::new(&flags).unwrap().within(abilities, &flags.given)
    }

    #[test]
    fn writes_have_three_acknowledgements_and_three_runs() {
        let plan = within("--preset writes -i 1,2", EVERYTHING);
        let points = plan.points();
        assert_eq!((points.len(), plan.repeat, plan.left_out.len()), (3 * 4 * 2, 3, 0));
        let acknowledgements: BTreeSet<String> = points.iter().map(Point::acknowledgement).collect();
        let expected = ["FUA", "flush every 64", "volatile"];
        assert_eq!(acknowledgements, BTreeSet::from(expected.map(str::to_owned)));
        assert!(points.iter().all(|point| point.writes() && point.kind() == "randwrite"));
    }

    #[test]
    fn acknowledgements_without_effect_are_left_out() {
        let durable = Abilities { has_volatile_cache: false, ..EVERYTHING };
        let plan = within("--preset writes -i 1,2", durable);
        assert_eq!(plan.points().len(), 4 * 2);
        let [left_out] = plan.left_out.as_slice() else { panic!("{:?}", plan.left_out) };
        assert_eq!(left_out.values, "FUA and flush every 64");
        assert!(left_out.reason.contains("no volatile write cache"), "{left_out:?}");
        plan.check().unwrap();
        // Typed values are measured as they are.
        let typed = within("--preset writes -i 1,2 --sync sync", durable);
        assert!(typed.points().iter().all(Point::forces_unit_access));
        assert_eq!(typed.left_out[0].values, "flush every 64");
        let other = within("--rw randwrite --sync none,sync --fsync 0,64", durable);
        assert_eq!((other.points().len(), other.left_out.len()), (3, 0), "only presets leave out values");
    }

    #[test]
    fn sizes_over_the_transfer_limit_are_left_out() {
        let short = Abilities { transfer_bytes_max: 128 << 10, ..EVERYTHING };
        let plan = within("--preset blocks -i 1,2", short);
        assert_eq!(plan.points().len(), 2 * 3 * 3 * 2);
        assert_eq!(plan.left_out[0].values, "256 KiB and 1 MiB");
        assert!(plan.left_out[0].reason.contains("128 KiB"), "{:?}", plan.left_out);
        let typed = within("--preset blocks -i 1,2 --bs 4k,1m", short);
        assert!(typed.left_out.is_empty() && typed.points().len() == 2 * 2 * 3 * 2, "{:?}", typed.left_out);
    }

    #[test]
    fn a_namespace_that_is_too_small_is_refused() {
        let refusal = |arguments: &str, bytes: u64| {
            let plan = within(arguments, EVERYTHING);
            plan.points().iter().find_map(|point| {
                let (workload, _) = Workload::new(&plan.bench_flags(point, None).unwrap()).unwrap();
                let fitted = workload.fit(Geometry { unit_bytes: 4096, bytes }).unwrap();
                plan.preset.unwrap().check_room(point, &fitted).err()
            })
        };
        let refused = refusal("--preset blocks -i 1", 64 << 20).unwrap();
        assert!(refused.contains("64 MiB") && refused.contains("need 128 MiB"), "{refused}");
        assert_eq!(refusal("--preset blocks -i 1", 128 << 20), None);
        assert_eq!(refusal("--preset blocks -i 1 --bs 4k,64k", 64 << 20), None);
        assert!(refusal("--preset writes -i 1", 1 << 20).unwrap().contains("512 outstanding"));
        assert_eq!(refusal("--preset queues -i 1", 1 << 20), None, "other presets take any size");
    }

    #[test]
    fn queues_go_beyond_the_processors() {
        assert_eq!(queue_steps(2), "1,2,4,8,16");
        assert_eq!(queue_steps(72), "1,2,4,8,16,32,64,128");
    }
}
