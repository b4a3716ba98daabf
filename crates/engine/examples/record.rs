//! Records a host: starts the target of all recordings, with a recorder in front of it, and writes down what goes over each
//! connection until its standard input ends.
//! How it was used for each host is in `tests/recordings/README.md`.
//!
//! ```text
//! record FILE [--title TEXT] [--listen ADDRESS:PORT] [--advertise ADDRESS] [--iops N] [--bytes N] [--delay MS]
//! ```
//!
//! `--iops` limits each namespace, and `--delay` holds each PDU back: with them, what sends as much as it can
//! fits into a recording. `--bytes` limits what is moved each second, when the recording is played as well: with 1, the first
//! command is carried out, and all others wait, for instance to be aborted.
//!
//! Lines on its standard input change the target meanwhile: `remove namespace 2`, `restore namespace 2`.

#[path = "../tests/all/recording/config.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod config;
#[path = "../tests/all/recording/format.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod format;
#[path = "../tests/all/recording/wire.rs"]
mod wire;

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Setting;
use engine::ring::Engine;
use format::{Change, Event, Recording};

/// Record of events, in the order in which they pass.
type Log = Arc<Mutex<Vec<Event>>>;

struct Arguments {
    file: String,
    title: String,
    listen: String,
    setting: Setting,
    delay: Duration,
}

fn arguments() -> Result<Arguments, String> {
    let mut words = std::env::args().skip(1);
    let file = words.next().ok_or("the first argument is the file to write")?;
    let mut found = Arguments {
        file,
        title: "unknown".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        setting: Setting::default(),
        delay: Duration::ZERO,
    };
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--title" => found.title = value,
            "--listen" => found.listen = value,
            "--advertise" => found.setting.advertise = Some(value),
            "--iops" => found.setting.iops = Some(number(&value)?),
            "--bytes" => found.setting.bytes = Some(number(&value)?),
            "--delay" => found.delay = Duration::from_millis(number(&value)?),
            _ => return Err(format!("there is no {name}")),
        }
    }
    Ok(found)
}

fn number(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{value} is not a number"))
}

fn note(log: &Log, event: Event) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(event);
}

/// Relay of one direction of a connection.
struct Relay {
    log: Log,
    from: TcpStream,
    to: TcpStream,
    /// Delay of each PDU.
    delay: Duration,
    /// Lock that lets one host's PDU through at a time; the target reads them in the order
    /// in which they are written down.
    turn: Option<Arc<Mutex<()>>>,
}

impl Relay {
    /// Passes on what comes, a PDU at a time. Each is written down before it is passed on, so that whatever it leads to is
    /// written behind it.
    fn pass(mut self, note_pdu: impl Fn(Vec<u8>) -> Event, end: Event) {
        let mut input = Vec::new();
        let mut room = [0; 65536];
        while let Ok(received @ 1..) = self.from.read(&mut room) {
            input.extend_from_slice(&room[..received]);
            while let Some(length) = input.get(4..8) {
                let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
                if input.len() < length.max(8) {
                    break;
                }
                let pdu: Vec<u8> = input.drain(..length.max(8)).collect();
                let turn = self.turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
                std::thread::sleep(self.delay);
                note(&self.log, note_pdu(pdu.clone()));
                // An end that is gone takes nothing more, and what it had to say is still read.
                if self.to.write_all(&pdu).is_ok() && turn.is_some() {
                    wire::await_read(&self.to);
                }
            }
        }
        note(&self.log, end);
        let _ = self.to.shutdown(Shutdown::Write);
    }
}

fn serve(listener: &TcpListener, target: SocketAddr, delay: Duration, log: &Log) {
    let turn = Arc::new(Mutex::new(()));
    for (number, host) in listener.incoming().enumerate() {
        let opened = host.and_then(|host| {
            let target = TcpStream::connect(target)?;
            for stream in [&host, &target] {
                stream.set_nodelay(true)?;
            }
            Ok((host.try_clone()?, target.try_clone()?, host, target))
        });
        let Ok((host_in, target_in, host_out, target_out)) = opened else { continue };
        note(log, Event::Open(number));
        let relay = |from, to, turn| Relay { log: log.clone(), from, to, delay, turn };
        let (to_target, to_host) =
            (relay(host_in, target_out, Some(turn.clone())), relay(target_in, host_out, None));
        std::thread::spawn(move || {
            to_target.pass(|pdu| Event::Host(number, pdu), Event::HostEnds(number));
        });
        std::thread::spawn(move || {
            to_host.pass(|pdu| Event::Target(number, pdu), Event::TargetEnds(number));
        });
    }
}

fn record() -> Result<(), String> {
    let Arguments { file, title, listen, setting, delay } = arguments()?;
    let target = config::target(&setting, Engine::Automatic);
    let listener = TcpListener::bind(&listen).map_err(|error| format!("{listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let log = Log::default();
    let (own, behind) = (log.clone(), target.ports()[0]);
    std::thread::spawn(move || serve(&listener, behind, delay, &own));
    println!("recording {} on {address}", config::NQN);
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        match Change::parse(&line) {
            Some(change) => {
                note(&log, Event::Change(change));
                config::change(&target, change, &setting);
            }
            None => println!("`{line}` is neither `remove namespace N` nor `restore namespace N`"),
        }
    }
    let mut header = vec![("title".to_owned(), title)];
    header.extend(setting.advertise.map(|address| ("advertise".to_owned(), address)));
    header.extend(setting.bytes.map(|bytes| ("bytes".to_owned(), bytes.to_string())));
    let events = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let text = Recording { header, events }.to_text();
    std::fs::write(&file, &text).map_err(|error| format!("{file}: {error}"))?;
    println!("{file}: {} bytes", text.len());
    Ok(())
}

fn main() -> std::process::ExitCode {
    match record() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("record: {reason}");
            std::process::ExitCode::FAILURE
        }
    }
}
