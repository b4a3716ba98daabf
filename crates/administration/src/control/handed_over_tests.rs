//! Requests to a process that has handed its target over: those that change something are refused, also those that need no lock of
//! the administration, such as the log level, the end of a controller, and tasks on images.

use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use engine::initiator::{ConnectOptions, Controller, HostIdentity};
use engine::target::{FabricConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use prerequisite::{patience, wait_until};

use super::access::{Access, Caller, Identity, Peer, Rights};
use super::administration::{Administration, Permissions};
use super::ask::Ask;
use super::in_process::InProcess;
use super::refusal::Refusal;
use super::routes::ROUTES;
use super::test_target;

fn fabric() -> FabricConfig {
    FabricConfig {
        ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
        subsystems: vec![SubsystemConfig::new("nqn.test:a", "A", "Selvedge")],
        ..FabricConfig::default()
    }
}

/// A thread that executes `action`, and has come so far that it waits, or has been carried out.
fn waiting<T: Send + 'static>(
    administration: &Arc<Administration>,
    action: impl FnOnce(&Arc<Administration>) -> T + Send + 'static,
) -> JoinHandle<T> {
    let (tell, started) = mpsc::channel();
    let administration = administration.clone();
    let waiting = thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
        action(&administration)
    });
    let status = format!("/proc/self/task/{}/status", started.recv().unwrap());
    wait_until("the request waits, or has been carried out", || {
        let sleeps = std::fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tS"));
        sleeps || waiting.is_finished()
    });
    waiting
}

/// Status of the response to a request for a route, with the variable parts of its path.
fn handled(
    administration: &Arc<Administration>,
    route: (&str, &str),
    path: &[(String, String)],
    query: &str,
    body: &[u8],
) -> Result<u16, Refusal> {
    let route = ROUTES.iter().find(|known| (known.method, known.path) == route).unwrap();
    let caller = Caller { identity: Identity::Process, rights: Rights::admin(), lists: Vec::new() };
    let record = RefCell::default();
    let ask = Ask { administration, caller: &caller, path, query, body, record, preview: None };
    (route.handler)(&ask).map(|answer| answer.status)
}

#[test]
fn a_process_that_has_handed_its_target_over_begins_no_change() {
    let target = test_target::start(fabric());
    let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
    let access = Arc::new(Access::of_this_process());
    let api = InProcess::of_peer(administration.clone(), access, Peer::Process).unwrap();
    let status = |method: &str, path: &str| api.ask(method, path, b"").unwrap().status;
    let before = target.config();
    administration.leave();
    for route in ROUTES.iter().filter(|route| route.method != "GET") {
        let path = route.path.replace(['{', '}'], "");
        // A preview makes no change; without a body it is refused for that.
        let is_preview = route.path == "/v1/preview";
        assert_eq!(status(route.method, &path) == 421, !is_preview, "{} {path}", route.method);
    }
    assert_eq!(status("GET", "/v1/subsystems"), 200);
    assert_eq!(target.config(), before);
}

#[test]
fn the_end_of_a_controller_waits_for_a_hand_over_and_goes_to_the_next_process() {
    let target = test_target::start(fabric());
    let connect = || Controller::connect(ConnectOptions::new(target.ports()[0], "nqn.test:a")).unwrap();
    let ids = || -> Vec<u16> {
        let controllers = target.status().controllers.into_iter();
        controllers.filter(|controller| !controller.ending).map(|controller| controller.cntlid).collect()
    };
    let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
    let _first = connect();
    let first = ids()[0];
    // A change that takes long does not delay the end of a controller.
    let change = administration.change(Permissions::default(), |_| {
        let (tell, ended) = mpsc::channel();
        let administration = administration.clone();
        thread::spawn(move || tell.send(administration.reset_controller(first)));
        assert_eq!(ended.recv_timeout(patience()), Ok(Ok(true)));
        Ok(())
    });
    assert!(change.is_ok() && ids().is_empty());
    assert_eq!(administration.reset_controller(first), Ok(false), "it has ended");
    let _second = connect();
    let second = ids()[0];
    let still = administration.hold_still();
    let waiting = waiting(&administration, move |administration| administration.reset_controller(second));
    assert!(!waiting.is_finished() && ids() == [second], "it waits for the hand-over");
    administration.leave();
    drop(still);
    assert_eq!(waiting.join().unwrap().unwrap_err().status, 421);
    assert_eq!(ids(), [second], "the new process has the controller");
}

