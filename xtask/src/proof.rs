//! The proof, `cargo xtask prove`: real kernels, clusters, browsers, broken builds and chance, in suites of jobs that stand alone. Each
//! job's end is kept, so that a run goes on with the jobs that have not passed on these sources.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use crate::packages;
use crate::processor_time::ProcessorTime;
use crate::proof_record::{ProofRecord, Record};
use crate::run_lock::RunLock;
use crate::source_tree::SourceTree;
use crate::suite::{Fault, Options, Outcome, Row, Suite, Table};
use crate::{
    attach, ceph, chaos, commands, fuzz, guest, install, machine, mutants, pages, paths, races, tune,
    usage_error, versions, workers, workspace,
};

/// Sources of every program.
const PROGRAM: [&str; 5] = ["Cargo.lock", "Cargo.toml", "crates", "lab", "xtask"];
const BROWSER: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "README.md", "book", "crates", "docs", "lab", "xtask"];
const PACKAGES: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "crates", "dist", "docs", "lab", "packaging", "xtask"];
const SIMULATION: [&str; 6] = ["Cargo.lock", "Cargo.toml", "crates", "proof", "simulate", "xtask"];
const FUZZERS: [&str; 5] = ["Cargo.lock", "Cargo.toml", "crates", "fuzz", "xtask"];

fn alone() -> Vec<String> {
    vec![String::new()]
}

/// In the order in which they run: the quickest to fail comes first.
const SUITES: [Suite; 14] = [
    Suite {
        name: "machine",
        about: "the tests that take root, devices, networks, others' programs or the clock, none of them skipped",
        packages: &packages::UNIT,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 10,
        workers: 1,
        jobs: machine::jobs,
        run: machine::run,
    },
    Suite {
        name: "races",
        about: "threads that meet without locks, in every order in which they may",
        packages: &[],
        needs_root: false,
        inputs: &PROGRAM,
        minutes: 3,
        workers: 1,
        jobs: alone,
        run: |_, _| races::suite(),
    },
    Suite {
        name: "tune",
        about: "the tuner on interfaces with four queues: changes, counters, kill -9 at each write, restoration",
        packages: &packages::TUNE,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 1,
        workers: 1,
        jobs: alone,
        run: |options, _| tune::suite(options),
    },
    Suite {
        name: "pages",
        about: "documents, reports and the console in a headless Chromium",
        packages: &packages::BROWSER,
        needs_root: false,
        inputs: &BROWSER,
        minutes: 3,
        workers: 1,
        jobs: alone,
        run: |options, _| pages::suite(options),
    },
    Suite {
        name: "commands",
        about: "every nvme-cli command, with a second host and live changes, in two guests",
        packages: &packages::GUEST,
        needs_root: false,
        inputs: &PROGRAM,
        minutes: 2,
        workers: 1,
        jobs: alone,
        run: |options, _| commands::run(options),
    },
    Suite {
        name: "attach",
        about: "QEMU's, libnbd's and the kernel's clients and virtual machines on disks of `selvedge attach`",
        packages: &packages::ATTACH,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 4,
        workers: 1,
        jobs: attach::jobs,
        run: attach::run,
    },
    Suite {
        name: "paths",
        about: "several paths: policies, ANA states and cuts, for the Linux kernel's host and for Selvedge's",
        packages: &packages::PATHS_SUITE,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 3,
        workers: 1,
        jobs: paths::jobs,
        run: paths::run,
    },
    Suite {
        name: "kernel",
        about: "the Linux kernel in a guest as host and as target: block devices, TLS, authentication, upgrades",
        packages: &packages::GUEST,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 14,
        workers: 2,
        jobs: guest::jobs,
        run: guest::run,
    },
    Suite {
        name: "ceph",
        about: "images of a real Ceph and its failures; gateways killed, stopped and cut off",
        packages: &packages::CEPH,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 19,
        workers: 1,
        jobs: ceph::jobs,
        run: ceph::run,
    },
    Suite {
        name: "versions",
        about: "the release before beside this version: as hosts and targets, by files and commands, in turn",
        packages: &packages::CHECK,
        needs_root: false,
        inputs: &PROGRAM,
        minutes: 3,
        workers: 1,
        jobs: alone,
        run: |_, _| versions::suite(),
    },
    Suite {
        name: "chaos",
        about: "targets killed, stopped, cut off, filled and attacked under hosts that check every block",
        packages: &packages::CHAOS,
        needs_root: true,
        inputs: &PROGRAM,
        minutes: 3,
        workers: 1,
        jobs: alone,
        run: |options, _| chaos::suite(options),
    },
    Suite {
        name: "install",
        about: "packages, checked by others' programs, installed, upgraded and purged in whole Debian guests",
        packages: &packages::INSTALL,
        needs_root: true,
        inputs: &PACKAGES,
        minutes: 10,
        workers: 1,
        jobs: install::jobs,
        run: install::run,
    },
    Suite {
        name: "mutants",
        about: "broken builds, each of which the simulation or a test has to notice",
        packages: &[],
        needs_root: false,
        inputs: &SIMULATION,
        minutes: 12,
        workers: 1,
        jobs: mutants::jobs,
        run: |_, job| mutants::suite(job),
    },
    Suite {
        name: "fuzz",
        about: "every fuzzer on the inputs it has kept, and on random ones",
        packages: &packages::FUZZ,
        needs_root: false,
        inputs: &FUZZERS,
        minutes: 8,
        workers: 2,
        jobs: fuzz::jobs,
        run: |_, job| fuzz::suite(job),
    },
];

