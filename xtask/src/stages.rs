//! `cargo xtask bench stages`: the cost of the times by stage, in IOPS. This program runs by turns with one that is built without
//! them, at both ends.

use crate::command::{Finished, Step};
use crate::guest::{Scratch, Target};
use crate::workspace;

/// Removal of what counts them. The clock is read as before: most of its readings are those of latencies.
const PATCH: &str = "lab/without-stages.patch";
pub(crate) const HELP: &str = "\
Usage: cargo xtask bench stages [--rounds N] [--seconds S]

Measure the cost of the times of commands by stage against the same sources
without them: 4 KiB at depth 32, one queue. Reads of memory have no stages.

  --rounds N   pairs of runs for each workload, from 6 [default: 21]
  --seconds S  length of each run [default: 3]";
const NQN: &str = "nqn.2026-01.io.selvedge:stages";
/// Names of the workloads, with namespace and direction.
const WORKLOADS: [(&str, &str, &str); 3] = [
    ("reads of a file", "file", "randread"),
    ("writes to a file", "file", "randwrite"),
    ("writes to memory", "memory:64m", "randwrite"),
];
/// Fewer pairs have no interval of 95 %.
const ROUNDS_MIN: usize = 6;
const BUILD_LIMIT_S: u64 = 3600;

/// Runs the measurement.
///
/// # Errors
/// Wrong arguments, or a program that is not built or does not run.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (rounds, seconds) = parsed(args)?;
    let programs = [workspace::measured_program()?, program_without()?];
    let scratch = Scratch::new("stages", false)?;
    let file = format!("file:{},size=64m", scratch.path.join("disk").display());
    let output = scratch.path.join("report.json").display().to_string();
    let mut lines = Vec::new();
    for (name, namespace, direction) in WORKLOADS {
        let namespace = if namespace == "file" { file.as_str() } else { namespace };
        let mut costs = Vec::new();
        for round in 0..rounds {
            let mut iops = [0.0; 2];
            // Each is the first of every other pair.
            for side in [round % 2, (round + 1) % 2] {
                iops[side] =
                    measure(&programs[side], namespace, direction, (seconds.as_str(), output.as_str()))?;
            }
            println!("{name}, round {}: {:.0} IOPS, {:.0} without stages", round + 1, iops[0], iops[1]);
            costs.push(100.0 * (1.0 - iops[0] / iops[1]));
        }
        let (low, median, high) = interval(&mut costs);
        lines.push(format!("{name}: {median:.2} % of IOPS ({low:.2} to {high:.2} %, {rounds} pairs)"));
    }
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn parsed(args: &[String]) -> Result<(usize, String), String> {
    let (mut rounds, mut seconds) = (21, 3);
    for pair in args.chunks(2) {
        let [flag, value] = pair else { return Err(format!("{} needs a value\n\n{HELP}", pair[0])) };
        let number: usize = value.parse().map_err(|_| format!("`{value}` is not a number\n\n{HELP}"))?;
        match flag.as_str() {
            "--rounds" if number >= ROUNDS_MIN => rounds = number,
            "--seconds" if number > 0 => seconds = number,
            _ => return Err(format!("{flag} {value} is not possible\n\n{HELP}")),
        }
    }
    Ok((rounds, seconds.to_string()))
}

/// Builds the program of these sources with the patch, in a folder that keeps what was built.
fn program_without() -> Result<String, String> {
    let folder = workspace::target_dir().join("without-stages");
    let (root, tree) = (workspace::root(), folder.join("tree").display().to_string());
    let root_path = root.display().to_string();
    if !git(&root_path, &["diff", "--quiet", "HEAD", "--", "crates", "Cargo.toml", "Cargo.lock"]).passed {
        return Err("there are changes without a commit, which one side would not have".to_owned());
    }
    // That of a run that was interrupted.
    git(&root_path, &["worktree", "remove", "--force", &tree]);
    let patch = root.join(PATCH).display().to_string();
    let made = git(&root_path, &["worktree", "add", "--force", "--detach", &tree, "HEAD"]);
    let applied = git(&tree, &["apply", &patch]);
    let built = folder.join("built").display().to_string();
    let manifest = format!("{tree}/Cargo.toml");
    let build =
        workspace::cargo(&["build", "--profile", "dist", "-p", "selvedge", "--manifest-path", &manifest])
            .env("CARGO_TARGET_DIR", &built)
            .limit_s(BUILD_LIMIT_S);
    let is_built = made.passed && applied.passed && build.run().passed;
    git(&root_path, &["worktree", "remove", "--force", &tree]);
    if is_built {
        Ok(format!("{built}/dist/selvedge"))
    } else {
        Err(format!("the program without stages is not built: {}{}", made.output, applied.output))
    }
}

fn git(folder: &str, words: &[&str]) -> Finished {
    Step::new("git", &[&["-C", folder][..], words].concat()).run_quietly()
}

/// IOPS of a run, in which the program is target and host.
fn measure(
    program: &str,
    namespace: &str,
    direction: &str,
    (seconds, output): (&str, &str),
) -> Result<f64, String> {
    let serve = ["serve", "-a", "127.0.0.1", "-s", "0", "-n", NQN, "--allow-any-host", "--control", "none"];
    let mut target =
        Target::start_with(program, &[&serve[..], &["--reactors", "1", "--namespace", namespace]].concat())?;
    let bench = ["bench", "-a", "127.0.0.1", "-s", &target.port, "-n", NQN, "--rw", direction, "--bs", "4k"];
    let work = ["--iodepth", "32", "--runtime", seconds, "--destroy-data", "-o", "json", "--output", output];
    let bench = Step::new(program, &[&bench[..], &work].concat()).run_quietly();
    target.stop()?;
    if !bench.passed {
        return Err(bench.output);
    }
    let text = std::fs::read_to_string(output).map_err(|error| format!("{output}: {error}"))?;
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{output}: {error}"))?;
    report["total"]["iops"].as_f64().filter(|iops| *iops > 0.0).ok_or_else(|| format!("no IOPS in {text}"))
}

/// Median of at least six figures, between the ends of its interval of 95 % or more.
fn interval(figures: &mut [f64]) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    let count = figures.len();
    // Probability that at most `outside` of the figures are below the median.
    let mut term = 0.5f64.powi(count as i32);
    let mut tail = term;
    let mut outside = 0;
    loop {
        term *= (count - outside) as f64 / (outside + 1) as f64;
        if tail + term > 0.025 {
            break;
        }
        tail += term;
        outside += 1;
    }
    let median = (figures[(count - 1) / 2] + figures[count / 2]) / 2.0;
    (figures[outside], median, figures[count - 1 - outside])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_applies() {
        let root = workspace::root().display().to_string();
        let checked = git(&root, &["apply", "--check", PATCH]);
        assert!(checked.passed, "{}", checked.output);
    }

    #[test]
    fn medians_have_intervals_of_ranks() {
        let of = |count: u8| interval(&mut (1..=count).rev().map(f64::from).collect::<Vec<f64>>());
        assert_eq!(of(6), (1.0, 3.5, 6.0));
        assert_eq!(of(9), (2.0, 5.0, 8.0));
        assert_eq!(of(21), (6.0, 11.0, 16.0));
    }

    #[test]
    fn wrong_arguments_are_named() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        assert_eq!(parsed(&words("--rounds 9 --seconds 2")), Ok((9, "2".to_owned())));
        for (line, part) in
            [("--rounds", "needs a value"), ("--rounds 5", "not possible"), ("--seconds x", "not a number")]
        {
            assert!(parsed(&words(line)).is_err_and(|reason| reason.contains(part)), "{line}");
        }
    }
}
