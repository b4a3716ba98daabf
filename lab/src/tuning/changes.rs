//! Planning, applying and reverting on an interface without any flow: what is named is done, nothing else is, and all of
//! it comes back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::snapshot::{Snapshot, mask, queues};
use super::testbed::{DEVICE, QUEUES_MAX, Testbed};

/// The plan that is asked for.
pub(super) const PLAN: [&str; 4] = ["--interface", DEVICE, "--queues", "4"];

pub(super) fn plan_changes_nothing(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    let plan = testbed.tune(&[&["plan"], &PLAN[..]].concat())?.well()?.output;
    for word in ["ethtool -L hv0", "xps_cpus", "rps_cpus"] {
        if !plan.contains(word) {
            return Err(format!("`{word}` is not in: {plan}"));
        }
    }
    let plan = testbed.tune(&[&["plan", "-o", "json"], &PLAN[..]].concat())?.json()?;
    kinds(&plan, &["channels", "xps", "rps"])?;
    nothing_has_changed(testbed, &before)
}

pub(super) fn dry_run_changes_nothing(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    let run = testbed.tune(&[&["apply", "--dry-run", "-o", "json"], &PLAN[..]].concat())?.json()?;
    let plan = testbed.tune(&[&["plan", "-o", "json"], &PLAN[..]].concat())?.json()?;
    if run["steps"] != plan["steps"] {
        return Err(format!("it tells other steps ({}) than the plan ({})", run["steps"], plan["steps"]));
    }
    nothing_has_changed(testbed, &before)
}

/// Applies, looks, and reverts: the changes that the plan names are there, and no file of another queue is otherwise.
pub(super) fn apply_does_the_plan(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    let plan = testbed.tune(&[&["plan", "-o", "json"], &PLAN[..]].concat())?.json()?;
    let applied = testbed.tune(&[&["apply", "-o", "json"], &PLAN[..]].concat())?.json()?;
    if applied["steps"] != plan["steps"] {
        return Err(format!("it made {} and planned {}", applied["steps"], plan["steps"]));
    }
    if queues(DEVICE)? != (QUEUES_MAX as usize, QUEUES_MAX as usize) {
        return Err(format!("{DEVICE} has {:?} queues", queues(DEVICE)?));
    }
    let named = files(&plan)?;
    for (path, cpus) in &named {
        let found = mask(path)?;
        if found != *cpus {
            return Err(format!("{path} was to be {cpus:?} and is {found:?}"));
        }
    }
    let untouched = untouched(&before, &named)?;
    if untouched == 0 {
        return Err("there is no file that the plan does not name, so nothing shows that it stays".to_owned());
    }
    testbed.tune(&["revert"])?.well()?;
    nothing_has_changed(testbed, &before)
}

pub(super) fn second_apply_is_refused(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    let applied = Snapshot::of(&[DEVICE], &[])?;
    // The same again has nothing to do; anything else would be mixed with what is in effect.
    let same = testbed.tune(&[&["apply"], &PLAN[..]].concat())?;
    if same.code != Some(0) {
        same.fails(1, &["in effect", "tune revert"])?;
    }
    let other = testbed.tune(&["apply", "--interface", DEVICE, "--queues", "3"])?;
    other.fails(1, &["in effect", "tune revert"])?;
    Snapshot::of(&[DEVICE], &[])?.is_as(&applied)?;
    testbed.tune(&["revert"])?.well()?;
    nothing_has_changed(testbed, &before)
}

pub(super) fn revert_restores(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    for round in 1..=3 {
        testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
        if Snapshot::of(&[DEVICE], &[])?.is_as(&before).is_ok() {
            return Err(format!("round {round}: apply changed nothing"));
        }
        let reverted = testbed.tune(&["revert", "-o", "json"])?.json()?;
        if reverted["was_complete"] != true || reverted["undone"].as_u64().is_none_or(|count| count == 0) {
            return Err(format!("round {round}: revert tells {reverted}"));
        }
        nothing_has_changed(testbed, &before).map_err(|reason| format!("round {round}: {reason}"))?;
    }
    Ok(())
}

pub(super) fn second_revert_has_nothing(testbed: &Testbed) -> Result<(), String> {
    testbed.tune(&["revert"])?.fails(1, &["no plan is in effect"])
}

/// All is as in `before`, and there is no journal.
pub(super) fn nothing_has_changed(testbed: &Testbed, before: &Snapshot) -> Result<(), String> {
    Snapshot::of(&[DEVICE], &[])?.is_as(before)?;
    let journal = testbed.journal()?;
    if journal.exists() { Err(format!("there is a journal {}", journal.display())) } else { Ok(()) }
}

/// The plan has changes of each of these kinds.
pub(super) fn kinds(plan: &Value, wanted: &[&str]) -> Result<(), String> {
    let steps = plan["steps"].as_array().ok_or("the plan has no steps")?;
    match wanted.iter().find(|kind| steps.iter().all(|step| step["change"] != **kind)) {
        None => Ok(()),
        Some(kind) => Err(format!("the plan has no change of {kind}: {plan}")),
    }
}

/// Files of masks that the plan names, with their processors.
fn files(plan: &Value) -> Result<BTreeMap<String, BTreeSet<u32>>, String> {
    let mut files = BTreeMap::new();
    for step in plan["steps"].as_array().into_iter().flatten() {
        let file = match step["change"].as_str() {
            Some("xps") => format!("tx-{}/xps_cpus", step["queue"]),
            Some("rps") => format!("rx-{}/rps_cpus", step["queue"]),
            _ => continue,
        };
        let cpus = list(step["cpus"].as_str().ok_or_else(|| format!("no CPUs in {step}"))?)?;
        files.insert(format!("/sys/class/net/{DEVICE}/queues/{file}"), cpus);
    }
    Ok(files)
}

/// Processors of a list such as 0-3,8.
pub(super) fn list(text: &str) -> Result<BTreeSet<u32>, String> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is not a CPU number"));
        cpus.extend(number(first)?..=number(last)?);
    }
    Ok(cpus)
}

/// Number of files that the plan does not name, and that are as they were. None may have changed.
fn untouched(before: &Snapshot, named: &BTreeMap<String, BTreeSet<u32>>) -> Result<usize, String> {
    let now = Snapshot::of(&[DEVICE], &[])?;
    let unnamed = |snapshot: &Snapshot| snapshot.without(|path| named.contains_key(path) || is_new(path));
    unnamed(&now).is_as(&unnamed(before))?;
    Ok(unnamed(&now).len())
}

/// True if a file is of a queue that the device does not have at first.
fn is_new(path: &str) -> bool {
    (2..QUEUES_MAX).any(|queue| path.contains(&format!("x-{queue}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!(list("0-2,5\n".trim()), Ok(BTreeSet::from([0, 1, 2, 5])));
        assert_eq!(list(""), Ok(BTreeSet::new()));
        assert!(list("a").is_err());
    }

    #[test]
    fn plans_without_a_kind_are_reported() {
        let plan = serde_json::json!({ "steps": [{ "change": "rps", "queue": 1, "cpus": "0" }] });
        assert!(kinds(&plan, &["rps"]).is_ok() && kinds(&plan, &["rps", "xps"]).is_err());
        let files = files(&plan).unwrap();
        assert_eq!(files["/sys/class/net/hv0/queues/rx-1/rps_cpus"], BTreeSet::from([0]));
    }
}