/// A job of the proof.
struct Job {
    suite: &'static Suite,
    name: String,
}

impl Job {
    /// SUITE/JOB, or the suite alone where it has one job.
    fn path(&self) -> String {
        match &*self.name {
            "" => self.suite.name.to_owned(),
            name => format!("{}/{name}", self.suite.name),
        }
    }

    /// True if a name of the command line means it.
    fn is_meant_by(&self, name: &str) -> bool {
        name == self.suite.name || name == self.path()
    }
}

fn all_jobs() -> Vec<Job> {
    SUITES.iter().flat_map(|suite| (suite.jobs)().into_iter().map(move |name| Job { suite, name })).collect()
}

/// The command line.
#[derive(Default)]
struct Wanted {
    names: Vec<String>,
    is_listed: bool,
    is_left_only: bool,
    keep: bool,
}

/// `cargo xtask prove [SUITE[/JOB]]... [--left] [--list] [--keep]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let jobs = all_jobs();
    let mut wanted = Wanted::default();
    for arg in args {
        match arg.as_str() {
            "--list" => wanted.is_listed = true,
            "--left" => wanted.is_left_only = true,
            "--keep" => wanted.keep = true,
            name if jobs.iter().any(|job| job.is_meant_by(name)) => wanted.names.push(name.to_owned()),
            other => {
                return usage_error(&format!(
                    "the proof has no suite, job or option `{other}`; see prove --list"
                ));
            }
        }
    }
    match prove(jobs, &wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// True if all that ran passed.
fn prove(mut jobs: Vec<Job>, wanted: &Wanted) -> Result<bool, String> {
    let is_meant =
        |job: &Job| wanted.names.is_empty() || wanted.names.iter().any(|name| job.is_meant_by(name));
    jobs.retain(is_meant);
    if wanted.is_listed {
        list(&jobs)?;
        return Ok(true);
    }
    let _lock = RunLock::take()?;
    let run = Run {
        tree: SourceTree::of_checkout()?,
        record: Mutex::new(ProofRecord::read()?),
        table: Mutex::new(Table::new(workspace::is_ci())),
        options: Options { keep: wanted.keep },
    };
    let count = jobs.len();
    if wanted.is_left_only {
        let mut left = Vec::new();
        for job in jobs {
            if !run.holds(&job)? {
                left.push(job);
            }
        }
        jobs = left;
        println!("{} of {count} jobs have not passed on these sources", jobs.len());
        if jobs.is_empty() {
            return Ok(true);
        }
    }
    for suite in &SUITES {
        let of_suite: Vec<&Job> = jobs.iter().filter(|job| job.suite.name == suite.name).collect();
        if !of_suite.is_empty() {
            run.suite(suite, &of_suite)?;
        }
    }
    let table = run.table.into_inner().map_err(|_| "a job ended in a panic".to_owned())?;
    print!("\n{}", table.text());
    Ok(table.is_green())
}

/// State that all jobs of a run share.
struct Run {
    tree: SourceTree,
    record: Mutex<ProofRecord>,
    table: Mutex<Table>,
    options: Options,
}

impl Run {
    fn holds(&self, job: &Job) -> Result<bool, String> {
        let inputs = self.tree.hash_of(job.suite.inputs)?;
        let record = self.record.lock().map_err(|_| "a job ended in a panic".to_owned())?;
        Ok(record.of(&job.path()).is_some_and(|record| record.holds_for(&inputs)))
    }

    fn suite(&self, suite: &Suite, jobs: &[&Job]) -> Result<(), String> {
        println!("\n== {}: {}", suite.name, suite.about);
        let prepared = suite.prepare();
        let ended = workers::side_by_side(jobs, suite.workers.min(workers::per_processor()), |job| {
            let missing = match &prepared {
                Ok(()) => None,
                Err(Fault::Product(reason)) => Some(Outcome::Skipped(reason.clone())),
                Err(Fault::Laboratory(reason)) => Some(Outcome::Laboratory(reason.clone())),
            };
            self.job(job, missing)
        });
        ended.into_iter().collect()
    }

    /// Runs a job, a second time where the laboratory failed, and keeps its end.
    fn job(&self, job: &Job, missing: Option<Outcome>) -> Result<(), String> {
        let path = job.path();
        let (started, before) = (Instant::now(), ProcessorTime::now());
        let mut faults = 0;
        let outcome = missing.unwrap_or_else(|| {
            println!("\n-- {path}");
            let outcome = (job.suite.run)(&self.options, &job.name);
            let Outcome::Laboratory(reason) = &outcome else { return outcome };
            println!("-- {path}: the laboratory failed: {reason}; once more");
            faults = 1;
            (job.suite.run)(&self.options, &job.name)
        });
        faults += u64::from(matches!(outcome, Outcome::Laboratory(_)));
        let elapsed = started.elapsed();
        let inputs = self.tree.hash_of(job.suite.inputs)?;
        let mut record = Record::new(&outcome, &self.tree.hash, &inputs, elapsed.as_secs_f64());
        record.laboratory_faults = faults;
        let panicked = |_| "a job ended in a panic".to_owned();
        if !matches!(outcome, Outcome::Skipped(_)) {
            self.record.lock().map_err(|_| "a job ended in a panic".to_owned())?.keep(&path, record)?;
        }
        let busy_percent = before.and_then(ProcessorTime::busy_percent);
        self.table.lock().map_err(panicked)?.add(Row { name: path, outcome, elapsed, busy_percent });
        Ok(())
    }
}

/// Prints jobs with their minutes, prerequisites and last results.
fn list(jobs: &[Job]) -> Result<(), String> {
    let record = ProofRecord::read()?;
    let tree = SourceTree::of_checkout()?;
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut last = "";
    for job in jobs {
        let suite = job.suite;
        if suite.name != last {
            last = suite.name;
            let packages: Vec<&str> = suite.packages.iter().map(|package| package.name).collect();
            let root = if suite.needs_root { "root" } else { "" };
            let needs = [root, &packages.join(" ")].join(" ");
            println!(
                "{}: {}\n    {} min on two cores; needs: {}",
                suite.name,
                suite.about,
                suite.minutes,
                needs.trim()
            );
        }
        let state = match record.of(&job.path()) {
            None => "not run yet".to_owned(),
            Some(record) => {
                let holds = record.holds_for(&tree.hash_of(suite.inputs)?);
                let sources = if holds { "these sources" } else { "other sources" };
                let age = age(now.saturating_sub(record.ended_unix_s));
                format!("{} {age} ago in {} s, {sources}", record.result, record.seconds)
            }
        };
        println!("    {:32} {state}", job.path());
    }
    Ok(())
}

/// A time in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_names_of_their_own_and_are_meant_by_suite_and_by_path() {
        let jobs = all_jobs();
        let mut paths: Vec<String> = jobs.iter().map(Job::path).collect();
        assert!(paths.iter().all(|path| !path.contains(' ')), "{paths:?}");
        paths.sort();
        let count = paths.len();
        paths.dedup();
        assert_eq!((paths.len(), count > 40), (count, true));
        let tls = jobs.iter().find(|job| job.path() == "kernel/tls").unwrap();
        assert!(tls.is_meant_by("kernel") && tls.is_meant_by("kernel/tls") && !tls.is_meant_by("kernel/t"));
    }

    #[test]
    fn inputs_are_paths_of_the_checkout() {
        let tree = SourceTree::of_checkout().unwrap();
        for suite in &SUITES {
            assert!(tree.hash_of(suite.inputs).is_ok(), "{}", suite.name);
        }
    }

    #[test]
    fn ages_have_their_largest_unit() {
        assert_eq!([age(5), age(600), age(10_000), age(200_000)], ["5 s", "10 min", "2 h", "2 days"]);
    }
}
