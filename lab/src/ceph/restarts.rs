//! Targets that are killed and restarted with the same state directory. A dead target is put on the blocklist, so that
//! its images are available at once; one that is only stopped keeps them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::initiator::Volume;
use nvme::features::AsyncEvent;
use serde_json::Value;

use super::config::USER;
use super::cuts::{LINK, namespace_prefix};
use super::target::{NQN, Target, said};
use super::testbed::{Testbed, same, soon};
use crate::answer::Answer;
use crate::namespace::inside;
use crate::network::Network;
use crate::program::Program;

const MIB: u64 = 8;
const BYTES: usize = (MIB << 20) as usize;
/// File in the state directory of a target that has connections to a cluster.
const KEPT: &str = "ceph-connections.json";
/// Until a host has many commands under way.
const UNDER_WAY: Duration = Duration::from_millis(500);
/// The cluster hears nothing of the target's end, as when its machine dies. The next one starts beside the cluster.
pub(super) fn killed_behind_a_cut(
    testbed: &Testbed,
    network: &mut Network,
    sites: &[String; 2],
) -> Result<(), String> {
    let spec = format!("{},id={USER}", testbed.image("killed", MIB)?);
    let folder = fresh(testbed, "killed-state")?;
    let [behind, beside] = sites;
    let first = serve(testbed, Some(behind), &spec, &folder)?;
    let content = testbed.content(90, BYTES);
    inside(behind, || first.namespace(1)?.write_at(0, &content).map_err(said))?;
    let old = kept(&folder)?;
    let mut words = namespace_prefix(behind);
    words.extend(first.bench_words(1, &["--rw", "randwrite", "--bs", "64k", "--runtime", "60"]));
    let mut writer = Program::start(&words)?;
    std::thread::sleep(UNDER_WAY);
    network.cut(LINK)?;
    first.kill();
    writer.kill();

    let began = Instant::now();
    let second = serve(testbed, Some(beside), &spec, &folder)?;
    let content = testbed.content(91, BYTES);
    soon("the image of a target that was killed", || {
        inside(beside, || second.namespace(1)?.write_at(0, &content).map_err(said))
    })?;
    println!("        its image is written to {} ms after the next start", began.elapsed().as_millis());
    let new = kept(&folder)?;
    if let Some(again) = new.iter().find(|address| old.contains(address)) {
        return Err(format!("{again} of the first target is kept on: {new:?}"));
    }
    for address in &old {
        if !is_shut_out(testbed, address)? {
            return Err(format!("{address} of the first target is not on the blocklist"));
        }
    }
    let log = log(&folder)?;
    if !log.contains("the connections of a dead target are on the blocklist") {
        return Err(format!("the next target has not shut it out: {log}"));
    }
    second.end()?;
    if folder.join(KEPT).exists() {
        return Err("a target that has ended in order leaves connections".to_owned());
    }
    same("rbd export", &testbed.export("killed")?, &content)
}

/// A target without a state directory cannot put a dead one on the blocklist. It waits for the dead one's locks without
/// delaying anything else: other namespaces are served at once, and the images once the cluster has expired the locks.
/// The lock of an image whose namespace is removed by then is not taken.
pub(super) fn locks_of_the_dead_delay_no_start(testbed: &mut Testbed) -> Result<(), String> {
    // 30 s, the default, is long for a test suite; 15 s is still far longer than a target waits when it starts.
    miss_after(testbed, "15")?;
    let outcome = dead_is_waited_for(testbed);
    miss_after(testbed, "30")?;
    outcome
}

/// Has the cluster expire watches of images after `seconds` from now on, when the client that set them is gone.
fn miss_after(testbed: &Testbed, seconds: &str) -> Result<(), String> {
    testbed.cluster.ceph(&["config", "set", "osd", "osd_client_watch_timeout", seconds]).map(drop)
}

