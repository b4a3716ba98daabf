//! The command line of `lab paths` as values. It keeps out what is done with them.

use std::path::PathBuf;

use crate::cell::{Cell, Congestion, Policy, Transport};
use crate::emulator::link::LossUnit;
use crate::network::LINKS;
use crate::scenario::Scenario;

/// I/O queues of each path where figures are compared: one for each job, as a host with four processors has them.
pub(crate) const QUEUES: u32 = 4;
/// The seed's runtime; a run with a cut needs time before and after it.
const RUNTIME_S: u32 = 10;
const CUT_RUNTIME_S: u32 = 24;
const RUNTIME_S_MAX: u32 = 3600;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Task {
    /// One cell, reads and then writes.
    Single(Cell),
    /// All cells of the seed's table.
    Seed { congestion: Congestion, queues: u32 },
    /// The product as it comes against everything else, in one scenario or in all.
    Compare { scenario: Option<Scenario>, queues: u32 },
    /// One cell, with a cut in the middle.
    Cut(Cell),
    /// One cell, with many cuts under checked writes.
    Cuts(Cell, u32),
}

/// The whole command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) task: Task,
    pub(crate) program: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) runtime_s: u32,
    pub(crate) repeat: u32,
    pub(crate) mode: LossUnit,
    pub(crate) seed: u64,
}

/// What was given, before it is put together.
#[derive(Default)]
struct Given {
    positions: Vec<String>,
    all: bool,
    compare: bool,
    cut: bool,
    cuts: Option<u32>,
    program: Option<PathBuf>,
    output: Option<PathBuf>,
    runtime_s: Option<u32>,
    repeat: Option<u32>,
    queues: Option<u32>,
    congestion: Option<Congestion>,
    scenario: Option<Scenario>,
    mode: Option<LossUnit>,
    seed: Option<u64>,
}

/// Reads the arguments after `paths`. `chance` is the seed when none is given.
///
/// # Errors
/// What is wrong with them, for a person.
pub(crate) fn parse(args: &[String], chance: u64) -> Result<Arguments, String> {
    let given = read(args)?;
    let task = task(&given)?;
    let usual_s = if matches!(task, Task::Cut(_)) { CUT_RUNTIME_S } else { RUNTIME_S };
    let runtime_s = given.runtime_s.unwrap_or(usual_s);
    if matches!(task, Task::Cut(_)) && runtime_s < 12 {
        return Err("a run with a cut of 5 s in the middle takes at least 12 s".to_owned());
    }
    Ok(Arguments {
        task,
        program: given.program.ok_or("paths needs --program PATH, the selvedge to measure")?,
        output: given.output.unwrap_or_else(|| PathBuf::from("paths")),
        runtime_s,
        repeat: given.repeat.unwrap_or(1),
        mode: given.mode.unwrap_or(LossUnit::Skb),
        seed: given.seed.unwrap_or(chance),
    })
}

fn read(args: &[String]) -> Result<Given, String> {
    let mut given = Given::default();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            given.positions.push(word.clone());
            continue;
        };
        match option {
            "all" => given.all = true,
            "compare" => given.compare = true,
            "cut" => given.cut = true,
            _ => {
                let value = words.next().ok_or_else(|| format!("{word} is unknown, or needs a value"))?;
                given.take(option, value)?;
            }
        }
    }
    Ok(given)
}

impl Given {
    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "cuts" => self.cuts = Some(number(option, value, 10_000)?),
            "program" => self.program = Some(PathBuf::from(value)),
            "output" => self.output = Some(PathBuf::from(value)),
            "runtime" => self.runtime_s = Some(number(option, value, RUNTIME_S_MAX)?),
            "repeat" => self.repeat = Some(number(option, value, 100)?),
            "queues" => self.queues = Some(number(option, value, 128)?),
            "congestion" => {
                let names = Congestion::ALL.map(|congestion| (congestion.name(), congestion));
                self.congestion = Some(one_of(option, value, &names)?);
            }
            "scenario" => {
                let names = Scenario::ALL.map(|scenario| (scenario.name(), scenario));
                self.scenario = Some(one_of(option, value, &names)?);
            }
            "mode" => {
                self.mode = Some(one_of(option, value, &[("skb", LossUnit::Skb), ("mtu", LossUnit::Mtu)])?);
            }
            "seed" => {
                self.seed = Some(value.parse().map_err(|_| format!("--seed is a number, not `{value}`"))?);
            }
            _ => return Err(format!("there is no option --{option}")),
        }
        Ok(())
    }
}

