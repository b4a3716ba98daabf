//! The house rules that a program can check: lengths, module documentation, where `unsafe` may stand,
//! paths of one machine, unfinished work. It keeps out what the compiler and clippy already check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use crate::cited_tests;
use crate::clock;
use crate::command::Step;
use crate::counted_rule::CountedRule;
use crate::english;
use crate::first_words;
use crate::graph;
use crate::ledger;
use crate::links;
use crate::regions::{self, Texts};
use crate::seam;
use crate::source::{code_only, functions, line_of, word_positions};
use crate::workspace;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";
const UNSAFE_FILES: &str = "xtask/unsafe-files.txt";

/// Rules with exceptions that are counted by file.
const COUNTED: [&CountedRule; 2] = [&english::RULE, &clock::RULE];

/// Words that stand for work not done, in code.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "#[ignore"];

/// The beginnings of paths that exist on one machine only. Written apart, or this file would be found.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Material from elsewhere, kept as it came.
const NOT_OURS: [&str; 1] = ["seeds/"];

/// Checks the checkout, and prints what is wrong.
pub(crate) fn run() -> ExitCode {
    if passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The same, as a part of something larger.
pub(crate) fn passes() -> bool {
    println!("$ cargo xtask tidy");
    let problems = match files() {
        Ok(files) => check(&files),
        Err(reason) => vec![reason],
    };
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("  ok");
    } else {
        println!("  FAILED: {} problems", problems.len());
    }
    problems.is_empty()
}

