//! `selvedge bench JOB_FILE`: fio's jobs, run in groups as their stonewalls have it. What a job means is `fio`'s and
//! `config::workload`'s; one run is `bench`'s.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chart::units;
use engine::initiator::Paths;
use measurement::setting::{Setting, fit};
use serde::Serialize;
use uuid::Uuid;

use super::{finish, warn};
use crate::bench::matching::Placements;
use crate::bench::process::{ProcessUse, ProcessWatch};
use crate::bench::run::{Outcome, Run};
use crate::config::workload::{Fitted, Queues, Workload, typed_workload};
use crate::failure::Failure;
use crate::fio::job_file::{Job, JobFile};
use crate::fio::typed::TypedOptions;
use crate::fio::variables;
use crate::flags::bench::{BenchFlags, BenchFormat, IoQueues, WorkloadFlags};
use crate::mptcp;
use crate::report;
use crate::report::bench::BenchReport;
use crate::report::fio::Measured;
use crate::stop::Stop;
use crate::top::initiator::progress;

/// Bytes of a job file: more than anybody writes by hand.
const BYTES_MAX: u64 = 1 << 20;
/// Jobs that run at the same time: each has connections and threads of its own.
const TOGETHER_MAX: usize = 32;
/// Longest delay until a waiting job notices a stop request.
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// A job with all that can be known before anything is connected.
struct Planned<'a> {
    job: &'a Job,
    group: usize,
    nsid: u32,
    workload: Workload,
    queues: Queues,
}

/// A job that has been run.
struct Finished<'a> {
    planned: &'a Planned<'a>,
    fitted: Fitted,
    outcome: Outcome,
    placements: Option<Placements>,
    process: ProcessUse,
    elapsed: Duration,
}

/// Output of `-o json`.
#[derive(Serialize)]
struct JobFileReport<'a> {
    job_file: String,
    /// Differences from fio, and options on the command line that override the file.
    notes: &'a [String],
    jobs: Vec<JobReport<'a>>,
}

#[derive(Serialize)]
struct JobReport<'a> {
    name: &'a str,
    /// Counts the stonewalls before it.
    group: usize,
    #[serde(flatten)]
    report: BenchReport,
}

/// Runs the jobs of a file and prints what they found.
pub(super) fn run(flags: &BenchFlags, options: &TypedOptions, path: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let typed = &typed_workload(flags, options);
    let shown = path.display();
    let file = JobFile::read(&read(path)?, &variables::of_this_process)
        .map_err(|complaint| Failure::usage(format!("{shown}:{complaint}")))?;
    if flags.nr_io_queues == Some(IoQueues::Auto) || flags.auto_trial.is_some() {
        return Err(Failure::usage(
            "-i auto finds a number for one workload, and a job file has several; write -i N, or run them one by one",
        ));
    }
    let notes = notes(&file, typed, flags.ignore_unsupported, &shown)?;
    if file.jobs.is_empty() {
        return Err(Failure::usage(format!("{shown}: no job is left that reads or writes data")));
    }
    let nsids = namespaces(&file, &flags.nsid).map_err(|what| Failure::usage(format!("{shown}{what}")))?;
    let stop = Stop::on_signals()?;
    let setting = Setting::new(flags, &stop)?;
    let planned = plan(&file, &nsids, &setting, (typed, &shown))?;
    if options.read_only {
        refuse_writes(&planned, &shown)?;
    }
    // Undone when the runs are over, and their connections with them.
    let _machine = mptcp::prepare_host(flags.connection.transport, flags.paths.configure_mptcp)?;
    check(&planned, &setting)?;
    ask_to_write(&planned, &setting)?;
    let mut finished = Vec::new();
    let mut broken = None;
    for group in planned.chunk_by(|one, other| one.group == other.group) {
        if setting.stop.is_asked() {
            break;
        }
        let (done, failure) = run_group(group, &setting, flags, began);
        if flags.output_format == BenchFormat::Normal {
            done.iter().try_for_each(|job| print(job, &setting))?;
        }
        let failed = done.iter().any(|job| job.outcome.failure.is_some());
        finished.extend(done);
        broken = failure;
        if failed || broken.is_some() {
            break;
        }
    }
    match flags.output_format {
        BenchFormat::Normal => {}
        BenchFormat::Json => {
            let jobs = finished.iter().map(|job| JobReport {
                name: &job.planned.job.name,
                group: job.planned.group,
                report: job.report(&setting),
            });
            let report = JobFileReport { job_file: shown.to_string(), notes: &notes, jobs: jobs.collect() };
            report::print_json(&report)?;
        }
        BenchFormat::FioJson => setting.print_as_fio(finished.iter().map(Finished::measured))?,
    }
    conclude(finished, broken, planned.len())
}

