//! Targets whose way to their cluster is cut, on a network that is made for it: what they had under way does not land later, and
//! their images are there again soon after the cut is over.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::initiator::Volume;

use super::config::{Shape, USER};
use super::fencing::watcher;
use super::restarts::{is_shut_out, killed_behind_a_cut, narrow_image};
use super::site::Site;
use super::target::{Target, said};
use super::testbed::{Testbed, same, soon};
use crate::answer::has_failed;
use crate::namespace::inside;
use crate::network::Network;

/// The link by which a target reaches the cluster.
pub(super) const LINK: usize = 1;
const MIB: u64 = 8;
const BYTES: usize = (MIB << 20) as usize;
/// Commands on the image of the target that is cut off may take so long, in seconds.
const TIMEOUT_S: &str = "10";
/// Length of the cut: the system sends again after 26 s and then after 51.
const CUT: Duration = Duration::from_secs(28);

/// A check: what it is called, and what finds out on a cluster, its network, and the network's two ends.
type Check = (&'static str, fn(&Testbed, &mut Network, &[String; 2]) -> Result<(), String>);

const CHECKS: [Check; 2] = [
    ("a target that was killed behind a cut network has its images again", killed_behind_a_cut),
    ("a target that was cut off has its images again soon after", comes_back),
];

fn chosen(only: &str) -> impl Iterator<Item = &Check> {
    CHECKS.iter().filter(move |(name, _)| name.contains(only))
}

/// Number of checks with `only` in their names.
pub(super) fn count_checks(only: &str) -> usize {
    chosen(only).count()
}

/// Does them. How many failed.
///
/// # Errors
/// There is no network or cluster to do them on.
pub(super) fn check(program: &str, output: &Path, only: &str, seed: u64) -> Result<usize, String> {
    let mut checks = chosen(only).peekable();
    if checks.peek().is_none() {
        return Ok(0);
    }
    if !rustix::process::geteuid().is_root() {
        let names: Vec<&str> = checks.map(|(name, _)| *name).collect();
        println!("        not tried, since making network namespaces takes root: {}", names.join(", "));
        return Ok(names.len());
    }
    let mut network = Network::new(seed)?;
    let sites = [network.names().0, network.names().1].map(str::to_owned);
    let site = Site::inside(&sites[1], Ipv4Addr::new(10, 1, LINK as u8, 2));
    let shape = Shape { needs_keys: true, ..Shape::SMALL };
    let testbed = Testbed::at(site, program, &output.join("cuts"), shape, seed)?;
    let mut failed = 0;
    for (name, check) in checks {
        failed += usize::from(has_failed(name, &check(&testbed, &mut network, &sites)));
        network.restore(LINK)?;
    }
    if failed > 0 {
        testbed.keep_logs();
    }
    Ok(failed)
}

/// A live target is cut off until the system hardly retransmits. It opens another connection, and the old one has no
/// effect from then on. A target whose user has no permission for that logs it, and waits.
fn comes_back(testbed: &Testbed, network: &mut Network, sites: &[String; 2]) -> Result<(), String> {
    let there = &sites[0];
    let spec = format!("{},id={USER}", testbed.image("cut", MIB)?);
    let narrow = serve(testbed, there, &[&narrow_image(testbed)?], "cut-narrow.log")?;
    let target = serve(testbed, there, &[&spec, "memory:8m"], "cut.log")?;
    let (before, after) = (testbed.content(96, BYTES), testbed.content(97, BYTES));
    let open = |target: &Target, nsid| inside(there, || target.namespace(nsid));
    let (image, memory, other) = (open(&target, 1)?, open(&target, 2)?, open(&narrow, 1)?);
    image.write_at(0, &before).map_err(said)?;
    other.write_at(0, &before).map_err(said)?;
    let former = watcher(testbed, "cut")?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        network.cut(LINK)?;
        scope.spawn(|| write_on(&image, &before, 4 * CUT, &is_over));
        scope.spawn(|| write_on(&other, &before, CUT / 2, &is_over));
        std::thread::sleep(CUT);
        memory.write_at(0, &before).map_err(said)?;
        let outcome = network.restore(LINK).and_then(|()| {
            let mut first = [0; 4096];
            soon("the image", || image.read_at(BYTES as u64 / 2, &mut first).map_err(said))
        });
        is_over.store(true, Ordering::Relaxed);
        let ((), took) = outcome?;
        println!(
            "        cut off for {} s, its image is read {} ms after that",
            CUT.as_secs(),
            took.as_millis()
        );
        Ok::<(), String>(())
    })?;
    image.write_at(0, &after).map_err(said)?;
    if !is_shut_out(testbed, &former)? {
        return Err(format!("{former}, which was silent, is not on the blocklist"));
    }
    let now = watcher(testbed, "cut")?;
    if now == former {
        return Err(format!("{former} still has the image"));
    }
    let log = std::fs::read_to_string(testbed.file("cut-narrow.log")).map_err(said)?;
    let hint = "client.narrow may not put a silent connection of its own on the blocklist";
    if log.matches(hint).count() != 1 {
        return Err(format!("not once `{hint}`: {log}"));
    }
    target.end()?;
    same("rbd export", &testbed.export("cut")?, &after)
}

/// Writes over and over for `time`, and ignores errors: a write that is under way when the network is cut must not land
/// later.
fn write_on(namespace: &Volume, content: &[u8], time: Duration, is_over: &AtomicBool) {
    let began = Instant::now();
    while !is_over.load(Ordering::Relaxed) && began.elapsed() < time {
        let _ = namespace.write_at(0, content);
    }
}

/// A target in a network namespace that says in a file what it does.
fn serve(testbed: &Testbed, site: &str, specs: &[&str], log: &str) -> Result<Target, String> {
    let (there, log) = (namespace_prefix(site), testbed.file(log).display().to_string());
    let logged = ["sh", "-c", "exec \"$@\" 2>\"$0\"", &log, "env", "SELVEDGE_LOG=info", &testbed.program];
    let words: Vec<&str> = there.iter().map(String::as_str).chain(logged).collect();
    Target::start(&words, specs, &["--ceph-timeout", TIMEOUT_S])
}

/// Prefix of a command line that is to run in a network namespace.
pub(super) fn namespace_prefix(name: &str) -> Vec<String> {
    // What is asked for is the way there and nothing that listens.
    Site::inside(name, Ipv4Addr::UNSPECIFIED).words().into_iter().map(str::to_owned).collect()
}
