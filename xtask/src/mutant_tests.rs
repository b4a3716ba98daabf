//! The tests that mutants name: their programs are built of the broken tree with one command, and started without cargo, which
//! would look for changes before each of them. Which tests there are is the mutants' own concern.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::broken_rules::Rule;
use crate::command::{Finished, Step};
use crate::{workers, workspace};

/// Time that building all of them may take, in seconds.
pub(crate) const BUILD_MAX_S: u64 = 1800;

/// Time that all tests of one program may take, in seconds.
const WELL_MAX_S: u64 = 900;

/// A package, and the program of an integration test of it, if it is one.
type Place = (&'static str, Option<&'static str>);

/// The programs.
pub(crate) struct MutantTests {
    tree: PathBuf,
    /// What cargo said of what it has built, a line of JSON for each.
    built: String,
}

impl MutantTests {
    /// Builds the programs of these rules. What they are built of is shared with other tests, as far as it is not broken.
    pub(crate) fn build(tree: &Path, rules: &[&Rule]) -> Result<Self, String> {
        let manifest = tree.join("Cargo.toml").display().to_string();
        let mut words = vec!["test", "--no-run", "--message-format", "json-render-diagnostics", "--lib"];
        words.extend(["--manifest-path", &manifest]);
        let packages: BTreeSet<&str> = rules.iter().map(|rule| rule.package).collect();
        words.extend(packages.iter().flat_map(|package| ["-p", package]));
        let programs: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.program).collect();
        words.extend(programs.iter().flat_map(|program| ["--test", program]));
        let folder = workspace::target_dir().display().to_string();
        let build = workspace::cargo(&words).env("CARGO_TARGET_DIR", &folder).limit_s(BUILD_MAX_S).run();
        if !build.passed {
            return Err("the tests of the mutants do not build".to_owned());
        }
        Ok(Self { tree: tree.to_path_buf(), built: build.output })
    }

    /// Runs all tests that rules name once without any mutant, those of one program together.
    ///
    /// # Errors
    /// One does not pass, or is not there.
    pub(crate) fn pass_without_mutants(&self, rules: &[&Rule]) -> Result<(), String> {
        let mut programs: BTreeMap<Place, BTreeSet<&str>> = BTreeMap::new();
        for rule in rules {
            programs.entry((rule.package, rule.program)).or_default().insert(rule.test);
        }
        let programs: Vec<_> = programs.into_iter().collect();
        let well = workers::side_by_side(&programs, workers::per_processor(), |(place, tests)| {
            let tests: Vec<&str> = tests.iter().copied().collect();
            let finished = self.step(*place, &tests, 0)?.limit_s(WELL_MAX_S).run_quietly();
            match &not_passed(&finished.output, &tests)[..] {
                [] if finished.passed => Ok(()),
                others => {
                    let (others, output) = (others.join(", "), finished.output);
                    Err(format!("{others} of {} do not pass without any mutant: {output}", place.0))
                }
            }
        });
        well.into_iter().collect()
    }

    /// Runs the test of a rule with a mutant in force.
    pub(crate) fn run(&self, rule: &Rule, number: usize, limit_s: u64) -> Result<Finished, String> {
        let step = self.step((rule.package, rule.program), &[rule.test], number)?;
        Ok(step.limit_s(limit_s).run_quietly())
    }

    fn step(&self, (package, program): Place, tests: &[&str], number: usize) -> Result<Step, String> {
        let program = executable(&self.built, package, program)
            .ok_or_else(|| format!("cargo has built no tests of {package}"))?;
        // Where cargo would run it.
        let folder = self.tree.join("crates").join(package).display().to_string();
        let words = [&["-C", &folder, program, "--exact"], tests].concat();
        Ok(Step::new("env", &words).env("MUTANT", &number.to_string()))
    }
}

/// The tests that have not passed, by what a program of them has printed. One that has another name by now is among them.
fn not_passed<'a>(output: &str, tests: &[&'a str]) -> Vec<&'a str> {
    let passed = |test: &str| output.lines().any(|line| line == format!("test {test} ... ok"));
    tests.iter().copied().filter(|test| !passed(test)).collect()
}

/// Where the tests of a package are: those within it, or those of one of its integration tests.
fn executable<'a>(built: &'a str, package: &str, program: Option<&str>) -> Option<&'a str> {
    let manifest = format!("/crates/{package}/Cargo.toml\"");
    let kind = if program.is_some() { "\"kind\":[\"test\"]" } else { "\"kind\":[\"lib\"]" };
    let name = format!("\"name\":\"{}\"", program.unwrap_or(package));
    let is_it = |line: &&str| [&manifest, kind, &name].iter().all(|part| line.contains(*part));
    built.lines().filter(is_it).find_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_not_there_has_not_passed() {
        let output = "running 2 tests\ntest a::one ... ok\ntest a::two ... FAILED\n";
        assert_eq!(not_passed(output, &["a::one"]), [""; 0]);
        assert_eq!(not_passed(output, &["a::one", "a::two", "a"]), ["a::two", "a"]);
    }

    #[test]
    fn finds_the_programs_in_what_cargo_says() {
        let line = |package: &str, kind: &str, name: &str, executable: &str| {
            format!(
                "{{\"manifest_path\":\"/x/crates/{package}/Cargo.toml\",\"target\":{{\"kind\":[\"{kind}\"],\
                 \"name\":\"{name}\"}},\"executable\":{executable}}}\n"
            )
        };
        let built = [
            line("engine", "lib", "engine", "null"),
            line("engine", "lib", "engine", "\"/x/engine-1\""),
            line("engine", "test", "all", "\"/x/all-1\""),
            line("nvme", "test", "all", "\"/x/all-2\""),
        ]
        .concat();
        assert_eq!(executable(&built, "engine", None), Some("/x/engine-1"));
        assert_eq!(executable(&built, "engine", Some("all")), Some("/x/all-1"));
        assert_eq!(executable(&built, "nvme", Some("all")), Some("/x/all-2"));
        assert_eq!(executable(&built, "nvme", None), None);
    }
}
