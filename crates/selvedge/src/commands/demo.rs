//! `selvedge demo`: the whole story in one process: a target, a host that finds it, data that is written and
//! verified, and what it costs. Nothing is left behind.

mod story;

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, PathOptions, Paths, Queue, QueueState};
use engine::limits::{POLL_US_MAX, RECEIVE_LENGTH};
use engine::ring::{Engine, Event, Readiness, Ring, RingOptions, core};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use nvme::discovery::Nqn;
use nvme::tcp::Digests;
use uuid::Uuid;

pub(super) use self::story::Facts;
use self::story::{IdleCost, Story};
use super::bench;
use crate::bench::run::Run;
use crate::config::connection::Connection;
use crate::config::workload::{Geometry, Workload};
use crate::discovery;
use crate::failure::Failure;
use crate::flags::connection::ConnectionFlags;
use crate::flags::look::DemoFlags;
use crate::machine::Machine;
use crate::report::bench::{BenchReport, CpuReport, Options};
use crate::spec::extent::Extent;
use crate::stop::Stop;
use crate::top::initiator::progress;

const QUEUES: u16 = 4;
const NAMESPACE_BYTES: u64 = 256 << 20;
/// Used part of the file: the demo must neither wear out a disk nor wait for a slow one.
const FILE_BYTES: u64 = 64 << 20;
const BLOCK: u32 = 4096;
const MEMORY_NSID: u32 = 1;
const FILE_NSID: u32 = 2;
const IDLE: Duration = Duration::from_secs(2);
const REACTORS_MAX: usize = 4;

