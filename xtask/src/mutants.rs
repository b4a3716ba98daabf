//! Broken builds of the engine: each does one thing wrong, in a copy of the tree, and the simulation or a test has to find out.
//! The changes are in `proof/mutants`; how scenes are played is the simulation's concern.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::command::Step;
use crate::mutant::{self, CaughtBy, Mutant, NamedTest};
use crate::mutant_tests::MutantTests;
use crate::suite::{Fault, Outcome};
use crate::{mutant_tree, simulate, usage_error, workers};

/// Seeds after which a mutant counts as not caught.
const SEEDS_MAX: u64 = 20_000;
/// Time after which one does beside others, in seconds. It is then searched for again, alone.
const TIME_MAX_S: u64 = 300;
/// Time after which one does alone, in seconds: all seeds take less on two quiet cores.
const TIME_ALONE_MAX_S: u64 = 900;
/// Time that a test may take, in seconds.
const TEST_TIME_MAX_S: u64 = 120;
/// Result of one mutant.
struct Fate<'a> {
    mutant: &'a Mutant,
    /// Seeds that were played, or the test, and what came to light.
    caught: Option<(String, String)>,
    elapsed_s: f64,
}

/// Shard of the mutants, of `count` shards: every `count`-th one, from `index` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    const WHOLE: Self = Self { index: 0, count: 1 };

    /// `K/N`, with K from 1 to N.
    fn parse(text: &str) -> Option<Self> {
        let (shard, count) = text.split_once('/')?;
        let (shard, count): (usize, usize) = (shard.parse().ok()?, count.parse().ok()?);
        (1..=count).contains(&shard).then(|| Self { index: shard - 1, count })
    }
}

/// `cargo xtask simulate --mutants [--part K/N] [NAME]...`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (shard, names) = match arguments {
        [first, rest @ ..] if first == "--part" => match rest.split_first() {
            Some((shard, names)) => match Shard::parse(shard) {
                Some(shard) => (shard, names),
                None => return usage_error(&format!("`{shard}` is not a part K/N, with K from 1 to N")),
            },
            None => return usage_error("--part needs K/N"),
        },
        names => (Shard::WHOLE, names),
    };
    match shard_is_caught(names, shard) {
        Ok(count) => {
            println!("{count} mutants, all caught");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Parts of the suite: trying one takes minutes once its build is there.
const PARTS: usize = 4;

pub(crate) fn jobs() -> Vec<String> {
    (1..=PARTS).map(|shard| format!("part-{shard}")).collect()
}

/// Tries the shard of all mutants that this job has.
pub(crate) fn suite(job: &str) -> Outcome {
    let number = job.strip_prefix("part-").and_then(|number| number.parse::<usize>().ok()).unwrap_or(1);
    let caught = shard_is_caught(&[], Shard { index: number - 1, count: PARTS });
    caught.map(|count| format!("{count} mutants caught")).map_err(Fault::from).into()
}

/// Tries the mutants with these names, or all without names, prints their fates and returns their number.
///
/// # Errors
/// Mutants that were not caught, by name, or the reason why none was tried.
fn shard_is_caught(names: &[String], shard: Shard) -> Result<usize, String> {
    let all = mutant::all()?;
    let fates = fates(&all, names, shard)?;
    print!("{}", table(&fates));
    let escaped: Vec<&str> =
        fates.iter().filter(|fate| fate.caught.is_none()).map(|fate| &*fate.mutant.name).collect();
    if escaped.is_empty() {
        Ok(fates.len())
    } else {
        Err(format!("mutants that were not caught: {}", escaped.join(", ")))
    }
}

fn fates<'a>(all: &'a [Mutant], names: &[String], shard: Shard) -> Result<Vec<Fate<'a>>, String> {
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|mutant| mutant.name != **name)) {
        return Err(format!("there is no mutant `{unknown}` in {}", mutant::FOLDER));
    }
    let named = named(all, names);
    let meant: Vec<&Mutant> = named.iter().skip(shard.index).step_by(shard.count).copied().collect();
    let tree = mutant_tree::make(all)?;
    let is_played = |mutant: &&Mutant| mutant.test().is_none();
    let program = meant.iter().any(is_played).then(|| build(&tree)).transpose()?;
    let tests: Vec<&NamedTest> = meant.iter().filter_map(|mutant| mutant.test()).collect();
    // Parts build the tests of all: crates are built once more for each other set of packages.
    let built: Vec<&NamedTest> = named.iter().filter_map(|mutant| mutant.test()).collect();
    let programs = (!tests.is_empty()).then(|| MutantTests::build(&tree, &built)).transpose()?;
    if let Some(programs) = &programs {
        programs.pass_without_mutants(&tests)?;
    }
    let has_failed = AtomicBool::new(false);
    // Scenes have a thread for each processor; tests wait much of their time, some for what never comes.
    let fates = workers::side_by_side(&meant, workers::per_processor() + 1, |mutant| {
        let begins = !has_failed.load(Ordering::Relaxed);
        begins.then(|| {
            fate(mutant, program.as_deref(), programs.as_ref())
                .inspect_err(|_| has_failed.store(true, Ordering::Relaxed))
        })
    });
    let mut fates = fates.into_iter().flatten().collect::<Result<Vec<Fate<'_>>, String>>()?;
    if let Some(program) = &program {
        for fate in fates.iter_mut().filter(|fate| fate.caught.is_none() && is_played(&fate.mutant)) {
            println!("  {}: once more, alone", fate.mutant.name);
            let began = Instant::now();
            fate.caught = search(program, fate.mutant, TIME_ALONE_MAX_S)?;
            fate.elapsed_s += began.elapsed().as_secs_f64();
        }
    }
    Ok(fates)
}

