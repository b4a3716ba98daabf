//! Discovery of TLS by two hosts of different rights, and how that changes with their keys.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

use engine::initiator::{ConnectOptions, Controller, HostIdentity};
use engine::target::{
    Change, FabricConfig, HostKeyConfig, PortConfig, SubsystemConfig, Target, TargetConfig, TlsUse,
};
use nvme::discovery::{tcp_security, transport_requirements};
use secure_channel::ConfiguredPsk;

const WITH_KEY: &str = "nqn.2014-08.org.example:with-key";
const WITHOUT: &str = "nqn.2014-08.org.example:without";
const KEYED: &str = "nqn.2014-08.org.example:keyed";
const OPEN: &str = "nqn.2014-08.org.example:open";

/// The log's generation, and of each entry for a subsystem its name, its port, and whether it is TLS.
fn log(address: SocketAddr, host: &str) -> (u64, Vec<(String, u16, Option<TlsUse>)>) {
    let options = ConnectOptions { host: HostIdentity::from_nqn(host), ..ConnectOptions::discovery(address) };
    let log = Controller::connect(options).unwrap().discovery_log().unwrap();
    let entries = log.entries.iter().map(|entry| {
        let tls = match (entry.tcp_security(), entry.secure_channel()) {
            (tcp_security::TLS_1_3, transport_requirements::SECURE_CHANNEL_REQUIRED) => TlsUse::Required,
            (tcp_security::TLS_1_3, transport_requirements::SECURE_CHANNEL_NOT_REQUIRED) => TlsUse::Allowed,
            (tcp_security::NONE, transport_requirements::SECURE_CHANNEL_NOT_SPECIFIED) => TlsUse::Off,
            _ => return (String::new(), 0, None),
        };
        (entry.nqn().unwrap().to_string(), entry.port_id.get(), Some(tls))
    });
    let entries = entries.filter(|(nqn, ..)| [KEYED, OPEN].contains(&nqn.as_str()));
    (log.generation_counter, entries.collect())
}

#[test]
fn each_host_learns_where_tls_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, &*ConfiguredPsk::new(&[7; 32], None).unwrap().reveal()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let port = |id| PortConfig::new(id, ([127, 0, 0, 1], 0).into());
    let mut ports = vec![port(1), port(2), port(3)];
    ports[1].tls = Some(TlsUse::Allowed);
    ports[2].tls = Some(TlsUse::Off);
    let mut keyed = SubsystemConfig::new(KEYED, "K", "Selvedge");
    (keyed.allow_any_host, keyed.hosts) = (false, vec![WITH_KEY.to_owned()]);
    let mut open = SubsystemConfig::new(OPEN, "O", "Selvedge");
    open.ports = vec![1, 3];
    let fabric = FabricConfig { ports, subsystems: vec![keyed, open], ..FabricConfig::default() };
    let target = Target::start(&TargetConfig { fabric, ..TargetConfig::default() }).unwrap();
    // In clear, whatever happens to the others.
    let address = target.ports()[2];
    let seen = |entries: &[(&str, u16, TlsUse)]| -> Vec<(String, u16, Option<TlsUse>)> {
        entries.iter().map(|(nqn, port, tls)| ((*nqn).to_owned(), *port, Some(*tls))).collect()
    };
    let (required, off) = (TlsUse::Required, TlsUse::Off);
    let of_open = |tls| [(OPEN, 1, tls), (OPEN, 3, off)];
    // What lets hosts in both ways tells each its own.
    let of_keyed = |tls| [(KEYED, 1, tls), (KEYED, 2, tls), (KEYED, 3, off)];
    let before = log(address, WITHOUT);
    assert_eq!(before.1, seen(&of_open(off)));
    assert_eq!(log(address, WITH_KEY).1, seen(&[&of_keyed(off)[..], &of_open(off)].concat()));
    let mut wanted = target.config();
    wanted.subsystems[0].host_keys.push(HostKeyConfig::tls(WITH_KEY, file));
    let changes = target.apply(&wanted).unwrap();
    assert_eq!(changes[0], Change::PortTlsChanged { port: 1 });
    // A key of one host has all of them come by TLS to that port.
    let after = log(address, WITHOUT);
    assert_eq!(after.1, seen(&of_open(required)));
    assert_eq!(after.0, before.0 + 1, "hosts that watch the log read it again");
    assert_eq!(log(address, WITH_KEY).1, seen(&[&of_keyed(required)[..], &of_open(required)].concat()));
    // What is wrong with a key changes nothing.
    wanted.subsystems[0].host_keys[0].tls_key_file = Some(folder.path().join("missing"));
    let refused = target.apply(&wanted).unwrap_err().to_string();
    assert!(refused.contains("TLS keys of host") && refused.contains("missing cannot be read"), "{refused}");
    wanted.subsystems[0].host_keys[0].tls_key_file = None;
    let refused = target.apply(&wanted).unwrap_err().to_string();
    assert!(refused.contains("neither dhchap_secret_file nor tls_key_file"), "{refused}");
    assert_eq!(log(address, WITHOUT), after);
}
