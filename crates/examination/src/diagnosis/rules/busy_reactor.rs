//! A reactor that never waits: its hosts wait for it.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::Served;

pub const RULE: Rule = Rule { name: "busy-reactor", judge };

/// Busier is at its limit.
const BUSY: f64 = 0.9;
/// Others that are less busy could take some of its queues.
const IDLE: f64 = 0.5;

fn judge(target: &Served) -> Vec<Finding> {
    finding(target).into_iter().collect()
}

fn finding(target: &Served) -> Option<Finding> {
    let busy: Vec<(usize, f64)> = target
        .reactors_busy
        .iter()
        .map(|(reactor, busy)| (*reactor, *busy))
        .filter(|(_, busy)| *busy >= BUSY)
        .collect();
    let all = target.reactors_busy.len();
    let (first, most) = busy.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let idle = target.reactors_busy.values().filter(|busy| **busy < IDLE).count();
    let rates = target.rates.reactors.iter().find(|reactor| reactor.number == *first);
    let commands = rates.and_then(|reactor| reactor.commands_per_s);
    // One that does nothing for hosts is busy with something else: with a change, or with connections.
    commands.filter(|commands| *commands > 0.0)?;
    let cause = match (busy.len(), all) {
        (one, all) if one == all => {
            format!("All {} of {} are busy all the time", units::plural(all as u64, "reactor"), target.name)
        }
        (one, all) => format!("{one} of {all} reactors of {} is busy all the time", target.name),
    };
    let uneven = idle > 0;
    let busy: Vec<String> = target
        .reactors_busy
        .iter()
        .take(8)
        .map(|(reactor, busy)| format!("reactor {reactor} {:.0} %", busy * 100.0))
        .collect();
    let share = if uneven { idle as f64 / all as f64 } else { 0.3 };
    let finding = Finding::new(Severity::Limits, &target.name, cause)
        .ranked(share)
        .seen(format!("at work, without waiting for events: {}", busy.join(", ")))
        .seen(format!(
            "reactor {first} ({:.0} %): {} commands/s of {}",
            most * 100.0,
            units::count(commands.unwrap_or(0.0)),
            units::plural(rates.map_or(0, |reactor| reactor.connections), "connection")
        ));
    Some(if uneven {
        finding
            .cure(
                "Give the hosts more I/O queues: a queue stays on one reactor, and new ones go where fewest are.",
                "The other reactors do a part of the work.",
            )
            .command(target.command("selvedge top"))
            .command("selvedge tune advise -a TARGET".to_owned())
    } else {
        finding
            .cure(
                "Give the target more reactors, if the machine has processors that are idle.",
                "Throughput grows with the reactors, up to what the network and storage take.",
            )
            .command(format!("selvedge serve --reactors {} ...", all + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};

    fn with(busy: &[f64]) -> Served {
        let mut case = well();
        case.reactors_busy = busy.iter().copied().enumerate().collect();
        case
    }

    #[test]
    fn busy_reactors_are_named() {
        assert!(named_first(&with(&[0.97]), RULE.name).cure.contains("more reactors"));
        assert!(named_first(&with(&[0.99, 0.1]), RULE.name).cure.contains("more I/O queues"));
        assert!(named_first(&with(&[0.95, 0.92]), RULE.name).cause.contains("All 2 reactors"));
    }

    #[test]
    fn look_alikes_are_well() {
        // One that polls uses a processor and waits all the same; one at work, with room; one that opens a disk.
        let mut polls = with(&[0.2]);
        polls.rates.reactors[0].busy_percent = Some(100.0);
        let mut opens = with(&[0.99]);
        opens.rates.reactors[0].commands_per_s = Some(0.0);
        for case in [polls, with(&[0.8, 0.7]), opens] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
