//! The tests that mutants name: their programs are built of the broken tree with one command, and started without cargo, which
//! would look for changes before each of them. Which tests there are is the mutants' own concern.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::broken_rules::Rule;
use crate::command::{Finished, Step};
use crate::workspace;

/// Time that building all of them may take, in seconds.
const BUILD_MAX_S: u64 = 1800;

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

    /// Runs the test of a rule with a mutant in force, or with none, which is 0.
    pub(crate) fn run(&self, rule: &Rule, number: usize, limit_s: u64) -> Result<Finished, String> {
        let program = executable(&self.built, rule.package, rule.program)
            .ok_or_else(|| format!("cargo has built no tests of {}", rule.package))?;
        // Where cargo would run it.
        let folder = self.tree.join("crates").join(rule.package).display().to_string();
        let step = Step::new("env", &["-C", &folder, program, "--exact", rule.test]);
        Ok(step.env("MUTANT", &number.to_string()).limit_s(limit_s).run_quietly())
    }
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
