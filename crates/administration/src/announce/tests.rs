//! What is announced, and that a browser finds it. Packets stay in a network namespace that ends with the test.

use prerequisite::{missing, patience, wait_for_end};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use engine::target::{PortConfig, SubsystemConfig};
use mdns_sd::{ResolvedService, ServiceEvent};

use super::*;

/// Longest time for anything here; all of it takes a few seconds.
/// Says that a test runs in the namespace that it made.
const INSIDE: &str = "SELVEDGE_TEST_IN_NAMESPACE";

fn fabric(addresses: &[&str]) -> FabricConfig {
    let ports = addresses.iter().zip(1..).map(|(address, id)| PortConfig::new(id, address.parse().unwrap()));
    FabricConfig { ports: ports.collect(), ..FabricConfig::default() }
}

fn notice(addresses: &[&str]) -> Notice {
    Notice::of(&fabric(addresses)).unwrap()
}

#[test]
fn the_assigned_service_is_announced_if_a_port_has_it() {
    let both = notice(&["10.0.0.1:4420", "10.0.0.2:8009", "[fd00::2]:8009"]);
    assert_eq!(both.service, 8009);
    assert_eq!(both.addresses, ["10.0.0.2", "fd00::2"].map(|address| address.parse().unwrap()).into());
    let neither = notice(&["10.0.0.1:4421", "10.0.0.2:4420", "10.0.0.3:4421"]);
    assert_eq!(neither.service, 4421);
    assert_eq!(neither.addresses, ["10.0.0.1", "10.0.0.3"].map(|address| address.parse().unwrap()).into());
    assert_eq!(Notice::of(&FabricConfig::default()), None);
}

#[test]
fn the_discovery_service_has_its_own_name_if_it_was_given_one() {
    let mut fabric = fabric(&["127.0.0.1:8009"]);
    assert_eq!(Notice::of(&fabric).unwrap().nqn, DISCOVERY_NQN);
    fabric.discovery_nqn = Some("nqn.2026-01.io.selvedge:discovery".to_owned());
    let records = Notice::of(&fabric).unwrap().records("storage.example").unwrap();
    assert_eq!(records.get_property_val_str("nqn"), Some("nqn.2026-01.io.selvedge:discovery"));
    assert_eq!(records.get_property_val_str("p"), Some("tcp"));
    assert_eq!(records.get_fullname(), "storage._nvme-disc._tcp.local.");
    assert_eq!(records.get_hostname(), "storage-nvme-8009.local.");
}

#[test]
fn nothing_that_is_served_is_in_an_announcement() {
    let mut fabric = fabric(&["127.0.0.1:8009"]);
    let empty = Notice::of(&fabric);
    let mut subsystem = SubsystemConfig::new("nqn.2026-01.org.example:disks", "S1", "Selvedge");
    subsystem.hosts = vec!["nqn.2026-01.org.example:host".to_owned()];
    fabric.subsystems = vec![subsystem];
    assert_eq!(Notice::of(&fabric), empty);
}

#[test]
fn it_is_announced_only_on_interfaces_that_are_listened_on() {
    let interfaces = |addresses: &[&str]| format!("{:?}", notice(addresses).interfaces());
    assert_eq!(interfaces(&["127.0.0.2:8009"]), "[(All, false), (LoopbackV4, true)]");
    assert_eq!(interfaces(&["[::1]:8009"]), "[(All, false), (LoopbackV6, true)]");
    assert_eq!(interfaces(&["10.0.0.1:8009"]), "[(All, false), (Addr(10.0.0.1), true)]");
    assert_eq!(interfaces(&["[::ffff:10.0.0.1]:8009"]), "[(All, false), (Addr(10.0.0.1), true)]");
    assert_eq!(interfaces(&["0.0.0.0:8009"]), "[(All, false), (IPv4, true), (LoopbackV4, false)]");
    assert_eq!(
        interfaces(&["[::]:8009"]),
        "[(All, false), (All, true), (LoopbackV4, false), (LoopbackV6, false)]"
    );
    assert!(notice(&["0.0.0.0:8009"]).records("a").unwrap().is_addr_auto());
    let here = notice(&["10.0.0.1:8009"]).records("a").unwrap();
    assert!(!here.is_addr_auto());
    assert_eq!(here.get_addresses().len(), 1);
}

#[test]
fn names_fit_into_labels() {
    let long = "x".repeat(62) + "äö";
    for machine in ["", ".", "storage", "storage.example", "under_score", "größe", long.as_str()] {
        let (instance, host) = (instance_label(machine), host_label(machine, 65535));
        assert!(!instance.is_empty() && instance.len() <= LABEL_LENGTH_MAX, "{machine}: {instance}");
        assert!(host.len() <= LABEL_LENGTH_MAX && host.ends_with("-nvme-65535"), "{machine}: {host}");
        assert!(host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{machine}: {host}");
    }
    assert_eq!(instance_label("storage.example"), "storage");
    assert_eq!(instance_label(""), "selvedge");
    assert_eq!(host_label("under_score", 8009), "under-score-nvme-8009");
}

#[test]
fn a_browser_finds_the_service_follows_it_and_sees_it_go() {
    if std::env::var_os(INSIDE).is_some() {
        return browse();
    }
    let enter = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).stdin(Stdio::null());
        command
    };
    let allowed = enter().arg("true").stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return missing("no network namespace can be made here (it takes root and unshare)");
    }
    let name = "announce::tests::a_browser_finds_the_service_follows_it_and_sees_it_go";
    let mut child = enter()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .spawn()
        .unwrap();
    assert!(
        wait_for_end(&mut child).success(),
        "the test inside the namespace failed; what it says stands above"
    );
}

fn browse() {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(up.success());
    let browser = ServiceDaemon::new().unwrap();
    let events = browser.browse(SERVICE_TYPE).unwrap();
    let served = Arc::new(Mutex::new(fabric(&["127.0.0.1:4420"])));
    let shared = served.clone();
    let announcer =
        Announcer::every(Duration::from_millis(50), move || shared.lock().unwrap().clone()).unwrap();

    let found = resolved(&events, 4420);
    assert!(found.get_fullname().ends_with(SERVICE_TYPE), "{found:?}");
    assert_eq!(found.get_property_val_str("p"), Some("tcp"));
    assert_eq!(found.get_property_val_str("nqn"), Some(DISCOVERY_NQN));
    assert_eq!(found.get_addresses_v4(), ["127.0.0.1".parse().unwrap()].into());
    assert_eq!(found.get_addresses().len(), 1, "{found:?}");

    *served.lock().unwrap() = fabric(&["127.0.0.1:4420", "127.0.0.1:8009"]);
    let moved = resolved(&events, 8009);
    assert_eq!(moved.get_fullname(), found.get_fullname());

    drop(announcer);
    removed(&events, moved.get_fullname());
    let ended = browser.shutdown().unwrap().recv_timeout(patience());
    assert!(ended.is_ok());
}

/// Waits until the browser knows the service on this port.
fn resolved(events: &mdns_sd::Receiver<ServiceEvent>, port: u16) -> ResolvedService {
    loop {
        match events.recv_timeout(patience()).expect("the service is found") {
            ServiceEvent::ServiceResolved(service) if service.get_port() == port => return *service,
            _ => {}
        }
    }
}

/// Waits until the browser knows that the service has gone.
fn removed(events: &mdns_sd::Receiver<ServiceEvent>, fullname: &str) {
    loop {
        match events.recv_timeout(patience()).expect("the service says goodbye") {
            ServiceEvent::ServiceRemoved(_, gone) if gone == fullname => return,
            _ => {}
        }
    }
}
