//! A virtual machine whose processors its hypervisor gives to others.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "stolen-cpu", judge };

/// Less is what every shared machine has.
const PART_MIN: f64 = 0.05;

fn judge(case: &Case) -> Vec<Finding> {
    let Some((before, now)) = case.host.moments() else { return Vec::new() };
    let stolen = now.counters.all.share_since(before.counters.all, |ticks| ticks.stolen);
    let busy = now.counters.all.busy_since(before.counters.all);
    let Some(stolen) = stolen.filter(|stolen| *stolen >= PART_MIN) else { return Vec::new() };
    // What is stolen counts as busy; of the time that was wanted, this part was not given.
    let share = stolen / busy.unwrap_or(1.0).max(stolen);
    let cause = "The hypervisor gives this machine's processors to others".to_owned();
    vec![
        Finding::new(Severity::Slows, "processors", cause)
            .costing(share)
            .seen(format!(
                "steal in /proc/stat: {:.0} % of the processors' time in {:.1} s, {:.0} % of what was wanted",
                stolen * 100.0,
                case.host.interval_s(),
                share * 100.0
            ))
            .cure(
                "Give the machine dedicated processors, or fewer of them; inform the operator of the hypervisor.",
                "Commands no longer wait for a processor that is elsewhere.",
            )
            .command("vmstat 1".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn with(stolen: u64, idle: u64) -> Case {
        let mut case = healthy();
        let all = &mut case.host.now.as_mut().unwrap().counters.all;
        all.all += 100;
        all.stolen += stolen;
        all.idle += idle;
        case
    }

    #[test]
    fn stolen_time_is_named() {
        for (stolen, idle, cost) in [(50, 0, 36.0), (30, 20, 25.0), (20, 30, 18.0)] {
            assert_eq!(named_first(&with(stolen, idle), RULE.name).cost_percent, cost);
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // A busy machine, an idle one, a little.
        for case in [with(0, 0), with(0, 100), with(4, 50)] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
