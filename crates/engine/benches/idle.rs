//! Cost of a target without requests: processor time and wake-ups with 16 connected queues and with
//! 1,000, and resident memory of one reactor with 1,000 of them. Their ten controllers are those of
//! one other process, which keep alive together, and then of ten processes. With `--tls` they are
//! TLS. It prints what it saw and asserts nothing.

#[path = "shared/tls_key.rs"]
mod tls_key;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, Queue, QueueState};
use engine::limits::SCRATCH_LENGTH_MIN;
use engine::ring::{Engine, Event, Readiness, Ring, RingOptions};
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};

const NQN: &str = "nqn.2026-01.io.selvedge:idle";
/// Time of observation: work that a target does twice a minute is part of what it costs.
const WATCHED: Duration = Duration::from_secs(60);

/// The longest that a host may take to connect.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let Some(at) = words.iter().position(|word| word == "--host") {
        let number = |offset: usize| words[at + offset].parse().expect("a number");
        return be_a_host(words[at + 1].parse().expect("an address"), number(2), number(3) as u16);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let target = start_target(folder.path());
    let address = target.ports()[0];

    let few = open(address, 1, 16);
    std::thread::sleep(Duration::from_secs(1));
    watch(&target, 16, "one host");
    leave(few);
    std::thread::sleep(Duration::from_millis(200));

    let before = resident_bytes();
    let many = open(address, 10, 100);
    // What the handshakes have taken goes back when the target has looked around.
    std::thread::sleep(Duration::from_secs(2));
    let after = resident_bytes();
    let queues = 1000;
    println!(
        "{queues} idle I/O queues of 128 entries: {} KiB resident before, {} KiB with them, {:.1} KiB a queue",
        before >> 10,
        after >> 10,
        (after.saturating_sub(before)) as f64 / 1024.0 / f64::from(queues)
    );
    watch(&target, queues, "ten controllers of one process");
    leave(many);

    let apart: Vec<Child> = (0..10).map(|_| open(address, 1, 100)).collect();
    std::thread::sleep(Duration::from_secs(2));
    watch(&target, queues, "ten processes");
    apart.into_iter().for_each(leave);
    target.shutdown();
}

fn watch(target: &Target, queues: u32, of: &str) {
    let (before, woken_before) = (target.cpu_time(), wake_ups());
    std::thread::sleep(WATCHED);
    let (used, woken) = (target.cpu_time() - before, wake_ups() - woken_before);
    println!(
        "{queues} idle I/O queues of {of}{}: {:.4} % of one core and {:.1} wake-ups a second over {} s",
        if tls_key::is_wanted() { ", TLS" } else { "" },
        100.0 * used.as_secs_f64() / WATCHED.as_secs_f64(),
        woken as f64 / WATCHED.as_secs_f64(),
        WATCHED.as_secs()
    );
}

fn start_target(folder: &std::path::Path) -> Target {
    let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 64 << 20 }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "idle", "Selvedge").with(vec![memory]);
    if tls_key::is_wanted() {
        subsystem.host_keys = vec![tls_key::of_target(&HostIdentity::of_this_machine(), folder)];
    }
    let config = TargetConfig {
        fabric: FabricConfig {
            ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
            subsystems: vec![subsystem],
            ..FabricConfig::default()
        },
        ..TargetConfig::default()
    };
    engine::ring::core::raise_descriptor_limit();
    Target::start(&config).expect("the target starts")
}

/// Another process that opens `controllers` controllers with `queues` I/O queues each, once it has.
fn open(address: SocketAddr, controllers: usize, queues: usize) -> Child {
    let mut host = Command::new(std::env::current_exe().expect("this program"));
    host.args(tls_key::is_wanted().then_some("--tls"));
    host.args(["--host", &address.to_string(), &controllers.to_string(), &queues.to_string()]);
    let mut host = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a host");
    let mut line = String::new();
    BufReader::new(host.stdout.as_mut().expect("its words")).read_line(&mut line).expect("its word");
    assert_eq!(line, "there\n");
    host
}

fn leave(mut host: Child) {
    drop(host.stdin.take());
    let _ = host.wait();
}

/// Opens the queues, reports that, and keeps them until its output has no reader.
fn be_a_host(address: SocketAddr, controllers: usize, queues: u16) {
    engine::ring::core::raise_descriptor_limit();
    let tls = tls_key::is_wanted().then(tls_key::of_host);
    let mut ring = Ring::new(RingOptions { engine: Engine::Epoll, poll_us_max: 0 }).expect("a ring");
    let (mut kept, mut open) = (Vec::new(), Vec::new());
    for _ in 0..controllers {
        let options =
            ConnectOptions { io_queues: queues, tls: tls.clone(), ..ConnectOptions::new(address, NQN) };
        let controller = Controller::connect(options).expect("a controller");
        for queue_id in 1..=queues {
            let (token, options) = (open.len() as u32, controller.queue_options(queue_id));
            open.push(Queue::open(&mut ring, token, &options).expect("a queue"));
            until_live(&mut ring, &mut open);
        }
        kept.push(controller);
    }
    println!("there");
    std::io::stdout().flush().expect("a listener");
    let _ = std::io::stdin().read_line(&mut String::new());
    open.iter_mut().for_each(|queue| queue.close(&mut ring));
}

/// Waits for the last queue. One after the other: here it is not the time that counts.
fn until_live(ring: &mut Ring, queues: &mut [Queue]) {
    let (mut scratch, mut events) = (vec![0; SCRATCH_LENGTH_MIN], Vec::new());
    let began = Instant::now();
    while queues.last().is_some_and(|queue| queue.state() != QueueState::Live) {
        assert!(began.elapsed() < PATIENCE, "a queue does not connect");
        ring.wait(Some(Duration::from_millis(50)), &mut events).expect("events");
        for event in events.drain(..) {
            match event {
                Event::Ready { token, readiness } => {
                    queues[token as usize].on_ready(ring, &mut scratch, readiness);
                }
                _ => queues.iter_mut().for_each(|queue| queue.on_woken(ring)),
            }
        }
        let Some(queue) = queues.last_mut() else { return };
        if queue.has_more() {
            queue.on_ready(ring, &mut scratch, Readiness::READABLE);
        }
        queue.flush(ring);
    }
}

/// Number of times that this process's threads have slept and been woken; the main thread's are
/// few.
fn wake_ups() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of_thread = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<u64>().ok()
    };
    threads.filter_map(of_thread).sum()
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
