//! The measurements that are kept; it keeps out how the program itself measures.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::packages::{self, Package};
use crate::{lab, stages, workspace};

/// Measurements without arguments.
const PLAIN: [&str; 5] = ["idle", "storm", "limits", "overlap", "tls"];
/// Measurements with arguments and a help text here.
const OWN_HELP: [&str; 2] = ["roofline", "stages"];
/// Measurements whose connections can be TLS.
const WITH_TLS: [&str; 2] = ["idle", "storm"];
const NAMES: &str = "there are roofline, idle, storm, limits, overlap, tls, stages, peers, latency and ceph";
/// Help of measurements without a help text of their own; the lab's programs have one.
const ROOFLINE_HELP: &str = "\
Usage: cargo xtask bench roofline [OPTIONS]

Measure the target against bare sockets on this machine.

  --rw randread|randwrite  direction of the I/O [default: randread]
  --tls                    all in TLS records, the bare servers' too, of the same AEAD
  --seconds S              length of each run [default: 1]
  --rounds N               runs of each case [default: 5]
  --only PART              only servers whose name has PART in it; PART|PART for several
  --output DIR             folder for the results [default: bench-runs/DATE-MACHINE]

Example:
  cargo xtask bench roofline --rw randwrite --rounds 3 --output /tmp/roofline";

/// Runs the measurement that the first argument names; the other arguments are the measurement's own.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let wants_help = |rest: &[String]| rest.iter().any(|arg| arg == "-h" || arg == "--help");
    match args.split_first() {
        Some((name, rest))
            if wants_help(rest) && (OWN_HELP.contains(&name.as_str()) || PLAIN.contains(&name.as_str())) =>
        {
            println!("{}", help(name));
            ExitCode::SUCCESS
        }
        Some((name, _)) if wants_help(std::slice::from_ref(name)) => {
            println!("Usage: cargo xtask bench NAME [ARG]...\n\n{NAMES}; NAME --help says more");
            ExitCode::SUCCESS
        }
        Some((name, rest)) if name == "roofline" => roofline(rest),
        Some((name, rest)) if name == "stages" => match stages::run(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => failed(&reason),
        },
        Some((name, rest)) if name == "peers" => status(peers(rest)),
        Some((name, rest)) if name == "latency" => status(become_lab(name, rest, &packages::LATENCY)),
        Some((name, rest)) if name == "ceph" => status(ceph(rest)),
        Some((name, [])) if PLAIN.contains(&name.as_str()) => measure(name, &[]),
        Some((name, tls)) if WITH_TLS.contains(&name.as_str()) && tls == ["--tls"] => measure(name, tls),
        Some((name, _)) if PLAIN.contains(&name.as_str()) => {
            crate::usage_error(&format!("{name} does not take these arguments; {name} --help says which"))
        }
        Some((name, _)) => crate::usage_error(&format!("there is no measurement `{name}`; {NAMES}")),
        None => crate::usage_error(&format!("bench needs the name of a measurement; {NAMES}")),
    }
}

/// Usage of a measurement, without starting or building anything.
fn help(name: &str) -> String {
    match name {
        "roofline" => ROOFLINE_HELP.to_owned(),
        "stages" => stages::HELP.to_owned(),
        name if WITH_TLS.contains(&name) => {
            format!("Usage: cargo xtask bench {name} [--tls]\n\nWith --tls its connections are TLS.")
        }
        name => format!("Usage: cargo xtask bench {name}\n\nIt takes no arguments."),
    }
}

/// The target against servers that do nothing but answer. The raw runs are kept, unless `--output` says where.
fn roofline(args: &[String]) -> ExitCode {
    let mut all: Vec<String> = args.to_vec();
    if !args.iter().any(|arg| arg == "--output") {
        all.extend(["--output".to_owned(), kept_runs().display().to_string()]);
    }
    measure("roofline", &all)
}

fn status(outcome: Result<Infallible, String>) -> ExitCode {
    match outcome {
        Ok(never) => match never {},
        Err(reason) => failed(&reason),
    }
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("xtask: {reason}");
    ExitCode::FAILURE
}

