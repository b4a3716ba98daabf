//! Broken builds of the engine: each does one thing wrong, in a copy of the tree, and the simulation has to find out.
//! What goes wrong is in `broken`; how scenes are played is the simulation's.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::broken::{BETWEEN, MUTANTS, Mutant};
use crate::command::Step;
use crate::{simulate, workspace};

/// Seeds after which a mutant counts as not caught.
const SEEDS_MAX: u64 = 20_000;
/// Time after which one does, in seconds.
const TIME_MAX_S: u64 = 900;
/// What is copied: everything that the simulation is built of.
const PARTS: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "crates/nvme", "crates/engine", "crates/prerequisite", "simulate"];
/// Where the number of the mutant in force is kept, in the copy.
const SWITCH: &str = "
/// The mutant in force; none is 0.
pub static MUTANT: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// Whether a mutant is in force.
pub fn is_mutant(number: usize) -> bool {
    MUTANT.load(core::sync::atomic::Ordering::Relaxed) == number
}
";
/// Where the simulation begins, and what it has to do first in the copy.
const BEGINNING: &str = "fn main() -> ExitCode {\n";
const CHOICE: &str = "    let mutant = std::env::var(\"MUTANT\").ok().and_then(|number| number.parse().ok());
    nvme::MUTANT.store(mutant.unwrap_or(0), std::sync::atomic::Ordering::Relaxed);\n";

/// How a mutant fared.
struct Fate {
    name: &'static str,
    /// Seeds that were played, and what the last of them brought to light.
    caught: Option<(u64, String)>,
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

fn fates(names: &[String]) -> Result<Vec<Fate>, String> {
    if let Some(unknown) = names.iter().find(|name| MUTANTS.iter().all(|mutant| mutant.name != **name)) {
        return Err(format!("there is no mutant `{unknown}`"));
    }
    let program = build()?;
    let mut fates = Vec::new();
    for (at, mutant) in MUTANTS.iter().enumerate() {
        if !names.is_empty() && !names.iter().any(|name| name == mutant.name) {
            continue;
        }
        let began = Instant::now();
        let caught = play(&program, at + 1, 0..SEEDS_MAX)?;
        // What fails without the mutant, too, is not the mutant's doing.
        if let Some((seeds, _)) = caught
            && let Some((_, found)) = play(&program, 0, seeds - 1..seeds)?
        {
            return Err(format!("seed {} fails without any mutant: {found}", seeds - 1));
        }
        let elapsed_s = began.elapsed().as_secs_f64();
        println!("  {}: {}", mutant.name, if caught.is_some() { "caught" } else { "NOT CAUGHT" });
        fates.push(Fate { name: mutant.name, caught, elapsed_s });
    }
    Ok(fates)
}

fn table(fates: &[Fate]) -> String {
    let mut text =
        String::from("| mutant | what it does | seeds | seconds | what was found |\n|---|---|---|---|---|\n");
    for fate in fates {
        let about = MUTANTS.iter().find(|mutant| mutant.name == fate.name).map_or("", |mutant| mutant.about);
        let (seeds, found) = match &fate.caught {
            Some((seeds, found)) => (seeds.to_string(), found.as_str()),
            None => ("-".to_owned(), "NOT CAUGHT"),
        };
        text.push_str(&format!("| {} | {about} | {seeds} | {:.1} | {found} |\n", fate.name, fate.elapsed_s));
    }
    text
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
            let seed: u64 = seed.parse().map_err(|_| format!("`{seed}` is no seed"))?;
            Ok(Some((seed + 1, found.replace('|', "/"))))
        }
        // It neither went well nor said what went wrong: it was cut off.
        None => Ok(None),
    }
}

/// Copies the tree, breaks it in all ways at once, each behind its switch, and builds it.
fn build() -> Result<PathBuf, String> {
    let tree = workspace::target_dir().join("mutants/tree");
    for part in PARTS {
        copy(&workspace::root().join(part), &tree.join(part))?;
    }
    edit(&tree.join("Cargo.toml"), |text| {
        let members = text.find("members = ").zip(text.find("default-members"));
        let (from, to) = members.ok_or("the workspace has no members")?;
        let mut text = text.to_owned();
        text.replace_range(
            from..to,
            "members = [\"crates/nvme\", \"crates/engine\", \"crates/prerequisite\"]\n",
        );
        Ok(text
            .lines()
            .filter(|line| !line.starts_with("default-members"))
            .fold(String::new(), |all, line| all + line + "\n"))
    })?;
    edit(&tree.join("crates/nvme/src/lib.rs"), |text| Ok(format!("{text}{SWITCH}")))?;
    edit(&tree.join("simulate/src/main.rs"), |text| {
        text.contains(BEGINNING)
            .then(|| text.replacen(BEGINNING, &format!("{BEGINNING}{CHOICE}"), 1))
            .ok_or_else(|| "the simulation begins in another way".to_owned())
    })?;
    for (at, mutant) in MUTANTS.iter().enumerate() {
        edit(&tree.join(mutant.file), |text| mutate(text, mutant, at + 1))?;
    }
    let built = simulate::build(&tree, "mutants");
    built.map(PathBuf::from).map_err(|_| "the mutants do not build".to_owned())
}

/// The file with one thing that is wrong while the mutant is in force.
fn mutate(text: &str, mutant: &Mutant, number: usize) -> Result<String, String> {
    let on = format!("nvme::is_mutant({number})");
    let on = if mutant.file.starts_with("crates/nvme") { on.replace("nvme::", "crate::") } else { on };
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
    fs::copy(from, to).map(|_| ()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_breaks_something_that_is_there() {
        // All at once, as they are built.
        let mut files = std::collections::BTreeMap::new();
        for (at, mutant) in MUTANTS.iter().enumerate() {
            let text = files.entry(mutant.file).or_insert_with(|| {
                fs::read_to_string(workspace::root().join(mutant.file)).expect("the file is there")
            });
            let broken = mutate(text, mutant, at + 1).expect("it applies");
            assert_ne!(broken, *text, "{}", mutant.name);
            assert!(mutant.replace.contains("{on}"), "{} is always in force", mutant.name);
            *text = broken;
        }
        let mut names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MUTANTS.len(), "a name is used twice");
    }
}
