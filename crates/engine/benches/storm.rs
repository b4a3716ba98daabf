//! 15 controllers with 127 queues each that connect at the same moment, as hosts do after a target
//! was restarted, while another host reads steadily from another subsystem: how long it takes,
//! which queues are refused, and what the reader notices. With `--tls` each of them does a
//! handshake first.

#[path = "shared/tls_key.rs"]
mod tls_key;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, Queue, QueueState, Volume};
use engine::limits::SCRATCH_LENGTH_MIN;
use engine::ring::{Engine, Event, Readiness, Ring, RingOptions};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};

const STORMED: &str = "nqn.2026-01.io.selvedge:stormed";
const STEADY: &str = "nqn.2026-01.io.selvedge:steady";
const CONTROLLERS: usize = 15;
const QUEUES: u16 = 127;
/// All have to be served or refused by then.
const LIMIT: Duration = Duration::from_secs(10);
const ALONE: Duration = Duration::from_secs(4);
/// About as long as hosts with TLS take.
const COMPUTED: Duration = Duration::from_millis(1500);
/// The priority that gives way to all others.
const LOWEST_PRIORITY: i32 = 19;
/// The reader asks so often, whatever else happens: a rate that this machine keeps easily.
const PACE: Duration = Duration::from_micros(500);

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = start_target(folder.path());
    let address = target.ports()[0];
    let reads = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let reader = steady_reader(address, reads.clone(), stop.clone());

    std::thread::sleep(Duration::from_millis(500));
    let alone = rate(&reads, ALONE);
    let computing_since = Instant::now();
    compute();
    let computing = computing_since..Instant::now();
    let before = reads.load(Ordering::Relaxed);
    let began = Instant::now();
    let leave = Arc::new(AtomicBool::new(false));
    let (report, reports) = channel();
    let hosts: Vec<_> = (0..CONTROLLERS)
        .map(|_| {
            let (report, leave) = (report.clone(), leave.clone());
            std::thread::spawn(move || connect_all(address, &report, &leave))
        })
        .collect();
    let outcomes: Vec<Outcome> = reports.iter().take(CONTROLLERS).collect();
    let took = began.elapsed();
    let during = (reads.load(Ordering::Relaxed) - before) as f64 / took.as_secs_f64();
    // The rest of the ten seconds counts as well, with all queues there.
    std::thread::sleep(LIMIT.saturating_sub(took));
    let within = (reads.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    let ended = began + took;
    let live: usize = outcomes.iter().map(|outcome| outcome.live).sum();
    let refused: usize = outcomes.iter().map(|outcome| outcome.refused).sum();
    let unanswered: usize = outcomes.iter().map(|outcome| outcome.unanswered).sum();
    println!("{CONTROLLERS} controllers x {QUEUES} queues:");
    println!(
        "  {live} served, {refused} refused, {unanswered} without an answer, after {:.2} s",
        took.as_secs_f64()
    );
    println!("  connections of the target: {}", target.connections());
    println!("steady reader, reads a second:");
    println!("  {alone:.0} alone, {during:.0} while they connect ({:.0} %)", 100.0 * during / alone);
    println!("  {within:.0} within the {} s ({:.0} %)", LIMIT.as_secs(), 100.0 * within / alone);
    leave.store(true, Ordering::Relaxed);
    hosts.into_iter().for_each(|host| host.join().expect("a host's thread"));
    let controllers = || target.status().controllers.len();
    let waited = Instant::now();
    while controllers() > 1 && waited.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("controllers left when all hosts but the reader are gone: {}", controllers() - 1);
    stop.store(true, Ordering::Relaxed);
    let read = reader.join().expect("the reader's thread");
    tell_p99(&read, &computing, &(began..ended));
    target.shutdown();
    if unanswered > 0 || took > LIMIT || within < 0.8 * alone {
        eprintln!("storm: not as it should be");
        std::process::exit(1);
    }
}

fn tell_p99(read: &[(Instant, Duration)], computing: &Range<Instant>, connecting: &Range<Instant>) {
    let alone = p99(read.iter().filter(|(at, _)| *at < computing.start));
    let beside = p99(read.iter().filter(|(at, _)| computing.contains(at)));
    let during = p99(read.iter().filter(|(at, _)| connecting.contains(at)));
    println!("steady reader, p99:");
    println!("  {alone:.0?} alone, {beside:.0?} beside as many threads that only compute");
    println!("  {during:.0?} while they connect");
}

fn options(address: SocketAddr, nqn: &str) -> ConnectOptions {
    ConnectOptions { tls: tls_key::is_wanted().then(tls_key::of_host), ..ConnectOptions::new(address, nqn) }
}

