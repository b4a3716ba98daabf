//! Hosts that have a key, or say that they have, and do with it what they must not.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{HostKeyConfig, NamespaceConfig, SubsystemConfig, Target, TlsUse};
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData, InvalidParameter};
use nvme::tcp::digest::crc32c;
use nvme::tcp::{Chunk, Digests, Event, Initialize, PduType, Receiver, Role, Transmitter};
use nvme::{CompletionEntry, SglDescriptor, Status};
use prerequisite::patience;
use secure_channel::{
    Alert, ConfiguredPsk, Derivation, IdentityVersion, Names, OVERHEAD_BYTES, Opened, Opener, Peer,
    RecordError, RecordLimit, Sealer, Suite, TlsPsk,
};
use tls_handshake::{Handshake, HandshakeError, Progress};
use zerocopy::IntoBytes as _;

use crate::raw_host::{Client as ClearClient, assert_status, configure, read_some};

const NQN: &str = "nqn.2014-08.org.example:both";
const PRIVATE: &str = "nqn.2014-08.org.example:private";
const HOST: &str = "nqn.2014-08.org.example:known";
const OTHER: &str = "nqn.2014-08.org.example:other";

/// A target with a subsystem for both hosts, and one for the first alone.
fn target() -> (Target, tempfile::TempDir) {
    target_with(None)
}

/// The same, where this is what the port has of TLS.
fn target_with(tls: Option<TlsUse>) -> (Target, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let key = |host: &str, byte: u8| {
        let file = folder.path().join(byte.to_string());
        fs::write(&file, ConfiguredPsk::new(&[byte; 32], None).unwrap().reveal().as_bytes()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        HostKeyConfig::tls(host, file)
    };
    let subsystem = |nqn: &str, hosts: &[(&str, u8)]| {
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let mut subsystem = SubsystemConfig::new(nqn, "1", "test").with(vec![namespace]);
        subsystem.allow_any_host = false;
        subsystem.hosts = hosts.iter().map(|(host, _)| (*host).to_owned()).collect();
        subsystem.host_keys = hosts.iter().map(|(host, byte)| key(host, *byte)).collect();
        subsystem
    };
    let subsystems = vec![subsystem(NQN, &[(HOST, 1), (OTHER, 2)]), subsystem(PRIVATE, &[(HOST, 1)])];
    let mut config = configure(Engine::Automatic, subsystems);
    config.fabric.ports[0].tls = tls;
    (Target::start(&config).unwrap(), folder)
}

fn psk(byte: u8, host: &str, nqn: &str) -> TlsPsk {
    let names = Names::new(host, nqn).unwrap();
    let input = ConfiguredPsk::new(&[byte; 32], None).unwrap().retained(&names, Derivation::Standard);
    input.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::One).unwrap()
}

/// A stream behind a handshake.
struct Client {
    stream: TcpStream,
    sealer: Sealer,
    opener: Opener,
    receiver: Receiver,
    transmitter: Transmitter<()>,
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, patience()).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream
}

impl Client {
    fn connect(address: SocketAddr, key: &TlsPsk) -> Result<Self, HandshakeError> {
        let mut stream = open(address);
        let mut handshake = Handshake::of_host(std::slice::from_ref(key)).unwrap();
        let mut bytes = Vec::new();
        loop {
            let (mut input, mut output) = (&bytes[..], Vec::new());
            let progress = handshake.step(&mut input, &mut output)?;
            stream.write_all(&output).unwrap();
            if let Progress::Done(established) = progress {
                return Ok(Self {
                    stream,
                    sealer: Sealer::new(&established.sending, RecordLimit::default()),
                    opener: Opener::new(&established.receiving, Peer::Controller),
                    receiver: Receiver::new(Role::Host, 1 << 20),
                    transmitter: Transmitter::new(4),
                    sealed: input.to_vec(),
                    plain: Vec::new(),
                });
            }
            bytes.resize(16 << 10, 0);
            let length = read_some(&mut stream, &mut bytes).unwrap();
            if length == 0 {
                return Err(handshake.closed());
            }
            bytes.truncate(length);
        }
    }

    /// Seals these bytes in records of this length at most.
    fn send_in(&mut self, bytes: &[u8], length: usize) {
        for piece in bytes.chunks(length) {
            let mut record = vec![0; piece.len() + OVERHEAD_BYTES];
            self.sealer.seal_from(piece, &mut record).unwrap();
            self.stream.write_all(&record).unwrap();
        }
    }

    fn queued(&mut self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in self.transmitter.chunks() {
            match part {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Payload { start, end, .. } => bytes.extend_from_slice(&data[start..end]),
            }
        }
        self.transmitter.clear(|()| ());
        bytes
    }

