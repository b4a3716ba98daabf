//! Broken builds of the engine: each does one thing wrong, in a copy of the tree, and the simulation or a test has to find out.
//! What goes wrong is in `broken` and `broken_rules`; how scenes are played is the simulation's.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::broken::{BETWEEN, MUTANTS, Mutant};
use crate::broken_administration;
use crate::broken_attach;
use crate::broken_attached;
use crate::broken_authentication;
use crate::broken_gateways;
use crate::broken_groups;
use crate::broken_hand_over;
use crate::broken_reactor;
use crate::broken_rules::{RULES, Rule};
use crate::broken_secure_channel;
use crate::broken_succession;
use crate::broken_tls;
use crate::broken_tls_handshake;
use crate::command::Step;
use crate::mutant_tests::MutantTests;
use crate::suite::{Fault, Outcome};
use crate::{simulate, workers, workspace};

/// Seeds after which a mutant counts as not caught.
const SEEDS_MAX: u64 = 20_000;
/// Where to look first for what a hundred seeds do not meet. Other seeds meet it when the simulation has changed.
const MET_BY: [(&str, u64); 29] = [
    ("ended-controller-answers", 4643),
    ("shutdown-keeps-its-failure", 2488),
    ("ana-doubt-for-ever", 16873),
    ("second-look-forgotten", 876),
    ("closed-port-refuses", 544),
    ("zeroes-not-durable", 320),
    ("left-file-goes-too-soon", 297),
    ("keep-alive-looked-at-last", 219),
    ("unreadable-is-empty", 182),
    ("record-goes-too-soon", 171),
    ("failed-sync-forgotten", 147),
    ("quiesce-too-short", 4049),
    ("cross-reset-does-not-wait", 2239),
    ("answer-before-the-fence", 1017),
    ("connections-used-again", 1270),
    ("image-under-way-handed-over", 520),
    ("late-handed-over", 520),
    ("state-of-any-version", 955),
    ("removed-before-the-fence", 655),
    ("locked-at-go", 294),
    ("successor-not-written-down", 183),
    ("reservation-answered-before-kept", 342),
    ("reservations-not-read", 342),
    ("connection-of-a-dead-gateway", 400),
    ("answer-by-an-old-state", 285),
    ("dissolved-under-its-owner", 307),
    ("held-for-longer-than-it-holds", 483),
    ("taken-over-while-held", 3678),
    ("moved-by-who-was-given-up", 1_931_524),
];
/// Time after which one does, in seconds.
const TIME_MAX_S: u64 = 300;
/// Time that a test may take, in seconds.
const TEST_TIME_MAX_S: u64 = 120;
/// What is copied: all crates, since the simulation and the tests that mutants name are built of them, and what they
/// read.
const PARTS: [&str; 6] = ["Cargo.toml", "Cargo.lock", "crates", "simulate", "packaging", "docs"];
/// Of the engine's tests a dozen are run: optimizing it takes longer.
const FEW_TESTS: &str = "\n[profile.dev.package.engine]\nopt-level = 0\n";
/// How each crate knows which mutant is in force.
const SWITCH: &str = "
extern crate std;

