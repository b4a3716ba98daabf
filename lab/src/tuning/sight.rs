//! What `tune show` sees of hosts and targets that run, beside what the target and the system say of the same; what it
//! sees without root; and that a recording is as good as the machine.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::process::Stdio;

use serde_json::Value;

use super::changes::PLAN;
use super::snapshot::{Snapshot, allowed};
use super::testbed::{DEVICE, FAR_DEVICE, Testbed, flows};
use crate::answer::Answer;

const PORT: u16 = 4421;
/// Options of setpriv for a user and a group without rights (65534 of the system).
const WITHOUT_RIGHTS: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
/// Values that change while a machine is observed.
const MOVING: [&str; 4] = ["receive_queue_bytes", "send_queue_bytes", "rtt_us", "retransmissions"];

/// A queue: its identifier, the host's end, the target's end.
type Queue = (u64, SocketAddr, SocketAddr);

pub(super) fn queues_are_seen(testbed: &Testbed) -> Result<(), String> {
    let target = testbed.serve(PORT)?;
    let bench = testbed.bench(PORT, 2)?;
    let seen = testbed.flows_of(bench.id())?;
    let mut queues = BTreeSet::new();
    for flow in &seen {
        if flow["source"] != "program" || flow["interface"] != DEVICE {
            return Err(format!("not a queue of the program on {DEVICE}: {flow}"));
        }
        let thread = flow["worker"]["thread"].as_u64().ok_or_else(|| format!("no thread: {flow}"))?;
        let truth = allowed(bench.id(), &thread.to_string())?;
        let cpu = flow["worker"]["cpu"].as_u64().and_then(|cpu| u32::try_from(cpu).ok());
        let is_its = cpu.is_some_and(|cpu| super::changes::list(&truth).is_ok_and(|all| all.contains(&cpu)));
        if flow["worker"]["allowed"] != *truth || !is_its {
            return Err(format!("the worker may run on {truth}, and shown is {}", flow["worker"]));
        }
        queues.insert(queue(flow, "local", "peer")?);
    }
    let ids: Vec<u64> = queues.iter().map(|queue| queue.0).collect();
    if ids != [1, 2] {
        return Err(format!("queues 1 and 2 are there, and shown are {ids:?}"));
    }
    same("the target says", &queues, &at_target(testbed)?)?;
    let words = ["ip", "netns", "exec", &testbed.target, &testbed.program, "tune", "show", "-o", "json"];
    let far = flows(&Answer::of(&words)?.json()?, "target", target.id());
    let ends = |flow: &Value| Ok((0, end(flow, "peer")?, end(flow, "local")?));
    let accepted = far.iter().map(ends).collect::<Result<BTreeSet<Queue>, String>>()?;
    match queues.iter().find(|(_, host, target)| !accepted.contains(&(0, *host, *target))) {
        None if far.iter().all(|flow| flow["interface"] == FAR_DEVICE) => Ok(()),
        None => Err(format!("not all flows of the target go by {FAR_DEVICE}: {far:?}")),
        Some(queue) => Err(format!("the target's side does not show {queue:?} but {accepted:?}")),
    }
}

