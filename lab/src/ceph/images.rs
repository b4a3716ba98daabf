//! What images can be beside whole and of one size: snapshots, others' sizes, in namespaces of RADOS, with keys of their own.

use std::time::Duration;

use engine::initiator::Volume;
use nvme::Status;
use nvme::features::AsyncEvent;
use nvme::log_page::LogPageId;

use super::config::USER;
use super::target::{Target, said};
use super::testbed::{OBJECT_BYTES, Testbed, same, soon};

const MIB: u64 = 8;
const BYTES: usize = (MIB << 20) as usize;
/// Bytes for a list of changed namespaces: all of the page.
const CHANGED_LIST_BYTES: usize = 4096;

/// A snapshot is what was there, it cannot be changed, and the image beside it can.
pub(super) fn snapshots_are_read_only(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("shot", MIB)?;
    let (before, after) = (testbed.content(30, BYTES), testbed.content(31, BYTES));
    let target = testbed.serve(&[&spec])?;
    let namespace = target.namespace(1)?;
    namespace.write_at(0, &before).map_err(said)?;
    testbed.cluster.rbd(&["snap", "create", "--no-progress", "rbd/shot@then"])?;
    namespace.write_at(0, &after).map_err(said)?;
    target.end()?;
    let target = testbed.serve(&[&spec, &testbed.spec("shot@then")])?;
    let shot = target.namespace(2)?;
    if !shot.info().is_write_protected {
        return Err("Identify does not say that the snapshot is write protected".to_owned());
    }
    holds(&shot, "the snapshot", &before)?;
    let refused = shot.write_at(0, &after[..4096]).err().and_then(|error| error.status());
    if refused.map(Status::without_flags) != Some(Status::WRITE_PROTECTED) {
        return Err(format!("a write to the snapshot ends with {refused:?}"));
    }
    target.namespace(1)?.write_at(0, &before[..4096]).map_err(said)?;
    holds(&shot, "the snapshot after writes", &before)?;
    same("the image", &testbed.export("shot")?, &[&before[..4096], &after[4096..]].concat())
}

/// Freed or zeroed blocks of a clone read as zeroes: its parent's data does not come back from
/// below.
pub(super) fn clones_hide_their_parents(testbed: &mut Testbed) -> Result<(), String> {
    let parent = testbed.content(37, 2 * BYTES);
    let path = testbed.file("beneath.img");
    std::fs::write(&path, &parent).map_err(said)?;
    testbed.cluster.rbd(&["import", "--no-progress", &path.display().to_string(), "rbd/beneath"])?;
    testbed.cluster.rbd(&["snap", "create", "--no-progress", "rbd/beneath@base"])?;
    let clone = ["clone", "--rbd-default-clone-format", "2", "rbd/beneath@base", "rbd/above"];
    testbed.cluster.rbd(&clone)?;
    let target = testbed.serve(&[&testbed.spec("above")])?;
    let namespace = target.namespace(1)?;
    holds(&namespace, "the clone", &parent)?;
    let (object, block) = (OBJECT_BYTES as usize, namespace.block_size() as usize);
    let mut wanted = parent.clone();
    namespace.deallocate(0, OBJECT_BYTES).map_err(said)?;
    wanted[..object].fill(0);
    namespace.write_zeroes(OBJECT_BYTES, OBJECT_BYTES, true).map_err(said)?;
    wanted[object..2 * object].fill(0);
    namespace.write_zeroes((2 * object + block) as u64, block as u64, false).map_err(said)?;
    wanted[2 * object + block..][..block].fill(0);
    namespace.write_at((3 * object) as u64, &parent[..block]).map_err(said)?;
    wanted[3 * object..][..block].copy_from_slice(&parent[..block]);
    if !namespace.compare((3 * object) as u64, &wanted[3 * object..][..2 * block]).map_err(said)? {
        return Err("a block of the clone and one of its parent compare as different".to_owned());
    }
    holds(&namespace, "the changed clone", &wanted)?;
    same("rbd export", &testbed.export("above")?, &wanted)?;
    same("the parent", &testbed.export("beneath@base")?, &parent)
}

/// Images that are not as `rbd create` makes them: small objects, stripes, no exclusive lock, no whole block at the end.
pub(super) fn images_of_all_kinds_are_served(testbed: &mut Testbed) -> Result<(), String> {
    let kinds: [(&str, &[&str], usize); 4] = [
        ("small-objects", &["--size", "8M", "--object-size", "64K"], BYTES),
        ("striped", &["--size", "8M", "--stripe-unit", "64K", "--stripe-count", "4"], BYTES),
        ("unlocked", &["--size", "8M", "--image-feature", "layering"], BYTES),
        // Half a block at the end is not served: the namespace ends before it.
        ("odd", &["--size", "8390656B"], BYTES),
    ];
    for (which, (name, words, bytes)) in (80..).zip(kinds) {
        let image = format!("rbd/{name}");
        testbed.cluster.rbd(&[&["create"], words, &[&image]].concat())?;
        let target = testbed.serve(&[&testbed.spec(name)])?;
        let namespace = target.namespace(1)?;
        if namespace.size_bytes() != bytes as u64 {
            return Err(format!("{name}: {} bytes and not {bytes}", namespace.size_bytes()));
        }
        let mut content = testbed.content(which, bytes);
        namespace.write_at(0, &content).map_err(said)?;
        namespace.write_zeroes(4096, 1 << 20, true).map_err(said)?;
        content[4096..][..1 << 20].fill(0);
        holds(&namespace, name, &content)?;
        target.end()?;
        same(name, &testbed.export(name)?[..bytes], &content)?;
    }
    Ok(())
}

