//! The target: serves namespaces to NVMe/TCP hosts. It opens everything first, listens then, and ends cleanly.
//! Protocol bytes are the `nvme` crate's, blocks are `backend`'s, time and sockets are `ring`'s.

mod admin;
mod command;
mod connection;
mod controller;
mod counters;
mod discovery;
mod end;
mod fabrics;
mod features;
mod identify;
mod listener;
mod log_page;
mod namespace;
mod reactor;
mod slot;
mod storage;
mod subsystem;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{BackendConfig, BackendError};
use crate::limits::{NAMESPACES_MAX, PORTS_MAX, SUBSYSTEMS_MAX};
use crate::ring::{Engine, RingOptions};

use listener::Listener;
use reactor::Reactor;
use subsystem::{Fabric, Port, Subsystem};

/// What a target serves, and how.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Where it listens. Port 0 takes a free one.
    pub ports: Vec<PortConfig>,
    /// What it serves.
    pub subsystems: Vec<SubsystemConfig>,
    /// How many reactors, or where.
    pub reactors: Reactors,
    /// What is below the reactors.
    pub engine: Engine,
    /// Longest time a reactor polls before it sleeps, in microseconds; 0 never polls.
    pub poll_us_max: u64,
}

/// An address to listen on.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Address and port.
    pub address: SocketAddr,
    /// The address that discovery tells hosts, where it differs from the one listened on.
    pub advertise: Option<String>,
}

/// A subsystem and its namespaces.
#[derive(Clone, Debug)]
pub struct SubsystemConfig {
    /// NVMe qualified name.
    pub nqn: String,
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Model number, at most 40 ASCII characters.
    pub model: String,
    /// Whether every host may connect.
    pub allow_any_host: bool,
    /// NQNs of the hosts that may connect.
    pub hosts: Vec<String>,
    /// The namespaces.
    pub namespaces: Vec<NamespaceConfig>,
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct NamespaceConfig {
    /// Namespace identifier, from 1 on.
    pub nsid: u32,
    /// Where its blocks live.
    pub backend: BackendConfig,
    /// Bytes of a block: 512 or 4096.
    pub block_size: u32,
    /// Its UUID; without one, it is derived from the subsystem's name and the identifier, and so stays the same.
    pub uuid: Option<[u8; 16]>,
}

/// How many reactors serve, or on which processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reactors {
    /// So many, wherever the system's scheduler puts them.
    Count(usize),
    /// One on each of these processors.
    Cpus(Vec<usize>),
}

/// Why a target could not start.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The configuration contradicts itself or a limit.
    #[error("{0}")]
    Config(String),
    /// A namespace's backend could not be opened.
    #[error("namespace {nsid} of {nqn}: {source}")]
    Namespace {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// What is wrong with it.
        source: BackendError,
    },
    /// It could not listen.
    #[error("cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A reactor could not start.
    #[error("cannot start a reactor: {0}")]
    Reactor(io::Error),
}

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port with -s, or 0 for a free one",
        io::ErrorKind::AddrNotAvailable => "; it is no address of this machine",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege, choose a higher one with -s",
        _ => "",
    }
}

/// A running target. Dropping it shuts it down.
#[derive(Debug)]
pub struct Target {
    fabric: Arc<Fabric>,
    listener: Option<Listener>,
    reactors: Vec<Reactor>,
    ports: Vec<SocketAddr>,
}

impl Target {
    /// Opens all namespaces, starts the reactors, and listens.
    ///
    /// # Errors
    /// When the configuration is wrong, a backend cannot be opened or an address not be had. Nothing listens then.
    pub fn start(config: &TargetConfig) -> Result<Self, TargetError> {
        check(config)?;
        let mut subsystems = Vec::with_capacity(config.subsystems.len());
        for subsystem in &config.subsystems {
            subsystems.push(Arc::new(Subsystem::open(subsystem)?));
        }
        let sockets = Listener::bind(&config.ports)?;
        let ports: Vec<SocketAddr> = sockets.iter().map(|(address, _)| *address).collect();
        let advertised = config.ports.iter().zip(&ports);
        let fabric = Arc::new(Fabric::new(
            subsystems,
            advertised
                .map(|(port, address)| Port { address: *address, advertise: port.advertise.clone() })
                .collect(),
        ));
        let options = RingOptions { engine: config.engine, poll_us_max: config.poll_us_max };
        let places: Vec<Option<usize>> = match &config.reactors {
            Reactors::Count(count) => vec![None; *count],
            Reactors::Cpus(cpus) => cpus.iter().copied().map(Some).collect(),
        };
        let mut reactors = Vec::with_capacity(places.len());
        for (number, cpu) in places.into_iter().enumerate() {
            reactors
                .push(Reactor::start(number, cpu, options, fabric.clone()).map_err(TargetError::Reactor)?);
        }
        fabric.introduce(reactors.iter().map(Reactor::mailbox).collect());
        let listener = Listener::start(sockets, fabric.clone()).map_err(TargetError::Reactor)?;
        Ok(Self { fabric, listener: Some(listener), reactors, ports })
    }

