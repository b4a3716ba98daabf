//! Requests to a gateway's control socket. It keeps out what they ask for.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A gateway that is opening images answers when it has them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// More than the metrics of a thousand namespaces.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Body of the answer of the gateway behind `socket` to a request without one.
///
/// # Errors
/// It does not answer, or refuses.
pub(super) fn get(socket: &Path, path: &str) -> Result<String, String> {
    ask(socket, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"), ANSWER_TIMEOUT)
}

/// Body of its answer, within `limit`, to a request with a body. The method and path are `what`.
///
/// # Errors
/// It does not answer, or refuses.
pub(super) fn send(socket: &Path, what: &str, body: &str, limit: Duration) -> Result<String, String> {
    let head = format!("{what} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    ask(socket, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()), limit)
}

fn ask(socket: &Path, request: &str, limit: Duration) -> Result<String, String> {
    let what = request.lines().next().unwrap_or_default();
    let failed = |error: std::io::Error| format!("{}: {what}: {error}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(limit)).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    body_of(&String::from_utf8_lossy(&bytes)).map(str::to_owned)
}

fn body_of(answer: &str) -> Result<&str, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("an answer without an end of its head")?;
    let line = head.lines().next().unwrap_or_default();
    if line.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
        Ok(body)
    } else {
        Err(format!("a gateway answers `{line}`: {body}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_no_body() {
        assert_eq!(body_of("HTTP/1.0 201 Created\r\na: b\r\n\r\n{}"), Ok("{}"));
        let refusal = body_of("HTTP/1.1 404 Not Found\r\n\r\n{}").unwrap_err();
        assert!(refusal.contains("404"), "{refusal}");
        assert!(body_of("").is_err());
    }
}