#[test]
fn the_log_level_and_the_threshold_of_slow_commands_wait_for_a_hand_over_and_go_to_the_next_process() {
    let target = test_target::start(fabric());
    let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
    let still = administration.hold_still();
    let put = |path: &'static str, body: &'static str| {
        waiting(&administration, move |administration| {
            handled(administration, ("PUT", path), &[], "", body.as_bytes())
        })
    };
    let threshold = put("/v1/slow-commands", r#"{ "threshold_ms": 5 }"#);
    let level = put("/v1/log", r#"{ "level": "trace" }"#);
    assert!(!threshold.is_finished() && !level.is_finished(), "they wait for the hand-over");
    administration.leave();
    drop(still);
    for change in [threshold, level] {
        assert_eq!(change.join().unwrap().unwrap_err().status, 421);
    }
    assert_eq!(target.slow_commands().threshold, None);
}

#[test]
fn the_end_of_a_controller_that_waits_spares_the_next_one_with_its_identifier() {
    let config =
        TargetConfig { fabric: fabric(), poll_us_max: 0, controller_ids: 1..=1, ..TargetConfig::default() };
    let target = Arc::new(Target::start(&config).unwrap());
    let connect = || Controller::connect(ConnectOptions::new(target.ports()[0], "nqn.test:a")).unwrap();
    let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
    let first = connect();
    let still = administration.hold_still();
    let waiting = waiting(&administration, |administration| administration.reset_controller(1));
    assert!(!waiting.is_finished(), "it waits for the hand-over");
    // As after a hand-over whose new process has died: hosts connect again.
    assert!(target.reset_controller(1));
    drop(first);
    wait_until("the identifier is free", || target.status().controllers.is_empty());
    let _second = connect();
    drop(still);
    assert_eq!(waiting.join().unwrap(), Ok(false));
    let controllers = target.status().controllers;
    assert!(matches!(&controllers[..], [controller] if controller.cntlid == 1 && !controller.ending));
}

#[test]
fn a_host_that_connects_while_its_removal_waits_keeps_its_connections() {
    const HOST: &str = "nqn.test:host";
    let mut fabric = fabric();
    let subsystem = &mut fabric.subsystems[0];
    (subsystem.allow_any_host, subsystem.hosts) = (false, vec![HOST.to_owned()]);
    let target = test_target::start(fabric);
    let administration = Arc::new(Administration::new(target.clone(), None).unwrap());
    let still = administration.hold_still();
    let removal = waiting(&administration, |administration| {
        let path = [("nqn", "nqn.test:a"), ("host", HOST)];
        let path = path.map(|(name, part)| (name.to_owned(), part.to_owned()));
        let route = ("DELETE", "/v1/subsystems/{nqn}/hosts/{host}");
        handled(administration, route, &path, "keep_connections=true", b"")
    });
    assert!(!removal.is_finished(), "it waits for the hand-over");
    let options = ConnectOptions {
        host: HostIdentity::from_nqn(HOST),
        ..ConnectOptions::new(target.ports()[0], "nqn.test:a")
    };
    let _connected = Controller::connect(options).unwrap();
    drop(still);
    assert_eq!(removal.join().unwrap(), Ok(204));
    assert_eq!(target.config().subsystems[0].kept_hosts, [HOST]);
    let controllers = target.status().controllers;
    assert!(matches!(&controllers[..], [controller] if !controller.ending), "{controllers:?}");
}
