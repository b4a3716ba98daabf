//! The storage servers that are compared, each as a process of its own that serves one file on the loopback: how it is
//! started, when it is ready, how it is ended. It keeps out who asks it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::load;
use crate::program::Program;

/// The subsystem of ours, and the iSCSI target.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:target";
pub(crate) const IQN: &str = "iqn.2026-01.io.selvedge:target";
/// How long until a server is ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// How long tgtadm may take.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);
/// Where tgtd has its control sockets.
const TGT_SOCKETS: &str = "/var/run/tgtd";

/// A kind of server, with the options that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Server {
    /// `selvedge serve`, which opens files with O_DIRECT where the file system has that.
    Selvedge,
    /// tgt's tgtd with threads that read and write the page cache.
    TgtRdwr,
    /// tgt's tgtd with Linux AIO, which is O_DIRECT.
    TgtAio,
    /// qemu-nbd over the page cache, through io_uring: of its three ways the fastest here, several times faster than the
    /// threads that it uses unless told otherwise.
    QemuNbd,
    /// qemu-nbd with O_DIRECT, through io_uring.
    QemuNbdDirect,
}

/// A server that serves. Dropping it ends it.
pub(crate) struct Serving {
    program: Program,
    server: Server,
    pub(crate) address: SocketAddr,
    /// What tgtd leaves behind.
    sockets: Vec<String>,
    /// How it was started, without places of this machine.
    pub(crate) command: Vec<String>,
}

impl Server {
    /// What answers: a name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Server::Selvedge => "NVMe/TCP, selvedge serve",
            Server::TgtRdwr => "iSCSI, tgtd rdwr",
            Server::TgtAio => "iSCSI, tgtd aio",
            Server::QemuNbd => "NBD, qemu-nbd",
            Server::QemuNbdDirect => "NBD, qemu-nbd direct",
        }
    }

    /// Serves `file` with it. `selvedge` is our own program.
    ///
    /// # Errors
    /// It does not start, or does not come to serve.
    pub(crate) fn start(self, selvedge: &Path, file: &Path) -> Result<Serving, String> {
        let (selvedge, file) = (selvedge.display().to_string(), file.display().to_string());
        match self {
            Server::Selvedge => start_selvedge(&selvedge, &file),
            Server::TgtRdwr => start_tgt(self, "rdwr", &file),
            Server::TgtAio => start_tgt(self, "aio", &file),
            Server::QemuNbd => start_nbd(self, "writeback", &file),
            Server::QemuNbdDirect => start_nbd(self, "none", &file),
        }
    }
}

impl Serving {
    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Its processor time until now, in seconds.
    pub(crate) fn cpu_s(&self) -> Option<f64> {
        load::cpu_s(self.program.id())
    }

    /// Ends it, and says what it has said on its error output.
    pub(crate) fn errors(&mut self) -> String {
        self.program.errors()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if matches!(self.server, Server::TgtRdwr | Server::TgtAio) {
            // It ignores SIGTERM as long as it has a target, and leaves its sockets behind.
            self.program.kill();
            for socket in &self.sockets {
                let _ = std::fs::remove_file(socket);
            }
        }
    }
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|&word| word.to_owned()).collect()
}

/// A command as it is kept: where its program and the file are is this machine's own matter.
pub(crate) fn named(words: &[String], file: Option<&str>) -> Vec<String> {
    let kept = |word: &String| file.map_or_else(|| word.clone(), |file| word.replace(file, "FILE"));
    let mut words: Vec<String> = words.iter().map(kept).collect();
    if let Some(program) = words.first_mut()
        && let Some((_, name)) = program.rsplit_once('/')
    {
        *program = name.to_owned();
    }
    words
}

/// A port of the loopback that is free now.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

fn start_selvedge(selvedge: &str, file: &str) -> Result<Serving, String> {
    let namespace = format!("file:{file}");
    let command =
        words(&[selvedge, "serve", "-s", "0", "-n", NQN, "--allow-any-host", "--namespace", &namespace]);
    let mut program = Program::start(&command)?;
    let line = program.line(Instant::now() + START_TIMEOUT).unwrap_or_default();
    let address = line.strip_prefix("listening on ").and_then(|address| address.trim().parse().ok());
    let Some(address) = address else {
        return Err(format!("selvedge serve does not listen: {}", program.errors()));
    };
    let (server, command) = (Server::Selvedge, named(&command, Some(file)));
    Ok(Serving { program, server, address, sockets: Vec::new(), command })
}

fn start_tgt(server: Server, bstype: &str, file: &str) -> Result<Serving, String> {
    let address = free_address()?;
    // tgtd's control port is not a port but a number below 32,768 in the name of a socket: half of the port will do.
    let control = (address.port() / 2).to_string();
    let sockets = ["", ".lock"].map(|end| format!("{TGT_SOCKETS}/socket.{control}{end}")).to_vec();
    let portal = format!("portal={address}");
    let command = words(&["tgtd", "-f", "-C", &control, "--iscsi", &portal]);
    let program = Program::start(&command)?;
    let mut serving = Serving { program, server, address, sockets, command: named(&command, Some(file)) };
    await_port(&mut serving)?;
    let order = |order: &str| -> Result<(), String> {
        let mut words = words(&["tgtadm", "-C", &control, "--lld", "iscsi"]);
        words.extend(order.split(' ').map(|word| word.replace("FILE", file)));
        let mut program = Program::start(&words)?;
        match program.finished(Instant::now() + ORDER_TIMEOUT)? {
            Some(ended) if ended.status.success() => Ok(()),
            _ => Err(format!("tgtadm {order}: {}", program.errors())),
        }
    };
    order(&format!("--op new --mode target --tid 1 -T {IQN}"))?;
    let unit = format!("--op new --mode logicalunit --tid 1 --lun 1 --bstype {bstype} -b FILE");
    order(&unit)?;
    order("--op bind --mode target --tid 1 -I 127.0.0.1")?;
    serving.command.extend(["with".to_owned(), unit]);
    Ok(serving)
}

fn start_nbd(server: Server, cache: &str, file: &str) -> Result<Serving, String> {
    let address = free_address()?;
    let (cache, port) = (format!("--cache={cache}"), address.port().to_string());
    let options =
        ["-f", "raw", "--aio=io_uring", &cache, "-t", "-e", "16", "-b", "127.0.0.1", "-p", &port, file];
    let command = [words(&["qemu-nbd"]), words(&options)].concat();
    let program = Program::start(&command)?;
    let mut serving =
        Serving { program, server, address, sockets: Vec::new(), command: named(&command, Some(file)) };
    await_port(&mut serving)?;
    Ok(serving)
}

/// Waits until somebody answers at its port.
fn await_port(serving: &mut Serving) -> Result<(), String> {
    let deadline = Instant::now() + START_TIMEOUT;
    while TcpStream::connect_timeout(&serving.address, LOOK).is_err() {
        if serving.program.ended(Instant::now() + LOOK)?.is_some() || Instant::now() >= deadline {
            return Err(format!("{} does not listen: {}", serving.server.name(), serving.errors()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_names_no_place() {
        let command = words(&["/opt/selvedge", "serve", "--namespace", "file:/proc/7/fd/3"]);
        assert_eq!(named(&command, Some("/proc/7/fd/3")).join(" "), "selvedge serve --namespace file:FILE");
        assert_eq!(named(&words(&["/sbin/tgtd", "-f"]), None).join(" "), "tgtd -f");
    }
}
