//! Hosts, namespaces and targets come and go while commands are with Ceph: the remaining data is
//! whole, and no image of a removed namespace stays open.

use std::time::Duration;

use engine::initiator::{Controller, Volume};
use nvme::features::AsyncEvent;

use super::config::POOL;
use super::target::{NQN, Target, said};
use super::testbed::{Testbed, same, soon};
use crate::answer::Answer;
use crate::program::Program;

const MIB: u64 = 32;
/// Hosts that vanish one after the other, each in the middle of its writes.
const HOSTS: u32 = 5;
/// Until a host has many commands under way.
const UNDER_WAY: Duration = Duration::from_millis(400);

pub(super) fn hosts_vanish(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("vanished", MIB)?])?;
    let before = target.resident_kib()?;
    for _ in 0..HOSTS {
        let mut bench = busy_with(&target, "randwrite")?;
        std::thread::sleep(UNDER_WAY);
        bench.kill();
    }
    let report =
        target.bench(1, &["--rw", "randwrite", "--bs", "64k", "--iodepth", "8", "-i", "2", "--verify"])?;
    if report["verify"]["blocks_wrong"] != 0 {
        return Err(report.to_string());
    }
    println!("        {HOSTS} hosts later: {} KiB resident, {before} KiB before", target.resident_kib()?);
    target.end()?;
    await_no_watcher(testbed, "vanished")
}

/// A target that is asked to end while a host writes as fast as it can.
pub(super) fn target_ends_under_load(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("ended", MIB)?])?;
    let _bench = busy_with(&target, "randwrite")?;
    std::thread::sleep(UNDER_WAY);
    target.end()?;
    await_no_watcher(testbed, "ended")
}

/// A namespace that is removed while a host writes to it, and added again.
pub(super) fn namespace_goes_and_comes(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("removed", MIB)?;
    let control = format!("unix:{}", testbed.file("control.sock").display());
    let target = testbed.serve_with(&[&spec, "memory:1m"], &["--control", &control])?;
    let administer = |words: &[&str]| {
        let words = [&[testbed.program.as_str(), "namespace"], words, &["--control", &control]].concat();
        Answer::of(&words)?.well().map_err(|reason| format!("{}: {reason}", words[2..].join(" ")))
    };
    let content = testbed.content(70, (MIB << 20) as usize);
    let namespace = target.namespace(1)?;
    namespace.write_at(0, &content).map_err(said)?;
    let _bench = busy_with(&target, "randread")?;
    std::thread::sleep(UNDER_WAY);
    administer(&["remove", NQN, "1"])?;
    await_no_watcher(testbed, "removed")?;
    if namespace.read_at(0, &mut [0; 4096]).is_ok() {
        return Err("a namespace that was removed is read".to_owned());
    }
    administer(&["add", NQN, &format!("{spec},nsid=1")])?;
    let mut found = vec![0; content.len()];
    target.namespace(1)?.read_at(0, &mut found).map_err(said)?;
    same("after it was added again", &found, &content)?;
    target.end()
}

/// An image that is made after the target was started is served then, and the host is notified.
pub(super) fn image_comes_later(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.spec("later"), "memory:1m"])?;
    let controller = target.connect(2)?;
    let _ = controller.events();
    testbed.image("later", MIB)?;
    comes(&controller, "an image that was made later")
}

/// An image that another target has is served as soon as that one gives it back.
pub(super) fn image_is_taken_over(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("passed", MIB)?;
    let first = testbed.serve(&[&spec])?;
    let content = testbed.content(71, 4096);
    first.namespace(1)?.write_at(0, &content).map_err(said)?;
    let second = testbed.serve(&[&spec, "memory:1m"])?;
    let controller = second.connect(2)?;
    let _ = controller.events();
    first.end()?;
    comes(&controller, "an image that another target had")?;
    let mut found = vec![0; content.len()];
    Volume::on_controller(&controller, 1).and_then(|it| it.read_at(0, &mut found)).map_err(said)?;
    same("what the other one wrote", &found, &content)
}

/// Waits until namespace 1 is there and its host has an event.
fn comes(controller: &Controller, what: &str) -> Result<(), String> {
    let ((), took) = soon(what, || {
        let namespace = Volume::on_controller(controller, 1).map_err(said)?;
        namespace.write_at(4096, &[7; 4096]).map_err(said)
    })?;
    println!("        it is written to after {} ms", took.as_millis());
    soon("an event", || {
        let is_notified = controller.events().contains(&AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
        if is_notified { Ok(()) } else { Err("none came".to_owned()) }
    })
    .map(drop)
}

/// Starts a bench whose queues stay full of commands of this kind.
fn busy_with(target: &Target, kind: &str) -> Result<Program, String> {
    let depth = ["--bs", "64k", "--iodepth", "32", "-i", "2", "--numjobs", "2", "--runtime", "60"];
    Program::start(&target.bench_words(1, &[&["--rw", kind], &depth[..]].concat()))
}

/// Waits until the image is not open anywhere.
fn await_no_watcher(testbed: &Testbed, name: &str) -> Result<(), String> {
    soon("an image that is not open", || {
        let status = testbed.cluster.rbd(&["status", &format!("{POOL}/{name}")])?;
        if status.contains("watcher=") { Err(status) } else { Ok(()) }
    })
    .map(drop)
}
