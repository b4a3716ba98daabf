//! What cannot be had: each is refused within bounds and with words that say which thing is missing and what to check, and
//! the rest of the target is there.

use std::path::PathBuf;

use super::config::USER;
use super::target::{Target, said};
use super::testbed::{Testbed, soon};

const MIB: u64 = 8;

/// A file that is not a library is found before the system's libraries.
pub(super) fn no_library(testbed: &mut Testbed) -> Result<(), String> {
    let folder = testbed.file("libraries");
    std::fs::create_dir_all(&folder).map_err(said)?;
    for name in ["librados.so.2", "librados.so", "librbd.so.1", "librbd.so"] {
        std::fs::write(folder.join(name), "").map_err(said)?;
    }
    let path = format!("LD_LIBRARY_PATH={}", folder.display());
    let words = ["librados and librbd are not available", "install"];
    refused_by(testbed, &["env", &path, &testbed.program], &testbed.spec("any"), &words)
}

pub(super) fn no_such_pool(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.spec("any").replace("rbd:rbd/", "rbd:elsewhere/");
    refused(testbed, &spec, &["there is no pool elsewhere", "ceph osd pool ls"])
}

pub(super) fn no_such_image(testbed: &mut Testbed) -> Result<(), String> {
    refused(testbed, &testbed.spec("nowhere"), &["nowhere", "rbd ls"])
}

pub(super) fn no_such_snapshot(testbed: &mut Testbed) -> Result<(), String> {
    testbed.image("unshot", MIB)?;
    refused(testbed, &testbed.spec("unshot@never"), &["never", "unshot", "rbd ls -l"])
}

pub(super) fn no_such_namespace_of_rados(testbed: &mut Testbed) -> Result<(), String> {
    refused(testbed, &testbed.spec("outside/any"), &["outside/any"])
}

pub(super) fn no_configuration(testbed: &mut Testbed) -> Result<(), String> {
    let conf = testbed.file("missing.conf").display().to_string();
    refused(testbed, &format!("rbd:rbd/any,conf={conf}"), &[&conf, "conf=FILE"])
}

pub(super) fn no_such_user(testbed: &mut Testbed) -> Result<(), String> {
    let spec = format!("{},id=unknown", testbed.spec("any"));
    refused(testbed, &spec, &["client.unknown", "ceph auth get client.unknown", "keyring"])
}

pub(super) fn no_keyring(testbed: &mut Testbed) -> Result<(), String> {
    let keyring = testbed.file("missing.keyring").display().to_string();
    let conf = altered(testbed, "no-keyring.conf", "keyring = ", &keyring)?;
    let spec = format!("rbd:rbd/any,conf={}", conf.display());
    refused(testbed, &spec, &["no key for client.admin", &keyring])
}

pub(super) fn wrong_key(testbed: &mut Testbed) -> Result<(), String> {
    let keyring = testbed.file("wrong.keyring");
    // The key is well-formed, and belongs to no client.
    let text = format!("[client.{USER}]\n\tkey = AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA==\n");
    std::fs::write(&keyring, text).map_err(said)?;
    let conf = altered(testbed, "wrong-key.conf", "keyring = ", &keyring.display().to_string())?;
    let spec = format!("rbd:rbd/any,conf={},id={USER}", conf.display());
    refused(testbed, &spec, &[&format!("refuses client.{USER}"), "ceph auth get", "wrong.keyring"])
}

pub(super) fn no_monitor(testbed: &mut Testbed) -> Result<(), String> {
    // Port 1 of the loopback has no listener, which the system reports at once; a monitor that does
    // not answer at all is another thing.
    let conf = altered(testbed, "no-monitor.conf", "mon_host = ", "[v2:127.0.0.1:1]")?;
    let spec = format!("rbd:rbd/any,conf={}", conf.display());
    refused(testbed, &spec, &["no monitor", "127.0.0.1:1", "mon_host"])
}

/// A monitor that is there and says nothing.
pub(super) fn silent_monitor(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("unheard", MIB)?;
    testbed.cluster.monitor().stop();
    let outcome = refused(testbed, &spec, &["no monitor"]);
    testbed.cluster.monitor().resume();
    outcome?;
    testbed.cluster.await_osds_up(1)
}

/// An image that another target serves: its owner is named, and the rest is served.
pub(super) fn in_use_elsewhere(testbed: &mut Testbed) -> Result<(), String> {
    let spec = testbed.image("taken", MIB)?;
    let owner = testbed.serve(&[&spec])?;
    let content = testbed.content(40, 4096);
    owner.namespace(1)?.write_at(0, &content).map_err(said)?;
    refused(testbed, &spec, &["rbd/taken is opened exclusively by ", "127.0.0.1", "rbd lock"])?;
    // The attempt did the owner no harm.
    let mut found = vec![0; content.len()];
    let namespace = owner.namespace(1)?;
    namespace.write_at(4096, &content).map_err(said)?;
    namespace.read_at(0, &mut found).map_err(said)?;
    if found == content { Ok(()) } else { Err("the owner reads something else".to_owned()) }
}

/// Serves memory beside what cannot be had, and looks at what is said of the latter.
pub(super) fn refused(testbed: &Testbed, spec: &str, words: &[&str]) -> Result<(), String> {
    refused_by(testbed, &[&testbed.program], spec, words)
}

fn refused_by(testbed: &Testbed, program: &[&str], spec: &str, words: &[&str]) -> Result<(), String> {
    let log = testbed.file("refusal.log");
    let path = log.display().to_string();
    let logged = [&["sh", "-c", "exec \"$@\" 2>\"$0\"", &path], program].concat();
    let target = Target::start(&logged, &[spec, "memory:1m"], &[])?;
    println!("        the target listens after {} ms", target.start.as_millis());
    works(&target, 2)?;
    // A monitor may be waited for longer than the target waits until it listens.
    soon("its reason", || {
        let text = std::fs::read_to_string(&log).map_err(said)?;
        match words.iter().find(|word| !text.contains(**word)) {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is not in: {text}")),
        }
    })
    .map(drop)
}

fn works(target: &Target, nsid: u32) -> Result<(), String> {
    let namespace = target.namespace(nsid)?;
    let (written, mut read) = ([0x5a; 4096], [0; 4096]);
    namespace.write_at(0, &written).map_err(said)?;
    namespace.read_at(0, &mut read).map_err(said)?;
    if read == written { Ok(()) } else { Err(format!("namespace {nsid} reads something else")) }
}

/// The cluster's configuration with another value in the line that begins so.
fn altered(testbed: &Testbed, name: &str, begin: &str, value: &str) -> Result<PathBuf, String> {
    let text = std::fs::read_to_string(testbed.cluster.conf()).map_err(said)?;
    let line = |line: &str| {
        if line.starts_with(begin) { format!("{begin}{value}\n") } else { format!("{line}\n") }
    };
    let path = testbed.file(name);
    std::fs::write(&path, text.lines().map(line).collect::<String>()).map_err(said)?;
    Ok(path)
}
