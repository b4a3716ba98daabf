//! The fuzzers: their list, how they are run, and what is said of one that has found something. How they are built is
//! `fuzz_build`'s, what they hold the code to the `fuzz` folder's own.

use std::process::ExitCode;

use crate::command::{Finished, Step};
use crate::fuzz_build::{FuzzBuild, Watch};
use crate::suite::{Fault, Outcome};
use crate::{packages, usage_error, workers, workspace};

/// A fuzzer.
struct Target {
    name: &'static str,
    about: &'static str,
    /// Bytes of the longest input.
    length_max: u32,
    /// True if there is a list of words for it.
    has_words: bool,
}

const fn target(name: &'static str, about: &'static str, length_max: u32, has_words: bool) -> Target {
    Target { name, about, length_max, has_words }
}

const TARGETS: [Target; 20] = [
    target("receive_target", "any bytes at the target's end of a connection, cut anywhere", 512, false),
    target("receive_host", "any bytes at the initiator's end of a connection, cut anywhere", 512, false),
    target("connection", "whole connections of several hosts to a living target", 1024, false),
    target("hostile_target", "what peers describe themselves with, and the commands of hosts", 2048, false),
    target("hostile_controller", "the initiator against a target that lies", 256, false),
    target("config", "a target.toml of any text", 2048, true),
    target("nvmet_import", "what nvmetcli is said to have saved", 2048, true),
    target("ceph_nvmeof_import", "what is said to be the state of a ceph-nvmeof group", 16384, true),
    target("machine", "a recorded machine of any text", 16384, false),
    target("exchange", "hosts and controllers that authenticate, with an attacker on the way", 4096, false),
    target("client_hello", "what hosts of TLS say first, and keys and identities of any text", 4096, false),
    target(
        "handshake",
        "whole TLS handshakes of hosts and controllers, with an attacker on the way",
        1024,
        false,
    ),
    target("hand_over", "what the old process of a target is said to hand over", 4096, false),
    target("nbd", "an NBD client of any bytes, and one that keeps to the protocol mostly", 4096, false),
    target("virtqueue", "a guest of any bytes, and one that keeps to virtio mostly", 1024, false),
    target("ublk", "a kernel's ublk driver of any descriptors and completions", 1024, false),
    target("gateway_state", "the objects of a group of gateways, of any text", 4096, false),
    target(
        "state_files",
        "state, access file, audit log and records of an earlier process, of any text",
        4096,
        false,
    ),
    target("record", "TLS' records, with an attacker on the way, or of a peer that has the key", 4096, false),
    target("control_api", "requests made from the control API's own description", 1024, false),
];

/// Default time for each fuzzer.
const SECONDS: u64 = 60;
/// In the suite there is less.
const SUITE_SECONDS: u64 = 5;
/// Time for one input, of which the slowest are a few dozen that wait for a silent target.
const INPUT_LIMIT_S: u64 = 120;
/// Memory that no fuzzer needs: a finding of its own.
const MEMORY_MB: u64 = 2048;

/// Extent of a fuzzer's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Seconds(u64),
    Runs(u64),
}

/// Arguments of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    names: Vec<String>,
    extent: Extent,
    watch: Watch,
}

/// `cargo xtask fuzz [TARGET]... [--seconds N | --runs N] [--fast] [--list]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    if args.iter().any(|arg| arg == "--list") {
        for target in &TARGETS {
            println!("{:19} {}", target.name, target.about);
        }
        return ExitCode::SUCCESS;
    }
    let wanted = match parse(args) {
        Ok(wanted) => wanted,
        Err(problem) => return usage_error(&problem),
    };
    match packages::ensure(&packages::FUZZ).and_then(|()| Ok(fuzz(&wanted)?)) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(Fault::Product(reason) | Fault::Laboratory(reason)) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// A job for each fuzzer.
pub(crate) fn jobs() -> Vec<String> {
    TARGETS.iter().map(|target| target.name.to_owned()).collect()
}

