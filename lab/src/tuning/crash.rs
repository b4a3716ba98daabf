//! A process that ends by SIGKILL before each of its writes: revert brings back every file byte for byte, and the
//! processors of the workers that run meanwhile.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::changes::{PLAN, kinds};
use super::snapshot::Snapshot;
use super::testbed::{DEVICE, Testbed};

const PORT: u16 = 4421;
/// More writes than a plan for one device with four queues has.
const WRITES_MAX: usize = 200;
const SIGKILL: i32 = 9;

pub(super) fn killed_before_any_write(testbed: &Testbed) -> Result<(), String> {
    let _target = testbed.serve(PORT)?;
    let bench = testbed.bench(PORT, 2)?;
    let look = || Snapshot::of(&[DEVICE], &[bench.id()]);
    let before = look()?;
    let plan = testbed.tune(&[&["apply", "--dry-run", "-o", "json"], &PLAN[..]].concat())?.json()?;
    kinds(&plan, &["channels", "xps", "rps", "thread"])?;
    let steps = plan["steps"].as_array().map_or(0, Vec::len);
    let mut halves = 0;
    for write in 0..WRITES_MAX {
        let is_killed = apply_until(testbed, write)?;
        halves += usize::from(is_killed && look()?.is_as(&before).is_err());
        let reverted =
            testbed.tune(&["revert"])?.well().map_err(|reason| format!("write {write}: {reason}"))?;
        if is_killed != reverted.output.contains("had not been applied to its end") {
            return Err(format!("write {write}: revert says {}", reverted.output));
        }
        look()?.is_as(&before).map_err(|reason| format!("write {write}: {reason}"))?;
        if is_killed {
            continue;
        }
        // Each step is written down and then made, and the end of all is written down, too.
        println!("        {write} kills, {halves} of them with changes made");
        return match (write > 2 * steps, halves > steps) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("{steps} steps were made with {write} writes")),
            (_, false) => Err(format!("only {halves} of {write} kills left changes behind")),
        };
    }
    Err(format!("it is not through after {WRITES_MAX} writes"))
}

pub(super) fn journal_refuses_apply(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    if !apply_until(testbed, 4)? {
        return Err("it was to be killed before write 4".to_owned());
    }
    let left = Snapshot::of(&[DEVICE], &[])?;
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.fails(1, &["in effect", "tune revert"])?;
    Snapshot::of(&[DEVICE], &[])?.is_as(&left)?;
    testbed.tune(&["revert"])?.well()?;
    super::changes::nothing_has_changed(testbed, &before)?;
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    testbed.tune(&["revert"])?.well()?;
    super::changes::nothing_has_changed(testbed, &before)
}

/// Affinities that an administrator has set, all on one processor: those come back, and not all of
/// the machine's.
pub(super) fn affinities_come_back(testbed: &Testbed) -> Result<(), String> {
    let _target = testbed.serve(PORT)?;
    let bench = testbed.bench(PORT, 2)?;
    keep_on(bench.id(), 0)?;
    let look = || Snapshot::of(&[], &[bench.id()]);
    let before = look()?;
    let plan = testbed.tune(&[&["apply", "--dry-run", "-o", "json"], &PLAN[..]].concat())?.json()?;
    kinds(&plan, &["thread"])?;
    let steps = plan["steps"].as_array().map_or(0, Vec::len);
    // All is made, and only the last word of the journal is missing.
    if !apply_until(testbed, 2 * steps)? {
        return Err(format!("{steps} steps were made with {} writes", 2 * steps));
    }
    if look()?.is_as(&before).is_ok() {
        return Err("no worker has moved".to_owned());
    }
    testbed.tune(&["revert"])?.well()?;
    look()?.is_as(&before)
}

/// Applies the plan and kills it before a write. Whether it came to that.
fn apply_until(testbed: &Testbed, write: usize) -> Result<bool, String> {
    let number = write.to_string();
    let run = testbed.tune(&[&["apply", "--kill-before-write", &number], &PLAN[..]].concat())?;
    match (run.code, run.signal) {
        (None, Some(SIGKILL)) => Ok(true),
        (Some(0), _) => Ok(false),
        _ => Err(format!("write {write}: apply ended otherwise: {}", run.errors)),
    }
}

/// Keeps all threads of a process on one processor.
pub(super) fn keep_on(process: u32, cpu: usize) -> Result<(), String> {
    let path = format!("/proc/{process}/task");
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut set = CpuSet::new();
    set.set(cpu);
    for thread in std::fs::read_dir(&path).map_err(failed)? {
        let name = thread.map_err(failed)?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        // One that has ended meanwhile needs no processor.
        let _ = sched_setaffinity(Some(thread.ok_or("a thread without a number")?), &set);
    }
    Ok(())
}
