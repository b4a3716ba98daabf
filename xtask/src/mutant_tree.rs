//! The copy of the tree that has all mutants at once, each behind its switch. It keeps out what is built of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mutant::Mutant;
use crate::mutant_edits;
use crate::workspace;

/// Files to copy: all crates, since the simulation and the tests that mutants name are built of them, and what they read.
const PARTS: [&str; 6] = ["Cargo.toml", "Cargo.lock", "crates", "simulate", "packaging", "docs"];
/// Of the engine's tests a dozen are run: optimizing it takes longer.
const FEW_TESTS: &str = "\n[profile.dev.package.selvedge-engine]\nopt-level = 0\n";
/// Code of each crate that looks up the mutant in force.
const SWITCH: &str = "
extern crate std;

/// True if the mutant of this name is in force: the one that the environment names.
pub fn is_mutant(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<std::string::String> = std::sync::OnceLock::new();
    MUTANT.get_or_init(|| std::env::var(\"MUTANT\").unwrap_or_default()) == name
}
";

/// The version of the workspace's crates, and that of those which are broken. Each names its own, and those that it is built of.
const VERSION: &str = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"");
const VERSION_OF_TREE: &str = concat!("version = \"", env!("CARGO_PKG_VERSION"), "-mutants\"");

/// Copies the tree, and breaks it in all ways at once, each behind its switch. Files that are the same as before stay as they are:
/// what was built of them need not be built again.
///
/// # Errors
/// All patches that do not apply, a line for each.
pub(crate) fn make(mutants: &[Mutant]) -> Result<PathBuf, String> {
    let made = workspace::target_dir().join("mutants/made");
    break_tree(&made, mutants)?;
    let tree = workspace::target_dir().join("mutants/tree");
    copy(&made, &tree)?;
    Ok(tree)
}

fn break_tree(tree: &Path, mutants: &[Mutant]) -> Result<(), String> {
    let changed = mutant_edits::changed_files(mutants)?;
    for part in PARTS {
        copy(&workspace::root().join(part), &tree.join(part))?;
    }
    for (file, text) in changed {
        edit(&tree.join(file), |_| Ok(text))?;
    }
    edit(&tree.join("Cargo.toml"), |text| {
        // Crates of the same version and place would be taken for each other in a folder that both trees build in.
        let mut text = text.replace(VERSION, VERSION_OF_TREE);
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
    Ok(())
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
            // Folders that cargo builds in are left out.
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
