//! What all runs of one cell amount to, and how cells compare: as tables, as JSON and as a picture. It keeps out running
//! them and writing files.

use chart::{Bar, Bars, Group, Unit};
use clap::ValueEnum as _;
use serde::Serialize;

use crate::cell::{Access, Cell, Transport, Word as _};
use crate::scenario::Scenario;
use crate::seed;
use crate::statistics::{Estimate, median};
use crate::table::{Table, ratio, spread, whole};

/// Part by which two figures may differ and count as equal.
pub(crate) const TOLERANCE: f64 = 0.03;

/// All runs of one cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellOutcome {
    pub(crate) cell: Cell,
    /// Megabytes (10^6 bytes) per second of each run that counts.
    pub(crate) read_mb_s: Vec<f64>,
    pub(crate) write_mb_s: Vec<f64>,
    pub(crate) failures: Vec<String>,
}

impl CellOutcome {
    pub(crate) const fn new(cell: Cell) -> Self {
        Self { cell, read_mb_s: Vec::new(), write_mb_s: Vec::new(), failures: Vec::new() }
    }

    /// The median of the runs.
    pub(crate) fn figure(&self, access: Access) -> Option<f64> {
        median(self.figures(access))
    }

    /// The same with its interval.
    pub(crate) fn estimate(&self, access: Access) -> Option<Estimate> {
        Estimate::of(self.figures(access))
    }

    fn figures(&self, access: Access) -> &[f64] {
        match access {
            Access::Read => &self.read_mb_s,
            Access::Write => &self.write_mb_s,
        }
    }

    pub(crate) fn note(&mut self, access: Access, mb_s: f64) {
        match access {
            Access::Read => self.read_mb_s.push(mb_s),
            Access::Write => self.write_mb_s.push(mb_s),
        }
    }
}

/// The product's figure in one scenario and direction, beside the best other.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) scenario: Scenario,
    pub(crate) access: Access,
    pub(crate) product_mb_s: Option<f64>,
    pub(crate) best_other_mb_s: f64,
    pub(crate) best_other: String,
    /// At least as fast, within 3 %.
    pub(crate) holds: bool,
}

/// The seed's table beside ours.
pub(crate) fn seed_table(outcomes: &[CellOutcome]) -> Table {
    let mut table =
        Table::new(&["cell", "read, seed", "read, ours", "ratio", "write, seed", "write, ours", "ratio"]);
    for outcome in outcomes {
        let Cell { transport, policy, scenario, .. } = outcome.cell;
        let row = seed::find(transport, policy, scenario);
        let mut cells = vec![format!("{} {}", scenario.name(), outcome.cell.name())];
        for (access, seed) in
            [(Access::Read, row.map(|row| row.read_mb_s)), (Access::Write, row.map(|row| row.write_mb_s))]
        {
            let ours = outcome.figure(access);
            cells.extend([whole(seed), whole(ours), ratio(ours, seed)]);
        }
        table.row(cells);
    }
    table
}

/// The seed's figures and ours as bars.
pub(crate) fn seed_picture(title: &str, outcomes: &[CellOutcome]) -> String {
    let group = |scenario: Scenario| {
        let of_scenario = outcomes.iter().filter(|outcome| outcome.cell.scenario == scenario);
        let bars = of_scenario.flat_map(|outcome| {
            let Cell { transport, paths, policy, .. } = outcome.cell;
            let name = format!("{} {paths} {}", transport.name(), policy.name());
            let ours = Bar { name, kind: 0, values: values(outcome) };
            let seed = seed::find(transport, policy, scenario).map(|row| Bar {
                name: String::new(),
                kind: 1,
                values: [row.read_mb_s, row.write_mb_s].map(|mb_s| Some(mb_s * 1e6)).to_vec(),
            });
            [Some(ours), seed].into_iter().flatten()
        });
        Group { name: scenario.name(), bars: bars.collect() }
    };
    let groups = [group(Scenario::Lossless), group(Scenario::Lossy)];
    bars(title, &["ours", "seed"], groups.to_vec())
}

/// A cell's figures in bytes per second, one for each panel.
fn values(outcome: &CellOutcome) -> Vec<Option<f64>> {
    Access::BOTH.map(|access| outcome.figure(access).map(|mb_s| mb_s * 1e6)).to_vec()
}

