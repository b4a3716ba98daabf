//! The lines that mutants change. Git applies each patch by itself to the checkout as it is, so that patches need not know of each
//! other, and the edits of all of them are put together here. It keeps out what the mutants are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::command::{Finished, Step};
use crate::mutant::Mutant;
use crate::workspace;

/// Folders that patches may change.
const CHANGED: [&str; 2] = ["crates", "simulate"];

/// Lines of a file that one mutant replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    /// Lines above them.
    after: usize,
    removed: usize,
    added: String,
}

/// Edits of one patch by file.
type Edits = BTreeMap<String, Vec<Edit>>;

/// The files that these mutants change, each with the changes of all of them.
///
/// # Errors
/// All patches that do not apply, each with its place, and all that change the same line.
pub(crate) fn changed_files(mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    let index = Index::of_checkout()?;
    let mut problems = Vec::new();
    let mut by_file: BTreeMap<String, Vec<(&str, Edit)>> = BTreeMap::new();
    for (mutant, edits) in edits(&index, mutants)? {
        match edits {
            Ok(edits) => {
                for (file, edits) in edits {
                    let named = edits.into_iter().map(|edit| (&*mutant.path, edit));
                    by_file.entry(file).or_default().extend(named);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut files = BTreeMap::new();
    for (file, edits) in by_file {
        let base = fs::read_to_string(workspace::root().join(&file));
        let base = base.map_err(|error| format!("{file}: {error}"))?;
        match put_together(&file, &base, edits) {
            Ok(text) => _ = files.insert(file, text),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(problems.join("\n")) }
}

/// A mutant with its edits, or why its patch does not apply.
type Applied<'a> = (&'a Mutant, Result<Edits, String>);

/// The edits of each mutant, or why its patch does not apply.
fn edits<'a>(index: &Index, mutants: &'a [Mutant]) -> Result<Vec<Applied<'a>>, String> {
    let mut all = Vec::new();
    for round in rounds(mutants) {
        apply(index, &round, &mut all)?;
    }
    all.sort_by_key(|(mutant, _)| &mutant.name);
    Ok(all)
}

/// Applies mutants of which no two change the same file: all at once, and in halves where one of them does not apply.
fn apply<'a>(index: &Index, mutants: &[&'a Mutant], all: &mut Vec<Applied<'a>>) -> Result<(), String> {
    let paths: Vec<&str> = mutants.iter().map(|mutant| &*mutant.path).collect();
    if index.apply(&["-3"], &paths)?.passed {
        let mut together = index.edits()?;
        all.extend(mutants.iter().map(|mutant| (*mutant, own_edits(mutant, &mut together))));
    } else if let [mutant] = mutants {
        // After a conflict of the merge, the context may still find the lines.
        let applied = index.apply(&[], &paths)?;
        let own = if applied.passed {
            own_edits(mutant, &mut index.edits()?)
        } else {
            Err(refusal(mutant, &applied.output))
        };
        all.push((mutant, own));
    } else {
        let (first, second) = mutants.split_at(mutants.len() / 2);
        apply(index, first, all)?;
        apply(index, second, all)?;
    }
    Ok(())
}

/// Takes the edits of a mutant's files out of all edits.
fn own_edits(mutant: &Mutant, together: &mut Edits) -> Result<Edits, String> {
    let own = |file: &String| {
        let edits = together.remove_entry(file);
        edits.ok_or_else(|| format!("{}: does not change {file}", mutant.path))
    };
    mutant.files.iter().map(own).collect()
}

/// Reason why a patch does not apply, from git's output: the places, if they are known.
fn refusal(mutant: &Mutant, said: &str) -> String {
    let reasons: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    let places = reasons.iter().filter_map(|reason| reason.strip_prefix("patch failed: "));
    match &*places.collect::<Vec<_>>().join(", ") {
        "" => format!("{}: does not apply: {}", mutant.path, reasons.join(", ")),
        places => format!("{}: does not apply at {places}", mutant.path),
    }
}

