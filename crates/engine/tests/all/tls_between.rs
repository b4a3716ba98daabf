//! Our own host and target with TLS over loopback, and hosts that have no key, or another one.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, PathOptions, TlsKeys, Volume};
use engine::ring::Engine;
use engine::target::{HostKeyConfig, NamespaceConfig, SubsystemConfig, Target, TlsUse};
use engine::transport::Transport;
use nvme::log_page::LogPageId;
use nvme::tcp::Digests;
use prerequisite::wait_until;
use secure_channel::{ConfiguredPsk, Derivation, FirstBytes, Hash, IdentityVersion, RecordLimit, Suite};

use crate::raw_host::{configure, read_some};

const NQN: &str = "nqn.2014-08.org.example:test";
const OTHER_NQN: &str = "nqn.2014-08.org.example:second";
const HOST: &str = "nqn.2014-08.org.example:known";
const OTHER: &str = "nqn.2014-08.org.example:other";

/// Keys in files of a folder, and a target whose hosts have them.
struct Testbed {
    _folder: tempfile::TempDir,
    target: Target,
}

fn psk(byte: u8, hash: Option<Hash>) -> ConfiguredPsk {
    let length = if hash == Some(Hash::Sha384) { 48 } else { 32 };
    ConfiguredPsk::new(&vec![byte; length], hash).unwrap()
}

fn keys(byte: u8) -> TlsKeys {
    TlsKeys::new(vec![psk(byte, None)])
}

impl Testbed {
    /// A testbed with a subsystem for both hosts, and one for the first alone.
    fn new(engine: Engine, tls: Option<TlsUse>, key: &ConfiguredPsk) -> Self {
        Self::with(engine, tls, key, Transport::Tcp, RecordLimit::default())
    }

    /// A testbed whose queues end after this number of records.
    fn with_limit(limit: RecordLimit) -> Self {
        Self::with(Engine::IoUring, None, &psk(1, None), Transport::Tcp, limit)
    }

    fn with(
        engine: Engine,
        tls: Option<TlsUse>,
        key: &ConfiguredPsk,
        transport: Transport,
        limit: RecordLimit,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, key: &ConfiguredPsk| -> PathBuf {
            let path = folder.path().join(name);
            fs::write(&path, key.reveal().as_bytes()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let host = HostKeyConfig::tls(HOST, written("host", key));
        let other = HostKeyConfig::tls(OTHER, written("other", &psk(2, None)));
        let subsystem = |nqn: &str, host_keys: Vec<HostKeyConfig>| {
            let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 4 << 20 }, 4096);
            let mut subsystem = SubsystemConfig::new(nqn, "1", "test").with(vec![namespace]);
            subsystem.host_keys = host_keys;
            subsystem
        };
        let subsystems = vec![subsystem(NQN, vec![host.clone(), other]), subsystem(OTHER_NQN, vec![host])];
        let mut config = configure(engine, subsystems);
        config.fabric.ports[0].tls = tls;
        config.fabric.ports[0].transport = transport;
        config.tls_record_limit = limit;
        Self { target: Target::start(&config).unwrap(), _folder: folder }
    }

    fn options(&self, host: &str, nqn: &str, tls: Option<TlsKeys>) -> ConnectOptions {
        ConnectOptions {
            host: HostIdentity::from_nqn(host),
            tls: tls.map(Arc::new),
            io_queues: 2,
            ..ConnectOptions::new(self.target.ports()[0], nqn)
        }
    }

    fn connect(&self, host: &str, nqn: &str, tls: Option<TlsKeys>) -> Result<(), String> {
        verify(self.options(host, nqn, tls))
    }
}

/// Writes and reads pieces of many lengths.
fn verify(options: ConnectOptions) -> Result<(), String> {
    let volume = Volume::connect(PathOptions::once(options, 1)).map_err(|error| error.to_string())?;
    for (number, length) in [4096, 8192, 16384, 20480, 128 << 10, 1 << 20].into_iter().enumerate() {
        let data: Vec<u8> = (0..length).map(|at| (at / 7 + number) as u8).collect();
        volume.write_at(4096 * number as u64, &data).map_err(|error| error.to_string())?;
        let mut found = vec![0; length];
        volume.read_at(4096 * number as u64, &mut found).map_err(|error| error.to_string())?;
        assert!(found == data, "{length} bytes come back as others");
    }
    Ok(())
}

