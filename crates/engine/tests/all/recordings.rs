//! Recordings of other authors' hosts: the answers are as they were when recorded, byte by byte,
//! see `recordings/README.md`.

use std::path::PathBuf;

use crate::recording::config::{self, Setting};
use crate::recording::format::{Recording, check_packing};
use crate::recording::replay::{Cut, Play};
use engine::ring::Engine;

const ENGINES: [Engine; 2] = [Engine::IoUring, Engine::Epoll];
/// In what ways the bytes of a host come.
const CUTS: [Cut; 2] = [Cut::Whole, Cut::Pieces(61)];
/// The most bytes of a recording: they are to be read.
const BYTES_MAX: usize = 100_000;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// Plays the recording with this name in all ways. With `SELVEDGE_BLESS` its answers are recorded again.
fn play(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.len() <= BYTES_MAX, "{name} has {} bytes", text.len());
    let recording = Recording::parse(&text).unwrap();
    let setting = Setting {
        advertise: recording.about("advertise").map(str::to_owned),
        iops: None,
        bytes: recording.about("bytes").map(|bytes| bytes.parse().unwrap()),
    };
    for (engine, cut) in ENGINES.into_iter().flat_map(|engine| CUTS.map(|cut| (engine, cut))) {
        let target = config::target(&setting, engine);
        let change = |change| config::change(&target, change, &setting);
        let outcome = Play::new(target.ports()[0], cut, &change).run(&recording);
        if std::env::var_os("SELVEDGE_BLESS").is_some() {
            let events = outcome.events;
            assert_eq!(events.len(), recording.events.len(), "{name}: {:?}", outcome.differences);
            let blessed = Recording { events, ..recording };
            return std::fs::write(&path, blessed.to_text()).unwrap();
        }
        let differences = outcome.differences;
        assert!(differences.is_empty(), "{name} ({engine:?}, {cut:?}): {differences:#?}");
    }
}

macro_rules! recordings {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { play(stringify!($name)); })*
    };
}

recordings! {
    libnvmf_fio
    lightbits_discovery_client
    linux_5_10
    linux_6_1
    linux_6_12
    linux_7_3
    spdk_26_05_abort
    spdk_26_05_aer
    spdk_26_05_bdevio
    spdk_26_05_discover
    spdk_26_05_fuzz
    spdk_26_05_hello_world
    spdk_26_05_identify
    spdk_26_05_perf
    spdk_26_05_perf_large
    spdk_26_05_reconnect
    spdk_26_05_reserve
    spdk_26_05_simple_copy
    truenas_ana
    truenas_async_events
    truenas_basic_operations
    truenas_enhanced_io_operations
    truenas_reservation_flows
}

#[test]
fn every_recording_is_played() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".txt").map(str::to_owned))
        .collect();
    found.sort_unstable();
    let mut played = NAMES.to_vec();
    played.sort_unstable();
    assert_eq!(found, played);
}

#[test]
fn bytes_are_kept_as_they_were() {
    check_packing();
}
