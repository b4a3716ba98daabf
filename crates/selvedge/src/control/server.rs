//! The server of the control API: one thread that takes connections and requests apart, within limits, and a few that
//! do what they ask. A slow or silent client costs its own connection only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::administration::Administration;
use super::limits::{
    CONNECTION_TIMEOUT, CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_TIMEOUT, SHUTDOWN_TIMEOUT, THREADS_MAX,
};
use super::socket::{Listening, SocketFile};
use super::{Token, routes};
use crate::failure::Failure;
use crate::spec::endpoint::Endpoint;

/// The running server. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Control {
    endpoint: Endpoint,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Serves `administration` there. With a token, only those who show it are served.
    pub(crate) fn start(
        listening: Listening,
        token: Option<Token>,
        administration: Arc<Administration>,
    ) -> Result<Self, Failure> {
        let endpoint = listening.endpoint();
        if let (Endpoint::Tcp(address), None) = (&endpoint, &token) {
            return Err(Self::without_token(*address));
        }
        Self::serve(listening, endpoint, routes::router(administration, token))
    }

    /// Serves the metrics alone, to everybody who reaches the address.
    pub(crate) fn start_metrics(
        address: SocketAddr,
        administration: Arc<Administration>,
    ) -> Result<Self, Failure> {
        let listener = std::net::TcpListener::bind(address).map_err(|error| {
            Failure::failed(format!(
                "cannot listen on {address} for metrics: {error}; choose another with --metrics"
            ))
        })?;
        let listening = Listening::Tcp(listener);
        let endpoint = listening.endpoint();
        Self::serve(listening, endpoint, routes::metrics_router(administration))
    }

    fn serve(listening: Listening, endpoint: Endpoint, router: Router) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("the control API cannot start: {error}"));
        let mut runtime = Builder::new_current_thread();
        runtime.enable_io().enable_time().max_blocking_threads(THREADS_MAX).thread_name("control-work");
        let runtime = runtime.build().map_err(failed)?;
        let acceptor = {
            let _inside = runtime.enter();
            Acceptor::new(listening).map_err(failed)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(runtime, acceptor, router, stopped))
            .map_err(failed)?;
        Ok(Self { endpoint, stop: Some(stop), thread: Some(thread) })
    }

    /// There is no TCP without a token.
    pub(crate) fn without_token(address: SocketAddr) -> Failure {
        Failure::usage(format!(
            "anybody could change the target by {address}: give a secret with --control-token-file FILE"
        ))
    }

    /// Where it is reached.
    pub(crate) fn endpoint(&self) -> &Endpoint {
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
    }
}

/// A listener of either kind.
enum Acceptor {
    /// The file is there as long as the listener is.
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
    Tcp(TcpListener),
}

impl Acceptor {
    fn new(listening: Listening) -> io::Result<Self> {
        match listening {
            Listening::Unix { listener, file } => {
                listener.set_nonblocking(true)?;
                Ok(Self::Unix { listener: UnixListener::from_std(listener)?, _file: file })
            }
            Listening::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
        }
    }

    /// Takes one connection and serves it beside the others.
    async fn accept(&self, router: &Router, places: &Arc<Semaphore>) -> io::Result<()> {
        match self {
            Self::Unix { listener, .. } => {
                let stream = listener.accept().await?.0;
                if let Ok(place) = places.clone().try_acquire_owned() {
                    tokio::spawn(serve_connection(stream, router.clone(), place));
                }
            }
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                if let Ok(place) = places.clone().try_acquire_owned() {
                    tokio::spawn(serve_connection(stream, router.clone(), place));
                }
            }
        }
        Ok(())
    }
}

fn serve(runtime: Runtime, acceptor: Acceptor, router: Router, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async move {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let accepting = tokio::spawn({
            let places = places.clone();
            async move {
                loop {
                    if let Err(error) = acceptor.accept(&router, &places).await {
                        tracing::warn!(%error, "the control API cannot accept a connection");
                        // There may be no descriptor free; asking at once again would not make one.
                        sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        // The sender says nothing: it goes.
        let _ = stopped.await;
        accepting.abort();
        let _ = accepting.await;
        let _ = timeout(SHUTDOWN_TIMEOUT, places.acquire_many(CONNECTIONS_MAX as u32)).await;
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
}

async fn serve_connection<S>(stream: S, router: Router, _place: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // A client that has said all it has to say still gets its answer.
    http.keep_alive(false).half_close(true);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a control connection failed"),
        Err(_) => tracing::debug!("a control connection took too long"),
    }
}
