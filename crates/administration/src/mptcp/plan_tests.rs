//! Plans for machines whose `ip -j` was recorded.

use std::net::{IpAddr, SocketAddr};

use super::super::machine::{Limits, Machine};
use super::{Step, for_host, for_target};

/// Three networks and IPv6 on the second; the third is not connected.
const ADDRESSES: &str = r#"[
{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"operstate":"UNKNOWN","addr_info":[
 {"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host","label":"lo"},
 {"family":"inet6","local":"::1","prefixlen":128,"scope":"host"}]},
{"ifindex":2,"ifname":"v1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"operstate":"UP","addr_info":[
 {"family":"inet","local":"10.9.1.1","prefixlen":24,"scope":"global","label":"v1"},
 {"family":"inet","local":"10.9.1.7","prefixlen":24,"scope":"global","secondary":true,"label":"v1"},
 {"family":"inet6","local":"2001:db8:1::1","prefixlen":64,"scope":"global","nodad":true},
 {"family":"inet6","local":"fe80::7c8e:ccff:fe81:d204","prefixlen":64,"scope":"link"}]},
{"ifindex":3,"ifname":"v2","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"operstate":"UP","addr_info":[
 {"family":"inet","local":"10.9.2.1","prefixlen":24,"scope":"global","label":"v2"},
 {"family":"inet6","local":"2001:db8::1","prefixlen":64,"scope":"global","nodad":true},
 {"family":"inet6","local":"2001:db8::2","prefixlen":64,"scope":"global","temporary":true}]},
{"ifindex":4,"ifname":"v3","flags":["NO-CARRIER","BROADCAST","MULTICAST","UP"],"operstate":"DOWN","addr_info":[
 {"family":"inet","local":"10.9.3.1","prefixlen":24,"scope":"global","label":"v3"}]}]"#;
const ROUTES: &str = r#"[{"dst":"default","gateway":"10.9.2.2","dev":"v2","metric":600,"flags":[]},
{"dst":"default","gateway":"10.9.1.2","dev":"v1","protocol":"dhcp","prefsrc":"10.9.1.7","metric":100,"flags":[]}]"#;
const LIMITS: &str = "add_addr_accepted 0 subflows 2 \n";

fn machine(routes: [&str; 2], limits: &str, endpoints: &str) -> Machine {
    Machine::read(ADDRESSES, routes, limits, endpoints).unwrap()
}

fn addresses(list: &[&str]) -> Vec<SocketAddr> {
    list.iter().map(|address| address.parse().unwrap()).collect()
}

const SET_LIMITS: &str = "ip mptcp limits set add_addr_accepted 8 subflows 8";

#[test]
fn every_address_but_the_first_is_announced_to_hosts() {
    let machine = machine(["[]", "[]"], LIMITS, "[]");
    let plan = for_target(&machine, &addresses(&["10.9.1.1:4420", "10.9.2.1:4420", "10.9.3.1:4420"]));
    let expected = [
        SET_LIMITS,
        "ip mptcp endpoint add 10.9.2.1 dev v2 signal",
        "ip mptcp endpoint add 10.9.3.1 dev v3 signal",
    ];
    assert_eq!(plan.lines(), expected);
    assert_eq!(plan.to_string(), expected.map(|line| format!("{line}\n")).concat());
    let alone = for_target(&machine, &addresses(&["10.9.1.1:4420", "10.9.2.1:4421"]));
    assert_eq!(alone.lines(), [SET_LIMITS], "another service at another address is of no use to a host");
    let unknown = for_target(&machine, &addresses(&["10.9.1.1:1", "192.0.2.9:1"]));
    assert_eq!(unknown.lines()[1], "ip mptcp endpoint add 192.0.2.9 signal");
}

#[test]
fn a_wildcard_is_every_address_that_others_reach() {
    let machine = machine(["[]", "[]"], LIMITS, "");
    let ipv4 = for_target(&machine, &addresses(&["0.0.0.0:4420"]));
    let expected = ["10.9.1.1 dev v1", "10.9.1.7 dev v1", "10.9.2.1 dev v2"];
    let added = |line: &str| format!("ip mptcp endpoint add {line} signal");
    assert_eq!(ipv4.lines()[1..], expected.map(added));
    let both = for_target(&machine, &addresses(&["[::]:4420", "10.9.2.1:4420"]));
    let expected = [
        "10.9.1.1 dev v1",
        "10.9.1.7 dev v1",
        "2001:db8:1::1 dev v1",
        "10.9.2.1 dev v2",
        "2001:db8::1 dev v2",
    ];
    assert_eq!(both.lines()[1..], expected.map(added));
}

