//! Callers and their connections: which keep their places, and what a caller without rights causes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::{Extension, Router};
use ceph_nvmeof::{ListSubsystemsReq, Message as _};
use engine::target::{FabricConfig, PortConfig};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::service::Service as _;
use hyper::{Request, Version};
use hyper_util::service::TowerToHyperService;
use prerequisite::patience;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::super::access::{Access, Peer};
use super::super::administration::Administration;
use super::super::catch_up::CatchUp;
use super::super::connection_limiter::Identified;
use super::super::limits::{SLOW_BELOW_ADMIN_MAX, THREADS_MAX};
use super::super::{Token, routes, test_target};
use super::native::Native;
use super::tests::{HOST, SERVED, add_host, framed};

/// A target that knows one token, and its API.
struct Testbed {
    administration: Arc<Administration>,
    native: Router,
    catch_up: CatchUp,
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
        Self::with(access, token, CatchUp::new(|| {}))
    }

    /// The same for callers with these rights, and with this step before changes.
    fn with(access: Access, token: Token, catch_up: CatchUp) -> Self {
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
        let runtime =
            Builder::new_current_thread().enable_time().max_blocking_threads(THREADS_MAX).build().unwrap();
        Self { administration, native, catch_up, token, requests, runtime }
    }

    /// State with which a call is made.
    fn native(&self, token: Option<&Token>) -> Native {
        Native {
            router: self.native.clone(),
            administration: self.administration.clone(),
            catch_up: self.catch_up.clone(),
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

/// Access of a reader, an operator and an administrator, with their tokens.
fn access_of_roles(folder: &Path) -> (Access, [Token; 3]) {
    let tokens = ["read", "operate", "admin"].map(|role| (role, Token::random()));
    let entry = |(role, token): &(&str, Token)| {
        let subsystems =
            if *role == "operate" { format!("subsystems = [\"{SERVED}\"]\n") } else { String::new() };
        let sha256 = token.fingerprint();
        format!("[[token]]\nname = \"{role}\"\nrole = \"{role}\"\nsha256 = \"{sha256}\"\n{subsystems}")
    };
    let path = folder.join("access.toml");
    std::fs::write(&path, tokens.iter().map(entry).collect::<String>()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let access = Access::new(Some(&path), None).unwrap_or_else(|failure| panic!("{failure:?}"));
    (access, tokens.map(|(_, token)| token))
}

async fn in_time<T>(awaited: impl Future<Output = T>) -> T {
    timeout(patience(), awaited).await.expect("an end of the wait")
}

#[test]
fn callers_with_fewer_rights_leave_threads_to_an_administrator_while_the_cluster_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let (access, [reader, operator, admin]) = access_of_roles(folder.path());
    let silence = Arc::new(RwLock::new(()));
    let (asks, mut asked) = unbounded_channel();
    let catch_up = CatchUp::new({
        let silence = silence.clone();
        move || {
            let _ = asks.send(());
            drop(silence.read());
        }
    });
    let testbed = Testbed::with(access, admin.clone(), catch_up);
    // Given up before the runtime, whose end waits for its threads.
    let silent = silence.write().unwrap();
    testbed.runtime.block_on(async {
        let begin = |token: &Token| {
            let mut native = testbed.native(Some(token));
            tokio::spawn(async move { native.begin_change().await })
        };
        // A reader changes nothing, and has no cluster asked.
        for call in (0..2 * THREADS_MAX).map(|_| begin(&reader)).collect::<Vec<_>>() {
            assert!(in_time(call).await.unwrap());
        }
        assert!(asked.try_recv().is_err());
        let _waiting: Vec<_> = (0..2 * THREADS_MAX).map(|_| begin(&operator)).collect();
        for _ in 0..SLOW_BELOW_ADMIN_MAX {
            in_time(asked.recv()).await.unwrap();
        }
        for _ in 0..2 * THREADS_MAX {
            let list = super::subsystems::list(testbed.native(Some(&admin)), ListSubsystemsReq::default());
            assert!(in_time(list).await.is_ok());
        }
        assert!(asked.try_recv().is_err(), "more operators than have places");
        let _change = begin(&admin);
        in_time(asked.recv()).await.unwrap();
    });
    drop(silent);
}
