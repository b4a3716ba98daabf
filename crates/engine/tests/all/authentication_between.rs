//! Our own host and target that authenticate to each other over loopback, and hosts that do not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authentication::{Group, Hash, Secret};
use engine::backend::BackendConfig;
use engine::initiator::{
    ConnectOptions, Controller, HostIdentity, HostSecrets, InitiatorError, PathOptions, Volume,
};
use engine::ring::Engine;
use engine::target::{
    FabricConfig, HostKeyConfig, KeyKind, KnownHost, NamespaceConfig, SealedSecret, SubsystemConfig, Target,
    TargetConfig,
};
use nvme::Status;
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::CONTROLLER_ID_ANY;
use prerequisite::{wait_for, wait_until};
use secure_channel::SealingKey;

use crate::raw_host::{Client, Give, Options, configure};

const NQN: &str = "nqn.2014-08.org.example:test";
const HOST: &str = "nqn.2014-08.org.example:known";
const OTHER: &str = "nqn.2014-08.org.example:other";

/// Secrets in files of a folder, and a target whose hosts have them.
struct Testbed {
    folder: tempfile::TempDir,
    target: Target,
}

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32], Some(Hash::Sha256)).unwrap()
}

impl Testbed {
    fn new(engine: Engine, change: impl FnOnce(&mut HostKeyConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("host"), &[1]);
        write(&folder.path().join("other"), &[2]);
        write(&folder.path().join("controller"), &[9]);
        let mut key = HostKeyConfig::new(HOST, folder.path().join("host"));
        key.dhchap_ctrl_secret_file = Some(folder.path().join("controller"));
        change(&mut key);
        let other = HostKeyConfig::new(OTHER, folder.path().join("other"));
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
        subsystem.host_keys = vec![key, other];
        let target = Target::start(&configure(engine, vec![subsystem])).unwrap();
        Self { folder, target }
    }

    fn options(&self, host: &str, own: Option<u8>, controller: Option<u8>) -> ConnectOptions {
        let secrets = own.map(|own| {
            Arc::new(HostSecrets {
                secret: secret(own),
                controller_secret: controller.map(secret),
                reauth_interval: None,
            })
        });
        ConnectOptions {
            host: HostIdentity::from_nqn(host),
            secrets,
            io_queues: 2,
            ..ConnectOptions::new(self.target.ports()[0], NQN)
        }
    }

    fn connect(&self, host: &str, own: Option<u8>, controller: Option<u8>) -> Result<(), String> {
        let options = self.options(host, own, controller);
        let volume = Volume::connect(PathOptions::once(options, 1)).map_err(|error| error.to_string())?;
        let data = vec![own.unwrap_or(0); 4096];
        volume.write_at(0, &data).map_err(|error| error.to_string())?;
        let mut found = vec![0; 4096];
        volume.read_at(0, &mut found).map_err(|error| error.to_string())?;
        assert_eq!(found, data);
        Ok(())
    }

    fn config(&self) -> FabricConfig {
        self.target.config()
    }
}

fn write(path: &Path, bytes: &[u8]) {
    let lines: String = bytes.iter().map(|byte| format!("{}\n", *secret(*byte).reveal())).collect();
    fs::write(path, lines).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_host_with_its_secret_is_served_and_any_other_is_not() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        let testbed = Testbed::new(engine, |_| {});
        testbed.connect(HOST, Some(1), None).unwrap();
        testbed.connect(HOST, Some(1), Some(9)).unwrap();
        let wrong = testbed.connect(HOST, Some(2), None).unwrap_err();
        assert!(wrong.contains("this host's secret is not the one that the target has for it"), "{wrong}");
        let without = testbed.connect(HOST, None, None).unwrap_err();
        assert!(without.contains("requires authentication"), "{without}");
        let impostor = testbed.connect(HOST, Some(1), Some(8)).unwrap_err();
        assert!(impostor.contains("the controller's response is wrong"), "{impostor}");
        // Another host's secret proves another host's name.
        assert!(testbed.connect(OTHER, Some(1), None).is_err());
        testbed.connect(OTHER, Some(2), None).unwrap();
        let refusals = testbed.target.status().refusals["authentication"];
        assert!(refusals >= 3, "{refusals}");
        // A host that has no secret there need not authenticate, and a target that is to does not.
        testbed.connect("nqn.2014-08.org.example:free", None, None).unwrap();
        let free = testbed.connect("nqn.2014-08.org.example:free", Some(1), Some(9)).unwrap_err();
        assert!(free.contains("the target was to authenticate"), "{free}");
        testbed.connect("nqn.2014-08.org.example:free", Some(1), None).unwrap();
    }
}

#[test]
fn each_group_and_hash_function_connects_a_host() {
    for group in Group::ALL {
        let testbed = Testbed::new(Engine::Epoll, |key| {
            key.dhchap_dhgroup = vec![group];
            key.dhchap_hash = vec![Hash::Sha384];
        });
        testbed.connect(HOST, Some(1), Some(9)).unwrap();
    }
}

