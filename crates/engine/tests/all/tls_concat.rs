//! Our own host and target that authenticate in clear, and go on with the TLS key that comes out of it (secure channel
//! concatenation); and hosts that want something else in clear.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authentication::{Concatenation, Group, Hash, HostSide, HostStep, HostTerms, Secret};
use engine::backend::BackendConfig;
use engine::claims;
use engine::initiator::{
    ConnectOptions, Controller, Data, HostIdentity, HostSecrets, PathOptions, TlsKeys, Volume,
};
use engine::ring::{Buffer, Engine, fill_random};
use engine::target::{HandOver, HostKeyConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TlsUse};
use nvme::authentication::Transfer;
use nvme::discovery::tcp_security;
use nvme::discovery::transport_requirements::{SECURE_CHANNEL_NOT_REQUIRED, SECURE_CHANNEL_NOT_SPECIFIED};
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, PropertyAccess, property};
use nvme::io::IoCommand;
use nvme::{Status, SubmissionEntry};
use prerequisite::patience;
use secure_channel::ConfiguredPsk;

use crate::initiator_fake::Host;
use crate::raw_host::{Client, Give, Options, configure};

/// The first block.
const READ: IoCommand = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };

const NQN: &str = "nqn.2014-08.org.example:test";
const HOST: &str = "nqn.2014-08.org.example:known";
const OTHER: &str = "nqn.2014-08.org.example:other";

struct Testbed {
    /// Folder of the secrets, as long as it is used.
    folder: tempfile::TempDir,
    target: Target,
}

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32], Some(Hash::Sha256)).unwrap()
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A target with two hosts, of which each gets a TLS key by its authentication.
fn start(folder: &Path, change: impl FnOnce(&mut HostKeyConfig), tls: Option<TlsUse>) -> Target {
    let key = |host: &str, file: &str| {
        let mut key = HostKeyConfig::new(host, folder.join(file));
        key.tls_concat = true;
        key.dhchap_ctrl_secret_file = Some(folder.join("controller"));
        key
    };
    let (mut host, other) = (key(HOST, "host"), key(OTHER, "other"));
    change(&mut host);
    let mut namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 4 << 20 }, 4096);
    namespace.uuid = Some(uuid::Uuid::from_u128(7));
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    subsystem.host_keys = vec![host, other];
    let mut config = configure(Engine::Automatic, vec![subsystem]);
    config.fabric.ports[0].tls = tls;
    Target::start(&config).unwrap()
}

impl Testbed {
    /// Discovery by the last port of TLS at the subsystem's first one, for a host.
    fn discovered(&self, host: &str) -> (u8, u8) {
        let address = *self.target.ports().last().unwrap();
        let options =
            ConnectOptions { host: HostIdentity::from_nqn(host), ..ConnectOptions::discovery(address) };
        let log = Controller::connect(options).unwrap().discovery_log().unwrap();
        let entry = log.entries.iter().find(|entry| entry.nqn().is_ok_and(|nqn| nqn == NQN));
        entry.map(|entry| (entry.tcp_security(), entry.secure_channel())).unwrap()
    }

    fn new(change: impl FnOnce(&mut HostKeyConfig)) -> Self {
        Self::with(change, None)
    }

    fn with(change: impl FnOnce(&mut HostKeyConfig), tls: Option<TlsUse>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (file, byte) in [("host", 1), ("other", 2), ("controller", 9)] {
            write(&folder.path().join(file), &secret(byte).reveal());
        }
        Self { target: start(folder.path(), change, tls), folder }
    }

    fn options(&self, host: &str, own: u8, controller: Option<u8>) -> ConnectOptions {
        let secrets = HostSecrets {
            secret: secret(own),
            controller_secret: controller.map(secret),
            reauth_interval: None,
        };
        ConnectOptions {
            host: HostIdentity::from_nqn(host),
            secrets: Some(Arc::new(secrets)),
            concat: true,
            io_queues: 2,
            ..ConnectOptions::new(self.target.ports()[0], NQN)
        }
    }

