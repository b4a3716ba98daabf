//! Memory of a target before hosts have proved anything: two thousand connections send a hello with a wrong key and a quarter of
//! a megabyte behind it. A process of its own, whose memory no other test changes.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use engine::backend::BackendConfig;
use engine::limits::HANDSHAKE_BYTES_MAX;
use engine::target::{
    FabricConfig, HostKeyConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use prerequisite::wait_until;
use secure_channel::{ConfiguredPsk, Derivation, IdentityVersion, Names, Suite};
use tls_handshake::Handshake;

const NQN: &str = "nqn.2014-08.org.example:test";
const HOST: &str = "nqn.2014-08.org.example:known";
const CONNECTIONS: usize = 2000;
/// Bytes behind each hello.
const MORE: usize = 250 << 10;
/// Kilobytes of a connection beside what was received: itself, and the library's state while its hello is examined.
const CONNECTION_KB: usize = 8;

/// The most memory that this process has had, in kB.
fn peak_kb() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A hello of the host, with another key than its own.
fn hello() -> Vec<u8> {
    let names = Names::new(HOST, NQN).unwrap();
    let key = ConfiguredPsk::new(&[9; 32], None).unwrap().retained(&names, Derivation::Standard);
    let key = key.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::One).unwrap();
    let mut bytes = Vec::new();
    Handshake::of_host(&[key]).unwrap().step(&mut &[][..], &mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_received_before_a_proof_is_bounded_by_what_a_handshake_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, ConfiguredPsk::new(&[1; 32], None).unwrap().reveal().as_bytes()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    subsystem.host_keys = vec![HostKeyConfig::tls(HOST, file)];
    let ports = vec![PortConfig::new(1, "127.0.0.1:0".parse().unwrap())];
    let fabric = FabricConfig { ports, subsystems: vec![subsystem], ..FabricConfig::default() };
    let config = TargetConfig { fabric, reactors: Reactors::Count(2), ..TargetConfig::default() };
    engine::ring::core::raise_descriptor_limit();
    let target = Target::start(&config).unwrap();
    let refused = || target.status().refusals["tls_handshake"];
    let hello_and_more = [hello(), vec![0; MORE]].concat();
    let before = peak_kb();
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(target.ports()[0]).unwrap();
        stream.set_nonblocking(true).unwrap();
        // As much as the sockets take, the hello and more in one segment: a hello that came alone would be read alone.
        let mut rest = &hello_and_more[..];
        while let Ok(length @ 1..) = stream.write(rest) {
            rest = &rest[length..];
        }
        connections.push(stream);
    }
    wait_until("each was refused", || refused() >= CONNECTIONS as u64);
    let grown = peak_kb() - before;
    println!("{CONNECTIONS} connections: {grown} kB more at most");
    assert!(grown < CONNECTIONS * (HANDSHAKE_BYTES_MAX / 1024 + CONNECTION_KB), "{grown} kB");
}