/// The mutants in groups, within which no two change the same file: git applies a group with one command.
fn rounds(mutants: &[Mutant]) -> Vec<Vec<&Mutant>> {
    let mut rounds: Vec<(BTreeSet<&str>, Vec<&Mutant>)> = Vec::new();
    for mutant in mutants {
        let is_free = |files: &BTreeSet<&str>| mutant.files.iter().all(|file| !files.contains(&**file));
        let at = rounds.iter().position(|(files, _)| is_free(files)).unwrap_or(rounds.len());
        if at == rounds.len() {
            rounds.push(Default::default());
        }
        rounds[at].0.extend(mutant.files.iter().map(|file| &**file));
        rounds[at].1.push(mutant);
    }
    rounds.into_iter().map(|(_, round)| round).collect()
}

/// The file with all edits, each with the path of its patch. At one place, added lines come in the order of the edits.
fn put_together(file: &str, base: &str, mut edits: Vec<(&str, Edit)>) -> Result<String, String> {
    // Lines added above a line stand above what replaces it.
    edits.sort_by_key(|(_, edit)| (edit.after, edit.removed > 0));
    let lines: Vec<&str> = base.split_inclusive('\n').collect();
    let (mut text, mut at, mut last) = (String::new(), 0, "");
    for (path, edit) in edits {
        let Some(kept) = lines.get(at..edit.after) else {
            return Err(format!("{last} and {path}: both change {file}:{}", edit.after + 1));
        };
        text.extend(kept.iter().copied());
        text.push_str(&edit.added);
        (at, last) = (edit.after + edit.removed, path);
    }
    text.extend(lines.get(at..).into_iter().flatten().copied());
    Ok(text)
}

/// The checkout with its uncommitted changes, in an index and with objects that the repository does not see. Objects of its history
/// are at hand for three-way merges.
struct Index {
    folder: PathBuf,
    objects_of_repository: String,
    tree: String,
}

impl Index {
    fn of_checkout() -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("mutants/index-{}-{count}", std::process::id());
        let folder = workspace::target_dir().join(folder);
        let objects = folder.join("objects");
        fs::create_dir_all(&objects).map_err(|error| format!("{}: {error}", objects.display()))?;
        let mut index = Self { folder, objects_of_repository: String::new(), tree: String::new() };
        index.objects_of_repository =
            index.line(&["rev-parse", "--path-format=absolute", "--git-path", "objects"])?;
        index.line(&[&["add", "--all", "--"], &CHANGED[..]].concat())?;
        index.tree = index.line(&["write-tree"])?;
        Ok(index)
    }

    fn git(&self, words: &[&str]) -> Finished {
        let root = workspace::root().display().to_string();
        let path = |name: &str| self.folder.join(name).display().to_string();
        let step = Step::new("git", &[&["-C", &root, "-c", "safe.directory=*"], words].concat())
            .env("GIT_INDEX_FILE", &path("index"))
            .env("LC_ALL", "C");
        let step = match &*self.objects_of_repository {
            "" => step,
            objects => step
                .env("GIT_OBJECT_DIRECTORY", &path("objects"))
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects),
        };
        step.run_quietly()
    }

    /// The last line that a command prints.
    fn line(&self, words: &[&str]) -> Result<String, String> {
        let finished = self.git(words);
        if finished.passed {
            Ok(finished.output.lines().last().unwrap_or_default().to_owned())
        } else {
            Err(format!("git {} fails: {}", words[0], finished.output.trim()))
        }
    }

    /// Applies patches to the checkout, and to nothing that was applied before.
    fn apply(&self, options: &[&str], paths: &[&str]) -> Result<Finished, String> {
        self.line(&["read-tree", &self.tree])?;
        Ok(self.git(&[&["apply", "--cached", "--whitespace=nowarn"], options, paths].concat()))
    }

    /// Changes of the index in comparison to the checkout.
    fn edits(&self) -> Result<Edits, String> {
        let words = ["diff-index", "--cached", "--patch", "--unified=0", "--no-renames", "--no-color"];
        let diff = self.git(&[&words[..], &["--no-ext-diff", &self.tree]].concat());
        if diff.passed { parse(&diff.output) } else { Err(format!("git diff-index fails: {}", diff.output)) }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // Files that cannot be removed lie in the folder of builds.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The edits that a diff without context has.
fn parse(diff: &str) -> Result<Edits, String> {
    let mut edits = Edits::new();
    let (mut file, mut lines) = (None, diff.lines());
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            file = Some(path);
        }
        let Some(hunk) = line.strip_prefix("@@ -") else { continue };
        let hunk = hunk.split_once(" @@").and_then(|(ranges, _)| ranges.split_once(" +"));
        let ranges = hunk.and_then(|(old, new)| range(old).zip(range(new)));
        let (file, ((first, removed), (_, added))) =
            file.zip(ranges).ok_or_else(|| format!("`{line}` of git diff-index is not understood"))?;
        // A hunk without removed lines names the line above it.
        let after = if removed == 0 { first } else { first - 1 };
        let mut text = String::new();
        for line in lines.by_ref().take(removed + added).filter_map(|line| line.strip_prefix('+')) {
            text.push_str(line);
            text.push('\n');
        }
        edits.entry(file.to_owned()).or_default().push(Edit { after, removed, added: text });
    }
    Ok(edits)
}