/// The namespace of each file that the jobs name.
///
/// # Errors
/// Files and namespaces are not equally many, after the job file's name.
fn namespaces(file: &JobFile, nsids: &[u32]) -> Result<Vec<u32>, String> {
    let files = &file.files;
    if files.len() == nsids.len() {
        return Ok(nsids.to_vec());
    }
    let line = files.get(1).or(files.first()).map_or(1, |file| file.line);
    let name = |name: &str| if name.is_empty() { "one without a name".to_owned() } else { name.to_owned() };
    let names: Vec<String> = files.iter().map(|file| name(&file.name)).collect();
    let (counted, named) = (units::plural(files.len() as u64, "file"), names.join(", "));
    Err(match nsids.len() {
        1 => format!(
            ":{line}: the jobs use {counted} ({named}), each of which is a namespace: name as many in this order, as in \
             --nsid 1,2, or the same one several times"
        ),
        count => format!(":{line}: --nsid names {count} namespaces, and the jobs use {counted} ({named})"),
    })
}

/// Asks for consent to overwrite data, for each namespace in turn.
fn ask_to_write(planned: &[Planned<'_>], setting: &Setting<'_>) -> Result<(), Failure> {
    let nsids: BTreeSet<u32> = planned.iter().map(|planned| planned.nsid).collect();
    for nsid in nsids {
        let writing = planned.iter().filter(|planned| planned.nsid == nsid && planned.workload.writes());
        let ranges = writing.map(|planned| planned.workload.range());
        setting.ask_to_write("this job file", nsid, &ranges.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |error: &dyn Display| Failure::usage(format!("{} cannot be read: {error}", path.display()));
    let mut bytes = Vec::new();
    // A pipe says nothing of its length beforehand.
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(&"it is too large to be a job file"));
    }
    String::from_utf8(bytes).map_err(|error| wrong(&error))
}

/// Prints differences from fio on stderr, and refuses options that would change the result unless
/// they may be ignored.
fn notes(
    file: &JobFile,
    typed: &WorkloadFlags,
    ignore_unsupported: bool,
    path: &impl Display,
) -> Result<Vec<String>, Failure> {
    let unsupported = file.unsupported.iter().map(|complaint| format!("{path}:{complaint}"));
    let mut notes: Vec<String> = unsupported.collect();
    let refused = notes.len();
    notes.extend(file.notes.iter().map(|note| format!("{path}: {note}")));
    for job in &file.jobs {
        for note in overrides(typed, job) {
            let note = format!("{path}:{note}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes.iter().for_each(|note| eprintln!("selvedge: {note}"));
    if refused > 0 && !ignore_unsupported {
        return Err(Failure::usage(format!(
            "nothing is run: {} of {path} not supported; --ignore-unsupported runs without",
            units::plural(refused as u64, "option")
        )));
    }
    Ok(notes)
}

/// Returns the options of the job that the command line overrides, a line for each.
fn overrides(typed: &WorkloadFlags, job: &Job) -> Vec<String> {
    let typed = [
        ("rw", typed.kind.is_some()),
        ("bs", typed.bs.is_some()),
        ("iodepth", typed.iodepth.is_some()),
        ("numjobs", typed.numjobs.is_some()),
        ("size", typed.size.is_some()),
        ("offset", typed.offset.is_some()),
        ("offset_increment", typed.offset_increment.is_some()),
        ("runtime", typed.runtime.is_some()),
        ("ramp_time", typed.ramp_time.is_some()),
        ("rwmixread", typed.rwmixread.is_some()),
        ("rate_iops", typed.rate_iops.is_some()),
        ("fsync", typed.fsync.is_some()),
        ("sync", typed.sync.is_some()),
        ("randseed", typed.randseed.is_some()),
        ("verify", typed.verify.is_some()),
    ];
    let said = typed
        .into_iter()
        .filter(|(_, is_typed)| *is_typed)
        .filter_map(|(name, _)| Some((name, job.said.get(name)?)));
    said.map(|(name, said)| format!("{}: --{name} on the command line wins over {}", said.line, said.text))
        .collect()
}

/// Makes workloads of the jobs.
fn plan<'a>(
    file: &'a JobFile,
    nsids: &[u32],
    setting: &Setting<'_>,
    (typed, path): (&WorkloadFlags, &impl Display),
) -> Result<Vec<Planned<'a>>, Failure> {
    let mut planned = Vec::new();
    for (group, jobs) in file.groups().into_iter().enumerate() {
        if jobs.len() > TOGETHER_MAX {
            return Err(Failure::usage(format!(
                "{path}:{}: {} jobs would run at the same time, and {TOGETHER_MAX} can: put stonewall between them",
                jobs[TOGETHER_MAX].line,
                jobs.len()
            )));
        }
        for job in jobs {
            let wrong = |what| Failure::usage(format!("{path}:{}: [{}] {what}", job.line, job.name));
            let another_seed = Uuid::new_v4().as_u64_pair().1;
            let workload = Workload::of_job(typed, job, another_seed).map_err(wrong)?;
            let queues = setting.queues(&workload, None);
            planned.push(Planned { job, group, nsid: nsids[job.file], queues, workload });
        }
    }
    Ok(planned)
}

/// Refuses jobs that write, where --readonly forbids it.
fn refuse_writes(planned: &[Planned<'_>], path: &impl Display) -> Result<(), Failure> {
    let Some(Planned { job, .. }) = planned.iter().find(|planned| planned.workload.writes()) else {
        return Ok(());
    };
    Err(Failure::usage(format!("{path}:{}: [{}] writes, which --readonly forbids", job.line, job.name)))
}

/// Refuses impossible jobs before anything is written: an hour after the start of the first job is
/// too late to report a lack of room for the second.
fn check(planned: &[Planned<'_>], setting: &Setting<'_>) -> Result<(), Failure> {
    let mut fitted = Vec::new();
    let mut connected: BTreeMap<u32, Arc<Paths>> = BTreeMap::new();
    for planned in planned {
        let paths = match connected.entry(planned.nsid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(setting.connect_to(planned.nsid, planned.queues, None)?),
        };
        fitted.push((planned, planned.fit(paths)?));
    }
    for group in fitted.chunk_by(|one, other| one.0.group == other.0.group) {
        for (at, (planned, one)) in group.iter().enumerate() {
            if let Some((other, _)) = group[at + 1..]
                .iter()
                .find(|(other, fitted)| other.nsid == planned.nsid && would_spoil(one, fitted))
            {
                return Err(Failure::usage(format!(
                    "[{}] and [{}] would run at the same time on the same blocks, and one of them verifies what the \
                     other overwrites: put stonewall between them, or give them ranges of their own",
                    planned.job.name, other.job.name
                )));
            }
        }
    }
    Ok(())
}

/// True if one of two workloads verifies blocks that the other one writes.
fn would_spoil(one: &Fitted, other: &Fitted) -> bool {
    let meets = |(start, end): (u64, u64)| other.ranges().any(|(from, to)| start < to && from < end);
    let apart = !one.ranges().any(meets);
    let (one, other) = (&one.workload, &other.workload);
    !apart && (one.verify && other.writes() || other.verify && one.writes())
}

impl Planned<'_> {
    /// Puts the job onto the namespace that these paths lead to.
    fn fit(&self, paths: &Paths) -> Result<Fitted, Failure> {
        let name = &self.job.name;
        fit(self.workload.clone(), &paths.controllers(), &paths.namespace(), None).map_err(|failure| {
            match failure {
                Failure::Usage(what) => Failure::Usage(format!("[{name}] {what}")),
                other => other,
            }
        })
    }
}

impl Finished<'_> {
    fn report(&self, setting: &Setting<'_>) -> BenchReport {
        setting.report(
            self.planned.nsid,
            &self.fitted,
            self.planned.queues,
            &self.outcome,
            self.placements.as_ref(),
        )
    }

    fn measured(&self) -> Measured<'_> {
        Measured {
            name: &self.planned.job.name,
            description: self.planned.job.options.description.as_deref(),
            group: self.planned.group,
            fitted: &self.fitted,
            outcome: &self.outcome,
            process: self.process,
            elapsed: self.elapsed,
        }
    }
}

/// A job that is connected.
type Ready<'a> = (&'a Planned<'a>, Fitted, Arc<Paths>, Option<Placements>);

/// Runs the jobs of a group at the same time: those that have been run, and why one could not begin.
fn run_group<'a>(
    group: &'a [Planned<'a>],
    setting: &Setting<'_>,
    flags: &BenchFlags,
    began: Instant,
) -> (Vec<Finished<'a>>, Option<Failure>) {
    let names: Vec<String> = group.iter().map(|planned| format!("[{}]", planned.job.name)).collect();
    eprintln!("selvedge: running {}", names.join(" "));
    // Workers of jobs that run at the same time would be put on the same processors: the system spreads them better.
    let is_alone = group.len() == 1;
    // All are connected before the first one begins, so that they begin together.
    let connect = |planned: &'a Planned<'a>| {
        let placements = setting.place(planned.queues).filter(|_| is_alone);
        warn(placements.as_ref());
        let paths = setting.connect_to(planned.nsid, planned.queues, placements.as_ref())?;
        Ok((planned, planned.fit(&paths)?, paths, placements))
    };
    let ready: Vec<_> = match group.iter().map(connect).collect::<Result<_, Failure>>() {
        Ok(ready) => ready,
        Err(failure) => return (Vec::new(), Some(failure)),
    };
    let ring = setting.ring;
    let top = flags.top.then(|| setting.nqn().to_string());
    let watch = ProcessWatch::start();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let start = |(planned, fitted, paths, placements): Ready<'a>| {
            let (stop, top) = (setting.stop.flag(), top.clone());
            scope.spawn(move || {
                wait(planned.job.options.startdelay, &stop);
                let run = Run {
                    paths: &paths,
                    nsid: planned.nsid,
                    fitted: &fitted,
                    ring,
                    writer: Uuid::new_v4().as_u64_pair().0,
                    recorder: None,
                    record: None,
                    placements: placements.as_ref(),
                    stop,
                    target_cpu: None,
                };
                let outcome = if is_alone { progress::follow(&run, top.as_deref()) } else { run.run() };
                outcome.map(|outcome| (planned, fitted, placements, outcome, began.elapsed()))
            })
        };
        let threads: Vec<_> = ready.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let process = watch.end();
    let (mut finished, mut broken) = (Vec::new(), None);
    for outcome in outcomes {
        match outcome {
            Ok(Ok((planned, fitted, placements, outcome, elapsed))) => {
                finished.push(Finished { planned, fitted, outcome, placements, process, elapsed });
            }
            Ok(Err(failure)) => broken = broken.or(Some(failure)),
            Err(_) => broken = Some(Failure::failed("a job panicked; this is a bug")),
        }
    }
    (finished, broken)
}

