//! A small lab for paths, in one process: targets, links that can be cut without a word, and a host that drives
//! `PathQueues` as a program would. What is tried is the tests' concern.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{
    CommandQueues, Completion, ConnectOptions, Data, Ended, PathOptions, PathQueues, Paths, Request,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Engine, Event, Ring, RingOptions};
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use nvme::io::IoCommand;
use prerequisite::{Wait, patience};
use uuid::Uuid;

pub(crate) const NQN: &str = "nqn.2014-08.org.example:paths";
pub(crate) const BLOCK: usize = 4096;
const SIZE: u64 = 16 << 20;
/// Longer than a busy machine lets a live path wait, and short enough to wait for the loss of one.
pub(crate) const KEEP_ALIVE_MS: u32 = 5000;

/// The configuration of a target with `ports` ports and namespace 1 on `backend`.
pub(crate) fn fabric(ports: u16, backend: BackendConfig) -> FabricConfig {
    let mut namespace = NamespaceConfig::new(1, backend, BLOCK as u32);
    namespace.uuid = Some(Uuid::from_u128(0x5e1f));
    FabricConfig {
        ports: (1..=ports).map(|id| PortConfig::new(id, "127.0.0.1:0".parse().unwrap())).collect(),
        subsystems: vec![SubsystemConfig::new(NQN, "1", "test").with(vec![namespace])],
        ..FabricConfig::default()
    }
}

pub(crate) fn memory(ports: u16) -> FabricConfig {
    fabric(ports, BackendConfig::Memory { size: SIZE })
}

pub(crate) fn file(path: &Path) -> FabricConfig {
    fabric(1, BackendConfig::File { path: path.to_owned(), size: Some(SIZE) })
}

/// Two targets over one file, of which the first holds writes back.
pub(crate) fn slow_and_fast(path: &Path, write_delay_ms: u32) -> (FabricConfig, FabricConfig) {
    let (mut slow, mut fast) = (file(path), file(path));
    for config in [&mut slow, &mut fast] {
        config.subsystems[0].namespaces[0].shared_storage = true;
    }
    slow.subsystems[0].namespaces[0].write_delay_ms = write_delay_ms;
    (slow, fast)
}

pub(crate) fn start(fabric: FabricConfig) -> Target {
    start_with(fabric, |_| {})
}

/// A target that differs from the usual one.
pub(crate) fn start_with(fabric: FabricConfig, change: impl FnOnce(&mut TargetConfig)) -> Target {
    let mut config = TargetConfig { fabric, poll_us_max: 0, ..TargetConfig::default() };
    change(&mut config);
    Target::start(&config).unwrap()
}

/// A link to an address that can be cut: bytes of both directions vanish, and neither end is
/// notified.
pub(crate) struct Link {
    pub(crate) address: SocketAddr,
    cut: Arc<AtomicBool>,
    severed: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Link {
    pub(crate) fn to(target: SocketAddr) -> Self {
        Self::changing(target, |_| ())
    }

    /// The same, where what the target says is changed on its way.
    pub(crate) fn changing(target: SocketAddr, change: fn(&mut [u8])) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let severed = Arc::new(AtomicBool::new(false));
        let (is_cut, is_severed, is_over) = (cut.clone(), severed.clone(), over.clone());
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A host that comes over a cut link hears nothing at all.
                    Ok((host, _)) if is_cut.load(Ordering::Relaxed) => drop(std::thread::spawn({
                        let (is_cut, is_over) = (is_cut.clone(), is_over.clone());
                        move || {
                            while is_cut.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
                                std::thread::sleep(Duration::from_millis(5));
                            }
                            drop(host);
                        }
                    })),
                    Ok((host, _)) => carry(host, target, change, [&is_cut, &is_severed, &is_over]),
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self { address, cut, severed, over }
    }

    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Ends all connections, so that both ends know.
    pub(crate) fn sever(&self) {
        self.severed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn restore(&self) {
        self.severed.store(false, Ordering::Relaxed);
        self.cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Carries one connection until an end closes it. One that was cut stays dead when the link comes back, as a connection
/// does whose packets were lost for too long.
fn carry(
    host: TcpStream,
    target: SocketAddr,
    change: fn(&mut [u8]),
    [cut, severed, over]: [&Arc<AtomicBool>; 3],
) {
    let Ok(target) = TcpStream::connect(target) else { return };
    let dead = Arc::new(AtomicBool::new(false));
    let there = (host.try_clone().unwrap(), target.try_clone().unwrap(), None);
    for (mut from, mut to, change) in [there, (target, host, Some(change))] {
        from.set_nonblocking(false).unwrap();
        from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (cut, severed, over, dead) = (cut.clone(), severed.clone(), over.clone(), dead.clone());
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while !over.load(Ordering::Relaxed) {
                if severed.load(Ordering::Relaxed) {
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                    break;
                }
                if cut.load(Ordering::Relaxed) {
                    dead.store(true, Ordering::Relaxed);
                }
                match from.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(_) if dead.load(Ordering::Relaxed) || cut.load(Ordering::Relaxed) => {}
                    Ok(length) => {
                        if let Some(change) = change {
                            change(&mut bytes[..length]);
                        }
                        if to.write_all(&bytes[..length]).is_err() {
                            break;
                        }
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => break,
                }
            }
            if !dead.load(Ordering::Relaxed) {
                let _ = to.shutdown(Shutdown::Both);
            }
        });
    }
}