#[test]
fn secrets_are_refused_of_hosts_that_cannot_be() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let file = testbed.folder.path().join("other");
    let refused = |host: &str, allow_any_host| {
        let mut config = testbed.config();
        config.subsystems[0].allow_any_host = allow_any_host;
        config.subsystems[0].hosts = vec![HOST.to_owned(), OTHER.to_owned()];
        config.subsystems[0].host_keys.push(HostKeyConfig::new(host, file.clone()));
        testbed.target.apply(&config).unwrap_err().to_string()
    };
    assert!(refused("bad name\0", true).contains("keys of host \"bad name\\0\""));
    assert!(refused(HOST, true).contains("two entries with keys"));
    let stranger = refused("nqn.2014-08.org.example:stranger", false);
    assert!(stranger.contains("is not allowed to connect: allow it first"), "{stranger}");
}

/// Before it has proved its name a host takes nothing, sees nothing, and hinders no other host.
#[test]
fn an_unproved_host_gets_nothing_but_an_identifier() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let options = Options {
        subsystem_nqn: NQN.to_owned(),
        host_nqn: HOST.to_owned(),
        host_id: [7; 16],
        ..Options::default()
    };
    let mut client = Client::initialized(testbed.target.ports()[0], options.digests);
    let connect = nvme::fabrics::Connect { queue_size: 31, ..options.connect(0) };
    let reply = client.connect(&connect, &options.data(CONTROLLER_ID_ANY));
    assert_eq!(reply.status, Status::SUCCESS);
    assert_eq!(reply.result >> 16, 2, "authentication is asked for");
    assert!(testbed.target.status().controllers.is_empty());
    let get = nvme::fabrics::PropertyAccess { offset: 0, wide: true, value: 0 }.encode_get();
    let refused = client.run(get, Give::Nothing).status;
    assert_eq!(refused.without_flags(), Status::AUTHENTICATION_REQUIRED);
    let receive = nvme::authentication::Transfer { length: 1024 }.encode_receive();
    let early = client.run(receive, Give::Room(1024)).status;
    assert_eq!(early.without_flags(), Status::COMMAND_SEQUENCE_ERROR, "it has sent no message");
    // The host itself has its identifier meanwhile, and its controller.
    testbed.connect(HOST, Some(1), None).unwrap();
    // An I/O queue of a controller that is not there, by a name that is not proved.
    let mut io = Client::initialized(testbed.target.ports()[0], options.digests);
    let status = io.connect(&options.connect(1), &options.data(reply.result as u16)).status;
    assert_eq!(status.without_flags(), Status::CONNECT_INVALID_PARAMETERS);
}

#[test]
fn secrets_are_replaced_under_a_host_that_writes() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let path = testbed.folder.path().join("host");
    let how = || testbed.target.status().controllers.first().and_then(|host| host.authentication.clone());
    assert_eq!(how(), None);
    let volume = Volume::connect(PathOptions::once(testbed.options(HOST, Some(1), None), 1)).unwrap();
    volume.write_at(0, &[5; 4096]).unwrap();
    let shown = how().unwrap();
    assert_eq!((shown.dhchap_hash, shown.dhchap_dhgroup), ("sha256", "secp256r1mlkem768"));
    assert!(!shown.bidirectional);
    write(&path, &[3]);
    testbed.target.replace_secrets(&testbed.config(), Duration::from_secs(3600)).unwrap();
    testbed.connect(HOST, Some(1), None).unwrap();
    testbed.connect(HOST, Some(3), None).unwrap();
    volume.write_at(4096, &[6; 4096]).unwrap();
    // Without an overlap the old one is refused at once.
    write(&path, &[4]);
    testbed.target.replace_secrets(&testbed.config(), Duration::ZERO).unwrap();
    assert!(testbed.connect(HOST, Some(3), None).is_err());
    testbed.connect(HOST, Some(4), None).unwrap();
    volume.write_at(8192, &[7; 4096]).unwrap();
    // A file that has become wrong changes nothing.
    fs::write(&path, "nonsense").unwrap();
    let error = testbed.target.replace_secrets(&testbed.config(), Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("line 1: it is not a DH-HMAC-CHAP secret"), "{error}");
    testbed.connect(HOST, Some(4), None).unwrap();
}

/// An administrator writes the new secret into the file, and then has it accepted beside the former one.
#[test]
fn a_change_for_one_host_leaves_the_secrets_of_another_as_they_are() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let path = testbed.folder.path().join("host");
    let other = KnownHost { nqn: OTHER.to_owned(), host_id: uuid::Uuid::from_bytes([2; 16]) };
    write(&path, &[3]);
    testbed.target.apply_for(&testbed.config(), &other).unwrap();
    testbed.connect(HOST, Some(1), None).unwrap();
    testbed.target.replace_secrets(&testbed.config(), Duration::from_secs(3600)).unwrap();
    for own in [1, 3] {
        testbed.connect(HOST, Some(own), None).unwrap();
    }
    fs::write(&path, "nonsense").unwrap();
    testbed.target.apply_for(&testbed.config(), &other).unwrap();
    for own in [1, 3] {
        testbed.connect(HOST, Some(own), None).unwrap();
    }
}

