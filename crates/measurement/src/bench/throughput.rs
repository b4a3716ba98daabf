//! Bytes moved in each interval of a run, for pictures of throughput over time. Totals and latencies are elsewhere.

use std::time::Duration;

use engine::ring::Moment;
use serde::Serialize;

use super::job::Operation;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_millis(250);
/// Intervals that are kept: more than nine hours. What comes later is not shown.
pub(crate) const INTERVALS_MAX: usize = 1 << 17;

/// Bytes by interval.
#[derive(Clone, Debug, Default)]
pub struct Throughput {
    from: Option<Moment>,
    read: Vec<u64>,
    write: Vec<u64>,
}

/// Throughput in intervals, for a report.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Intervals {
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Bytes read in each interval.
    pub(crate) read_bytes: Vec<u64>,
    /// Bytes written in each interval.
    pub(crate) write_bytes: Vec<u64>,
}

impl Throughput {
    /// Counting begins at `from`.
    pub const fn from(from: Moment) -> Self {
        Self { from: Some(from), read: Vec::new(), write: Vec::new() }
    }

    /// This number of bytes was moved at `now`.
    pub(crate) fn add(&mut self, operation: Operation, bytes: u64, now: Moment) {
        let Some(from) = self.from else { return };
        let side = match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
            Operation::Flush => return,
        };
        let at = (now.since(from).as_nanos() / INTERVAL.as_nanos()) as usize;
        if at >= INTERVALS_MAX {
            return;
        }
        if side.len() <= at {
            side.resize(at + 1, 0);
        }
        side[at] += bytes;
    }

    /// All workers' throughput together.
    pub fn sum(workers: &[Self]) -> Intervals {
        let sum = |of: fn(&Self) -> &Vec<u64>| {
            let length = workers.iter().map(|worker| of(worker).len()).max().unwrap_or(0);
            let at = |at: usize| workers.iter().filter_map(|worker| of(worker).get(at)).sum();
            (0..length).map(at).collect::<Vec<u64>>()
        };
        let (mut read_bytes, mut write_bytes) = (sum(|worker| &worker.read), sum(|worker| &worker.write));
        // Both sides of a mixed workload are as long.
        let length = read_bytes.len().max(write_bytes.len());
        for side in [&mut read_bytes, &mut write_bytes].into_iter().filter(|side| !side.is_empty()) {
            side.resize(length, 0);
        }
        Intervals { interval_s: INTERVAL.as_secs_f64(), read_bytes, write_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_their_interval() {
        let at = |ms: u64| Moment(1).after(Duration::from_millis(ms));
        let mut one = Throughput::default();
        one.add(Operation::Read, 1, at(0));
        one = Throughput::from(at(0));
        one.add(Operation::Read, 10, at(0));
        one.add(Operation::Read, 10, at(249));
        one.add(Operation::Write, 5, at(750));
        one.add(Operation::Flush, 5, at(750));
        let mut other = Throughput::from(at(0));
        other.add(Operation::Read, 3, at(250));
        let sum = Throughput::sum(&[one, other]);
        assert_eq!((sum.read_bytes, sum.write_bytes), (vec![20, 3, 0, 0], vec![0, 0, 0, 5]));
    }
}