fn task(given: &Given) -> Result<Task, String> {
    let kinds = [given.all, given.compare, given.cut, given.cuts.is_some()];
    if kinds.iter().filter(|kind| **kind).count() > 1 {
        return Err("only one of --all, --compare, --cut and --cuts at a time".to_owned());
    }
    if (given.all || given.compare) && !given.positions.is_empty() {
        return Err(
            "--all and --compare have their own cells, and take no trtype, path, iopolicy or loss".to_owned()
        );
    }
    let queues = given.queues.unwrap_or(QUEUES);
    if given.all {
        if given.scenario.is_some() {
            return Err("--all is the seed's table, which has its own scenarios".to_owned());
        }
        return Ok(Task::Seed { congestion: given.congestion.unwrap_or(Congestion::Cubic), queues });
    }
    if given.compare {
        if given.congestion.is_some() {
            return Err("--compare tries every congestion control".to_owned());
        }
        return Ok(Task::Compare { scenario: given.scenario, queues });
    }
    let cell = cell(given)?;
    Ok(match given.cuts {
        Some(count) => Task::Cuts(cell, count),
        None if given.cut => Task::Cut(cell),
        None => Task::Single(cell),
    })
}

/// The cell that the positions name, as the seed's self-test has them.
fn cell(given: &Given) -> Result<Cell, String> {
    let position = |at: usize, default: &'static str| given.positions.get(at).map_or(default, String::as_str);
    if let Some(extra) = given.positions.get(4) {
        return Err(format!("paths takes four arguments; `{extra}` is one more"));
    }
    let transports = Transport::ALL.map(|transport| (transport.name(), transport));
    let policies = Policy::ALL.map(|policy| (policy.name(), policy));
    let losses = [("0", Scenario::Lossless), ("1", Scenario::Lossy)];
    if given.scenario.is_some() && given.positions.len() > 3 {
        return Err("loss and --scenario say the same; give one of them".to_owned());
    }
    let by_loss = one_of("loss", position(3, "0"), &losses)?;
    Ok(Cell {
        transport: one_of("trtype", position(0, "mptcp"), &transports)?,
        paths: number("path", position(1, "1"), LINKS as u32)? as usize,
        policy: one_of("iopolicy", position(2, "numa"), &policies)?,
        scenario: given.scenario.unwrap_or(by_loss),
        congestion: given.congestion.unwrap_or(Congestion::Default),
        queues: given.queues,
    })
}

fn one_of<T: Copy>(what: &str, value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == value);
    found.map(|(_, found)| *found).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{what} is one of {}, not `{value}`", names.join(", "))
    })
}

fn number(what: &str, value: &str, most: u32) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("{what} is a number from 1 to {most}, not `{value}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        let words = format!("{line} --program p");
        parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), 77)
    }

    fn single(line: &str) -> Cell {
        match parsed(line).unwrap().task {
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
        assert_eq!((arguments.runtime_s, arguments.repeat, arguments.seed), (10, 1, 77));
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
        assert_eq!(parsed("--all").unwrap().task, Task::Seed { congestion: Congestion::Cubic, queues: 4 });
        let one = Task::Compare { scenario: Some(Scenario::SlowOne), queues: 8 };
        assert_eq!(parsed("--compare --scenario slow-one --queues 8").unwrap().task, one);
        assert!(
            matches!(parsed("tcp 4 round-robin --cut").unwrap().task, Task::Cut(cell) if cell.paths == 4)
        );
        assert!(matches!(parsed("--cuts 200 tcp 4").unwrap().task, Task::Cuts(_, 200)));
        assert_eq!(parsed("--cut").unwrap().runtime_s, 24);
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
        assert!(parse(&[], 1).is_err());
        assert!(parse(&["--program".to_owned()], 1).is_err());
    }
}
