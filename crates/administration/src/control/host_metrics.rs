//! `/metrics` of a process without a target. Its caller writes the text, and has checked the address.

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use axum::routing::get;
use hyper::header::CONTENT_TYPE;

use super::connection_limiter::Identified;
use super::refusal::Refusal;
use super::{browser, routes};

/// Router of the metrics, which are for everybody but foreign pages in a browser.
pub(super) fn router(text: impl Fn() -> Bytes + Clone + Send + Sync + 'static) -> Router {
    let answer = move |request: Request| async move {
        match browser::check(request.headers(), request.extensions().get(), false) {
            Ok(()) => {
                request.extensions().get::<Identified>().into_iter().for_each(Identified::set);
                ([(CONTENT_TYPE, engine::target::CONTENT_TYPE)], text()).into_response()
            }
            Err(refusal) => routes::refuse(&refusal),
        }
    };
    let elsewhere = |request: Request| async move {
        let what = format!("there is nothing at {}", request.uri().path());
        routes::refuse(&Refusal::not_found(what).hint("GET /metrics has the metrics"))
    };
    Router::new().route("/metrics", get(answer)).fallback(elsewhere)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use axum::Extension;
    use axum::body::Body;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use prerequisite::{patience, wait_until};
    use rustix::net::sockopt::set_socket_recv_buffer_size;
    use rustix::net::{AddressFamily, SocketType};
    use tokio::runtime::Builder;

    use super::super::access::Peer;
    use super::super::limits::UNREAD_BYTES_PER_PARTY_MAX;
    use super::super::server::Control;
    use super::*;

    /// Status of the response to a request with these headers, and true if its connection keeps its permit.
    fn ask(path: &str, headers: &[(&str, &str)]) -> (u16, bool) {
        let identified = Identified::default();
        let peer = Peer::Remote { address: ([127, 0, 0, 1], 9).into(), certificate: None };
        let router = router(|| Bytes::from_static(b"a 1\n"))
            .layer(Extension(peer))
            .layer(Extension(identified.clone()));
        let mut request = hyper::Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let response = runtime.block_on(TowerToHyperService::new(router).call(request)).expect("a response");
        (response.status().as_u16(), identified.is_set())
    }

    #[test]
    fn a_scrape_keeps_its_connection_and_a_foreign_page_gets_nothing() {
        assert_eq!(ask("/metrics", &[("host", "storage-1")]), (200, true));
        assert_eq!(ask("/v1/status", &[("host", "storage-1")]), (404, false));
        let page = ("sec-fetch-site", "same-origin");
        assert_eq!(ask("/metrics", &[("host", "evil.example"), page]), (403, false));
        assert_eq!(ask("/metrics", &[("host", "127.0.0.1:9465"), page]), (200, true));
    }

    #[test]
    fn the_listener_gives_a_page_of_a_foreign_name_nothing() {
        let text = || Bytes::from_static(b"a 1\n");
        let control = Control::start_host_metrics(([127, 0, 0, 1], 0).into(), text).expect("a listener");
        let address = control.endpoint().socket_address().expect("an address");
        // Browsers send the second alone to a name without TLS.
        for header in ["Sec-Fetch-Site: same-origin", "Accept-Language: en"] {
            for (host, expected) in [("evil.example", "403"), ("localhost", "200")] {
                let mut stream = TcpStream::connect(address).expect("a connection");
                stream.set_read_timeout(Some(patience())).expect("a time limit");
                let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n");
                stream.write_all(head.as_bytes()).expect("a request");
                let mut response = String::new();
                stream.read_to_string(&mut response).expect("a response");
                assert_eq!(response.split(' ').nth(1), Some(expected), "{host}, {header}");
            }
        }
    }

    /// Connects from a loopback address with this end, and asks for what is there; the connection,
    /// and the status of the response, of which no more is read.
    fn begin(address: SocketAddr, from: u8, path: &str) -> (TcpStream, String) {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        set_socket_recv_buffer_size(&socket, 4096).expect("a small buffer");
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, from], 0))).expect("an address");
        rustix::net::connect(&socket, &address).expect("a connection");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(patience())).expect("a time limit");
        let request = format!("GET {path} HTTP/1.1\r\nHost: storage-1\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("a response");
        let status = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
        (stream, status)
    }

    #[test]
    fn a_client_that_does_not_read_holds_its_own_share_and_no_more() {
        let text = Bytes::from(vec![b'#'; UNREAD_BYTES_PER_PARTY_MAX]);
        let control = Control::start_host_metrics(([127, 0, 0, 1], 0).into(), move || text.clone());
        let control = control.expect("a listener");
        let address = control.endpoint().socket_address().expect("an address");
        let scrape = |from| begin(address, from, "/metrics");
        let (slow, status) = scrape(1);
        assert_eq!(status, "200");
        assert_eq!(scrape(1).1, "503", "of the same address");
        assert_eq!(begin(address, 1, "/nothing").1, "404", "a small response");
        assert_eq!(scrape(2).1, "503", "another loopback address is the same party");
        drop(slow);
        wait_until("the memory is free", || scrape(1).1 == "200");
    }
}