    fn connect(&self, host: &str, own: u8, controller: Option<u8>) -> Result<(), String> {
        verify(self.options(host, own, controller))
    }

    fn wait_until_gone(&self, controller_id: u16, queue_id: u16, end: Instant) {
        loop {
            let status = self.target.status();
            let mut queues = status.controllers.iter().filter(|found| found.cntlid == controller_id);
            if !queues.any(|found| found.queues.iter().any(|queue| queue.queue_id == queue_id)) {
                return;
            }
            assert!(Instant::now() < end, "queue {queue_id} stays");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The identities of the keys of all queues that there are.
    fn identities(&self) -> BTreeSet<String> {
        let status = self.target.status();
        let queues = status.controllers.iter().flat_map(|controller| &controller.queues);
        queues.map(|queue| queue.tls.as_ref().unwrap().psk_identity.clone()).collect()
    }
}

fn verify(options: ConnectOptions) -> Result<(), String> {
    let volume = Volume::connect(PathOptions::once(options, 1)).map_err(|error| error.to_string())?;
    pass(&volume, 0).map_err(|error| error.to_string())
}

/// Writes and reads, with other data in each round.
fn pass(volume: &Volume, round: u8) -> Result<(), engine::initiator::InitiatorError> {
    let data = vec![round.wrapping_add(1); 64 << 10];
    volume.write_at(0, &data)?;
    let mut found = vec![0; data.len()];
    volume.read_at(0, &mut found)?;
    assert!(found == data, "round {round}");
    Ok(())
}

#[test]
fn a_host_is_served_by_the_key_that_comes_out_of_its_authentication() {
    for hash in [Hash::Sha256, Hash::Sha384] {
        for group in [Group::Ffdhe2048, Group::Secp256r1, Group::Secp384r1MlKem1024] {
            let testbed =
                Testbed::new(|key| (key.dhchap_hash, key.dhchap_dhgroup) = (vec![hash], vec![group]));
            for controller in [None, Some(9)] {
                let options = testbed.options(HOST, 1, controller);
                let volume = Volume::connect(PathOptions::once(options, 1)).unwrap();
                pass(&volume, 0).unwrap();
                let identities = testbed.identities();
                let kind = if hash == Hash::Sha256 { "NVMe1G01 " } else { "NVMe1G02 " };
                assert_eq!(identities.len(), 1, "{identities:?}");
                assert!(identities.iter().all(|identity| identity.starts_with(kind)), "{identities:?}");
            }
        }
    }
}

#[test]
fn who_is_not_the_host_gets_no_key() {
    let testbed = Testbed::new(|_| {});
    let wrong = testbed.connect(HOST, 2, None).unwrap_err();
    assert!(wrong.contains("this host's secret is not the one that the target has for it"), "{wrong}");
    let impostor = testbed.connect(HOST, 1, Some(8)).unwrap_err();
    assert!(impostor.contains("the controller's response is wrong"), "{impostor}");
    testbed.connect(OTHER, 1, None).unwrap_err();
    testbed.connect(OTHER, 2, None).unwrap();
    // Without asking for a key, in clear as with a key of its own making.
    let without = verify(ConnectOptions { concat: false, ..testbed.options(HOST, 1, None) }).unwrap_err();
    assert!(without.contains("connect with --concat"), "{without}");
    let keys = TlsKeys::new(vec![ConfiguredPsk::new(&[1; 32], None).unwrap()]);
    let options = testbed.options(HOST, 1, None);
    let own = verify(ConnectOptions { concat: false, tls: Some(Arc::new(keys)), ..options }).unwrap_err();
    assert!(own.contains("unknown_psk_identity"), "{own}");
    testbed.connect("nqn.2014-08.org.example:free", 1, None).unwrap_err();
    testbed.connect(HOST, 1, Some(9)).unwrap();
}

#[test]
fn a_target_that_makes_no_key_says_so() {
    let testbed = Testbed::with(|key| key.tls_concat = false, Some(TlsUse::Allowed));
    let refused = testbed.connect(HOST, 1, None).unwrap_err();
    assert!(refused.contains("tls_concat"), "{refused}");
    verify(ConnectOptions { concat: false, ..testbed.options(HOST, 1, None) }).unwrap();
    // And where TLS is allowed, the other host has to use it.
    testbed.connect(OTHER, 2, None).unwrap();
    verify(ConnectOptions { concat: false, ..testbed.options(OTHER, 2, None) }).unwrap_err();
    assert_eq!(testbed.discovered(HOST), (tcp_security::NONE, SECURE_CHANNEL_NOT_SPECIFIED));
    assert_eq!(testbed.discovered(OTHER), (tcp_security::TLS_1_3, SECURE_CHANNEL_NOT_REQUIRED));
}

#[test]
fn discovery_tells_a_host_to_have_a_key_made_where_tls_is_required_too() {
    let testbed = Testbed::with(|_| {}, Some(TlsUse::Required));
    let mut wanted = testbed.target.config();
    let clear = PortConfig { tls: Some(TlsUse::Off), ..PortConfig::new(9, ([127, 0, 0, 1], 0).into()) };
    wanted.ports.push(clear);
    testbed.target.apply(&wanted).unwrap();
    assert_eq!(testbed.discovered(HOST), (tcp_security::TLS_1_3, SECURE_CHANNEL_NOT_REQUIRED));
}

#[test]
fn a_key_is_replaced_twice_and_more_under_io() {
    let testbed = Testbed::new(|_| {});
    for controller in [None, Some(9)] {
        let options = testbed.options(HOST, 1, controller);
        let secrets = HostSecrets {
            reauth_interval: Some(Duration::from_millis(200)),
            ..HostSecrets::clone(options.secrets.as_ref().unwrap())
        };
        let options = ConnectOptions { secrets: Some(Arc::new(secrets)), ..options };
        let volume = Volume::connect(PathOptions::once(options.clone(), 1)).unwrap();
        let controller = Controller::connect(options).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let (mut round, mut keys) = (0, testbed.identities());
        // The first ones, and two or more in place of each.
        while keys.len() < 6 {
            assert!(Instant::now() < end, "the key is not replaced: {keys:?}");
            pass(&volume, round).unwrap();
            round = round.wrapping_add(1);
            let mut host = Host::live(Engine::Automatic, &controller.queue_options(1));
            host.submit(READ, Data::Receive(Buffer::zeroed(4096)), 1);
            assert_eq!(host.completion().status, Status::SUCCESS);
            keys.extend(testbed.identities());
            host.queue.close(&mut host.ring);
            testbed.wait_until_gone(controller.id(), 1, end);
        }
        assert_eq!(
            testbed.target.status().controllers.len(),
            2,
            "they are the same associations all the time"
        );
    }
}

/// The next target takes over. A host that authenticates again is waited for.
fn pass_on(testbed: &mut Testbed) {
    let mut config = configure(Engine::Automatic, Vec::new());
    config.fabric = testbed.target.config();
    config.fabric.ports[0].address = testbed.target.ports()[0].into();
    let listening = testbed.target.listening().unwrap();
    config.inherited = listening.into_iter().map(|socket| Arc::new(TcpListener::from(socket))).collect();
    config.is_held = true;
    claims::inherit_memories(testbed.target.memories().unwrap());
    let next = Target::start(&config).unwrap();
    let HandOver { state, queues, arrivals } = testbed.target.freeze_within(patience(), patience()).unwrap();
    // As it goes to another process.
    let text = serde_json::to_string(&state).unwrap();
    let hand_over = HandOver { state: serde_json::from_str(&text).unwrap(), queues, arrivals };
    assert_eq!(next.take_over(hand_over).unwrap(), []);
    std::mem::replace(&mut testbed.target, next).leave();
    testbed.target.go_on();
}

#[test]
fn keys_go_over_to_the_new_target_and_let_later_queues_in() {
    let mut testbed = Testbed::new(|_| {});
    let options = testbed.options(HOST, 1, Some(9));
    let secrets = HostSecrets {
        reauth_interval: Some(Duration::from_millis(300)),
        ..HostSecrets::clone(options.secrets.as_ref().unwrap())
    };
    let volume = Volume::connect(PathOptions::once(options.clone(), 1)).unwrap();
    let renewed = ConnectOptions { secrets: Some(Arc::new(secrets)), ..options };
    let controllers = [renewed.clone(), renewed].map(|options| Controller::connect(options).unwrap());
    let ids = |testbed: &Testbed| -> Vec<u16> {
        testbed.target.status().controllers.iter().map(|of| of.cntlid).collect()
    };
    let (before, mut keys) = (ids(&testbed), BTreeSet::new());
    let end = Instant::now() + Duration::from_secs(60);
    let mut round = 0;
    // Each controller's first key, and some in place of them.
    while keys.len() < 7 || round < 6 {
        assert!(Instant::now() < end, "the key is not replaced: {keys:?}");
        pass_on(&mut testbed);
        round += 1;
        pass(&volume, round).unwrap();
        for controller in &controllers {
            let mut host = Host::live(Engine::Automatic, &controller.queue_options(1));
            host.submit(READ, Data::Receive(Buffer::zeroed(4096)), 1);
            assert_eq!(host.completion().status, Status::SUCCESS);
            keys.extend(testbed.identities());
            host.queue.close(&mut host.ring);
            testbed.wait_until_gone(controller.id(), 1, end);
        }
    }
    assert_eq!(ids(&testbed), before, "they are the same associations all the time");
}

#[test]
fn a_target_that_has_been_restarted_makes_another_key() {
    let testbed = Testbed::new(|_| {});
    let config = testbed.target.config();
    let address = testbed.target.ports()[0];
    let volume = Volume::connect(PathOptions::new(vec![testbed.options(HOST, 1, Some(9))], 1)).unwrap();
    pass(&volume, 0).unwrap();
    let before = testbed.identities();
    let Testbed { folder, target } = testbed;
    drop(target);
    let mut again = configure(Engine::Automatic, config.subsystems);
    again.fabric.ports[0].address = address.into();
    let testbed = Testbed { target: Target::start(&again).unwrap(), folder };
    pass(&volume, 1).unwrap();
    let after = testbed.identities();
    assert!(after.is_disjoint(&before), "{before:?} {after:?}");
}

/// The admin queue of a controller to come.
const ADMIN: (u16, u16) = (0, CONTROLLER_ID_ANY);

/// The steps of an exchange as a host in clear, and the result of Connect.
struct Clear {
    client: Client,
    result: u64,
}

impl Clear {
    fn connect(
        testbed: &Testbed,
        host_nqn: &str,
        (queue_id, controller_id): (u16, u16),
    ) -> Result<Self, Status> {
        let options = Options {
            subsystem_nqn: NQN.to_owned(),
            host_nqn: host_nqn.to_owned(),
            host_id: [7; 16],
            ..Options::default()
        };
        let mut client = Client::initialized(testbed.target.ports()[0], options.digests);
        let connect = Connect { queue_size: 31, queue_id, ..options.connect(queue_id) };
        let reply = client.connect(&connect, &options.data(controller_id));
        if reply.status.is_success() { Ok(Self { client, result: reply.result }) } else { Err(reply.status) }
    }

    fn status(&mut self, entry: SubmissionEntry) -> Status {
        self.client.run(entry, Give::Nothing).status
    }

    /// Authenticates the host with these groups; why that fails.
    fn authenticate(&mut self, concatenation: Concatenation, groups: &[Group]) -> Result<(), String> {
        let terms = HostTerms {
            host_nqn: HOST.to_owned(),
            subsystem_nqn: NQN.to_owned(),
            secret: secret(1),
            controller_secret: None,
            hashes: Hash::ALL.to_vec(),
            groups: groups.to_vec(),
            concatenation,
        };
        let mut side = HostSide::new(terms, 5);
        let mut message = side.offer();
        loop {
            let entry = Transfer { length: message.len() as u32 }.encode_send();
            let sent = self.client.run(entry, Give::Capsule(&message)).status;
            assert_eq!(sent, Status::SUCCESS);
            let reply = self.client.run(Transfer { length: 4096 }.encode_receive(), Give::Room(4096));
            match side.take(&reply.data, &mut fill_random) {
                HostStep::Exchange(next) => message = next,
                HostStep::Done(..) => return Ok(()),
                HostStep::Failed(fault, _) => return Err(fault.to_string()),
            }
        }
    }
}

/// All that a host in clear may want of a target, but for properties.
fn wishes() -> Vec<SubmissionEntry> {
    let identify = |cns: u32| {
        let mut entry = SubmissionEntry::new(nvme::command::admin_opcode::IDENTIFY, 1);
        entry.cdw10 = cns.into();
        entry.data = nvme::SglDescriptor::transport(4096);
        entry
    };
    // Namespace, active namespaces, and the namespace of the command set.
    let mut all: Vec<SubmissionEntry> = [0, 2, 5].map(identify).to_vec();
    all.extend((0..=u8::MAX).map(|opcode| SubmissionEntry::new(opcode, 1)).filter(|entry| {
        use nvme::command::admin_opcode::{FABRICS, IDENTIFY, KEEP_ALIVE};
        ![FABRICS, IDENTIFY, KEEP_ALIVE].contains(&entry.opcode)
    }));
    all
}

#[test]
fn a_host_in_clear_can_do_nothing_but_authenticate_where_tls_is_required() {
    let testbed = Testbed::new(|_| {});
    for host in ["nqn.2014-08.org.example:free", ""] {
        assert!(Clear::connect(&testbed, host, ADMIN).is_err(), "{host}");
    }
    let mut clear = Clear::connect(&testbed, HOST, ADMIN).unwrap();
    assert_eq!(clear.result >> 16, 2 | 4, "authentication, and a TLS key of it");
    let required = Status::AUTHENTICATION_REQUIRED.do_not_retry();
    let get = PropertyAccess { offset: property::CAPABILITIES, wide: true, value: 0 }.encode_get();
    for entry in wishes().into_iter().chain([get]) {
        assert_eq!(clear.status(entry), required, "{entry:?}");
    }
    assert!(testbed.target.status().controllers.is_empty());
    clear.authenticate(Concatenation::New, &[Group::Secp256r1]).unwrap();
    // As Linux does before it comes back: properties, and nothing that concerns namespaces.
    assert_eq!(clear.status(get), Status::SUCCESS);
    for entry in wishes() {
        assert_eq!(clear.status(entry), required, "{entry:?}");
    }
    let io = Clear::connect(&testbed, HOST, (1, clear.result as u16));
    assert!(io.is_err(), "an I/O queue of its own controller");
}

#[test]
fn no_key_comes_out_of_anything_else() {
    let testbed = Testbed::new(|key| key.dhchap_dhgroup = vec![Group::Null, Group::Secp256r1]);
    let clear = || Clear::connect(&testbed, HOST, ADMIN).unwrap();
    let refused = clear().authenticate(Concatenation::None, &[Group::Secp256r1]).unwrap_err();
    assert!(refused.contains("mismatch") && refused.contains("--concat"), "{refused}");
    clear().authenticate(Concatenation::Replace, &[Group::Secp256r1]).unwrap_err();
    clear().authenticate(Concatenation::New, &[Group::Null]).unwrap_err();
    clear().authenticate(Concatenation::New, &[Group::Secp256r1]).unwrap();
}