/// A fuzzer on its kept inputs, and then on random ones for a while.
pub(crate) fn suite(job: &str) -> Outcome {
    let extent = Extent::Seconds(SUITE_SECONDS);
    fuzz(&Wanted { names: vec![job.to_owned()], extent, watch: Watch::Own }).map_err(Fault::from).into()
}

fn parse(args: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted { names: Vec::new(), extent: Extent::Seconds(SECONDS), watch: Watch::All };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--fast" => wanted.watch = Watch::Edges,
            "--seconds" | "--runs" => {
                let number = args.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                let number = number.ok_or_else(|| format!("{arg} needs a number"))?;
                wanted.extent = if arg == "--runs" { Extent::Runs(number) } else { Extent::Seconds(number) };
            }
            name if TARGETS.iter().any(|target| target.name == name) => wanted.names.push(name.to_owned()),
            other => return Err(format!("there is no fuzzer or option `{other}`; see fuzz --list")),
        }
    }
    Ok(wanted)
}

/// Builds the fuzzers and runs those that are wanted, as many at a time as there are processors.
fn fuzz(wanted: &Wanted) -> Result<String, String> {
    let build = FuzzBuild::make(wanted.watch)?;
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| wanted.names.is_empty() || wanted.names.iter().any(|name| name == target.name))
        .collect();
    let results = workers::side_by_side(&chosen, workers::per_processor(), |target| {
        run_one(&build, target, wanted.extent)
    });
    let found: Vec<&str> = results.iter().filter_map(|result| result.as_ref().err().copied()).collect();
    if !found.is_empty() {
        return Err(format!("found something: {}", found.join(", ")));
    }
    let executions: u64 = results.iter().flatten().sum();
    Ok(format!("{executions} executions of {} fuzzers", chosen.len()))
}

/// Runs one fuzzer: how many inputs it tried, or its name when it has found something.
fn run_one(build: &FuzzBuild, target: &Target, extent: Extent) -> Result<u64, &'static str> {
    let fuzz = workspace::root().join("fuzz");
    let kept = fuzz.join("corpus").join(target.name);
    // New inputs stay beside what is built: only reviewed ones belong to the project.
    let fresh = build.folder.join("corpus").join(target.name);
    let artifacts = build.folder.join("artifacts");
    for folder in [&fresh, &artifacts, &kept] {
        if let Err(error) = std::fs::create_dir_all(folder) {
            eprintln!("xtask: {} cannot be made: {error}", folder.display());
            return Err(target.name);
        }
    }
    let prefix = artifacts.join(format!("{}-", target.name));
    let mut args = vec![
        format!("-max_len={}", target.length_max),
        format!("-timeout={INPUT_LIMIT_S}"),
        format!("-rss_limit_mb={MEMORY_MB}"),
        format!("-artifact_prefix={}", prefix.display()),
        "-print_final_stats=1".to_owned(),
    ];
    let limit_s = match extent {
        Extent::Seconds(seconds) => {
            args.push(format!("-max_total_time={seconds}"));
            seconds + 2 * INPUT_LIMIT_S
        }
        Extent::Runs(runs) => {
            args.push(format!("-runs={runs}"));
            24 * 3600
        }
    };
    if target.has_words {
        args.push(format!("-dict={}", fuzz.join("words").join(target.name).display()));
    }
    args.extend([&fresh, &kept].map(|folder| folder.display().to_string()));
    let program = build.programs.join(target.name).display().to_string();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // Leaks are looked for by the fuzzers themselves: the sanitizer's way needs to trace its own process.
    // It keeps little of what was freed: what a fuzzer needs is bounded, and should be seen.
    let options = "detect_odr_violation=0:detect_leaks=0:quarantine_size_mb=16";
    let step = Step::new(&program, &args).env("ASAN_OPTIONS", options);
    let finished = step.limit_s(limit_s).run_quietly();
    if finished.passed {
        println!("{}", summary(target, &finished));
        return Ok(number(&finished.output, "stat::number_of_executed_units:").unwrap_or(0));
    }
    println!("{}", finding(target, &finished));
    Err(target.name)
}

