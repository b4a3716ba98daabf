//! `lab iscsi`: one file over NVMe/TCP, iSCSI and NBD, asked by clients in userspace, in turns. It keeps what was seen and
//! shows medians; it keeps out what each server and client needs.

mod arguments;
mod client;
mod content;
mod pattern;
mod reading;
mod report;
mod server;

use std::path::Path;
use std::time::Instant;

pub(crate) use arguments::Arguments;
pub(crate) use content::Content;
pub(crate) use reading::{FIO_PERCENTILES, Reading, of_fio, of_selvedge};
pub(crate) use server::{NQN, Server};

use self::arguments::Store;
use self::client::{Client, Outcome};
use self::pattern::{PATTERNS, Pattern};
use self::report::Record;
use crate::journal::Journal;
use crate::load::Moment;
use crate::machine::{environment, processors};

/// Who is compared; ours is the first.
pub(crate) const CANDIDATES: [(Server, Client); 6] = [
    (Server::Selvedge, Client::Selvedge),
    (Server::TgtRdwr, Client::IscsiPerf),
    (Server::TgtRdwr, Client::QemuImg),
    (Server::TgtAio, Client::QemuImg),
    (Server::QemuNbd, Client::Fio),
    (Server::QemuNbdDirect, Client::Fio),
];
/// A file system in memory, as every Linux has it.
pub(crate) const MEMORY: &str = "/dev/shm";

/// Does what the arguments say.
///
/// # Errors
/// What failed. Runs that fail do not stop the others, and are an error in the end.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    if !arguments.program.is_file() {
        return Err(format!("{}: no such program", arguments.program.display()));
    }
    let environment = environment(&arguments.program);
    println!("{}", serde_json::to_string_pretty(&environment).unwrap_or_default());
    let mut journal = Journal::new(&arguments.output, &environment)?;
    let mut records = Vec::new();
    for &store in arguments.stores() {
        let directory = match store {
            Store::Memory => Path::new(MEMORY),
            Store::Disk => &arguments.directory,
        };
        let content = Content::new(directory, arguments.size_mib)?;
        for round in 1..=arguments.rounds {
            for pattern in &PATTERNS {
                for record in turn(arguments, store, &content, round, pattern)? {
                    journal.keep(&record)?;
                    records.push(record);
                }
            }
        }
    }
    let mut summary = String::new();
    for store in arguments.stores() {
        let title = format!("the file in {}, {} MiB", place(*store), arguments.size_mib);
        println!("\n{title}\n\n{}", report::tables(&records, store.name(), false));
        summary += &format!("## {title}\n\n{}\n", report::tables(&records, store.name(), true));
    }
    journal.summary(&summary)?;
    match records.iter().filter(|record| record.failure.is_some()).count() {
        0 => Ok(()),
        count => Err(format!("{count} runs failed")),
    }
}

const fn place(store: Store) -> &'static str {
    match store {
        Store::Memory => "memory (tmpfs)",
        Store::Disk => "the page cache and on this machine's disk",
    }
}

/// Every candidate once with one pattern. Who begins changes from round to round.
fn turn(
    arguments: &Arguments,
    store: Store,
    content: &Content,
    round: u32,
    pattern: &Pattern,
) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for number in 0..CANDIDATES.len() {
        let (server, client) = CANDIDATES[(number + round as usize - 1) % CANDIDATES.len()];
        if !client.can(pattern) {
            continue;
        }
        content.warm()?;
        let record = once(arguments, content, (server, client), pattern);
        let record = Record { store: store.name(), round, ..record };
        let (name, by) = (server.name(), client.name());
        match (&record.reading, &record.failure) {
            (Some(reading), None) => println!(
                "{} {round}, {}: {name} by {by}: {:.0} IOPS (other work {:.0} %)",
                store.name(),
                pattern.name,
                reading.iops,
                record.others_percent
            ),
            (_, reason) => println!("FAILED: {name} by {by}: {}", reason.as_deref().unwrap_or("no figure")),
        }
        records.push(record);
    }
    Ok(records)
}

/// One candidate with one pattern, against a server of its own.
fn once(
    arguments: &Arguments,
    content: &Content,
    (server, client): (Server, Client),
    pattern: &Pattern,
) -> Record {
    let mut record = Record {
        store: "",
        round: 0,
        pattern: *pattern,
        server: server.name(),
        client: client.name(),
        server_command: Vec::new(),
        client_command: Vec::new(),
        reading: None,
        server_us: None,
        client_us: None,
        others_percent: 0.0,
        failure: None,
    };
    let outcome = server.start(&arguments.program, &content.path()).and_then(|serving| {
        record.server_command.clone_from(&serving.command);
        let (moment, began, before_s) = (Moment::now(serving.id()), Instant::now(), serving.cpu_s());
        let outcome = client.run(&arguments.program, serving.address, pattern, arguments.seconds)?;
        let server_s = serving.cpu_s().zip(before_s).map(|(after_s, before_s)| after_s - before_s);
        let server_s = server_s.ok_or("the server is gone")?;
        let all_s = began.elapsed().as_secs_f64() * processors() as f64;
        let both_percent = 100.0 * (server_s + outcome.cpu_s) / all_s;
        let idle_percent = moment.until_now(serving.id()).idle_percent;
        record.others_percent = (100.0 - idle_percent - both_percent).max(0.0);
        Ok((outcome, server_s))
    });
    match outcome {
        Ok((outcome, server_s)) => note(&mut record, outcome, server_s),
        Err(reason) => record.failure = Some(reason),
    }
    record
}

fn note(record: &mut Record, outcome: Outcome, server_s: f64) {
    let asked = outcome.asked.max(1.0);
    record.server_us = Some(server_s / asked * 1e6);
    record.client_us = Some(outcome.cpu_s / asked * 1e6);
    record.client_command = outcome.command;
    record.reading = Some(outcome.reading);
}
