//! A mutant as its patch file describes it: fields of a header above a unified diff. It keeps out how the diff is applied and how
//! the mutant is caught.

use std::fs;

use crate::workspace;

/// Folder of the patch files.
pub(crate) const FOLDER: &str = "proof/mutants";

/// Change that a broken build has, with what is known about it.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    /// The patch file, by its path below the root.
    pub(crate) path: String,
    /// Summary in a few words.
    pub(crate) about: String,
    pub(crate) caught_by: CaughtBy,
    /// Files that the diff changes.
    pub(crate) files: Vec<String>,
}

/// Program that has to fail while a mutant is in force.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CaughtBy {
    /// Scenes of the simulation, this seed first: it is given where a hundred seeds do not meet the mutant. Other seeds meet it
    /// when the simulation has changed.
    Simulation {
        first_seed: u64,
    },
    Test(NamedTest),
}

/// A test of one of the crates.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedTest {
    pub(crate) package: String,
    /// Program of an integration test, `None` for a test within the package.
    pub(crate) program: Option<String>,
    /// Path of modules, and the function.
    pub(crate) name: String,
}

impl Mutant {
    pub(crate) fn test(&self) -> Option<&NamedTest> {
        match &self.caught_by {
            CaughtBy::Test(test) => Some(test),
            CaughtBy::Simulation { .. } => None,
        }
    }

    /// Reads a patch file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its path.
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = fs::read_to_string(workspace::root().join(path));
        text.map_err(|error| error.to_string())
            .and_then(|text| Self::parse(path, &text))
            .map_err(|problem| format!("{path}: {problem}"))
    }

    fn parse(path: &str, text: &str) -> Result<Self, String> {
        let file = path.rsplit('/').next().unwrap_or(path);
        let name = file.strip_suffix(".patch").ok_or("the name of a patch file ends with .patch")?;
        let (mut about, mut caught_by, mut first_seed) = (None, None, None);
        for line in text.lines().take_while(|line| !is_diff(line)).filter(|line| !line.is_empty()) {
            let (field, value) = line.split_once(": ").ok_or(format!("`{line}` is not a field"))?;
            let place = match field {
                "about" => &mut about,
                "caught-by" => &mut caught_by,
                "first-seed" => &mut first_seed,
                other => return Err(format!("unknown field `{other}`")),
            };
            if place.replace(value).is_some() {
                return Err(format!("field `{field}` appears twice"));
            }
        }
        let about = about.ok_or("field `about` is missing")?.to_owned();
        let caught_by = caught_by.ok_or("field `caught-by` is missing")?;
        let caught_by = CaughtBy::parse(caught_by, first_seed)?;
        let diff = || text.lines().skip_while(|line| !is_diff(line));
        let switch = format!("crate::is_mutant({name:?})");
        let switches = || diff().filter(|line| line.starts_with('+') && line.contains("is_mutant("));
        if let Some(other) = switches().find(|line| !line.contains(&switch)) {
            return Err(format!(
                "`{}` has another switch than {switch}",
                other.trim_start_matches('+').trim()
            ));
        }
        if switches().next().is_none() {
            return Err(format!("no added line has the switch {switch}"));
        }
        let files: Vec<String> =
            diff().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect();
        if files.is_empty() {
            return Err("the diff has no line `+++ b/FILE`".to_owned());
        }
        Ok(Self { name: name.to_owned(), path: path.to_owned(), about, caught_by, files })
    }
}

fn is_diff(line: &str) -> bool {
    line.starts_with("diff --git ")
}

impl CaughtBy {
    /// `simulation`, `test PACKAGE --lib NAME` or `test PACKAGE --test PROGRAM NAME`.
    fn parse(value: &str, first_seed: Option<&str>) -> Result<Self, String> {
        let words: Vec<&str> = value.split(' ').collect();
        let (package, program, name) = match words[..] {
            ["simulation"] => {
                let seed = first_seed.unwrap_or("0");
                let first_seed = seed.parse().map_err(|_| format!("first-seed: `{seed}` is not a seed"))?;
                return Ok(Self::Simulation { first_seed });
            }
            ["test", package, "--lib", name] => (package, None, name),
            ["test", package, "--test", program, name] => (package, Some(program.to_owned()), name),
            _ => {
                return Err(format!(
                    "caught-by: `{value}` is none of `simulation`, `test PACKAGE --lib NAME`, \
                     `test PACKAGE --test PROGRAM NAME`"
                ));
            }
        };
        if first_seed.is_some() {
            return Err("first-seed: a test has no seeds".to_owned());
        }
        Ok(Self::Test(NamedTest { package: package.to_owned(), program, name: name.to_owned() }))
    }
}

/// All mutants in the order of their names.
///
/// # Errors
/// All patch files with something wrong in them, a line for each.
pub(crate) fn all() -> Result<Vec<Mutant>, String> {
    let folder = workspace::root().join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let (mut mutants, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        match Mutant::read(&format!("{FOLDER}/{name}")) {
            Ok(mutant) => mutants.push(mutant),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(mutants) } else { Err(problems.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\ndiff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n";

    fn parse(header: &str, added: &str) -> Result<Mutant, String> {
        Mutant::parse("proof/mutants/slow.patch", &format!("{header}{DIFF}+{added}\n"))
    }

    #[test]
    fn a_header_says_what_catches_the_mutant() {
        let on = "crate::is_mutant(\"slow\");";
        let played = parse("about: b: c\ncaught-by: simulation\nfirst-seed: 7\n", on).expect("a mutant");
        assert_eq!((&*played.name, &*played.about), ("slow", "b: c"));
        assert_eq!(played.files, ["x.rs"]);
        assert_eq!(played.caught_by, CaughtBy::Simulation { first_seed: 7 });
        let test = |program: Option<&str>| NamedTest {
            package: "engine".into(),
            program: program.map(str::to_owned),
            name: "a::b".into(),
        };
        let lib = parse("about: b\ncaught-by: test engine --lib a::b\n", on).expect("a mutant");
        assert_eq!(lib.test(), Some(&test(None)));
        let all = parse("about: b\ncaught-by: test engine --test all a::b\n", on).expect("a mutant");
        assert_eq!(all.test(), Some(&test(Some("all"))));
    }

    #[test]
    fn a_wrong_header_is_refused_with_its_field() {
        let on = "crate::is_mutant(\"slow\");";
        let refused = |header: &str, added: &str, problem: &str| {
            let said = parse(header, added).expect_err("it is wrong");
            assert!(said.contains(problem), "{said}");
        };
        refused("caught-by: simulation\n", on, "`about` is missing");
        refused("about: b\n", on, "`caught-by` is missing");
        refused("about: b\nabout: c\n", on, "appears twice");
        refused("about: b\nseed: 3\n", on, "unknown field `seed`");
        refused("about: b\nof no use\n", on, "`of no use` is not a field");
        refused("about: b\ncaught-by: luck\n", on, "`luck` is none of");
        refused("about: b\ncaught-by: simulation\nfirst-seed: x\n", on, "`x` is not a seed");
        refused("about: b\ncaught-by: test engine --lib a\nfirst-seed: 1\n", on, "a test has no seeds");
        refused("about: b\ncaught-by: simulation\n", "b", "no added line has the switch");
        refused("about: b\ncaught-by: simulation\n", "crate::is_mutant(\"fast\")", "another switch");
    }
}
