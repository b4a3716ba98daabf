//! The server of the control API: one thread that takes connections and requests apart, within limits, and a few that
//! do what they ask. A slow or silent client costs its own connection only.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use axum::{Extension, Router};
use engine::ring::now;
use engine::seldom::Seldom;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::access::{Access, Identity, Peer};
use super::administration::Administration;
use super::audit::Event;
use super::ceph_nvmeof;
use super::connection_limiter::{ConnectionLimiter, ConnectionPermit, Costs, Party};
use super::host_metrics;
use super::limits::{
    CALLER_IDLE_MAX, CALLER_PING_INTERVAL, CALLER_PING_TIMEOUT, CALLS_PER_CONNECTION_MAX, HANDSHAKE_TIMEOUT,
    HEAD_BYTES_MAX, HEAD_TIMEOUT, HOST_METRICS_SHUTDOWN_TIMEOUT, SHUTDOWN_LOOK, SHUTDOWN_TIMEOUT,
    THREADS_MAX, UNREAD_BYTES_FREE,
};
use super::live::viewer::Ending;
use super::refusal::Refusal;
use super::routes;
use super::socket::{Listening, SocketFile};
use super::text_pieces::Held;
use super::tls::{self, ServerTls};
use crate::failure::Failure;
use crate::spec::endpoint::Endpoint;

/// The running server. Dropping it stops it.
#[derive(Debug)]
pub struct Control {
    endpoint: Endpoint,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Administration of the target; `None` for metrics of a host.
    administration: Option<Arc<Administration>>,
}

impl Control {
    /// Serves `administration` there, to those that `access` knows.
    pub fn start(
        listening: Listening,
        access: Arc<Access>,
        tls: Option<Arc<ServerTls>>,
        administration: Arc<Administration>,
    ) -> Result<Self, Failure> {
        let router = routes::router(administration.clone(), access);
        Self::serve(listening, tls, Spoken::Http1(router), Costs::REQUESTS, Some(administration))
    }

    /// Serves the metrics alone: to everybody who reaches the address, or to those that `access` knows.
    pub fn start_metrics(
        endpoint: &Endpoint,
        access: Option<Arc<Access>>,
        tls: Option<Arc<ServerTls>>,
        administration: Arc<Administration>,
    ) -> Result<Self, Failure> {
        let address = endpoint.socket_address().ok_or_else(|| {
            Failure::usage(format!("--metrics: {endpoint} is not ADDR:PORT or tls:ADDR:PORT"))
        })?;
        let listening = listen_for_metrics(address)?;
        let router = routes::metrics_router(administration.clone(), access);
        Self::serve(listening, tls, Spoken::Http1(router), Costs::SCRAPES, Some(administration))
    }

    /// Serves the metrics of a host, which `text` returns for each request, to everybody who reaches
    /// the address.
    pub fn start_host_metrics(
        address: SocketAddr,
        text: impl Fn() -> Bytes + Clone + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let listening = listen_for_metrics(address)?;
        Self::serve(listening, None, Spoken::Http1(host_metrics::router(text)), Costs::SCRAPES, None)
    }

    /// Serves ceph-nvmeof's calls there, to those that `access` knows.
    pub(crate) fn start_ceph_nvmeof(
        endpoint: &Endpoint,
        access: Arc<Access>,
        tls: Option<Arc<ServerTls>>,
        administration: Arc<Administration>,
    ) -> Result<Self, Failure> {
        let address = endpoint.socket_address().ok_or_else(|| {
            Failure::usage(format!("--ceph-nvmeof-api: {endpoint} is not ADDR:PORT or tls:ADDR:PORT"))
        })?;
        let failed = |error| {
            Failure::failed(format!(
                "cannot listen on {address} for ceph-nvmeof's calls: {error}; choose another with --ceph-nvmeof-api"
            ))
        };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        let service = listener.local_addr().map_err(failed)?.port();
        let native = routes::router(administration.clone(), access);
        let router = ceph_nvmeof::router(native, administration.clone(), service);
        let spoken = Spoken::Grpc(router);
        Self::serve(Listening::Tcp(listener), tls, spoken, Costs::REQUESTS, Some(administration))
    }

