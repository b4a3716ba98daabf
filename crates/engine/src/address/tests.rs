//! Addresses in all the ways in which they are written, and what is refused of them.

use super::*;

fn written(text: &str) -> Result<HostAddress, AddressError> {
    text.parse()
}

/// Interface that every machine has.
const LOOPBACK: &str = "lo";

#[test]
fn addresses_are_read_as_curl_has_them() {
    for (text, shown) in [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1:4421", "10.0.0.1:4421"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[::1]:4421", "[::1]:4421"),
        ("fe80::1%lo", "fe80::1%lo"),
        ("[fe80::1%lo]", "fe80::1%lo"),
        ("[fe80::1%lo]:4421", "[fe80::1%lo]:4421"),
        ("[fe80::1%25lo]:4421", "[fe80::1%lo]:4421"),
        ("fe80::1%no-such.iface", "fe80::1%no-such.iface"),
        ("::1%lo", "::1"),
        ("storage.example", "storage.example"),
        ("storage.example:4421", "storage.example:4421"),
        ("storage_1:1", "storage_1:1"),
        ("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.1]:1"),
    ] {
        let address = written(text).unwrap();
        assert_eq!(address.to_string(), shown, "{text}");
        assert_eq!(written(shown).unwrap(), address, "{shown} is read as it is shown");
    }
}

#[test]
fn other_texts_are_refused_with_the_reason() {
    for (text, reason) in [
        ("", "neither an IP address nor a host name"),
        ("a b", "neither"),
        ("a,b", "neither"),
        ("http://host", "is not a port"),
        ("[::1", "not closed"),
        ("[::1]4420", "[ADDRESS]:PORT"),
        ("[host]:1", "brackets are for IPv6"),
        ("::1:zz", "in brackets"),
        ("fe80::zz:4420", "in brackets"),
        ("host:", "is not a port"),
        ("host:http", "is not a port"),
        ("host:-1", "is not a port"),
        ("host:65536", "above 65535"),
        ("10.0.0.1:99999999999", "above 65535"),
        ("10.0.0.1%lo", "only IPv6"),
        ("fe80::1%", "not the name of an interface"),
        ("fe80::1%an/interface", "not the name of an interface"),
        ("fe80::1%sixteen-letters-", "not the name of an interface"),
        (":4420", "neither"),
    ] {
        let refused = written(text).unwrap_err().to_string();
        assert!(refused.contains(reason), "{text}: {refused}");
    }
}

#[test]
fn other_uses_of_an_address_are_refused_with_the_reason() {
    let address = |text: &str| written(text).unwrap();
    for (refused, said) in [
        (InterfaceName::new("a/b").unwrap_err(), "`a/b` is not the name of an interface"),
        (written("fe80::1%a/b").unwrap_err(), "`fe80::1%a/b`: `a/b` is not the name of an interface"),
        ("host".parse::<NetAddress>().unwrap_err(), "`host` is not an IP address"),
        (
            address("[fe80::1%absent0]:1").remote(1).unwrap_err(),
            "`[fe80::1%absent0]:1`: there is no interface absent0",
        ),
        (
            address("fe80::1%lo").check_for_hosts(1).unwrap_err(),
            "`fe80::1%lo`: hosts have interfaces of their own; write the address without lo",
        ),
        (
            address("0.0.0.0").check_for_hosts(1).unwrap_err(),
            "`0.0.0.0` is any address of a machine: name one that hosts can reach",
        ),
        (
            HostAddress::advertised("10.0.0.1:1").unwrap_err(),
            "`10.0.0.1:1`: write it without a port; hosts learn that of the listener",
        ),
        (
            address("fe80::2").local(1).unwrap_err(),
            "`fe80::2` is a link-local address: add its interface, as in fe80::2%eth0",
        ),
    ] {
        assert_eq!(refused.to_string(), said);
    }
}