/// The Ceph gateway beside librbd alone. It takes no rights; without `--output`, results are kept with the other runs of the day.
fn ceph(args: &[String]) -> Result<Infallible, String> {
    packages::ensure(&packages::CEPH)?;
    packages::ensure(&packages::CEPH_BENCH)?;
    let program = workspace::measured_program()?;
    let mut command = Command::new(lab::build_program()?);
    command.args(["ceph", "bench"]).args(args).args(["--program", &program]);
    if !args.iter().any(|arg| arg == "--output") {
        command.arg("--output").arg(kept_runs().join("ceph"));
    }
    Err(format!("the lab's program does not start: {}", command.exec()))
}

/// Builds what is measured and what measures, and becomes the latter, so that a signal for us is one for it. Without
/// `--output`, results are kept with the other runs of the day.
fn become_lab(name: &str, args: &[String], needed: &[Package]) -> Result<Infallible, String> {
    if !packages::is_root() {
        return Err(format!("{name} starts programs that want root: tcpdump"));
    }
    packages::ensure(needed)?;
    let program = workspace::measured_program()?;
    let mut command = Command::new(lab::build_links()?);
    command.arg(name).args(args).args(["--program", &program]);
    if !args.iter().any(|arg| arg == "--output") {
        command.arg("--output").arg(kept_runs().join(name));
    }
    Err(format!("the lab's program does not start: {}", command.exec()))
}

/// Target and host beside others'. What cannot be installed is left out by the lab, which says so.
fn peers(args: &[String]) -> Result<Infallible, String> {
    for packages in [&packages::PEERS[..], &packages::PEERS_BLOCK] {
        if let Err(reason) = packages::ensure(packages).map_err(String::from) {
            eprintln!("xtask: some pairings will be left out: {reason}");
        }
    }
    let program = workspace::measured_program()?;
    let bare = roofline_program()?;
    let mut command = Command::new(lab::build_program()?);
    command.arg("peers").args(args).args(["--program", &program, "--bare", &bare]);
    if !args.iter().any(|arg| arg == "--output") {
        command.arg("--output").arg(kept_runs().join("peers"));
    }
    Err(format!("the lab's program does not start: {}", command.exec()))
}

/// Builds the roofline, which has the bare server and its client, and says where it is.
fn roofline_program() -> Result<String, String> {
    let words = [
        "bench",
        "--no-run",
        "--package",
        "selvedge-engine",
        "--bench",
        "roofline",
        "--message-format",
        "json",
    ];
    let built = workspace::cargo(&words).limit_s(1800).run_quietly();
    match executable(&built.output) {
        Some(path) if built.passed => Ok(path.to_owned()),
        _ => Err(format!("the roofline could not be built:\n{}", built.output)),
    }
}

/// The program that cargo names in its messages. No path here has characters that JSON writes otherwise.
fn executable(messages: &str) -> Option<&str> {
    messages.lines().rev().find_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next())
}

/// Builds and runs a benchmark of the engine.
fn measure(name: &str, args: &[String]) -> ExitCode {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root());
    command.args(["bench", "--quiet", "--package", "selvedge-engine", "--bench", name, "--"]);
    match command.args(args).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Folder for today's runs of this machine: `bench-runs/<date>-<machine>`.
pub(crate) fn kept_runs() -> PathBuf {
    let date = Command::new("date").arg("+%F").output().map(|output| output.stdout).unwrap_or_default();
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    workspace::root().join("bench-runs").join(format!("{date}-{}", machine()))
}

/// A name for this kind of machine: its processor, and how many of them.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.unwrap_or("unknown processor").replace("(R)", "").replace("(TM)", "").to_lowercase();
    let words: Vec<&str> =
        model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}-{count}cpu", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_asked_for_and_starts_nothing() {
        assert!(help("roofline").starts_with("Usage: cargo xtask bench roofline"));
        assert!(PLAIN.iter().all(|name| help(name).contains(name)));
        for args in [&["roofline", "--help"][..], &["stages", "--help"], &["idle", "-h"], &["--help"]] {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            // Anything else would build and run a benchmark here.
            assert_eq!(run(&args), ExitCode::SUCCESS);
        }
    }

    #[test]
    fn cargo_says_where_the_program_is() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"target\":{\"name\":\"roofline\"},\"executable\":\"/t/deps/roofline-1\",\"fresh\":true}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some("/t/deps/roofline-1"));
        assert_eq!(executable("{\"executable\":null}"), None);
    }
}
