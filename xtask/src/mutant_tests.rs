//! The tests that mutants name: their programs are built of the broken tree with one command, and started without cargo, which
//! would look for changes before each of them. Which tests there are is the mutants' own concern.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::command::{Finished, Step};
use crate::mutant::NamedTest;
use crate::{workers, workspace};

/// Time that building all of them may take, in seconds.
pub(crate) const BUILD_MAX_S: u64 = 1800;

/// Time that all tests of one program may take, in seconds.
const WELL_MAX_S: u64 = 900;

/// A folder of `crates`, and the program of an integration test of it, if it is one.
type TestTarget<'a> = (&'a str, Option<&'a str>);

/// The programs.
pub(crate) struct MutantTests {
    tree: PathBuf,
    /// Messages of cargo about what it has built, a line of JSON for each.
    built: String,
}

impl MutantTests {
    /// Builds the programs of these tests. What they are built of is shared with other tests, as far as it is not broken.
    pub(crate) fn build(tree: &Path, tests: &[&NamedTest]) -> Result<Self, String> {
        let manifest = tree.join("Cargo.toml").display().to_string();
        let folders: BTreeSet<&str> = tests.iter().map(|test| &*test.package).collect();
        let packages = folders.into_iter().map(workspace::package).collect::<Result<Vec<_>, _>>()?;
        let mut words = vec!["test", "--no-run", "--message-format", "json-render-diagnostics", "--lib"];
        words.extend(["--manifest-path", &manifest]);
        words.extend(packages.iter().flat_map(|package| ["-p", package]));
        let programs: BTreeSet<&str> = tests.iter().filter_map(|test| test.program.as_deref()).collect();
        words.extend(programs.iter().flat_map(|program| ["--test", program]));
        let folder = workspace::target_dir().display().to_string();
        let build = workspace::cargo(&words).env("CARGO_TARGET_DIR", &folder).limit_s(BUILD_MAX_S).run();
        if !build.passed {
            return Err("the tests of the mutants do not build".to_owned());
        }
        Ok(Self { tree: tree.to_path_buf(), built: build.output })
    }

    /// Runs all these tests once without any mutant, those of one program together.
    ///
    /// # Errors
    /// Tests that do not pass, or are not there.
    pub(crate) fn pass_without_mutants(&self, tests: &[&NamedTest]) -> Result<(), String> {
        let mut programs: BTreeMap<TestTarget<'_>, BTreeSet<&str>> = BTreeMap::new();
        for test in tests {
            programs.entry(test_target(test)).or_default().insert(&test.name);
        }
        let programs: Vec<_> = programs.into_iter().collect();
        let well = workers::side_by_side(&programs, workers::per_processor(), |(test_target, tests)| {
            let tests: Vec<&str> = tests.iter().copied().collect();
            let finished = self.step(*test_target, &tests, "")?.limit_s(WELL_MAX_S).run_quietly();
            match &not_passed(&finished.output, &tests)[..] {
                [] if finished.passed => Ok(()),
                others => {
                    let (others, output) = (others.join(", "), finished.output);
                    Err(format!("{others} of {} do not pass without any mutant: {output}", test_target.0))
                }
            }
        });
        well.into_iter().collect()
    }

    /// Runs a test with a mutant in force.
    pub(crate) fn run(&self, test: &NamedTest, mutant: &str, limit_s: u64) -> Result<Finished, String> {
        let step = self.step(test_target(test), &[&test.name], mutant)?;
        Ok(step.limit_s(limit_s).run_quietly())
    }

    fn step(&self, (package, program): TestTarget<'_>, tests: &[&str], mutant: &str) -> Result<Step, String> {
        let program = executable(&self.built, package, program)
            .ok_or_else(|| format!("cargo has built no tests of {package}"))?;
        // Cargo would run it in this folder.
        let folder = self.tree.join("crates").join(package).display().to_string();
        let words = [&["-C", &folder, program, "--exact"], tests].concat();
        Ok(Step::new("env", &words).env("MUTANT", mutant))
    }
}

fn test_target(test: &NamedTest) -> TestTarget<'_> {
    (&test.package, test.program.as_deref())
}

/// The tests that have not passed, by what a program of them has printed. One that has another name by now is among them.
fn not_passed<'a>(output: &str, tests: &[&'a str]) -> Vec<&'a str> {
    let passed = |test: &str| output.lines().any(|line| line == format!("test {test} ... ok"));
    tests.iter().copied().filter(|test| !passed(test)).collect()
}

/// Program with the tests of a package: those within it, or those of one of its integration tests.
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
    use crate::imports::module_of;
    use crate::{mutant, tidy};

    #[test]
    fn every_test_that_a_mutant_names_is_there() {
        let mutants = mutant::all().unwrap_or_else(|problems| panic!("{problems}"));
        let files = tidy::files().expect("a checkout");
        let is_there = |test: &NamedTest| {
            let folder = match &test.program {
                Some(program) => format!("crates/{}/tests/{program}/", test.package),
                None => format!("crates/{}/src/", test.package),
            };
            let path: Vec<&str> = test.name.split("::").collect();
            let function = format!("fn {}(", path[path.len() - 1]);
            // Tests of a module may stand in a file beside it.
            let is_beside = |module: &[String]| {
                let folder = &module[..module.len().saturating_sub(1)];
                path.len() > folder.len() && path.iter().zip(folder).all(|(name, own)| name == own)
            };
            files.iter().any(|file| {
                let module = file.path.strip_prefix(&folder).and_then(module_of);
                module.is_some_and(|module| is_beside(&module)) && file.text.contains(&function)
            })
        };
        let missing: Vec<String> = mutants
            .iter()
            .filter_map(|mutant| mutant.test().map(|test| (mutant, test)))
            .filter(|(_, test)| !is_there(test))
            .map(|(mutant, test)| format!("{}: there is no test {}", mutant.path, test.name))
            .collect();
        assert!(missing.is_empty(), "{}", missing.join("\n"));
    }

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
