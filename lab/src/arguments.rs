//! The command line of `lab paths` as values. It keeps out what is done with them.

use std::path::PathBuf;

use clap::{Args, value_parser};

use crate::cell::{Cell, Congestion, Family, Policy, Tls, Transport};
use crate::command_line::chance;
use crate::emulator::link::LossUnit;
use crate::matrix::Axes;
use crate::network::LINKS;
use crate::scenario::{CUT_RUNTIME_S_MIN, Scenario};

/// I/O queues of each path where figures are compared: one for each job, as a host with four processors has them.
pub(crate) const QUEUES: u32 = 4;
/// The seed's runtime; a run with a cut needs time before and after it.
const RUNTIME_S: u32 = 10;
const CUT_RUNTIME_S: u32 = 24;
/// Of many cells; each of them is run several times.
const COMPARE_RUNTIME_S: u32 = 5;
const COMPARE_REPEAT: u32 = 5;

/// Task of the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// Run of one cell, reads and then writes.
    Single(Cell),
    /// All cells of the seed's table.
    Seed { congestion: Congestion, queues: u32 },
    /// The product with default settings against everything else, and MPTCP against several paths.
    Compare(Axes),
    /// Run of one cell, with a cut in the middle.
    Cut(Cell),
    /// Run of one cell, with many cuts under checked writes.
    Cuts(Cell, u32),
}