/// Writes the lists of counted exceptions again, each unless it would grow.
pub(crate) fn lower() -> ExitCode {
    let lowered = files().map(|files| {
        let texts: Vec<(&str, &str)> = files.iter().map(|file| (&*file.path, &*file.text)).collect();
        let counted = COUNTED.map(|rule| rule.lower(&files));
        counted.into_iter().chain([first_words::lower(&texts)]).collect()
    });
    let all = lowered.unwrap_or_else(|reason| vec![Err(reason)]);
    for outcome in &all {
        match outcome {
            Ok(text) => println!("{text}"),
            Err(reason) => eprintln!("xtask: {reason}; `cargo xtask tidy` shows them"),
        }
    }
    if all.iter().all(Result::is_ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints figures of the project's shape, or of that of another checkout of it.
pub(crate) fn graph(root: &Path) -> ExitCode {
    match files_in(root) {
        Ok(files) => {
            graph::table(&texts(&files)).iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Text file of the project.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All that git tracks, or would track after `git add`.
pub(crate) fn files() -> Result<Vec<File>, String> {
    files_in(&workspace::root())
}

fn files_in(root: &Path) -> Result<Vec<File>, String> {
    // A checkout may belong to another user than the one who checks it, in a container for example.
    let folder = root.to_string_lossy();
    let list = [
        "-C",
        &folder,
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let listed = Step::new("git", &list).run_quietly();
    if !listed.passed {
        return Err(format!("git cannot list the files: {}", listed.output.trim()));
    }
    let mut files = Vec::new();
    for path in listed.output.split_terminator('\0').collect::<BTreeSet<_>>() {
        if NOT_OURS.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        // A file deleted and not yet committed is still listed; a link is checked where it points to.
        let full = root.join(path);
        if !full.symlink_metadata().is_ok_and(|data| data.is_file()) {
            continue;
        }
        let bytes = std::fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

fn check(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut sizes = Sizes::default();
    let mut unsafe_files = BTreeSet::new();
    for file in files {
        find_machine_paths(file, &mut problems);
        if Path::new(&file.path).extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let code = code_only(&file.text);
        sizes.measure(file, &code);
        if !file.text.starts_with("//!") {
            problems.push(format!("{}:1: no `//!` sentence that says what the file is", file.path));
        }
        find_unfinished(file, &code, &mut problems);
        seam::judge(&file.path, &file.text, &mut problems);
        if let Some(at) = word_positions(&code, "unsafe").next() {
            unsafe_files.insert((file.path.clone(), line_of(&code, at)));
        }
    }
    match Exceptions::parse(text_of(files, EXCEPTIONS)) {
        Ok(exceptions) => sizes.judge(&exceptions, &mut problems),
        Err(problem) => problems.push(problem),
    }
    judge_unsafe(&unsafe_files, text_of(files, UNSAFE_FILES), &mut problems);
    regions::judge(&texts(files), &mut problems);
    let all: Vec<(&str, &str)> = files.iter().map(|file| (&*file.path, &*file.text)).collect();
    links::judge(&all, &mut problems);
    cited_tests::judge(&all, &mut problems);
    ledger::judge(&all, &mut problems);
    first_words::judge(&all, text_of(files, first_words::BUDGETS), &mut problems);
    for rule in COUNTED {
        rule.judge(&all, text_of(files, rule.exceptions), &mut problems);
    }
    problems
}

fn texts(files: &[File]) -> Texts<'_> {
    files.iter().map(|file| (&*file.path, &*file.text)).collect()
}

fn text_of<'a>(files: &'a [File], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

/// The lines of a list, without comments and blank ones.
pub(crate) fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty())
}

fn find_machine_paths(file: &File, problems: &mut Vec<String>) {
    for (number, line) in file.text.lines().enumerate() {
        for path in MACHINE_PATHS {
            let hit = line.match_indices(path).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + path.len()..].chars().next();
                // In the middle of another path it is a folder's name; before a variable it is not a
                // path of a machine.
                !before.is_some_and(|c| c.is_alphanumeric() || "._-}".contains(c))
                    && after.is_some_and(|c| c.is_alphanumeric() || c == '.')
            });
            if hit {
                problems.push(format!("{}:{}: a path of one machine ({path})", file.path, number + 1));
            }
        }
    }
}

fn find_unfinished(file: &File, code: &str, problems: &mut Vec<String>) {
    for word in UNFINISHED {
        for (at, _) in code.match_indices(word) {
            let line = line_of(code, at);
            // A test that another suite runs is not unfinished work.
            let has_suite = file.text.lines().nth(line - 1).is_some_and(|text| text.contains(": the suite "));
            if !(word == "#[ignore" && has_suite) {
                problems.push(format!("{}:{line}: unfinished: {word}", file.path));
            }
        }
    }
}

fn judge_unsafe(found: &BTreeSet<(String, usize)>, list: &str, problems: &mut Vec<String>) {
    let allowed: BTreeSet<&str> = entries(list).collect();
    for (path, line) in found {
        if !allowed.contains(path.as_str()) {
            problems.push(format!("{path}:{line}: unsafe, in a file that {UNSAFE_FILES} does not name"));
        }
    }
    for path in allowed {
        if !found.iter().any(|(with, _)| with == path) {
            problems.push(format!("{UNSAFE_FILES}: {path} does not exist or has no unsafe: take it out"));
        }
    }
}

/// Lines by `path` and by `path:function`. Of functions of one name the longest counts.
#[derive(Default)]
struct Sizes(BTreeMap<String, usize>);

impl Sizes {
    fn measure(&mut self, file: &File, code: &str) {
        self.0.insert(file.path.clone(), file.text.lines().count());
        for function in functions(code) {
            let longest = self.0.entry(format!("{}:{}", file.path, function.name)).or_default();
            *longest = function.lines.max(*longest);
        }
    }

    fn judge(&self, exceptions: &Exceptions, problems: &mut Vec<String>) {
        for (what, &lines) in &self.0 {
            let base = base_limit(what);
            let limit = exceptions.0.get(what).copied().unwrap_or(base);
            if lines > limit {
                problems.push(format!("{what}: {lines} lines, and {limit} are the limit"));
            }
        }
        for (what, &limit) in &exceptions.0 {
            let lines = self.0.get(what).copied().unwrap_or(0);
            if lines <= base_limit(what) {
                problems.push(format!("{EXCEPTIONS}: {what} needs no exception: take it out"));
            } else if lines < limit {
                problems.push(format!("{EXCEPTIONS}: {what} has only {lines} lines: lower the {limit}"));
            }
        }
    }
}

fn base_limit(what: &str) -> usize {
    if what.contains(':') { FUNCTION_LINES_MAX } else { FILE_LINES_MAX }
}

/// Items that may be longer, and their length: a list that may only shrink.
struct Exceptions(BTreeMap<String, usize>);

impl Exceptions {
    fn parse(list: &str) -> Result<Exceptions, String> {
        let mut limits = BTreeMap::new();
        for entry in entries(list) {
            let parsed = entry.rsplit_once(' ').and_then(|(what, limit)| Some((what, limit.parse().ok()?)));
            let Some((what, limit)) = parsed else {
                return Err(format!("{EXCEPTIONS}: `{entry}` is not `path[:function] limit`"));
            };
            limits.insert(what.trim().to_owned(), limit);
        }
        Ok(Exceptions(limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// A file with one function of this many lines.
    fn long(lines: usize) -> File {
        file("a.rs", &format!("//! A.\nfn long() {{\n{}}}\n", "    1;\n".repeat(lines - 2)))
    }

    fn problems(files: &[File]) -> String {
        check(files).join("\n")
    }

    #[test]
    fn a_tidy_file_has_no_problems() {
        assert_eq!(problems(&[file("a.rs", "//! A.\nfn a() {}\n"), long(70)]), "");
    }

    #[test]
    fn files_and_functions_have_limits() {
        assert_eq!(problems(&[long(71)]), "a.rs:long: 71 lines, and 70 are the limit");
        let lines = file("a.rs", &format!("//! A.\n{}", "\n".repeat(600)));
        assert_eq!(problems(&[lines]), "a.rs: 601 lines, and 600 are the limit");
    }

    #[test]
    fn exceptions_may_only_shrink() {
        let with = |list: &str, lines| problems(&[long(lines), file(EXCEPTIONS, list)]);
        assert_eq!(with("# why\na.rs:long 80\n", 80), "");
        assert!(with("a.rs:long 80\n", 81).contains("80 are the limit"));
        assert!(with("a.rs:long 80\n", 79).contains("lower the 80"));
        assert!(with("a.rs:long 80\n", 70).contains("needs no exception"));
        assert!(with("b.rs 700\n", 70).contains("needs no exception"));
        assert!(with("a.rs:long\n", 70).contains("is not"));
    }

    #[test]
    fn unsafe_only_where_it_is_named() {
        let code = "//! A.\nfn a() { unsafe { b() } }\n";
        assert!(problems(&[file("a.rs", code)]).starts_with("a.rs:2: unsafe"));
        assert_eq!(problems(&[file("a.rs", code), file(UNSAFE_FILES, "a.rs\n")]), "");
        assert!(
            problems(&[file("a.rs", "//! unsafe\n"), file(UNSAFE_FILES, "a.rs\n")]).contains("take it out")
        );
    }

    #[test]
    fn a_file_says_what_it_is() {
        assert!(problems(&[file("a.rs", "fn a() {}\n")]).contains("no `//!`"));
    }

    #[test]
    fn what_another_suite_runs_is_not_unfinished() {
        let code = "//! a\n#[ignore = \"it takes a cluster: the suite ceph has one\"]\nfn a() {}\n";
        assert_eq!(problems(&[file("a.rs", code)]), "");
    }

    #[test]
    fn unfinished_work_is_found_in_code_only() {
        let code = "//! todo!\nfn a() { todo!() }\n#[ignore = \"x\"]\nconst B: &str = \"unimplemented!\";\n";
        assert_eq!(
            problems(&[file("a.rs", code)]),
            "a.rs:2: unfinished: todo!\na.rs:3: unfinished: #[ignore"
        );
    }

    #[test]
    fn paths_of_one_machine_are_found_in_every_text() {
        let home = concat!("/ho", "me/anna");
        assert!(problems(&[file("a.md", &format!("see {home}/x\n"))]).starts_with("a.md:1: a path"));
        assert_eq!(problems(&[file("a.md", &format!("see $ROOT}}{home}, srv{home}\n"))]), "");
    }
}
