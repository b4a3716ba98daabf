//! Wrong tokens and silent connections: neither keeps an administrator out.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use prerequisite::{missing, patience, run};
use rustix::net::{AddressFamily, SocketType};

use super::super::access::{Access, Peer};
use super::super::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_PARTY_MAX};
use super::{House, ask, begin, finish, send, token};

#[test]
fn a_right_token_is_taken_however_many_wrong_ones_come_from_its_address() {
    let house = House::with_tokens("");
    let address = house.controls[0].endpoint().socket_address().unwrap();
    // As many at a time as leave one address a place.
    for _ in 0..3 {
        let begin = |guess| begin(address, "GET", "/v1/log", Some(&format!("selvedge_guess_{guess}")), "");
        let guesses: Vec<TcpStream> = (0..CONNECTIONS_PER_PARTY_MAX - 1).map(begin).collect();
        assert_eq!(ask(address, "GET", "/v1/log", Some(&token("read")), "").status, 200);
        let refused = guesses.into_iter().map(|guess| finish(guess).status);
        assert!(refused.into_iter().all(|status| status == 401));
    }
}

/// Mark of a test that runs in the namespace that it made.
const INSIDE: &str = "SELVEDGE_TEST_IN_NAMESPACE";
/// Addresses there, each of them a party. All loopback addresses are one.
const PARTIES: [Ipv4Addr; 4] = [
    Ipv4Addr::new(198, 51, 100, 1),
    Ipv4Addr::new(198, 51, 100, 2),
    Ipv4Addr::new(198, 51, 100, 3),
    Ipv4Addr::new(198, 51, 100, 4),
];

/// Runs a test of this module in a network namespace whose loopback interface has the addresses of several parties. True inside
/// of it.
fn is_in_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("ip", &["link", "set", "lo", "up"]).unwrap();
        for party in PARTIES {
            run("ip", &["address", "add", &format!("{party}/32"), "dev", "lo"]).unwrap();
        }
        return true;
    }
    if let Err(reason) = run("unshare", &["--net", "--", "ip", "link", "set", "lo", "up"]) {
        missing(format!("a network namespace: {reason}"));
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(std::env::current_exe().unwrap());
    let name = format!("control::access_tests::guesses::{test}");
    let output = command.args(["--exact", &name]).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Connects from an address.
fn connect(address: SocketAddr, from: Ipv4Addr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(patience())).unwrap();
    stream
}

#[test]
fn silent_connections_of_some_addresses_keep_no_administrator_out() {
    if !is_in_namespace("silent_connections_of_some_addresses_keep_no_administrator_out") {
        return;
    }
    let house = House::with_tokens("");
    let address = house.controls[0].endpoint().socket_address().unwrap();
    let [other, crowd @ ..] = PARTIES;
    let silent: Vec<TcpStream> =
        (0..3 * CONNECTIONS_PER_PARTY_MAX).map(|at| connect(address, crowd[at % 3])).collect();
    for from in [other, crowd[0], crowd[1]] {
        let mut stream = connect(address, from);
        send(&mut stream, "GET", "/v1/log", Some(&token("read")), "");
        assert_eq!(finish(stream).status, 200, "from {from}");
    }
    drop(silent);
}

#[test]
fn callers_of_the_least_role_whose_requests_do_not_end_keep_no_administrator_out() {
    if !is_in_namespace("callers_of_the_least_role_whose_requests_do_not_end_keep_no_administrator_out") {
        return;
    }
    let house = House::with_tokens("");
    let address = house.controls[0].endpoint().socket_address().unwrap();
    let token_of_metrics = token("metrics");
    let [other, crowd @ ..] = PARTIES;
    let unfinished: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|at| {
            let mut stream = connect(address, crowd[at % 2]);
            let head = format!(
                "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of_metrics}\r\n\
                 Content-Length: 1\r\nExpect: 100-continue\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // The server knows the caller, and waits for the body.
            let mut response = [0; 12];
            stream.read_exact(&mut response).unwrap();
            assert_eq!(&response, b"HTTP/1.1 100");
            stream
        })
        .collect();
    for from in [other, crowd[0]] {
        let mut stream = connect(address, from);
        send(&mut stream, "GET", "/v1/log", Some(&token("admin")), "");
        assert_eq!(finish(stream).status, 200, "from {from}");
    }
    drop(unfinished);
}

#[test]
fn refusals_of_one_address_leave_the_later_the_more_there_are() {
    let access = Access::new(None, None).unwrap();
    let peer = |last| Peer::Remote { address: ([10, 0, 0, last], 1).into(), certificate: None };
    let delay_ms = |last| access.count_refusal(&peer(last)).0.as_millis();
    let delays: Vec<u128> = (0..7).map(|_| delay_ms(1)).collect();
    assert_eq!(delays, [100, 200, 400, 800, 1600, 2000, 2000]);
    assert_eq!(delay_ms(2), 100, "another address has its own");
    let local = Peer::Local { uid: 7, pid: None };
    assert_eq!(access.count_refusal(&local).0, Duration::ZERO);
}
