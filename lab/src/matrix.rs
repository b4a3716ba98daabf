//! The cells that `lab paths --compare` runs, and the time that they take, as values. It keeps out running them.

use std::time::Duration;

use crate::cell::{Access, Cell, Congestion, Family, Policy, Tls, Transport};
use crate::scenario::Scenario;

/// Seconds of a run besides its workload: both ends start, connect, and end.
const OVERHEAD_S: f64 = 3.0;

/// Values of each property. A property without values has those of the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Axes {
    pub(crate) families: Vec<Family>,
    pub(crate) tls: Vec<Tls>,
    pub(crate) paths: Vec<usize>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) congestions: Vec<Congestion>,
    /// Of each path.
    pub(crate) queues: u32,
}

impl Axes {
    /// All combinations, each once. Where neither family nor encryption is given, IPv4 in clear has all of them, and other
    /// families and TLS have a few: a change by one of them shows there, and all combinations would take a day.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = self.product();
        if self.families.is_empty() && self.tls.is_empty() {
            let few = Axes {
                policies: vec![first(&self.policies, Policy::Latency)],
                scenarios: or(&self.scenarios, &[Scenario::Lossless, Scenario::Lossy]),
                congestions: vec![first(&self.congestions, Congestion::Bbr)],
                ..self.clone()
            };
            for (family, tls) in
                [(Family::Ipv6, Tls::Off), (Family::V4Mapped, Tls::Off), (Family::Ipv4, Tls::On)]
            {
                cells.extend(Axes { families: vec![family], tls: vec![tls], ..few.clone() }.product());
            }
        }
        let mut once: Vec<Cell> = Vec::with_capacity(cells.len());
        for cell in cells {
            if !once.contains(&cell) {
                once.push(cell);
            }
        }
        once
    }

    /// Families of the cells, each once.
    pub(crate) fn all_families(&self) -> Vec<Family> {
        let mut families = Vec::new();
        for cell in self.cells() {
            if !families.contains(&cell.family) {
                families.push(cell.family);
            }
        }
        families
    }

    fn product(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let paths = or(&self.paths, &[1, 4]);
        for family in or(&self.families, &[Family::Ipv4]) {
            for tls in or(&self.tls, &[Tls::Off]) {
                for scenario in or(
                    &self.scenarios,
                    &[Scenario::Lossless, Scenario::Lossy, Scenario::SlowOne, Scenario::CutOne],
                ) {
                    let product = Cell { family, tls, ..Cell::product(scenario) };
                    if paths.contains(&product.paths) && product == Cell::product(scenario) {
                        cells.push(product);
                    }
                    for &paths in &paths {
                        cells.extend(self.of_paths(Cell { paths, ..product }));
                    }
                }
            }
        }
        cells
    }

    /// Cells that are otherwise as this one. With one path, there is nothing for a policy to choose.
    fn of_paths(&self, base: Cell) -> Vec<Cell> {
        let mut policies = or(&self.policies, &[Policy::Latency, Policy::RoundRobin]);
        if base.paths == 1 {
            policies.truncate(1);
        }
        let mut cells = Vec::new();
        for policy in policies {
            for congestion in or(&self.congestions, &[Congestion::Cubic, Congestion::Bbr]) {
                for transport in [Transport::Tcp, Transport::Mptcp] {
                    cells.push(Cell { transport, policy, congestion, queues: Some(self.queues), ..base });
                }
            }
        }
        cells
    }
}

fn or<T: Copy>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

fn first<T: Copy>(given: &[T], default: T) -> T {
    given.first().copied().unwrap_or(default)
}

/// Expected seconds of one run of a cell, of which each workload has `runtime_s`.
pub(crate) fn run_s(cell: &Cell, runtime_s: u32) -> f64 {
    f64::from(cell.scenario.runtime_s(runtime_s)) + OVERHEAD_S
}

/// Expected seconds of `repeat` reads and writes of all cells.
pub(crate) fn all_s(cells: &[Cell], runtime_s: u32, repeat: u32) -> f64 {
    let once: f64 = cells.iter().map(|cell| run_s(cell, runtime_s)).sum();
    once * Access::BOTH.len() as f64 * f64::from(repeat)
}

/// Progress of many runs: how much of the expected time is done, and how long the rest takes at the same pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    expected_s: f64,
    done_s: f64,
    runs: usize,
    done: usize,
}

