//! Callers and their connections: which keep their places, and what a caller without rights causes.

use std::sync::Arc;

use axum::body::Body;
use axum::{Extension, Router};
use ceph_nvmeof::{ListSubsystemsReq, Message as _};
use engine::target::{FabricConfig, PortConfig};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::Service as _;
use hyper::{Request, Version};
use hyper_util::service::TowerToHyperService;
use tokio::runtime::{Builder, Runtime};

use super::super::access::{Access, Peer};
use super::super::administration::Administration;
use super::super::connection_limiter::Identified;
use super::super::{Token, routes, test_target};
use super::tests::framed;

/// A target that knows one token, and its API.
struct Testbed {
    administration: Arc<Administration>,
    native: Router,
    token: Token,
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
        let native = routes::router(administration.clone(), Arc::new(access));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        Self { administration, native, token, runtime }
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
