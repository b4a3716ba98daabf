//! Target that all inputs of a process share, and a host on it that must notice nothing of them.
//! The host's namespace is hidden from others, and full of words that only it may see.

use std::net::SocketAddr;
use std::time::Instant;

use engine::backend::BackendConfig;
use engine::limits::POOL_KEPT_BYTES_MAX;
use engine::ring::Engine;
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig, Visibility,
};
use nvme::fabrics::{
    CONTROLLER_ID_ANY, Connect, ConnectData, PropertyAccess, configuration, controller_status, property,
};
use nvme::io::IoCommand;
use nvme::tcp::digest::crc32c;
use nvme::tcp::{Initialize, PduType};
use nvme::{SglDescriptor, SubmissionEntry};
use zerocopy::IntoBytes;

use super::peer::{Answer, PATIENCE, Peer};

pub(super) const NQN: &str = "nqn.2014-08.org.example:target";
const BYSTANDER: &str = "nqn.2014-08.org.example:bystander";
/// Half of a word that only the bystander writes.
pub(super) const MAGIC: [u8; 8] = *b"\xf5secret\xf4";
/// Bytes of every namespace.
const SIZE: u64 = 1 << 20;
/// The bystander's namespace and its blocks.
const OWN: Space = Space { nsid: 3, block: 512, is_public: false };
/// Bytes that the bystander writes and reads at a time.
const OWN_LENGTH: usize = 4096;

/// A namespace.
#[derive(Clone, Copy)]
pub(super) struct Space {
    pub(super) nsid: u32,
    pub(super) block: u32,
    pub(super) is_public: bool,
}

impl Space {
    pub(super) const fn blocks(self) -> u64 {
        SIZE / self.block as u64
    }

    fn config(self) -> NamespaceConfig {
        let config = NamespaceConfig::new(self.nsid, BackendConfig::Memory { size: SIZE }, self.block);
        if self.is_public {
            return config;
        }
        NamespaceConfig { visible: Visibility::Only(vec![BYSTANDER.to_owned()]), ..config }
    }
}

pub(super) const SPACES: [Space; 3] =
    [Space { nsid: 1, block: 512, is_public: true }, Space { nsid: 2, block: 4096, is_public: true }, OWN];

/// A running target with a bystander.
pub(super) struct Testbed {
    target: Target,
    admin: Peer,
    queue: Peer,
    round: u64,
    connections: usize,
    controllers: usize,
}

impl Testbed {
    pub(super) fn new(engine: Engine) -> Self {
        let namespaces = SPACES.iter().map(|space| space.config()).collect();
        let target = Target::start(&TargetConfig {
            fabric: FabricConfig {
                ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
                subsystems: vec![SubsystemConfig::new(NQN, "FUZZ", "Selvedge").with(namespaces)],
                ..FabricConfig::default()
            },
            engine,
            poll_us_max: 0,
            ..TargetConfig::default()
        });
        let target = target.expect("a target");
        let (admin, queue) = bystander(target.ports()[0]);
        let (connections, controllers) = (target.connections(), target.status().controllers.len());
        assert_eq!((connections, controllers), (2, 1));
        Self { target, admin, queue, round: 0, connections, controllers }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.target.ports()[0]
    }

