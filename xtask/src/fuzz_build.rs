//! How the fuzzers are built, and how much of them is watched. Which fuzzers there are, and how they run, is `fuzz`'s.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::command::Step;
use crate::workspace;

/// The build takes some minutes, and the more the busier the machine's neighbours are: this is when it hangs.
const BUILD_LIMIT_S: u64 = 3600;

/// Code that is watched while a fuzzer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Edges, comparisons and memory of everything.
    All,
    /// The same of the project's own crates. What they are built of is as the unit suite has it, and built already.
    Own,
    /// Edges of everything: as many inputs as can be are tried.
    Edges,
}

/// Folder of the programs.
pub(crate) struct FuzzBuild {
    /// Inputs and findings stay in it.
    pub(crate) folder: PathBuf,
    pub(crate) programs: PathBuf,
}

/// Flags by which the compiler counts which edges of the code an input reaches, and where
/// comparisons were near, as cargo-fuzz sets them. Asserts hold here as in tests.
const FLAGS: [&str; 9] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    // Branches that become arithmetic would not be seen.
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Ccodegen-units=16",
];
/// Flags of fuzzers that are not fast: they watch memory, and each comparison as a hint for new
/// inputs.
const WATCHING_FLAGS: [&str; 2] = ["-Zsanitizer=address", "-Cllvm-args=-sanitizer-coverage-trace-compares"];

/// The project's packages in a fuzzer.
const OWN: [&str; 21] = [
    "administration",
    "attach",
    "attachment",
    "ceph_nvmeof",
    "chart",
    "command_line",
    "examination",
    "fuzz",
    "gateway",
    "host_connection",
    "measurement",
    "nbd",
    "selvedge",
    "selvedge-authentication",
    "selvedge-engine",
    "selvedge-nvme",
    "selvedge-private-folder",
    "selvedge-secure-channel",
    "selvedge-tls-handshake",
    "selvedge-topology",
    "tuning",
];

/// Has this program stand in for the compiler.
const AS_COMPILER: &str = "SELVEDGE_FUZZ_COMPILER";

impl FuzzBuild {
    /// Builds all of them with one command.
    ///
    /// # Errors
    /// They do not build.
    pub(crate) fn make(watch: Watch) -> Result<Self, String> {
        let step = step(watch)?;
        if !step.run().passed {
            return Err("the fuzzers do not build".to_owned());
        }
        let folder = folder(watch);
        let programs = match watch {
            Watch::Own => workspace::target_dir().join("debug"),
            Watch::All | Watch::Edges => folder.join(triple()).join("fuzz"),
        };
        Ok(Self { folder, programs })
    }
}

fn folder(watch: Watch) -> PathBuf {
    workspace::target_dir().join(match watch {
        Watch::All | Watch::Own => "fuzz",
        Watch::Edges => "fuzz-fast",
    })
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn flags(watch: Watch) -> Vec<&'static str> {
    let watching = if watch == Watch::Edges { &[][..] } else { &WATCHING_FLAGS };
    FLAGS.iter().chain(watching).copied().collect()
}

fn step(watch: Watch) -> Result<Step, String> {
    let words = ["build", "--package", "fuzz", "--bins", "--features", "libfuzzer"];
    if watch == Watch::Own {
        let myself = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
        // Another number of units, so that these crates are not taken for those of the tests.
        let units = OWN.map(|own| format!("profile.dev.package.{own}.codegen-units=16"));
        let words = words.into_iter().chain(units.iter().flat_map(|units| ["--config", units]));
        return Ok(workspace::cargo(&words.collect::<Vec<_>>())
            .env("CARGO_TARGET_DIR", &workspace::target_dir().display().to_string())
            .env("RUSTC_WRAPPER", &myself.display().to_string())
            .env(AS_COMPILER, "1")
            .env("CARGO_INCREMENTAL", "0")
            .limit_s(BUILD_LIMIT_S));
    }
    let (place, triple) = (folder(watch).display().to_string(), triple());
    // The flags are for what runs on the target alone: build scripts and macros, which the compiler loads, have none of them.
    let words = [&words[..], &["--profile", "fuzz", "--target", &triple, "--target-dir", &place]].concat();
    // The sanitizer's switch is not stable, and the compiler is: a fresh machine has no other.
    Ok(workspace::cargo(&words)
        .env("CARGO_ENCODED_RUSTFLAGS", &flags(watch).join("\u{1f}"))
        .env("RUSTC_BOOTSTRAP", "1")
        .limit_s(BUILD_LIMIT_S))
}

/// True if cargo has called this program in place of the compiler.
pub(crate) fn is_compiler() -> bool {
    std::env::var_os(AS_COMPILER).is_some()
}

/// Runs the compiler, with which `words` begin. The project's own crates get flags for what to
/// watch.
pub(crate) fn compile(words: &[OsString]) -> ExitCode {
    let Some((compiler, words)) = words.split_first() else {
        eprintln!("xtask: {AS_COMPILER} is for cargo, which names a compiler");
        return ExitCode::FAILURE;
    };
    let mut compile = Command::new(compiler);
    compile.args(words);
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    if package.is_some_and(|package| is_watched(&package, words)) {
        // Of these alone: build scripts of others ask for it, and would build something else than they have.
        compile.args(flags(Watch::Own)).env("RUSTC_BOOTSTRAP", "1");
    }
    let error = compile.exec();
    eprintln!("xtask: {} does not start: {error}", Path::new(compiler).display());
    ExitCode::FAILURE
}

/// A crate of the project that runs in a fuzzer: build scripts and macros run in the compiler.
fn is_watched(package: &Path, words: &[OsString]) -> bool {
    let is_own = ["crates", "fuzz"].iter().any(|folder| package.starts_with(workspace::root().join(folder)));
    let runs_elsewhere = |word: &OsString| {
        word.to_str().is_some_and(|word| word == "proc-macro" || word.starts_with("build_script_"))
    };
    is_own && !words.iter().any(runs_elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_project_has_written_and_a_fuzzer_runs_is_watched() {
        let words = |words: &str| words.split(' ').map(OsString::from).collect::<Vec<_>>();
        let library = words("--crate-name engine src/lib.rs --crate-type lib");
        let own = workspace::root().join("crates/engine");
        assert!(is_watched(&own, &library));
        assert!(is_watched(&workspace::root().join("fuzz"), &words("--crate-name config --crate-type bin")));
        assert!(!is_watched(Path::new("/elsewhere/crates/engine"), &library));
        assert!(!is_watched(&own, &words("--crate-name build_script_build build.rs --crate-type bin")));
        assert!(!is_watched(&own, &words("--crate-name derive src/lib.rs --crate-type proc-macro")));
    }
}
