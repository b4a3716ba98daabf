//! `/metrics` of a process without a target. Its caller writes the text, and has checked the address.

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use axum::routing::get;
use hyper::header::CONTENT_TYPE;

use super::refusal::Refusal;
use super::{browser, routes};

/// Router of the metrics, which are for everybody but foreign pages in a browser.
pub(super) fn router(text: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let answer = move |request: Request| async move {
        match browser::check(request.headers(), request.extensions().get(), false) {
            Ok(()) => ([(CONTENT_TYPE, engine::target::CONTENT_TYPE)], text()).into_response(),
            Err(refusal) => routes::refuse(&refusal),
        }
    };
    let elsewhere = |request: Request| async move {
        let what = format!("there is nothing at {}", request.uri().path());
        routes::refuse(&Refusal::not_found(what).hint("GET /metrics has the metrics"))
    };
    Router::new().route("/metrics", get(answer)).fallback(elsewhere)
}