    /// After all other hosts have gone, everything is as it was, and the bystander has what it wrote.
    pub(super) fn check(&mut self) {
        self.eventually("connections are left behind", |testbed| {
            testbed.target.connections() == testbed.connections
        });
        let controllers = |testbed: &Self| testbed.target.status().controllers.len();
        self.eventually("controllers are left behind", |testbed| controllers(testbed) == testbed.controllers);
        // A connection that went before it was taken is taken, and found to have gone, at any time.
        let is_metered = |testbed: &Self| {
            let metrics = testbed.target.metrics();
            let mut queues = metrics.controllers.iter().flat_map(|controller| &controller.queues);
            let connections: usize = metrics.reactors.iter().map(|reactor| reactor.connections).sum();
            queues.all(|queue| queue.depth == 0) && connections == testbed.connections
        };
        self.eventually("slots are left behind, or connections in the metrics", is_metered);
        for reactor in self.target.metrics().reactors {
            assert!(reactor.buffer_bytes <= POOL_KEPT_BYTES_MAX as u64, "{} bytes", reactor.buffer_bytes);
        }
        self.round += 1;
        let at = self.round % (SIZE / OWN_LENGTH as u64) * (OWN_LENGTH as u64 / u64::from(OWN.block));
        let words = [MAGIC, self.round.to_le_bytes()].concat();
        let data = words.repeat(OWN_LENGTH / words.len());
        let blocks = OWN_LENGTH as u32 / OWN.block;
        let read = IoCommand::Read { start: at, blocks, force_unit_access: false };
        if self.round.is_multiple_of(2) {
            let write = IoCommand::Write { start: at, blocks, force_unit_access: false };
            let answer = run(&mut self.queue, write.encode(OWN.nsid), Some(&data), 0);
            assert!(answer.status.is_success(), "the bystander's write: {answer:?}");
        }
        let answer = run(&mut self.queue, read.encode(OWN.nsid), None, OWN_LENGTH as u32);
        assert!(answer.status.is_success(), "the bystander's read: {answer:?}");
        let is_own =
            answer.data == data || (self.round % 2 == 1 && answer.data.iter().all(|byte| *byte == 0));
        let is_older = answer.data.chunks_exact(16).all(|words| words[..8] == MAGIC);
        assert!(is_own || self.round % 2 == 1 && is_older, "the bystander's data has changed");
        let answer = run(&mut self.admin, get(property::STATUS), None, 0);
        assert_eq!(answer.result as u32, controller_status::READY, "the bystander's controller");
    }

    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < PATIENCE, "{what}: {:?}", self.target.status());
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

pub(super) fn get(offset: u32) -> SubmissionEntry {
    PropertyAccess { offset, wide: false, value: 0 }.encode_get()
}

pub(super) fn enable() -> SubmissionEntry {
    let value =
        configuration::ENABLE | configuration::SUBMISSION_ENTRY_SIZE | configuration::COMPLETION_ENTRY_SIZE;
    PropertyAccess { offset: property::CONFIGURATION, wide: false, value: value.into() }.encode_set()
}

/// A host's Connect with its data, for the queue of a controller.
pub(super) fn connect(
    queue_id: u16,
    entries: u16,
    controller_id: u16,
    host: &str,
) -> (SubmissionEntry, ConnectData) {
    let connect = Connect {
        record_format: 0,
        queue_id,
        queue_size: entries - 1,
        attributes: Connect::DISABLE_FLOW_CONTROL,
        keep_alive_ms: 0,
    };
    let id = u128::from(crc32c(host.as_bytes())) + 1;
    (connect.encode(), ConnectData::new(id.to_le_bytes(), controller_id, NQN, host))
}

/// Opens a connection as far as the opening of NVMe/TCP goes.
pub(super) fn initialize(peer: &mut Peer, digests: u8) {
    let request = Initialize::new(PduType::InitializeRequest, digests & 3, 0);
    let bytes = peer.frame(&[], |transmitter| transmitter.initialize(&request));
    peer.send(&bytes, None);
}

/// Does one command from its start to its end.
pub(super) fn run(peer: &mut Peer, mut entry: SubmissionEntry, data: Option<&[u8]>, room: u32) -> Answer {
    entry.command_id = 0x7fff.into();
    entry.data = match data {
        Some(data) => SglDescriptor::in_capsule(data.len() as u32),
        None => SglDescriptor::transport(room),
    };
    let data = data.unwrap_or_default();
    let payload = (!data.is_empty()).then(|| ((), data.len(), crc32c(data)));
    let bytes = peer.frame(data, |transmitter| transmitter.command(entry, payload));
    peer.answers.clear();
    peer.send(&bytes, None);
    peer.wait_while("an answer does not come", |peer| peer.answers.is_empty());
    peer.answers.pop().expect("the connection stands")
}

fn bystander(address: SocketAddr) -> (Peer, Peer) {
    let [mut admin, mut queue] = [Peer::open(address), Peer::open(address)];
    for peer in [&mut admin, &mut queue] {
        peer.is_bystander = true;
        initialize(peer, 3);
    }
    let (entry, data) = connect(0, 32, CONTROLLER_ID_ANY, BYSTANDER);
    let answer = run(&mut admin, entry, Some(data.as_bytes()), 0);
    assert!(answer.status.is_success(), "{answer:?}");
    let controller_id = answer.result as u16;
    assert!(run(&mut admin, enable(), None, 0).status.is_success());
    let (entry, data) = connect(1, 32, controller_id, BYSTANDER);
    let answer = run(&mut queue, entry, Some(data.as_bytes()), 0);
    assert!(answer.status.is_success(), "{answer:?}");
    (admin, queue)
}