fn dead_is_waited_for(testbed: &Testbed) -> Result<(), String> {
    let names = ["dead-kept", "dead-removed", "dead-ended"];
    let mut specs = Vec::new();
    for name in names {
        specs.push(testbed.image(name, MIB)?);
    }
    let all: Vec<&str> = specs.iter().map(String::as_str).collect();
    let first = testbed.serve(&all)?;
    let content = testbed.content(95, BYTES);
    first.namespace(1)?.write_at(0, &content).map_err(said)?;
    let dead = lock_owner(testbed, names[0])?.ok_or("a target that serves an image has not its lock")?;
    first.kill();
    let killed = Instant::now();
    let log = testbed.file("dead.log").display().to_string();
    let control = format!("unix:{}", testbed.file("dead.sock").display());
    let words = ["sh", "-c", "exec \"$@\" 2>\"$0\"", &log, &testbed.program];
    let second = Target::start(&words, &[all[0], all[1], "memory:8m"], &["--control", &control])?;
    let third = testbed.serve(&[all[2], "memory:8m"])?;
    let controller = second.connect(2)?;
    let _ = controller.events();
    let memory = second.namespace(3)?;
    memory.write_at(0, &content).map_err(said)?;
    println!("        memory beside them is served {} ms after the next start", second.start.as_millis());
    for number in [1, 2] {
        if Volume::on_controller(&controller, number).is_ok() {
            return Err(format!("namespace {number} is there, though a dead target has its image's lock"));
        }
    }
    let owner = lock_owner(testbed, names[0])?;
    if owner.as_ref() != Some(&dead) {
        return Err(format!("the lock is held by {owner:?}, and no longer by {dead}"));
    }
    let log = std::fs::read_to_string(&log).map_err(said)?;
    let hint = format!("exclusive lock is held by {dead}");
    if log.matches(&hint).count() != 2 || !log.contains("serving the others and retrying") {
        return Err(format!("not twice `{hint}`, or no retry: {log}"));
    }
    // One that ends meanwhile ends well, and one that is removed is not taken.
    third.end()?;
    let remove = ["namespace", "remove", NQN, "2", "--control", &control];
    Answer::of(&[&[testbed.program.as_str()], &remove[..]].concat())?.well()?;
    let mut found = vec![0; BYTES];
    soon("the image of a target that was killed", || {
        Volume::on_controller(&controller, 1).and_then(|it| it.read_at(0, &mut found)).map_err(said)
    })?;
    println!("        its image is read {} ms after the kill", killed.elapsed().as_millis());
    same("what the dead one wrote", &found, &content)?;
    if !controller.events().contains(&AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED) {
        return Err("the host has no event of the image that has come".to_owned());
    }
    memory.read_at(0, &mut found).map_err(said)?;
    soon("an image without an owner", || {
        let status = testbed.cluster.rbd(&["status", &format!("rbd/{}", names[1])])?;
        match lock_owner(testbed, names[1])? {
            None if !status.contains("watcher=") => Ok(()),
            owner => Err(format!("the lock is {owner:?}'s: {status}")),
        }
    })?;
    second.end()
}

/// The address of who has an image's lock.
fn lock_owner(testbed: &Testbed, name: &str) -> Result<Option<String>, String> {
    let text = testbed.cluster.rbd(&["lock", "ls", "--format", "json", &format!("rbd/{name}")])?;
    let locks: Value =
        serde_json::from_str(&text).map_err(|error| format!("rbd lock ls: {error}: {text}"))?;
    let first = locks.as_array().and_then(|locks| locks.first());
    Ok(first.and_then(|lock| lock["address"].as_str()).map(str::to_owned))
}

/// A target that is stopped holds its state directory, so that no other takes it for dead.
pub(super) fn stopped_is_not_shut_out(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("paused", MIB)?;
    let folder = fresh(testbed, "paused-state")?;
    let mut first = serve(testbed, None, &spec, &folder)?;
    let namespace = first.namespace(1)?;
    let (before, after) = (testbed.content(92, BYTES), testbed.content(93, BYTES));
    namespace.write_at(0, &before).map_err(said)?;
    let old = kept(&folder)?;
    first.stop();
    let flags = ["--state-dir", &folder.display().to_string()];
    let refusal = testbed.serve_with(&[&spec], &flags).err();
    first.resume();
    let who = format!("in use by another target (process {})", first.id());
    match refusal {
        Some(reason) if reason.contains(&who) => {}
        Some(reason) => return Err(format!("a refusal without `{who}`: {reason}")),
        None => return Err("two targets have one state directory".to_owned()),
    }
    for address in &old {
        if is_shut_out(testbed, address)? {
            return Err(format!("{address} of a target that lives is on the blocklist"));
        }
    }
    namespace.write_at(0, &after).map_err(said)?;
    drop(namespace);
    first.end()?;
    same("rbd export", &testbed.export("paused")?, &after)
}