/// Waits for a job's delay, or until a stop request.
pub(super) fn wait(delay: Option<Duration>, stop: &AtomicBool) {
    let Some(delay) = delay else { return };
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = delay.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(STOP_LATENCY));
    }
}

fn print(job: &Finished<'_>, setting: &Setting<'_>) -> Result<(), Failure> {
    let name = &job.planned.job.name;
    let report = job.report(setting);
    match &job.planned.job.options.description {
        Some(description) => report::print(format!("[{name}] {description}\n{report}\n")),
        None => report::print(format!("[{name}]\n{report}\n")),
    }
}

/// Fails unless all jobs were a success; the error names the first one that was not.
fn conclude(finished: Vec<Finished<'_>>, broken: Option<Failure>, planned: usize) -> Result<(), Failure> {
    let left = planned - finished.len();
    let tell = |failure: Failure, name: Option<&str>| {
        let name = name.map(|name| format!("[{name}] ")).unwrap_or_default();
        let rest = match left {
            0 => String::new(),
            left => format!("; {} of the file not run", units::plural(left as u64, "job")),
        };
        let reason = failure.line().unwrap_or_default();
        let what = format!("{name}{reason}{rest}");
        if matches!(failure, Failure::Interrupted(_)) {
            Failure::interrupted(what)
        } else {
            Failure::failed(what)
        }
    };
    for job in finished {
        let name = &job.planned.job.name;
        finish(job.outcome, None).map_err(|failure| tell(failure, Some(name)))?;
    }
    match broken {
        Some(failure) => Err(tell(failure, None)),
        None if left > 0 => Err(tell(Failure::interrupted("interrupted"), None)),
        None => Ok(()),
    }
}
