//! `lab chaos`: rounds of disturbances under hosts that check every block, and quiet points between them at which
//! everything has to be as it was. It keeps out how a disturbance is made and what a host does.

mod admission;
pub(crate) mod arguments;
mod attack;
mod cost;
pub(crate) mod host;
mod process;
mod report;
mod round;
mod sample;
mod schedule;
pub(crate) mod siege;
mod target;
mod tasks;
mod testbed;
pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::emulator::link::Dice;
use crate::guard::Guard;
use arguments::Arguments;
use host::{Deeds, Host, Plan};
use process::Process;
use report::{Report, TargetReport};
use round::{Diary, Rounds};
use sample::Series;
use target::Role;
use testbed::Testbed;

/// Descriptors for hostile connections up to every limit of a target, and for all else.
const DESCRIPTORS: u64 = 16_384;
/// Time for which each kind of hostile host is watched: short in short runs.
const WATCH: Duration = Duration::from_secs(5);
const WATCH_SHORT: Duration = Duration::from_millis(2500);
const SHORT_MINUTES: u32 = 5;
/// The last round may end later than planned, by all its limits.
const OVERTIME: Duration = Duration::from_secs(1800);
/// Time for hosts to end on order: writes that are held, a last flush.
const LAST_LIMIT: Duration = Duration::from_secs(300);
/// Filling the namespaces in memory takes a second.
const FILL_LIMIT: Duration = Duration::from_secs(60);

/// Does what the arguments say.
///
/// # Errors
/// What could not be done, or went wrong.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    if !geteuid().is_root() {
        return Err("chaos makes network namespaces, devices and a mount, which takes root".to_owned());
    }
    if !arguments.program.is_file() {
        return Err(format!("{}: no such program", arguments.program.display()));
    }
    raise_descriptors()?;
    let logs = folder(&arguments.output.join("logs"))?;
    let data = folder(&arguments.output.join(format!("data-{}", std::process::id())))?;
    // The last to be dropped: what uses the files has ended then.
    let guard = Guard::new(&data).map_err(|error| format!("cannot run sh: {error}"))?;
    let mut diary = Diary::new(&logs, arguments.is_json())?;
    diary.say(&format!("seed {}, {} minutes, logs in {}", arguments.seed, arguments.minutes, logs.display()));
    let report = chaos(arguments, &data, &logs, &mut diary)?;
    let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    let path = arguments.output.join("report.json");
    std::fs::write(&path, format!("{json}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", if arguments.is_json() { json } else { report.text() });
    if report.failures.is_empty() {
        return Ok(());
    }
    // What the targets' files hold is evidence.
    guard.keep();
    Err(format!("chaos with seed {} failed; see {}", arguments.seed, logs.display()))
}

/// The whole of it. What fails on the way is in the report.
fn chaos(arguments: &Arguments, data: &Path, logs: &Path, diary: &mut Diary) -> Result<Report, String> {
    let begun = Instant::now();
    let end = begun + Duration::from_secs(60 * u64::from(arguments.minutes));
    let seed = arguments.seed;
    let mut testbed = Testbed::new(&arguments.program, data, logs, seed, arguments.attackers as usize)?;
    fill(&testbed, logs)?;
    let mut failures = Vec::new();
    let watch = if arguments.minutes < SHORT_MINUTES { WATCH_SHORT } else { WATCH };
    let (costs, mut deeds) = cost::measure(&mut testbed, seed, watch, &mut |line| diary.say(line))?;
    failures.extend(costs.iter().filter_map(cost::Cost::fault));
    let mut long = start_long(&mut testbed, end, seed)?;
    let mut rounds = Rounds::new(&mut testbed, diary, seed);
    let outcome = rounds.run(end);
    let (count, series) = (rounds.count(), rounds.into_series());
    failures.extend(outcome.failures);
    deeds.add(&outcome.deeds);
    diary.say("the hosts that stayed come to their end");
    for host in &mut long {
        let checked = host.interrupt(Instant::now() + LAST_LIMIT).and_then(|mut done| {
            done.add(&host.check()?);
            Ok(done)
        });
        match checked {
            Ok(done) => deeds.add(&done),
            Err(reason) => failures.push(reason),
        }
    }
    let targets = target_reports(&mut testbed, &series);
    let flat = targets.iter().flat_map(|target| &target.quantities).filter(|quantity| !quantity.is_flat);
    failures
        .extend(flat.map(|q| format!("{} of the steady target grew from {} to {}", q.name, q.early, q.late)));
    testbed.damage.add_to(&mut deeds);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let (disturbances, attacks) = (testbed.happened.clone(), testbed.attacks.clone());
    Ok(Report { seed, minutes, rounds: count, deeds, disturbances, attacks, costs, targets, failures })
}

