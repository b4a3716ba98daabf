//! Requests to a process that has handed its target over: those that change something are refused, also those that need no lock of
//! the administration, such as the log level, the end of a controller, and tasks on images.

use std::sync::Arc;

use engine::target::{FabricConfig, PortConfig, SubsystemConfig};

use super::access::{Access, Peer};
use super::administration::Administration;
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
    let administration = Arc::new(Administration::new(target, None).unwrap());
    assert_eq!(administration.reset_controller(1), Ok(false), "there is none");
    let still = administration.hold_still();
    let waiting = std::thread::spawn({
        let administration = administration.clone();
        move || administration.reset_controller(1)
    });
    administration.leave();
    drop(still);
    assert_eq!(waiting.join().unwrap().unwrap_err().status, 421);
}
