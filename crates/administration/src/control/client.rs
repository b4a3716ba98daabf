//! The client of the control API, for the commands: one request, one answer, over the target's socket or over TCP
//! with its token.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use command_line::plain_text::plain;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::Token;
pub use super::ask::encode;
use super::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, NEW_PROCESS_INTERVAL, NEW_PROCESS_TIMEOUT};
use super::socket::{default_folders, living_sockets};
use super::tls::{ClientTls, OwnCertificate};
use crate::failure::Failure;
use crate::flags::control::ControlTlsFlags;
use crate::spec::endpoint::Endpoint;

/// Client of the control API of one target.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    token: Option<Token>,
    tls: Option<ClientTls>,
    patience: Duration,
    is_for_terminal: bool,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl Client {
    /// A client of that address, or without one of the only target that runs here. By TCP the flags say who it is.
    pub fn new(
        endpoint: Option<&Endpoint>,
        token: Option<&Path>,
        tls: &ControlTlsFlags,
    ) -> Result<Self, Failure> {
        let endpoint = match endpoint {
            Some(Endpoint::None) => {
                return Err(Failure::usage(
                    "a command needs a target to ask: --control unix:PATH or tls:HOST:PORT",
                ));
            }
            Some(endpoint) => endpoint.clone(),
            None => only_target()?,
        };
        let token = token.map(Token::read).transpose()?;
        let own = tls.control_cert.clone().zip(tls.control_key.clone());
        let own = own.map(|(certificate, key)| OwnCertificate { certificate, key });
        if let (Endpoint::Tcp(_), None) = (&endpoint, &token) {
            return Err(Failure::usage(
                "the target requires a token over TCP: add --control-token-file FILE",
            ));
        }
        if let (Endpoint::Tls { .. }, None, None) = (&endpoint, &token, &own) {
            let what = "the target requires authentication: add --control-token-file FILE, or --control-cert and --control-key";
            return Err(Failure::usage(what));
        }
        let has_tls = matches!(endpoint, Endpoint::Tls { .. });
        let tls = has_tls.then(|| ClientTls::new(tls.control_ca.as_deref(), own.as_ref())).transpose()?;
        Ok(Self { endpoint, token, tls, patience: ANSWER_TIMEOUT, is_for_terminal: false })
    }

    /// A client of the only target that runs here, if there is one.
    pub fn of_only_target() -> Result<Self, Failure> {
        Self::new(None, None, &ControlTlsFlags::default())
    }

    /// The same, waiting for an answer only so long: for questions that are asked again.
    #[must_use]
    pub fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same, for answers that are printed on a terminal: their texts have neither control characters nor line breaks. They are
    /// names, paths and reasons of all who may change the target, and might forge lines.
    #[must_use]
    pub fn for_terminal(self) -> Self {
        Self { is_for_terminal: true, ..self }
    }

    /// Asks for a value.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.value(Method::GET, path, None)
    }

    /// Asks for a text that is not JSON.
    pub fn text(&self, path: &str) -> Result<String, Failure> {
        let bytes = self.ask(Method::GET, path, None)?;
        String::from_utf8(bytes.into())
            .map_err(|_| Failure::failed(format!("{} sent a response that is not text", self.endpoint)))
    }

    /// Asks for a change, and gives what it answers.
    pub fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T, Failure> {
        self.value(method, path, Some(body))
    }

    /// Asks for something to be gone.
    pub fn delete(&self, path: &str) -> Result<(), Failure> {
        self.ask(Method::DELETE, path, None).map(drop)
    }

    /// Asks for something to be done that is said by the path alone, and gives what it answers, if that is something.
    pub fn order(&self, method: Method, path: &str) -> Result<Value, Failure> {
        let bytes = self.ask(method, path, None)?;
        if bytes.is_empty() { Ok(Value::Null) } else { self.read(&bytes) }
    }

    fn value<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        self.read(&self.ask(method, path, body)?)
    }

    fn read<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Failure> {
        let invalid = |error: serde_json::Error| {
            Failure::failed(format!("invalid response from {}: {error}", self.endpoint))
        };
        if !self.is_for_terminal {
            return serde_json::from_slice(bytes).map_err(invalid);
        }
        let mut answer: Value = serde_json::from_slice(bytes).map_err(invalid)?;
        make_plain(&mut answer);
        serde_json::from_value(answer).map_err(invalid)
    }

    /// Sends a request. One that reaches the old process of a target which is handed over is sent to the new process.
    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, Failure> {
        let request = self.request(method, path, body)?;
        let mut until: Option<Instant> = None;
        loop {
            let outcome = self.exchange(request.clone());
            let is_awaited = match &outcome {
                Ok((status, _)) => *status == StatusCode::MISDIRECTED_REQUEST,
                // Between both, no process listens.
                Err(error) => {
                    let is_gone =
                        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
                    is_gone && until.is_some()
                }
            };
            if !is_awaited || until.is_some_and(|until| Instant::now() >= until) {
                let (status, answer) = outcome.map_err(|error| self.failed(&error))?;
                return if status.is_success() { Ok(answer) } else { Err(self.refused(status, &answer)) };
            }
            until.get_or_insert_with(|| Instant::now() + NEW_PROCESS_TIMEOUT);
            thread::sleep(NEW_PROCESS_INTERVAL);
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "selvedge");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        request.body(Full::new(Bytes::from(body))).map_err(Failure::failed)
    }

    /// Sends a request by a connection of its own, and returns the response.
    fn exchange(&self, request: Request<Full<Bytes>>) -> io::Result<(StatusCode, Bytes)> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build()?;
        runtime.block_on(async {
            let exchange = async {
                match &self.endpoint {
                    Endpoint::Unix(path) => exchange(UnixStream::connect(path), request).await,
                    Endpoint::Tcp(address) => {
                        let all = address.remote(0).map_err(io::Error::other)?;
                        exchange(TcpStream::connect(all.as_slice()), request).await
                    }
                    Endpoint::Tls { host, port } => exchange(self.connect(host, *port), request).await,
                    Endpoint::None => Err(io::ErrorKind::NotFound.into()),
                }
            };
            let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
            timeout(self.patience, exchange).await.unwrap_or_else(late)
        })
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<TlsStream<TcpStream>> {
        let tls = self.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // A certificate has an address without its interface.
        let bare = host.split('%').next().unwrap_or_default();
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        tls.connector().connect(name, TcpStream::connect((host, port)).await?).await
    }

    fn failed(&self, error: &io::Error) -> Failure {
        if let Some(why) = self.tls.as_ref().and_then(|tls| tls.explain(error)) {
            return Failure::failed(format!("cannot reach {}: {why}", self.endpoint));
        }
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "; no target serves there: `selvedge serve` starts one"
            }
            io::ErrorKind::PermissionDenied => "; only the target's user may use it",
            io::ErrorKind::InvalidData if matches!(self.endpoint, Endpoint::Tcp(_)) => {
                "; does the target use tls: there?"
            }
            _ => "",
        };
        Failure::failed(format!("cannot reach {}: {error}{hint}", self.endpoint))
    }

    fn refused(&self, status: StatusCode, answer: &[u8]) -> Failure {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let Some(error) = text("error") else {
            return Failure::failed(format!("{} answers {status} without a reason", self.endpoint));
        };
        let field = text("field").map(|field| format!("{field}: ")).unwrap_or_default();
        let hint = text("hint").map(|hint| format!("; {hint}")).unwrap_or_default();
        Failure::failed(format!("{field}{error}{hint}"))
    }
}

