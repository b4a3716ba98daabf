//! The command line of `lab ceph` as values. It keeps out what is done with them.

use std::path::PathBuf;

use super::bench::{Bench, Part};
use super::config::{OSDS_MAX, Shape, Store};
use super::gateways::Campaign;
use super::trial::Trial;
use crate::baseline::number;

/// Of each run, without its ramp.
const SECONDS: u32 = 5;
const SECONDS_MAX: u32 = 600;
const ROUNDS: u32 = 5;
const ROUNDS_MAX: u32 = 100;
/// Rounds with gateways unless another number is given: half an hour. And the most: a day.
const CAMPAIGN_ROUNDS: u32 = 50;
const CAMPAIGN_ROUNDS_MAX: u32 = 2_000;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// A cluster that stays until this process ends.
    Up { shape: Shape, folder: PathBuf },
    /// All checks, or some.
    Test(Trial),
    /// All measurements, or one.
    Bench(Bench),
    /// Rounds with two gateways.
    Gateways(Campaign),
}

/// Reads the arguments after `ceph`. `chance` is the seed when none is given.
///
/// # Errors
/// What is wrong with them, for a person.
pub(super) fn parse(args: &[String], chance: u64) -> Result<Task, String> {
    match args.split_first() {
        Some((word, rest)) if word == "up" => parse_up(rest),
        Some((word, rest)) if word == "test" => parse_test(rest, chance),
        Some((word, rest)) if word == "bench" => parse_bench(rest, chance),
        Some((word, rest)) if word == "gateways" => parse_gateways(rest, chance),
        Some((word, _)) => Err(format!("ceph does not know {word}")),
        None => Err("ceph needs a word: up, test, bench or gateways".to_owned()),
    }
}

fn parse_up(args: &[String]) -> Result<Task, String> {
    let (mut shape, mut folder) = (Shape::SMALL, None);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match (name.as_str(), value.as_str()) {
            ("--osds", _) => shape.osds = number(name, value, 1, OSDS_MAX)?,
            ("--store", "memstore") => shape.store = Store::Memory,
            ("--store", "bluestore") => shape.store = Store::Blue,
            ("--auth", "cephx") => shape.needs_keys = true,
            ("--auth", "none") => shape.needs_keys = false,
            ("--dir", _) => folder = Some(PathBuf::from(value)),
            ("--store", _) => return Err("--store is memstore or bluestore".to_owned()),
            ("--auth", _) => return Err("--auth is none or cephx".to_owned()),
            _ => return Err(format!("there is no option {name}")),
        }
    }
    shape.has_manager = shape.osds > 1;
    let folder = folder.ok_or("--dir DIR is missing: where the cluster has its files")?;
    Ok(Task::Up { shape, folder })
}

fn parse_test(args: &[String], chance: u64) -> Result<Task, String> {
    let (mut program, mut output, mut only, mut seed) = (None, PathBuf::from("ceph"), String::new(), chance);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match name.as_str() {
            "--program" => program = Some(value.clone()),
            "--output" => output = PathBuf::from(value),
            "--only" => only.clone_from(value),
            "--seed" => seed = value.parse().map_err(|_| format!("--seed {value} is no number"))?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    let program = program.ok_or("--program PATH is missing: the selvedge to try")?;
    Ok(Task::Test(Trial { program, output, only, seed }))
}

fn parse_bench(args: &[String], chance: u64) -> Result<Task, String> {
    let mut program = None;
    let mut bench = Bench {
        program: String::new(),
        output: PathBuf::from("ceph"),
        rounds: ROUNDS,
        seconds: SECONDS,
        only: None,
        seed: chance,
    };
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match name.as_str() {
            "--program" => program = Some(value.clone()),
            "--output" => bench.output = PathBuf::from(value),
            "--rounds" => bench.rounds = number(name, value, 1, ROUNDS_MAX)?,
            "--seconds" => bench.seconds = number(name, value, 1, SECONDS_MAX)?,
            "--only" => {
                let part = Part::ALL.into_iter().find(|(name, _)| name == value);
                bench.only = Some(part.ok_or("--only is cost, knobs or curve")?.1);
            }
            "--seed" => bench.seed = value.parse().map_err(|_| format!("--seed {value} is no number"))?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    bench.program = program.ok_or("--program PATH is missing: the selvedge to measure")?;
    Ok(Task::Bench(bench))
}

fn parse_gateways(args: &[String], chance: u64) -> Result<Task, String> {
    let (mut program, mut output, mut rounds, mut seed) =
        (None, PathBuf::from("gateways"), CAMPAIGN_ROUNDS, chance);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match name.as_str() {
            "--program" => program = Some(value.clone()),
            "--output" => output = PathBuf::from(value),
            "--rounds" => rounds = number(name, value, 1, CAMPAIGN_ROUNDS_MAX)?,
            "--seed" => seed = value.parse().map_err(|_| format!("--seed {value} is no number"))?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    let program = program.ok_or("--program PATH is missing: the selvedge to try")?;
    Ok(Task::Gateways(Campaign { program, output, rounds, seed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), 7)
    }

    #[test]
    fn is_small_unless_told_otherwise() {
        let folder = PathBuf::from("d");
        assert_eq!(parsed("up --dir d"), Ok(Task::Up { shape: Shape::SMALL, folder: folder.clone() }));
        let shape = Shape { needs_keys: true, ..Shape::REPLICATED };
        let line = "up --osds 3 --store bluestore --auth cephx --dir d";
        assert_eq!(parsed(line), Ok(Task::Up { shape, folder }));
    }

    #[test]
    fn a_trial_has_its_seed() {
        let Ok(Task::Test(trial)) = parsed("test --program a --only no") else { panic!("no trial") };
        assert_eq!((trial.program.as_str(), trial.only.as_str(), trial.seed), ("a", "no", 7));
        let Ok(Task::Test(trial)) = parsed("test --program a --seed 9") else { panic!("no trial") };
        assert_eq!((trial.output, trial.seed), (PathBuf::from("ceph"), 9));
    }

    #[test]
    fn measurements_have_rounds() {
        let Ok(Task::Bench(usual)) = parsed("bench --program a") else { panic!("no bench") };
        assert_eq!((usual.rounds, usual.seconds, usual.only, usual.seed), (ROUNDS, SECONDS, None, 7));
        let line = "bench --program a --output o --rounds 1 --seconds 2 --only curve --seed 9";
        let Ok(Task::Bench(other)) = parsed(line) else { panic!("no bench") };
        assert_eq!((other.rounds, other.seconds, other.only, other.seed), (1, 2, Some(Part::Curve), 9));
        assert_eq!(other.output, PathBuf::from("o"));
    }

    #[test]
    fn a_campaign_has_its_rounds() {
        let campaign = Campaign { program: "a".to_owned(), output: "gateways".into(), rounds: 50, seed: 7 };
        assert_eq!(parsed("gateways --program a"), Ok(Task::Gateways(campaign.clone())));
        let campaign = Campaign { rounds: 3, seed: 9, output: "b".into(), ..campaign };
        let line = "gateways --program a --output b --rounds 3 --seed 9";
        assert_eq!(parsed(line), Ok(Task::Gateways(campaign)));
    }

    #[test]
    fn refuses_nonsense() {
        for line in [
            "",
            "down",
            "up",
            "up --dir",
            "up --dir d --osds 0",
            "up --dir d --store disk",
            "up --dir d --size 3",
            "bench",
            "bench --program a --only price",
            "bench --program a --rounds 0",
            "gateways",
            "gateways --program a --rounds 0",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
