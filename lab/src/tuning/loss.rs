//! An interface that goes away while its settings are changed: what else was changed comes back, and nothing stays that
//! would be in the way of the next plan.

use std::io::{Read as _, Write as _, pipe};
use std::process::{Command, Stdio};

use super::changes::{PLAN, nothing_has_changed};
use super::snapshot::{Snapshot, queues};
use super::testbed::{DEVICE, QUEUES_MAX, SPARE, Testbed, ip};
use crate::answer::{Answer, await_some};
use crate::program::Program;

/// Size of a pipe's buffer: the next word into it waits (pipe(7)).
const PIPE_BYTES: usize = 65_536;

/// The program prints each change when it is made. Its output is not read here, so that it waits
/// with its first word, and the interface goes exactly between two changes.
pub(super) fn gone_in_the_middle(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    // Another interface was changed before: that is undone.
    let interfaces = [DEVICE, SPARE].join(",");
    let answer = apply_and_lose(testbed, &interfaces, DEVICE)?;
    answer.fails(1, &["hv1 is gone", "1 change was undone", "as it was before"])?;
    nothing_has_changed(testbed, &before)?;
    testbed.make_pair(1)?;
    // It was changed itself: there is nothing left to undo.
    let answer = apply_and_lose(testbed, SPARE, SPARE)?;
    answer.fails(1, &["hv1 is gone", "1 went with what is gone"])?;
    nothing_has_changed(testbed, &before)?;
    // Neither is in the way of the next.
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    testbed.tune(&["revert"])?.well()?;
    nothing_has_changed(testbed, &before)?;
    testbed.make_pair(1)
}

/// Applies a plan for `interfaces`, and takes the spare one away as soon as `first` has its queues.
fn apply_and_lose(testbed: &Testbed, interfaces: &str, first: &str) -> Result<Answer, String> {
    let failed = |error: std::io::Error| format!("a pipe: {error}");
    let (mut reader, mut writer) = pipe().map_err(failed)?;
    writer.write_all(&[b'\n'; PIPE_BYTES]).map_err(failed)?;
    let mut command = Command::new(&testbed.program);
    command.args(["tune", "apply", "--interface", interfaces, "--queues", "4"]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let started = command.spawn().map(Program::new).map_err(|error| format!("{}: {error}", testbed.program));
    // The command has the writing end too, and the reader waits for the last of them.
    drop(command);
    let program = started?;
    await_some("the first change is not made", || {
        let now = queues(first)?;
        let wanted = (QUEUES_MAX as usize, QUEUES_MAX as usize);
        if now == wanted { Ok(()) } else { Err(format!("{first} has {now:?} queues")) }
    })?;
    ip(&["link", "del", SPARE])?;
    let mut output = Vec::new();
    reader.read_to_end(&mut output).map_err(failed)?;
    Answer::of_program(program, &["tune", "apply"])
}

pub(super) fn gone_after_a_crash(testbed: &Testbed) -> Result<(), String> {
    let before = Snapshot::of(&[DEVICE], &[])?;
    let crash = ["apply", "--kill-before-write", "4", "--interface", SPARE, "--queues", "4"];
    if testbed.tune(&crash)?.signal.is_none() {
        return Err("it was to be killed before write 4".to_owned());
    }
    ip(&["link", "del", SPARE])?;
    let reverted = testbed.tune(&["revert"])?.well()?;
    if !reverted.output.contains("no longer there") {
        return Err(format!("revert says only: {}", reverted.output));
    }
    nothing_has_changed(testbed, &before)?;
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    testbed.tune(&["revert"])?.well()?;
    nothing_has_changed(testbed, &before)?;
    testbed.make_pair(1)
}

pub(super) fn never_there(testbed: &Testbed) -> Result<(), String> {
    for action in ["plan", "apply", "show"] {
        testbed.tune(&[action, "--interface", "no-such-nic0"])?.fails(2, &["no-such-nic0", DEVICE])?;
    }
    Ok(())
}
