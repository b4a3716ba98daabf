//! An idle target: it sleeps, and misses no timer.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, Queue, QueueState};
use engine::limits::{CONNECT_TIMEOUT_MS, DISCOVERY_IDLE_MS_MAX, RECEIVE_LENGTH};
use engine::ring::{Event, Moment, Readiness, Ring, RingOptions, tcp};
use engine::simulation::{self, Options, Outcome, ProcessId, sleep};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use engine::transport::ConnectionOptions;
use nvme::SubmissionEntry;
use nvme::command::admin_opcode;
use nvme::features::FeatureId;
use uuid::Uuid;

use crate::scene::address;
use crate::target::NQN;

/// I/O queues of a host, more than there are reactors.
const QUEUES: u16 = 6;
const REACTORS: usize = 3;
/// Beyond its keep alive time-out a host has this much time.
const GRACE: Duration = Duration::from_secs(1);
/// Within this time an end is noticed, and seen by who looks: twice what a sweep takes to come.
const SOON: Duration = Duration::from_secs(1);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Target with a volume of memory, with the state that it shares with the test.
#[derive(Clone, Default)]
struct TargetNode {
    connections: Rc<Cell<usize>>,
    /// Set when its controllers are to be reset.
    resets: Rc<Cell<bool>>,
}

impl TargetNode {
    /// Starts it, at the first address of all.
    fn start() -> Self {
        let node = Self::default();
        let machine = simulation::add_machine(&[target_address().ip()]);
        let theirs = node.clone();
        simulation::start_process("target", machine, move || theirs.serve());
        node
    }

