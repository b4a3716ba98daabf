//! Ceph loses OSDs while hosts use them. The loss of one of three causes no error. When none is left, hosts get a
//! status that lets them retry, and recover by themselves; hosts of other backends do not notice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::initiator::Volume;

use super::fencing::watcher;
use super::target::{Target, said};
use super::testbed::{Testbed, same, soon};
use crate::answer::Answer;
use crate::program::Program;

const MIB: u64 = 64;
/// Runtime of the bench, and the times at which an OSD is lost and comes back.
const RUNTIME: &str = "24";
const LOST_AFTER: Duration = Duration::from_secs(4);
const BACK_AFTER: Duration = Duration::from_secs(10);
/// Time for the check afterwards, against OSDs that recover meanwhile.
const END_LIMIT: Duration = Duration::from_secs(180);
/// After this the target says that it cannot, in seconds.
const TIMEOUT_S: &str = "3";
/// Time for which all OSDs are away: longer than that.
const AWAY: Duration = Duration::from_secs(8);

/// Verified writes while an OSD is killed and started again.
pub(super) fn one_osd_is_killed(testbed: &mut Testbed) -> Result<(), String> {
    let bench = verified_writes(testbed, "killed")?;
    std::thread::sleep(LOST_AFTER);
    testbed.cluster.osd(1).kill();
    std::thread::sleep(BACK_AFTER);
    testbed.cluster.osd(1).start()?;
    without_error(bench, "kill -9 of one OSD")?;
    testbed.cluster.await_clean()
}

/// The same with one that keeps its connections and says nothing.
pub(super) fn one_osd_is_stopped(testbed: &mut Testbed) -> Result<(), String> {
    let bench = verified_writes(testbed, "stopped")?;
    std::thread::sleep(LOST_AFTER);
    testbed.cluster.osd(2).stop();
    std::thread::sleep(BACK_AFTER);
    testbed.cluster.osd(2).resume();
    without_error(bench, "SIGSTOP of one OSD")?;
    testbed.cluster.await_clean()
}

/// A monitor is asked for nothing while nothing changes: writes go on without it.
pub(super) fn monitor_is_away(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("unmonitored", MIB)?])?;
    let workload = ["--rw", "randwrite", "--iodepth", "4", "--size", "16m", "--runtime", "8", "--verify"];
    let words = target.bench_words(1, &[&workload[..], &["--rate_iops", "500"]].concat());
    let bench = Program::start(&words)?;
    std::thread::sleep(Duration::from_secs(1));
    testbed.cluster.monitor().stop();
    let outcome = without_error(Writing { bench, words, _target: target }, "SIGSTOP of the monitor");
    testbed.cluster.monitor().resume();
    outcome?;
    testbed.cluster.await_clean()
}

/// A target and the bench that writes to it.
struct Writing {
    // Ends before the target it writes to.
    bench: Program,
    words: Vec<String>,
    _target: Target,
}

fn verified_writes(testbed: &Testbed, name: &str) -> Result<Writing, String> {
    let target = testbed.serve(&[&testbed.image(name, MIB)?])?;
    let workload = ["--rw", "randwrite", "--bs", "16k", "--iodepth", "4", "--numjobs", "2", "-i", "2"];
    let bound = ["--size", "32m", "--runtime", RUNTIME, "--rate_iops", "150", "--verify"];
    let words = target.bench_words(1, &[&workload[..], &bound].concat());
    let bench = Program::start(&words)?;
    Ok(Writing { bench, words, _target: target })
}

fn without_error(writing: Writing, what: &str) -> Result<(), String> {
    let Writing { bench, words, _target } = writing;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let report = Answer::of_program_within(bench, &words, END_LIMIT)?.json()?;
    let (write, verify) = (&report["write"], &report["verify"]);
    let worst_ms = write["lat_ns"]["max"].as_f64().unwrap_or_default() / 1e6;
    println!(
        "        {what}: {} writes, {} blocks read back, none wrong; the worst stall {worst_ms:.0} ms",
        verify["writes"], verify["blocks_read_back"]
    );
    if report["ended"] == "complete" && verify["blocks_wrong"] == 0 {
        return Ok(());
    }
    Err(report.to_string())
}

