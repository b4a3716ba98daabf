//! Another process goes on in place of a target that serves images, while hosts write and check every block. What two gateways
//! do then is tried elsewhere.

use std::time::{Duration, Instant};

use super::config::POOL;
use super::daemon::Daemon;
use super::testbed::Testbed;
use crate::answer::Answer;
use crate::program::Program;

const MIB: u64 = 32;
/// Upgrades that end well, before one whose old process is killed.
const UPGRADES: usize = 3;
/// Time for which the hosts write, in seconds.
const RUNTIME_S: &str = "60";
const HOST_LIMIT: Duration = Duration::from_secs(180);
/// The new process has come by then, and is far from having opened anything.
const EARLY: Duration = Duration::from_millis(150);

/// An image with a lock goes over with it, one without is open in both processes. A process that is killed is shut out by the
/// one that is left, which need not wait for its lock.
pub(super) fn images_go_over(testbed: &mut Testbed) -> Result<(), String> {
    let without = format!("{POOL}/without-lock");
    testbed.cluster.rbd(&[
        "create",
        "--size",
        &format!("{MIB}M"),
        "--image-feature",
        "layering",
        &without,
    ])?;
    let specs = [testbed.image("goes-over", MIB)?, testbed.spec("without-lock")];
    let (control, state) = (testbed.file("upgrade.sock"), testbed.file("upgrade-state"));
    let (control, state) = (format!("unix:{}", control.display()), state.display().to_string());
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    let target = testbed.serve_with(&specs, &["--control", &control, "--state-dir", &state])?;
    let upgrade = [testbed.program.as_str(), "upgrade", "--control", &control, "-o", "json"];
    let load =
        ["--rw", "randrw", "--bs", "4k", "--iodepth", "8", "--rate_iops", "150", "--verify", "-l", "-1"];
    let start =
        |nsid| Program::start(&target.bench_words(nsid, &[&load[..], &["--runtime", RUNTIME_S]].concat()));
    let hosts = [start(1)?, start(2)?];
    let (mut next, mut process) = (Daemon::new("the new process".to_owned(), Vec::new()), target.id());
    for _ in 0..UPGRADES {
        process = follow(&mut next, Answer::of(&upgrade)?, process)?;
    }
    let words = upgrade.map(str::to_owned);
    let under_way = Program::start(&words)?;
    std::thread::sleep(EARLY);
    next.kill();
    let began = Instant::now();
    follow(&mut next, Answer::of_program(under_way, &upgrade)?, process)?;
    let took_ms = began.elapsed().as_millis();
    for (host, nsid) in hosts.into_iter().zip([1, 2]) {
        let report = Answer::of_program_within(host, &["bench"], HOST_LIMIT)?.json()?;
        if report["verify"]["blocks_wrong"] != 0 || report["verify"]["writes"] == 0 {
            return Err(format!("namespace {nsid}: {report}"));
        }
    }
    println!("        {UPGRADES} upgrades; served {took_ms} ms after the old process of another was killed");
    Ok(())
}

/// The process that goes on, by what the upgrade says of it.
fn follow(next: &mut Daemon, answer: Answer, old: u32) -> Result<u32, String> {
    let upgrade = answer.json()?;
    if upgrade["former_process"] != old {
        return Err(format!("not in place of {old}: {upgrade}"));
    }
    let process = upgrade["process"].as_u64().and_then(|process| u32::try_from(process).ok());
    let process = process.ok_or_else(|| format!("no process: {upgrade}"))?;
    next.follow(process as i32)?;
    Ok(process)
}