    fn serve(&self) {
        let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let mut port = PortConfig::new(1, target_address());
        port.congestion = Some("system".to_owned());
        let fabric = FabricConfig {
            ports: vec![port],
            subsystems: vec![SubsystemConfig::new(NQN, "SIMULATED", "Selvedge").with(vec![memory])],
            ..FabricConfig::default()
        };
        let (reactors, poll_us_max) = (Reactors::Count(REACTORS), 0);
        let config = TargetConfig { fabric, reactors, poll_us_max, state_dir: None, ..Default::default() };
        let target = Target::start(&config).expect("a target starts");
        loop {
            if self.resets.replace(false) {
                let controllers = target.status().controllers;
                assert!(controllers.iter().all(|controller| target.reset_controller(controller.cntlid)));
            }
            self.connections.set(target.connections());
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it has had no connection for the first time, and returns when that was.
    fn left_at(&self, limit: Duration) -> Moment {
        let began = simulation::now();
        while self.connections.get() > 0 && simulation::now().since(began) < limit {
            sleep(Duration::from_millis(20));
        }
        simulation::now()
    }
}

fn target_address() -> SocketAddr {
    address(0, 0)
}

/// Starts a host with `QUEUES` queues, or none of a discovery controller, which then asks nothing; `then` is what it does after a
/// while.
fn start_host(name: &str, options: ConnectOptions, then: impl FnOnce(&Controller) + 'static) -> ProcessId {
    let machine = simulation::add_machine(&[]);
    simulation::start_process(name, machine, move || {
        sleep(Duration::from_millis(100));
        let queues = options.io_queues;
        let controller = Controller::connect(options).expect("a controller");
        let mut ring = Ring::new(RingOptions::default()).expect("a ring");
        let mut open = Vec::new();
        for queue_id in 1..=queues {
            open.push(
                Queue::open(&mut ring, open.len() as u32, &controller.queue_options(queue_id)).unwrap(),
            );
            until_live(&mut ring, &mut open);
        }
        sleep(seconds(50));
        then(&controller);
        loop {
            sleep(seconds(1000));
        }
    })
}

fn options(number: u128, keep_alive_ms: u32) -> ConnectOptions {
    let host = HostIdentity::from_uuid(Uuid::from_u128(number));
    ConnectOptions { host, io_queues: QUEUES, keep_alive_ms, ..ConnectOptions::new(target_address(), NQN) }
}

/// Waits for the last queue.
fn until_live(ring: &mut Ring, queues: &mut [Queue]) {
    let (mut scratch, mut events) = (vec![0; RECEIVE_LENGTH], Vec::new());
    while queues.last().is_some_and(|queue| queue.state() != QueueState::Live) {
        ring.wait(Some(Duration::from_millis(50)), &mut events).expect("events");
        for event in events.drain(..) {
            if let Event::Ready { token, readiness } = event {
                queues[token as usize].on_ready(ring, &mut scratch, readiness);
            }
        }
        let Some(queue) = queues.last_mut() else { return };
        if queue.has_more() {
            queue.on_ready(ring, &mut scratch, Readiness::READABLE);
        }
        queue.flush(ring);
    }
}

/// Plays a scene with a target.
fn play(scene: impl FnOnce(&TargetNode) + 'static) -> Outcome {
    let options = Options { seed: 1, limit: seconds(100_000), traces: false, judge: None };
    let outcome = simulation::run(options, move || scene(&TargetNode::start()));
    assert_eq!(outcome.failure, None);
    outcome
}

/// Checks that something ended no sooner than `after` a moment, and not long after that.
fn assert_ended(ended: Moment, after: Duration, since: Moment) {
    let took = ended.since(since);
    assert!(took >= after && took < after + SOON, "{took:?}, not {after:?}");
}

#[test]
fn a_target_sleeps_while_queues_rest() {
    const HOSTS: u64 = 4;
    const TIME_S: u64 = 6000;
    let outcome = play(|node| {
        for host in 1..=HOSTS {
            start_host("host", options(host.into(), 60_000), |_| ());
        }
        sleep(seconds(TIME_S));
        assert_eq!(node.connections.get(), HOSTS as usize * usize::from(QUEUES + 1), "everybody stays");
    });
    let turns_of =
        |name: String| outcome.turns.iter().find(|(other, _)| *other == name).map(|(_, turns)| *turns);
    let turns: u64 = (0..REACTORS).filter_map(|reactor| turns_of(format!("target/reactor-{reactor}"))).sum();
    // Two for a keep alive, of which there are two in its time, and what connecting takes. Each reactor looks after silent hosts
    // besides, when the first might be.
    let most = HOSTS * 2 * 2 * TIME_S / 60 + 500 + REACTORS as u64 * TIME_S / 20;
    assert!(turns > HOSTS && turns < most, "{turns} turns, not {most}: {:?}", outcome.turns);
}

#[test]
fn who_says_nothing_is_sent_away_in_time() {
    play(|node| {
        sleep(seconds(40));
        let machine = simulation::add_machine(&[]);
        simulation::start_process("stranger", machine, || {
            let pending =
                tcp::connect_start(target_address(), &ConnectionOptions::default()).expect("a connection");
            sleep(seconds(1));
            assert!(pending.is_made().expect("a connection"));
            let _socket = pending.into_socket();
            sleep(seconds(1000));
        });
        let came = simulation::now();
        sleep(SOON);
        assert_eq!(node.connections.get(), 1);
        assert_ended(node.left_at(seconds(100)), Duration::from_millis(CONNECT_TIMEOUT_MS), came);
    });
}

#[test]
fn a_host_that_falls_silent_loses_its_queues_in_time() {
    play(|node| {
        let host = start_host("host", options(1, 10_000), |_| ());
        sleep(seconds(100));
        assert_eq!(node.connections.get(), usize::from(QUEUES + 1));
        let silent = simulation::now();
        simulation::pause(host, true);
        let took = node.left_at(seconds(100)).since(silent);
        // It may have been about to say something, half of its time after it did.
        assert!(took >= seconds(5) + GRACE && took < seconds(10) + GRACE + SOON, "{took:?}");
    });
}

#[test]
fn a_keep_alive_timer_that_is_set_while_all_sleeps_runs_out() {
    for before in [0, 600_000] {
        play(move |node| {
            let changed = Rc::new(Cell::new(Moment(0)));
            let noted = changed.clone();
            start_host("host", options(1, before), move |controller| {
                let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 0);
                entry.cdw10 = u32::from(FeatureId::KEEP_ALIVE_TIMER.0).into();
                entry.cdw11 = 2000.into();
                controller.admin(entry, None, 0).unwrap().success("Set Features").unwrap();
                noted.set(simulation::now());
            });
            sleep(seconds(40));
            assert_eq!(node.connections.get(), usize::from(QUEUES + 1));
            let ended = node.left_at(seconds(500));
            // The answer took some milliseconds to come.
            assert_ended(ended.after(Duration::from_millis(20)), seconds(2) + GRACE, changed.get());
        });
    }
}

#[test]
fn a_silent_discovery_controller_ends_in_time() {
    play(|node| {
        start_host("host", ConnectOptions::discovery(target_address()), |_| ());
        sleep(SOON);
        assert_eq!(node.connections.get(), 1);
        let limit = Duration::from_millis(DISCOVERY_IDLE_MS_MAX) + GRACE;
        let ended = node.left_at(2 * limit);
        assert!(ended.since(Moment(0)) >= limit && ended.since(Moment(0)) < limit + SOON, "{ended:?}");
    });
}

#[test]
fn a_controller_that_is_reset_leaves_all_reactors() {
    play(|node| {
        start_host("host", options(1, 600_000), |_| ());
        sleep(seconds(100));
        assert_eq!(node.connections.get(), usize::from(QUEUES + 1));
        let reset = simulation::now();
        node.resets.set(true);
        assert_ended(node.left_at(seconds(100)), Duration::ZERO, reset);
    });
}
