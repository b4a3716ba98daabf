//! The command line of `lab peers` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::pairing::Pairing;
use super::workload::{Rw, USUAL, Workload};

/// Most data of one command of our host.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// Smaller blocks are not what the namespaces have.
const BLOCK_BYTES_MIN: u32 = 4096;

/// The whole command line.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// The selvedge to measure
    #[arg(long, value_name = "PATH")]
    pub(crate) program: PathBuf,
    /// Folder of runs.jsonl, summary.md and peers.svg
    #[arg(long, value_name = "DIR", default_value = "peers")]
    pub(crate) output: PathBuf,
    /// An SPDK that is built: build/bin/nvmf_tgt and build/bin/spdk_nvme_perf in it
    #[arg(long, value_name = "DIR")]
    pub(crate) spdk: Option<PathBuf>,
    /// Congestion control of our ends: auto, or a name [default: the system's, which the others have]
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// The roofline's program, for the bare pairing
    #[arg(long, value_name = "PATH", hide = true)]
    pub(crate) bare: Option<PathBuf>,
    /// Only these pairings, the target first [default: all that the machine can do]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) pairings: Vec<Pairing>,
    /// Directions [default with any other option of the workload: randread]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    rw: Vec<Rw>,
    /// Block sizes [default with any other option of the workload: 4k]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    bs: Vec<u32>,
    /// Commands outstanding over all connections [default with any other option of the workload: 32]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=4096))]
    depth: Vec<u32>,
    /// Connections [default with any other option of the workload: 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=64))]
    connections: Vec<u32>,
    /// With header and data digests
    #[arg(long)]
    digests: bool,
    /// Length of each run after one second that does not count
    #[arg(long, value_name = "S", default_value = "3", value_parser = value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Rounds, each with every pairing in another order; six and more give 95 % intervals
    #[arg(long, value_name = "N", default_value = "9", value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Repeat a run during which the hypervisor and other work took more than this of both CPUs, in percent
    #[arg(long, value_name = "PERCENT", default_value = "15", value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) others_max: u32,
    /// Limit on repetitions of such a run; the least disturbed one counts
    #[arg(long, value_name = "N", default_value = "3", value_parser = value_parser!(u32).range(0..=20))]
    pub(crate) repeats: u32,
    /// Seed of the order of runs [default: random, and printed]
    #[arg(long, value_name = "N", default_value_t = crate::command_line::chance(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// Measure nothing: report the runs that are kept in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Print a Markdown table of what was run at the end, for a README
    #[arg(long)]
    pub(crate) table: bool,
}

impl Arguments {
    /// Workloads to measure.
    ///
    /// # Errors
    /// No combination of the options is possible.
    pub(crate) fn workloads(&self) -> Result<Vec<Workload>, String> {
        let is_usual =
            self.rw.is_empty() && self.bs.is_empty() && self.depth.is_empty() && self.connections.is_empty();
        if is_usual && !self.digests {
            return Ok(USUAL.to_vec());
        }
        let digests = self.digests;
        let mut all = Vec::new();
        for &rw in or(&self.rw, &[Rw::RandRead]) {
            for &block_bytes in or(&self.bs, &[4096]) {
                for &connections in or(&self.connections, &[1]) {
                    for &depth in or(&self.depth, &[32]) {
                        all.push(Workload { rw, block_bytes, depth, connections, digests });
                    }
                }
            }
        }
        all.retain(Workload::is_even);
        if all.is_empty() {
            return Err("no --depth is a multiple of a number of --connections".to_owned());
        }
        Ok(all)
    }
}

fn or<'a, T>(given: &'a [T], usual: &'a [T]) -> &'a [T] {
    if given.is_empty() { usual } else { given }
}

/// Bytes, with k or m behind them. Whole blocks of 4096.
fn size(value: &str) -> Result<u32, String> {
    let lower = value.to_lowercase();
    let (digits, shift) = match lower.strip_suffix('k') {
        Some(digits) => (digits, 10),
        None => lower.strip_suffix('m').map_or((lower.as_str(), 0), |digits| (digits, 20)),
    };
    let bytes = digits.parse().ok().and_then(|count: u32| count.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(bytes) && bytes.is_multiple_of(4096))
        .ok_or_else(|| "a multiple of 4096 bytes up to 1m, such as 4k".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn parsed(line: &str) -> Result<Arguments, String> {
        command_line::parsed(&format!("--program selvedge {line}"))
    }

    #[test]
    fn has_defaults_and_takes_others() {
        let usual = parsed("").unwrap();
        assert_eq!((usual.seconds, usual.rounds, usual.others_max, usual.repeats), (3, 9, 15, 3));
        assert_eq!(usual.workloads().unwrap(), USUAL);
        let line = "--spdk there --congestion auto --pairings ours,spdk-ours --rounds 2 --seconds 1 --table";
        let other = parsed(line).unwrap();
        assert_eq!(other.congestion.as_deref(), Some("auto"));
        assert_eq!(other.pairings, [Pairing::Ours, Pairing::SpdkOurs]);
        assert_eq!((other.spdk, other.rounds, other.table), (Some(PathBuf::from("there")), 2, true));
    }

    #[test]
    fn workloads_are_all_combinations_that_are_possible() {
        let line = "--rw randread,randwrite --bs 4k,1m --depth 1,128 --connections 1,16 --digests";
        let all = parsed(line).unwrap().workloads().unwrap();
        // One command cannot be outstanding on 16 connections.
        assert_eq!(all.len(), 2 * 2 * 3);
        assert!(all.iter().all(|workload| workload.digests));
        assert_eq!(
            (all[0].name(), all[3].block_bytes),
            ("4 KiB random read, depth 1, digests".into(), 1 << 20)
        );
        let one = parsed("--depth 8").unwrap().workloads().unwrap();
        assert_eq!(one, [Workload { depth: 8, ..USUAL[0] }]);
        assert!(parsed("--depth 1 --connections 4").unwrap().workloads().is_err());
    }

    #[test]
    fn refuses_what_is_invalid() {
        for line in ["--seconds 0", "--rounds x", "--bs 512", "--bs 4097", "--bs 2m", "--rw rw", "--depth 0"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
        for line in ["--connections 65", "--pairings lio", "--others-max 0", "--speed 1", "--seconds"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(command_line::parsed::<Arguments>("").is_err());
    }
}