/// The number behind the last occurrence of these words, up to the first character that is not a digit.
fn number(output: &str, words: &str) -> Option<u64> {
    let rest = output.rsplit_once(words)?.1.trim_start();
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn summary(target: &Target, finished: &Finished) -> String {
    let value = |words| number(&finished.output, words).unwrap_or(0);
    let (executions, rate) = (value("stat::number_of_executed_units:"), value("stat::average_exec_per_sec:"));
    let (edges, inputs) = (value(" cov: "), value(" corp: "));
    format!(
        "{:19} {executions} executions, {rate} a second, {edges} edges, {inputs} inputs kept",
        target.name
    )
}

/// Report of a finding: all that is needed to reproduce it without the machine that it was made on.
fn finding(target: &Target, finished: &Finished) -> String {
    let lines: Vec<&str> = finished.output.lines().filter(|line| !line.starts_with('#')).collect();
    let last = lines[lines.len().saturating_sub(80)..].join("\n");
    let path = finished.output.rsplit_once("Test unit written to ").and_then(|(_, rest)| rest.lines().next());
    let input = path.and_then(|path| Some((path, std::fs::read(path).ok()?)));
    let what = input.map_or_else(
        || "no input was written".to_owned(),
        |(path, bytes)| {
            format!(
                "its input is in {path}, and is in hexadecimal\n{}\n\
                 again: xxd -r -p > INPUT, and fuzz/README.md says how",
                hexadecimal(&bytes)
            )
        },
    );
    format!("{last}\n{} FOUND SOMETHING; {what}", target.name)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let lines =
        bytes.chunks(48).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn finished(output: &str) -> Finished {
        Finished { passed: false, was_cut_off: false, output: output.to_owned(), elapsed: Duration::ZERO }
    }

    #[test]
    fn every_fuzzer_that_is_listed_is_built_and_the_other_way_round() {
        let manifest = std::fs::read_to_string(workspace::root().join("fuzz/Cargo.toml")).unwrap();
        let built = manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next());
        let mut built: Vec<&str> = built.collect();
        let mut listed: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        built.sort_unstable();
        listed.sort_unstable();
        assert_eq!(built, listed);
        for target in TARGETS.iter().filter(|target| target.has_words) {
            assert!(workspace::root().join("fuzz/words").join(target.name).is_file(), "{}", target.name);
        }
    }

    #[test]
    fn a_command_line_names_fuzzers_and_how_long() {
        let parse = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let wanted = parse("config --runs 7 --fast").unwrap();
        assert_eq!(
            (wanted.extent, wanted.watch, &*wanted.names),
            (Extent::Runs(7), Watch::Edges, &["config".into()][..])
        );
        assert_eq!(parse("").unwrap().extent, Extent::Seconds(SECONDS));
        for wrong in ["--runs", "--seconds x", "--seconds 0", "nothing"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_finding_is_reported_whole() {
        let folder = std::env::temp_dir().join(format!("selvedge-fuzz-{}", std::process::id()));
        std::fs::write(&folder, [0, 0xab, 0xff]).unwrap();
        let output = format!("#5 NEW\npanicked at x\nTest unit written to {}\nBase64: x", folder.display());
        let text = finding(&TARGETS[0], &finished(&output));
        std::fs::remove_file(&folder).unwrap();
        assert!(text.contains("panicked at x") && text.contains("\n00abff\n"), "{text}");
        assert!(!text.contains("#5"), "{text}");
    }

    #[test]
    fn the_last_numbers_count() {
        let output = "#2 cov: 1 ft: 2 corp: 3/4b\n#9 DONE cov: 12 ft: 9 corp: 30/4Kb\n\
                      stat::number_of_executed_units: 77\nstat::average_exec_per_sec:     5\n";
        let text = summary(&TARGETS[0], &finished(output));
        assert!(text.ends_with("77 executions, 5 a second, 12 edges, 30 inputs kept"), "{text}");
    }
}
