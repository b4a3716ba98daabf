//! What a run of chaos came to, as tables and as JSON, and whether it was a success. It keeps out how it came to that.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cost::{self, Cost};
use super::host::Deeds;
use super::sample::Quantity;
use super::testbed::AttackCount;
use crate::table::Table;

/// Observations of one target.
#[derive(Debug, Serialize)]
pub(crate) struct TargetReport {
    pub(crate) name: &'static str,
    pub(crate) starts: u32,
    pub(crate) commands: u64,
    pub(crate) samples: usize,
    pub(crate) quiet_points: usize,
    /// Of those that were never restarted.
    pub(crate) quantities: Vec<Quantity>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) minutes: f64,
    pub(crate) rounds: u32,
    pub(crate) deeds: Deeds,
    pub(crate) disturbances: BTreeMap<String, u64>,
    pub(crate) attacks: BTreeMap<&'static str, AttackCount>,
    pub(crate) costs: Vec<Cost>,
    pub(crate) targets: Vec<TargetReport>,
    pub(crate) failures: Vec<String>,
}

impl Report {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("\n{:.1} minutes, {} rounds, seed {}\n\n", self.minutes, self.rounds, self.seed);
        text += &self.deeds_table().text();
        text.push('\n');
        text += &self.disturbance_table().text();
        text += "\nWhat hostile hosts cost (memory without the free buffers that the target keeps):\n";
        text += &cost::table(&self.costs).text();
        text += "\nHosts that the operator has named, beside hostile ones:\n";
        text += &cost::named_hosts_table(&self.costs).text();
        text += "\nTargets:\n";
        text += &self.target_table().text();
        text += "\nA target that was never restarted, at the quiet points between rounds:\n";
        text += &self.quantity_table().text();
        for failure in &self.failures {
            text += &format!("FAILED: {failure}\n");
        }
        text
    }

    fn deeds_table(&self) -> Table {
        let mut table = Table::new(&["hosts", ""]);
        let deeds = &self.deeds;
        for (name, number) in [
            ("hosts that ran", deeds.hosts),
            ("I/O commands", deeds.ios),
            ("writes acknowledged", deeds.writes),
            ("reads checked", deeds.reads_checked),
            ("blocks read back", deeds.blocks_read_back),
            ("blocks wrong", deeds.blocks_wrong),
            ("checks by fresh hosts", deeds.checks),
            ("blocks checked by fresh hosts", deeds.blocks_checked),
            ("blocks lost", deeds.blocks_lost),
        ] {
            table.row(vec![name.to_owned(), number.to_string()]);
        }
        table
    }

    fn disturbance_table(&self) -> Table {
        let mut table = Table::new(&[
            "disturbance",
            "times",
            "connections",
            "refused",
            "a named host is in after ms, at most",
            "reads' p99 ms, at most",
        ]);
        for (name, times) in &self.disturbances {
            let mut row = vec![name.clone(), times.to_string()];
            let attack = name.strip_prefix("attack: ").and_then(|kind| self.attacks.get(kind));
            if let Some(count) = attack {
                row.extend([count.connections.to_string(), count.refused.to_string()]);
                row.extend([count.entry_ms_max, count.read_p99_ms_max].map(|ms| format!("{ms:.1}")));
            }
            table.row(row);
        }
        table
    }

    fn target_table(&self) -> Table {
        let mut table = Table::new(&["target", "starts", "I/O commands", "samples", "quiet points"]);
        for target in &self.targets {
            let numbers = [u64::from(target.starts), target.commands, target.samples as u64];
            let mut row = vec![target.name.to_owned()];
            row.extend(numbers.map(|number| number.to_string()));
            row.push(target.quiet_points.to_string());
            table.row(row);
        }
        table
    }

    fn quantity_table(&self) -> Table {
        let mut table = Table::new(&[
            "quantity",
            "first",
            "max",
            "last",
            "median early",
            "median late",
            "growth allowed",
            "flat",
        ]);
        for quantity in self.targets.iter().flat_map(|target| &target.quantities) {
            let numbers = [
                quantity.first,
                quantity.max,
                quantity.last,
                quantity.early,
                quantity.late,
                quantity.growth_max,
            ];
            let mut row = vec![quantity.name.to_owned()];
            row.extend(numbers.map(|number| number.to_string()));
            row.push(if quantity.is_flat { "yes" } else { "NO" }.to_owned());
            table.row(row);
        }
        table
    }
}
