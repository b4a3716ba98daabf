//! A group of Ceph's own gateways, whose state lies in the pool, and a target that takes their place.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::initiator::{ConnectOptions, Controller, Volume};
use serde_json::{Map, Value};

use super::config::POOL;
use super::target::said;
use super::testbed::{Testbed, same};
use crate::answer::Answer;
use crate::program::Program;

/// State and key of secrets that ceph-nvmeof 1.5.1 had written.
const STATE: &str = include_str!("../../../crates/administration/src/config/ceph_nvmeof/recorded/state.json");
const KEY: &str =
    include_str!("../../../crates/administration/src/config/ceph_nvmeof/recorded/encryption.pem");
/// The subsystem that every host may use, and its image.
const OPEN: (&str, &str) = ("nqn.2016-06.io.spdk:open.g1", "shared_disk");

const LIMIT: Duration = Duration::from_secs(90);
const BYTES: usize = 64 << 10;

/// Serves the state's configuration, over the images that it names.
pub(super) fn a_group_is_imported(testbed: &mut Testbed) -> Result<(), String> {
    let state: Map<String, Value> = serde_json::from_str(STATE).map_err(said)?;
    for (key, value) in &state {
        let value = value.as_str().ok_or("a value of the state is not a text")?;
        testbed.cluster.rados(&["-p", POOL, "setomapval", "nvmeof.g1.state", key, value])?;
    }
    for image in ["disk1", "disk2", OPEN.1] {
        testbed.image(image, 8)?;
    }
    let folder = testbed.file("imported");
    fs::create_dir_all(&folder).map_err(said)?;
    let config = import(testbed, &folder)?;
    let words = [&testbed.program, "serve", "-c", &config, "--control", "none"].map(str::to_owned);
    // Until the end of this check.
    let mut target = Program::start(&words)?;
    let line = target.line(Instant::now() + LIMIT).unwrap_or_default();
    let address: Option<SocketAddr> = line.strip_prefix("listening on ").and_then(|text| text.parse().ok());
    let address = address.ok_or_else(|| format!("selvedge serve does not listen: {}", target.errors()))?;
    let controller = Controller::connect(ConnectOptions::new(address, OPEN.0)).map_err(said)?;
    let volume = Volume::on_controller(&controller, 1).map_err(said)?;
    let content = testbed.content(61, BYTES);
    volume.write_at(0, &content).map_err(said)?;
    volume.flush().map_err(said)?;
    let exported = testbed.export(OPEN.1)?;
    same("rbd export", exported.get(..BYTES).unwrap_or_default(), &content)
}

/// The target.toml, which listens on loopback.
fn import(testbed: &Testbed, folder: &Path) -> Result<String, String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, config) = (path("encryption.pem"), path("target.toml"));
    let mut options = OpenOptions::new();
    let file = options.mode(0o600).write(true).create(true).truncate(true).open(&key);
    file.and_then(|mut file| file.write_all(KEY.as_bytes())).map_err(said)?;
    let (conf, secrets) = (testbed.cluster.conf().display().to_string(), path("secrets"));
    let choice = ["import", "ceph-nvmeof", "--pool", POOL, "--group", "g1", "--gateway", "node-a"];
    let files =
        ["--ceph-conf", &conf, "--encryption-key", &key, "--secret-dir", &secrets, "--output", &config];
    Answer::of(&[&[testbed.program.as_str()], &choice[..], &files].concat())?.well()?;
    let text = fs::read_to_string(&config).map_err(said)?;
    let here = |line: &str| {
        if line.starts_with("address = ") { "address = \"127.0.0.1:0\"" } else { line }.to_owned()
    };
    let text: Vec<String> = text.lines().map(here).collect();
    fs::write(&config, text.join("\n")).map_err(said)?;
    Ok(config)
}
