//! Threads that work on queues and wait for a processor that something else has.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "cpu-starvation", judge };

/// A thread that waits for this part of the time loses by it.
const PART_MIN: f64 = 0.2;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let Some((before, now)) = host.moments() else { return Vec::new() };
    let interval_ns = host.interval_s() * 1e9;
    if interval_ns <= 0.0 {
        return Vec::new();
    }
    let waits = now.counters.threads.iter().filter_map(|(thread, (ran, waited))| {
        let (ran_before, waited_before) = before.counters.threads.get(thread)?;
        let waited = waited.saturating_sub(*waited_before) as f64 / interval_ns;
        let ran = ran.saturating_sub(*ran_before) as f64 / interval_ns;
        (waited >= PART_MIN).then_some((*thread, waited.min(1.0), ran.min(1.0)))
    });
    let waits: Vec<(u32, f64, f64)> = waits.collect();
    let Some((thread, waited, ran)) = waits.iter().max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return Vec::new();
    };
    let busy = now.counters.all.busy_since(before.counters.all);
    let count = units::plural(waits.len() as u64, "thread");
    let verb = if waits.len() == 1 { "works on queues and waits" } else { "work on queues and wait" };
    let finding = Finding::new(Severity::Slows, "processors", format!("{count} {verb} for a processor"))
        .costing(waited / (waited + ran).max(*waited))
        .seen(format!(
            "thread {thread} waited for {:.0} % and ran for {:.0} % of {:.1} s (schedstat)",
            waited * 100.0,
            ran * 100.0,
            host.interval_s()
        ));
    let finding = busy
        .map(|busy| format!("all processors together: {:.0} % busy", busy * 100.0))
        .into_iter()
        .fold(finding, Finding::seen);
    vec![
        finding
            .cure(
                "Keep other programs off the processors that serve storage, or give each worker its own.",
                "Commands no longer wait for a processor.",
            )
            .command("top -H".to_owned())
            .command("selvedge tune show".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn with(ran_ms: u64, waited_ms: u64) -> Case {
        let mut case = healthy();
        for (moment, times) in [(&mut case.host.before, (5, 5)), (&mut case.host.now, (ran_ms, waited_ms))] {
            let threads = &mut moment.as_mut().unwrap().counters.threads;
            threads.insert(77, (times.0 * 1_000_000, times.1 * 1_000_000));
        }
        case
    }

    #[test]
    fn waiting_threads_are_named() {
        for (ran, waited) in [(505, 505), (105, 905), (305, 305)] {
            assert!(named_first(&with(ran, waited), RULE.name).evidence[0].contains("thread 77"));
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // One that has its processor, one that sleeps, one that has just begun.
        let mut new = with(505, 505);
        new.host.before.as_mut().unwrap().counters.threads.clear();
        for case in [with(1005, 15), with(5, 5), new] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