    /// Opens the target's next records.
    fn opened(&mut self) -> Result<Option<Opened>, RecordError> {
        loop {
            let opened = self.opener.open(&mut self.sealed)?;
            let record_bytes = match &opened {
                Opened::Incomplete { .. } => {
                    let mut bytes = [0; 4096];
                    let length = read_some(&mut self.stream, &mut bytes).unwrap_or(0);
                    if length == 0 {
                        return Ok(None);
                    }
                    self.sealed.extend_from_slice(&bytes[..length]);
                    continue;
                }
                Opened::Data { record_bytes, data } => {
                    self.plain.extend_from_slice(&self.sealed[data.clone()]);
                    *record_bytes
                }
                Opened::Nothing { record_bytes } | Opened::KeyUpdate { record_bytes, .. } => *record_bytes,
                Opened::Closed => self.sealed.len(),
            };
            self.sealed.drain(..record_bytes);
            return Ok(Some(opened));
        }
    }

    fn event(&mut self) -> Option<Event> {
        loop {
            let mut input = &self.plain[..];
            let event = self.receiver.next(&mut input).unwrap();
            let used = self.plain.len() - input.len();
            self.plain.drain(..used);
            if event.is_some() {
                return event;
            }
            self.opened().unwrap()?;
        }
    }

    /// ICReq, in records of this length.
    fn initialize(&mut self, length: usize) {
        self.transmitter.initialize(&Initialize::new(
            PduType::InitializeRequest,
            Digests::default().bits(),
            0,
        ));
        let bytes = self.queued(&[]);
        self.send_in(&bytes, length);
        assert!(matches!(self.event(), Some(Event::Initialize(_))));
    }

    /// Connects an admin queue by these names.
    fn join(&mut self, host: &str, nqn: &str) -> CompletionEntry {
        self.initialize(usize::MAX >> 1);
        let connect =
            Connect { record_format: 0, queue_id: 0, queue_size: 31, attributes: 0, keep_alive_ms: 60_000 };
        let host_id = [host.as_bytes()[host.len() - 1]; 16];
        let data = ConnectData::new(host_id, CONTROLLER_ID_ANY, nqn, host);
        let mut entry = connect.encode();
        entry.data = SglDescriptor::in_capsule(1024);
        let crc = crc32c(data.as_bytes());
        self.transmitter.command(entry, Some(((), 1024, crc)));
        let bytes = self.queued(data.as_bytes());
        self.send_in(&bytes, 500);
        match self.event() {
            Some(Event::Response(entry)) => entry,
            other => panic!("{other:?} in place of an answer to Connect"),
        }
    }
}

