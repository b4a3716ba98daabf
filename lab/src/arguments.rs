//! The command line of `lab paths` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, value_parser};

use crate::cell::{Cell, Congestion, Family, Policy, Tls, Transport};
use crate::command_line::chance;
use crate::emulator::link::LossUnit;
use crate::network::LINKS;
use crate::scenario::{CUT_RUNTIME_S_MIN, Scenario};

/// I/O queues of each path where figures are compared: one for each job, as a host with four processors has them.
pub(crate) const QUEUES: u32 = 4;
/// The seed's runtime; a run with a cut needs time before and after it.
const RUNTIME_S: u32 = 10;
const CUT_RUNTIME_S: u32 = 24;

/// Task of the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Task {
    /// Run of one cell, reads and then writes.
    Single(Cell),
    /// All cells of the seed's table.
    Seed { congestion: Congestion, queues: u32 },
    /// The product with default settings against everything else, in one scenario or in all.
    Compare { scenario: Option<Scenario>, queues: u32 },
    /// Run of one cell, with a cut in the middle.
    Cut(Cell),
    /// Run of one cell, with many cuts under checked writes.
    Cuts(Cell, u32),
}

impl Task {
    /// Cells of the task, where they are neither the seed's nor those of a comparison.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        match self {
            Task::Single(cell) | Task::Cut(cell) | Task::Cuts(cell, _) => vec![*cell],
            Task::Seed { .. } | Task::Compare { .. } => Vec::new(),
        }
    }
}

/// The whole command line; the positions are those of the seed's self-test.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// Transport of the connections
    #[arg(value_name = "TRTYPE", default_value = "mptcp", conflicts_with_all = ["all", "compare"])]
    transport: Transport,
    /// Addresses of the target to which the host connects
    #[arg(value_name = "PATH", default_value = "1", value_parser = value_parser!(u32).range(1..=LINKS as i64))]
    paths: u32,
    /// Policy for choosing a path
    #[arg(value_name = "IOPOLICY", default_value = "numa")]
    policy: Policy,
    /// With 1: 5 ms each way and 0.5 % loss on every link
    #[arg(value_name = "LOSS", default_value = "0", conflicts_with = "scenario")]
    #[arg(value_parser = value_parser!(u8).range(0..=1))]
    loss: u8,
    /// Run the seed's table, cell by cell, beside its figures
    #[arg(long, group = "task", conflicts_with = "scenario")]
    all: bool,
    /// Compare the product's defaults with all other settings, in every scenario
    #[arg(long, group = "task", conflicts_with = "congestion")]
    compare: bool,
    /// Cut link 2 for 5 s in the middle
    #[arg(long, group = "task")]
    cut: bool,
    /// Cut links N times at random, while every write is checked
    #[arg(long, group = "task", value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    cuts: Option<u32>,
    /// The selvedge to measure
    #[arg(long, value_name = "PATH")]
    pub(crate) program: PathBuf,
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = "paths")]
    pub(crate) output: PathBuf,
    /// Properties of the links, in place of LOSS
    #[arg(long, value_name = "NAME")]
    scenario: Option<Scenario>,
    /// Congestion control of both ends [default: default; cubic with --all]
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
    /// Addresses of both ends
    #[arg(long, value_name = "FAMILY", default_value = "ipv4", conflicts_with_all = ["all", "compare"])]
    family: Family,
    /// TLS on all connections
    #[arg(long, value_name = "off|on", default_value = "off", conflicts_with_all = ["all", "compare"])]
    tls: Tls,
    /// I/O queues of each path [default: the program's choice; 4 with --all and --compare]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=128))]
    queues: Option<u32>,
    /// Seconds of each workload [default: 10; 24 with --cut]
    #[arg(long, value_name = "S", value_parser = value_parser!(u32).range(1..=3600))]
    runtime: Option<u32>,
    /// Runs of each cell, taken in turns, of which the median counts
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// Unit of loss
    #[arg(long, default_value = "skb")]
    pub(crate) mode: LossUnit,
    /// Seed of losses and cuts [default: random, and printed]
    #[arg(long, value_name = "N", default_value_t = chance(), hide_default_value = true)]
    pub(crate) seed: u64,
}

