//! Callers and their connections: which keep their places, and what a caller without rights causes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::{Extension, Router};
use ceph_nvmeof::{ListSubsystemsReq, Message as _};
use engine::target::{FabricConfig, PortConfig};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::service::Service as _;
use hyper::{Request, Version};
use hyper_util::service::TowerToHyperService;
use tokio::runtime::{Builder, Runtime};

use super::super::access::{Access, Peer};
use super::super::administration::Administration;
use super::super::connection_limiter::Identified;
use super::super::{Token, routes, test_target};
use super::native::Native;
use super::tests::{HOST, SERVED, add_host, framed};

/// A target that knows one token, and its API.
struct Testbed {
    administration: Arc<Administration>,
    native: Router,
    token: Token,
    /// Number of requests to the control API.
    requests: Arc<AtomicUsize>,
    runtime: Runtime,
}

fn peer() -> Peer {
    Peer::Remote { address: ([192, 0, 2, 1], 7).into(), certificate: None }
}

impl Testbed {
    fn new() -> Self {
        let token = Token::random();
        let access = Access::new(None, Some(&token)).unwrap_or_else(|failure| panic!("{failure:?}"));
        let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())];
        let fabric = FabricConfig { ports, ..FabricConfig::default() };
        let administration = Arc::new(Administration::new(test_target::start(fabric), None).unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let native = routes::router(administration.clone(), Arc::new(access));
        let native = native.layer(from_fn(move |request: axum::extract::Request, next: Next| {
            counted.fetch_add(1, Ordering::Relaxed);
            next.run(request)
        }));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        Self { administration, native, token, requests, runtime }
    }

    /// State with which a call is made.
    fn native(&self, token: Option<&Token>) -> Native {
        Native {
            router: self.native.clone(),
            administration: self.administration.clone(),
            peer: Some(peer()),
            authorization: token.map(|token| HeaderValue::from_str(&token.header()).unwrap()),
            identified: None,
            refusal: None,
            service: 5500,
        }
    }

    /// Makes a call. True if its connection keeps its place beside others.
    fn is_identified_by(&self, token: Option<&Token>) -> bool {
        let identified = Identified::default();
        let router = super::router(self.native.clone(), self.administration.clone(), 5500)
            .layer(Extension(peer()))
            .layer(Extension(identified.clone()));
        let mut request = Request::builder()
            .method("POST")
            .version(Version::HTTP_2)
            .uri("/Gateway/list_subsystems")
            .header(CONTENT_TYPE, "application/grpc");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let message = framed(&ListSubsystemsReq::default().encode_to_vec());
        let request = request.body(Body::from(message)).unwrap();
        let response = self.runtime.block_on(TowerToHyperService::new(router).call(request)).unwrap();
        assert_eq!(response.status(), 200);
        identified.is_set()
    }
}

#[test]
fn a_connection_keeps_its_place_once_a_call_has_shown_its_caller() {
    let (testbed, wrong) = (Testbed::new(), Token::random());
    assert!(testbed.is_identified_by(Some(&testbed.token)));
    assert!(!testbed.is_identified_by(None) && !testbed.is_identified_by(Some(&wrong)));
}

#[test]
fn a_call_by_a_stranger_has_no_cluster_asked_and_is_refused_once() {
    let (testbed, wrong) = (Testbed::new(), Token::random());
    for (token, may_begin) in [(Some(&testbed.token), true), (None, false), (Some(&wrong), false)] {
        let mut native = testbed.native(token);
        testbed.runtime.block_on(async {
            assert_eq!(native.begin_change().await, may_begin);
            let begun = testbed.requests.load(Ordering::Relaxed);
            let added = super::hosts::add(native, add_host(SERVED, HOST)).await;
            assert_eq!(added.unwrap_err().errno, if may_begin { libc::ENOENT } else { libc::EACCES });
            let is_asked = testbed.requests.load(Ordering::Relaxed) > begun;
            assert_eq!(is_asked, may_begin, "a refusal that is known is counted and delayed once");
        });
    }
}