fn bars(title: &str, kinds: &[&str], groups: Vec<Group>) -> String {
    chart::svg::draw_bars(&Bars {
        id: "paths".to_owned(),
        title: title.to_owned(),
        unit: Unit::BytesPerSecond,
        panels: Access::BOTH.map(|access| access.name().to_owned()).to_vec(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        groups,
    })
}

/// Everything that was compared, the product first in each scenario.
pub(crate) fn compare_table(outcomes: &[CellOutcome]) -> Table {
    let mut table = Table::new(&["cell", "read MB/s", "write MB/s"]);
    for outcome in outcomes {
        let name = format!("{} {}", outcome.cell.scenario.name(), outcome.cell.name());
        let [read, write] = Access::BOTH.map(|access| spread(outcome.estimate(access).as_ref()));
        table.row(vec![name, read, write]);
    }
    table
}

/// The product against the best other, in each scenario and direction in which both were measured.
pub(crate) fn verdicts(outcomes: &[CellOutcome]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for &scenario in Scenario::value_variants() {
        for access in Access::BOTH {
            let product = Cell::product(scenario);
            let network = |cell: &Cell| (cell.scenario, cell.family, cell.tls);
            let of_scenario =
                || outcomes.iter().filter(move |outcome| network(&outcome.cell) == network(&product));
            let others = of_scenario().filter(|outcome| outcome.cell != product);
            let figures = others.filter_map(|outcome| Some((outcome.figure(access)?, outcome.cell.name())));
            let Some((best, name)) = figures.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let Some(ours) = of_scenario().find(|outcome| outcome.cell == product) else { continue };
            let product_mb_s = ours.figure(access);
            verdicts.push(Verdict {
                scenario,
                access,
                product_mb_s,
                best_other_mb_s: best,
                best_other: name,
                holds: product_mb_s.is_some_and(|ours| ours >= best * (1.0 - TOLERANCE)),
            });
        }
    }
    verdicts
}

/// The verdicts as a table.
pub(crate) fn verdict_table(verdicts: &[Verdict]) -> Table {
    let mut table =
        Table::new(&["scenario", "product MB/s", "best other MB/s", "ratio", "within 3 %", "best other"]);
    for verdict in verdicts {
        table.row(vec![
            format!("{} {}", verdict.scenario.name(), verdict.access.name()),
            whole(verdict.product_mb_s),
            whole(Some(verdict.best_other_mb_s)),
            ratio(verdict.product_mb_s, Some(verdict.best_other_mb_s)),
            if verdict.holds { "yes" } else { "NO" }.to_owned(),
            verdict.best_other.clone(),
        ]);
    }
    table
}

/// Everything that was compared as bars.
pub(crate) fn compare_picture(title: &str, outcomes: &[CellOutcome]) -> String {
    let group = |scenario: Scenario| {
        let of_scenario = outcomes.iter().filter(|outcome| outcome.cell.scenario == scenario);
        let bars = of_scenario.map(|outcome| Bar {
            name: outcome.cell.name(),
            kind: match outcome.cell {
                cell if cell == Cell::product(scenario) => 0,
                Cell { transport: Transport::Tcp, .. } => 1,
                Cell { transport: Transport::Mptcp, .. } => 2,
            },
            values: values(outcome),
        });
        Group { name: scenario.name(), bars: bars.collect() }
    };
    let groups: Vec<Group> = Scenario::value_variants()
        .iter()
        .copied()
        .map(group)
        .filter(|group| !group.bars.is_empty())
        .collect();
    let kinds = ["default settings", "other, over TCP", "other, over MPTCP"];
    bars(title, &kinds, groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Congestion, Policy};

    fn outcome(cell: Cell, read: f64, write: &[f64]) -> CellOutcome {
        CellOutcome { read_mb_s: vec![read], write_mb_s: write.to_vec(), ..CellOutcome::new(cell) }
    }

    fn other(scenario: Scenario) -> Cell {
        Cell {
            policy: Policy::RoundRobin,
            congestion: Congestion::Cubic,
            queues: Some(4),
            ..Cell::product(scenario)
        }
    }

    #[test]
    fn the_product_must_be_within_three_percent_of_the_best() {
        let product = Cell::product(Scenario::Lossy);
        let slower = Cell { congestion: Congestion::Bbr, ..other(Scenario::Lossy) };
        let outcomes = [
            outcome(product, 97.0, &[96.0]),
            outcome(other(Scenario::Lossy), 100.0, &[100.0]),
            outcome(slower, 50.0, &[50.0]),
        ];
        let verdicts = verdicts(&outcomes);
        let found: Vec<(bool, &str)> =
            verdicts.iter().map(|verdict| (verdict.holds, verdict.best_other.as_str())).collect();
        let best = "tcp 4 round-robin, cubic, 4 queues";
        assert_eq!(found, [(true, best), (false, best)]);
        assert!(verdict_table(&verdicts).text().contains("lossy write"));
        assert!(compare_picture("title", &outcomes).contains("default settings"));
    }

    #[test]
    fn a_product_without_a_figure_has_lost() {
        let outcomes =
            [CellOutcome::new(Cell::product(Scenario::Lossy)), outcome(other(Scenario::Lossy), 1.0, &[])];
        let verdicts = verdicts(&outcomes);
        assert_eq!(verdicts.len(), 1);
        assert!(!verdicts[0].holds);
    }

    #[test]
    fn the_seeds_figures_stand_beside_ours() {
        let cell = other(Scenario::Lossy);
        let table = seed_table(&[outcome(cell, 222.0, &[100.0, 300.0, 206.0])]).markdown();
        assert!(table.contains("| 111 | 222 | 2.00 | 103 | 206 | 2.00 |"), "{table}");
    }
}
