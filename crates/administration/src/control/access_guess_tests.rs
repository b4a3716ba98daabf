//! Wrong tokens and silent connections: neither keeps an administrator out.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use prerequisite::patience;
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

/// Connects from a loopback address with this end.
fn connect(address: SocketAddr, from: u8) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(patience())).unwrap();
    stream
}

#[test]
fn silent_connections_of_some_addresses_keep_no_administrator_out() {
    let house = House::with_tokens("");
    let address = house.controls[0].endpoint().socket_address().unwrap();
    let silent: Vec<TcpStream> =
        (0..3 * CONNECTIONS_PER_PARTY_MAX).map(|at| connect(address, 2 + (at % 3) as u8)).collect();
    for from in [1, 2, 3] {
        let mut stream = connect(address, from);
        send(&mut stream, "GET", "/v1/log", Some(&token("read")), "");
        assert_eq!(finish(stream).status, 200, "from address {from}");
    }
    drop(silent);
}

#[test]
fn callers_of_the_least_role_whose_requests_do_not_end_keep_no_administrator_out() {
    let house = House::with_tokens("");
    let address = house.controls[0].endpoint().socket_address().unwrap();
    let token_of_metrics = token("metrics");
    let unfinished: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|at| {
            let mut stream = connect(address, 2 + (at % 2) as u8);
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
    for from in [1, 2] {
        let mut stream = connect(address, from);
        send(&mut stream, "GET", "/v1/log", Some(&token("admin")), "");
        assert_eq!(finish(stream).status, 200, "from address {from}");
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