/// Mutants with these names, or all without names.
fn named<'a>(all: &'a [Mutant], names: &[String]) -> Vec<&'a Mutant> {
    all.iter().filter(|mutant| names.is_empty() || names.contains(&mutant.name)).collect()
}

fn fate<'a>(
    mutant: &'a Mutant,
    program: Option<&Path>,
    programs: Option<&MutantTests>,
) -> Result<Fate<'a>, String> {
    let began = Instant::now();
    let caught = match (&mutant.caught_by, program, programs) {
        (CaughtBy::Test(named), _, Some(programs)) => test(programs, named, &mutant.name)?,
        (CaughtBy::Simulation { .. }, Some(program), _) => search(program, mutant, TIME_MAX_S)?,
        _ => return Err(format!("{}: what catches it was not built", mutant.name)),
    };
    let elapsed_s = began.elapsed().as_secs_f64();
    println!("  {}: {}", mutant.name, if caught.is_some() { "caught" } else { "NOT CAUGHT" });
    Ok(Fate { mutant, caught, elapsed_s })
}

fn table(fates: &[Fate<'_>]) -> String {
    let mut text =
        String::from("| mutant | what it does | seeds | seconds | what was found |\n|---|---|---|---|---|\n");
    for fate in fates {
        let (seeds, found) = match &fate.caught {
            Some((seeds, found)) => (seeds.as_str(), found.as_str()),
            None => ("-", "NOT CAUGHT"),
        };
        let (name, about, elapsed_s) = (&fate.mutant.name, &fate.mutant.about, fate.elapsed_s);
        text.push_str(&format!("| {name} | {about} | {seeds} | {elapsed_s:.1} | {found} |\n"));
    }
    text
}

/// Plays scenes with a mutant until one fails, which has to go well without it: the seed after it, and what it said.
fn search(program: &Path, mutant: &Mutant, limit_s: u64) -> Result<Option<(String, String)>, String> {
    let first = match mutant.caught_by {
        CaughtBy::Simulation { first_seed } => first_seed,
        CaughtBy::Test(_) => 0,
    };
    for seeds in [first..first + 1, 0..SEEDS_MAX] {
        let Some((end, found)) = play(program, &mutant.name, seeds, limit_s)? else { continue };
        // A seed that fails without the mutant, too, does not show it.
        if let Some((_, found)) = play(program, "", end - 1..end, limit_s)? {
            return Err(format!("seed {} fails without any mutant: {found}", end - 1));
        }
        return Ok(Some((end.to_string(), found)));
    }
    Ok(None)
}

/// Runs a test with a mutant in force: the evidence if it fails. Without any mutant it has passed.
///
/// # Errors
/// The test is cut off at its limit with the mutant and without it: the machine is too slow to judge.
fn test(programs: &MutantTests, test: &NamedTest, mutant: &str) -> Result<Option<(String, String)>, String> {
    let with = programs.run(test, mutant, TEST_TIME_MAX_S)?;
    // A mutant may hang its test; a starved machine cuts off any test. The test without the mutant tells
    // one from the other.
    if with.was_cut_off && !programs.run(test, "", TEST_TIME_MAX_S)?.passed {
        return Err(format!("{} takes more than {TEST_TIME_MAX_S} s also without {mutant}", test.name));
    }
    let how = if with.was_cut_off { "hangs" } else { "fails" };
    Ok((!with.passed).then(|| ("test".to_owned(), format!("{} {how}", test.name))))
}

/// Plays scenes until one fails: how many it took, and what it said.
fn play(
    program: &Path,
    mutant: &str,
    seeds: Range<u64>,
    limit_s: u64,
) -> Result<Option<(u64, String)>, String> {
    let range = format!("{}..{}", seeds.start, seeds.end);
    let program = program.display().to_string();
    let arguments = ["--seeds", &range, "--brief"];
    let step = Step::new(&program, &arguments).env("MUTANT", mutant).limit_s(limit_s);
    let played = step.run_quietly();
    if played.passed {
        return Ok(None);
    }
    let failure = played.output.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(" FAILS: "));
    match failure {
        Some((seed, found)) => {
            let seed: u64 = seed.parse().map_err(|_| format!("`{seed}` is not a seed"))?;
            Ok(Some((seed + 1, found.replace('|', "/"))))
        }
        // Without success and without a failure the run was cut off.
        None => Ok(None),
    }
}

/// Builds the simulation of the broken tree.
fn build(tree: &Path) -> Result<PathBuf, String> {
    let built = simulate::build(tree, "mutants");
    built.map(PathBuf::from).map_err(|_| "the mutants do not build".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!(Shard::parse("1/1"), Some(Shard::WHOLE));
        assert_eq!(Shard::parse("3/3"), Some(Shard { index: 2, count: 3 }));
        for wrong in ["0/3", "4/3", "1/0", "1", "a/2", "-1/2", ""] {
            assert_eq!(Shard::parse(wrong), None, "{wrong}");
        }
    }
}
