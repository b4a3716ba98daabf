//! What the instruments say about the same commands, side by side: medians over rounds, their noise, and whether they
//! agree. It keeps out how anything is measured.

use std::fmt::Write;

use serde::Serialize;

use super::DEPTHS;
use crate::peers::Reading;
use crate::statistics::median;
use crate::table::Table;

/// Latencies of one run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Figures {
    /// Of single times in nanoseconds. None without any.
    pub(crate) fn of(mut times_ns: Vec<u64>) -> Option<Figures> {
        times_ns.sort_unstable();
        let count = times_ns.len();
        // The smallest time that this share of all times does not exceed.
        let at = |share: f64| times_ns.get(((count as f64 * share).ceil() as usize).max(1) - 1).copied();
        let sum: u64 = times_ns.iter().sum();
        let us = |ns: u64| ns as f64 / 1000.0;
        Some(Figures { mean_us: us(sum) / count as f64, p50_us: us(at(0.5)?), p99_us: us(at(0.99)?) })
    }

    /// A program's own.
    pub(crate) fn of_reading(reading: &Reading) -> Option<Figures> {
        Some(Figures { mean_us: reading.mean_us?, p50_us: reading.p50_us?, p99_us: reading.p99_us? })
    }
}

/// Run under tcpdump: the same commands as seen by both.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Wired {
    pub(crate) round: u32,
    pub(crate) depth: u32,
    pub(crate) bench: Figures,
    /// Commands by the bench's own account.
    pub(crate) bench_commands: f64,
    pub(crate) wire: Figures,
    pub(crate) wire_commands: usize,
    /// Time from one command to the next on each of `depth` places, by tcpdump's clock alone: no command can have taken
    /// longer on average (Little).
    pub(crate) cycle_us: f64,
    /// The bench without tcpdump, right before.
    pub(crate) undisturbed: Figures,
    pub(crate) dropped_packets: u64,
    pub(crate) idle_percent: f64,
}

/// Run of fio, which sends one request at a time through the bridge.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bridged {
    pub(crate) round: u32,
    /// fio, with the target behind the bridge.
    pub(crate) target: Figures,
    /// The same commands inside the bridge.
    pub(crate) inside: Figures,
    /// fio, with memory behind the bridge, and what that took inside.
    pub(crate) memory: Figures,
    pub(crate) memory_inside: Figures,
    /// The bench against the same target, in the same round.
    pub(crate) bench: Figures,
}

/// A median over rounds, with the smallest and the largest.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

fn spread(figures: &[f64]) -> Option<Spread> {
    let least = figures.iter().copied().reduce(f64::min)?;
    let most = figures.iter().copied().reduce(f64::max)?;
    Some(Spread { median: median(figures)?, least, most })
}

fn cell(figures: &[f64]) -> String {
    spread(figures).map_or_else(
        || "-".to_owned(),
        |spread| format!("{:.1} ({:.1} to {:.1})", spread.median, spread.least, spread.most),
    )
}

fn columns<T>(runs: &[&T], of: impl Fn(&T) -> Figures) -> Vec<String> {
    let column = |pick: fn(Figures) -> f64| cell(&runs.iter().map(|run| pick(of(run))).collect::<Vec<_>>());
    vec![column(|f| f.mean_us), column(|f| f.p50_us), column(|f| f.p99_us)]
}

fn row(name: &str, cells: Vec<String>) -> Vec<String> {
    [vec![name.to_owned()], cells].concat()
}

/// The bench beside the wire, depth by depth.
pub(crate) fn wired(all: &[Wired], markdown: bool) -> String {
    let mut text = String::new();
    for depth in DEPTHS {
        let runs: Vec<&Wired> = all.iter().filter(|run| run.depth == depth).collect();
        if runs.is_empty() {
            continue;
        }
        let mut table = Table::new(&["µs, median of rounds (least to most)", "mean", "p50", "p99"]);
        table.row(row("bench", columns(&runs, |run| run.bench)));
        table.row(row("wire, the same commands", columns(&runs, |run| run.wire)));
        let difference = columns(&runs, |run| Figures {
            mean_us: run.bench.mean_us - run.wire.mean_us,
            p50_us: run.bench.p50_us - run.wire.p50_us,
            p99_us: run.bench.p99_us - run.wire.p99_us,
        });
        table.row(row("bench - wire, run by run", difference));
        let cycles: Vec<f64> = runs.iter().map(|run| run.cycle_us).collect();
        table.row(row("wire, command to next command", vec![cell(&cycles)]));
        table.row(row("bench without tcpdump", columns(&runs, |run| run.undisturbed)));
        let rendered = if markdown { format!("\n{}", table.markdown()) } else { table.text() };
        // Writing to a string does not fail.
        let _ = writeln!(text, "4k random read, depth {depth}:\n{rendered}{}\n", judge(&runs));
    }
    text
}

