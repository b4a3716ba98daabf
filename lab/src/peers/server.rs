//! The targets that are compared, each as a process of its own on one processor and on the loopback: how it is started,
//! when it is ready, how it is ended. It keeps out who asks it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::means::{Means, NAMESPACE_MIB};
use super::workload::Workload;
use crate::guard::Guard;
use crate::load;
use crate::program::Program;

/// The subsystem of all NVMe targets, and the iSCSI target.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:target";
pub(crate) const IQN: &str = "iqn.2026-01.io.selvedge:target";
/// Time until a server is ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// Time for tgtadm, and for filling a namespace.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);
const FILL_TIMEOUT: Duration = Duration::from_secs(60);
/// Path of tgtd's control sockets.
const TGT_SOCKETS: &str = "/var/run/tgtd";
/// Clients that qemu-nbd lets in at the same time: more than any workload has connections.
const NBD_CLIENTS: &str = "128";

/// A kind of server, with the options that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// `selvedge serve` with one reactor and a memory namespace.
    Selvedge,
    /// SPDK's nvmf_tgt with a malloc bdev. It polls: it has its processor as long as it runs.
    Spdk,
    /// qemu-nbd over the page cache, through io_uring: of its three ways the fastest here, several
    /// times faster than the threads that it uses by default.
    QemuNbd,
    /// tgt's tgtd with threads that read and write the page cache.
    TgtRdwr,
    /// tgt's tgtd with Linux AIO, which is O_DIRECT.
    TgtAio,
}

/// A server that serves. Dropping it ends it.
pub(crate) struct Serving {
    program: Program,
    pub(crate) address: SocketAddr,
    /// Guards of tgtd's sockets: it ignores SIGTERM as long as it has a target, and would leave two
    /// sockets behind.
    tgt_sockets: Option<[Guard; 2]>,
    pub(crate) command: Vec<String>,
}

impl Server {
    const fn name(self) -> &'static str {
        match self {
            Server::Selvedge => "selvedge serve",
            Server::Spdk => "nvmf_tgt",
            Server::QemuNbd => "qemu-nbd",
            Server::TgtRdwr | Server::TgtAio => "tgtd",
        }
    }

    /// Serves with it, on the target's processor, what the workload needs.
    ///
    /// # Errors
    /// It does not start, or does not come to serve.
    pub(crate) fn start(self, means: &Means, workload: &Workload) -> Result<Serving, String> {
        let cpu = means.target_cpu;
        match self {
            Server::Selvedge => {
                let memory = format!("memory:{NAMESPACE_MIB}m");
                let options = [vec!["--namespace", &memory, "--reactors", "1"], means.congestion()].concat();
                let command = Means::on(cpu, &serve(&means.selvedge(), &options));
                let serving = start_selvedge(command)?;
                fill(means, serving.address)?;
                Ok(serving)
            }
            Server::Spdk => {
                let address = free_address()?;
                start_at(self, means.spdk()?.target(cpu, address, workload)?, address)
            }
            Server::QemuNbd => {
                let (address, file) = (free_address()?, means.file()?);
                let port = address.port().to_string();
                let options = ["-f", "raw", "--aio=io_uring", "--cache=writeback", "-t", "-e", NBD_CLIENTS];
                let place = ["-b", "127.0.0.1", "-p", &port, &file];
                let command = [words(&["qemu-nbd"]), words(&options), words(&place)].concat();
                start_at(self, Means::on(cpu, &command), address)
            }
            Server::TgtRdwr => start_tgt(self, cpu, "rdwr", &means.file()?),
            Server::TgtAio => start_tgt(self, cpu, "aio", &means.file()?),
        }
    }
}

/// Serves `file` with our own program, as it is by default.
///
/// # Errors
/// It does not start, or does not come to serve.
pub(crate) fn serve_file(selvedge: &Path, file: &Path) -> Result<Serving, String> {
    let namespace = format!("file:{}", file.display());
    start_selvedge(serve(&selvedge.display().to_string(), &["--namespace", &namespace]))
}

impl Serving {
    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Processor time until now, in seconds.
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
        if self.tgt_sockets.is_some() {
            self.program.kill();
        }
    }
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|&word| word.to_owned()).collect()
}

