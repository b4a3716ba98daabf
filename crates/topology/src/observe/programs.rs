//! Queues of initiators that are programs: each leaves a record of its queues in a file named after its process.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::flows::{Connections, Found};
use super::reader::Reader;
use super::{Machine, ObserveError};
use crate::limits::RECORDED_QUEUES_MAX;
use crate::process_stat::{LAST_CPU, STARTED, stat_field};
use crate::{CpuSet, FlowOwner, FlowSource, Worker};

/// Time that a thread has waited for events, polling and asleep, at a moment of its process' clock. The
/// kernel counts polling as running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The moment.
    pub at_ns: u64,
    /// Time waited until then.
    pub waited_ns: u64,
}

impl Waited {
    /// Part of the time since `before` in which the thread did not wait; `None` without a later moment.
    pub fn worked_since(self, before: Self) -> Option<f64> {
        let passed_ns = self.at_ns.checked_sub(before.at_ns).filter(|passed_ns| *passed_ns > 0)?;
        let waited_ns = self.waited_ns.checked_sub(before.waited_ns)?;
        Some(1.0 - (waited_ns as f64 / passed_ns as f64).min(1.0))
    }
}

/// A record of a process's queues.
#[derive(Debug, Deserialize)]
struct Record {
    pid: u32,
    /// Start time of the process, from field 22 of /proc/PID/stat: a later process of the number
    /// has a later one.
    start_time: u64,
    queues: Vec<Queue>,
}

#[derive(Debug, Deserialize)]
struct Queue {
    #[serde(default)]
    nqn: Option<String>,
    controller: String,
    qid: u16,
    local: std::net::SocketAddr,
    peer: std::net::SocketAddr,
    #[serde(default)]
    thread: Option<u32>,
    #[serde(default)]
    waited: Option<Waited>,
}

/// Reads the records of processes that run. A record is anyone's to write: what it says is believed of connections that
/// its own process has.
pub(super) fn read(reader: &mut Reader<'_>, connections: &Connections) -> Result<Vec<Found>, ObserveError> {
    let mut found = Vec::new();
    for directory in reader.machine.program_directories()? {
        for name in reader.list(&directory) {
            let path = format!("{directory}/{name}");
            if !name.ends_with(".json") {
                continue;
            }
            let Some(text) = reader.text(&path) else { continue };
            match serde_json::from_str::<Record>(&text) {
                Ok(record) if record.queues.len() <= RECORDED_QUEUES_MAX => {
                    add(reader, connections, record, &mut found)?;
                }
                Ok(_) => reader.shortfall(&format!("/{path}"), "it has more queues than there can be", false),
                // Other users' files must not keep anyone from seeing the rest.
                Err(error) => {
                    let reason = format!("invalid record of a process's queues: {error}");
                    reader.shortfall(&format!("/{path}"), &reason, false);
                }
            }
        }
    }
    Ok(found)
}

/// Times that threads have waited, by their numbers, as far as their processes publish them. Threads are
/// named with their processes.
pub fn waited_times(machine: &Machine, threads: &[(u32, u32)]) -> BTreeMap<u32, Waited> {
    let processes: BTreeSet<u32> = threads.iter().map(|(pid, _)| *pid).collect();
    let mut found = BTreeMap::new();
    for directory in machine.program_directories().unwrap_or_default() {
        for pid in &processes {
            let Ok(text) = machine.read(&format!("{directory}/{pid}.json")) else { continue };
            let Ok(record) = serde_json::from_str::<Record>(&text) else { continue };
            let started = field_of(machine, &format!("proc/{pid}/stat"), STARTED);
            if record.pid != *pid || started != Some(record.start_time) {
                continue;
            }
            let known = record.queues.iter().filter_map(|queue| Some((queue.thread?, queue.waited?)));
            found.extend(known.filter(|(thread, _)| threads.contains(&(*pid, *thread))));
        }
    }
    found
}

fn add(
    reader: &mut Reader<'_>,
    connections: &Connections,
    record: Record,
    found: &mut Vec<Found>,
) -> Result<(), ObserveError> {
    let pid = record.pid;
    if field_of(reader.machine, &format!("proc/{pid}/stat"), STARTED) != Some(record.start_time) {
        return Ok(());
    }
    for queue in record.queues {
        let ends = (queue.local, queue.peer);
        let is_its_own = match connections.with_ends(ends) {
            Some(socket) if socket.pid.is_none() => connections.unread_processes > 0,
            Some(socket) => socket.pid == Some(pid),
            None => !connections.is_listed,
        };
        if !is_its_own {
            continue;
        }
        found.push(Found {
            owner: FlowOwner::Initiator { pid },
            controller: queue.controller,
            subsystem_nqn: queue.nqn,
            queue_id: Some(queue.qid),
            source: FlowSource::Program,
            worker: queue
                .thread
                .map(|thread| worker(reader, &pid.to_string(), thread))
                .transpose()?
                .flatten(),
            ends,
        });
    }
    Ok(())
}

/// The thread, where it is there and one of the process.
pub(super) fn worker(
    reader: &mut Reader<'_>,
    process: &str,
    thread: u32,
) -> Result<Option<Worker>, ObserveError> {
    const ALLOWED: &str = "Cpus_allowed_list:";
    let path = format!("proc/{process}/task/{thread}/status");
    let Some(status) = reader.text(&path) else { return Ok(None) };
    let allowed = status.lines().find_map(|line| line.strip_prefix(ALLOWED)).unwrap_or_default().trim();
    let allowed: CpuSet = allowed
        .parse()
        .map_err(|_| reader.nonsense(&path, allowed, "a list of CPUs behind Cpus_allowed_list"))?;
    let last = field_of(reader.machine, &format!("proc/{process}/task/{thread}/stat"), LAST_CPU);
    let cpu = allowed.only().or(last.and_then(|cpu| u32::try_from(cpu).ok()));
    Ok(Some(Worker { thread: Some(thread), cpu, allowed, is_movable: true }))
}

/// A field of /proc/PID/stat, or of a thread's.
fn field_of(machine: &Machine, path: &str, number: usize) -> Option<u64> {
    stat_field(&machine.read(path).ok()?, number)
}