impl Progress {
    pub(crate) fn new(cells: &[Cell], runtime_s: u32, repeat: u32) -> Progress {
        let runs = cells.len() * Access::BOTH.len() * repeat as usize;
        Progress { expected_s: all_s(cells, runtime_s, repeat), done_s: 0.0, runs, done: 0 }
    }

    /// Counts a run that was expected to take `run_s`.
    pub(crate) fn note(&mut self, run_s: f64) {
        self.done += 1;
        self.done_s += run_s;
    }

    /// Remaining time after `elapsed`, in seconds.
    fn left_s(&self, elapsed: Duration) -> f64 {
        let left = (self.expected_s - self.done_s).max(0.0);
        if self.done_s > 0.0 { left * elapsed.as_secs_f64() / self.done_s } else { left }
    }

    /// Line for people after `elapsed`.
    pub(crate) fn line(&self, elapsed: Duration) -> String {
        format!("run {} of {}, about {} left", self.done, self.runs, minutes(self.left_s(elapsed)))
    }
}

/// Seconds as hours and minutes, rounded up.
pub(crate) fn minutes(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_axes() -> Axes {
        Axes { queues: 4, ..Axes::default() }
    }

    #[test]
    fn the_default_has_a_few_cells_of_each_family_and_tls() {
        let cells = default_axes().cells();
        let count =
            |family, tls| cells.iter().filter(|cell| (cell.family, cell.tls) == (family, tls)).count();
        // Four scenarios: the product, and 3 choices of paths and policy by 2 controls by 2 transports.
        assert_eq!(count(Family::Ipv4, Tls::Off), 4 * 13);
        for (family, tls) in [(Family::Ipv6, Tls::Off), (Family::V4Mapped, Tls::Off), (Family::Ipv4, Tls::On)]
        {
            assert_eq!(count(family, tls), 2 * 2 * 2, "{family:?} {tls:?}");
        }
        assert_eq!(default_axes().all_families(), [Family::Ipv4, Family::Ipv6, Family::V4Mapped]);
        let names: std::collections::BTreeSet<String> = cells.iter().map(Cell::file_name).collect();
        assert_eq!(names.len(), cells.len(), "each is there once, under a name of its own");
    }

    #[test]
    fn what_is_given_is_all_there_is() {
        let axes = Axes {
            families: vec![Family::Ipv6],
            tls: vec![Tls::Off, Tls::On],
            paths: vec![2],
            policies: vec![Policy::QueueDepth, Policy::QueueDepth],
            scenarios: vec![Scenario::CutOne],
            congestions: vec![Congestion::Bbr],
            queues: 3,
        };
        let cells = axes.cells();
        assert_eq!(cells.len(), 2 * 2, "TLS by transport; a value that is given twice counts once");
        assert!(cells.iter().all(|cell| cell.family == Family::Ipv6 && cell.paths == 2));
        assert!(cells.iter().all(|cell| cell.queues == Some(3) && cell.scenario == Scenario::CutOne));
    }

    #[test]
    fn one_path_has_one_policy() {
        let axes = Axes { paths: vec![1], ..default_axes() };
        let policies = |cell: &Cell| cell.policy;
        assert!(axes.cells().iter().map(policies).all(|policy| policy == Policy::Latency));
    }

    #[test]
    fn every_cell_over_mptcp_has_its_counterpart() {
        let cells = default_axes().cells();
        for cell in cells.iter().filter(|cell| cell.transport == Transport::Mptcp) {
            assert!(cells.contains(&Cell { transport: Transport::Tcp, ..*cell }), "{}", cell.name());
        }
    }

    #[test]
    fn cuts_take_longer() {
        let [plain, cut] = [Scenario::Lossy, Scenario::CutOne].map(Cell::product);
        assert_eq!(all_s(&[plain, cut], 5, 5), (8.0 + 15.0) * 10.0);
    }

    #[test]
    fn the_rest_goes_on_at_the_pace_of_what_is_done() {
        let cells = [Cell::product(Scenario::Lossy); 3];
        let mut progress = Progress::new(&cells, 5, 5);
        assert_eq!(progress.left_s(Duration::ZERO), 240.0);
        assert_eq!(progress.line(Duration::ZERO), "run 0 of 30, about 4 min left");
        for _ in 0..15 {
            progress.note(8.0);
        }
        assert_eq!(progress.left_s(Duration::from_secs(240)), 240.0, "half is done in twice the time");
        assert_eq!([59.0, 60.0, 61.0, 7200.0].map(minutes), ["1 min", "1 min", "2 min", "2 h 0 min"]);
    }
}
