//! `selvedge bench`: a workload as fio's options describe it, on a namespace of a target; or the check of what an
//! earlier one left there.

mod auto;
mod job_file;

use std::fmt;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use measurement::setting::{Setting, fit};
use serde::Serialize;
use uuid::Uuid;

use crate::bench::matching::Placements;
use crate::bench::process::ProcessWatch;
use crate::bench::run::{Outcome, Run};
use crate::bench::state::{Header, Record, Recorder};
use crate::config::workload::{Fitted, VerifyState, Workload};
use crate::failure::Failure;
use crate::fio::typed::TypedOptions;
use crate::flags::bench::{BenchFlags, BenchFormat};
use crate::mptcp;
use crate::report;
use crate::report::bench::{BenchReport, VerifyReport};
use crate::report::fio::Measured;
use crate::spec::extent::Extent;
use crate::stop::Stop;
use crate::top::initiator::progress;
use chart::units;

/// Runs it and prints what it found.
pub(super) fn run(flags: &BenchFlags) -> Result<(), Failure> {
    check_terminal(flags)?;
    let typed = typed_options(flags)?;
    if let Some(path) = &flags.output {
        report::print_to(path)?;
    }
    if let Some(path) = &flags.job_file {
        return job_file::run(flags, &typed, path);
    }
    let began = Instant::now();
    let (mut workload, state) = Workload::new(flags)?;
    check_format(flags, &state)?;
    auto::check(flags, &workload, &state)?;
    let stop = Stop::on_signals()?;
    let setting = Setting::new(flags, &stop)?;
    let record = match &state {
        VerifyState::Check(path) => Some(read_record(path, &setting, flags, &mut workload)?),
        _ => None,
    };
    // Before anything is written, by the trials of `-i auto` too.
    if workload.writes() && record.is_none() {
        setting.ask_to_write("this workload", flags.first_nsid(), &[workload.range()])?;
    }
    // Undone when the run is over, and its connections with it.
    let _machine = mptcp::prepare_host(flags.connection.transport, flags.paths.configure_mptcp)?;
    let auto = auto::find(&setting, flags, &workload)?;
    let queues = setting.queues(&workload, auto.as_ref().map(|auto| auto.settled));
    let placements = setting.place(queues);
    warn(placements.as_ref());
    let paths = setting.connect(queues, placements.as_ref())?;
    let fitted = fit(workload, &paths.controllers(), &paths.namespace(), record.as_ref())?;
    let writer = Uuid::new_v4().as_u64_pair().0;
    let recorder = match &state {
        VerifyState::Record(path) => Some(begin_record(path, &setting, flags, &fitted, writer)?),
        _ => None,
    };
    let run = Run {
        writer,
        recorder: recorder.clone(),
        record: record.as_ref(),
        ..setting.run(&paths, &fitted, placements.as_ref())
    };
    job_file::wait(typed.options.startdelay, &stop.flag());
    let watch = ProcessWatch::start();
    let name = flags.top.then(|| setting.nqn().to_string());
    let outcome = progress::follow(&run, name.as_deref())?;
    let process = watch.end();
    // A target that has gone is reported as such, not as a controller that was shut down badly.
    drop(paths);
    if let Some(record) = &record {
        return finish_check(flags, record, outcome);
    }
    let report = || BenchReport {
        auto_queues: auto,
        ..setting.report(flags.first_nsid(), &fitted, queues, &outcome, placements.as_ref())
    };
    match flags.output_format {
        BenchFormat::Normal => report::print(report())?,
        BenchFormat::Json => report::print_json(&report())?,
        BenchFormat::FioJson => {
            let (fitted, outcome, elapsed) = (&fitted, &outcome, began.elapsed());
            let name = typed.name.as_deref().unwrap_or(fitted.workload.kind());
            let description = typed.options.description.as_deref();
            let measured = Measured { name, description, group: 0, fitted, outcome, process, elapsed };
            setting.print_as_fio([measured])?;
        }
    }
    finish(outcome, recorder.as_deref())
}

/// fio's options that were typed: says which are passed over, and refuses what would change the result unless it may.
fn typed_options(flags: &BenchFlags) -> Result<TypedOptions, Failure> {
    let typed = TypedOptions::read(&flags.fio).map_err(Failure::usage)?;
    if !typed.meaningless.is_empty() {
        eprintln!("selvedge: options without effect over NVMe/TCP: {}", typed.meaningless.join(", "));
    }
    typed.unsupported.iter().for_each(|what| eprintln!("selvedge: --{what}"));
    match typed.unsupported.len() as u64 {
        0 => Ok(typed),
        _ if flags.ignore_unsupported => Ok(typed),
        count => Err(Failure::usage(format!(
            "nothing is run: {} not supported; --ignore-unsupported runs without",
            units::plural(count, "option")
        ))),
    }
}

fn check_terminal(flags: &BenchFlags) -> Result<(), Failure> {
    if flags.top && !std::io::stderr().is_terminal() {
        return Err(Failure::usage("--top fills the terminal on stderr, and there is none: leave it out"));
    }
    Ok(())
}

