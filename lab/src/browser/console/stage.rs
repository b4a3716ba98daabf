//! A server in a thread that plays a target: its page is a real target's, its data is made up, and it can refuse tokens or be
//! gone. It knows no browser.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::packet_paths::PacketPaths;
use super::{fixture, made_sweeps};

/// The token that opens all.
pub(super) const TOKEN: &str = "selvedge_token_of_read";
/// Token of a role that may not read.
pub(super) const WEAK_TOKEN: &str = "selvedge_token_of_metrics";

/// Bytes of a request's head that are read: a browser's has a tenth.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// A browser that does not read or write for this long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events of one stream, which is asked for again then.
const TICKS: u64 = 60;

/// State of the played target.
struct Play {
    /// Set while it accepts no connection, and ends those that it has.
    is_gone: AtomicBool,
    /// The token that was good has expired.
    has_expired: AtomicBool,
    /// Counter that ends streams when it changes.
    scene: AtomicU64,
    /// The paths of its packets.
    packet_paths: PacketPaths,
    /// Requests without the page.
    asked: Mutex<Vec<String>>,
}

impl Play {
    fn new(packet_paths: PacketPaths) -> Self {
        Self {
            is_gone: AtomicBool::default(),
            has_expired: AtomicBool::default(),
            scene: AtomicU64::default(),
            packet_paths,
            asked: Mutex::default(),
        }
    }
}

/// The server. Dropping it has its thread end with its next connection.
pub(super) struct Stage {
    pub(super) address: SocketAddr,
    play: Arc<Play>,
}

impl Stage {
    /// Plays a target whose page is the one at `target`.
    pub(super) fn open(target: SocketAddr, version: &str, packet_paths: PacketPaths) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot listen on the loopback: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (play, version) = (Arc::new(Play::new(packet_paths)), Arc::new(version.to_owned()));
        std::thread::spawn({
            let play = play.clone();
            move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    if Arc::strong_count(&play) == 1 {
                        return;
                    }
                    if play.is_gone.load(Ordering::Relaxed) {
                        continue;
                    }
                    let (play, version) = (Arc::downgrade(&play), version.clone());
                    std::thread::spawn(move || {
                        let Some(play) = play.upgrade() else { return };
                        // A browser that goes away is none of its concern.
                        let _ = serve(&stream, &play, target, &version);
                    });
                }
            }
        });
        Ok(Self { address, play })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/console", self.address)
    }

    /// Makes the target absent, or present.
    pub(super) fn set_gone(&self, is_gone: bool) {
        self.play.is_gone.store(is_gone, Ordering::Relaxed);
        self.play.scene.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the token expired, or valid.
    pub(super) fn set_expired(&self, has_expired: bool) {
        self.play.has_expired.store(has_expired, Ordering::Relaxed);
        self.play.scene.fetch_add(1, Ordering::Relaxed);
    }

    /// All that was asked for besides the page, since this was asked last.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.play.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.play.scene.fetch_add(1, Ordering::Relaxed);
        // Its thread looks up. Where that fails, it ends with this process.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: &TcpStream, play: &Play, target: SocketAddr, version: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut lines = BufReader::new(stream).take(HEAD_BYTES_MAX);
    while lines.read_until(b'\n', &mut head)? > 2 {}
    let head = String::from_utf8_lossy(&head);
    let sent = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    // What was sent and not read would cost the browser the answer.
    lines.set_limit(sent.unwrap_or(0));
    io::copy(&mut lines, &mut io::sink())?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if path.starts_with("/console") {
        return pass_on(stream, target, &head);
    }
    play.asked.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
    let header = head.lines().find_map(|line| line.split_once(": Bearer ").map(|(_, token)| token.trim()));
    match header {
        Some(TOKEN) if !play.has_expired.load(Ordering::Relaxed) => {}
        Some(TOKEN) => {
            return refuse(stream, "401 Unauthorized", "token read has expired at 2026-01-02T03:04:05Z");
        }
        Some(WEAK_TOKEN) => {
            let why = "token metrics may not do that: it takes the role read, and this is metrics";
            return refuse(stream, "403 Forbidden", why);
        }
        _ => return refuse(stream, "401 Unauthorized", "the token is not one that is known"),
    }
    match path.as_str() {
        "/v1/live" => follow(stream, play, version),
        "/v1/subsystems" => answer(stream, "200 OK", &fixture::subsystems()),
        "/v1/topology" => answer(stream, "200 OK", &play.packet_paths.shown),
        "/v1/topology/picture?bare" => {
            answer_with(stream, "200 OK", "image/svg+xml", &play.packet_paths.picture)
        }
        "/v1/audit" => answer(stream, "200 OK", &fixture::audit()),
        "/v1/sweeps" => answer(stream, "200 OK", &made_sweeps::all()),
        path if path.contains("/sweeps/") => match made_sweeps::one(path) {
            Some(sweep) => answer(stream, "200 OK", &sweep),
            None => answer(stream, "404 Not Found", &json!({ "error": "no such sweep was published here" })),
        },
        "/v1/gateways" => answer(stream, "200 OK", &fixture::gateways()),
        "/v1/preview" => answer(stream, "200 OK", &fixture::preview()),
        path if path.starts_with("/v1/gateways/") => {
            answer(stream, "200 OK", &fixture::gateways()["gateways"][1])
        }
        path if path.ends_with("/history") => answer(stream, "200 OK", &fixture::history()),
        _ => answer(stream, "404 Not Found", &json!({ "error": format!("there is nothing at {path}") })),
    }
}

/// The real target's own page, with all that it says about it.
fn pass_on(mut stream: &TcpStream, target: SocketAddr, head: &str) -> io::Result<()> {
    let mut there = TcpStream::connect(target)?;
    there.set_read_timeout(Some(PATIENCE))?;
    there.write_all(head.as_bytes())?;
    io::copy(&mut there, &mut stream)?;
    Ok(())
}

fn refuse(stream: &TcpStream, status: &str, why: &str) -> io::Result<()> {
    answer(stream, status, &json!({ "error": why, "hint": "`selvedge token create` makes another" }))
}

fn answer(stream: &TcpStream, status: &str, value: &Value) -> io::Result<()> {
    answer_with(stream, status, "application/json", &value.to_string())
}

fn answer_with(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
}

/// Sends events until the scene ends.
fn follow(mut stream: &TcpStream, play: &Play, version: &str) -> io::Result<()> {
    let scene = play.scene.load(Ordering::Relaxed);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    for number in 0..TICKS {
        if number % 5 == 0 {
            stream.write_all(format!("event: roster\ndata: {}\n\n", fixture::roster(version)).as_bytes())?;
        }
        if number % 10 == 0 {
            stream.write_all(format!("event: findings\ndata: {}\n\n", fixture::findings()).as_bytes())?;
        }
        stream.write_all(format!("event: tick\ndata: {}\n\n", fixture::tick(number)).as_bytes())?;
        for _ in 0..20 {
            if play.scene.load(Ordering::Relaxed) != scene {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}