impl Arguments {
    /// Task of the command line.
    pub(crate) fn task(&self) -> Task {
        let queues = self.queues.unwrap_or(QUEUES);
        let cell = Cell {
            transport: self.transport,
            paths: self.paths as usize,
            policy: self.policy,
            scenario: self.scenario.unwrap_or(match self.loss {
                0 => Scenario::Lossless,
                _ => Scenario::Lossy,
            }),
            congestion: self.congestion.unwrap_or(Congestion::Default),
            queues: self.queues,
            family: self.family,
            tls: self.tls,
        };
        match self.cuts {
            _ if self.all => Task::Seed { congestion: self.congestion.unwrap_or(Congestion::Cubic), queues },
            _ if self.compare => Task::Compare { scenario: self.scenario, queues },
            _ if self.cut => Task::Cut(cell),
            Some(count) => Task::Cuts(cell, count),
            None => Task::Single(cell),
        }
    }

    /// Of each workload.
    ///
    /// # Errors
    /// It has no room for a cut.
    pub(crate) fn runtime_s(&self) -> Result<u32, String> {
        match (self.cut, self.runtime) {
            (true, Some(..CUT_RUNTIME_S_MIN)) => {
                Err(format!("--cut needs a --runtime of at least {CUT_RUNTIME_S_MIN} s"))
            }
            (true, runtime) => Ok(runtime.unwrap_or(CUT_RUNTIME_S)),
            (false, runtime) => Ok(runtime.unwrap_or(RUNTIME_S)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn parsed(line: &str) -> Result<Arguments, String> {
        let arguments: Arguments = command_line::parsed(&format!("{line} --program p"))?;
        arguments.runtime_s().map(|_| arguments)
    }

    fn single(line: &str) -> Cell {
        match parsed(line).unwrap().task() {
            Task::Single(cell) => cell,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_the_self_tests() {
        let cell = single("");
        assert_eq!((cell.transport, cell.paths, cell.policy), (Transport::Mptcp, 1, Policy::Numa));
        assert_eq!((cell.scenario, cell.queues), (Scenario::Lossless, None));
        let arguments = parsed("").unwrap();
        assert_eq!((arguments.runtime_s(), arguments.repeat), (Ok(10), 1));
    }

    #[test]
    fn positions_are_the_self_tests() {
        let cell = single("tcp 4 queue-depth 1 --congestion bbr --queues 2");
        assert_eq!((cell.transport, cell.paths, cell.policy), (Transport::Tcp, 4, Policy::QueueDepth));
        assert_eq!(
            (cell.scenario, cell.congestion, cell.queues),
            (Scenario::Lossy, Congestion::Bbr, Some(2))
        );
        assert_eq!(single("tcp 4 latency --scenario far-one").scenario, Scenario::FarOne);
    }

    #[test]
    fn the_other_tasks() {
        assert_eq!(parsed("--all").unwrap().task(), Task::Seed { congestion: Congestion::Cubic, queues: 4 });
        let one = Task::Compare { scenario: Some(Scenario::SlowOne), queues: 8 };
        assert_eq!(parsed("--compare --scenario slow-one --queues 8").unwrap().task(), one);
        assert!(
            matches!(parsed("tcp 4 round-robin --cut").unwrap().task(), Task::Cut(cell) if cell.paths == 4)
        );
        assert!(matches!(parsed("--cuts 200 tcp 4").unwrap().task(), Task::Cuts(_, 200)));
        assert_eq!(parsed("--cut").unwrap().runtime_s(), Ok(24));
    }

    #[test]
    fn a_cell_has_a_family_and_tls() {
        let cell = single("mptcp 1 numa --family v4-mapped --tls on --scenario cut-one");
        assert_eq!((cell.family, cell.tls, cell.scenario), (Family::V4Mapped, Tls::On, Scenario::CutOne));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        let wrong = [
            "udp",
            "tcp 5",
            "tcp 0",
            "tcp 1 fastest",
            "tcp 1 numa 2",
            "tcp 1 numa 0 more",
            "--all --cut",
            "tcp --all",
            "--compare --congestion bbr",
            "--all --scenario lossy",
            "--cut --runtime 10",
            "--cuts 0",
            "--speed 3",
            "tcp 1 numa 1 --scenario lossy",
            "--runtime x",
            "--repeat 0",
        ];
        for line in wrong {
            assert!(parsed(line).is_err(), "{line}");
        }
        for line in ["", "--program"] {
            assert!(command_line::parsed::<Arguments>(line).is_err(), "{line}");
        }
    }
}
