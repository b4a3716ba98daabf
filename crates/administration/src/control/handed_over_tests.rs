//! Requests to a process that has handed its target over: those that change something are refused, also those that need no lock of
//! the administration, such as the log level, the end of a controller, and tasks on images.

use std::sync::{Arc, mpsc};

use engine::initiator::{ConnectOptions, Controller};
use engine::target::{FabricConfig, PortConfig, SubsystemConfig};
use prerequisite::{patience, wait_until};

use super::access::{Access, Peer};
use super::administration::{Administration, Permissions};
use super::in_process::InProcess;
use super::routes::ROUTES;
use super::test_target;

#[test]
fn a_process_that_has_handed_its_target_over_begins_no_change() {
    let target = test_target::start(FabricConfig {
        ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
        subsystems: vec![SubsystemConfig::new("nqn.test:a", "A", "Selvedge")],
        ..FabricConfig::default()
    });
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
    let target = test_target::start(FabricConfig {
        ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
        subsystems: vec![SubsystemConfig::new("nqn.test:a", "A", "Selvedge")],
        ..FabricConfig::default()
    });
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
        std::thread::spawn(move || tell.send(administration.reset_controller(first)));
        assert_eq!(ended.recv_timeout(patience()), Ok(Ok(true)));
        Ok(())
    });
    assert!(change.is_ok() && ids().is_empty());
    assert_eq!(administration.reset_controller(first), Ok(false), "it has ended");
    let _second = connect();
    let second = ids()[0];
    let still = administration.hold_still();
    let (tell, thread) = mpsc::channel();
    let waiting = std::thread::spawn({
        let administration = administration.clone();
        move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
            administration.reset_controller(second)
        }
    });
    let status = format!("/proc/self/task/{}/status", thread.recv().unwrap());
    wait_until("the request waits, or has been carried out", || {
        let sleeps = std::fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tS"));
        sleeps || waiting.is_finished()
    });
    assert!(!waiting.is_finished() && ids() == [second], "it waits for the hand-over");
    administration.leave();
    drop(still);
    assert_eq!(waiting.join().unwrap().unwrap_err().status, 421);
    assert_eq!(ids(), [second], "the next process has the controller");
}
