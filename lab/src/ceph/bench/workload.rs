//! Workload on images, whatever carries it: kind of access, size, commands outstanding, rate. It
//! keeps out the command lines that say so.

use serde::Serialize;

/// Reads among 100 commands of a mix.
pub(super) const MIX_READ_PERCENT: u32 = 70;
/// Rates are multiples of this, so that reads and writes of a mix, and the jobs that share it, each get a whole number.
const RATE_STEP: u32 = 20;

/// Workload of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// fio's word for it, which is ours too.
    pub(super) rw: &'static str,
    pub(super) block_bytes: u32,
    /// Commands outstanding on each image.
    pub(super) depth: u32,
    /// Commands a second in all, reads and writes together; without it, as many as go.
    pub(super) rate_iops: Option<u32>,
}

impl Workload {
    pub(super) const fn new(name: &'static str, rw: &'static str, block_bytes: u32, depth: u32) -> Workload {
        Workload { name, rw, block_bytes, depth, rate_iops: None }
    }

    /// The same at a share of `all_iops`.
    pub(super) fn at(self, percent: u32, all_iops: f64) -> Workload {
        let wanted = (all_iops * f64::from(percent) / 100.0 / f64::from(RATE_STEP)).round() as u32;
        Workload { rate_iops: Some(wanted.max(1) * RATE_STEP), ..self }
    }

    /// True if both reads and writes are done.
    pub(super) fn is_mix(&self) -> bool {
        self.rw == "randrw"
    }

    /// Number of connections that share the commands outstanding on an image, so that each of
    /// `reactors` has one where there are enough of them.
    pub(super) const fn connections(&self, reactors: u32) -> u32 {
        if reactors > 0 && self.depth.is_multiple_of(reactors) { reactors } else { 1 }
    }

    /// Reads and writes a second, where a rate is set.
    pub(super) fn rates(&self) -> Option<(u32, u32)> {
        let rate = self.rate_iops?;
        let reads = rate * MIX_READ_PERCENT / 100;
        Some((reads, rate - reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIX: Workload = Workload::new("mix", "randrw", 16384, 64);

    #[test]
    fn rates_divide_evenly() {
        for percent in [10, 30, 70, 100] {
            let workload = MIX.at(percent, 4321.0);
            let (reads, writes) = workload.rates().unwrap();
            let rate = workload.rate_iops.unwrap();
            assert_eq!((reads + writes, reads * 100, rate % 2), (rate, rate * MIX_READ_PERCENT, 0));
        }
        assert_eq!(MIX.at(10, 4321.0).rate_iops, Some(440));
        assert_eq!((MIX.at(10, 3.0).rate_iops, MIX.rates()), (Some(20), None));
    }

    #[test]
    fn one_command_needs_one_connection() {
        let alone = Workload { depth: 1, ..MIX };
        assert_eq!((MIX.connections(2), MIX.connections(1), alone.connections(2)), (2, 1, 1));
    }
}