    fn serve(
        listening: Listening,
        tls: Option<Arc<ServerTls>>,
        spoken: Spoken,
        costs: Costs,
        administration: Option<Arc<Administration>>,
    ) -> Result<Self, Failure> {
        let endpoint = match (listening.endpoint(), &tls) {
            (Endpoint::Tcp(address), Some(_)) => {
                Endpoint::Tls { host: address.host(), port: address.port().unwrap_or_default() }
            }
            (endpoint, _) => endpoint,
        };
        let failed = |error: io::Error| Failure::failed(format!("the control API cannot start: {error}"));
        let mut runtime = Builder::new_current_thread();
        runtime.enable_io().enable_time().max_blocking_threads(THREADS_MAX).thread_name("control-work");
        let runtime = runtime.build().map_err(failed)?;
        let acceptor = {
            let _inside = runtime.enter();
            let tls = tls.zip(administration.clone());
            Acceptor::new(listening, tls).map_err(failed)?
        };
        let patience = match administration {
            Some(_) => SHUTDOWN_TIMEOUT,
            None => HOST_METRICS_SHUTDOWN_TIMEOUT,
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(runtime, acceptor, spoken, costs, (stopped, patience)))
            .map_err(failed)?;
        Ok(Self { endpoint, stop: Some(stop), thread: Some(thread), administration })
    }

    /// Address of the listener.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What a panic there had to say stands in its own message.
            let _ = thread.join();
        }
        // The viewers of this listener are gone, and a target that ends needs no sampling.
        if let Some(administration) = &self.administration {
            administration.live().rest();
        }
    }
}

fn listen_for_metrics(address: SocketAddr) -> Result<Listening, Failure> {
    let listener = std::net::TcpListener::bind(address).map_err(|error| {
        Failure::failed(format!(
            "cannot listen on {address} for metrics: {error}; choose another with --metrics"
        ))
    })?;
    Ok(Listening::Tcp(listener))
}

/// Protocol of a connection, with its router.
#[derive(Clone)]
enum Spoken {
    /// HTTP/1.1: one request for each connection.
    Http1(Router),
    /// gRPC: calls until the client is idle.
    Grpc(Router),
}

impl Spoken {
    fn with(self, change: impl FnOnce(Router) -> Router) -> Self {
        match self {
            Self::Http1(router) => Self::Http1(change(router)),
            Self::Grpc(router) => Self::Grpc(change(router)),
        }
    }
}

/// A listener of either kind.
enum Acceptor {
    /// The file is there as long as the listener is.
    Unix { listener: UnixListener, _file: SocketFile },
    Tcp {
        listener: TcpListener,
        /// Certificates, and who records those that are refused.
        tls: Option<(Arc<ServerTls>, Arc<Administration>)>,
    },
}

impl Acceptor {
    fn new(listening: Listening, tls: Option<(Arc<ServerTls>, Arc<Administration>)>) -> io::Result<Self> {
        match listening {
            Listening::Unix { listener, file } => {
                listener.set_nonblocking(true)?;
                Ok(Self::Unix { listener: UnixListener::from_std(listener)?, _file: file })
            }
            Listening::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp { listener: TcpListener::from_std(listener)?, tls })
            }
        }
    }

    /// Takes one connection and serves it beside the others.
    async fn accept(&self, spoken: &Spoken, ending: &Ending, limiter: &ConnectionLimiter) -> io::Result<()> {
        let spoken = (spoken.clone(), ending.clone());
        match self {
            Self::Unix { listener, .. } => {
                let stream = listener.accept().await?.0;
                let credentials = stream.peer_cred()?;
                let peer = Peer::Local { uid: credentials.uid(), pid: credentials.pid() };
                let Some(permit) = limiter.enter(Party::User(credentials.uid())) else { return Ok(()) };
                let serial = permit.serial();
                let task = tokio::spawn(serve_connection(stream, peer, spoken, permit));
                limiter.watch(serial, task.abort_handle());
            }
            Self::Tcp { listener, tls } => {
                let (stream, address) = listener.accept().await?;
                // An answer in several parts must not wait for the other end to confirm the first.
                let _ = stream.set_nodelay(true);
                let Some(permit) = limiter.enter(Party::of(address)) else { return Ok(()) };
                let (serial, tls) = (permit.serial(), tls.clone());
                let task = tokio::spawn(async move {
                    match tls {
                        Some((tls, administration)) => {
                            serve_tls(stream, address, &tls, spoken, administration, permit).await;
                        }
                        None => {
                            let peer = Peer::Remote { address, certificate: None };
                            serve_connection(stream, peer, spoken, permit).await;
                        }
                    }
                });
                limiter.watch(serial, task.abort_handle());
            }
        }
        Ok(())
    }
}