    /// The addresses it listens on, with the real ports.
    pub fn ports(&self) -> &[SocketAddr] {
        &self.ports
    }

    /// Processor time all reactors have used.
    pub fn cpu_time(&self) -> Duration {
        self.reactors.iter().map(Reactor::cpu_time).sum()
    }

    /// Connections there are now.
    pub fn connections(&self) -> usize {
        self.reactors.iter().map(|reactor| reactor.mailbox().connections()).sum()
    }

    /// Stops listening, lets outstanding commands finish (for `limits::SHUTDOWN_TIMEOUT_MS` at most), closes all
    /// connections and all backends.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.stop();
        }
        for reactor in &self.reactors {
            reactor.mailbox().send(reactor::Message::Shutdown);
        }
        for reactor in self.reactors.drain(..) {
            reactor.join();
        }
        self.fabric.forget_reactors();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The checks that need nothing opened.
fn check(config: &TargetConfig) -> Result<(), TargetError> {
    let wrong = |message: String| Err(TargetError::Config(message));
    if config.ports.is_empty() || config.ports.len() > PORTS_MAX {
        return wrong(format!("a target listens on 1 to {PORTS_MAX} addresses"));
    }
    if config.subsystems.len() > SUBSYSTEMS_MAX {
        return wrong(format!("a target serves at most {SUBSYSTEMS_MAX} subsystems"));
    }
    match &config.reactors {
        Reactors::Count(0) => return wrong("a target needs at least one reactor".to_owned()),
        Reactors::Cpus(cpus) => {
            let available = crate::ring::core::available();
            if cpus.is_empty() {
                return wrong("a target needs at least one reactor".to_owned());
            }
            if let Some(cpu) = cpus.iter().find(|cpu| !available.contains(cpu)) {
                return wrong(format!("this process may not run on CPU {cpu}; it may on {available:?}"));
            }
        }
        Reactors::Count(_) => {}
    }
    for (at, subsystem) in config.subsystems.iter().enumerate() {
        if config.subsystems[..at].iter().any(|other| other.nqn == subsystem.nqn) {
            return wrong(format!("subsystem {} is there twice", subsystem.nqn));
        }
        check_subsystem(subsystem)?;
    }
    Ok(())
}

fn check_subsystem(config: &SubsystemConfig) -> Result<(), TargetError> {
    let wrong = |message: String| Err(TargetError::Config(format!("subsystem {}: {message}", config.nqn)));
    let name = nvme::discovery::Nqn::new(&config.nqn);
    match &name {
        Err(error) => return wrong(error.to_string()),
        Ok(name) if name.is_discovery() => return wrong("this name is the discovery service's".to_owned()),
        Ok(_) => {}
    }
    if !config.serial.is_ascii() || config.serial.len() > 20 {
        return wrong(format!("serial number {:?} is not at most 20 ASCII characters", config.serial));
    }
    if !config.model.is_ascii() || config.model.len() > 40 {
        return wrong(format!("model {:?} is not at most 40 ASCII characters", config.model));
    }
    for host in &config.hosts {
        if let Err(error) = nvme::discovery::Nqn::new(host) {
            return wrong(format!("host {host}: {error}"));
        }
    }
    for (at, namespace) in config.namespaces.iter().enumerate() {
        let nsid = namespace.nsid;
        if nsid == 0 || nsid > NAMESPACES_MAX {
            return wrong(format!("namespace {nsid}: identifiers go from 1 to {NAMESPACES_MAX}"));
        }
        if config.namespaces[..at].iter().any(|other| other.nsid == nsid) {
            return wrong(format!("namespace {nsid} is there twice"));
        }
        if !matches!(namespace.block_size, 512 | 4096) {
            return wrong(format!(
                "namespace {nsid}: block={} is neither 512 nor 4096",
                namespace.block_size
            ));
        }
    }
    Ok(())
}
