//! Images that are administered through the program: made and removed with their namespaces, resized, with snapshots and
//! clones, by a user who may no more than `profile rbd` allows, while hosts use them.

use std::time::Duration;

use engine::initiator::Volume;
use serde_json::Value;

use super::config::{POOL, USER};
use super::target::{NQN, Target, said};
use super::testbed::{OBJECT_BYTES, Testbed, same, soon};
use crate::answer::Answer;

const MIB: u64 = 8;
const BYTES: usize = (MIB << 20) as usize;
/// Time for one command: some wait for a cluster that does not answer.
const LIMIT: Duration = Duration::from_secs(150);

/// A target that serves memory, and its control socket.
struct Desk {
    target: Target,
    program: String,
    control: String,
    conf: String,
}

impl Desk {
    fn open(testbed: &Testbed, name: &str) -> Result<Desk, String> {
        let control = format!("unix:{}", testbed.file(&format!("{name}.sock")).display());
        let target = testbed.serve_with(&["memory:1m"], &["--control", &control])?;
        let conf = testbed.cluster.conf().display().to_string();
        Ok(Desk { target, program: testbed.program.clone(), control, conf })
    }

    fn answer(&self, words: &[&str]) -> Result<Answer, String> {
        let whole: Vec<&str> =
            [&self.program].into_iter().map(String::as_str).chain(words.iter().copied()).collect();
        Answer::within(&[&whole[..], &["--control", &self.control, "-o", "json"]].concat(), LIMIT)
    }

    /// A command on the namespaces, which has to go well.
    fn does(&self, words: &[&str]) -> Result<Value, String> {
        let answer = self.answer(&[&["namespace", words[0], NQN], &words[1..]].concat())?;
        answer.json().map_err(|reason| format!("namespace {}: {reason}", words.join(" ")))
    }

    /// A command on the namespaces, which has to fail with these words.
    fn refuses(&self, words: &[&str], parts: &[&str]) -> Result<(), String> {
        let answer = self.answer(&[&["namespace", words[0], NQN], &words[1..]].concat())?;
        answer.fails(1, parts).map_err(|reason| format!("namespace {}: {reason}", words.join(" ")))
    }

    /// Adds a namespace on a new image, as the user who may little; its identifier.
    fn create(&self, image: &str, more: &[&str]) -> Result<u32, String> {
        let size = format!("{MIB}m");
        let words =
            ["create", "--rbd-pool", POOL, "--rbd-image", image, "--rbd-create-image", "--size", &size];
        let user = ["--rbd-conf", &self.conf, "--rbd-id", USER];
        nsid(&self.does(&[&words[..], &user, more].concat())?)
    }

    fn namespaces(&self) -> Result<usize, String> {
        let listed = self.does(&["list"])?;
        Ok(listed["namespaces"].as_array().map_or(0, Vec::len))
    }
}

fn nsid(namespace: &Value) -> Result<u32, String> {
    let nsid = namespace["nsid"].as_u64().ok_or_else(|| format!("no nsid in {namespace}"))?;
    u32::try_from(nsid).map_err(said)
}

fn images(testbed: &Testbed) -> Result<Vec<String>, String> {
    Ok(testbed.cluster.rbd(&["ls", POOL])?.lines().map(str::to_owned).collect())
}

fn is_there(testbed: &Testbed, image: &str) -> Result<bool, String> {
    Ok(images(testbed)?.iter().any(|known| known == image))
}

fn wanted(what: &str, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("not so: {what}")) }
}

