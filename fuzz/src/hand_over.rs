//! What the old process of a target is said to hand over: whatever it is, the new one takes it over or names what is wrong,
//! goes on, and serves others.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use engine::backend::BackendConfig;
use engine::ring::Socket;
use engine::target::{
    FabricConfig, HandOver, HandedTarget, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig,
};

const NQN: &str = "nqn.2026-01.io.selvedge:a";
/// Queues of one input; more show nothing else.
const QUEUES_MAX: usize = 8;

/// Target for all inputs: none may leave anything behind that the next one meets.
fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let mut namespace = NamespaceConfig::new(1, BackendConfig::Null { size: 1 << 20 }, 4096);
        // As the corpus has it.
        namespace.uuid = "00000000-0000-0000-0000-000000000715".parse().ok();
        let subsystem = SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace]);
        let config = TargetConfig {
            fabric: FabricConfig {
                ports: vec![PortConfig::new(1, SocketAddr::from(([127, 0, 0, 1], 0)))],
                subsystems: vec![subsystem],
                ..FabricConfig::default()
            },
            is_held: true,
            poll_us_max: 0,
            ..TargetConfig::default()
        };
        Target::start(&config).expect("a target without files starts")
    })
}

/// Takes the bytes of one input over.
pub fn check(bytes: &[u8]) {
    let Ok(mut state) = serde_json::from_slice::<HandedTarget>(bytes) else { return };
    state.queues.truncate(QUEUES_MAX);
    let text = serde_json::to_vec(&state).expect("what was read can be written");
    let again: HandedTarget = serde_json::from_slice(&text).expect("and read again");
    assert!(again == state, "it comes back as it was");
    let (mut hosts, mut queues) = (Vec::new(), Vec::new());
    for _ in &state.queues {
        let (host, here) = UnixStream::pair().expect("two sockets");
        queues.push(Arc::new(Socket::new(here).expect("a socket that does not block")));
        hosts.push(host);
    }
    let count = queues.len();
    let taken = target().take_over(HandOver { state, queues, arrivals: Vec::new() });
    let failed = taken.as_ref().map_or(count, Vec::len);
    assert!(failed <= count, "{failed} of {count} queues have failed");
    target().go_on();
    // A keep alive of the last one, if it is a queue that is alive; whatever it is, its host goes then.
    for host in &mut hosts {
        let _ = host.write_all(&[4, 0, 72, 0, 72, 0, 0, 0, 0x18, 0x40, 1, 0]);
    }
    drop(hosts);
    for controller in target().status().controllers {
        target().reset_controller(controller.cntlid);
    }
    while target().connections() > 0 {
        std::thread::yield_now();
    }
}