#[test]
fn a_host_with_its_key_is_served_and_any_other_is_not() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        let testbed = Testbed::new(engine, None, &psk(1, None));
        testbed.connect(HOST, NQN, Some(keys(1))).unwrap();
        testbed.connect(HOST, OTHER_NQN, Some(keys(1))).unwrap();
        testbed.connect(OTHER, NQN, Some(keys(2))).unwrap();
        let wrong = testbed.connect(HOST, NQN, Some(keys(3))).unwrap_err();
        assert!(wrong.contains("unknown_psk_identity") || wrong.contains("decrypt_error"), "{wrong}");
        // Another host's key proves another host's name, and opens what that one may use.
        testbed.connect(OTHER, NQN, Some(keys(1))).unwrap_err();
        let elsewhere = testbed.connect(OTHER, OTHER_NQN, Some(keys(2))).unwrap_err();
        assert!(elsewhere.contains("unknown_psk_identity"), "{elsewhere}");
        let clear = testbed.connect(HOST, NQN, None).unwrap_err();
        assert!(clear.contains("it may require TLS"), "{clear}");
        let refusals = testbed.target.status().refusals;
        assert!(refusals["tls_handshake"] >= 3 && refusals["without_tls"] >= 1, "{refusals:?}");
        testbed.connect(HOST, NQN, Some(keys(1))).unwrap();
    }
}

#[test]
fn every_suite_identity_derivation_and_hash_function_connects() {
    for hash in [None, Some(Hash::Sha256), Some(Hash::Sha384)] {
        let key = psk(7, hash);
        let testbed = Testbed::new(Engine::Epoll, None, &key);
        for suite in Suite::ALL {
            for identity in IdentityVersion::ALL {
                for derivation in Derivation::ALL {
                    let (suite, identity, derivation) = (Some(suite), Some(identity), Some(derivation));
                    let tls = TlsKeys { identity, derivation, suite, ..TlsKeys::new(vec![key.clone()]) };
                    testbed.connect(HOST, NQN, Some(tls)).unwrap_or_else(|error| {
                        panic!("{hash:?} {suite:?} {identity:?} {derivation:?}: {error}")
                    });
                }
            }
        }
        let compat = testbed.target.status().peculiarities["compat_tls_key"];
        assert_eq!(compat, 4, "suites and identities with the derivation of old libraries");
    }
}

#[test]
fn where_tls_is_allowed_the_first_bytes_decide() {
    let testbed = Testbed::new(Engine::IoUring, Some(TlsUse::Allowed), &psk(1, None));
    testbed.connect(HOST, NQN, Some(keys(1))).unwrap();
    testbed.connect(HOST, NQN, None).unwrap();
    testbed.connect("nqn.2014-08.org.example:free", NQN, None).unwrap();
    testbed.connect("nqn.2014-08.org.example:free", NQN, Some(keys(1))).unwrap_err();
    let off = Testbed::new(Engine::IoUring, Some(TlsUse::Off), &psk(1, None));
    let refused = off.connect(HOST, NQN, Some(keys(1))).unwrap_err();
    assert!(refused.contains("handshake_failure"), "{refused}");
    off.connect(HOST, NQN, None).unwrap();
}

#[test]
fn digests_and_tls_go_together_over_every_transport() {
    for transport in [Transport::Tcp, Transport::Mptcp] {
        let testbed = Testbed::with(Engine::IoUring, None, &psk(1, None), transport, RecordLimit::default());
        for digests in [Digests { header: true, data: false }, Digests { header: true, data: true }] {
            let options = testbed.options(HOST, NQN, Some(keys(1)));
            verify(ConnectOptions { digests, transport, ..options }).unwrap();
        }
    }
}

#[test]
fn discovery_takes_any_key_of_the_host() {
    let testbed = Testbed::new(Engine::IoUring, None, &psk(1, None));
    let discover = |host: &str, tls: Option<TlsKeys>| {
        let options = ConnectOptions {
            host: HostIdentity::from_nqn(host),
            tls: tls.map(Arc::new),
            ..ConnectOptions::discovery(testbed.target.ports()[0])
        };
        Controller::connect(options).map(drop)
    };
    discover(HOST, Some(keys(1))).unwrap();
    discover(OTHER, Some(keys(2))).unwrap();
    discover(OTHER, Some(keys(1))).unwrap_err();
    discover(HOST, None).unwrap_err();
}

#[test]
fn who_is_there_in_clear_goes_when_tls_comes_to_be_required() {
    let testbed = Testbed::new(Engine::IoUring, Some(TlsUse::Allowed), &psk(1, None));
    let connect = |tls| Controller::connect(testbed.options(HOST, NQN, tls)).unwrap();
    let (secure, _in_clear) = (connect(Some(keys(1))), connect(None));
    let there = || -> Vec<bool> {
        let controllers = testbed.target.status().controllers;
        controllers.iter().map(|controller| controller.queues[0].tls.is_some()).collect()
    };
    assert_eq!(there().iter().filter(|is_tls| **is_tls).count(), 1, "{:?}", there());
    let mut config = testbed.target.config();
    config.ports[0].tls = None;
    testbed.target.apply(&config).unwrap();
    wait_until("only TLS is there", || there() == [true]);
    secure.log_page(LogPageId::SMART, 0xffff_ffff, 0, 512).unwrap();
    let kinds = testbed.target.metrics().tls_handshakes;
    assert!(kinds.iter().all(|(kind, _)| kind.identity == IdentityVersion::One), "{kinds:?}");
}

