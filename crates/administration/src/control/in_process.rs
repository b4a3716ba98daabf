//! The control API without a socket, for callers in this process. Requests and answers are the same
//! as over a socket, and the caller has the rights of the target's own user.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::{Extension, Router};
use engine::target::Target;
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::{Builder, Runtime};

use super::access::{Access, Peer};
use super::administration::Administration;
use super::limits::THREADS_MAX;
use super::routes;

/// The API of one target.
#[derive(Debug)]
pub struct InProcess {
    runtime: Runtime,
    service: TowerToHyperService<Router>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// The media type of the body, where there is one.
    pub kind: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl InProcess {
    /// The API of `target`, which keeps no state.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn new(target: Arc<Target>) -> io::Result<Self> {
        let administration = Arc::new(Administration::new(target, None)?);
        Self::of_peer(administration, Arc::new(Access::of_this_process()), Peer::Process)
    }

    /// The API as it is for this peer, with the rights that `access` gives it.
    pub(super) fn of_peer(
        administration: Arc<Administration>,
        access: Arc<Access>,
        peer: Peer,
    ) -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_time().max_blocking_threads(THREADS_MAX).build()?;
        let router = routes::router(administration, access);
        Ok(Self { runtime, service: TowerToHyperService::new(router.layer(Extension(peer))) })
    }

    /// Asks, and waits for the answer; `None` where the method or the path is none that HTTP knows.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> Option<Reply> {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_vec())).ok()?;
        self.runtime.block_on(async {
            let response = self.service.call(request).await.ok()?;
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let (status, kind) = (response.status().as_u16(), kind.map(str::to_owned));
            let body = response.into_body().collect().await.ok()?.to_bytes().to_vec();
            Some(Reply { status, kind, body })
        })
    }
}
