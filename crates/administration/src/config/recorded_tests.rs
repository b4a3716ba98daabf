//! Files as the version before one schema wrote them: they are read, and mean what they meant.

use std::path::Path;

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, Visibility, WriteProtection};

use super::{target_dump, target_file};
use crate::state::StateFile;

const TARGET: &str = include_str!("recorded/target.toml");
const STATE: &str = include_str!("recorded/state.json");

fn state() -> FabricConfig {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFile::open(folder.path()).unwrap_or_else(|failure| panic!("{failure:?}"));
    std::fs::write(folder.path().join("state.json"), STATE).unwrap();
    state.read().unwrap_or_else(|failure| panic!("{failure:?}")).unwrap()
}

#[test]
fn a_former_target_file_says_what_it_said() {
    let read = target_file::read_text(TARGET, Path::new("target.toml"));
    let config = read.unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut fabric = config.fabric;
    // A state that is read has been through a restart.
    assert_eq!(fabric.subsystems[0].namespaces[0].write_protection, WriteProtection::UntilRestart);
    fabric.subsystems[0].namespaces[0].write_protection = WriteProtection::None;
    // A target that starts asks the device, and has written down what it was served with before.
    let device = fabric.subsystems[0].namespaces.iter_mut().find(|namespace| namespace.nsid == 2).unwrap();
    assert_eq!(std::mem::replace(&mut device.block_size, 4096), 0);
    assert_eq!(fabric, state());
    assert_eq!((config.poll_us_max, config.ceph.bdevs_per_cluster), (Some(20), Some(8)));
}

#[test]
fn what_was_written_with_former_names_is_written_with_todays() {
    let read = |text: &str| {
        let read = target_file::read_text(text, Path::new("target.toml"));
        read.unwrap_or_else(|failure| panic!("{failure:?}")).fabric
    };
    let former = read(TARGET);
    let written = target_dump::write(&former).unwrap_or_else(|failure| panic!("{failure:?}"));
    for name in [
        "block_device =",
        "block =",
        "shared =",
        "write_delay =",
        "visible_to",
        "hidden_from",
        "service = 4421",
        "max =",
    ] {
        assert!(TARGET.contains(name) && !written.contains(&format!("\n{name}")), "{name}\n{written}");
    }
    assert_eq!(read(&written), former);
    // Both at once contradict each other, and the line says which word stays.
    let twice = "[[port]]\naddress = \"127.0.0.1\"\n[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem.namespace]]\n\
                 memory = \"1m\"\nblock = 512\nblock_size = 512\n";
    let refused = target_file::read_text(twice, Path::new("target.toml")).unwrap_err();
    let line = refused.line().unwrap();
    assert!(line.contains("target.toml:7: ") && line.contains("block is block_size now"), "{line}");
}

#[test]
fn what_was_a_setting_and_is_an_order_now_is_ignored() {
    let former = STATE.replacen("\"block_size\": 512", "\"block_size\": 512, \"standby\": true", 1);
    assert_ne!(former, STATE);
    let parsed: serde_json::Value = serde_json::from_str(&former).unwrap();
    let fabric: FabricConfig = serde_json::from_value(parsed["fabric"].clone()).unwrap();
    let again = serde_json::to_string(&fabric).unwrap();
    assert!(!again.contains("standby") && fabric.subsystems[0].namespaces.len() == 5);
}

#[test]
fn a_former_state_is_read() {
    let fabric = state();
    let delays: Vec<u32> = fabric.subsystems[0].namespaces.iter().map(|n| n.write_delay_ms).collect();
    assert_eq!(delays, [0, 500, 1500, 0, 0]);
    let shared = &fabric.subsystems[0].namespaces[1];
    assert!(shared.shared_storage && shared.block_size == 4096);
    assert_eq!(shared.visible, Visibility::AllExcept(vec!["nqn.2026-01.io.selvedge:host-b".to_owned()]));
    assert_eq!(shared.backend, BackendConfig::File { path: "/srv/disk.img".into(), size: Some(16 << 20) });
    let storage = fabric.subsystems[0].storage.as_ref().unwrap();
    assert_eq!((storage.bytes_max, storage.namespaces_max_per_host), (1 << 40, Some(8)));
}