/// Runs the demo.
pub(super) fn run(flags: &DemoFlags) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let story = RefCell::new(Story::new(flags.output.output_format));
    let demo = Demo::start(&story, stop, Folder::make()?)?;
    demo.look_around()?;
    demo.prove()?;
    demo.measure()?;
    demo.rest()?;
    let Demo { target, .. } = demo;
    target.shutdown();
    story.into_inner().end()
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("selvedge-demo-{}", Uuid::new_v4()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(Failure::failed(format!(
                "a folder for the demo's file, {}, cannot be made: {error}; set TMPDIR to one that can be written",
                path.display()
            ))),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed here, the system's own cleaning of temporary folders will.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Demo<'a> {
    story: &'a RefCell<Story>,
    stop: Stop,
    target: Target,
    nqn: Nqn,
    address: SocketAddr,
}

impl<'a> Demo<'a> {
    /// Starts the target. Its file has no name from then on, so that nothing is left however this process ends.
    fn start(story: &'a RefCell<Story>, stop: Stop, folder: Folder) -> Result<Self, Failure> {
        let machine = Machine::find(None)?;
        let nqn = machine.demo_nqn();
        let reactors = core::available().len().clamp(1, REACTORS_MAX);
        let file = folder.0.join("namespace.img");
        let namespaces = vec![
            NamespaceConfig::new(MEMORY_NSID, BackendConfig::Memory { size: NAMESPACE_BYTES }, BLOCK),
            NamespaceConfig::new(
                FILE_NSID,
                BackendConfig::File { path: file.clone(), size: Some(NAMESPACE_BYTES) },
                BLOCK,
            ),
        ];
        let config = TargetConfig {
            fabric: FabricConfig {
                ports: vec![PortConfig::new(1, (Ipv4Addr::LOCALHOST, 0).into())],
                subsystems: vec![
                    SubsystemConfig::new(&nqn, "", engine::target::MODEL_DEFAULT).with(namespaces),
                ],
                ..FabricConfig::default()
            },
            reactors: Reactors::Count(reactors),
            engine: Engine::Automatic,
            poll_us_max: POLL_US_MAX,
            state_dir: None,
            machine: Some(machine.id),
            ..TargetConfig::default()
        };
        let target = Target::start(&config).map_err(Failure::failed)?;
        drop(folder);
        let address = target
            .ports()
            .first()
            .copied()
            .ok_or_else(|| Failure::failed("the target has no listening address; this is a bug"))?;
        story.borrow_mut().target_is_up(address, reactors, NAMESPACE_BYTES, &file)?;
        Ok(Self { story, stop, target, nqn, address })
    }

    fn options(&self) -> ConnectOptions {
        ConnectOptions::new(self.address, self.nqn.as_str())
    }

    /// Discovery and Identify.
    fn look_around(&self) -> Result<(), Failure> {
        let connection = Connection::new(&ConnectionFlags {
            transport: Default::default(),
            traddr: vec![self.address.ip().to_string()],
            trsvcid: self.address.port(),
            hostnqn: None,
            hostid: None,
            dhchap_secret_file: None,
            dhchap_ctrl_secret_file: None,
            tls: false,
            tls_key_file: None,
            tls_identity: None,
            tls_compat: false,
            tls_record_limit: None,
            concat: false,
            config: None,
            reauth_interval: None,
            keep_alive_tmo: None,
            host_traddr: Vec::new(),
            host_iface: Vec::new(),
            tos: None,
            tclass: None,
            hdr_digest: false,
            data_digest: false,
        })?;
        let log = discovery::read(&connection)?;
        if !log.records.iter().any(|record| record.is_tcp_subsystem && record.subnqn == self.nqn.as_str()) {
            return Err(Failure::failed("the demo's subsystem is not in the discovery log; this is a bug"));
        }
        let controller = Controller::connect(self.options()).map_err(Failure::failed)?;
        let namespaces = controller.namespaces().map_err(Failure::failed)?;
        if namespaces.len() != 2 {
            return Err(Failure::failed("the demo's namespaces are not all there; this is a bug"));
        }
        self.story.borrow_mut().host_looks_around(&controller, &namespaces)
    }

    /// Writes, and proves that what was written is there.
    fn prove(&self) -> Result<(), Failure> {
        let memory = Workload { verify: true, depth: 32, ..workload(0, 3) };
        self.chapter("random writes to memory", MEMORY_NSID, memory, false)?;
        let file = Workload {
            verify: true,
            depth: 16,
            flush_every: 64,
            size: Some(Extent::Bytes(FILE_BYTES)),
            ..workload(0, 3)
        };
        self.chapter("random writes to the file, each queue flushes after 64", FILE_NSID, file, false)?;
        let digests = Workload { verify: true, depth: 32, ..workload(50, 1) };
        self.chapter("random reads and writes in memory, header and data digests", MEMORY_NSID, digests, true)
    }

    /// Measures reads.
    fn measure(&self) -> Result<(), Failure> {
        let busy = Workload { depth: 32, ..workload(100, 3) };
        self.chapter("random reads from memory", MEMORY_NSID, busy, false)?;
        let single = Workload { depth: 1, jobs: 1, ..workload(100, 2) };
        self.chapter("one read at a time", MEMORY_NSID, single, false)
    }

    /// Runs, judges and prints one workload.
    fn chapter(&self, title: &str, nsid: u32, workload: Workload, digests: bool) -> Result<(), Failure> {
        self.story.borrow_mut().chapter_begins(title, &workload)?;
        let queues = workload.queues(None, None);
        let options = ConnectOptions {
            io_queues: queues.count,
            queue_entries: queues.entries,
            digests: Digests { header: digests, data: digests },
            ..self.options()
        };
        // Each chapter has a controller of its own: its queues come and go with it.
        let paths =
            Paths::connect(PathOptions::once(options, nsid)).map(Arc::new).map_err(Failure::failed)?;
        let fitted = workload.fit(Geometry { unit_bytes: BLOCK, bytes: NAMESPACE_BYTES })?;
        let target_cpu = || self.target.cpu_time();
        let run = Run {
            paths: &paths,
            nsid,
            fitted: &fitted,
            ring: RingOptions::default(),
            writer: Uuid::new_v4().as_u64_pair().0,
            recorder: None,
            record: None,
            placements: None,
            stop: self.stop.flag(),
            target_cpu: Some(&target_cpu),
        };
        let outcome = progress::follow(&run, None)?;
        // A chapter that was cut short has nothing to tell.
        self.go_on(Ok(()))?;
        let mut options = Options::new(&fitted, self.address.to_string(), self.nqn.to_string(), nsid);
        (options.hdr_digest, options.data_digest) = (digests, digests);
        let report = BenchReport::new(options, queues, &outcome);
        self.story.borrow_mut().chapter_ends(report)?;
        bench::finish(outcome, None)
    }

    /// Measures the cost of an idle target with connected queues.
    fn rest(&self) -> Result<(), Failure> {
        self.story.borrow_mut().rest_begins(QUEUES, IDLE)?;
        let options = ConnectOptions { io_queues: QUEUES, ..self.options() };
        let controller = Controller::connect(options).map_err(Failure::failed)?;
        let mut ring = Ring::new(RingOptions::default()).map_err(Failure::failed)?;
        let mut queues = Vec::new();
        for queue_id in 1..=controller.io_queues() {
            let options = controller.queue_options(queue_id);
            let queue = Queue::open(&mut ring, u32::from(queue_id), &options).map_err(Failure::failed)?;
            queues.push(queue);
        }
        // Connecting is work, and is over before the watch begins.
        self.pass(&mut ring, &mut queues, Duration::from_millis(200))?;
        let (before, began) = (self.target.cpu_time(), Instant::now());
        self.pass(&mut ring, &mut queues, IDLE)?;
        let time = self.target.cpu_time().saturating_sub(before);
        let connected = queues.iter().filter(|queue| queue.state() == QueueState::Live).count();
        let lost = queues.iter().find_map(|queue| queue.error().map(Failure::failed));
        queues.iter_mut().for_each(|queue| queue.close(&mut ring));
        if let Some(failure) = lost {
            return Err(failure);
        }
        let cost = IdleCost { queues: connected, target_cpu: CpuReport::new(time, began.elapsed(), 0) };
        self.story.borrow_mut().rest_ends(cost)
    }

    /// Waits for this time, with the queues connected.
    fn pass(&self, ring: &mut Ring, queues: &mut [Queue], time: Duration) -> Result<(), Failure> {
        let mut scratch = vec![0; RECEIVE_LENGTH];
        let mut events = Vec::new();
        let end = ring.now().after(time);
        while ring.now() < end {
            let left = end.since(ring.now()).min(Duration::from_millis(200));
            ring.wait(Some(left), &mut events).map_err(Failure::failed)?;
            for event in events.drain(..) {
                let Event::Ready { token, readiness } = event else { continue };
                let Some(queue) = queues.iter_mut().find(|queue| queue.token() == token) else { continue };
                queue.on_ready(ring, &mut scratch, readiness);
                while queue.has_more() {
                    queue.on_ready(ring, &mut scratch, Readiness::READABLE);
                }
            }
            queues.iter_mut().for_each(|queue| queue.flush(ring));
            self.go_on(Ok(()))?;
        }
        Ok(())
    }

    fn go_on(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        if self.stop.is_asked() {
            Err(Failure::interrupted("interrupted; nothing is left behind"))
        } else {
            outcome
        }
    }
}

/// Random 4 KiB commands on all of a namespace over all queues, for some seconds.
fn workload(read_percent: u8, seconds: u64) -> Workload {
    Workload {
        random: true,
        read_percent,
        block_bytes: BLOCK,
        depth: 1,
        jobs: u32::from(QUEUES),
        offset: Extent::ZERO,
        offset_increment: Extent::ZERO,
        size: None,
        runtime: Some(Duration::from_secs(seconds)),
        once: false,
        ramp: Duration::ZERO,
        rate_iops: None,
        flush_every: 0,
        force_unit_access: false,
        seed: 1,
        verify: false,
    }
}