/// Whether a mutant is in force; none is 0.
pub fn is_mutant(number: usize) -> bool {
    static MUTANT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let read = || std::env::var(\"MUTANT\").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    *MUTANT.get_or_init(read) == number
}
";

/// How a mutant fared.
struct Fate {
    name: &'static str,
    about: &'static str,
    /// Seeds that were played, or the test, and what came to light.
    caught: Option<(String, String)>,
    elapsed_s: f64,
}

/// `cargo xtask simulate --mutants [NAME]...`.
pub(crate) fn run(names: &[String]) -> ExitCode {
    match all_are_caught(names) {
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

pub(crate) fn jobs() -> Vec<String> {
    vec![String::new()]
}

/// Tries all mutants.
pub(crate) fn suite(_: &str) -> Outcome {
    all_are_caught(&[]).map(|count| format!("{count} mutants caught")).map_err(Fault::from).into()
}

/// Tries those with these names, all without any: how many there were. Their fates are printed.
///
/// # Errors
/// Which escaped, or why they could not be tried.
pub(crate) fn all_are_caught(names: &[String]) -> Result<usize, String> {
    let fates = fates(names)?;
    print!("{}", table(&fates));
    let escaped: Vec<&str> =
        fates.iter().filter(|fate| fate.caught.is_none()).map(|fate| fate.name).collect();
    if escaped.is_empty() {
        Ok(fates.len())
    } else {
        Err(format!("mutants that were not caught: {}", escaped.join(", ")))
    }
}

/// All mutants, and those of them that a test has to find out.
fn all() -> impl Iterator<Item = (&'static Mutant, Option<&'static Rule>)> {
    let played = MUTANTS.iter().chain(&broken_reactor::MUTANTS).chain(&broken_attach::MUTANTS);
    let played = played.chain(&broken_hand_over::MUTANTS).chain(&broken_groups::MUTANTS);
    played.map(|mutant| (mutant, None)).chain(rules().map(|rule| (&rule.mutant, Some(rule))))
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    let of_tls = broken_secure_channel::RULES
        .iter()
        .chain(&broken_tls_handshake::RULES)
        .chain(&broken_tls::RULES)
        .chain(&broken_succession::RULES)
        .chain(&broken_gateways::RULES);
    let of_disks = &broken_attached::RULES;
    let of_administration = &broken_administration::RULES;
    RULES.iter().chain(&broken_authentication::RULES).chain(of_administration).chain(of_tls).chain(of_disks)
}

fn fates(names: &[String]) -> Result<Vec<Fate>, String> {
    if let Some(unknown) = names.iter().find(|name| all().all(|(mutant, _)| mutant.name != **name)) {
        return Err(format!("there is no mutant `{unknown}`"));
    }
    let meant = meant(names);
    let tree = make_tree()?;
    let program = meant.iter().any(|(_, _, rule)| rule.is_none()).then(|| build(&tree)).transpose()?;
    let rules: Vec<&Rule> = meant.iter().filter_map(|(_, _, rule)| *rule).collect();
    let tests = (!rules.is_empty()).then(|| MutantTests::build(&tree, &rules)).transpose()?;
    if let Some(tests) = &tests {
        tests.pass_without_mutants(&rules)?;
    }
    let has_failed = AtomicBool::new(false);
    // Scenes have a thread for each processor; tests wait much of their time, some for what never comes.
    let fates = workers::side_by_side(&meant, workers::per_processor() + 1, |one| {
        let begins = !has_failed.load(Ordering::Relaxed);
        begins.then(|| {
            fate(one, program.as_deref(), tests.as_ref())
                .inspect_err(|_| has_failed.store(true, Ordering::Relaxed))
        })
    });
    fates.into_iter().flatten().collect()
}

/// Those with these names, all without any.
fn meant(names: &[String]) -> Vec<Meant> {
    let is_meant = |mutant: &Mutant| names.is_empty() || names.iter().any(|name| name == mutant.name);
    let numbered = all().enumerate().map(|(at, (mutant, rule))| (at + 1, mutant, rule));
    numbered.filter(|(_, mutant, _)| is_meant(mutant)).collect()
}

/// The number of a mutant, what it is, and what has to find it out, if that is not the simulation.
type Meant = (usize, &'static Mutant, Option<&'static Rule>);

fn fate(
    (number, mutant, rule): &Meant,
    program: Option<&Path>,
    tests: Option<&MutantTests>,
) -> Result<Fate, String> {
    let began = Instant::now();
    let caught = match (rule, program, tests) {
        (Some(rule), _, Some(tests)) => test(tests, rule, *number)?,
        (None, Some(program), _) => {
            let met_by = MET_BY.iter().find(|(name, _)| *name == mutant.name);
            search(program, *number, met_by.map_or(0, |(_, seed)| *seed))?
        }
        _ => return Err(format!("{}: what finds it out was not built", mutant.name)),
    };
    let elapsed_s = began.elapsed().as_secs_f64();
    println!("  {}: {}", mutant.name, if caught.is_some() { "caught" } else { "NOT CAUGHT" });
    Ok(Fate { name: mutant.name, about: mutant.about, caught, elapsed_s })
}

fn table(fates: &[Fate]) -> String {
    let mut text =
        String::from("| mutant | what it does | seeds | seconds | what was found |\n|---|---|---|---|---|\n");
    for fate in fates {
        let (seeds, found) = match &fate.caught {
            Some((seeds, found)) => (seeds.as_str(), found.as_str()),
            None => ("-", "NOT CAUGHT"),
        };
        let (name, about, elapsed_s) = (fate.name, fate.about, fate.elapsed_s);
        text.push_str(&format!("| {name} | {about} | {seeds} | {elapsed_s:.1} | {found} |\n"));
    }
    text
}

/// Plays scenes with a mutant until one fails, which has to go well without it: the seed after it, and what it said.
fn search(program: &Path, number: usize, first: u64) -> Result<Option<(String, String)>, String> {
    for seeds in [first..first + 1, 0..SEEDS_MAX] {
        let Some((end, found)) = play(program, number, seeds)? else { continue };
        // What fails without the mutant, too, is not the mutant's doing.
        if let Some((_, found)) = play(program, 0, end - 1..end)? {
            return Err(format!("seed {} fails without any mutant: {found}", end - 1));
        }
        return Ok(Some((end.to_string(), found)));
    }
    Ok(None)
}

/// Looks whether a test fails with a mutant. Without any it has passed.
fn test(tests: &MutantTests, rule: &Rule, number: usize) -> Result<Option<(String, String)>, String> {
    let caught = !tests.run(rule, number, TEST_TIME_MAX_S)?.passed;
    Ok(caught.then(|| ("test".to_owned(), format!("{} fails", rule.test))))
}

/// Plays scenes until one fails: how many it took, and what it said.
fn play(program: &Path, number: usize, seeds: Range<u64>) -> Result<Option<(u64, String)>, String> {
    let range = format!("{}..{}", seeds.start, seeds.end);
    let program = program.display().to_string();
    let arguments = ["--seeds", &range, "--brief"];
    let step = Step::new(&program, &arguments).env("MUTANT", &number.to_string()).limit_s(TIME_MAX_S);
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
        // It neither went well nor said what went wrong: it was cut off.
        None => Ok(None),
    }
}

/// Builds the simulation of the broken tree.
fn build(tree: &Path) -> Result<PathBuf, String> {
    let built = simulate::build(tree, "mutants");
    built.map(PathBuf::from).map_err(|_| "the mutants do not build".to_owned())
}

/// The version of the workspace's crates, and that of those which are broken.
const VERSION: &str = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"");
const VERSION_OF_TREE: &str = concat!("version = \"", env!("CARGO_PKG_VERSION"), "-mutants\"");

/// Copies the tree, and breaks it in all ways at once, each behind its switch. Files that are the same as before stay as they are:
/// what was built of them need not be built again.
fn make_tree() -> Result<PathBuf, String> {
    let made = workspace::target_dir().join("mutants/made");
    break_tree(&made)?;
    let tree = workspace::target_dir().join("mutants/tree");
    copy(&made, &tree)?;
    Ok(tree)
}

fn break_tree(tree: &Path) -> Result<(), String> {
    for part in PARTS {
        copy(&workspace::root().join(part), &tree.join(part))?;
    }
    edit(&tree.join("Cargo.toml"), |text| {
        // Crates of the same version and place would be taken for each other in a folder that both trees build in.
        let mut text = text.replacen(VERSION, VERSION_OF_TREE, 1);
        if !text.contains(VERSION_OF_TREE) {
            return Err("the workspace has another version than mutants know".to_owned());
        }
        let members = text.find("members = ").zip(text.find("default-members"));
        let (from, to) = members.ok_or("the workspace has no members")?;
        text.replace_range(from..to, "members = [\"crates/*\"]\n");
        Ok(text
            .lines()
            .filter(|line| !line.starts_with("default-members"))
            .fold(String::new(), |all, line| all + line + "\n")
            + FEW_TESTS)
    })?;
    let crates = tree.join("crates");
    for package in fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?.flatten()
    {
        edit(&package.path().join("src/lib.rs"), |text| Ok(format!("{text}{SWITCH}")))?;
    }
    edit(&tree.join("simulate/src/main.rs"), |text| Ok(format!("{text}\nuse engine::is_mutant;\n")))?;
    for (at, (mutant, _)) in all().enumerate() {
        edit(&tree.join(mutant.file), |text| mutate(text, mutant, at + 1))?;
    }
    Ok(())
}

/// The file with one thing that is wrong while the mutant is in force.
fn mutate(text: &str, mutant: &Mutant, number: usize) -> Result<String, String> {
    let on = format!("crate::is_mutant({number})");
    let mut text = text.to_owned();
    for (find, replace) in mutant.find.split(BETWEEN).zip(mutant.replace.split(BETWEEN)) {
        let found = text.matches(find).count();
        if found != 1 {
            return Err(format!("{}: what it breaks is {found} times in {}", mutant.name, mutant.file));
        }
        text = text.replacen(find, &replace.replace("{on}", &on), 1);
    }
    Ok(text)
}

fn edit(path: &Path, change: impl FnOnce(&str) -> Result<String, String>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(failed)?;
    fs::write(path, change(&text)?).map_err(failed)
}

/// Copies a file or folder, and removes what the folder has not: a test that has become a folder would be there twice.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    if from.is_dir() {
        for entry in fs::read_dir(to).into_iter().flatten() {
            let old = entry.map_err(failed)?.path();
            let is_gone = old.file_name().is_none_or(|name| !from.join(name).exists());
            if is_gone && old.is_dir() {
                fs::remove_dir_all(&old).map_err(failed)?;
            } else if is_gone {
                fs::remove_file(&old).map_err(failed)?;
            }
        }
        for entry in fs::read_dir(from).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // What cargo has built is none of it.
            if !entry.path().join("CACHEDIR.TAG").exists() {
                copy(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let is_the_same = fs::read(to).is_ok_and(|old| fs::read(from).is_ok_and(|new| old == new));
    if is_the_same { Ok(()) } else { fs::copy(from, to).map(|_| ()).map_err(failed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_breaks_something_that_is_there() {
        // All at once, as they are built.
        let mut files = std::collections::BTreeMap::new();
        for (at, (mutant, _)) in all().enumerate() {
            let text = files.entry(mutant.file).or_insert_with(|| {
                fs::read_to_string(workspace::root().join(mutant.file)).expect("the file is there")
            });
            let broken = mutate(text, mutant, at + 1).expect("it applies");
            assert_ne!(broken, *text, "{}", mutant.name);
            assert!(mutant.replace.contains("{on}"), "{} is always in force", mutant.name);
            *text = broken;
        }
        let mut names: Vec<&str> = all().map(|(mutant, _)| mutant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count(), "a name is used twice");
        assert!(MET_BY.iter().all(|(name, _)| names.contains(name)), "a seed is of no mutant");
    }
}
