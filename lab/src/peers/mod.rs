//! `lab peers`: this project's target and host beside other people's, and in every combination that speaks NVMe/TCP. It
//! keeps what was seen and shows ratios; it keeps out what each target and host needs.

mod arguments;
mod client;
mod content;
mod huge_pages;
mod means;
mod pairing;
mod reading;
mod record;
mod report;
mod run;
mod selection;
mod server;
mod spdk;
mod workload;

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

pub(crate) use arguments::Arguments;
pub(crate) use content::Content;
pub(crate) use reading::{FIO_PERCENTILES, Reading, of_fio, of_selvedge};
pub(crate) use server::{NQN, serve_file};

use self::huge_pages::HugePages;
use self::means::{Means, NAMESPACE_MIB};
use self::pairing::Pairing;
use self::record::Record;
use self::report::Report;
use self::selection::Selection;
use self::spdk::{HUGE_PAGES, Spdk};
use self::workload::Workload;
use crate::journal::Journal;
use crate::machine::environment;
use crate::shuffle::Shuffle;

/// A file system in memory, as every Linux has it.
pub(crate) const MEMORY: &str = "/dev/shm";

/// Does what the arguments say.
///
/// # Errors
/// What failed. Runs that fail do not stop the others, and are an error in the end.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    if let Some(directory) = &arguments.from {
        let (environment, records) = record::kept(directory)?;
        return finish(arguments, directory, &environment, &records);
    }
    if !arguments.program.is_file() {
        return Err(format!("{}: no such program", arguments.program.display()));
    }
    let workloads = arguments.workloads()?;
    let selection = Selection::of(arguments)?;
    let means = means(arguments, &selection)?;
    // Huge pages outlive what uses them: they are given back after the last program has ended.
    let pages = selection.pairings.iter().any(|pairing| pairing.has_spdk());
    let _pages = pages.then(|| HugePages::reserve(HUGE_PAGES)).transpose()?;
    let environment = described(arguments, &means, &selection, &workloads);
    eprintln!("{}", serde_json::to_string_pretty(&environment).unwrap_or_default());
    eprintln!("order from --seed {}", arguments.seed);
    for reason in &selection.left_out {
        eprintln!("left out: {reason}");
    }
    let mut journal = Journal::new(&arguments.output, &environment)?;
    let mut records = Vec::new();
    let (began, mut shuffle) = (Instant::now(), Shuffle::new(arguments.seed));
    for round in 1..=arguments.rounds {
        // What is compared runs one after the other, so that both meet the same neighbours.
        for workload in shuffle.of(&workloads) {
            for pairing in
                shuffle.of(&selection.pairings).into_iter().filter(|pairing| pairing.can(&workload))
            {
                measure(arguments, &means, (round, pairing, workload), |record| {
                    journal.keep(&record)?;
                    records.push(record);
                    Ok(())
                })?;
            }
        }
        // An interruption of the next round leaves this one.
        write(&arguments.output, &environment, &records)?;
        let left_s = began.elapsed().as_secs_f64() / f64::from(round) * f64::from(arguments.rounds - round);
        eprintln!("round {round} of {} is done; about {:.0} minutes left", arguments.rounds, left_s / 60.0);
    }
    finish(arguments, &arguments.output, &environment, &records)
}

/// Means of all runs.
fn means(arguments: &Arguments, selection: &Selection) -> Result<Means, String> {
    if let Some(reason) = means::missing(&["taskset"]) {
        return Err(reason);
    }
    let [target_cpu, host_cpu, ..] = engine::ring::core::available()[..] else {
        return Err("it takes two processors, one for the target and one for the host".to_owned());
    };
    let has = |of: fn(Pairing) -> bool| selection.pairings.iter().any(|pairing| of(*pairing));
    let spdk = arguments.spdk.as_ref().filter(|_| has(Pairing::has_spdk)).map(|path| Spdk::find(path));
    let content = has(Pairing::has_file).then(|| Content::new(Path::new(MEMORY), NAMESPACE_MIB));
    Ok(Means {
        congestion: arguments.congestion.clone(),
        selvedge: arguments.program.clone(),
        spdk: spdk.transpose()?,
        bare: arguments.bare.clone(),
        content: content.transpose()?,
        target_cpu,
        host_cpu,
    })
}

/// The machine, the versions and the options.
fn described(arguments: &Arguments, means: &Means, selection: &Selection, workloads: &[Workload]) -> Value {
    let mut all = environment(&arguments.program);
    let own = json!({
        "date": crate::machine::version(&["date", "+%F"]),
        "spdk": means.spdk.as_ref().and_then(Spdk::version),
        "pairings": selection.pairings,
        "left_out": selection.left_out,
        "workloads": workloads,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "others_max": arguments.others_max,
        "repeats": arguments.repeats,
        "seed": arguments.seed,
        "namespace_mib": NAMESPACE_MIB,
        "target_cpu": means.target_cpu,
        "host_cpu": means.host_cpu,
    });
    if let (Some(all), Value::Object(own)) = (all.as_object_mut(), own) {
        all.extend(own);
    }
    all
}

/// Measures one pairing with one workload in one round, again where the hypervisor and others took
/// too much. `keep` gets every attempt.
fn measure(
    arguments: &Arguments,
    means: &Means,
    (round, pairing, workload): (u32, Pairing, Workload),
    mut keep: impl FnMut(Record) -> Result<(), String>,
) -> Result<(), String> {
    for attempt in 1..=arguments.repeats + 1 {
        let record = run::run(means, pairing, &workload, arguments.seconds);
        let record = Record { round, attempt, ..record };
        let is_disturbed =
            record.failure.is_none() && record.disturbance_percent() > f64::from(arguments.others_max);
        match (record.iops(), &record.failure) {
            (Some(iops), None) => eprintln!(
                "{round}: {}: {}: {iops:.0} IOPS (steal {:.0} %, other work {:.0} %){}",
                workload.name(),
                pairing.name(),
                record.steal_percent,
                record.others_percent,
                if is_disturbed { ", disturbed" } else { "" }
            ),
            (_, reason) => eprintln!(
                "{round}: {}: {}: FAILED: {}",
                workload.name(),
                pairing.name(),
                reason.as_deref().unwrap_or("no figure")
            ),
        }
        keep(record)?;
        if !is_disturbed {
            break;
        }
    }
    Ok(())
}

/// Writes the page and its picture beside the runs, and gives the page.
fn write(directory: &Path, environment: &Value, records: &[Record]) -> Result<String, String> {
    let report = Report::new(environment, records);
    let picture = report.picture();
    let text = report.text(picture.is_some());
    let files = [("summary.md", Some(&text)), ("peers.svg", picture.as_ref())];
    for (name, content) in files {
        let path = directory.join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(text)
}

fn finish(
    arguments: &Arguments,
    directory: &Path,
    environment: &Value,
    records: &[Record],
) -> Result<(), String> {
    let text = write(directory, environment, records)?;
    if arguments.table {
        println!("{}", Report::new(environment, records).short_table());
    } else {
        println!("{text}");
    }
    match records.iter().filter(|record| record.failure.is_some()).count() {
        0 => Ok(()),
        count => Err(format!("{count} runs failed")),
    }
}