/// I/O queues as the target knows them from Connect.
fn at_target(testbed: &Testbed) -> Result<BTreeSet<Queue>, String> {
    let listed = testbed.control(PORT, &["connection", "list", "-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed).map_err(|error| format!("{error}: {listed}"))?;
    let mut queues = BTreeSet::new();
    let controllers = listed.as_array().or_else(|| listed["controllers"].as_array());
    for queue in controllers.into_iter().flatten().filter_map(|one| one["queues"].as_array()).flatten() {
        let id = queue["queue_id"].as_u64().ok_or_else(|| format!("no queue: {queue}"))?;
        if id > 0 {
            queues.insert((id, end(queue, "peer")?, SocketAddr::new(testbed.target_address()?, PORT)));
        }
    }
    Ok(queues)
}

fn queue(flow: &Value, host: &str, target: &str) -> Result<Queue, String> {
    let id = flow["queue_id"].as_u64().ok_or_else(|| format!("no queue: {flow}"))?;
    Ok((id, end(flow, host)?, end(flow, target)?))
}

fn end(value: &Value, name: &str) -> Result<SocketAddr, String> {
    let text = value[name].as_str().unwrap_or_default();
    text.parse().map_err(|_| format!("`{name}` is not an address in {value}"))
}

fn same(who: &str, seen: &BTreeSet<Queue>, truth: &BTreeSet<Queue>) -> Result<(), String> {
    if seen == truth { Ok(()) } else { Err(format!("{who} {truth:?}, and shown is {seen:?}")) }
}

/// With a plan in effect, so that workers stay where they are while the machine is looked at twice.
pub(super) fn recording_is_the_machine(testbed: &Testbed) -> Result<(), String> {
    let _target = testbed.serve(PORT)?;
    let _bench = testbed.bench(PORT, 2)?;
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    let file = testbed.file("machine.recording");
    let live = testbed.tune(&["show", "--record", &file, "-o", "json"])?.json()?;
    let recorded = testbed.tune(&["show", "--sysroot", &file, "-o", "json"])?.json()?;
    if live != recorded {
        let (live, recorded) = (pretty(&live), pretty(&recorded));
        let at = live.lines().zip(recorded.lines()).find(|(one, other)| one != other);
        return Err(format!("the very same look differs: {at:?}"));
    }
    let count = |shown: &Value| shown["topology"]["flows"].as_array().map_or(0, Vec::len);
    if count(&live) < 2 {
        return Err("it has no flows".to_owned());
    }
    let again = still(testbed.tune(&["show", "-o", "json"])?.json()?);
    let recorded = still(recorded);
    if again != recorded {
        let (again, recorded) = (pretty(&again), pretty(&recorded));
        let at = again.lines().zip(recorded.lines()).find(|(one, other)| one != other);
        return Err(format!("another look differs in more than what moves: {at:?}"));
    }
    // The plan follows from what was recorded, as it does from the machine: it is in effect, so it is empty.
    let live = testbed.tune(&["plan", "-o", "json"])?.json()?;
    let recorded = testbed.tune(&["plan", "--sysroot", &file, "-o", "json"])?.json()?;
    if live["steps"] != recorded["steps"] {
        return Err(format!(
            "the machine's plan is {}, the recording's {}",
            live["steps"], recorded["steps"]
        ));
    }
    testbed.tune(&["revert"])?.well().map(drop)
}

/// Without what moves, and without the sentences that have it in them.
fn still(mut shown: Value) -> Value {
    if let Some(flows) = shown["topology"]["flows"].as_array_mut() {
        for flow in flows.iter_mut().filter_map(Value::as_object_mut) {
            MOVING.iter().for_each(|name| _ = flow.remove(*name));
        }
    }
    shown["findings"] = Value::Null;
    shown
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

pub(super) fn show_without_root(testbed: &Testbed) -> Result<(), String> {
    let _target = testbed.serve(PORT)?;
    let _bench = testbed.bench(PORT, 2)?;
    let shown = without_rights(testbed, &["show"])?.well()?;
    if !shown.output.contains(DEVICE) || !shown.output.contains("root") {
        return Err(format!("it does not say what root would add: {}", shown.output));
    }
    let shown = without_rights(testbed, &["show", "-o", "json"])?.json()?;
    let shortfalls = shown["topology"]["shortfalls"].as_array().into_iter().flatten();
    let needs_root: Vec<&str> = shortfalls
        .filter(|shortfall| shortfall["needs_root"] == true)
        .filter_map(|shortfall| shortfall["what"].as_str())
        .collect();
    // Root's programs tell root alone of their queues.
    if needs_root.iter().any(|what| what.contains("selvedge/queues")) {
        return Ok(());
    }
    Err(format!("that root would see its programs' queues is not said, but only {needs_root:?}"))
}

pub(super) fn apply_without_root(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    without_rights(testbed, &[&["apply"], &PLAN[..]].concat())?.fails(1, &["root"])?;
    super::changes::nothing_has_changed(testbed, &before)?;
    // Nor can what root has in effect be undone.
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    let applied = Snapshot::of(&[DEVICE], &[])?;
    without_rights(testbed, &["revert"])?.fails(1, &["root"])?;
    Snapshot::of(&[DEVICE], &[])?.is_as(&applied)?;
    testbed.tune(&["revert"])?.well()?;
    super::changes::nothing_has_changed(testbed, &before)
}

/// Runs `selvedge tune WORDS` as a user without any right. Where the program is need not be a place for everybody, so it
/// comes as an open file.
fn without_rights(testbed: &Testbed, words: &[&str]) -> Result<Answer, String> {
    let program = File::open(&testbed.program).map_err(|error| format!("{}: {error}", testbed.program))?;
    let words = [&["setpriv"], &WITHOUT_RIGHTS[..], &["/proc/self/fd/0", "tune"], words].concat();
    Answer::with_input(&words, Stdio::from(program))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_moves_is_left_out() {
        let shown = |rtt: u32, port: &str| json!({ "topology": { "flows": [{ "rtt_us": rtt, "local": port }] }, "findings": [rtt] });
        assert_eq!(still(shown(1, "a")), still(shown(2, "a")));
        assert_ne!(still(shown(1, "a")), still(shown(1, "b")));
    }
}