fn check_format(flags: &BenchFlags, state: &VerifyState) -> Result<(), Failure> {
    if matches!(state, VerifyState::Check(_)) && flags.output_format == BenchFormat::FioJson {
        return Err(Failure::usage("fio's JSON has no place for what --verify-only finds: use -o json"));
    }
    Ok(())
}

/// Prints warnings about queues that could not be matched to the NIC's.
fn warn(placements: Option<&Placements>) {
    for warning in placements.iter().flat_map(|placed| placed.warnings()) {
        eprintln!("selvedge: --match-hw-queues: {warning}");
    }
}

/// The record to check against, and the workload that does so.
fn read_record(
    path: &Path,
    setting: &Setting<'_>,
    flags: &BenchFlags,
    workload: &mut Workload,
) -> Result<Record, Failure> {
    let record = Record::read(path)?;
    if record.header.nqn != setting.nqn().as_str() || record.header.nsid != flags.first_nsid() {
        return Err(Failure::usage(format!(
            "{} is about namespace {} of {}",
            path.display(),
            record.header.nsid,
            record.header.nqn
        )));
    }
    let header = &record.header;
    workload.block_bytes = header.block_bytes;
    workload.offset = Extent::Bytes(header.offset);
    workload.size = Some(Extent::Bytes(header.slots * u64::from(header.block_bytes)));
    Ok(record)
}

fn begin_record(
    path: &Path,
    setting: &Setting<'_>,
    flags: &BenchFlags,
    fitted: &Fitted,
    writer: u64,
) -> Result<Arc<Recorder>, Failure> {
    let header = Header {
        offset: fitted.offset,
        block_bytes: fitted.workload.block_bytes,
        unit_bytes: fitted.unit_bytes,
        slots: fitted.slots,
        ..Header::new(setting.nqn().as_str(), flags.first_nsid(), writer)
    };
    Recorder::create(path, header).map(Arc::new)
}

/// Fails unless a reported run was a success.
pub(super) fn finish(outcome: Outcome, recorder: Option<&Recorder>) -> Result<(), Failure> {
    if let Some(failure) = outcome.failure {
        let reason = failure.line().unwrap_or_default();
        return Err(match recorder {
            Some(recorder) if outcome.connection_lost => Failure::failed(format!(
                "the run broke off: {reason}; the state is saved, check it when the target is back with \
                 --verify-only --verify-state {}",
                recorder.path().display()
            )),
            _ => Failure::Failed(reason),
        });
    }
    if let Some(verified) = outcome.verified.filter(|verified| verified.corrupt > 0) {
        let blocks = units::plural(verified.corrupt, "block");
        let first = verified.corruptions.first().map(ToString::to_string).unwrap_or_default();
        return Err(Failure::failed(format!("wrong data: {blocks}, the first {first}")));
    }
    if outcome.interrupted {
        return Err(Failure::interrupted("interrupted; the results are those until the interruption"));
    }
    Ok(())
}

/// Result of `--verify-only`.
#[derive(Serialize)]
struct CheckReport {
    nqn: String,
    nsid: u32,
    /// Completed Flushes that the state records, and the blocks they made durable.
    flushes: u64,
    blocks_flushed: u64,
    /// True if the run that wrote the state ended in order, and recorded its submitted writes.
    state_complete: bool,
    /// End of the check: `complete`, `interrupted` or `failed`.
    ended: &'static str,
    verify: Option<VerifyReport>,
}

fn finish_check(flags: &BenchFlags, record: &Record, outcome: Outcome) -> Result<(), Failure> {
    let report = CheckReport {
        nqn: record.header.nqn.clone(),
        nsid: record.header.nsid,
        flushes: record.flushes,
        blocks_flushed: record.flushed_blocks(),
        state_complete: record.ended,
        ended: match (&outcome.failure, outcome.interrupted) {
            (Some(_), _) => "failed",
            (None, true) => "interrupted",
            (None, false) => "complete",
        },
        verify: outcome.verified.as_ref().map(VerifyReport::from),
    };
    match flags.output_format {
        BenchFormat::Normal => report::print(&report)?,
        BenchFormat::Json | BenchFormat::FioJson => report::print_json(&report)?,
    }
    finish(outcome, None)
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flushes = match self.flushes {
            1 => "1 completed Flush".to_owned(),
            flushes => format!("{} completed Flushes", units::grouped(flushes)),
        };
        writeln!(f, "{} namespace {}", self.nqn, self.nsid)?;
        writeln!(
            f,
            "state   {flushes}, {} acknowledged before one",
            units::plural(self.blocks_flushed, "block")
        )?;
        match &self.verify {
            Some(verify) => {
                writeln!(
                    f,
                    "verify  {} right, {} wrong",
                    units::plural(verify.blocks_read_back, "block"),
                    units::grouped(verify.blocks_wrong)
                )?;
                verify.wrong.iter().try_for_each(|wrong| writeln!(f, "        {wrong}"))
            }
            None => Ok(()),
        }
    }
}