/// Serves until `stopped` ends; requests under way have this time.
fn serve(
    runtime: Runtime,
    acceptor: Acceptor,
    spoken: Spoken,
    costs: Costs,
    (stopped, patience): (oneshot::Receiver<()>, Duration),
) {
    runtime.block_on(async move {
        let limiter = ConnectionLimiter::new(costs);
        let (end, ending) = watch::channel(());
        let accepting = tokio::spawn({
            let (limiter, unaccepted) = (limiter.clone(), Seldom::default());
            async move {
                loop {
                    if let Err(error) = acceptor.accept(&spoken, &Ending(ending.clone()), &limiter).await {
                        if let Some(times) = unaccepted.count_to_log(now()) {
                            tracing::warn!(%error, times, "the control API cannot accept a connection; retrying");
                        }
                        // There may be no descriptor free; asking at once again would not make one.
                        sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        // The sender says nothing: it goes.
        let _ = stopped.await;
        // Answers that go on end now, and all others in order.
        drop(end);
        accepting.abort();
        let _ = accepting.await;
        let _ = timeout(patience, async {
            while !limiter.is_empty() {
                sleep(SHUTDOWN_LOOK).await;
            }
        })
        .await;
    });
    runtime.shutdown_timeout(patience);
}

async fn serve_tls(
    stream: TcpStream,
    address: SocketAddr,
    tls: &ServerTls,
    spoken: (Spoken, Ending),
    administration: Arc<Administration>,
    permit: ConnectionPermit,
) {
    match timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|certificate| certificate.clone().into_owned());
            serve_connection(stream, Peer::Remote { address, certificate }, spoken, permit).await;
        }
        Ok(Err(error)) => match tls::refused_certificate(&error) {
            Some(why) => {
                if let Some(times) = tls.count_refused() {
                    tracing::warn!(%address, times, "Refused a client of the control API: {why}");
                }
                let recorded = tokio::task::spawn_blocking(move || {
                    administration.audit().write(Event::failed_login(Identity::Unknown, address, why));
                });
                // What a panic there had to say stands in its own message.
                let _ = recorded.await;
            }
            None => tracing::debug!(%address, %error, "a TLS handshake failed"),
        },
        Err(_) => tracing::debug!(%address, "a TLS handshake took too long"),
    }
}

async fn serve_connection<S>(
    stream: S,
    peer: Peer,
    (spoken, ending): (Spoken, Ending),
    permit: ConnectionPermit,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let identified = Extension(permit.identified.clone());
    let spoken = spoken.with(|router| router.layer(Extension(peer)).layer(identified));
    match spoken {
        Spoken::Http1(router) => {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
            // A client that has said all it has to say still gets its answer.
            http.keep_alive(false).half_close(true);
            let responses = TowerToHyperService::new(router.layer(Extension(ending)));
            let (duration, permit) = (permit.duration(), Arc::new(permit));
            let service = service_fn(move |request: Request<Incoming>| {
                let (permit, is_question) = (permit.clone(), *request.method() == Method::GET);
                let response = responses.call(request);
                async move { response.await.map(|response| kept_within(&permit, is_question, response)) }
            });
            match timeout(duration, http.serve_connection(TokioIo::new(stream), service)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a control connection failed"),
                Err(_) => tracing::debug!("a control connection took too long"),
            }
        }
        Spoken::Grpc(router) => {
            let mut http = http2::Builder::new(TokioExecutor::new());
            http.timer(TokioTimer::new())
                .max_concurrent_streams(CALLS_PER_CONNECTION_MAX)
                .max_header_list_size(HEAD_BYTES_MAX as u32)
                .keep_alive_interval(CALLER_PING_INTERVAL)
                .keep_alive_timeout(CALLER_PING_TIMEOUT);
            let answers = TowerToHyperService::new(router);
            let calls = Arc::new(AtomicU64::new(0));
            let service = service_fn({
                let calls = calls.clone();
                move |request| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    answers.call(request)
                }
            });
            let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
            // An idle client returns its permit to others.
            let (mut seen, mut patience) = (0, HEAD_TIMEOUT);
            loop {
                match timeout(patience, connection.as_mut()).await {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => {
                        return tracing::debug!(%error, "a connection of ceph-nvmeof's calls failed");
                    }
                    Err(_) if calls.load(Ordering::Relaxed) == seen => return,
                    Err(_) => (seen, patience) = (calls.load(Ordering::Relaxed), CALLER_IDLE_MAX),
                }
            }
        }
    }
}

/// Returns the response, or a refusal where clients have not read too many others. A small one, and
/// that to a change, are never held back.
fn kept_within(permit: &ConnectionPermit, is_question: bool, response: Response) -> Response {
    let held = response.extensions().get::<Held>().map(|held| held.0 as u64);
    let bytes = held.or_else(|| response.body().size_hint().exact()).unwrap_or_default();
    let is_free = !is_question || bytes <= UNREAD_BYTES_FREE;
    if is_free || permit.holds(usize::try_from(bytes).unwrap_or(usize::MAX)) {
        return response;
    }
    let refusal = Refusal::new(503, "responses that this client or others do not read take too much memory");
    routes::refuse(&refusal.hint("read them, or ask again later"))
}