/// In words, whether they agree.
fn judge(runs: &[&Wired]) -> String {
    let noise = |pick: fn(&Wired) -> f64| {
        let figures: Vec<f64> = runs.iter().map(|run| pick(run)).collect();
        spread(&figures).map_or(0.0, |spread| spread.most - spread.least)
    };
    let between =
        runs.iter().filter(|run| run.wire.mean_us <= run.bench.mean_us && run.bench.mean_us <= run.cycle_us);
    let counted = runs.iter().filter(|run| run.wire_commands as f64 == run.bench_commands).count();
    let differences: Vec<f64> = runs.iter().map(|run| run.bench.mean_us - run.wire.mean_us).collect();
    let difference = spread(&differences).map_or(0.0, |spread| spread.median);
    let noise_us = noise(|run| run.bench.mean_us);
    let verdict = if difference.abs() <= noise_us { "within" } else { "more than" };
    format!(
        "The mean lies between the wire's two bounds in {} of {} rounds; the count of commands is the same in {counted}. \
         The means differ by {difference:.1} µs, {verdict} the {noise_us:.1} µs by which the bench differs from round to \
         round.",
        between.count(),
        runs.len()
    )
}

/// fio through the bridge beside the bench.
pub(crate) fn bridged(all: &[Bridged], markdown: bool) -> String {
    let runs: Vec<&Bridged> = all.iter().collect();
    if runs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["µs, median of rounds (least to most)", "mean", "p50", "p99"]);
    table.row(row("fio, the target behind the bridge", columns(&runs, |run| run.target)));
    table.row(row("fio, memory behind the bridge", columns(&runs, |run| run.memory)));
    let by_fio = |run: &Bridged| run.target.mean_us - run.memory.mean_us + run.memory_inside.mean_us;
    let difference = columns(&runs, |run| Figures {
        mean_us: by_fio(run),
        p50_us: run.target.p50_us - run.memory.p50_us + run.memory_inside.p50_us,
        p99_us: f64::NAN,
    });
    table.row(row("what fio sees of the target", difference[..2].to_vec()));
    table.row(row("the same commands inside the bridge", columns(&runs, |run| run.inside)));
    table.row(row("bench", columns(&runs, |run| run.bench)));
    let rendered = if markdown { format!("\n{}", table.markdown()) } else { table.text() };
    let all_of = |of: &dyn Fn(&Bridged) -> f64| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
    let middle = |figures: &[f64]| spread(figures).map_or((0.0, 0.0), |s| (s.median, s.most - s.least));
    let (inside_us, _) = middle(&all_of(&|run| by_fio(run) - run.inside.mean_us));
    let (bench_us, _) = middle(&all_of(&|run| by_fio(run) - run.bench.mean_us));
    let (_, noise_us) = middle(&all_of(&by_fio));
    let verdict = |us: f64| if us.abs() <= noise_us { "within" } else { "more than" };
    format!(
        "4k random read, depth 1, fio over NBD:\n{rendered}What fio sees of the target differs by {noise_us:.1} µs from \
         round to round. It is {inside_us:+.1} µs from what the bridge measures ({} that), and {bench_us:+.1} µs from the \
         bench ({} that).\n",
        verdict(inside_us),
        verdict(bench_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mean_us: f64) -> Figures {
        Figures { mean_us, p50_us: mean_us - 1.0, p99_us: 2.0 * mean_us }
    }

    fn run(round: u32, bench_us: f64) -> Wired {
        Wired {
            round,
            depth: 1,
            bench: figures(bench_us),
            bench_commands: 100.0,
            wire: figures(30.0),
            wire_commands: 100,
            cycle_us: 45.0,
            undisturbed: figures(35.0),
            dropped_packets: 0,
            idle_percent: 10.0,
        }
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let hundred: Vec<u64> = (1..=100).rev().map(|number| number * 1000).collect();
        let found = Figures::of(hundred).unwrap();
        assert_eq!(found, Figures { mean_us: 50.5, p50_us: 50.0, p99_us: 99.0 });
        assert_eq!(Figures::of(vec![7]), Some(Figures { mean_us: 0.007, p50_us: 0.007, p99_us: 0.007 }));
        assert_eq!(Figures::of(vec![]), None);
    }

    #[test]
    fn agreement_is_a_matter_of_noise_and_of_bounds() {
        let text = wired(&[run(1, 33.0), run(2, 40.0), run(3, 34.0)], false);
        assert!(text.contains("34.0 (33.0 to 40.0)") && text.contains("4.0 (3.0 to 10.0)"), "{text}");
        assert!(text.contains("bounds in 3 of 3 rounds") && text.contains("the same in 3."), "{text}");
        assert!(text.contains("differ by 4.0 µs, within the 7.0 µs"), "{text}");
        let off = Wired { bench_commands: 99.0, ..run(3, 50.0) };
        let text = wired(&[run(1, 50.0), Wired { round: 2, ..off }], true);
        assert!(text.contains("bounds in 0 of 2 rounds") && text.contains("the same in 1."), "{text}");
        assert!(text.contains("differ by 20.0 µs, more than the 0.0 µs"), "{text}");
    }

    #[test]
    fn fio_is_held_against_the_bridge_and_the_bench() {
        let one = |round, target| Bridged {
            round,
            target: figures(target),
            inside: figures(30.0),
            memory: figures(50.0),
            memory_inside: figures(1.0),
            bench: figures(28.0),
        };
        let text = bridged(&[one(1, 80.0), one(2, 84.0)], false);
        assert!(
            text.contains("differs by 4.0 µs") && text.contains("+3.0 µs from what the bridge"),
            "{text}"
        );
        assert!(text.contains("(within that), and +5.0 µs from the bench (more than that)"), "{text}");
        assert_eq!(bridged(&[], false), "");
    }
}