#[test]
fn what_is_there_is_not_set_again() {
    let endpoints = r#"[{"address":"10.9.2.1","id":1,"signal":true,"dev":"v2"},
        {"address":"10.9.3.1","id":2,"subflow":true,"backup":true,"dev":"v3"},
        {"address":"10.9.1.1","id":3,"signal":true}]"#;
    let machine = machine(["[]", "[]"], "add_addr_accepted 8 subflows 8", endpoints);
    let plan = for_target(&machine, &addresses(&["10.9.1.1:1", "10.9.2.1:1"]));
    assert!(plan.is_empty() && plan.remarks().is_empty(), "{plan:?}");
    let plan = for_target(&machine, &addresses(&["10.9.1.1:1", "10.9.3.1:1"]));
    assert!(plan.is_empty(), "{plan:?}");
    assert!(plan.remarks()[0].contains("delete id 2"), "{plan:?}");
    assert_eq!(machine.endpoint_id("10.9.1.1".parse().unwrap()), Some(3));
}

#[test]
fn no_more_is_asked_for_than_the_kernel_takes() {
    let machine = Machine::default();
    let many: Vec<SocketAddr> = (1..=12).map(|number| SocketAddr::from(([10, 0, 0, number], 4420))).collect();
    let plan = for_target(&machine, &many);
    assert_eq!(plan.lines().len(), 1 + 8);
    assert_eq!(plan.remarks().len(), 3);
}

#[test]
fn a_host_goes_out_by_the_addresses_it_does_not_use_anyway() {
    let out = |routes: [&str; 2]| -> Vec<IpAddr> {
        let plan = for_host(&machine(routes, "[{\"add_addr_accepted\":8,\"subflows\":8}]", "[]"));
        let steps = plan.commands.into_iter();
        steps
            .map(|step| match step {
                Step::Endpoint { address, .. } => address,
                step => panic!("{step} is not missing"),
            })
            .collect()
    };
    let ips = |list: &[&str]| -> Vec<IpAddr> { list.iter().map(|ip| ip.parse().unwrap()).collect() };
    let all = ["10.9.1.1", "10.9.1.7", "2001:db8:1::1", "10.9.2.1", "2001:db8::1"];
    assert_eq!(
        out(["[]", "[]"]),
        ips(&all),
        "no default route: the kernel knows what a connection goes out by"
    );
    let through_v1 = r#"[{"dst":"default","gateway":"10.9.1.2","dev":"v1"}]"#;
    assert_eq!(out([through_v1, "[]"]), ips(&["10.9.1.7", "10.9.2.1", "2001:db8::1"]));
    assert_eq!(out([ROUTES, "[]"]), ips(&["10.9.1.1", "10.9.2.1", "2001:db8::1"]), "the preferred source");
    let through_v2 = r#"[{"dst":"default","gateway":"fe80::1","dev":"v2"}]"#;
    assert_eq!(out([ROUTES, through_v2]), ips(&["10.9.1.1", "2001:db8:1::1", "10.9.2.1"]));
    let plan = for_host(&machine([through_v1, "[]"], LIMITS, ""));
    assert_eq!(plan.lines()[..2], [SET_LIMITS, "ip mptcp endpoint add 10.9.1.7 dev v1 subflow"]);
}

#[test]
fn every_command_has_its_opposite() {
    let limits = Step::Limits { before: Limits { add_addr_accepted: 0, subflows: 2 } };
    let undoing = |step: &Step, id| step.undoing(id).map(|words| words.join(" "));
    assert_eq!(undoing(&limits, None).as_deref(), Some("mptcp limits set add_addr_accepted 0 subflows 2"));
    let plan = for_target(&Machine::default(), &addresses(&["10.0.0.1:1", "10.0.0.2:1"]));
    assert_eq!(undoing(&plan.commands[1], Some(7)).as_deref(), Some("mptcp endpoint delete id 7"));
    assert_eq!(undoing(&plan.commands[1], None), None, "it is gone already");
}

#[test]
fn limits_are_read_in_all_their_forms() {
    for text in [
        "add_addr_accepted 3 subflows 4 ",
        r#"{"add_addr_accepted":3,"subflows":4}"#,
        r#"[{"add_addr_accepted":3,"subflows":4}]"#,
    ] {
        let machine = machine(["", ""], text, "");
        assert_eq!(machine.limits, Limits { add_addr_accepted: 3, subflows: 4 }, "{text}");
    }
    assert!(Machine::read("{", ["", ""], "", "").is_err());
}