/// `FIRST,COUNT`, where a count of 1 is left out.
fn range(text: &str) -> Option<(usize, usize)> {
    let (first, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((first.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant;

    #[test]
    fn every_patch_applies_and_changes_what_no_other_changes() {
        let mutants = mutant::all().unwrap_or_else(|problems| panic!("{problems}"));
        let files = changed_files(&mutants).unwrap_or_else(|problems| panic!("{problems}"));
        for mutant in &mutants {
            let switch = format!("crate::is_mutant({:?})", mutant.name);
            assert!(mutant.files.iter().any(|file| files[file].contains(&switch)), "{}", mutant.path);
        }
    }

    /// A patch file in a folder that is removed at the end. It adds a line with the switch below one line, and above another.
    fn patch(index: &Index, name: &str, file: &str, at: usize, [above, below]: [&str; 2]) -> Mutant {
        let path = index.folder.join(format!("{name}.patch")).display().to_string();
        let head = format!("diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -{at},2 +{at},3 @@");
        let hunk = format!("{head}\n {above}\n+crate::is_mutant({name:?})\n {below}\n");
        let header = "about: nothing\ncaught-by: simulation\n\n";
        fs::write(&path, format!("{header}{hunk}")).expect("written");
        Mutant::read(&path).expect("a mutant")
    }

    #[test]
    fn all_patches_that_do_not_apply_name_their_places() {
        let index = Index::of_checkout().expect("an index");
        let main = "simulate/src/main.rs";
        let text = fs::read_to_string(workspace::root().join(main)).expect("the file is there");
        let lines: Vec<&str> = text.lines().collect();
        let mutants = [
            patch(&index, "applies", main, 1, [lines[0], lines[1]]),
            patch(&index, "changed-since", main, 7, ["no such line", lines[7]]),
            patch(&index, "gone", "simulate/src/no_such_file.rs", 1, [lines[0], lines[1]]),
        ];
        let problems = changed_files(&mutants).expect_err("two do not apply");
        let lines: Vec<&str> = problems.lines().collect();
        assert_eq!(lines.len(), 2, "{problems}");
        assert_eq!(lines[0], format!("{}: does not apply at {main}:7", mutants[1].path));
        assert!(lines[1].starts_with(&*mutants[2].path), "{problems}");
        assert!(lines[1].contains("simulate/src/no_such_file.rs: does not exist"), "{problems}");
        assert!(changed_files(&mutants[..1]).expect("it applies")[main].contains("is_mutant(\"applies\")"));
    }

    fn edit(after: usize, removed: usize, added: &str) -> Edit {
        Edit { after, removed, added: added.to_owned() }
    }

    #[test]
    fn edits_of_neighbouring_lines_are_put_together() {
        let edits = vec![("x", edit(1, 1, "B\n")), ("y", edit(1, 0, "+\n")), ("z", edit(2, 1, "C\nC\n"))];
        assert_eq!(put_together("f", "a\nb\nc\nd\n", edits).as_deref(), Ok("a\n+\nB\nC\nC\nd\n"));
        let edits = vec![("x", edit(0, 2, "")), ("y", edit(1, 1, "B\n"))];
        assert_eq!(put_together("f", "a\nb\nc\n", edits), Err("x and y: both change f:2".to_owned()));
    }

    #[test]
    fn a_diff_is_read_by_its_counts() {
        let diff =
            "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -2,0 +3 @@ fn\n+++ b/g\n@@ -5,2 +6,0 @@\n--- a/x\n-y\n";
        let edits = parse(diff).expect("a diff");
        assert_eq!(edits["f"], [edit(2, 0, "++ b/g\n"), edit(4, 2, "")]);
        assert_eq!(edits.len(), 1);
    }
}