/// Options for paths to these addresses that notice losses soon.
pub(crate) fn options(addresses: &[SocketAddr]) -> PathOptions {
    let path = |address: &SocketAddr| ConnectOptions {
        io_queues: 2,
        keep_alive_ms: KEEP_ALIVE_MS,
        connect_timeout: patience(),
        ..ConnectOptions::new(*address, NQN)
    };
    PathOptions {
        reconnect_delay: Duration::from_millis(200),
        ..PathOptions::new(addresses.iter().map(path).collect(), 1)
    }
}

/// A thread of a host: one ring and its queues on all paths.
pub(crate) struct Host {
    ring: Ring,
    pub(crate) queues: PathQueues,
    scratch: Vec<u8>,
    events: Vec<Event>,
}

impl Host {
    pub(crate) fn new(paths: &Paths) -> Self {
        let mut ring = Ring::new(RingOptions { engine: Engine::Automatic, poll_us_max: 0 }).unwrap();
        let queues = PathQueues::open(paths, &mut ring, 0, 0, 1, 64);
        let mut host = Self { ring, queues, scratch: vec![0; RECEIVE_LENGTH], events: Vec::new() };
        host.until("all live paths take commands", |host| host.queues.is_ready() && host.queues.is_settled());
        host
    }

    /// Once around the loop.
    pub(crate) fn turn(&mut self) {
        self.queues.flush(&mut self.ring);
        let timeout = if self.queues.has_more() { Duration::ZERO } else { Duration::from_millis(10) };
        self.events.clear();
        self.ring.wait(Some(timeout), &mut self.events).unwrap();
        let now = self.ring.now();
        self.queues.on_events(&mut self.ring, &mut self.scratch, &self.events, now);
        self.queues.turn(&mut self.ring, now);
    }

    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let wait = Wait::begin(what);
        while !done(self) {
            wait.check();
            self.turn();
        }
    }

    /// Sends a write that is not waited for; it is on its way when this returns.
    pub(crate) fn begin_write(&mut self, block: u64, byte: u8) {
        self.submit(write(block, byte, 0));
        for _ in 0..10 {
            self.turn();
        }
    }

    pub(crate) fn submit(&mut self, request: Request) {
        self.queues.submit(request).unwrap();
    }

    /// Waits for the next answer.
    pub(crate) fn completion(&mut self) -> Completion {
        self.ended().answer().expect("an answer")
    }

    /// Waits for the next command to end.
    pub(crate) fn ended(&mut self) -> Ended {
        let mut found = None;
        self.until("a completion", |host| {
            found = host.queues.pop();
            found.is_some()
        });
        found.unwrap()
    }

    /// A read and its bytes.
    pub(crate) fn read(&mut self, block: u64) -> Vec<u8> {
        self.submit(read(block, 0));
        let completion = self.completion();
        assert!(completion.status.is_success(), "{}", completion.status);
        completion.data.unwrap().to_vec()
    }

    /// A write that is acknowledged.
    pub(crate) fn write(&mut self, block: u64, byte: u8) {
        self.submit(write(block, byte, 0));
        let completion = self.completion();
        assert!(completion.status.is_success(), "{}", completion.status);
    }

    /// Commands completed on each path.
    pub(crate) fn carried(&self) -> Vec<u64> {
        self.queues.report().iter().map(|lane| lane.commands).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.queues.close(&mut self.ring);
    }
}

pub(crate) fn read(block: u64, user: u64) -> Request {
    let command = IoCommand::Read { start: block, blocks: 1, force_unit_access: false };
    Request { entry: command.encode(1), data: Data::Receive(Buffer::zeroed(BLOCK)), user }
}

pub(crate) fn write(block: u64, byte: u8, user: u64) -> Request {
    let command = IoCommand::Write { start: block, blocks: 1, force_unit_access: false };
    let mut buffer = Buffer::zeroed(BLOCK);
    buffer.fill(byte);
    Request { entry: command.encode(1), data: Data::Send(buffer), user }
}
