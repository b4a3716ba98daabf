//! Checks requests that a browser sends for a foreign page. A tunnel to the Unix socket, or a
//! certificate in the browser, identifies the user and not the page: a foreign page must not change
//! a target, nor look at it.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, ORIGIN};

use super::access::Peer;
use super::refusal::Refusal;

/// Header in which a browser names the relation of page and server (Fetch Metadata Request Headers,
/// section 2.3).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests of pages other than the server's own, for every user.
pub(super) fn check(headers: &HeaderMap, peer: Option<&Peer>) -> Result<(), Refusal> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let (site, origin, host) = (text(&SITE), text(&ORIGIN), text(&HOST).unwrap_or_default());
    if site.is_none() && origin.is_none() {
        // Not a browser, which other programs may pretend to be or not.
        return Ok(());
    }
    let is_own = match (site, origin) {
        // An address that the user types has no page.
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host))
        }
        (None, None) => true,
    };
    // By a name of its own that it lets lead here, a page seems to be this server's. A token it would not have.
    let is_here = !matches!(peer, Some(Peer::Local { .. })) || is_of_this_machine(host);
    if is_own && is_here {
        return Ok(());
    }
    Err(Refusal::new(403, "a page of another site asks for this")
        .hint("open /console by the address of this server, and through a tunnel by localhost"))
}

/// True if a `Host` header is an address, or "localhost".
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Peer = Peer::Local { uid: 0, pid: None };

    fn judge(lines: &[(&'static str, &'static str)], peer: &Peer) -> bool {
        let pairs = lines.iter().map(|(name, value)| {
            (HeaderName::from_static(name), value.parse().unwrap_or_else(|_| panic!("{value}")))
        });
        check(&pairs.collect(), Some(peer)).is_ok()
    }

    #[test]
    fn programs_that_are_no_browsers_ask_as_ever() {
        for host in ["x", "localhost", "target.example", ""] {
            assert!(judge(&[("host", host)], &LOCAL), "{host}");
        }
    }

    #[test]
    fn only_the_servers_own_page_may_ask() {
        for (site, is_own) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            assert_eq!(
                judge(&[("host", "localhost:8080"), ("sec-fetch-site", site)], &LOCAL),
                is_own,
                "{site}"
            );
        }
        let origin = |origin| judge(&[("host", "localhost:8080"), ("origin", origin)], &LOCAL);
        assert!(origin("http://localhost:8080") && origin("http://LOCALHOST:8080"));
        for other in [
            "http://localhost:8081",
            "https://evil.example",
            "null",
            "",
            "http://localhost:8080.evil.example",
        ] {
            assert!(!origin(other), "{other}");
        }
    }

    #[test]
    fn a_name_that_leads_here_is_not_this_server() {
        let ask = |host, peer: &Peer| judge(&[("host", host), ("sec-fetch-site", "same-origin")], peer);
        for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "192.0.2.1"] {
            assert!(ask(host, &LOCAL), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[evil]",
            "",
        ] {
            assert!(!ask(host, &LOCAL), "{host}");
        }
        let remote = Peer::Remote { address: ([192, 0, 2, 1], 9).into(), certificate: None };
        assert!(ask("target.example:4421", &remote), "who has a token has it for this name");
    }
}
