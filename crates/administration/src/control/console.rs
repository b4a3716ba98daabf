//! `/console`: a page that shows the target live. Every client of the server gets the page, which
//! has no data; its requests for data need a role like any others. The page loads nothing else, and
//! no script but its own runs.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};

use super::access::Peer;
use crate::{packet_path, version};

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PAGE_PATH: &str = "/console";

const ASSETS: &[Asset] = &[
    Asset { path: PAGE_PATH, kind: "text/html; charset=utf-8", text: include_str!("console/page.html") },
    Asset { path: "/console/console.css", kind: STYLE, text: include_str!("console/console.css") },
    // The colours of all pictures.
    Asset { path: "/console/chart.css", kind: STYLE, text: chart::svg::STYLE },
    Asset { path: "/console/courses.css", kind: STYLE, text: packet_path::STYLE },
    Asset { path: "/console/main.js", kind: SCRIPT, text: include_str!("console/main.js") },
    Asset { path: "/console/link.js", kind: SCRIPT, text: include_str!("console/link.js") },
    Asset { path: "/console/model.js", kind: SCRIPT, text: include_str!("console/model.js") },
    Asset { path: "/console/views.js", kind: SCRIPT, text: include_str!("console/views.js") },
    Asset { path: "/console/details.js", kind: SCRIPT, text: include_str!("console/details.js") },
    Asset { path: "/console/findings.js", kind: SCRIPT, text: include_str!("console/findings.js") },
    Asset { path: "/console/changes.js", kind: SCRIPT, text: include_str!("console/changes.js") },
    Asset { path: "/console/sweeps.js", kind: SCRIPT, text: include_str!("console/sweeps.js") },
    Asset { path: "/console/audit.js", kind: SCRIPT, text: include_str!("console/audit.js") },
    Asset { path: "/console/chart.js", kind: SCRIPT, text: include_str!("console/chart.js") },
    Asset { path: "/console/timeline.js", kind: SCRIPT, text: include_str!("console/timeline.js") },
    Asset { path: "/console/topology.js", kind: SCRIPT, text: include_str!("console/topology.js") },
    Asset { path: "/console/table.js", kind: SCRIPT, text: include_str!("console/table.js") },
    Asset { path: "/console/text.js", kind: SCRIPT, text: include_str!("console/text.js") },
];

/// Scripts and styles are files of this server, requests go to it alone, no page can embed this
/// one, and no text becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Adds the page to the router. It is served without authentication.
pub(super) fn beside(router: Router) -> Router {
    let serve = |router: Router, asset: &'static Asset| {
        router.route(asset.path, any(move |request: Request| async move { answer(asset, &request) }))
    };
    ASSETS.iter().fold(router, serve)
}

fn answer(asset: &Asset, request: &Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let text = if is_read { text_of(asset, request.extensions().get::<Peer>()) } else { String::new() };
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    let fixed = [
        (CONTENT_TYPE, asset.kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // A page of another version would not know this one's answers.
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !is_read {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    }
    response
}

/// The page knows if its reader has to show a token, since a request without one would count as a
/// failed login.
fn text_of(asset: &Asset, peer: Option<&Peer>) -> String {
    if asset.path != PAGE_PATH {
        return asset.text.to_owned();
    }
    let identity = match peer {
        Some(Peer::Remote { certificate: None, .. }) | None => "token",
        Some(Peer::Remote { .. } | Peer::Local { .. } | Peer::Process) => "connection",
    };
    asset.text.replacen("IDENTITY", identity, 1).replacen("VERSION", version::NUMBER, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size limit of the whole page.
    const BYTES_MAX: usize = 200 << 10;

    fn peer() -> Peer {
        Peer::Remote { address: ([192, 0, 2, 1], 9).into(), certificate: None }
    }

    #[test]
    fn the_page_is_small_and_its_own() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes} bytes");
        for asset in ASSETS {
            let elsewhere = asset.text.replace("http://www.w3.org/2000/svg", "");
            for scheme in ["http:", "https:", "ws:", "wss:", "@import", "url("] {
                assert!(!elsewhere.contains(scheme), "{}: {scheme}", asset.path);
            }
            for markup in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
            {
                assert!(!asset.text.contains(markup), "{}: {markup}", asset.path);
            }
        }
    }

    #[test]
    fn every_file_that_is_named_is_there() {
        let named = |text: &str, before: &str| -> Vec<String> {
            let rest = text.split(before).skip(1);
            rest.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
        };
        for asset in ASSETS {
            let absolute = named(asset.text, "=\"/console/").into_iter();
            for name in absolute.chain(named(asset.text, "from \"./")) {
                let path = format!("/console/{name}");
                assert!(ASSETS.iter().any(|asset| asset.path == path), "{} names {path}", asset.path);
            }
        }
    }

    #[test]
    fn every_answer_is_guarded_and_only_read() {
        for asset in ASSETS {
            let ask = |method: Method| {
                let mut request = Request::new(Body::empty());
                *request.method_mut() = method;
                request.extensions_mut().insert(peer());
                answer(asset, &request)
            };
            let response = ask(Method::GET);
            assert_eq!(response.status(), StatusCode::OK);
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(ask(Method::POST).status(), StatusCode::METHOD_NOT_ALLOWED);
        }
    }

    #[test]
    fn the_page_knows_who_has_to_show_a_token() {
        let page = |peer: &Peer| text_of(&ASSETS[0], Some(peer));
        assert!(page(&peer()).contains("data-identity=\"token\""));
        let local = page(&Peer::Local { uid: 0, pid: None });
        assert!(local.contains("data-identity=\"connection\""));
        assert!(local.contains(&format!("data-version=\"{}\"", version::NUMBER)));
    }
}
