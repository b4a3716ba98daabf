//! A target on the blocklist of Ceph's monitor: its hosts are sent to another path, and none of its
//! outstanding writes lands.

use std::time::Duration;

use nvme::Status;
use serde_json::Value;

use super::target::said;
use super::testbed::{Testbed, same, soon};

const MIB: u64 = 8;
const BYTES: usize = (MIB << 20) as usize;
/// Status code type of errors that belong to a path (3h).
const PATH_RELATED: u8 = 3;

pub(super) fn blocklisted_writes_do_not_land(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("fenced", MIB)?;
    let old = testbed.serve(&[&spec])?;
    let namespace = old.namespace(1)?;
    let (before, after) = (testbed.content(60, BYTES), testbed.content(61, BYTES));
    namespace.write_at(0, &before).map_err(said)?;
    let address = watcher(testbed, "fenced")?;
    testbed.cluster.ceph(&["osd", "blocklist", "add", &address, "600"])?;
    // What is under way may still be carried out until the OSDs know.
    let (status, took) = soon("a refusal", || match namespace.write_at(0, &before[..4096]) {
        Ok(()) => Err("writes still go well".to_owned()),
        Err(error) => error.status().ok_or_else(|| said(error)),
    })?;
    println!("        {} ms after the blocklist: {status}", took.as_millis());
    is_of_the_path(status)?;
    let new = testbed.serve(&[&spec])?;
    new.namespace(1)?.write_at(0, &after).map_err(said)?;
    for _ in 0..5 {
        match namespace.write_at(0, &before[..4096]).map_err(|error| (error.status(), said(error))) {
            Ok(()) => return Err("the old target writes again, though another has the image".to_owned()),
            Err((Some(status), _)) => is_of_the_path(status)?,
            Err((None, reason)) => return Err(reason),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    same("rbd export", &testbed.export("fenced")?, &after)
}

fn is_of_the_path(status: Status) -> Result<(), String> {
    if status.kind() == PATH_RELATED && !status.is_do_not_retry() {
        return Ok(());
    }
    Err(format!("a write of a blocklisted target ends with {status}, which is not a path error"))
}

/// The address of the only one who watches an image.
pub(super) fn watcher(testbed: &Testbed, name: &str) -> Result<String, String> {
    let text = testbed.cluster.rbd(&["status", "--format", "json", &format!("rbd/{name}")])?;
    let status: Value =
        serde_json::from_str(&text).map_err(|error| format!("rbd status: {error}: {text}"))?;
    let watchers = status["watchers"].as_array().map_or(&[][..], Vec::as_slice);
    let [only] = watchers else { return Err(format!("not one watches the image: {text}")) };
    only["address"].as_str().map(str::to_owned).ok_or_else(|| format!("a watcher without an address: {text}"))
}
