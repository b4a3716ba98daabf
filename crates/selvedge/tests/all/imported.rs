//! Hosts at a target that has taken the place of a ceph-nvmeof gateway: they come with the keys that they had, and find what
//! they were shown. The images are memory here; the suite `ceph` has real ones.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::json_output::{run_in, write_state};
use crate::serving::{Serving, json, stderr};

const STORE: &str = "nqn.2016-06.io.spdk:store.g1";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:a38bd9d6-7c0f-4a9c-8d4d-00000000000";

/// The imported target.toml, listening on loopback, its images replaced by memory. TLS ports come first.
fn import(folder: &Path) -> String {
    write_state(folder);
    let words = "import ceph-nvmeof state.json --gateway node-a --encryption-key encryption.pem --secret-dir secrets \
                 --output target.toml";
    let imported = run_in(folder, &words.split(' ').collect::<Vec<_>>());
    assert!(imported.status.success(), "{}", stderr(&imported));
    let path = folder.join("target.toml");
    let text = std::fs::read_to_string(&path).expect("it is there");
    let mut config: toml::Table = text.parse().expect("TOML");
    let tables = |value: &mut toml::Table, name: &str| value[name].as_array().expect("a list").clone();
    let mut ports = tables(&mut config, "port");
    ports.iter_mut().for_each(|port| port["address"] = "127.0.0.1:0".into());
    ports.sort_by_key(|port| port.get("tls").is_none());
    config["port"] = ports.into();
    let mut subsystems = tables(&mut config, "subsystem");
    for subsystem in &mut subsystems {
        for namespace in subsystem["namespace"].as_array_mut().expect("a list") {
            let memory = toml::Table::from_iter([("size".to_owned(), "4m".into())]);
            namespace["backend"] = toml::Table::from_iter([("memory".to_owned(), memory.into())]).into();
        }
    }
    config["subsystem"] = subsystems.into();
    std::fs::write(&path, config.to_string()).expect("it can be written");
    path.display().to_string()
}

/// Lists the namespaces for host number `host` of the group, with these kinds of keys; its secret
/// is that of host number `secret`.
fn list(serving: &Serving, folder: &Path, (host, secret): (u8, u8), kinds: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["list", "-a", "127.0.0.1", "-s", &serving.port, "-n", STORE, "-o", "json"]);
    command.args(["-q", &format!("{HOST}{host}")]).current_dir(folder).stdin(Stdio::null());
    for kind in kinds {
        let (option, file) = match *kind {
            "tls" => ("--tls-key-file", format!("{HOST}{host}.tls.key")),
            "dhchap" => ("--dhchap-secret-file", format!("{HOST}{secret}.dhchap.key")),
            _ => ("--dhchap-ctrl-secret-file", format!("{STORE}.ctrl.key")),
        };
        command.args([option, &format!("secrets/{}", file.replace(':', "_"))]);
    }
    command.output().expect("the program runs")
}

#[test]
fn hosts_come_with_the_keys_that_they_had() {
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::of_file(&import(folder.path()));
    for (host, kinds) in [(2, &["tls"][..]), (3, &["tls", "dhchap", "ctrl"])] {
        let text = json(&list(&serving, folder.path(), (host, host), kinds)).to_string();
        assert!(text.contains("6f1c5b2e-8a4b-4f0e-9d27-000000000001"), "{text}");
        // It is shown to host 1 alone.
        assert!(!text.contains("6f1c5b2e-8a4b-4f0e-9d27-000000000002"), "{text}");
    }
    for (host, secret, kinds, said) in [
        (3, 1, &["tls", "dhchap"][..], "secret"),
        (3, 3, &["tls"], "--dhchap-secret-file"),
        (2, 2, &[], "TLS"),
        (1, 1, &["dhchap"], "TLS"),
    ] {
        let refused = list(&serving, folder.path(), (host, secret), kinds);
        let message = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "host {host}, {kinds:?}: {message}");
        assert!(message.contains(said), "host {host}, {kinds:?}: {message}");
    }
}