pub(super) fn images_come_and_go(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "come")?;
    let like =
        ["--features", "layering,exclusive-lock", "--object-size", "1m", "--load-balancing-group", "2"];
    let made = desk.create("made", &like)?;
    let info = testbed.cluster.rbd(&["info", "--format", "json", "rbd/made"])?;
    let info: Value = serde_json::from_str(&info).map_err(said)?;
    wanted("the image has the size", info["size"] == MIB << 20)?;
    wanted("the image has objects of 1 MiB", info["object_size"] == 1 << 20)?;
    let features = info["features"].as_array().map(Vec::len);
    wanted("the image has two features", features == Some(2))?;
    wanted("the namespace is in group 2", desk.does(&["show", &made.to_string()])?["ana_group"] == 2)?;
    let content = testbed.content(50, BYTES);
    desk.target.namespace(made)?.write_at(0, &content).map_err(said)?;
    same("rbd export", &testbed.export("made")?, &content)?;
    // The removal of a namespace leaves its image, unless a flag says otherwise.
    desk.does(&["remove", &made.to_string()])?;
    wanted("the image of a removed namespace is there", is_there(testbed, "made")?)?;
    let again = format!("{},id={USER}", testbed.spec("made"));
    let again = nsid(&desk.does(&["add", &again])?)?;
    let mut found = vec![0; BYTES];
    desk.target.namespace(again)?.read_at(0, &mut found).map_err(said)?;
    same("the image that was removed and added", &found, &content)?;
    desk.does(&["remove", &again.to_string(), "--delete-image"])?;
    wanted("a deleted image is gone", !is_there(testbed, "made")?)?;
    let other = desk.create("other", &[])?;
    desk.does(&["snapshot", &other.to_string(), "kept"])?;
    desk.does(&["remove", &other.to_string(), "--rbd-trash-image"])?;
    wanted("an image in the trash is gone", !is_there(testbed, "other")?)?;
    let trash = testbed.cluster.rbd(&["trash", "ls", POOL])?;
    wanted("the trash has the image", trash.contains(" other"))?;
    wanted("memory alone is served", desk.namespaces()? == 1)?;
    desk.target.end()
}

pub(super) fn what_cannot_be_is_refused(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "refuse")?;
    let there = desk.create("there", &[])?.to_string();
    let spec = |image: &str| format!("{},id={USER}", testbed.spec(image));
    let create = |image: &str| [spec(image), "--rbd-create-image".into(), "--size".into(), "8m".into()];
    let refuses_to_create = |image: &str, more: &[&str], parts: &[&str]| {
        let words = create(image);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        desk.refuses(&[&["add"], &words[..], more].concat(), parts)
    };
    let taken = testbed.image("taken-by-hand", MIB)?;
    refuses_to_create("taken-by-hand", &[], &["rbd/taken-by-hand already exists"])?;
    refuses_to_create("there", &[], &["rbd/there is namespace"])?;
    refuses_to_create("new", &["--features", "layering,speed"], &["speed", "exclusive-lock"])?;
    refuses_to_create("new", &["--object-size", "3m"], &["power of two"])?;
    refuses_to_create("new", &["--rbd-data-pool", "elsewhere"], &["no pool elsewhere"])?;
    refuses_to_create("nowhere/new", &[], &["rbd/nowhere"])?;
    desk.refuses(&["add", &spec("missing")], &["there is no rbd/missing", "rbd ls"])?;
    desk.refuses(&["resize", &there, "4m"], &["smaller", "--shrink"])?;
    desk.refuses(&["resize", &there, "4097"], &["whole number"])?;
    desk.refuses(&["flatten", &there], &["is not a clone"])?;
    desk.refuses(&["flatten", "1"], &["not on a Ceph image"])?;
    desk.refuses(&["clone", &there, "--rbd-image", "new"], &["snapshot"])?;
    desk.refuses(&["clone", &there, "--snapshot", "none", "--rbd-image", "new"], &["there@none"])?;
    desk.refuses(&["snapshot", &there, "none", "--remove"], &["there@none"])?;
    desk.does(&["snapshot", &there, "once"])?;
    desk.refuses(&["snapshot", &there, "once"], &["there@once already exists"])?;
    desk.refuses(&["remove", &there, "--delete-image"], &["has snapshots", "rbd snap ls"])?;
    wanted("what is refused changes nothing", desk.namespaces()? == 2 && !is_there(testbed, "new")?)?;
    // The removal does not harm a client that has the image open.
    let other = testbed.serve(&[&taken])?;
    let content = testbed.content(51, BYTES);
    desk.refuses(&["add", &format!("{taken},id={USER}")], &["opened exclusively by"])?;
    other.namespace(1)?.write_at(0, &content).map_err(said)?;
    same("the other's image", &testbed.export("taken-by-hand")?, &content)?;
    desk.target.end()
}