#[test]
fn a_key_is_for_one_host_and_one_subsystem() {
    let (target, _folder) = target();
    let address = target.ports()[0];
    let join = |key: (u8, &str, &str), host: &str, nqn: &str| {
        let mut client = Client::connect(address, &psk(key.0, key.1, key.2)).unwrap();
        let entry = client.join(host, nqn);
        (entry.status().without_flags(), InvalidParameter::decode(entry.result() as u32))
    };
    assert_eq!(join((1, HOST, NQN), HOST, NQN).0, Status::SUCCESS);
    assert_eq!(join((2, OTHER, NQN), OTHER, NQN).0, Status::SUCCESS);
    let refused = |field| (Status::CONNECT_INVALID_PARAMETERS, field);
    let reported = target.refused_connects().unwrap();
    // Each of them under the other's name, and where only the first may be.
    assert_eq!(join((2, OTHER, NQN), HOST, NQN), refused(InvalidParameter::HOST_NQN));
    assert_eq!(join((1, HOST, NQN), OTHER, NQN), refused(InvalidParameter::HOST_NQN));
    assert_eq!(join((2, OTHER, NQN), OTHER, PRIVATE).0, Status::CONNECT_INVALID_HOST);
    assert_eq!(join((1, HOST, NQN), HOST, PRIVATE), refused(InvalidParameter::SUBSYSTEM_NQN));
    assert_eq!(join((2, OTHER, NQN), OTHER, DISCOVERY_NQN), refused(InvalidParameter::SUBSYSTEM_NQN));
    assert_eq!(join((2, OTHER, DISCOVERY_NQN), OTHER, DISCOVERY_NQN).0, Status::SUCCESS);
    assert_eq!(join((2, OTHER, DISCOVERY_NQN), OTHER, NQN), refused(InvalidParameter::SUBSYSTEM_NQN));
    let (reported, _) = reported.take();
    let said = |reason: &str| reported.iter().filter(|report| report.reason.contains(reason)).count();
    assert_eq!((reported.len(), said("another host's"), said("for another subsystem")), (6, 2, 3));
    // A key of another, and one for what its host may not use.
    for (byte, host, nqn) in [(1, OTHER, NQN), (2, OTHER, PRIVATE), (9, HOST, NQN)] {
        let error = Client::connect(address, &psk(byte, host, nqn)).err().unwrap();
        assert!(
            matches!(error, HandshakeError::Refused { alert: Alert::UNKNOWN_PSK_IDENTITY, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_controller_whose_host_has_come_by_tls_gets_no_queue_in_clear() {
    let (target, _folder) = target_with(Some(TlsUse::Allowed));
    let address = target.ports()[0];
    let mut host = Client::connect(address, &psk(1, HOST, NQN)).unwrap();
    let joined = host.join(HOST, NQN);
    assert!(joined.status().is_success());
    let in_clear = |controller_id: u16, queue_id: u16| {
        let mut client = ClearClient::initialized(address, Digests::default());
        let connect = Connect { record_format: 0, queue_id, queue_size: 31, attributes: 0, keep_alive_ms: 0 };
        client.connect(&connect, &ConnectData::new([9; 16], controller_id, NQN, HOST)).status
    };
    // The port takes that name in clear, for a controller of its own.
    assert_status(in_clear(CONTROLLER_ID_ANY, 0), Status::SUCCESS, "an admin queue");
    assert_status(in_clear(joined.result() as u16, 1), Status::CONNECT_INVALID_HOST, "a queue of the host");
}

#[test]
fn records_of_any_length_carry_pdus_and_a_key_update_is_answered() {
    let (target, _folder) = target();
    let mut client = Client::connect(target.ports()[0], &psk(1, HOST, NQN)).unwrap();
    let update = client.sealer.update(true).unwrap();
    client.stream.write_all(&update).unwrap();
    client.initialize(1);
    assert_eq!(
        client.opener.updates(),
        1,
        "the key of the other direction is replaced before anything is sent"
    );
}

#[test]
fn a_record_that_cannot_be_opened_costs_its_own_connection() {
    let (target, _folder) = target();
    let address = target.ports()[0];
    let mut honest = Client::connect(address, &psk(2, OTHER, NQN)).unwrap();
    assert!(honest.join(OTHER, NQN).status().is_success());
    type Says = fn(&mut Client) -> Vec<u8>;
    let ends: [(Says, Alert); 4] = [
        (
            |client| {
                let mut record = client.sealer.alert(Alert::CLOSE_NOTIFY).unwrap();
                record[8] ^= 1;
                record.to_vec()
            },
            Alert::BAD_RECORD_MAC,
        ),
        (|_| vec![0; 128], Alert::UNEXPECTED_MESSAGE),
        (|_| vec![23, 3, 3, 255, 255], Alert::RECORD_OVERFLOW),
        (
            |client| {
                // Padding alone, again and again.
                let mut records = vec![[0; 64]; 64];
                records.iter_mut().for_each(|record| client.sealer.seal(record, 0).unwrap());
                records.concat()
            },
            Alert::UNEXPECTED_MESSAGE,
        ),
    ];
    for (bytes, alert) in ends {
        let mut client = Client::connect(address, &psk(1, HOST, NQN)).unwrap();
        assert!(client.join(HOST, NQN).status().is_success());
        let bytes = bytes(&mut client);
        client.stream.write_all(&bytes).unwrap();
        assert_eq!(client.opened(), Err(RecordError::Ended(alert)));
        assert_eq!(
            read_some(&mut client.stream, &mut [0]).unwrap_or(0),
            0,
            "the stream ends behind the alert"
        );
    }
    let mut another = Client::connect(address, &psk(1, HOST, NQN)).unwrap();
    assert!(another.join(HOST, NQN).status().is_success());
    honest.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert_eq!(honest.opened(), Ok(None), "it has got nothing");
    assert_eq!(target.status().controllers.len(), 2);
}

#[test]
fn whatever_comes_first_is_answered_in_its_own_language() {
    let (target, _folder) = target();
    let address = target.ports()[0];
    let answer = |bytes: &[u8]| {
        let mut stream = open(address);
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    let reported = target.refused_connects().unwrap();
    // A host in clear has a termination request.
    let clear = Initialize::new(PduType::InitializeRequest, 0, 0);
    assert_eq!(answer(clear.as_bytes())[0], PduType::ControllerTerminate as u8);
    let (reported, _) = reported.take();
    assert!(reported[0].host.is_none() && reported[0].reason.contains("without TLS"), "{reported:?}");
    // What looks like TLS and is wrong has an alert.
    assert_eq!(answer(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Alert::UNEXPECTED_MESSAGE.in_clear());
    assert_eq!(answer(&[22, 3, 1, 255, 255]), Alert::DECODE_ERROR.in_clear());
    // A handshake that stops takes no other's place.
    let mut half = Vec::new();
    let mut handshake = Handshake::of_host(&[psk(1, HOST, NQN)]).unwrap();
    handshake.step(&mut &[][..], &mut half).unwrap();
    let stuck: Vec<TcpStream> = (1..half.len())
        .step_by(64)
        .map(|length| {
            let mut stream = open(address);
            stream.write_all(&half[..length]).unwrap();
            stream
        })
        .collect();
    let mut client = Client::connect(address, &psk(1, HOST, NQN)).unwrap();
    assert!(client.join(HOST, NQN).status().is_success());
    drop(stuck);
}
