//! Which releases there are, and how the one before is built. What is tried with it is the suites' concern.

use std::path::PathBuf;

use crate::command::Step;
use crate::workspace;

/// This version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIST: &str = include_str!("../releases.txt");
const BUILD_LIMIT_S: u64 = 1800;
/// Packages of the release before: optimizing them takes longer than the tests that it is built for. What they are built of is
/// optimized as it is in this version, and built already. From 0.2 on, their names begin with `selvedge-`.
const OWN: [&str; 4] = ["attach", "authentication", "engine", "nvme"];

/// A release, by its number and its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release<'a> {
    pub(crate) version: &'a str,
    pub(crate) commit: &'a str,
}

/// All of a list, the newest first.
fn releases(list: &str) -> impl Iterator<Item = Release<'_>> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(version, commit)| Release { version, commit })
}

/// All but this version, the newest first.
pub(crate) fn all() -> impl Iterator<Item = Release<'static>> {
    releases(LIST).filter(|release| release.version != VERSION)
}

/// The release before this version.
pub(crate) fn before() -> Result<Release<'static>, String> {
    let found = all().next();
    found.ok_or_else(|| format!("xtask/releases.txt has no release before {VERSION}"))
}

/// The manifest of the release before, whose sources are below the build's output.
fn sources(release: Release<'_>) -> Result<PathBuf, String> {
    let folder = workspace::target_dir().join(format!("release-{}", release.version));
    let manifest = folder.join("Cargo.toml");
    if manifest.exists() {
        return Ok(manifest);
    }
    let root = workspace::root().display().to_string();
    let (begun, made) = (folder.with_extension("begun"), folder.display().to_string());
    let unpack = "mkdir -p \"$1\" && git -C \"$0\" -c safe.directory='*' archive \"$2\" | tar -x -C \"$1\" && mv \"$1\" \"$3\"";
    let begun = begun.display().to_string();
    let step =
        Step::new("bash", &["-o", "pipefail", "-c", unpack, &root, &begun, release.commit, &made]).run();
    if step.passed {
        Ok(manifest)
    } else {
        Err(format!("the sources of {} are not in this clone's history: {}", release.version, release.commit))
    }
}

/// Builds the program of a release, in the folder of all builds: most of its dependencies are
/// there.
fn step(release: Release<'_>) -> Result<Step, String> {
    let manifest = sources(release)?.display().to_string();
    let own: Vec<String> = OWN.iter().map(|own| format!("profile.dev.package.{own}.opt-level=0")).collect();
    let mut words = vec!["build", "--locked", "-p", "selvedge", "--manifest-path", &manifest];
    words.extend(own.iter().flat_map(|own| ["--config", own]));
    let build = workspace::cargo(&words);
    let target = workspace::target_dir().display().to_string();
    Ok(build.env("CARGO_TARGET_DIR", &target).limit_s(BUILD_LIMIT_S))
}

/// Builds the program of a release.
pub(crate) fn build(release: Release<'_>) -> Result<PathBuf, String> {
    let target = workspace::target_dir();
    if !step(release)?.run().passed {
        return Err(format!("release {} does not build", release.version));
    }
    // Its place is that of this version's program, too.
    let program = target.join(format!("release-{}/selvedge", release.version));
    let copied = std::fs::copy(target.join("debug/selvedge"), &program);
    copied.map(|_| program).map_err(|error| format!("release {}: {error}", release.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_before_is_of_another_version() {
        let before = before().unwrap();
        assert_ne!(before.version, VERSION);
        assert_eq!(before.commit.len(), 40);
        let list = "# of all\n0.3.0 b\n0.2.0 a\n";
        let found: Vec<&str> = releases(list).map(|release| release.version).collect();
        assert_eq!(found, ["0.3.0", "0.2.0"]);
    }
}