fn start_target(folder: &std::path::Path) -> Target {
    let memory = || vec![NamespaceConfig::new(1, BackendConfig::Memory { size: 64 << 20 }, 4096)];
    let subsystem = |nqn| {
        let mut subsystem = SubsystemConfig::new(nqn, "storm", "Selvedge").with(memory());
        if tls_key::is_wanted() {
            subsystem.host_keys = vec![tls_key::of_target(&HostIdentity::of_this_machine(), folder)];
        }
        subsystem
    };
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
            subsystems: vec![subsystem(STORMED), subsystem(STEADY)],
            ..FabricConfig::default()
        },
        reactors: Reactors::Count(2),
        ..TargetConfig::default()
    };
    engine::ring::core::raise_descriptor_limit();
    Target::start(&config).expect("the target starts")
}

/// Reads a block every `PACE`, and counts; it gives when it read, and how long that took.
fn steady_reader(
    address: SocketAddr,
    reads: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> std::thread::JoinHandle<Vec<(Instant, Duration)>> {
    std::thread::spawn(move || {
        let mut read = Vec::with_capacity(64 << 10);
        let controller = Controller::connect(options(address, STEADY)).expect("the reader connects");
        let namespace = Volume::on_controller(&controller, 1).expect("its namespace opens");
        let mut block = [0; 4096];
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            namespace.read_at(0, &mut block).expect("a read");
            read.push((began, began.elapsed()));
            reads.fetch_add(1, Ordering::Relaxed);
            // What was late is not made up for: a reader that was held up has lost those reads.
            next = (next + PACE).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        read
    })
}

/// The time that one in a hundred of these took, or more.
fn p99<'a>(read: impl Iterator<Item = &'a (Instant, Duration)>) -> Duration {
    let mut times: Vec<Duration> = read.map(|(_, took)| *took).collect();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

/// Cost to the reader of the mere presence of as many threads of hosts on this machine's
/// processors.
fn compute() {
    let stop = Arc::new(AtomicBool::new(false));
    let thread = |_| {
        let stop = stop.clone();
        std::thread::spawn(move || {
            give_way();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    };
    let threads: Vec<_> = (0..CONTROLLERS).map(thread).collect();
    std::thread::sleep(COMPUTED);
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
}

/// Hosts are other machines; here they must not take the processors from the target and the reader.
fn give_way() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST_PRIORITY);
}

fn rate(reads: &AtomicU64, time: Duration) -> f64 {
    let (before, began) = (reads.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(time);
    (reads.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64()
}

/// Results of one host's queues.
struct Outcome {
    live: usize,
    refused: usize,
    unanswered: usize,
}

/// Opens one host's controller and queues, tells what became of them, and keeps them until `leave`.
fn connect_all(address: SocketAddr, report: &Sender<Outcome>, leave: &AtomicBool) {
    give_way();
    let deadline = Instant::now() + LIMIT;
    let options = ConnectOptions { io_queues: QUEUES, ..options(address, STORMED) };
    let Ok(controller) = Controller::connect(options) else {
        let _ = report.send(Outcome { live: 0, refused: usize::from(QUEUES), unanswered: 0 });
        return;
    };
    let mut ring = Ring::new(RingOptions { engine: Engine::Epoll, poll_us_max: 0 }).expect("a ring");
    let mut scratch = vec![0; SCRATCH_LENGTH_MIN];
    let mut refused = 0;
    let mut queues = Vec::new();
    for queue_id in 1..=QUEUES {
        match Queue::open(&mut ring, u32::from(queue_id) - 1, &controller.queue_options(queue_id)) {
            Ok(queue) => queues.push(queue),
            Err(_) => refused += 1,
        }
    }
    let mut events = Vec::new();
    let undecided = |queue: &Queue| !matches!(queue.state(), QueueState::Live | QueueState::Closed);
    while queues.iter().any(undecided) && Instant::now() < deadline {
        ring.wait(Some(Duration::from_millis(50)), &mut events).expect("events");
        for event in events.drain(..) {
            let Event::Ready { token, readiness } = event else {
                queues.iter_mut().for_each(|queue| {
                    queue.on_woken(&mut ring);
                    queue.flush(&mut ring);
                });
                continue;
            };
            if let Some(queue) = queues.iter_mut().find(|queue| queue.token() == token) {
                queue.on_ready(&mut ring, &mut scratch, readiness);
                queue.flush(&mut ring);
            }
        }
        let now = ring.now();
        for queue in &mut queues {
            if queue.has_more() {
                queue.on_ready(&mut ring, &mut scratch, Readiness::READABLE);
                queue.flush(&mut ring);
            }
            queue.on_time(&mut ring, now);
        }
    }
    let count = |state| queues.iter().filter(|queue| queue.state() == state).count();
    let (live, closed) = (count(QueueState::Live), count(QueueState::Closed));
    let unanswered = queues.len() - live - closed;
    let _ = report.send(Outcome { live, refused: refused + closed, unanswered });
    while !leave.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
    }
    for queue in &mut queues {
        queue.close(&mut ring);
    }
}
