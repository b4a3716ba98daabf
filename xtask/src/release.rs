//! `cargo xtask release --check`: what is missing before a version is released. It releases nothing, and leaves the suites to
//! `test` and `prove`, and the packages to `dist`.

use std::process::ExitCode;

use crate::command::Step;
use crate::releases::{self, VERSION};
use crate::{dist, gate, proof, usage_error, workspace};

/// Workspaces of their own, with the same version.
const APART: [&str; 3] = ["book", "dist", "simulate"];
/// Files that name a version to fetch.
const NAMING: [&str; 4] =
    ["docs/c-library.md", "docs/install.md", "packaging/compose.yaml", "packaging/kubernetes.yaml"];

/// A row of docs/compatibility.md, and the constant whose number it has.
const FORMATS: [(&str, &str, &str); 12] = [
    ("what a target serves", "crates/administration/src/state.rs", "const VERSION: u32 = "),
    ("kept reservations", "crates/engine/src/target/reservation/file.rs", "const VERSION: u32 = "),
    ("identities of namespaces", "crates/engine/src/target/identity/kept.rs", "const VERSION: u32 = "),
    ("connections to Ceph", "crates/administration/src/cluster_connections.rs", "const VERSION: u32 = "),
    ("disks of `attach`", "crates/attachment/src/attaching/record.rs", "const VERSION: u32 = "),
    ("hand-over of [an upgrade]", "crates/engine/src/target/hand_over/words.rs", "const FORMAT: u32 = "),
    (
        "hand-over of [attached disks]",
        "crates/attachment/src/attaching/hand_over/words.rs",
        "const FORMAT: u32 = ",
    ),
    ("state of a group", "crates/gateway/src/format.rs", "RangeInclusive<u32> = 1..="),
    (
        "reservations of a group's images",
        "crates/engine/src/target/reservation/shared_reservations.rs",
        "const VERSION: u32 = ",
    ),
    ("sweeps", "crates/measurement/src/sweep/journal.rs", "const FORMAT: u32 = "),
    ("JSON of commands", "crates/selvedge/src/commands/schemas.rs", "const VERSION: u32 = "),
    ("the tuner's journal", "crates/topology/src/apply/journal.rs", "const VERSION: u32 = "),
];

type Check = (&'static str, fn() -> Result<String, String>);

const CHECKS: [Check; 7] = [
    ("nothing is left to commit", committed),
    ("all workspaces have one version", versions),
    ("the changelog has the version", changelog),
    ("documents name the version and the formats", documents),
    ("the release before is known", before),
    ("the crates can be published", crates),
    ("programs may leave out Ceph, TLS and the target", features),
];
/// These take hours.
const LONG_CHECKS: [Check; 2] = [
    ("the gate and all suites of the proof pass", suites),
    ("packages are the same from two folders", packages),
];

/// `cargo xtask release --check [--quick]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let long: &[Check] = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--check"] => &LONG_CHECKS,
        ["--check", "--quick"] | ["--quick", "--check"] => &[],
        _ => return usage_error("release takes --check, and --quick"),
    };
    let mut missing = 0;
    for (name, check) in CHECKS.iter().chain(long) {
        match check() {
            Ok(note) if note.is_empty() => println!("ok       {name}"),
            Ok(note) => println!("ok       {name}: {note}"),
            Err(reason) => {
                missing += 1;
                println!("missing  {name}: {reason}");
            }
        }
    }
    if missing == 0 {
        let rest = if long.is_empty() { "; without --quick also the suites and the packages" } else { "" };
        println!("{VERSION} can be released{rest}: tag its commit, and write it down in xtask/releases.txt");
        ExitCode::SUCCESS
    } else {
        println!("{VERSION} cannot be released: {missing} missing");
        ExitCode::FAILURE
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(workspace::root().join(path)).map_err(|error| format!("{path}: {error}"))
}

fn git(args: &[&str]) -> Result<String, String> {
    let root = workspace::root().display().to_string();
    let step = Step::new("git", &[&["-C", &root, "-c", "safe.directory=*"], args].concat()).run_quietly();
    if step.passed { Ok(step.output.trim().to_owned()) } else { Err(step.output.trim().to_owned()) }
}

fn committed() -> Result<String, String> {
    let left = git(&["status", "--porcelain"])?;
    if left.is_empty() { git(&["rev-parse", "HEAD"]) } else { Err(left) }
}

fn versions() -> Result<String, String> {
    for apart in APART {
        let manifest = read(&format!("{apart}/Cargo.toml"))?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.ok_or_else(|| format!("{apart}/Cargo.toml has no name"))?;
        if !manifest.contains(&format!("\nversion = \"{VERSION}\"")) {
            return Err(format!("{apart}/Cargo.toml has another one than {VERSION}"));
        }
        let locked = format!("name = {name}\nversion = \"{VERSION}\"");
        if !read(&format!("{apart}/Cargo.lock"))?.contains(&locked) {
            return Err(format!("{apart}/Cargo.lock has another one than {VERSION}"));
        }
    }
    Ok(VERSION.to_owned())
}