/// The image of a namespace to come is opened before that is there: whatever refuses the namespace, it is closed again, and one
/// that was made for it is gone.
pub(super) fn what_is_refused_leaves_no_image_open(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "closed")?;
    // With a connection that is there, which is the one by which others are opened.
    let there = desk.create("at-hand", &[])?.to_string();
    let spec = |image: &str| format!("{},id={USER}", testbed.spec(image));
    testbed.image("closed-free", MIB)?;
    testbed.cluster.rbd(&["create", "--size", "1K", "rbd/closed-small"])?;
    let other = testbed.serve(&[&testbed.image("closed-locked", MIB)?])?;
    let uuid = desk.does(&["show", &there])?["uuid"].as_str().unwrap_or_default().to_owned();
    desk.refuses(&["add", &spec("closed-small")], &["less than one block"])?;
    desk.refuses(&["add", &format!("{},uuid={uuid}", spec("closed-free"))], &[&uuid])?;
    desk.refuses(&["add", &spec("closed-locked")], &["opened exclusively by"])?;
    other.end()?;
    let new = [&format!("{},uuid={uuid}", spec("closed-new")), "--rbd-create-image", "--size", "8m"];
    desk.refuses(&[&["add"], &new[..]].concat(), &[&uuid])?;
    for image in ["closed-free", "closed-small", "closed-locked"] {
        soon("its end", || {
            let users = testbed.cluster.rbd(&["status", &format!("rbd/{image}")])?;
            wanted(&format!("rbd/{image} is not open: {users}"), users.contains("Watchers: none"))
        })?;
    }
    for image in ["closed-free", "closed-small", "closed-locked"] {
        let held = testbed.cluster.rbd(&["lock", "ls", &format!("rbd/{image}")])?;
        wanted(&format!("rbd/{image} has no lock: {held}"), held.trim().is_empty())?;
    }
    wanted("the image of a refused namespace is gone", !is_there(testbed, "closed-new")?)?;
    // What was refused is had as soon as nothing is in its way.
    desk.does(&["add", &spec("closed-free")])?;
    desk.target.end()
}

/// Images that were locked by hand, for which the library would wait without end: they are refused
/// with the owner's name, and served when that lock is gone. Other images are served meanwhile.
pub(super) fn images_locked_by_hand_are_refused(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "by-hand")?;
    let spec = format!("{},id={USER}", testbed.image("by-hand-locked", MIB)?);
    testbed.cluster.rbd(&["lock", "add", "rbd/by-hand-locked", "maintenance"])?;
    for beside in ["by-hand-one", "by-hand-two"] {
        desk.refuses(&["add", &spec], &["opened exclusively by client.", "by hand", "maintenance"])?;
        desk.create(beside, &[])?;
    }
    let locks = testbed.cluster.rbd(&["lock", "ls", "--format", "json", "rbd/by-hand-locked"])?;
    let locks: serde_json::Value = serde_json::from_str(&locks).map_err(said)?;
    let locker = locks[0]["locker"].as_str().ok_or_else(|| format!("no lock: {locks}"))?;
    testbed.cluster.rbd(&["lock", "rm", "rbd/by-hand-locked", "maintenance", locker])?;
    desk.does(&["add", &spec])?;
    desk.target.end()
}

/// A namespace that another target serves too cannot have its image removed here, and the other's writes go on.
pub(super) fn images_in_use_stay(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "stay")?;
    let nsid = desk.create("stays", &["--features", "layering"])?.to_string();
    let other = testbed.serve(&[&testbed.spec("stays")])?;
    let content = testbed.content(52, BYTES);
    other.namespace(1)?.write_at(0, &content[..BYTES / 2]).map_err(said)?;
    for how in ["--delete-image", "--rbd-trash-image"] {
        let words = ["is removed, but rbd/stays stays", "is in use by client."];
        desk.refuses(&["remove", &nsid, how], &words)?;
        let spec = format!("{},id={USER},nsid={nsid}", testbed.spec("stays"));
        desk.does(&["add", &spec])?;
    }
    other.namespace(1)?.write_at(BYTES as u64 / 2, &content[BYTES / 2..]).map_err(said)?;
    same("rbd export", &testbed.export("stays")?, &content)
}