#[test]
fn a_host_that_has_to_authenticate_from_now_on_loses_what_it_had_without() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let free = "nqn.2014-08.org.example:free";
    let controller = Controller::connect(testbed.options(free, None, None)).unwrap();
    let mut config = testbed.config();
    config.subsystems[0].host_keys.push(HostKeyConfig::new(free, testbed.folder.path().join("other")));
    testbed.target.apply(&config).unwrap();
    wait_until("what it had ends", || controller.namespaces().is_err());
    let refused = Controller::connect(testbed.options(free, None, None)).err();
    assert!(matches!(refused, Some(InitiatorError::AuthenticationRequired { .. })), "{refused:?}");
    testbed.connect(free, Some(2), None).unwrap();
}

#[test]
fn discovery_is_open_to_a_host_with_a_secret() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let options =
        ConnectOptions { subsystem_nqn: DISCOVERY_NQN.to_owned(), ..testbed.options(HOST, Some(1), None) };
    let controller =
        Controller::connect(ConnectOptions { io_queues: 0, keep_alive_ms: 0, ..options }).unwrap();
    controller.disconnect().unwrap();
}

/// Queues authenticate again while they are full of commands, which go on; when the secret has
/// become another one, the queue ends and its path comes back only with that.
#[test]
fn queues_authenticate_again_beside_their_commands() {
    let testbed = Testbed::new(Engine::Epoll, |_| {});
    let mut options = testbed.options(HOST, Some(1), Some(9));
    let interval = Some(Duration::from_millis(20));
    let secrets =
        HostSecrets { secret: secret(1), controller_secret: Some(secret(9)), reauth_interval: interval };
    options.secrets = Some(Arc::new(secrets));
    // One slot: its commands and those of the authentication take turns.
    options.queue_entries = 2;
    let controller = Controller::connect(options.clone()).unwrap();
    let volume = Volume::connect(PathOptions::once(options, 1)).unwrap();
    let mut count = 0_u64;
    // As many take several times the interval on any machine.
    while count < 500 {
        let data = vec![count as u8; 64 << 10];
        volume.write_at(0, &data).unwrap();
        let mut found = vec![0; 64 << 10];
        volume.read_at(0, &mut found).unwrap();
        assert_eq!(found, data);
        count += 1;
    }
    controller.namespaces().unwrap();
    write(&testbed.folder.path().join("host"), &[3]);
    testbed.target.replace_secrets(&testbed.config(), Duration::ZERO).unwrap();
    let refused =
        wait_for("the old secret is refused", || volume.read_at(0, &mut [0; 4096]).err()).to_string();
    // The admin queue may fail first, with which the target ends all others.
    let why = ["secret is not the one that the target has", "closed the connection"];
    assert!(why.iter().any(|why| refused.contains(why)), "{refused}");
    assert!(testbed.target.status().refusals["authentication"] > 0);
}

/// A target with this encryption key, and the key of a host in its configuration, sealed with the key of byte 1.
fn sealing_target(byte: Option<u8>, hosts: &[&str]) -> Target {
    let key = |byte: u8| SealingKey::read(&char::from(b'a' + byte).to_string().repeat(64)).unwrap();
    let seal = |host: &str, own: u8| {
        let sealed = SealedSecret::seal(&key(1), &secret(own).reveal(), KeyKind::Secret, NQN, host);
        HostKeyConfig { dhchap_secret_sealed: Some(sealed), ..HostKeyConfig::empty(host) }
    };
    let controller = SealedSecret::seal(&key(1), &secret(9).reveal(), KeyKind::ControllerSecret, NQN, "");
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    subsystem.host_keys = hosts.iter().zip(1..).map(|(host, own)| seal(host, own)).collect();
    subsystem.dhchap_ctrl_secret_sealed = Some(controller);
    let sealing_key = byte.map(|byte| Arc::new(key(byte)));
    Target::start(&TargetConfig { sealing_key, ..configure(Engine::Automatic, vec![subsystem]) }).unwrap()
}

#[test]
fn a_host_whose_secret_is_sealed_authenticates_and_comes_in_in_no_other_way() {
    let folder = tempfile::tempdir().unwrap();
    let testbed = Testbed { folder, target: sealing_target(Some(1), &[HOST, OTHER]) };
    testbed.connect(HOST, Some(1), Some(9)).unwrap();
    testbed.connect(OTHER, Some(2), Some(9)).unwrap();
    assert!(
        testbed.connect(HOST, Some(1), Some(8)).unwrap_err().contains("the controller's response is wrong")
    );
    assert!(testbed.connect(HOST, Some(2), None).is_err() && testbed.connect(HOST, None, None).is_err());
    // A target that cannot open them refuses hosts with these names; all others may use the subsystem otherwise.
    for byte in [None, Some(2)] {
        let testbed = Testbed { folder: tempfile::tempdir().unwrap(), target: sealing_target(byte, &[HOST]) };
        for own in [None, Some(1)] {
            let refused = testbed.connect(HOST, own, None).unwrap_err();
            assert!(refused.contains("Connect Invalid Host"), "{refused}");
        }
        testbed.connect(OTHER, None, None).unwrap();
    }
}