/// The heading of the newest version in a changelog, and when it was released.
fn newest(changelog: &str) -> Option<(&str, Option<&str>)> {
    let heading = changelog.lines().find_map(|line| line.strip_prefix("## "))?;
    Some(match heading.split_once(" (") {
        Some((version, date)) => (version, date.strip_suffix(')')),
        None => (heading, None),
    })
}

fn changelog() -> Result<String, String> {
    let text = read("CHANGELOG.md")?;
    let is_date = |date: &str| date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok());
    match newest(&text) {
        Some((VERSION, Some(date))) if is_date(date) => Ok(date.to_owned()),
        Some((version, _)) => {
            Err(format!("its first heading is `{version}`, and not `## {VERSION} (YEAR-MONTH-DAY)`"))
        }
        None => Err("CHANGELOG.md has no heading".to_owned()),
    }
}

/// The number in a row of a table of Markdown that begins with these words.
fn number<'a>(table: &'a str, row: &str) -> Option<&'a str> {
    let row = table.lines().find(|line| line.strip_prefix("| ").is_some_and(|line| line.starts_with(row)))?;
    row.split('|').nth(3).map(str::trim)
}

fn documents() -> Result<String, String> {
    for path in NAMING {
        let text = read(path)?;
        if !text.contains(VERSION) {
            return Err(format!("{path} does not name {VERSION}"));
        }
        if let Some(other) = releases::all().find(|release| text.contains(release.version)) {
            return Err(format!("{path} names {}", other.version));
        }
    }
    let promised = read("docs/compatibility.md")?;
    for (row, path, constant) in FORMATS {
        let text = read(path)?;
        let line = text.lines().find_map(|line| line.split_once(constant));
        let written = line.map(|(_, rest)| rest.trim_end_matches(';').trim_matches('"'));
        let written = written.ok_or_else(|| format!("{path} has no `{constant}`"))?;
        if number(&promised, row) != Some(written) {
            return Err(format!("docs/compatibility.md, `{row}`: {path} writes format {written}"));
        }
    }
    Ok(format!("{} formats", FORMATS.len()))
}

fn before() -> Result<String, String> {
    let release = releases::before()?;
    let unknown = |_| format!("{} is not in the history: {}", release.version, release.commit);
    git(&["merge-base", "--is-ancestor", release.commit, "HEAD"]).map_err(unknown)?;
    let manifest = git(&["show", &format!("{}:Cargo.toml", release.commit)])?;
    if !manifest.contains(&format!("version = \"{}\"", release.version)) {
        return Err(format!("commit {} has another version than {}", release.commit, release.version));
    }
    Ok(format!("{}, {}", release.version, release.commit))
}

/// Packs the crates that are for other programs, in the order in which a registry takes them, and builds and sends none.
fn crates() -> Result<String, String> {
    let words = ["publish", "--dry-run", "--workspace", "--no-verify", "--allow-dirty"];
    let step = workspace::cargo(&words).limit_s(300).run_quietly();
    if step.passed { Ok(String::new()) } else { Err(step.output.trim().to_owned()) }
}

/// Checks the engine without what programs may leave out of it: without Ceph and TLS, and without the target too.
fn features() -> Result<String, String> {
    for features in ["", "target"] {
        let words =
            ["check", "--lib", "-p", "selvedge-engine", "--no-default-features", "--features", features];
        let step = workspace::cargo(&words).env("RUSTFLAGS", "-D warnings").limit_s(900).run_quietly();
        if !step.passed {
            return Err(step.output.trim().to_owned());
        }
    }
    Ok(String::new())
}

fn suites() -> Result<String, String> {
    let passes =
        |code| if code == ExitCode::SUCCESS { Ok(String::new()) } else { Err("see above".to_owned()) };
    passes(gate::run(&[])).and_then(|_| passes(proof::run(&["--left".to_owned()])))
}

fn packages() -> Result<String, String> {
    dist::twice().map(|()| String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_changelogs_and_tables() {
        assert_eq!(
            newest("# Changelog\n\n## 0.2.0 (2026-12-01)\n\n## 0.1.0 (x)"),
            Some(("0.2.0", Some("2026-12-01")))
        );
        assert_eq!(newest("## Unreleased\n"), Some(("Unreleased", None)));
        assert_eq!(newest("nothing"), None);
        assert_eq!(number("| a | b | c | d |\n| state of x | here | 7 | 6, 7 |", "state of"), Some("7"));
        assert_eq!(number("state of", "state of"), None);
    }

    #[test]
    fn what_documents_promise_is_what_is_written() {
        assert_eq!(documents().map(drop), Ok(()));
        assert_eq!(versions().map(drop), Ok(()));
    }
}
