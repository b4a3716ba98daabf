//! The initiator against a target that lies: whatever comes, each call ends with what it was asked for or with an error,
//! nothing is left behind, and another controller of the same process notices nothing.

mod proxy;
mod script;

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary as _, Unstructured};
use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, InitiatorError, Volume};
use engine::ring::Engine;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use nvme::tcp::Digests;

use proxy::Proxy;
use script::{Script, Session};

const NQN: &str = "nqn.2014-08.org.example:target";
/// Bytes of every namespace.
const SIZE: u64 = 256 << 10;
/// The bytes that the good controller has written.
const GOOD: [u8; 4096] = [0x5a; 4096];
/// A command of a target that lies gets this long; a silent one costs an input as much.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time for a correct target, as a busy machine may need it.
const PATIENCE_GOOD: Duration = Duration::from_secs(20);

thread_local! {
    static TESTBED: RefCell<Option<Testbed>> = const { RefCell::new(None) };
}

/// Has the conversation of one input.
pub fn check(bytes: &[u8]) {
    let Ok(script) = Script::arbitrary(&mut Unstructured::new(bytes)) else { return };
    TESTBED.with_borrow_mut(|testbed| testbed.get_or_insert_with(Testbed::new).play(&script));
}

/// A good target, a controller of it that nothing may disturb, and where the lying one listens.
struct Testbed {
    target: Target,
    good: Volume,
    listener: TcpListener,
    address: SocketAddr,
    connections: usize,
    threads: usize,
    descriptors: usize,
}

impl Testbed {
    fn new() -> Self {
        let namespaces = [(1, 512), (2, 4096), (3, 4096)];
        let namespaces = namespaces
            .map(|(nsid, block)| NamespaceConfig::new(nsid, BackendConfig::Memory { size: SIZE }, block));
        let target = Target::start(&TargetConfig {
            fabric: FabricConfig {
                ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
                subsystems: vec![SubsystemConfig::new(NQN, "FUZZ", "Selvedge").with(namespaces.to_vec())],
                ..FabricConfig::default()
            },
            engine: Engine::Epoll,
            poll_us_max: 0,
            ..TargetConfig::default()
        });
        let target = target.expect("a target");
        let options = ConnectOptions { keep_alive_ms: 0, ..options(target.ports()[0], NQN, PATIENCE_GOOD) };
        let good = Controller::connect(options).and_then(|controller| Volume::on_controller(&controller, 3));
        let good = good.expect("a good target");
        good.write_at(0, &GOOD).expect("a good target");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port");
        let connections = target.connections();
        let mut testbed = Self { target, good, listener, address, connections, threads: 0, descriptors: 0 };
        // What a process makes once and keeps is there after the first conversation.
        let script = Script { session: Session::Blocks, digests: 3, uses_epoll: false, bends: Vec::new() };
        testbed.converse(&script).expect("a good target");
        testbed.eventually("connections", |testbed| testbed.target.connections() == testbed.connections);
        (testbed.threads, testbed.descriptors) = (threads(), descriptors().len());
        testbed
    }

    fn play(&mut self, script: &Script) {
        let outcome = self.converse(script);
        if script.bends.is_empty() {
            outcome.unwrap_or_else(|error| panic!("a target that does not lie: {error}"));
        } else if let Err(error) = outcome {
            assert!(!error.to_string().is_empty());
        }
        self.good.controllers().iter().for_each(|good| good.check().expect("the good controller stands"));
        let mut found = [0; GOOD.len()];
        self.good.read_at(0, &mut found).expect("the good controller serves");
        assert_eq!(found, GOOD);
        self.eventually("connections", |testbed| testbed.target.connections() == testbed.connections);
        self.eventually("threads", |testbed| threads() <= testbed.threads);
        self.eventually("descriptors", |testbed| descriptors().len() <= testbed.descriptors);
    }

    /// Does what the script wants of a target that does what the script says.
    fn converse(&self, script: &Script) -> Result<(), InitiatorError> {
        let (stop, stopped) = rustix::pipe::pipe().expect("a pipe");
        std::thread::scope(|scope| {
            let proxy = Proxy::new(&self.listener, self.target.ports()[0], stop, &script.bends);
            scope.spawn(|| proxy.run());
            let outcome = self.session(script);
            drop(stopped);
            outcome
        })
    }

    fn session(&self, script: &Script) -> Result<(), InitiatorError> {
        let patience = if script.bends.is_empty() { PATIENCE_GOOD } else { PATIENCE };
        let is_discovery = script.session == Session::Discovery;
        let nqn = if is_discovery { nvme::discovery::DISCOVERY_NQN } else { NQN };
        let engine = if script.uses_epoll { Engine::Epoll } else { Engine::IoUring };
        let digests = Digests { header: script.digests & 1 != 0, data: script.digests & 2 != 0 };
        let io_queues = u16::from(!is_discovery);
        let options = ConnectOptions { engine, digests, io_queues, ..options(self.address, nqn, patience) };
        let controller = Controller::connect(options)?;
        if is_discovery {
            let log = controller.discovery_log()?;
            assert!(log.entries.len() <= 16 << 10, "more records than 16 MiB hold");
            return controller.disconnect();
        }
        let namespaces = controller.namespaces()?;
        controller.events();
        if script.session == Session::Blocks {
            let nsid = namespaces.first().map_or(1, |namespace| namespace.nsid);
            blocks(&Volume::on_controller(&controller, nsid)?, script.bends.is_empty())?;
        }
        controller.disconnect()
    }

    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < PATIENCE_GOOD, "{what} are left behind: {:?}", descriptors());
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Writes and reads back. With a correct target the data is the same.
fn blocks(namespace: &Volume, is_good: bool) -> Result<(), InitiatorError> {
    let data: Vec<u8> = (0..64 << 10).map(|at: u32| (at >> 3) as u8).collect();
    namespace.write_at(0, &data)?;
    namespace.write_at(64 << 10, &data[..8192])?;
    namespace.flush()?;
    let mut found = vec![0; data.len()];
    namespace.read_at(0, &mut found)?;
    assert!(!is_good || found == data, "a read is not what was written");
    Ok(())
}

fn options(address: SocketAddr, nqn: &str, patience: Duration) -> ConnectOptions {
    ConnectOptions {
        host: HostIdentity::from_nqn("nqn.2014-08.org.example:host"),
        connect_timeout: patience,
        command_timeout: patience,
        keep_alive_ms: 0,
        ..ConnectOptions::new(address, nqn)
    }
}

/// Targets of this process' descriptors, but for pipes: a sanitizer that looks up a name has some.
fn descriptors() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let paths = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    paths.filter(|path| !path.to_string_lossy().starts_with("pipe:")).collect()
}

/// Number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
