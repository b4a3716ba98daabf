//! `selvedge doctor`: looks at this machine and at targets twice, and says what it found.

mod measure;

use std::path::Path;
use std::time::{Duration, Instant};

use engine::address::HostAddress;
use topology::{Machine, Shortfall, observe};

use super::ask;
use crate::control::client::Client;
use crate::control::socket::{default_folders, living_sockets};
use crate::diagnosis::look::Look;
use crate::diagnosis::served::Served;
use crate::doctor::{Case, Former, Named, Report, Wanted, after, before, look, page};
use crate::failure::Failure;
use crate::flags::control::ControlTlsFlags;
use crate::flags::doctor::DoctorFlags;
use crate::report;
use crate::report::folder::replace;
use crate::spec::endpoint::Endpoint;
use crate::stop::Stop;
use crate::tune::targets;

/// Targets that are asked where none is named: a machine has a few.
const TARGETS_MAX: usize = 8;
/// Time-out for a target's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks, judges, prints.
pub(super) fn run(flags: &DoctorFlags) -> Result<(), Failure> {
    let former = flags.before.as_deref().map(former).transpose()?;
    let machine = match &flags.sysroot {
        Some(path) => Machine::open(path).map_err(|error| Failure::usage(format!("--sysroot {error}")))?,
        None => Machine::live(),
    };
    let machine = if flags.record.is_some() { machine.record() } else { machine };
    let examined = examine(flags, &machine);
    // A machine that cannot be understood is worth keeping most of all.
    if let (Some(file), Some(recording)) = (&flags.record, machine.recording()) {
        write(file, recording.to_string().as_bytes())?;
    }
    let (case, unseen) = examined?;
    let report = Report::of(&case, unseen, former);
    if let Some(file) = &flags.page {
        write(file, page::page(&report).as_bytes())?;
    }
    report::print_as(flags.control.output.output_format, &report)
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replace(file, bytes)
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", file.display())))
}

fn former(file: &Path) -> Result<Former, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "--before {}: {error}; it takes the output of `selvedge doctor -o json`",
            file.display()
        ))
    };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

/// Looks at all of it twice: what the rules see, and what could not be looked at.
fn examine(flags: &DoctorFlags, machine: &Machine) -> Result<(Case, Vec<Shortfall>), Failure> {
    let mut addresses = Vec::new();
    for address in &flags.traddr {
        let written: HostAddress = address.parse().map_err(Failure::usage)?;
        addresses.extend(written.remote(flags.trsvcid).map_err(Failure::failed)?);
    }
    let wanted = Wanted { addresses, nqn: flags.nqn.clone() };
    let mut topology = observe(machine).map_err(Failure::failed)?;
    let clients = if machine.is_live() { clients(flags)? } else { Vec::new() };
    if machine.is_live() {
        targets::name_queues(&mut topology);
    }
    let stop = Stop::on_signals()?;
    let began = Instant::now();
    let earlier = looks(machine, &clients, "first", began);
    let first = before(machine, topology, &wanted);
    let measured = flags.measure.then(|| measure::measure(flags, &stop));
    let rest = flags.interval.saturating_sub(began.elapsed());
    if machine.is_live() && (stop.is_asked() || !stop.sleep(rest)) {
        return Err(Failure::interrupted("interrupted between the two samples"));
    }
    let later = looks(machine, &clients, "second", began);
    let mut host = after(machine, first);
    let mut unseen = std::mem::take(&mut host.unseen);
    let mut targets = Vec::new();
    for (earlier, later) in earlier.into_iter().zip(later) {
        let both = earlier.and_then(|earlier| Ok((earlier, later?)));
        match both
            .and_then(|(earlier, later)| Served::of(&earlier, &later).map_err(|reason| (later.name, reason)))
        {
            Ok(served) => targets.push(served),
            Err((name, reason)) => {
                unseen.push(Shortfall { what: format!("target {name}"), reason, needs_root: false });
            }
        }
    }
    let measured = match measured.transpose() {
        Ok(measured) => measured,
        Err(failure) if matches!(failure, Failure::Usage(_)) => return Err(failure),
        Err(failure) => {
            let (what, reason) = ("reads of the namespace".to_owned(), failure.line().unwrap_or_default());
            unseen.push(Shortfall { what, reason, needs_root: false });
            None
        }
    };
    if targets.is_empty() && !wanted.addresses.is_empty() {
        let reason = "no target is administered from here; run doctor on its machine, or name its control API with --control";
        let what = "the target itself".to_owned();
        unseen.push(Shortfall { what, reason: reason.to_owned(), needs_root: false });
    }
    Ok((Case { host, targets, measured }, unseen))
}

/// The targets to ask: the one that was named, or those that run here.
fn clients(flags: &DoctorFlags) -> Result<Vec<Client>, Failure> {
    if flags.control.control.is_some() {
        return Ok(vec![ask::client(&flags.control)?.patient_for(PATIENCE)]);
    }
    let sockets = default_folders().into_iter().flat_map(|folder| living_sockets(&folder)).take(TARGETS_MAX);
    let client = |path| Client::new(Some(&Endpoint::Unix(path)), None, &ControlTlsFlags::default());
    Ok(sockets.filter_map(|path| client(path).ok()).map(|client| client.patient_for(PATIENCE)).collect())
}

/// Returns the targets' answers, or the name and the error of a target without one.
fn looks(
    machine: &Machine,
    clients: &[Client],
    moment: &str,
    began: Instant,
) -> Vec<Result<Look, (String, String)>> {
    let at = |number: usize, client: Option<&Client>| {
        let named = Named { number, client };
        look(machine, &named, moment, began.elapsed().as_secs_f64())
    };
    if !machine.is_live() {
        // A recording has as many as it has.
        return (0..TARGETS_MAX).map_while(|number| at(number, None).ok()).map(Ok).collect();
    }
    let of = |(number, client): (usize, &Client)| {
        at(number, Some(client)).map_err(|error| (client.to_string(), error.to_string()))
    };
    clients.iter().enumerate().map(of).collect()
}
