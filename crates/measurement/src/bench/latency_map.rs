//! Latencies over the time of a run: counts in a grid of time and latency, for heat maps. Totals
//! and exact quantiles are the histogram's.

use std::time::Duration;

use engine::ring::Moment;
use serde::{Deserialize, Serialize};

/// Length of a column at first; it doubles whenever a run gets too long for the columns there may be.
const COLUMN: Duration = Duration::from_millis(250);
/// Columns of a map; an even number, since they are folded in pairs.
const COLUMNS_MAX: usize = 128;
/// Rows of an octave of latency.
const ROWS_PER_OCTAVE: u32 = 4;
/// The lowest row holds everything that took less than this, and what follows up to the next border.
const FIRST_OCTAVE: u32 = 10;
/// From 1 µs to 17 s.
const ROWS: usize = 24 * ROWS_PER_OCTAVE as usize;

/// Counts of commands by time and latency.
#[derive(Clone, Debug)]
pub(crate) struct LatencyMap {
    from: Option<Moment>,
    column: Duration,
    columns: Vec<[u32; ROWS]>,
}

/// Used rows of the map, for a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyGrid {
    /// Length of a column in seconds.
    pub(crate) column_s: f64,
    /// Ascending borders of the rows in nanoseconds, one more than there are rows.
    pub(crate) edges_ns: Vec<u64>,
    /// Commands by column, then by row.
    pub counts: Vec<Vec<u64>>,
}

impl Default for LatencyMap {
    fn default() -> Self {
        Self { from: None, column: COLUMN, columns: Vec::new() }
    }
}

impl LatencyMap {
    /// Counting begins at `from`.
    pub(crate) fn from(from: Moment) -> Self {
        // Room for all, so that nothing is allocated while commands are timed.
        Self { from: Some(from), columns: Vec::with_capacity(COLUMNS_MAX), ..Self::default() }
    }

    /// A command ended at `now`.
    pub(crate) fn add(&mut self, latency_ns: u64, now: Moment) {
        let Some(from) = self.from else { return };
        let mut at = self.column_of(now.since(from));
        while at >= COLUMNS_MAX {
            self.fold();
            at = self.column_of(now.since(from));
        }
        if self.columns.len() <= at {
            self.columns.resize(at + 1, [0; ROWS]);
        }
        let count = &mut self.columns[at][row_of(latency_ns)];
        *count = count.saturating_add(1);
    }

    fn column_of(&self, since: Duration) -> usize {
        (since.as_nanos() / self.column.as_nanos()) as usize
    }

    /// Makes one column of each two.
    fn fold(&mut self) {
        self.column *= 2;
        for at in 0..self.columns.len() {
            if at % 2 == 0 {
                self.columns[at / 2] = self.columns[at];
                continue;
            }
            let second = self.columns[at];
            let sums = self.columns[at / 2].iter_mut().zip(&second);
            sums.for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        }
        self.columns.truncate(self.columns.len().div_ceil(2));
    }

    /// All workers' counts together.
    pub(crate) fn sum(workers: &[Self]) -> LatencyGrid {
        let column = workers.iter().map(|worker| worker.column).max().unwrap_or(COLUMN);
        let mut columns: Vec<[u64; ROWS]> = Vec::new();
        for worker in workers {
            let mut worker = worker.clone();
            while worker.column < column {
                worker.fold();
            }
            columns.resize(columns.len().max(worker.columns.len()), [0; ROWS]);
            for (sum, counts) in columns.iter_mut().zip(&worker.columns) {
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(*count));
            }
        }
        let is_used = |row: &usize| columns.iter().any(|counts| counts[*row] > 0);
        let (Some(first), Some(last)) = ((0..ROWS).find(is_used), (0..ROWS).rfind(is_used)) else {
            return LatencyGrid::default();
        };
        LatencyGrid {
            column_s: column.as_secs_f64(),
            edges_ns: (first..=last + 1).map(edge_ns).collect(),
            counts: columns.iter().map(|counts| counts[first..=last].to_vec()).collect(),
        }
    }
}

/// The row of a latency.
fn row_of(latency_ns: u64) -> usize {
    let octave = latency_ns.max(1).ilog2();
    if octave < FIRST_OCTAVE {
        return 0;
    }
    // The two bits below the highest one divide the octave.
    let quarter = (latency_ns >> (octave - 2)) & 3;
    (((octave - FIRST_OCTAVE) * ROWS_PER_OCTAVE) as usize + quarter as usize).min(ROWS - 1)
}

/// The lower border of a row.
fn edge_ns(row: usize) -> u64 {
    let (octave, quarter) =
        (row as u32 / ROWS_PER_OCTAVE + FIRST_OCTAVE, row as u64 % u64::from(ROWS_PER_OCTAVE));
    (4 + quarter) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment(1).after(Duration::from_millis(ms))
    }

    #[test]
    fn every_latency_is_between_its_borders() {
        for octave in FIRST_OCTAVE..34 {
            for latency_ns in [1 << octave, (1 << octave) + 1, (3 << (octave - 1)) - 1, (2 << octave) - 1] {
                let row = row_of(latency_ns);
                assert!(edge_ns(row) <= latency_ns && latency_ns < edge_ns(row + 1), "{latency_ns}: {row}");
            }
        }
        assert_eq!((row_of(0), row_of(5), row_of(1023), row_of(u64::MAX)), (0, 0, 0, ROWS - 1));
    }

    #[test]
    fn workers_of_different_columns_add_up() {
        let (mut long, mut short) = (LatencyMap::from(at(0)), LatencyMap::from(at(0)));
        for ms in (0..64_000).step_by(125) {
            long.add(2048, at(ms));
        }
        short.add(5000, at(100));
        short.add(5000, at(600));
        let grid = LatencyMap::sum(&[long, short]);
        assert_eq!((grid.column_s, grid.counts.len()), (0.5, 128));
        assert_eq!(grid.edges_ns.first(), Some(&2048));
        assert_eq!(grid.edges_ns.len(), grid.counts[0].len() + 1);
        let total: u64 = grid.counts.iter().flatten().sum();
        assert_eq!(total, 512 + 2);
        assert_eq!(grid.counts[0].last(), Some(&1));
        assert_eq!(grid.counts[1].last(), Some(&1));
    }

    #[test]
    fn nothing_is_an_empty_grid() {
        assert_eq!(LatencyMap::sum(&[LatencyMap::default()]), LatencyGrid::default());
    }
}