pub(super) fn sizes_are_changed(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "size")?;
    let nsid = desk.create("sized", &[])?;
    let controller = desk.target.connect(2)?;
    let namespace = Volume::on_controller(&controller, nsid).map_err(said)?;
    let content = testbed.content(53, BYTES);
    namespace.write_at(0, &content).map_err(said)?;
    for mib in [2 * MIB, MIB / 2] {
        let _ = controller.events();
        desk.does(&["resize", &nsid.to_string(), &format!("{mib}m"), "--shrink"])?;
        soon("the new size", || {
            let found = controller.namespace(nsid).map_err(said)?.size_bytes();
            if found == mib << 20 { Ok(()) } else { Err(format!("Identify says {found} bytes")) }
        })?;
        let info = testbed.cluster.rbd(&["info", "rbd/sized"])?;
        wanted(&format!("the image has {mib} MiB: {info}"), info.contains(&format!("size {mib} MiB")))?;
    }
    same("what is left", &testbed.export("sized")?, &content[..BYTES / 2])
}

/// A snapshot is one moment, a clone has what was there then, and flattened it needs neither.
pub(super) fn clones_are_what_was_there(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "clone")?;
    let parent = desk.create("parent", &["--block-size", "512"])?;
    let (before, after) = (testbed.content(54, BYTES), testbed.content(55, BYTES));
    let namespace = desk.target.namespace(parent)?;
    namespace.write_at(0, &before).map_err(said)?;
    desk.does(&["snapshot", &parent.to_string(), "then"])?;
    namespace.write_at(0, &after).map_err(said)?;
    let listed = desk.does(&["snapshot", &parent.to_string()])?;
    wanted("the snapshot is listed", listed["snapshots"][0]["name"] == "then")?;
    let group = ["--load-balancing-group", "2"];
    let words = ["--snapshot", "then", "--rbd-image", "child", "--iops", "100000"];
    let made = desk.does(&[&["clone", &parent.to_string()], &words[..], &group].concat())?;
    wanted("the clone is in group 2", made["ana_group"] == 2)?;
    wanted("the clone has blocks of 512 bytes", made["block_size"] == 512)?;
    let child = nsid(&made)?;
    let clone = desk.target.namespace(child)?;
    let mut found = vec![0; BYTES];
    clone.read_at(0, &mut found).map_err(said)?;
    same("the clone", &found, &before)?;
    let object = OBJECT_BYTES as usize;
    clone.write_at(0, &after[..object]).map_err(said)?;
    let flat = desk.does(&["flatten", &child.to_string()])?;
    wanted(&format!("the flattening is done: {flat}"), flat["state"] == "done" && flat["total"] != 0)?;
    let info = testbed.cluster.rbd(&["info", "rbd/child"])?;
    wanted("a flattened clone has no parent", !info.contains("parent:"))?;
    desk.does(&["snapshot", &parent.to_string(), "then", "--remove"])?;
    desk.does(&["remove", &parent.to_string(), "--delete-image"])?;
    clone.read_at(0, &mut found).map_err(said)?;
    same("the flattened clone", &found, &[&after[..object], &before[object..]].concat())?;
    same("rbd export", &testbed.export("child")?, &found)
}

/// While a cluster does not answer, who asks for an image of it waits; others are answered.
pub(super) fn a_silent_cluster_delays_no_administration(testbed: &mut Testbed) -> Result<(), String> {
    let desk = Desk::open(testbed, "silent")?;
    testbed.cluster.osd(0).stop();
    let outcome = std::thread::scope(|scope| {
        let words = ["create", "--rbd-image", "late", "--rbd-create-image", "--size", "8m"];
        let conf = ["--rbd-conf", &desk.conf];
        let desk = &desk;
        let waiting =
            scope.spawn(move || desk.refuses(&[&words[..], &conf].concat(), &["in time", "ceph -s"]));
        let outcome = (|| {
            desk.answer(&["status"])?.well()?;
            desk.does(&["add", "memory:1m"])?;
            desk.does(&["list"])?;
            wanted("the cluster is still asked when others are answered", !waiting.is_finished())
        })();
        let waited = waiting.join().map_err(|_| "the thread that waits ended".to_owned())?;
        outcome.and(waited)
    });
    testbed.cluster.osd(0).resume();
    outcome?;
    testbed.cluster.await_osds_up(1)?;
    let late = desk.create("late", &[])?.to_string();
    desk.does(&["remove", &late, "--delete-image"]).map(drop)
}