/// An image that grows: the host is notified, sees the size, and can use the new blocks.
pub(super) fn sizes_are_followed(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&testbed.image("grown", MIB)?])?;
    let namespace = target.namespace(1)?;
    let content = testbed.content(32, BYTES);
    namespace.write_at(0, &content).map_err(said)?;
    let took = resized(testbed, &namespace, 2 * MIB)?;
    let larger = target.namespace(1)?;
    larger.write_at(BYTES as u64, &content).map_err(said)?;
    same("rbd export", &testbed.export("grown")?, &[&content[..], &content].concat())?;
    println!("        the host sees the new size {} ms after `rbd resize` began", took.as_millis());
    let took = resized(testbed, &namespace, MIB / 2)?;
    println!("        and the smaller one after {} ms", took.as_millis());
    let beyond = namespace.read_at(BYTES as u64 / 2, &mut [0; 4096]).err().and_then(|error| error.status());
    if beyond.map(Status::without_flags) != Some(Status::LBA_OUT_OF_RANGE) {
        return Err(format!("a read behind the new end ends with {beyond:?}"));
    }
    holds(&namespace, "what is left", &content[..BYTES / 2])
}

/// Resizes the image, and waits until the host has an event and sees the size.
fn resized(testbed: &Testbed, namespace: &Volume, mib: u64) -> Result<Duration, String> {
    let controller = namespace.controllers().remove(0);
    let nsid = namespace.info().nsid;
    let _ = controller.events();
    let size = format!("{mib}M");
    std::thread::scope(|scope| {
        let resizing = scope.spawn(|| {
            testbed.cluster.rbd(&["resize", "--no-progress", "--allow-shrink", "--size", &size, "rbd/grown"])
        });
        let ((), took) = soon("a new size", || {
            let found = controller.namespace(nsid).map_err(said)?.size_bytes();
            if found == mib << 20 { Ok(()) } else { Err(format!("Identify says {found} bytes")) }
        })?;
        soon("an event", || {
            let events = controller.events();
            let is_notified = events.contains(&AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
            if is_notified { Ok(()) } else { Err(format!("only {events:?} came")) }
        })?;
        // The next event comes when this one has been looked after.
        controller.log_page(LogPageId::CHANGED_NAMESPACES, 0, 0, CHANGED_LIST_BYTES).map_err(said)?;
        resizing.join().map_err(|_| "the thread that resizes ended".to_owned())??;
        Ok(took)
    })
}

pub(super) fn namespaces_of_rados_are_served(testbed: &mut Testbed) -> Result<(), String> {
    testbed.cluster.rbd(&["namespace", "create", "rbd/within"])?;
    // The same name outside, so that one cannot be taken for the other.
    let (outer, inner) = (testbed.image("twice", MIB)?, testbed.image("within/twice", MIB)?);
    let target = testbed.serve(&[&outer, &inner])?;
    let contents = [testbed.content(33, BYTES), testbed.content(34, BYTES)];
    for (nsid, content) in (1..).zip(&contents) {
        target.namespace(nsid)?.write_at(0, content).map_err(said)?;
    }
    same("the outer image", &testbed.export("twice")?, &contents[0])?;
    same("the inner image", &testbed.export("within/twice")?, &contents[1])
}

pub(super) fn users_have_their_own_keys(testbed: &mut Testbed) -> Result<(), String> {
    let target = testbed.serve(&[&format!("{},id={USER}", testbed.image("keyed", MIB)?)])?;
    let content = testbed.content(35, BYTES);
    target.namespace(1)?.write_at(0, &content).map_err(said)?;
    // Who has the image open is known to Ceph by the user's name.
    let watchers = testbed.cluster.rbd(&["status", "rbd/keyed"])?;
    if !watchers.contains("watcher=") {
        return Err(format!("the image has no watcher: {watchers}"));
    }
    same("rbd export", &testbed.export("keyed")?, &content)
}

/// A target that ends gives the image back at once, and one that is killed leaves no lock that the next minds.
pub(super) fn images_are_given_back(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("handed", MIB)?;
    let content = testbed.content(36, BYTES);
    let first = testbed.serve(&[&spec])?;
    first.namespace(1)?.write_at(0, &content[..BYTES / 2]).map_err(said)?;
    first.end()?;
    let second = testbed.serve(&[&spec])?;
    second.namespace(1)?.write_at(BYTES as u64 / 2, &content[BYTES / 2..]).map_err(said)?;
    second.kill();
    let third = testbed.serve(&[&spec])?;
    let ((), took) = soon("the image of a target that was killed", || first_block_again(&third, &content))?;
    let took = third.start + took;
    println!("        after kill -9, the next target has the image {} ms after its start", took.as_millis());
    same("rbd export", &testbed.export("handed")?, &content)
}

fn first_block_again(target: &Target, content: &[u8]) -> Result<(), String> {
    target.namespace(1)?.write_at(0, &content[..4096]).map_err(said)
}

fn holds(namespace: &Volume, what: &str, content: &[u8]) -> Result<(), String> {
    let mut found = vec![0; content.len()];
    namespace.read_at(0, &mut found).map_err(said)?;
    same(what, &found, content)
}