/// A port of the loopback that is free now.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

fn serve(selvedge: &str, options: &[&str]) -> Vec<String> {
    [words(&[selvedge, "serve", "-s", "0", "-n", NQN, "--allow-any-host"]), words(options)].concat()
}

fn start_selvedge(command: Vec<String>) -> Result<Serving, String> {
    let mut program = Program::start(&command)?;
    let line = program.line(Instant::now() + START_TIMEOUT).unwrap_or_default();
    let address = line.strip_prefix("listening on ").and_then(|address| address.trim().parse().ok());
    let Some(address) = address else {
        return Err(format!("selvedge serve does not listen: {}", program.errors()));
    };
    Ok(Serving { program, address, tgt_sockets: None, command })
}

/// Writes every block once, so that every page is there: reads of unwritten memory all come from
/// one page of zeros, which SPDK's memory does not do.
fn fill(means: &Means, address: SocketAddr) -> Result<(), String> {
    let options = format!(
        "bench -a {address} -n {NQN} --rw write --bs 128k --iodepth 8 --size {NAMESPACE_MIB}m --destroy-data -o json"
    );
    let options: Vec<String> = options.split(' ').map(str::to_owned).collect();
    let command = [vec![means.selvedge()], options].concat();
    let mut program = Program::start(&Means::on(means.host_cpu, &command))?;
    match program.finished(Instant::now() + FILL_TIMEOUT)? {
        Some(ended) if ended.status.success() => Ok(()),
        _ => Err(format!("the namespace cannot be filled: {}", program.errors())),
    }
}

fn start_at(server: Server, command: Vec<String>, address: SocketAddr) -> Result<Serving, String> {
    let program = Program::start(&command)?;
    let mut serving = Serving { program, address, tgt_sockets: None, command };
    await_port(server, &mut serving)?;
    Ok(serving)
}

fn start_tgt(server: Server, cpu: usize, bstype: &str, file: &str) -> Result<Serving, String> {
    let address = free_address()?;
    // tgtd's control port is not a port but a number below 32,768 in the name of a socket: half of the port will do.
    let control = (address.port() / 2).to_string();
    let guard = |end: &str| {
        let socket = format!("{TGT_SOCKETS}/socket.{control}{end}");
        Guard::new(Path::new(&socket)).map_err(|error| format!("{socket}: {error}"))
    };
    let sockets = [guard("")?, guard(".lock")?];
    let portal = format!("portal={address}");
    let command = Means::on(cpu, &words(&["tgtd", "-f", "-C", &control, "--iscsi", &portal]));
    let program = Program::start(&command)?;
    let mut serving = Serving { program, address, tgt_sockets: Some(sockets), command };
    await_port(server, &mut serving)?;
    let tgtadm = |arguments: &str| -> Result<(), String> {
        let mut words = words(&["tgtadm", "-C", &control, "--lld", "iscsi"]);
        words.extend(arguments.split(' ').map(|word| word.replace("FILE", file)));
        let mut program = Program::start(&words)?;
        match program.finished(Instant::now() + ORDER_TIMEOUT)? {
            Some(ended) if ended.status.success() => Ok(()),
            _ => Err(format!("tgtadm {arguments}: {}", program.errors())),
        }
    };
    tgtadm(&format!("--op new --mode target --tid 1 -T {IQN}"))?;
    let unit = format!("--op new --mode logicalunit --tid 1 --lun 1 --bstype {bstype} -b FILE");
    tgtadm(&unit)?;
    tgtadm("--op bind --mode target --tid 1 -I 127.0.0.1")?;
    serving.command.extend(["with".to_owned(), unit]);
    Ok(serving)
}

/// Waits until the server answers at its port.
fn await_port(server: Server, serving: &mut Serving) -> Result<(), String> {
    let deadline = Instant::now() + START_TIMEOUT;
    while TcpStream::connect_timeout(&serving.address, LOOK).is_err() {
        if serving.program.ended(Instant::now() + LOOK)?.is_some() || Instant::now() >= deadline {
            return Err(format!("{} does not listen: {}", server.name(), serving.errors()));
        }
    }
    Ok(())
}