/// Makes all texts in an answer plain.
fn make_plain(answer: &mut Value) {
    match answer {
        Value::String(text) => *text = plain(text),
        Value::Array(values) => values.iter_mut().for_each(make_plain),
        Value::Object(fields) => fields.values_mut().for_each(make_plain),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The only target whose socket is where sockets are by default.
fn only_target() -> Result<Endpoint, Failure> {
    let folders = default_folders();
    let mut sockets: Vec<PathBuf> = folders.iter().flat_map(|folder| living_sockets(folder)).collect();
    match sockets.len() {
        1 => Ok(Endpoint::Unix(sockets.remove(0))),
        0 => {
            let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            Err(Failure::failed(format!(
                "no target is found (none in {}): start one with `selvedge serve`, or name its control socket with --control",
                folders.join(", ")
            )))
        }
        _ => {
            let names: Vec<String> = sockets.iter().map(|path| format!("unix:{}", path.display())).collect();
            Err(Failure::usage(format!(
                "several targets run here; add --control with one of {}",
                names.join(", ")
            )))
        }
    }
}

/// Cause of a broken connection, in place of "the message is incomplete".
fn cause(error: hyper::Error) -> io::Error {
    if error.is_parse() {
        return io::Error::new(io::ErrorKind::InvalidData, error);
    }
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
    let known = source.and_then(|source| source.get_ref()?.downcast_ref::<rustls::Error>());
    match known {
        Some(known) => io::Error::new(io::ErrorKind::InvalidData, known.clone()),
        None => io::Error::other(error),
    }
}

async fn exchange<S>(
    connecting: impl Future<Output = io::Result<S>>,
    request: Request<Full<Bytes>>,
) -> io::Result<(StatusCode, Bytes)>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let stream = connecting.await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let driving = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(cause)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| {
        let large = error.is::<LengthLimitError>();
        if large { io::Error::other("the answer is too large") } else { io::Error::other(error) }
    })?;
    driving.abort();
    Ok((status, body.to_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use prerequisite::patience;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_for_a_terminal_are_plain() {
        let (endpoint, patience) = (Endpoint::None, ANSWER_TIMEOUT);
        let client = Client { endpoint, token: None, tls: None, patience, is_for_terminal: false };
        let answer = br#"{"path": "/a\u001b[2J\nnamespace 2", "remarks": ["\u009b1m", 7]}"#;
        let exact: Value = client.read(answer).expect("JSON");
        assert_eq!(exact["path"], "/a\u{1b}[2J\nnamespace 2");
        let shown: Value = client.for_terminal().read(answer).expect("JSON");
        assert_eq!(
            shown,
            json!({ "path": "/a\u{fffd}[2J\u{fffd}namespace 2", "remarks": ["\u{fffd}1m", 7] })
        );
    }

    /// Takes a request on each connection, and sends these responses.
    fn serve(socket: &Path, responses: &'static [&'static str]) -> thread::JoinHandle<()> {
        let listener = UnixListener::bind(socket).expect("a socket");
        thread::spawn(move || {
            for response in responses {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream.set_read_timeout(Some(patience())).expect("it can have one");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("a head");
                    request.extend(byte);
                }
                stream.write_all(response.as_bytes()).expect("it can be sent");
            }
        })
    }

    #[test]
    fn a_request_to_the_old_process_is_sent_to_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("control.sock");
        let client = |path: &Path| Client {
            endpoint: Endpoint::Unix(path.to_owned()),
            token: None,
            tls: None,
            patience: patience(),
            is_for_terminal: false,
        };
        const ELSEWHERE: &str =
            "HTTP/1.1 421 Misdirected Request\r\ncontent-length: 15\r\n\r\n{\"error\": \"it\"}";
        const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7";
        let served = serve(&socket, &[ELSEWHERE, ELSEWHERE, DONE]);
        assert_eq!(client(&socket).get::<u32>("/v1/status").ok(), Some(7));
        served.join().expect("three requests");
        // Nothing listens at the beginning: that is not waited for.
        assert!(client(&folder.path().join("none.sock")).get::<u32>("/v1/status").is_err());
    }
}