/// All OSDs are away for longer than the target waits: hosts get a status that lets them retry, and
/// succeed when the OSDs are back. A namespace in memory goes on all the while.
pub(super) fn all_osds_are_stopped(testbed: &mut Testbed) -> Result<(), String> {
    let specs = [&testbed.image("away", MIB)?, "memory:16m"];
    let target = testbed.serve_with(&specs, &["--ceph-timeout", TIMEOUT_S])?;
    let content = testbed.content(50, (MIB << 20) as usize);
    let namespace = target.namespace(1)?;
    namespace.write_at(0, &content).map_err(said)?;
    let connection = watcher(testbed, "away")?;
    let osds = 0..3;
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let beside = scope.spawn(|| memory_goes_on(&target, &is_over));
        osds.clone().for_each(|number| testbed.cluster.osd(number).stop());
        let refused = refused_while_away(&namespace);
        osds.for_each(|number| testbed.cluster.osd(number).resume());
        let back = refused.and_then(|()| back_again(&namespace, &content));
        is_over.store(true, Ordering::Relaxed);
        let beside = beside.join().map_err(|_| "the host of the memory ended".to_owned())?;
        back.and(beside)
    });
    testbed.cluster.await_clean()?;
    outcome?;
    // No command was answered, so that another connection would have been no better.
    let now = watcher(testbed, "away")?;
    if now != connection {
        return Err(format!("the image went over from {connection} to {now}"));
    }
    same("rbd export", &testbed.export("away")?, &content)
}

/// Every command in this time ends, and says that it may be tried again.
fn refused_while_away(namespace: &Volume) -> Result<(), String> {
    let until = Instant::now() + AWAY;
    let (mut count, mut longest) = (0, Duration::ZERO);
    while Instant::now() < until {
        let began = Instant::now();
        let outcome = namespace.read_at(0, &mut [0; 4096]);
        longest = longest.max(began.elapsed());
        let Err(error) = outcome else { return Err("a read went well without an OSD".to_owned()) };
        match error.status() {
            Some(status) if !status.is_do_not_retry() => count += 1,
            _ => return Err(format!("a read without an OSD: {error}")),
        }
    }
    println!("        without OSDs {count} reads were refused, the longest after {} ms", longest.as_millis());
    if count > 0 { Ok(()) } else { Err("no read was refused".to_owned()) }
}

/// The same connection works again.
fn back_again(namespace: &Volume, content: &[u8]) -> Result<(), String> {
    let mut found = vec![0; content.len()];
    let ((), took) = soon("the namespace", || namespace.read_at(0, &mut found[..4096]).map_err(said))?;
    println!("        the namespace is back {} ms after its OSDs", took.as_millis());
    let ((), _) = soon("all of it", || namespace.read_at(0, &mut found).map_err(said))?;
    same("after the OSDs are back", &found, content)?;
    soon("writes", || namespace.write_at(0, &content[..4096]).map_err(said)).map(drop)
}

/// Reads and writes memory until it is over, and says what took longest.
fn memory_goes_on(target: &Target, is_over: &AtomicBool) -> Result<(), String> {
    let mut remote = target.remote(2)?;
    let (mut count, mut longest) = (0_u64, Duration::ZERO);
    let (written, mut read) = ([0xa5; 4096], [0; 4096]);
    while !is_over.load(Ordering::Relaxed) {
        let took = remote.write(0, &written)?.max(remote.read(0, &mut read)?);
        longest = longest.max(took);
        count += 1;
        // A machine's worth of other work is left to the others.
        std::thread::sleep(Duration::from_millis(1));
    }
    println!(
        "        memory beside it: {count} writes and reads, the longest {:.1} ms",
        longest.as_secs_f64() * 1e3
    );
    Ok(())
}