impl Task {
    /// Cells of the task, where they are not the seed's.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        match self {
            Task::Single(cell) | Task::Cut(cell) | Task::Cuts(cell, _) => vec![*cell],
            Task::Seed { .. } => Vec::new(),
            Task::Compare(axes) => axes.cells(),
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
    /// Compare the product's defaults with other settings, and MPTCP with several paths; without
    /// --family and --tls, IPv4 in clear has all combinations of the other options, and IPv6,
    /// IPv4-mapped addresses and TLS have a few
    #[arg(long, group = "task")]
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
    /// Properties of the links, in place of LOSS; several with --compare [default with --compare:
    /// lossless,lossy,slow-one,cut-one]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scenario: Vec<Scenario>,
    /// Congestion control of both ends; several with --compare [default: default; cubic with --all;
    /// cubic,bbr with --compare]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    congestion: Vec<Congestion>,
    /// Addresses of both ends; several with --compare [default: ipv4]
    #[arg(long, value_name = "FAMILY", value_delimiter = ',', conflicts_with = "all")]
    family: Vec<Family>,
    /// TLS on all connections; off,on with --compare [default: off]
    #[arg(long, value_name = "off|on", value_delimiter = ',', conflicts_with = "all")]
    tls: Vec<Tls>,
    /// Numbers of paths to compare [default: 1,4]
    #[arg(long = "paths", value_name = "N,...", value_delimiter = ',', requires = "compare")]
    #[arg(value_parser = value_parser!(u32).range(1..=LINKS as i64))]
    path_counts: Vec<u32>,
    /// Policies to compare [default: latency,round-robin]
    #[arg(long = "policy", value_name = "NAME,...", value_delimiter = ',', requires = "compare")]
    policies: Vec<Policy>,
    /// I/O queues of each path [default: the program's choice; 4 with --all and --compare]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=128))]
    queues: Option<u32>,
    /// Seconds of each workload [default: 10; 24 with --cut; 5 with --compare, and 12 where a link is cut]
    #[arg(long, value_name = "S", value_parser = value_parser!(u32).range(1..=3600))]
    runtime: Option<u32>,
    /// Runs of each cell, taken in turns, of which the median counts [default: 1; 5 with --compare]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    repeat: Option<u32>,
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
        let congestion = self.congestion.first().copied();
        let cell = Cell {
            transport: self.transport,
            paths: self.paths as usize,
            policy: self.policy,
            scenario: self.scenario.first().copied().unwrap_or(match self.loss {
                0 => Scenario::Lossless,
                _ => Scenario::Lossy,
            }),
            congestion: congestion.unwrap_or(Congestion::Default),
            queues: self.queues,
            family: self.family.first().copied().unwrap_or(Family::Ipv4),
            tls: self.tls.first().copied().unwrap_or(Tls::Off),
        };
        match self.cuts {
            _ if self.all => Task::Seed { congestion: congestion.unwrap_or(Congestion::Cubic), queues },
            _ if self.compare => Task::Compare(self.axes(queues)),
            _ if self.cut => Task::Cut(cell),
            Some(count) => Task::Cuts(cell, count),
            None => Task::Single(cell),
        }
    }

    fn axes(&self, queues: u32) -> Axes {
        Axes {
            families: self.family.clone(),
            tls: self.tls.clone(),
            paths: self.path_counts.iter().map(|&count| count as usize).collect(),
            policies: self.policies.clone(),
            scenarios: self.scenario.clone(),
            congestions: self.congestion.clone(),
            queues,
        }
    }

    /// Runs of each cell.
    pub(crate) fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(if self.compare { COMPARE_REPEAT } else { 1 })
    }

    /// Of each workload.
    ///
    /// # Errors
    /// No room for a cut, or an option has several values and there is nothing to compare.
    pub(crate) fn runtime_s(&self) -> Result<u32, String> {
        let lengths = [self.scenario.len(), self.congestion.len(), self.family.len(), self.tls.len()];
        if !self.compare && lengths.iter().any(|&length| length > 1) {
            return Err("several values of an option need --compare".to_owned());
        }
        match (self.cut, self.runtime) {
            (true, Some(..CUT_RUNTIME_S_MIN)) => {
                Err(format!("--cut needs a --runtime of at least {CUT_RUNTIME_S_MIN} s"))
            }
            (true, runtime) => Ok(runtime.unwrap_or(CUT_RUNTIME_S)),
            (false, None) if self.compare => Ok(COMPARE_RUNTIME_S),
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
        assert_eq!((arguments.runtime_s(), arguments.repeat()), (Ok(10), 1));
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
        assert!(
            matches!(parsed("tcp 4 round-robin --cut").unwrap().task(), Task::Cut(cell) if cell.paths == 4)
        );
        assert!(matches!(parsed("--cuts 200 tcp 4").unwrap().task(), Task::Cuts(_, 200)));
        assert_eq!(parsed("--cut").unwrap().runtime_s(), Ok(24));
    }

    #[test]
    fn axes_are_options() {
        let all = "--compare --family ipv6,v4-mapped --tls off,on --paths 1,2,4 --policy queue-depth \
                   --scenario slow-one,cut-one --congestion bbr --queues 8";
        let axes = Axes {
            families: vec![Family::Ipv6, Family::V4Mapped],
            tls: vec![Tls::Off, Tls::On],
            paths: vec![1, 2, 4],
            policies: vec![Policy::QueueDepth],
            scenarios: vec![Scenario::SlowOne, Scenario::CutOne],
            congestions: vec![Congestion::Bbr],
            queues: 8,
        };
        let arguments = parsed(all).unwrap();
        assert_eq!(arguments.task(), Task::Compare(axes.clone()));
        assert_eq!(arguments.task().cells(), axes.cells());
        assert_eq!((arguments.runtime_s(), arguments.repeat()), (Ok(5), 5));
        assert_eq!(parsed("--compare").unwrap().task(), Task::Compare(Axes { queues: 4, ..Axes::default() }));
        let longer = parsed("--compare --runtime 30 --repeat 9").unwrap();
        assert_eq!((longer.runtime_s(), longer.repeat()), (Ok(30), 9));
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
            "--compare --family ipv5",
            "--compare --paths 0",
            "--compare --paths 5",
            "--compare --tls maybe",
            "tcp --compare",
            "--paths 2",
            "--policy numa",
            "--scenario lossy,slow-one",
            "--family ipv4,ipv6",
            "--all --tls on",
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
