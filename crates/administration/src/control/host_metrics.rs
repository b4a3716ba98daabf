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
    use axum::Extension;
    use axum::body::Body;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::runtime::Builder;

    use super::super::access::Peer;
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
}