#[test]
fn interfaces_are_kept_by_name() {
    let index = index_of(LOOPBACK).unwrap();
    for text in [format!("[fe80::1%{index}]:1"), "[fe80::1%lo]:1".to_owned()] {
        let address: NetAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), "[fe80::1%lo]:1");
        let SocketAddr::V6(socket) = address.socket_addr().unwrap() else { panic!("{text}") };
        assert_eq!(socket.scope_id(), index);
        assert_eq!(NetAddress::from(SocketAddr::V6(socket)), address);
        assert_eq!(serde_json::to_value(address).unwrap(), "[fe80::1%lo]:1");
        assert_eq!(serde_json::from_value::<NetAddress>(text.into()).unwrap(), address);
        assert_eq!(address.host(), "fe80::1%lo");
    }
    // One that is not there is kept too: it may be there again when the address is used.
    let absent: NetAddress = "[fe80::1%absent0]:1".parse().unwrap();
    assert_eq!(absent.to_string(), "[fe80::1%absent0]:1");
    assert!(absent.socket_addr().unwrap_err().to_string().contains("absent0"));
    let number: NetAddress = "[fe80::1%4294967]:1".parse().unwrap();
    assert_eq!(number.to_string(), "[fe80::1%4294967]:1");
}

#[test]
fn ports_are_checked_for_what_they_are_for() {
    let address = written("127.0.0.1").unwrap();
    assert_eq!(address.remote(4420).unwrap(), ["127.0.0.1:4420".parse().unwrap()]);
    assert!(address.remote(0).unwrap_err().to_string().contains("port 0"));
    let zero = written("127.0.0.1:0").unwrap().remote(4420).unwrap_err();
    assert!(matches!(zero, AddressError::PortZero(_)), "{zero}");
    // A listener takes a free one.
    assert_eq!(address.local(0).unwrap()[0].port(), 0);
    assert_eq!(written("127.0.0.1:1").unwrap().local(0).unwrap()[0].port(), 1);
}

#[test]
fn link_local_addresses_need_an_interface() {
    let bare = written("fe80::1").unwrap();
    for refused in [bare.remote(1).unwrap_err(), bare.local(1).unwrap_err()] {
        assert!(refused.to_string().contains("fe80::1%eth0"), "{refused}");
    }
    let interface = InterfaceName::new(LOOPBACK).unwrap();
    let scoped = bare.on(Some(interface));
    assert_eq!(NetAddress::from(scoped.remote(1).unwrap()[0]).to_string(), "[fe80::1%lo]:1");
    let other = written("::1").unwrap().on(Some(interface));
    assert_eq!(other.to_string(), "::1");
}

#[test]
fn records_of_a_discovery_log_are_on_the_link_that_it_came_over() {
    let reached = written("[fe80::2%lo]:8009").unwrap().remote(1).unwrap()[0];
    let at = |traddr, trsvcid| HostAddress::of_record(traddr, trsvcid, reached).map(NetAddress::from);
    assert_eq!(at("fe80::1", "4420").unwrap().to_string(), "[fe80::1%lo]:4420");
    assert_eq!(at("10.0.0.1", "4420").unwrap().to_string(), "10.0.0.1:4420");
    assert_eq!(at("2001:db8::1", "1").unwrap().to_string(), "[2001:db8::1]:1");
    let elsewhere = "10.0.0.1:8009".parse().unwrap();
    let refused = HostAddress::of_record("fe80::1", "4420", elsewhere).unwrap_err();
    assert!(matches!(refused, AddressError::NoInterface(_)), "{refused}");
}

#[test]
fn names_have_all_their_addresses() {
    let found = written("localhost:7").unwrap().remote(1).unwrap();
    assert!(!found.is_empty() && found.iter().all(|at| at.ip().is_loopback() && at.port() == 7), "{found:?}");
    let own = written("localhost").unwrap().local(7).unwrap();
    assert!(own.iter().all(|at| at.ip().is_loopback() && at.port() == 7), "{own:?}");
    let missing = written("no-such-name.invalid").unwrap().remote(1).unwrap_err().to_string();
    assert!(missing.contains("neither an IP address nor a name that can be looked up"), "{missing}");
}

#[test]
fn addresses_fit_whatever_one_of_them_leaves_open() {
    let address = |text: &str| text.parse::<NetAddress>().unwrap();
    for (one, other, fits) in [
        ("10.0.0.1:1", "[::ffff:10.0.0.1]:1", true),
        ("10.0.0.1:1", "10.0.0.1:0", true),
        ("10.0.0.1:1", "10.0.0.1:2", false),
        ("[fe80::1%a]:1", "[fe80::1]:1", true),
        ("[fe80::1%a]:1", "[fe80::1%b]:1", false),
    ] {
        assert_eq!(address(one).fits(&address(other)), fits, "{one} {other}");
        assert_eq!(address(other).fits(&address(one)), fits, "{other} {one}");
    }
}