fn limit(records: u64) -> RecordLimit {
    RecordLimit::new(records).unwrap()
}

/// Writes and reads 64 KiB in each round, with other data each time.
fn wear(volume: &Volume, rounds: u32) {
    for round in 0..rounds {
        let data = round.to_le_bytes().repeat(16 << 10);
        volume.write_at(0, &data).unwrap();
        let mut found = vec![0; data.len()];
        volume.read_at(0, &mut found).unwrap();
        assert!(found == data, "round {round}");
    }
}

#[test]
fn keys_are_replaced_under_io_before_they_are_worn() {
    let testbed = Testbed::with_limit(limit(200));
    let tls = TlsKeys { renew_after: limit(50), ..keys(1) };
    let options = testbed.options(HOST, NQN, Some(tls));
    let volume = Volume::connect(PathOptions::once(options, 1)).unwrap();
    // A thousand records each way: without new keys the target would end the queue, which this host could not survive.
    wear(&volume, 250);
    std::thread::sleep(Duration::from_millis(1200));
    wear(&volume, 10);
}

#[test]
fn a_host_that_replaces_no_keys_loses_its_queue_and_no_data() {
    let testbed = Testbed::with_limit(limit(60));
    let options = testbed.options(HOST, NQN, Some(keys(1)));
    let volume = Volume::connect(PathOptions::new(vec![options], 1)).unwrap();
    let mut controllers = BTreeSet::new();
    wait_until("it has to reconnect", || {
        wear(&volume, 10);
        controllers.extend(testbed.target.status().controllers.iter().map(|controller| controller.cntlid));
        controllers.len() >= 2
    });
}

#[test]
fn a_connection_that_is_reset_at_once_may_require_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        // Closed with unread bytes, which is a reset: so does tlshd end what is not TLS.
        stream.peek(&mut [0]).unwrap();
    });
    let reset = verify(ConnectOptions::new(address, NQN)).unwrap_err();
    assert!(reset.contains("it may require TLS"), "{reset}");
    target.join().unwrap();
}

/// Stands before a target, and lets those through whose first identity begins so. Of all others it closes the connection
/// without a word, as Linux' target and SPDK do when they do not know the first identity. How many those were.
fn picky(
    target: SocketAddr,
    first: &'static [u8],
    (closes, passes): (usize, usize),
) -> (SocketAddr, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let run = move || {
        let (mut closed, mut passed) = (0, 0);
        while passed < passes && closed <= closes {
            let (mut host, _) = listener.accept().unwrap();
            let mut hello = Vec::new();
            let is_taken = loop {
                let mut bytes = [0; 4096];
                let length = read_some(&mut host, &mut bytes).unwrap();
                hello.extend_from_slice(&bytes[..length]);
                match FirstBytes::of(&hello).unwrap() {
                    FirstBytes::Incomplete => {}
                    FirstBytes::InClear => panic!("it came in clear"),
                    FirstBytes::Hello(hello) => {
                        break hello.identities().next().unwrap().starts_with(first);
                    }
                }
            };
            if !is_taken {
                closed += 1;
                continue;
            }
            passed += 1;
            let mut behind = TcpStream::connect(target).unwrap();
            behind.write_all(&hello).unwrap();
            for (mut from, mut to) in
                [(host.try_clone().unwrap(), behind.try_clone().unwrap()), (behind, host)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
        closed
    };
    (address, std::thread::spawn(run))
}

#[test]
fn a_target_that_looks_at_the_first_identity_alone_is_reached() {
    let testbed = Testbed::new(Engine::IoUring, None, &psk(1, None));
    // An admin queue and two for I/O: the first finds out what is taken, and the others begin with that.
    let (address, proxy) = picky(testbed.target.ports()[0], b"NVMe0", (2, 3));
    let options = ConnectOptions { address, ..testbed.options(HOST, NQN, Some(keys(1))) };
    verify(options.clone()).unwrap();
    assert_eq!(proxy.join().unwrap(), 2, "both identities, and the first alone");
    // What one target takes another one may not.
    let (address, proxy) = picky(testbed.target.ports()[0], b"NVMe1", (1, 3));
    verify(ConnectOptions { address, ..options }).unwrap();
    assert_eq!(proxy.join().unwrap(), 1, "the one that the first target took");
}
