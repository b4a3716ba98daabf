//! A host that sends exactly what a test says, right or wrong, and a target to send it to. It judges nothing but
//! the framing; what an answer has to be is the test's.

pub(crate) mod admin;
mod client;
pub(crate) mod held_writes;
pub(crate) mod host;
pub(crate) mod proof;
pub(crate) mod resets;

use std::net::SocketAddr;
use std::path::PathBuf;

use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{
    Change, FabricConfig, MachineId, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target,
    TargetConfig, TargetError,
};
use nvme::Status;
use tempfile::TempDir;
use uuid::Uuid;

#[allow(unused_imports, reason = "see above")]
pub(crate) use client::{Client, Give, Reply, Termination, read_some};
#[allow(unused_imports, reason = "see above")]
pub(crate) use host::{Host, Options};

pub(crate) const ENGINES: [Engine; 2] = [Engine::IoUring, Engine::Epoll];
pub(crate) const NQN: &str = "nqn.2014-08.org.example:target";
pub(crate) const HOST_NQN: &str = "nqn.2014-08.org.example:host";
/// Bytes of every namespace.
pub(crate) const SIZE: u64 = 8 << 20;
/// Backend of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Null,
    File,
}

/// A namespace of the test's target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) nsid: u32,
    pub(crate) kind: Kind,
    pub(crate) block: u32,
}

impl Space {
    pub(crate) const fn blocks(self) -> u64 {
        SIZE / self.block as u64
    }
}

const fn space(nsid: u32, kind: Kind, block: u32) -> Space {
    Space { nsid, kind, block }
}

/// The namespaces of every test's target; identifiers between them are unused.
pub(crate) const SPACES: [Space; 6] = [
    space(1, Kind::Memory, 512),
    space(2, Kind::Memory, 4096),
    space(3, Kind::Null, 512),
    space(4, Kind::Null, 4096),
    space(7, Kind::File, 512),
    space(8, Kind::File, 4096),
];

/// A running target, and the folder of its files.
pub(crate) struct TestTarget {
    target: Option<Target>,
    config: TargetConfig,
    folder: TempDir,
}

impl TestTarget {
    pub(crate) fn start(engine: Engine) -> Self {
        Self::start_with(engine, |_| {})
    }

    /// A target that differs from the usual one.
    pub(crate) fn start_with(engine: Engine, change: impl FnOnce(&mut TargetConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let namespaces = SPACES.iter().map(|space| namespace(*space, &folder)).collect();
        let mut config = TargetConfig {
            reactors: Reactors::Count(2),
            machine: Some(MachineId::from_uuid(Uuid::from_u128(1))),
            ..configure(engine, vec![subsystem(NQN, namespaces)])
        };
        change(&mut config);
        let target = Some(Target::start(&config).unwrap());
        Self { target, config, folder }
    }

    /// The usual target, and a host that has connected to it.
    pub(crate) fn with_host(engine: Engine) -> (Self, Host) {
        let target = Self::start(engine);
        let host = Host::connect(target.address());
        (target, host)
    }

    /// The same, with the host's I/O queue 1.
    pub(crate) fn with_queue(engine: Engine) -> (Self, Host, Client) {
        let (target, host) = Self::with_host(engine);
        let queue = host.io(1);
        (target, host, queue)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.target.as_ref().unwrap().ports()[0]
    }

    pub(crate) fn ports(&self) -> Vec<SocketAddr> {
        self.target.as_ref().unwrap().ports()
    }

    pub(crate) fn connections(&self) -> usize {
        self.target.as_ref().unwrap().connections()
    }

    /// The target itself.
    pub(crate) fn target(&self) -> &Target {
        self.target.as_ref().unwrap()
    }

    /// Puts what `change` makes of the present configuration into effect; it has to be possible.
    pub(crate) fn apply(&self, change: impl FnOnce(&mut FabricConfig)) -> Vec<Change> {
        self.try_apply(change).unwrap()
    }

    /// The same of one namespace.
    pub(crate) fn apply_to(&self, nsid: u32, change: impl FnOnce(&mut NamespaceConfig)) -> Vec<Change> {
        self.apply(|fabric| change(config_of(fabric, nsid)))
    }

    /// The same, where it may be refused.
    pub(crate) fn try_apply(
        &self,
        change: impl FnOnce(&mut FabricConfig),
    ) -> Result<Vec<Change>, TargetError> {
        let mut wanted = self.target().config();
        change(&mut wanted);
        self.target().apply(&wanted)
    }

    /// The file of a namespace.
    pub(crate) fn file(&self, nsid: u32) -> PathBuf {
        self.folder.path().join(format!("namespace-{nsid}"))
    }

    /// Ends the target and starts another one on the same files.
    pub(crate) fn restart(&mut self) {
        self.shutdown();
        self.start_again();
    }

    /// Starts another target on the same files, after the first has ended.
    pub(crate) fn start_again(&mut self) {
        self.target = Some(Target::start(&self.config).unwrap());
    }

    pub(crate) fn shutdown(&mut self) {
        self.target.take().unwrap().shutdown();
    }

    /// Takes the target out, for another thread to end it.
    pub(crate) fn take(&mut self) -> Target {
        self.target.take().unwrap()
    }
}

/// The configuration of a namespace of the first subsystem.
pub(crate) fn config_of(fabric: &mut FabricConfig, nsid: u32) -> &mut NamespaceConfig {
    fabric.subsystems[0].namespaces.iter_mut().find(|namespace| namespace.nsid == nsid).unwrap()
}

/// Configuration of a test's target with these subsystems: one port of the loopback, never polling.
pub(crate) fn configure(engine: Engine, subsystems: Vec<SubsystemConfig>) -> TargetConfig {
    let ports = vec![PortConfig::new(1, "127.0.0.1:0".parse().unwrap())];
    let fabric = FabricConfig { ports, subsystems, ..FabricConfig::default() };
    TargetConfig { fabric, engine, poll_us_max: 0, ..TargetConfig::default() }
}

fn namespace(space: Space, folder: &TempDir) -> NamespaceConfig {
    let path = folder.path().join(format!("namespace-{}", space.nsid));
    let backend = match space.kind {
        Kind::Memory => BackendConfig::Memory { size: SIZE },
        Kind::Null => BackendConfig::Null { size: SIZE },
        Kind::File => BackendConfig::File { path, size: Some(SIZE) },
    };
    NamespaceConfig::new(space.nsid, backend, space.block)
}

/// A subsystem that everybody may use.
pub(crate) fn subsystem(nqn: &str, namespaces: Vec<NamespaceConfig>) -> SubsystemConfig {
    SubsystemConfig::new(nqn, "SELVEDGE-1", "Selvedge test").with(namespaces)
}

/// Fails unless the status is `expected`, whatever its flags.
#[track_caller]
pub(crate) fn assert_status(found: Status, expected: Status, what: &str) {
    assert_eq!(found.without_flags(), expected, "{what}");
}

/// Numbers that depend on a seed alone.
pub(crate) struct Random(u64);

impl Random {
    /// From the seed in `SELVEDGE_SEED`, else from the clock; says which, so that a failure can be repeated.
    pub(crate) fn seeded(what: &str) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let given =
            std::env::var("SELVEDGE_SEED").ok().map(|text| text.parse().expect("SELVEDGE_SEED is a number"));
        let seed = given.unwrap_or(now.as_nanos() as u64);
        println!("{what}: SELVEDGE_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (splitmix64).
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(length)
}
