//! Checks requests that a browser sends for a foreign page. A tunnel to the Unix socket, or a
//! certificate in the browser, identifies the user and not the page: a foreign page must not change
//! a target, nor look at it.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{ACCEPT_LANGUAGE, HOST, HeaderName, ORIGIN};

use super::access::Peer;
use super::refusal::Refusal;

/// Header in which a browser names the relation of page and server (Fetch Metadata Request Headers,
/// section 2.3).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests of pages other than the server's own, for every user. `has_tokens` is true if remote users have to
/// show a token or a certificate.
pub(super) fn check(headers: &HeaderMap, peer: Option<&Peer>, has_tokens: bool) -> Result<(), Refusal> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let (site, origin, host) = (text(&SITE), text(&ORIGIN), text(&HOST).unwrap_or_default());
    let (is_named_by_address, is_near) = match peer {
        Some(Peer::Local { .. }) => (true, true),
        Some(Peer::Remote { address, .. }) => {
            (!has_tokens, !has_tokens && address.ip().to_canonical().is_loopback())
        }
        Some(Peer::Process) | None => (false, false),
    };
    // Without TLS, a page of such a name sends neither header with a GET, but every browser sends its languages.
    let is_browser = site.is_some() || origin.is_some() || (is_near && headers.contains_key(ACCEPT_LANGUAGE));
    if !is_browser {
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
    let is_here = !is_named_by_address || is_of_this_machine(host);
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

    fn remote(address: [u8; 4]) -> Peer {
        Peer::Remote { address: (address, 9).into(), certificate: None }
    }

    fn judge(lines: &[(&'static str, &'static str)], peer: &Peer) -> bool {
        judge_with(lines, peer, true)
    }

    fn judge_with(lines: &[(&'static str, &'static str)], peer: &Peer, has_tokens: bool) -> bool {
        let pairs = lines.iter().map(|(name, value)| {
            (HeaderName::from_static(name), value.parse().unwrap_or_else(|_| panic!("{value}")))
        });
        check(&pairs.collect(), Some(peer), has_tokens).is_ok()
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
        assert!(ask("target.example:4421", &remote([192, 0, 2, 1])), "who has a token has it for this name");
    }

    #[test]
    fn a_name_is_not_this_server_where_no_token_is_asked_for() {
        let (near, far) = (remote([127, 0, 0, 1]), remote([192, 0, 2, 1]));
        for peer in [&near, &far] {
            for (host, is_ours) in
                [("127.0.0.1:9465", true), ("localhost:9465", true), ("evil.example", false)]
            {
                let lines = [("host", host), ("sec-fetch-site", "same-origin")];
                assert_eq!(judge_with(&lines, peer, false), is_ours, "{host} by {peer}");
            }
            let lines = [("host", "evil.example"), ("origin", "http://evil.example")];
            assert!(!judge_with(&lines, peer, false), "{peer}");
        }
        let clear = |host, peer: &Peer, has_tokens| {
            judge_with(&[("host", host), ("accept-language", "en")], peer, has_tokens)
        };
        assert!(!clear("evil.example:9465", &near, false) && !clear("evil.example:9465", &LOCAL, true));
        assert!(clear("localhost:9465", &near, false) && clear("127.0.0.1:9465", &near, false));
        assert!(clear("storage-1:9464", &far, false), "every client of that network may read them");
        assert!(clear("target.example:4421", &near, true), "it has no token");
    }
}