/// A target whose Ceph user may not change the blocklist serves its images all the same, and logs the missing
/// capability.
pub(super) fn a_missing_right_to_blocklist_is_logged(testbed: &mut Testbed) -> Result<(), String> {
    let spec = narrow_image(testbed)?;
    let folder = fresh(testbed, "narrow-state")?;
    serve(testbed, None, &spec, &folder)?.kill();
    let second = serve(testbed, None, &spec, &folder)?;
    let content = testbed.content(94, BYTES);
    second.namespace(1)?.write_at(0, &content).map_err(said)?;
    let text = log(&folder)?;
    let hint = "client.narrow may not put the connections of a dead target on the blocklist";
    if text.matches(hint).count() != 1 || !text.contains("mon 'profile rbd'") {
        return Err(format!("not once `{hint}`: {text}"));
    }
    second.end()
}

/// An image and a user who may not change the blocklist, as `--namespace` takes them.
pub(super) fn narrow_image(testbed: &Testbed) -> Result<String, String> {
    let who = "client.narrow";
    let keyring = testbed.file("narrow.keyring").display().to_string();
    let rights = ["mon", "allow r", "osd", "profile rbd", "-o", &keyring];
    testbed.cluster.ceph(&[&["auth", "get-or-create", who], &rights[..]].concat())?;
    let text = std::fs::read_to_string(testbed.cluster.conf()).map_err(said)?;
    let conf = testbed.file("narrow.conf");
    std::fs::write(&conf, format!("{text}[{who}]\nkeyring = {keyring}\n")).map_err(said)?;
    // Breaking a lock takes the same right.
    testbed.cluster.rbd(&["create", "--size", "8M", "--image-feature", "layering", "rbd/narrow"])?;
    Ok(format!("rbd:rbd/narrow,conf={},id=narrow", conf.display()))
}

/// A target with this state directory, in a network namespace or here, that says beside the directory what it does.
fn serve(testbed: &Testbed, site: Option<&str>, spec: &str, folder: &Path) -> Result<Target, String> {
    let log = folder.with_extension("log").display().to_string();
    let there = site.map(namespace_prefix).unwrap_or_default();
    let logged = ["sh", "-c", "exec \"$@\" 2>>\"$0\"", &log, "env", "SELVEDGE_LOG=info", &testbed.program];
    let words: Vec<&str> = there.iter().map(String::as_str).chain(logged).collect();
    Target::start(&words, &[spec], &["--state-dir", &folder.display().to_string()])
}

/// A state directory that is not there yet, whatever an earlier run has left.
fn fresh(testbed: &Testbed, name: &str) -> Result<PathBuf, String> {
    let folder = testbed.file(name);
    for gone in [std::fs::remove_dir_all(&folder), std::fs::remove_file(folder.with_extension("log"))] {
        match gone {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("{}: {error}", folder.display()));
            }
            _ => {}
        }
    }
    Ok(folder)
}

/// Log of its targets.
fn log(folder: &Path) -> Result<String, String> {
    std::fs::read_to_string(folder.with_extension("log")).map_err(said)
}

/// The addresses that a target keeps in its state directory, at least one.
fn kept(folder: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(folder.join(KEPT)).map_err(|error| format!("{KEPT}: {error}"))?;
    let file: Value = serde_json::from_str(&text).map_err(|error| format!("{KEPT}: {error}: {text}"))?;
    let all = file["connections"].as_array().map_or(&[][..], Vec::as_slice);
    let addresses: Option<Vec<String>> =
        all.iter().map(|connection| connection["address"].as_str().map(str::to_owned)).collect();
    addresses.filter(|all| !all.is_empty()).ok_or_else(|| format!("{KEPT} has no addresses: {text}"))
}

/// True if a connection is on the cluster's blocklist.
pub(super) fn is_shut_out(testbed: &Testbed, address: &str) -> Result<bool, String> {
    let list = testbed.cluster.ceph(&["osd", "blocklist", "ls"])?;
    let is_it = |line: &str| line.split_whitespace().next() == Some(address);
    Ok(list.lines().any(is_it))
}