fn target_reports(testbed: &mut Testbed, series: &[Series]) -> Vec<TargetReport> {
    Role::ALL
        .iter()
        .zip(series)
        .map(|(role, series)| {
            let target = testbed.target(*role);
            let quantities = if role.may_die() { Vec::new() } else { series.quantities() };
            TargetReport {
                name: role.name(),
                starts: target.starts(),
                commands: target.commands(),
                samples: series.all.len(),
                quiet_points: series.quiet.len(),
                quantities,
            }
        })
        .collect()
}

/// Starts hosts that stay through all rounds, and are ended after the last one, whenever that is.
fn start_long(testbed: &mut Testbed, end: Instant, seed: u64) -> Result<Vec<Host>, String> {
    let mut dice = Dice::new(seed ^ 0x6c6f_6e67);
    let site = testbed.site(true);
    let runtime_s = (end.saturating_duration_since(Instant::now()) + OVERTIME).as_secs();
    let mut long = Vec::new();
    for region in host::long_regions() {
        let plan = Plan::by_chance(&region, runtime_s, testbed.number(), &mut dice).modest();
        long.push(Host::start(&site, plan, region.name.to_owned())?);
    }
    Ok(long)
}

/// Touches all memory that is served, so that none of it looks like growth later; and the part of the small disk whose
/// host must not notice that the disk is full.
fn fill(testbed: &Testbed, logs: &Path) -> Result<(), String> {
    let site = testbed.site(false);
    let address = &Role::Steady.addresses()[0];
    for (nsid, size) in [("1", "64m"), ("2", "8m"), ("3", "8m")] {
        let words = [
            &site.program,
            "bench",
            "-a",
            address,
            "-n",
            Role::Steady.nqn(),
            "--nsid",
            nsid,
            "--destroy-data",
        ];
        let workload = ["--rw", "write", "--bs", "1m", "--iodepth", "4", "--size", size, "-o", "json"];
        let words: Vec<String> = words.iter().chain(&workload).map(|&word| word.to_owned()).collect();
        let mut process = Process::start(&site.namespace, &words, &logs.join(format!("fill-{nsid}")))?;
        match process.wait(Instant::now() + FILL_LIMIT) {
            Some(status) if status.success() => {}
            _ => {
                return Err(format!(
                    "namespace {nsid} cannot be filled: {}",
                    process::last_word(&process.errors())
                ));
            }
        }
    }
    Ok(())
}

fn folder(path: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// Lets this process have as many connections as a crowd of hostile hosts.
///
/// # Errors
/// The system refuses.
pub(crate) fn raise_descriptors() -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_none_or(|current| current >= DESCRIPTORS) {
        return Ok(());
    }
    let current = Some(DESCRIPTORS.min(most));
    setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum })
        .map_err(|error| format!("cannot open {DESCRIPTORS} files: {error}"))
}

/// Totals of rounds.
#[derive(Debug, Default)]
struct Outcome {
    deeds: Deeds,
    failures: Vec<String>,
}
